// What the launcher, the emitted text and the Python side agree on. Plain C, so that ctypes mirrors it field by field.
#pragma once
#include <stddef.h>
#include <stdint.h>

struct TinyirDim {
  unsigned x, y, z;
};

// Where the running thread stands. `threadIdx` and its kin read it.
struct TinyirPlace {
  TinyirDim thread, block, block_size, grid_size;
};

struct TinyirLaunch {
  TinyirDim grid, block;
  uint64_t seed;          // 0: threads in their order; else the order of threads is drawn anew each round
  uint64_t limit_ns;      // a launch that runs longer is stopped and reported; 0: no limit
};

// What stopped a launch.
enum TinyirFaultKind {
  TINYIR_NONE = 0,
  TINYIR_MEMORY = 1,      // a load or store outside every buffer, or a store into an input: `address`, `is_write`, `allocation`
  TINYIR_TRAP = 2,        // an index outside a shared or register array, a misaligned vector access, __trap()
  TINYIR_DEADLOCK = 3,    // no thread can go on: `waits`
  TINYIR_DIVERGENCE = 4,  // threads of one block wait at different __syncthreads: `waits`
  TINYIR_ARITHMETIC = 5,  // an integer division by zero
  TINYIR_TIME = 6,        // over limit_ns
  TINYIR_COLLECTIVE = 7,  // lanes of one warp call different collectives, or with different masks: `waits`
  TINYIR_STACK = 8,       // the frame of a thread is larger than a fiber's stack
  TINYIR_NO_MEMORY = 9,
};

enum TinyirWaitKind { TINYIR_RUNS = 0, TINYIR_EXITED = 1, TINYIR_AT_BARRIER = 2, TINYIR_AT_COLLECTIVE = 3 };

struct TinyirWait {
  int32_t kind;      // TinyirWaitKind
  int32_t line;      // of the emitted text
  uint32_t id;       // barrier number, or lane mask
  uint32_t arrived;  // how many have come
  uint32_t wanted;   // how many must come
};

struct TinyirFault {
  int32_t kind, is_write, allocation, line;
  TinyirDim block, thread;
  uint64_t address, code_offset;  // code_offset: of the faulting instruction in the kernel's shared object
  int64_t byte_offset;            // of `address` from the start of the allocation
  uint32_t thread_count;
};

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

const struct TinyirPlace* tinyir_place(void) __attribute__((const));  // constant within one thread of the kernel

// Barrier `id` of the block. count 0: all threads that have not returned, and all from one line. The result is the and, the or or the
// count of `predicate` over the threads.
enum TinyirFold { TINYIR_AND = 0, TINYIR_OR = 1, TINYIR_COUNT = 2 };
int tinyir_barrier(unsigned id, unsigned count, int predicate, int fold, int line);
void tinyir_barrier_arrive(unsigned id, unsigned count, int line);

// The lanes of `mask` that have not returned meet. Each brings its payload; the last one to come runs `complete(payloads, arrived)`,
// with payloads indexed by lane. Shuffles and votes are made of this, and matrix instructions can be.
typedef void (*TinyirComplete)(void** payloads, unsigned mask);
void tinyir_collective(unsigned mask, void* payload, TinyirComplete complete, int line);
unsigned tinyir_active_mask(void);
unsigned tinyir_lane(void) __attribute__((const));
void tinyir_yield(int line);
void tinyir_stop(int kind, int line) __attribute__((noreturn));

// Global memory: each allocation ends at a page nobody may touch, and starts after one; slack before the data is poisoned and checked.
int tinyir_allocate(size_t bytes, size_t alignment, void** data);
int tinyir_protect(int allocation);     // from now on a store is a fault
int64_t tinyir_stray(int allocation);   // byte offset (negative) of a store into the slack before the data, or 0
void tinyir_free(int allocation);

int tinyir_launch(void (*call)(void**), void* (*touch_shared)(void), void** arguments, const struct TinyirLaunch* launch,
                  struct TinyirFault* fault, struct TinyirWait* waits);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
