// What the launcher, the emitted text and the Python side agree on. Plain C, so that ctypes mirrors it field by field.
#pragma once
#include <stddef.h>
#include <stdint.h>

struct TinyirDim {
  unsigned x, y, z;
};

// Where the running thread is. `threadIdx` and its kin read it.
struct TinyirPlace {
  TinyirDim thread, block, block_size, grid_size;
};

struct TinyirLaunch {
  TinyirDim grid, block, cluster;
  uint32_t dynamic_shared;  // bytes that this launch asks for
  uint64_t seed;            // 0: threads in their order; else the order of threads, and when copies land, is drawn anew
  uint64_t limit_ns;        // a launch that runs longer is stopped and reported; 0: no limit
};

// What the copy engine knows of a tensor, in the bytes of the text's `tensor_map`. Sizes count elements, the fastest axis first.
struct TinyirMap {
  uint32_t mark;     // kMapMark
  uint8_t rank, item, swizzle, is_rounded;  // item: bytes of an element; swizzle: span of the pattern in bytes; is_rounded: loads round fp32 to TF32
  uint64_t base;     // address of element 0
  uint64_t sizes[5];
  uint64_t strides[4];  // bytes, of the axes after the first
  uint16_t box[5];
  uint16_t steps[5];
  int16_t low[3];      // of windows: where the first corner is, along the axes after the channels
  uint32_t counts[3];  // and how many there are; 0 of a map of boxes
};
static_assert(sizeof(TinyirMap) <= 128, "the bytes of a tensor_map");
enum { TINYIR_MAP_MARK = 0x70616d74 };

// What stopped a launch.
enum TinyirFaultKind {
  TINYIR_NONE = 0,
  TINYIR_MEMORY = 1,        // a load or store outside every buffer, or a store into an input: `address`, `is_write`, `allocation`
  TINYIR_TRAP = 2,          // an index outside a shared or register array, a misaligned vector access, __trap()
  TINYIR_DEADLOCK = 3,      // no thread can go on: `waits`
  TINYIR_DIVERGENCE = 4,    // threads of one block wait at different __syncthreads: `waits`
  TINYIR_ARITHMETIC = 5,    // an integer division by zero
  TINYIR_TIME = 6,          // over limit_ns
  TINYIR_COLLECTIVE = 7,    // lanes of one warp call different collectives, or with different masks: `waits`
  TINYIR_STACK = 8,         // the frame of a thread is larger than a fiber's stack
  TINYIR_NO_MEMORY = 9,
  TINYIR_UNWRITTEN = 10,    // a read of what nobody has written
  TINYIR_IN_FLIGHT = 11,    // an access to what a copy, issued by `other`, is to fill and has not filled yet
  TINYIR_STILL_READ = 12,   // a write over what an asynchronous unit, started by `other`, may still read
  TINYIR_RACE = 13,         // two accesses, one of them a write, that nothing orders: `other` made the first
  TINYIR_PROXY = 14,        // an asynchronous unit reads what `other` wrote, and no proxy fence is between
  TINYIR_ACCUMULATOR = 15,  // an access to an accumulator, or a store to a factor, that a wgmma, issued by `other`, still owns
  TINYIR_NO_BARRIER = 16,   // no mbarrier has been made where one is used, or one is made twice
  TINYIR_ARRIVALS = 17,     // one arrival too many in a phase: numbers = {count}
  TINYIR_BYTES = 18,        // the byte count of a phase leaves its range: numbers = {bytes}
  TINYIR_BEHIND = 19,       // a thread waits for a phase that has been over for one phase: numbers = {parity, phases ended}
  TINYIR_UNFENCED = 20,     // an mbarrier is used by a copy or another block before fence_mbarrier_init
  TINYIR_OPERAND = 21,      // an operand that the instruction does not take: function, operand, rule, numbers = {value}
  TINYIR_UNEQUAL = 22,      // threads that must agree do not: function, operand, numbers = {value, other value}
  TINYIR_LEFT = 23,         // a thread returned, or its block did, with asynchronous work that needs it still going on
  TINYIR_OUTSIDE = 24,      // an address outside the block's shared memory: numbers = {address, bytes}
  TINYIR_NO_FENCE = 25,     // a wgmma whose accumulator is not ordered behind other accesses: wgmma_fence is missing
};

enum TinyirWaitKind {
  TINYIR_RUNS = 0,
  TINYIR_EXITED = 1,
  TINYIR_AT_BARRIER = 2,     // id: its number
  TINYIR_AT_COLLECTIVE = 3,  // id: the lane mask
  TINYIR_AT_MBARRIER = 4,    // id: its shared address; numbers = {parity, bytes to come}
  TINYIR_AT_CLUSTER = 5,
  TINYIR_AT_WGMMA = 6,
  TINYIR_AT_REGISTERS = 7,   // numbers = {registers of the block that are free}
  TINYIR_AT_WORD = 8,        // that a block publishes: numbers = {address}
};

struct TinyirWait {
  int32_t kind;      // TinyirWaitKind
  int32_t line;      // of the emitted text, or 0 and `code` tells
  uint32_t id;
  uint32_t arrived;  // how many have come
  uint32_t wanted;   // how many must come
  int64_t numbers[2];
  uint64_t code;     // offset of the call in the kernel's shared object
};

struct TinyirFault {
  int32_t kind, is_write, allocation, line;
  TinyirDim block, thread;
  TinyirDim other_block, other_thread;
  uint64_t address, code, other_code;  // code: offset of the faulting instruction in the kernel's shared object; 0: not known
  int64_t byte_offset;                 // of `address` from the start of the allocation, or of the block's shared memory
  int32_t is_shared;
  uint32_t thread_count;
  int64_t numbers[2];
  char function[24], operand[24], rule[24];
};

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

const struct TinyirPlace* tinyir_place(void) __attribute__((const));  // constant within one thread of the kernel

// Barrier `id` of the block. count 0: all threads that have not returned, and all from one line. The result is the and, the or or the
// count of `predicate` over the threads. line 0: the caller's place in the code is taken.
enum TinyirFold { TINYIR_AND = 0, TINYIR_OR = 1, TINYIR_COUNT = 2 };
int tinyir_barrier(unsigned id, unsigned count, int predicate, int fold, int line);
void tinyir_barrier_arrive(unsigned id, unsigned count);
void tinyir_cluster_arrive(void);
void tinyir_cluster_wait(void);
unsigned tinyir_cluster_rank(void) __attribute__((const));

// The lanes of `mask` that have not returned meet. Each brings its payload; the last one to come runs `complete(payloads, arrived)`,
// with payloads indexed by lane. Shuffles and votes are made of this, and matrix instructions of warps too.
typedef void (*TinyirComplete)(void** payloads, unsigned mask);
void tinyir_collective(unsigned mask, void* payload, TinyirComplete complete, int line);
unsigned tinyir_active_mask(void);
unsigned tinyir_lane(void) __attribute__((const));
void tinyir_yield(int line);
void tinyir_stop(int kind, int line) __attribute__((noreturn));
void tinyir_warp_fence(unsigned mask);  // __syncwarp: what its lanes did before is done for all of them
void tinyir_atomic(int is_begin);       // accesses between the two calls are atomic

// Shared memory: an address is an offset from the start of the block's, as PTX has it; with a block of the cluster, its rank + 1 in
// the upper byte.
unsigned tinyir_shared_address(const void* p);
unsigned tinyir_cluster_address(unsigned address, unsigned cta);
void tinyir_cluster_read(unsigned address, unsigned cta, void* to, unsigned bytes);

void tinyir_mbar_init(unsigned barrier, unsigned count);
void tinyir_mbar_init_fence(void);
void tinyir_mbar_arrive(unsigned barrier);
void tinyir_mbar_expect(unsigned barrier, unsigned bytes);
void tinyir_mbar_wait(unsigned barrier, unsigned parity);

void tinyir_publish(void* word, const void* value, unsigned bytes, int is_release);
uint64_t tinyir_await(const void* word, unsigned bytes, int is_acquire);

void tinyir_tma_load(unsigned to, const void* map, unsigned barrier, int rank, const int* at, unsigned ctas);  // ctas 0: the own block
void tinyir_tma_load_windows(unsigned to, const void* map, unsigned barrier, int rank, const int* at, unsigned ctas);  // at: corner, then offsets
void tinyir_send(unsigned to, unsigned from, unsigned bytes, unsigned barrier);  // from the own block to the one of `to` and `barrier`
void tinyir_send_words(unsigned to, const void* words, unsigned barrier);        // 16 bytes of the thread's own
void tinyir_tma_store(const void* map, unsigned from, int rank, const int* at);
void tinyir_bulk_commit(void);
void tinyir_bulk_wait(unsigned pending, int is_read);
void tinyir_cp_async(unsigned to, const void* from, unsigned size, unsigned bytes);
void tinyir_cp_async_commit(void);
void tinyir_cp_async_wait(unsigned pending);
void tinyir_proxy_fence(void);

void tinyir_ldmatrix(unsigned* registers, unsigned from, int count, int is_transposed);
void tinyir_stmatrix(unsigned to, const unsigned* registers, int count, int is_transposed);
void tinyir_mma(float* d, const unsigned* a, const unsigned* b, int is_bf16);
void tinyir_mma_tf32(float* d, const unsigned* a, const unsigned* b);
// `a` in registers where `registers` is not null, else by its descriptor.
void tinyir_wgmma(int n, int kind, int b_kind, int a_mn, int b_mn, float* d, const unsigned* registers, uint64_t a, uint64_t b, int accumulate);
void tinyir_wgmma_fence(void);
void tinyir_wgmma_commit(void);
void tinyir_wgmma_wait(unsigned pending);
void tinyir_setmaxnreg(unsigned registers, int is_increase);

// Global memory: each allocation ends at a page nobody may touch, and starts after one; slack before the data is poisoned and checked.
int tinyir_allocate(size_t bytes, size_t alignment, void** data);
void tinyir_fill(int allocation, const void* data, int is_constant);  // from now on a store into a constant one is a fault
void tinyir_forget(int allocation);                                   // as it was when it was new
int64_t tinyir_stray(int allocation);  // byte offset (negative) of a store into the slack before the data, or 0
void tinyir_free(int allocation);

// `touch_shared` gives an address in the kernels' shared memory, `dynamic` start and size of the dynamic part (null: there is none), `is_traced`
// says that the code calls back for each access to memory, and `is_waiting` that blocks wait for what others publish.
struct TinyirCode {
  void (*call)(void**);
  void* (*touch_shared)(void);
  void* (*dynamic)(size_t* bytes);
  int is_traced;
  int is_waiting;
};
int tinyir_launch(const struct TinyirCode* code, void** arguments, const struct TinyirLaunch* launch, struct TinyirFault* fault,
                  struct TinyirWait* waits);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
