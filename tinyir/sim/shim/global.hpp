// Accesses to global memory, and the words by which the blocks of a launch tell one another what they found. Only a release and an acquire of
// one word order what two clusters do; a relaxed access carries its word alone.
#pragma once
#include <unordered_map>

#include "machine.hpp"

namespace tinyir_sim {

inline unsigned char tag_of(const Fiber& fiber) {
  const TinyirPlace& at = fiber.place;
  uint64_t number = at.block.x + uint64_t(at.grid_size.x) * (at.block.y + uint64_t(at.grid_size.y) * at.block.z);
  return static_cast<unsigned char>(kFirstBlock + number % (256 - kFirstBlock));
}

[[noreturn]] inline void stop_in(int kind, const Allocation& allocation, const char* at, bool is_write) {
  fault.allocation = int(&allocation - allocations);
  fault.byte_offset = at - allocation.data;
  fault.is_write = is_write;
  leave(kind);
}

// Whether another cluster's plain store is not known to have been done.
inline bool is_unheard(uint64_t stamp) {
  uint32_t cluster = uint32_t(stamp >> 32), when = uint32_t(stamp);
  return cluster && cluster != machine->number && (cluster >= machine->heard.size() || machine->heard[cluster] < when);
}

// An access of the running fiber to global memory. What is far outside is left to the guard zones, which need no trace.
inline void note_global(const void* address, size_t bytes, bool is_write) {
  if (!machine->is_traced) return;
  Allocation* found = find_data(address, bytes);
  if (!found) {
    int near = find_allocation(address);
    if (near >= 0) stop_in(TINYIR_MEMORY, allocations[near], static_cast<const char*>(address), is_write);
    return;
  }
  const char* p = static_cast<const char*>(address);
  unsigned char* writers = found->writers + (p - found->data);
  uint64_t* stamps = found->stamps.empty() ? nullptr : found->stamps.data() + (p - found->data);
  unsigned char own = tag_of(*current);
  if (current->is_atomic) own = kBefore;  // an atomic and a plain store of another block may follow each other
  for (size_t i = 0; i < bytes; ++i) {
    if (!is_write && writers[i] == kNobody) stop_in(TINYIR_UNWRITTEN, *found, p + i, false);
    bool is_others = writers[i] >= kFirstBlock && writers[i] != own && !current->is_atomic;
    if (is_others && (stamps ? is_unheard(stamps[i]) : is_write || machine->count == 1)) stop_in(TINYIR_RACE, *found, p + i, is_write);
    if (!is_write) continue;
    writers[i] = own;
    if (stamps) stamps[i] = current->is_atomic ? 0 : uint64_t(machine->number) << 32 | machine->epoch;
  }
}

// --- words

inline std::unordered_map<const void*, Clocks> told;  // what who releases a word knew

inline void publish(void* word, const void* value, size_t bytes, bool is_release) {
  current->is_atomic = true;
  note_global(word, bytes, true);
  current->is_atomic = false;
  memcpy(word, value, bytes);
  if (is_release) {
    Clocks& into = told[word];
    if (into.size() <= machine->number) into.resize(machine->number + 1, 0);
    if (into.size() < machine->heard.size()) into.resize(machine->heard.size(), 0);
    for (size_t i = 0; i < machine->heard.size(); ++i)
      if (into[i] < machine->heard[i]) into[i] = machine->heard[i];
    into[machine->number] = machine->epoch++;
  }
  for (Machine& other : machines)
    for (Fiber& fiber : other.fibers)
      if (fiber.wait.kind == TINYIR_AT_WORD && fiber.wait.numbers[0] == int64_t(reinterpret_cast<uint64_t>(word))) {
        set_ready(fiber);
        other.is_stuck = false;
      }
  machine->steps_aside = true;  // what follows may come as late as others like
}

// Waits until a word of which the first bit says that it was published is so, and gives it.
inline uint64_t await(const void* word, size_t bytes, bool is_acquire) {
  for (;;) {
    current->is_atomic = true;
    note_global(word, bytes, false);
    current->is_atomic = false;
    uint64_t value = 0;
    memcpy(&value, word, bytes);
    if (value & 1) {
      if (!is_acquire) return value;
      const Clocks& from = told[word];
      if (machine->heard.size() < from.size()) machine->heard.resize(from.size(), 0);
      for (size_t i = 0; i < from.size(); ++i)
        if (machine->heard[i] < from[i]) machine->heard[i] = from[i];
      return value;
    }
    current->wait = TinyirWait{TINYIR_AT_WORD, 0, 0, 0, 0, {int64_t(reinterpret_cast<uint64_t>(word)), 0}, current->code};
    wait_here();
  }
}

}  // namespace tinyir_sim
