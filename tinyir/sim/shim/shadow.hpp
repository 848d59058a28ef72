// What is known of every byte of shared memory: whether it was written, whether a copy is on its way to it, which asynchronous unit still
// reads it, who touched it last and what orders that. A clock is a stamp that grows when its fiber lets others know what it did.
#pragma once
#include "global.hpp"

namespace tinyir_sim {

enum ByteState : uint8_t { kNever = 0, kWritten = 1, kInFlight = 2, kOutside = 4 };

struct Cell {
  uint32_t wrote = 0, read = 0;  // stamps, 0: never
  uint16_t writer = 0, reader = 0;
  uint8_t wrote_bytes = 0, read_bytes = 0;  // of the two, a bit each
  uint32_t wrote_code = 0, read_code = 0;
};

constexpr unsigned kCell = 2, kPin = 16;

// --- clocks

inline Clocks& known_to(const Fiber& fiber) {
  std::vector<Clocks>& known = machine->known;
  if (known.size() != machine->fibers.size()) known.assign(machine->fibers.size(), Clocks());
  Clocks& clocks = known[fiber.id];
  if (clocks.empty()) clocks.assign(machine->fibers.size(), 0);
  return clocks;
}

inline void join(Clocks& into, const Clocks& from) {
  if (from.empty()) return;
  if (into.empty()) into.assign(from.size(), 0);
  uint32_t* a = into.data();
  const uint32_t* b = from.data();
  for (size_t i = 0, n = from.size(); i < n; ++i) a[i] = a[i] < b[i] ? b[i] : a[i];
}

inline void tick(Fiber& fiber) { fiber.clock = ++machine->now; }

// What the fiber did and knows, for those who will acquire it.
inline void release(Fiber& fiber, Clocks& into) {
  if (!machine->is_traced) return;
  Clocks& own = known_to(fiber);
  own[fiber.id] = fiber.clock;
  join(into, own);
  tick(fiber);
}

inline void acquire(Fiber& fiber, const Clocks& from) {
  if (!machine->is_traced) return;
  join(known_to(fiber), from);
}

// A barrier of all threads of the block: from here on, all is known that was done before.
inline void meet(Block& block) {
  block.floor = ++machine->now;
  Fiber* first = &machine->fibers[block.rank * machine->threads];
  for (unsigned t = 0; t < machine->threads; ++t) first[t].clock = block.floor;
}

inline bool is_ordered(const Block& block, uint32_t stamp, unsigned who, const Fiber& fiber) {
  if (!stamp || (fiber.block == block.rank && stamp < block.floor) || who == fiber.id) return true;
  const std::vector<Clocks>& known = machine->known;
  return known.size() == machine->fibers.size() && !known[fiber.id].empty() && stamp <= known[fiber.id][who];
}

// --- accesses

inline unsigned bytes_in_cell(unsigned cell, unsigned offset, unsigned bytes) {
  unsigned first = cell * kCell >= offset ? 0 : 1, last = cell * kCell + 1 < offset + bytes ? 1 : 0;
  return (first == 0 ? 1u : 0u) | (last == 1 ? 2u : 0u);
}

[[noreturn]] inline void stop_between(int kind, unsigned offset, bool is_write, unsigned who, uint64_t code) {
  name_other(machine->fibers[who], code);
  stop_at(kind, offset, is_write);
}

// Which work of an asynchronous unit concerns a place: the copy on its way to it, or who reads it. Stops with that.
[[noreturn]] void stop_for_work(int kind, const Block& block, unsigned offset, bool is_write);

inline void check_state(const Block& block, unsigned offset, unsigned bytes, bool is_write) {
  const uint8_t* state = block.state.data() + offset;
  for (unsigned i = 0; i < bytes; ++i) {
    if (state[i] == kWritten) continue;
    if (state[i] & kOutside) stop_at(TINYIR_OUTSIDE, offset + i, is_write);
    if (state[i] & kInFlight) stop_for_work(TINYIR_IN_FLIGHT, block, offset + i, is_write);
    if (!is_write && machine->is_traced) stop_at(TINYIR_UNWRITTEN, offset + i, false);
  }
}

inline bool is_all_written(const Block& block, unsigned offset, unsigned bytes) {
  const uint8_t* state = block.state.data() + offset;
  uint64_t word = 0;
  if (bytes == 4) return memcpy(&word, state, 4), word == 0x01010101u;
  if (bytes == 2) return memcpy(&word, state, 2), word == 0x0101u;
  for (unsigned i = 0; i < bytes; ++i)
    if (state[i] != kWritten) return false;
  return true;
}

inline void note_read(Block& block, const Fiber& fiber, unsigned offset, unsigned bytes, uint64_t code) {
  if (!is_all_written(block, offset, bytes)) check_state(block, offset, bytes, false);
  if (!machine->is_traced || fiber.is_atomic) return;
  if (!((offset | bytes) & 1)) {  // whole cells, the way that nearly every access takes
    for (Cell *cell = &block.cells[offset / kCell], *end = cell + bytes / kCell; cell < end; ++cell) {
      if (cell->wrote >= block.floor && !is_ordered(block, cell->wrote, cell->writer, fiber))
        stop_between(TINYIR_RACE, unsigned(cell - block.cells.data()) * kCell, false, cell->writer, cell->wrote_code);
      cell->read = fiber.clock;
      cell->reader = uint16_t(fiber.id);
      cell->read_bytes = 3;
      cell->read_code = uint32_t(code);
    }
    return;
  }
  for (unsigned c = offset / kCell; c <= (offset + bytes - 1) / kCell; ++c) {
    Cell& cell = block.cells[c];
    unsigned mask = bytes_in_cell(c, offset, bytes);
    if (cell.wrote_bytes & mask && !is_ordered(block, cell.wrote, cell.writer, fiber))
      stop_between(TINYIR_RACE, c * kCell, false, cell.writer, cell.wrote_code);
    cell.read = fiber.clock;
    cell.reader = uint16_t(fiber.id);
    cell.read_bytes = uint8_t(mask);
    cell.read_code = uint32_t(code);
  }
}

// The order of a write behind every earlier access, without leaving a trace.
inline void check_write(Block& block, const Fiber& fiber, unsigned offset, unsigned bytes) {
  check_state(block, offset, bytes, true);
  for (unsigned p = offset / kPin; p <= (offset + bytes - 1) / kPin; ++p)
    if (block.readers[p]) stop_for_work(TINYIR_STILL_READ, block, p * kPin > offset ? p * kPin : offset, true);
  if (!machine->is_traced || fiber.is_atomic) return;
  for (unsigned c = offset / kCell; c <= (offset + bytes - 1) / kCell; ++c) {
    const Cell& cell = block.cells[c];
    unsigned mask = bytes_in_cell(c, offset, bytes);
    if (cell.wrote_bytes & mask && !is_ordered(block, cell.wrote, cell.writer, fiber))
      stop_between(TINYIR_RACE, c * kCell, true, cell.writer, cell.wrote_code);
    if (cell.read_bytes & mask && !is_ordered(block, cell.read, cell.reader, fiber))
      stop_between(TINYIR_RACE, c * kCell, true, cell.reader, cell.read_code);
  }
}

inline void mark_written(Block& block, const Fiber& fiber, unsigned offset, unsigned bytes, uint64_t code) {
  memset(block.state.data() + offset, kWritten, bytes);
  if (!machine->is_traced || fiber.is_atomic) return;
  for (unsigned c = offset / kCell; c <= (offset + bytes - 1) / kCell; ++c) {
    Cell& cell = block.cells[c];
    cell.wrote = fiber.clock;
    cell.writer = uint16_t(fiber.id);
    cell.wrote_bytes = uint8_t(bytes_in_cell(c, offset, bytes));
    cell.wrote_code = uint32_t(code);
  }
}

inline void note_write(Block& block, const Fiber& fiber, unsigned offset, unsigned bytes, uint64_t code) {
  check_write(block, fiber, offset, bytes);
  mark_written(block, fiber, offset, bytes, code);
}

// An asynchronous unit will read 16 bytes for `fiber`: they must be there, be ordered, and come after a proxy fence of who wrote them.
inline void note_unit_read(Block& block, const Fiber& fiber, unsigned offset) {
  check_state(block, offset, kPin, false);
  if (!machine->is_traced) return;
  for (unsigned c = offset / kCell; c < (offset + kPin) / kCell; ++c) {
    const Cell& cell = block.cells[c];
    if (!cell.wrote) continue;
    if (!is_ordered(block, cell.wrote, cell.writer, fiber)) stop_between(TINYIR_RACE, c * kCell, false, cell.writer, cell.wrote_code);
    if (machine->fibers[cell.writer].fenced <= cell.wrote) stop_between(TINYIR_PROXY, c * kCell, false, cell.writer, cell.wrote_code);
  }
}

// A unit will write here: nobody may be at it still. From now until it lands the bytes are nobody's.
inline void begin_flight(Block& block, const Fiber& fiber, unsigned offset, unsigned bytes) {
  check_write(block, fiber, offset, bytes);
  memset(block.state.data() + offset, kInFlight, bytes);
  memset(shared_of(block) + offset, kPoison, bytes);
}

// The bytes have landed; who waits for the unit's barrier is behind them, so no fiber's stamp is left.
inline void end_flight(Block& block, unsigned offset, unsigned bytes) {
  memset(block.state.data() + offset, kWritten, bytes);
  if (!machine->is_traced) return;
  for (unsigned c = offset / kCell; c <= (offset + bytes - 1) / kCell; ++c) block.cells[c] = Cell();
}

}  // namespace tinyir_sim
