// The blocks that run together: those of one cluster, on one host thread. Their threads are fibers; shared memory belongs to the block
// whose fiber runs, and is moved in and out when another block's turn comes. Where blocks wait for one another several clusters run by turns.
#pragma once
#include <setjmp.h>

#include <vector>

#include "fiber.hpp"
#include "memory.hpp"
#include "watch.hpp"

namespace tinyir_sim {

constexpr size_t kStack = size_t(128) << 10;  // bytes a thread; the lowest page is a guard
constexpr unsigned kMaxThreads = 1024, kMaxBlocks = 16, kMaxClusters = 4, kWarp = 32, kWarpgroup = 128, kBarriers = 16;
constexpr unsigned kRegisters = 65536;  // of a block at most, and of a multiprocessor

typedef std::vector<uint32_t> Clocks;  // for each fiber of the cluster, up to which of its stamps one knows what it did

struct Copy {  // cp.async of one thread
  unsigned to, size, bytes;
  const char* from;
  uint64_t code;
};

struct TensorStore {
  TinyirMap map;
  unsigned from;
  int at[5];
  std::vector<char> box;  // what was read, once it was
  bool is_read, is_written;
  uint64_t code;
};

struct Fiber {
  Context context;
  TinyirPlace place;
  TinyirWait wait;
  unsigned number, block, id;  // within the block, x fastest; rank of the block; within the cluster
  int result;                  // of the barrier it waited at
  bool is_ready, is_atomic, has_arrived_at_cluster;
  uint64_t code;  // of the call that it is in
  uint32_t clock, fenced;  // stamps: its own, and of its last proxy fence
  unsigned registers;
  std::vector<std::vector<Copy>> copies;         // groups of cp.async; the last one is open
  std::vector<std::vector<TensorStore>> stores;  // groups of tensor stores; the last one is open
  unsigned products, commits;                   // wgmmas issued and groups committed
  bool is_wgmma_fenced;
  std::vector<std::pair<uint64_t, uint32_t>> phases;  // (barrier, first phase not seen yet)
};

struct Barrier {
  unsigned arrived, wanted;
  int line, all, any, count;
  uint64_t code;
  Clocks clocks;
};

struct Meeting {  // of the lanes of one mask; kept under its lowest lane
  TinyirComplete complete;
  unsigned mask, arrived;
  void* payloads[kWarp];
};

struct Seen {  // a fiber found this number of phases of a barrier ended, at this stamp of its clock
  unsigned who;
  uint32_t stamp, ended;
};

struct Mbarrier {
  unsigned at;  // shared address
  unsigned count, pending;
  int64_t bytes;  // still to come
  uint32_t phases;  // that have ended
  unsigned maker;   // fiber
  bool is_fenced;
  Clocks gathered, known;  // of the arrivals of this phase; of those that ended
  std::vector<Seen> seen;  // the last two of each fiber
};

struct Cell;
struct Warpgroup;

struct Block {
  unsigned rank, live;
  unsigned live_lanes[kMaxThreads / kWarp];
  Barrier barriers[kBarriers];
  std::vector<Meeting> meetings;  // warp * 32 + lowest lane of the mask
  std::vector<Mbarrier> mbarriers;
  std::vector<char> kept;           // shared memory while another block runs
  std::vector<uint8_t> state;       // of each byte of shared memory
  std::vector<uint16_t> readers;    // asynchronous reads of each 16 bytes that are going on
  std::vector<Cell> cells;          // who touched what last, for each 2 bytes
  uint32_t floor;                   // what was done before this stamp is known to all of the block
  unsigned free_registers;
  std::vector<Warpgroup> warpgroups;
};

struct Work;

// Everything about the running cluster.
struct Machine {
  unsigned threads = 0, count = 0, live = 0;  // threads of a block, blocks, fibers that have not returned
  std::vector<Fiber> fibers;                   // block by block
  std::vector<Block> blocks;
  std::vector<Work> work;                      // of the asynchronous units, oldest first
  unsigned active = 0;                         // whose shared memory is in place
  char* shared = nullptr;
  size_t shared_bytes = 0;
  uint32_t now = 1;
  bool is_traced = false;
  unsigned cluster_arrived = 0;
  Clocks cluster_gathered, cluster_known;  // what those who have arrived at the cluster's barrier did before; at its last round
  std::vector<Clocks> known;     // by fiber; empty until something other than a barrier of the block orders two fibers
  unsigned slot = 0, number = 0;  // which of the clusters that run; which of the launch, from 1
  Clocks heard;                   // by number, up to which of its epochs one knows what that cluster did
  uint32_t epoch = 1;             // grows when others are told what was done
  bool takes_turns = false, is_stuck = false, steps_aside = false;
};

// How threads and clusters take turns.
struct Draw {
  uint64_t random = 0;
  bool is_seeded = false;
};

inline Machine machines[kMaxClusters];
inline Machine* machine;
inline Draw draw;
inline Fiber* current;
inline Context scheduler;
inline char* stacks[kMaxBlocks];  // of all blocks that run
inline sigjmp_buf way_out;

inline Block& block_of(const Fiber& fiber) { return machine->blocks[fiber.block]; }

inline uint64_t code_of(const void* address) {
  uint64_t at = reinterpret_cast<uint64_t>(address);
  return at >= code_begin && at < code_end ? at - code_begin : 0;
}

// Every entry from a kernel begins with this: the place in the code that messages will name.
#define TINYIR_ENTER() (current->code = code_of(static_cast<char*>(__builtin_return_address(0)) - 1))

[[noreturn]] inline void leave(int kind) {
  fault.kind = kind;
  if (machine) fault.thread_count = unsigned(machine->fibers.size());
  if (current) {
    fault.thread = current->place.thread;
    fault.block = current->place.block;
    if (!fault.code) fault.code = current->code;
  }
  is_running = 0;
  siglongjmp(way_out, 1);
}

[[noreturn]] inline void stop(int kind, int line) {
  fault.line = line;
  leave(kind);
}

inline void name_other(const Fiber& other, uint64_t code) {
  fault.other_thread = other.place.thread;
  fault.other_block = other.place.block;
  fault.other_code = code;
}

[[noreturn]] inline void stop_at(int kind, int64_t shared_offset, bool is_write) {
  fault.is_shared = 1;
  fault.byte_offset = shared_offset;
  fault.is_write = is_write;
  leave(kind);
}

[[noreturn]] inline void refuse_operand(int kind, const char* function, const char* operand, const char* rule, int64_t value, int64_t other = 0) {
  strncpy(fault.function, function, sizeof fault.function - 1);
  strncpy(fault.operand, operand, sizeof fault.operand - 1);
  strncpy(fault.rule, rule, sizeof fault.rule - 1);
  fault.numbers[0] = value;
  fault.numbers[1] = other;
  leave(kind);
}

inline void must(bool holds, const char* function, const char* operand, const char* rule, int64_t value) {
  if (!holds) refuse_operand(TINYIR_OPERAND, function, operand, rule, value);
}

inline bool is_stack(const void* address) {
  for (char* of_block : stacks)
    if (of_block && address >= of_block && address < of_block + kMaxThreads * kStack) return true;
  return false;
}

inline uint64_t mix(uint64_t& state) {  // splitmix64
  uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

inline void set_ready(Fiber& fiber) {
  fiber.is_ready = true;
  fiber.wait = TinyirWait{};
}

inline void wait_here() {
  current->is_ready = false;
  switch_to(current->context, scheduler);
}

// Lets every other fiber run as far as it can: what is not ordered shows.
inline void step_aside() { switch_to(current->context, scheduler); }

// --- shared memory of the blocks

inline char* shared_of(const Block& block) {
  return block.rank == machine->active ? machine->shared : const_cast<char*>(block.kept.data());
}

inline void activate(unsigned rank) {
  if (rank == machine->active) return;
  Block &from = machine->blocks[machine->active], &to = machine->blocks[rank];
  memcpy(from.kept.data(), machine->shared, machine->shared_bytes);
  memcpy(machine->shared, to.kept.data(), machine->shared_bytes);
  machine->active = rank;
}

struct SharedPlace {
  Block* block;
  unsigned offset;
  char* data() const { return shared_of(*block) + offset; }
};

// What an address of PTX is; `bytes` from there must be the block's.
inline SharedPlace place_of(unsigned address, size_t bytes) {
  unsigned rank = address >> 24, offset = address & 0xffffff;
  if (rank > machine->count || offset + bytes > machine->shared_bytes) {
    fault.numbers[0] = address;
    fault.numbers[1] = int64_t(bytes);
    leave(TINYIR_OUTSIDE);
  }
  return {rank ? &machine->blocks[rank - 1] : &block_of(*current), offset};
}

}  // namespace tinyir_sim
