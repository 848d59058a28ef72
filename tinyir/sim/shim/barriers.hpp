// What fibers wait at: barriers of the block, meetings of a warp's lanes, the cluster's barrier, mbarriers, registers to be freed.
#pragma once
#include "shadow.hpp"

namespace tinyir_sim {

// --- barriers of the block

inline void open(Block& block, unsigned id) {
  Barrier& barrier = block.barriers[id];
  bool is_of_all = !barrier.wanted;
  if (is_of_all) meet(block);
  Fiber* first = &machine->fibers[block.rank * machine->threads];
  for (unsigned t = 0; t < machine->threads; ++t) {
    Fiber& fiber = first[t];
    if (fiber.wait.kind != TINYIR_AT_BARRIER || fiber.wait.id != id) continue;
    const int results[] = {barrier.all, barrier.any, barrier.count};
    fiber.result = results[fiber.result];  // it held the TinyirFold
    if (!is_of_all) acquire(fiber, barrier.clocks);
    set_ready(fiber);
  }
  barrier = Barrier();
}

// Counts an arrival; true when it was the last.
inline bool arrive(unsigned id, unsigned count, int predicate, int line) {
  Block& block = block_of(*current);
  Barrier& barrier = block.barriers[id];
  if (!barrier.arrived) {
    barrier.line = line;
    barrier.wanted = count;
    barrier.all = 1;
    barrier.code = line ? 0 : current->code;
  }
  barrier.arrived++;
  barrier.all &= predicate != 0;
  barrier.any |= predicate != 0;
  barrier.count += predicate != 0;
  current->wait = TinyirWait{TINYIR_AT_BARRIER, line, id, barrier.arrived, count ? count : block.live, {}, line ? 0 : current->code};
  if (barrier.wanted != count || (!count && (barrier.line != line || barrier.code != (line ? 0 : current->code)))) stop(TINYIR_DIVERGENCE, line);
  if (count) release(*current, barrier.clocks);
  return barrier.arrived == (count ? count : block.live);
}

// --- lanes of a warp

// The lanes of a mask that have not returned meet; when all have come, the payloads are exchanged and all go on.
inline void finish_meeting(Block& block, unsigned first, Meeting& meeting) {
  unsigned arrived = meeting.arrived;
  if (!arrived || arrived != (meeting.mask & block.live_lanes[first / kWarp])) return;
  meeting.complete(meeting.payloads, arrived);
  meeting.arrived = 0;
  for (unsigned lane = 0; lane < kWarp; ++lane)
    if (arrived >> lane & 1) set_ready(machine->fibers[block.rank * machine->threads + first + lane]);
}

inline void meet_lanes(unsigned mask, void* payload, TinyirComplete complete, int line) {
  Block& block = block_of(*current);
  unsigned lane = current->number % kWarp, first = current->number - lane;
  if (!(mask >> lane & 1)) stop(TINYIR_COLLECTIVE, line);
  Meeting& meeting = block.meetings[first + unsigned(__builtin_ctz(mask))];
  if (!meeting.arrived) {
    meeting.complete = complete;
    meeting.mask = mask;
  }
  unsigned wanted = mask & block.live_lanes[first / kWarp];
  unsigned come = unsigned(__builtin_popcount(meeting.arrived)) + 1;
  current->wait = TinyirWait{TINYIR_AT_COLLECTIVE, line, mask, come, unsigned(__builtin_popcount(wanted)), {}, line ? 0 : current->code};
  if (meeting.mask != mask || meeting.complete != complete) stop(TINYIR_COLLECTIVE, line);
  meeting.arrived |= 1u << lane;
  meeting.payloads[lane] = payload;
  if (meeting.arrived != wanted) return wait_here();
  finish_meeting(block, first, meeting);
}

inline void warp_fence(unsigned mask) {
  unsigned first = current->number - current->number % kWarp;
  Fiber* lanes = &machine->fibers[current->block * machine->threads + first];
  Clocks all;
  for (unsigned lane = 0; lane < kWarp; ++lane)
    if (mask >> lane & 1 && first + lane < machine->threads) release(lanes[lane], all);
  for (unsigned lane = 0; lane < kWarp; ++lane)
    if (mask >> lane & 1 && first + lane < machine->threads) acquire(lanes[lane], all);
}

// --- the cluster's barrier: arrivals and waits are apart

inline void open_cluster() {
  if (machine->cluster_arrived < machine->live) return;
  machine->cluster_arrived = 0;
  machine->cluster_known.swap(machine->cluster_gathered);
  machine->cluster_gathered.clear();
  for (Fiber& fiber : machine->fibers) {
    fiber.has_arrived_at_cluster = false;
    if (fiber.wait.kind != TINYIR_AT_CLUSTER) continue;
    acquire(fiber, machine->cluster_known);
    set_ready(fiber);
  }
}

inline void arrive_at_cluster() {
  if (current->has_arrived_at_cluster) refuse_operand(TINYIR_OPERAND, "cluster_arrive", "arrivals", "1 before cluster_wait", 2);
  current->has_arrived_at_cluster = true;
  machine->cluster_arrived++;
  release(*current, machine->cluster_gathered);
  open_cluster();
}

inline void wait_for_cluster() {
  if (!current->has_arrived_at_cluster) return acquire(*current, machine->cluster_known);  // the round is over
  current->wait = TinyirWait{TINYIR_AT_CLUSTER, 0, 0, machine->cluster_arrived, machine->live, {}, current->code};
  wait_here();
}

// --- mbarriers

constexpr uint64_t kMbarrierMark = 0x6d62617272696572u;  // in the barrier's 8 bytes, so that a stray store into them shows
constexpr int64_t kMostBytes = (1 << 20) - 1;

inline Mbarrier& mbarrier_at(SharedPlace place) {
  uint64_t word;
  memcpy(&word, place.data(), sizeof word);
  for (Mbarrier& barrier : place.block->mbarriers)
    if (barrier.at == place.offset && word == (kMbarrierMark ^ place.offset)) {
      const Cell& cell = place.block->cells[place.offset / kCell];
      if (machine->is_traced && !is_ordered(*place.block, cell.wrote, cell.writer, *current))
        stop_between(TINYIR_RACE, place.offset, false, cell.writer, cell.wrote_code);
      return barrier;
    }
  stop_at(TINYIR_NO_BARRIER, place.offset, false);
}

inline void make_mbarrier(unsigned address, unsigned count) {
  must(address % 8 == 0, "mbarrier_init", "barrier", "% 8 = 0", address);
  must(count >= 1 && count <= kMostBytes, "mbarrier_init", "count", "1..1048575", count);
  SharedPlace place = place_of(address, 8);
  uint64_t word, mark = kMbarrierMark ^ place.offset;
  memcpy(&word, place.data(), sizeof word);
  if (word == mark) stop_at(TINYIR_NO_BARRIER, place.offset, true);
  note_write(*place.block, *current, place.offset, 8, current->code);
  memcpy(place.data(), &mark, sizeof mark);
  for (Mbarrier& old : place.block->mbarriers)
    if (old.at == place.offset) old.at = ~0u;
  Mbarrier made{};
  made.at = place.offset;
  made.count = made.pending = count;
  made.maker = current->id;
  place.block->mbarriers.push_back(made);
}

inline void fence_mbarriers() {
  for (Block& block : machine->blocks)
    for (Mbarrier& barrier : block.mbarriers)
      if (barrier.maker == current->id) barrier.is_fenced = true;
}

inline void end_phase(Block& block, Mbarrier& barrier) {
  if (barrier.pending || barrier.bytes) return;
  unsigned address = barrier.at | (block.rank + 1) << 24;
  for (Fiber& fiber : machine->fibers)  // one that was let through, but has not run since, would find the phase after it over too
    if (fiber.wait.kind == TINYIR_AT_MBARRIER && fiber.wait.id == address && fiber.is_ready) {
      current = &fiber;
      fault.code = fiber.wait.code;
      fault.numbers[0] = fiber.wait.numbers[0];
      fault.numbers[1] = barrier.phases + 1;
      stop_at(TINYIR_BEHIND, barrier.at, false);
    }
  barrier.pending = barrier.count;
  barrier.phases++;
  join(barrier.known, barrier.gathered);
  for (Fiber& fiber : machine->fibers)
    if (fiber.wait.kind == TINYIR_AT_MBARRIER && fiber.wait.id == address && (barrier.phases & 1) != unsigned(fiber.wait.numbers[0])) {
      acquire(fiber, barrier.known);
      fiber.is_ready = true;  // its `wait` stays until it runs
    }
}

inline void check_fenced(const Mbarrier& barrier) {
  if (!barrier.is_fenced) stop_between(TINYIR_UNFENCED, barrier.at, false, barrier.maker, 0);
}

inline void count_bytes(Mbarrier& barrier, int64_t bytes) {
  barrier.bytes += bytes;
  if (barrier.bytes <= kMostBytes && barrier.bytes >= -kMostBytes) return;
  fault.numbers[0] = barrier.bytes;
  stop_at(TINYIR_BYTES, barrier.at, false);
}

inline void arrive_at(unsigned address, int64_t bytes) {
  SharedPlace place = place_of(address, 8);
  Mbarrier& barrier = mbarrier_at(place);
  if (place.block->rank != current->block) {
    check_fenced(barrier);
    if (!place.block->live) stop_at(TINYIR_LEFT, barrier.at, false);
  }
  if (!barrier.pending) {
    fault.numbers[0] = barrier.count;
    stop_at(TINYIR_ARRIVALS, barrier.at, false);
  }
  count_bytes(barrier, bytes);
  release(*current, barrier.gathered);
  barrier.pending--;
  end_phase(*place.block, barrier);
}

// The first phase that the fiber has not seen end, as its waits so far tell. A wait for the other parity on a fresh barrier is one for
// the phase before the first.
inline uint32_t& unseen(Fiber& fiber, unsigned address, uint32_t first) {
  for (auto& known_phase : fiber.phases)
    if (known_phase.first == address) return known_phase.second;
  fiber.phases.emplace_back(address, first);
  return fiber.phases.back().second;
}

inline void note_seen(Mbarrier& barrier, uint32_t ended) {
  Seen made{current->id, current->clock, ended}, *older = nullptr;
  unsigned count = 0;
  for (Seen& one : barrier.seen)
    if (one.who == made.who && (++count, !older || one.ended < older->ended)) older = &one;
  if (count < 2) barrier.seen.push_back(made);
  else if (older->ended < ended) *older = made;
}

// The first phase that the fiber does not know to have ended: it may have waited for others who saw phases end, and go over them.
inline uint32_t unknown_phase(const Mbarrier& barrier, uint32_t next) {
  for (const Seen& one : barrier.seen)
    if (one.ended > next && (!machine->is_traced || is_ordered(block_of(*current), one.stamp, one.who, *current))) next = one.ended;
  return next;
}

inline void wait_for_phase(unsigned address, unsigned parity) {
  must(parity <= 1, "mbarrier_wait", "parity", "0..1", parity);
  SharedPlace place = place_of(address, 8);
  must(place.block->rank == current->block, "mbarrier_wait", "barrier", "of the own block", address);
  Mbarrier& barrier = mbarrier_at(place);
  address = place.offset | (place.block->rank + 1) << 24;
  uint32_t ended = barrier.phases;
  uint32_t& next = unseen(*current, address, parity == (ended & 1) ? ended : ended ? ended - 1 : 0);
  if (ended > next && (next & 1) == parity) next = unknown_phase(barrier, next);
  if (parity != (ended & 1)) {  // the phase before this one has that parity: it has ended
    if (ended > next + 1 && (next & 1) == parity) {
      fault.numbers[0] = parity;
      fault.numbers[1] = ended;
      stop_at(TINYIR_BEHIND, place.offset, false);
    }
    next = ended;
    acquire(*current, barrier.known);
    note_seen(barrier, ended);
    return;
  }
  if ((next & 1) == parity && ended > next) {  // it ended, and so did the one after it: the wait is for a phase two later
    fault.numbers[0] = parity;
    fault.numbers[1] = ended;
    stop_at(TINYIR_BEHIND, place.offset, false);
  }
  current->wait = TinyirWait{TINYIR_AT_MBARRIER, 0, address, barrier.count - barrier.pending, barrier.count, {parity, barrier.bytes}, current->code};
  wait_here();
  current->wait = TinyirWait{};
  unseen(*current, address, 0) = ended + 1;
  note_seen(mbarrier_at(place), ended + 1);  // the barriers may have moved while it waited
}

// --- registers: what one warpgroup gives back another may take

inline void set_registers(unsigned registers, bool is_increase) {
  const char* name = is_increase ? "take_registers" : "give_registers";
  must(registers >= 24 && registers <= 256 && registers % 8 == 0, name, "registers", "24..256, % 8 = 0", registers);
  Block& block = block_of(*current);
  if (!is_increase) {
    must(registers <= current->registers, name, "registers", "<= those it has", registers);
    block.free_registers += current->registers - registers;
    current->registers = registers;
    Fiber* first = &machine->fibers[block.rank * machine->threads];
    for (unsigned t = 0; t < machine->threads; ++t)
      if (first[t].wait.kind == TINYIR_AT_REGISTERS) set_ready(first[t]);
    return;
  }
  must(registers >= current->registers, name, "registers", ">= those it has", registers);
  while (block.free_registers < registers - current->registers) {
    current->wait = TinyirWait{TINYIR_AT_REGISTERS, 0, registers, 0, 0, {block.free_registers, 0}, current->code};
    wait_here();
  }
  block.free_registers -= registers - current->registers;
  current->registers = registers;
}

}  // namespace tinyir_sim
