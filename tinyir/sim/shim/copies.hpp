// Asynchronous copies. A tensor copy lands as late as its barrier's waiters allow: when no fiber can run, and one waits for it, or earlier
// where the seed says so. A thread's cp.async lands, and its tensor stores read and write, when that thread waits for them.
#pragma once
#include "barriers.hpp"
#include "numbers.hpp"

namespace tinyir_sim {

struct Work {  // that an asynchronous unit has still to do
  enum Kind { kLoad, kSend, kWords, kProducts } kind;
  unsigned fiber;  // who issued it
  uint64_t code;
  TinyirMap map;  // of a load
  int at[8];      // of windows: the corner of the first, then how far inside
  unsigned to, barrier, blocks;  // blocks: mask of ranks
  unsigned from, bytes;          // of what a block sends
  char words[16];                // or a thread, of its own
  unsigned block, warpgroup, upto;  // of products: all before `upto`
};

inline void finish_products(const Work& work);

// --- swizzles: bits 4.. of an address are changed by bits 7.. of it

inline unsigned swizzled(unsigned address, unsigned span) { return span ? address ^ (address >> 3 & (span - 1) & 0x70) : address; }

// --- boxes of a tensor

inline bool is_of_windows(const TinyirMap& map) { return map.counts[0] != 0; }

inline unsigned box_bytes(const TinyirMap& map) {
  unsigned bytes = map.item;
  if (is_of_windows(map)) return bytes * map.box[0] * map.box[1];
  for (unsigned a = 0; a < map.rank; ++a) bytes *= (map.box[a] + map.steps[a] - 1u) / map.steps[a];
  return bytes;
}

// Calls `row(offset in the box, address of its first element, first element inside, elements inside)` for each row of the box.
template <class Row>
inline void for_rows(const TinyirMap& map, const int* at, Row row) {
  unsigned counts[5] = {1, 1, 1, 1, 1};
  for (unsigned a = 0; a < map.rank; ++a) counts[a] = (map.box[a] + map.steps[a] - 1u) / map.steps[a];
  unsigned row_bytes = counts[0] * map.item, offset = 0;
  int64_t low = at[0] < 0 ? -int64_t(at[0]) : 0, high = int64_t(map.sizes[0]) - at[0];
  high = high > counts[0] ? counts[0] : high;
  for (unsigned l = 0; l < counts[4]; ++l)
    for (unsigned k = 0; k < counts[3]; ++k)
      for (unsigned j = 0; j < counts[2]; ++j)
        for (unsigned i = 0; i < counts[1]; ++i, offset += row_bytes) {
          const unsigned steps[5] = {0, i, j, k, l};
          bool is_inside = high > low;
          uint64_t address = map.base;
          for (unsigned a = 1; a < map.rank; ++a) {
            int64_t place = int64_t(at[a]) + int64_t(steps[a]) * map.steps[a];
            is_inside = is_inside && place >= 0 && uint64_t(place) < map.sizes[a];
            address += uint64_t(place) * map.strides[a - 1];
          }
          row(offset, reinterpret_cast<char*>(address + uint64_t(int64_t(at[0]) * map.item)), is_inside ? unsigned(low) : 0u,
              is_inside ? unsigned(high - low) : 0u);
        }
}

// The same of windows, one a row: the corner walks over the box of all corners, the innermost axis first, then to the next image.
template <class Row>
inline void for_windows(const TinyirMap& map, const int* at, Row row) {
  const unsigned axes = map.rank - 2u;
  int64_t corner[5];
  for (unsigned a = 1; a < map.rank; ++a) corner[a] = at[a];
  int64_t inside = int64_t(map.sizes[0]) - at[0];
  inside = inside > map.box[0] ? map.box[0] : inside;
  for (unsigned w = 0; w < map.box[1]; ++w) {
    bool is_inside = inside > 0 && at[0] >= 0 && corner[axes + 1] >= 0 && uint64_t(corner[axes + 1]) < map.sizes[axes + 1];
    uint64_t address = map.base + uint64_t(int64_t(at[0]) * map.item) + uint64_t(corner[axes + 1]) * map.strides[axes];
    for (unsigned a = 1; a <= axes; ++a) {
      int64_t place = corner[a] + at[map.rank + a - 1];
      is_inside = is_inside && place >= 0 && uint64_t(place) < map.sizes[a];
      address += uint64_t(place) * map.strides[a - 1];
    }
    row(w * map.box[0] * map.item, reinterpret_cast<char*>(address), 0u, is_inside ? unsigned(inside) : 0u);
    unsigned a = 1;
    for (; a <= axes; ++a) {
      corner[a] += map.steps[a];
      if (corner[a] < map.low[a - 1] + int64_t(map.counts[a - 1]) * map.steps[a]) break;
      corner[a] = map.low[a - 1];
    }
    if (a > axes) ++corner[a];
  }
}

inline const TinyirMap& map_at(const void* pointer, const char* function, int rank, const int* at) {
  const TinyirMap& map = *static_cast<const TinyirMap*>(pointer);
  must(map.mark == TINYIR_MAP_MARK, function, "map", "made at the launch", 0);
  must(map.rank == rank, function, "rank", "= that of the map", rank);
  must(at[0] * map.item % 16 == 0, function, "x0", "on 16 bytes", at[0]);
  return map;
}

// --- tensor loads

inline void issue_fetch(unsigned to, const TinyirMap& map, unsigned barrier, int numbers, const int* at, unsigned blocks) {
  must(to % 128 == 0, "tma_load", "to", "% 128 = 0", to);
  must(blocks >> machine->count == 0, "tma_load", "ctas", "of the cluster", blocks);
  unsigned bytes = box_bytes(map);
  SharedPlace own = place_of(to, bytes), on = place_of(barrier, 8);
  must(own.block == on.block, "tma_load", "barrier", "of the block it fills", barrier);
  if (!blocks) blocks = 1u << own.block->rank;
  for (Block& block : machine->blocks) {
    if (!(blocks >> block.rank & 1)) continue;
    if (!block.live) stop_at(TINYIR_LEFT, own.offset, true);
    begin_flight(block, *current, own.offset, bytes);
    check_fenced(mbarrier_at({&block, on.offset}));
  }
  Work work{};
  work.kind = Work::kLoad;
  work.fiber = current->id;
  work.code = current->code;
  work.map = map;
  for (int a = 0; a < numbers; ++a) work.at[a] = at[a];
  work.to = own.offset;
  work.barrier = on.offset;
  work.blocks = blocks;
  machine->work.push_back(work);
}

inline void issue_load(unsigned to, const void* pointer, unsigned barrier, int rank, const int* at, unsigned blocks) {
  const TinyirMap& map = map_at(pointer, "tma_load", rank, at);
  must(!is_of_windows(map), "tma_load", "map", "of boxes", 0);
  issue_fetch(to, map, barrier, rank, at, blocks);
}

// A corner is one of those over which the map walks; an offset has as many bits as the instruction has for it.
inline void issue_windows(unsigned to, const void* pointer, unsigned barrier, int rank, const int* at, unsigned blocks) {
  const char* name = "tma_load_windows";
  const TinyirMap& map = map_at(pointer, name, rank, at);
  must(is_of_windows(map), name, "map", "of windows", 0);
  const int axes = rank - 2, most = axes == 1 ? 65535 : axes == 2 ? 255 : 31;
  for (int a = 1; a <= axes; ++a) {
    int64_t past = int64_t(at[a]) - map.low[a - 1];
    must(past >= 0 && past % map.steps[a] == 0 && past / map.steps[a] < map.counts[a - 1], name, "corner", "of a window", at[a]);
    must(at[rank + a - 1] >= 0 && at[rank + a - 1] <= most, name, "offset", "in its bits", at[rank + a - 1]);
  }
  issue_fetch(to, map, barrier, rank + axes, at, blocks);
}

inline void round_words(char* row, unsigned bytes) {
  for (unsigned at = 0; at < bytes; at += 4) {
    float value;
    memcpy(&value, row + at, 4);
    uint32_t word = float_to_tf32_even(value);
    memcpy(row + at, &word, 4);
  }
}

inline void land(const Work& work) {
  const TinyirMap& map = work.map;
  unsigned bytes = box_bytes(map), row_bytes = map.box[0] * map.item;
  std::vector<char> row(row_bytes);
  auto fill = [&](unsigned offset, char* from, unsigned first, unsigned count) {
    memset(row.data(), 0, row_bytes);
    if (count) note_global(from + first * map.item, count * map.item, false);
    if (count) memcpy(row.data() + first * map.item, from + first * map.item, count * map.item);
    if (map.is_rounded) round_words(row.data(), row_bytes);
    for (Block& block : machine->blocks) {
      if (!(work.blocks >> block.rank & 1)) continue;
      char* shared = shared_of(block);
      for (unsigned chunk = 0; chunk < row_bytes; chunk += 16)
        memcpy(shared + swizzled(work.to + offset + chunk, map.swizzle), row.data() + chunk, 16);
    }
  };
  is_of_windows(map) ? for_windows(map, work.at, fill) : for_rows(map, work.at, fill);
  for (Block& block : machine->blocks) {
    if (!(work.blocks >> block.rank & 1)) continue;
    if (!block.live) stop_at(TINYIR_LEFT, work.to, true);
    end_flight(block, work.to, bytes);
    Mbarrier& barrier = mbarrier_at({&block, work.barrier});
    count_bytes(barrier, -int64_t(bytes));
    end_phase(block, barrier);
  }
}

// --- from one block's shared memory to another's

// 16 bytes that nobody has written: they may be sent, and are no more to be read there than here.
inline bool is_padding(const Block& block, unsigned offset) {
  for (unsigned i = 0; i < 16; ++i)
    if (block.state[offset + i] != kNever) return false;
  return true;
}

// What leaves for `target`, and lands on a barrier there.
inline Work work_to(Work::Kind kind, SharedPlace target, unsigned bytes, SharedPlace on, const char* name) {
  must(target.block == on.block, name, "barrier", "of the block it fills", on.offset);
  if (!target.block->live) stop_at(TINYIR_LEFT, target.offset, true);
  begin_flight(*target.block, *current, target.offset, bytes);
  check_fenced(mbarrier_at(on));
  Work work{};
  work.kind = kind;
  work.fiber = current->id;
  work.code = current->code;
  work.to = target.offset;
  work.barrier = on.offset;
  work.blocks = 1u << target.block->rank;
  work.bytes = bytes;
  return work;
}

inline void land_at(const Work& work, Block& target, const char* from) {
  memcpy(shared_of(target) + work.to, from, work.bytes);
  end_flight(target, work.to, work.bytes);
}

inline void tell(const Work& work, Block& target) {
  Mbarrier& barrier = mbarrier_at({&target, work.barrier});
  count_bytes(barrier, -int64_t(work.bytes));
  end_phase(target, barrier);
}

inline void issue_send(unsigned to, unsigned from, unsigned bytes, unsigned barrier) {
  must(to % 16 == 0, "send_to_cta", "to", "% 16 = 0", to);
  must(from % 16 == 0, "send_to_cta", "from", "% 16 = 0", from);
  must(bytes % 16 == 0 && bytes > 0, "send_to_cta", "bytes", "% 16 = 0", bytes);
  SharedPlace source = place_of(from, bytes);
  must(source.block->rank == current->block, "send_to_cta", "from", "of the own block", from);
  Work work = work_to(Work::kSend, place_of(to, bytes), bytes, place_of(barrier, 8), "send_to_cta");
  for (unsigned chunk = 0; chunk < bytes; chunk += 16) {
    if (!is_padding(*source.block, source.offset + chunk)) note_unit_read(*source.block, *current, source.offset + chunk);
    source.block->readers[(source.offset + chunk) / kPin]++;
  }
  work.from = source.offset;
  work.block = source.block->rank;
  machine->work.push_back(work);
}

inline void issue_words(unsigned to, const void* words, unsigned barrier) {
  must(to % 16 == 0, "send_words", "to", "% 16 = 0", to);
  Work work = work_to(Work::kWords, place_of(to, 16), 16, place_of(barrier, 8), "send_words");
  memcpy(work.words, words, 16);
  machine->work.push_back(work);
}

inline void arrive_words(const Work& work) {
  Block& target = machine->blocks[__builtin_ctz(work.blocks)];
  if (!target.live) stop_at(TINYIR_LEFT, work.to, true);
  land_at(work, target, work.words);
  tell(work, target);
}

inline void arrive_from(const Work& work) {
  Block &source = machine->blocks[work.block], &target = machine->blocks[__builtin_ctz(work.blocks)];
  if (!source.live) stop_at(TINYIR_LEFT, work.from, false);
  if (!target.live) stop_at(TINYIR_LEFT, work.to, true);
  land_at(work, target, shared_of(source) + work.from);
  for (unsigned chunk = 0; chunk < work.bytes; chunk += 16) {
    source.readers[(work.from + chunk) / kPin]--;
    if (is_padding(source, work.from + chunk)) memset(target.state.data() + work.to + chunk, kNever, 16);
  }
  tell(work, target);
}

// --- tensor stores

inline void read_box(TensorStore& store) {
  if (store.is_read) return;
  store.is_read = true;
  unsigned bytes = box_bytes(store.map);
  Block& block = block_of(*current);
  store.box.resize(bytes);
  for (unsigned chunk = 0; chunk < bytes; chunk += 16) {
    unsigned from = swizzled(store.from + chunk, store.map.swizzle);
    memcpy(store.box.data() + chunk, shared_of(block) + from, 16);
    block.readers[from / kPin]--;
  }
}

inline void write_box(TensorStore& store) {
  read_box(store);
  if (store.is_written) return;
  store.is_written = true;
  for_rows(store.map, store.at, [&](unsigned offset, char* to, unsigned first, unsigned count) {
    if (!count) return;
    note_global(to + first * store.map.item, count * store.map.item, true);
    memcpy(to + first * store.map.item, store.box.data() + offset + first * store.map.item, count * store.map.item);
  });
}

inline void issue_store(const void* pointer, unsigned from, int rank, const int* at) {
  const TinyirMap& map = map_at(pointer, "tma_store", rank, at);
  must(!is_of_windows(map), "tma_store", "map", "of boxes", 0);
  must(from % 128 == 0, "tma_store", "from", "% 128 = 0", from);
  for (int a = 0; a < rank; ++a) must(at[a] >= 0, "tma_store", "coordinate", ">= 0", at[a]);
  unsigned bytes = box_bytes(map);
  SharedPlace place = place_of(from, bytes);
  must(place.block->rank == current->block, "tma_store", "from", "of the own block", from);
  for (unsigned chunk = 0; chunk < bytes; chunk += 16) {
    note_unit_read(*place.block, *current, place.offset + chunk);
    place.block->readers[(place.offset + chunk) / kPin]++;
  }
  TensorStore store{};
  store.map = map;
  store.from = place.offset;
  for (int a = 0; a < rank; ++a) store.at[a] = at[a];
  store.code = current->code;
  if (current->stores.empty()) current->stores.emplace_back();
  current->stores.back().push_back(store);
}

inline void commit_stores() {
  if (current->stores.empty()) current->stores.emplace_back();
  current->stores.emplace_back();
}

inline void wait_for_stores(unsigned pending, bool is_read) {
  if (current->stores.size() <= pending + 1) return;
  step_aside();
  size_t done = current->stores.size() - 1 - pending;
  for (size_t g = 0; g < done; ++g)
    for (TensorStore& store : current->stores[g]) is_read ? read_box(store) : write_box(store);
  if (!is_read) current->stores.erase(current->stores.begin(), current->stores.begin() + long(done));
}

// --- cp.async

inline void issue_copy(unsigned to, const void* from, unsigned size, unsigned bytes) {
  must(to % size == 0, "cp_async", "to", "aligned to its size", to);
  unsigned off = unsigned(reinterpret_cast<uint64_t>(from) % size);
  must(off == 0 || !bytes, "cp_async", "from % size", "0", off);
  must(bytes <= size, "cp_async", "bytes", "<= its size", bytes);
  SharedPlace place = place_of(to, size);
  must(place.block->rank == current->block, "cp_async", "to", "of the own block", to);
  begin_flight(*place.block, *current, place.offset, size);
  if (current->copies.empty()) current->copies.emplace_back();
  current->copies.back().push_back(Copy{place.offset, size, bytes, static_cast<const char*>(from), current->code});
}

inline void commit_copies() {
  if (current->copies.empty()) current->copies.emplace_back();
  current->copies.emplace_back();
}

inline void wait_for_copies(unsigned pending) {
  Block& block = block_of(*current);
  uint64_t code = current->code;
  while (current->copies.size() > pending + 1) {
    for (const Copy& copy : current->copies.front()) {
      char read[16] = {};
      current->code = copy.code;  // a fault of the copy is one of the line that issued it
      if (copy.bytes) note_global(copy.from, copy.bytes, false);
      memcpy(read, copy.from, copy.bytes);
      memcpy(shared_of(block) + copy.to, read, copy.size);
      end_flight(block, copy.to, copy.size);
      mark_written(block, *current, copy.to, copy.size, copy.code);
    }
    current->copies.erase(current->copies.begin());
  }
  current->code = code;
}

inline void fence_proxy() {
  tick(*current);
  current->fenced = current->clock;
}

// --- the units' work

inline void do_work(size_t number) {
  Work work = machine->work[number];
  machine->work.erase(machine->work.begin() + long(number));
  current = &machine->fibers[work.fiber];
  current->code = work.code;
  switch (work.kind) {
    case Work::kLoad: return land(work);
    case Work::kSend: return arrive_from(work);
    case Work::kWords: return arrive_words(work);
    case Work::kProducts: return finish_products(work);
  }
  current = nullptr;
}

// The oldest piece of work that a fiber waits for, else the oldest: what nobody waits for stays in flight, and whoever uses it all the same
// is seen.
inline size_t oldest_wanted() {
  std::vector<unsigned> wanted;
  for (const Fiber& fiber : machine->fibers) {
    bool is_new = wanted.empty() || wanted.back() != fiber.wait.id;
    if (fiber.wait.kind == TINYIR_AT_MBARRIER && is_new) wanted.push_back(fiber.wait.id);
  }
  for (size_t number = 0; number < machine->work.size(); ++number) {
    const Work& work = machine->work[number];
    if (work.kind == Work::kProducts) return number;
    for (unsigned address : wanted)
      if (work.barrier == (address & 0xffffff) && work.blocks >> ((address >> 24) - 1) & 1) return number;
  }
  return 0;
}

// Does one piece of the units' work; false when there is none.
inline bool let_units_work() {
  if (machine->work.empty()) return false;
  do_work(draw.is_seeded ? size_t(mix(draw.random) % machine->work.size()) : oldest_wanted());
  return true;
}

// What a fiber may not leave behind.
inline void check_left() {
  for (auto& group : current->stores)
    for (TensorStore& store : group)
      if (!store.is_read) {
        fault.code = store.code;
        stop_at(TINYIR_LEFT, store.from, false);
      }
}

}  // namespace tinyir_sim
