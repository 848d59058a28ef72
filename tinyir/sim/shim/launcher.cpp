// Runs the kernels of an emitted text on the CPU: blocks in turn, their threads as fibers, barriers and warp collectives between them.
// A fault ends the launch and is returned as facts; nothing here prints.
#include <link.h>
#include <setjmp.h>

#include "fiber.hpp"
#include "memory.hpp"
#include "watch.hpp"

namespace tinyir_sim {
namespace {

constexpr size_t kStack = size_t(128) << 10;  // bytes a thread; the lowest page is a guard
constexpr int kMaxThreads = 1024, kWarp = 32, kBarriers = 16;

struct Fiber {
  Context context;
  TinyirPlace place;
  TinyirWait wait;
  unsigned number;  // within the block, x fastest
  int result;       // of the barrier it waited at
  bool is_ready;
};

struct Barrier {
  unsigned arrived, wanted;
  int line, all, any, count;
};

struct Meeting {  // of the lanes of one mask; kept under its lowest lane
  TinyirComplete complete;
  unsigned mask, arrived;
  void* payloads[kWarp];
};

struct Block {
  unsigned threads, live;
  unsigned live_lanes[kMaxThreads / kWarp];
  Barrier barriers[kBarriers];
  Meeting meetings[kMaxThreads];  // warp * 32 + lowest lane of the mask
};

Fiber fibers[kMaxThreads];
unsigned order[kMaxThreads];
Block block;
Fiber* current;
Context scheduler;
char* stacks;
void (*kernel)(void**);
void** kernel_arguments;
sigjmp_buf way_out;

}  // namespace

[[noreturn]] void stop(int kind, int line) {
  fault.kind = kind;
  fault.line = line;
  fault.thread_count = block.threads;
  if (current) {
    fault.thread = current->place.thread;
    fault.block = current->place.block;
  }
  siglongjmp(way_out, 1);
}

bool is_stack(const void* address) { return address >= stacks && address < stacks + kMaxThreads * kStack; }

namespace {

void set_ready(Fiber& fiber) {
  fiber.is_ready = true;
  fiber.wait = TinyirWait{};
}

void wait_here() {
  current->is_ready = false;
  switch_to(current->context, scheduler);
}

void open(unsigned id) {
  Barrier& barrier = block.barriers[id];
  for (unsigned t = 0; t < block.threads; ++t) {
    Fiber& fiber = fibers[t];
    if (fiber.wait.kind != TINYIR_AT_BARRIER || fiber.wait.id != id) continue;
    const int results[] = {barrier.all, barrier.any, barrier.count};
    fiber.result = results[fiber.result];  // it held the TinyirFold
    set_ready(fiber);
  }
  barrier = Barrier{};
}

// Counts an arrival; true when it was the last.
bool arrive(unsigned id, unsigned count, int predicate, int line) {
  Barrier& barrier = block.barriers[id];
  if (!barrier.arrived) {
    barrier.line = line;
    barrier.wanted = count;
    barrier.all = 1;
  }
  barrier.arrived++;
  barrier.all &= predicate != 0;
  barrier.any |= predicate != 0;
  barrier.count += predicate != 0;
  current->wait = TinyirWait{TINYIR_AT_BARRIER, line, id, barrier.arrived, count ? count : block.live};
  if (barrier.wanted != count || (!count && barrier.line != line)) stop(TINYIR_DIVERGENCE, line);
  return barrier.arrived == (count ? count : block.live);
}

// The lanes of a mask that have not returned meet; when all have come, the payloads are exchanged and all go on.
void finish_meeting(unsigned first, Meeting& meeting) {
  unsigned arrived = meeting.arrived;
  if (!arrived || arrived != (meeting.mask & block.live_lanes[first / kWarp])) return;
  meeting.complete(meeting.payloads, arrived);
  meeting.arrived = 0;
  for (unsigned lane = 0; lane < kWarp; ++lane)
    if (arrived >> lane & 1) set_ready(fibers[first + lane]);
}

[[noreturn]] void run_fiber() {
  kernel(kernel_arguments);
  unsigned lane = current->number % kWarp, first = current->number - lane;
  current->wait = TinyirWait{TINYIR_EXITED, 0, 0, 0, 0};
  block.live--;
  block.live_lanes[first / kWarp] &= ~(1u << lane);
  for (unsigned l = 0; l < kWarp; ++l) finish_meeting(first, block.meetings[first + l]);
  for (unsigned id = 0; id < kBarriers; ++id) {
    const Barrier& barrier = block.barriers[id];
    if (barrier.arrived && !barrier.wanted && barrier.arrived == block.live) open(id);
  }
  wait_here();
  __builtin_unreachable();
}

uint64_t mix(uint64_t& state) {  // splitmix64
  uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

void shuffle(uint64_t& state) {
  for (unsigned i = block.threads; i > 1; --i) {
    unsigned j = unsigned(mix(state) % i), kept = order[i - 1];
    order[i - 1] = order[j];
    order[j] = kept;
  }
}

void run_block(const TinyirLaunch& launch, TinyirDim at, uint64_t& random) {
  block.threads = block.live = launch.block.x * launch.block.y * launch.block.z;
  for (unsigned& lanes : block.live_lanes) lanes = 0;
  for (Barrier& barrier : block.barriers) barrier = Barrier{};
  for (unsigned t = 0; t < (block.threads + kWarp - 1) / kWarp * kWarp; ++t) block.meetings[t].arrived = 0;
  unsigned number = 0;
  for (unsigned z = 0; z < launch.block.z; ++z)
    for (unsigned y = 0; y < launch.block.y; ++y)
      for (unsigned x = 0; x < launch.block.x; ++x, ++number) {
        Fiber& fiber = fibers[number];
        fiber.place = TinyirPlace{{x, y, z}, at, launch.block, launch.grid};
        fiber.number = order[number] = number;
        set_ready(fiber);
        block.live_lanes[number / kWarp] |= 1u << number % kWarp;
        prepare(fiber.context, stacks + number * kStack, kStack, run_fiber);
      }
  while (block.live) {
    bool has_run = false;
    if (launch.seed) shuffle(random);
    for (unsigned i = 0; i < block.threads; ++i) {
      Fiber& fiber = fibers[order[i]];
      if (!fiber.is_ready) continue;
      has_run = true;
      current = &fiber;
      switch_to(scheduler, fiber.context);
    }
    if (!has_run) stop(TINYIR_DEADLOCK, 0);
  }
  current = nullptr;
}

// The thread-local storage of the kernel's shared object is the shared memory of a block.
struct SharedMemory {
  const void* inside;
  char* data;
  size_t bytes;
};

int find_shared(dl_phdr_info* object, size_t, void* wanted) {
  SharedMemory& shared = *static_cast<SharedMemory*>(wanted);
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    char* data = static_cast<char*>(object->dlpi_tls_data);
    if (segment.p_type != PT_TLS || !data || shared.inside < data || shared.inside >= data + segment.p_memsz) continue;
    shared.data = data;
    shared.bytes = segment.p_memsz;
    return 1;
  }
  return 0;
}

bool has_stacks() {
  if (stacks) return true;
  void* mapped = mmap(nullptr, kMaxThreads * kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return false;
  stacks = static_cast<char*>(mapped);
  for (int t = 0; t < kMaxThreads; ++t) mprotect(stacks + t * kStack, size_t(sysconf(_SC_PAGESIZE)), PROT_NONE);
  return true;
}

}  // namespace
}  // namespace tinyir_sim

using namespace tinyir_sim;

extern "C" {

const TinyirPlace* tinyir_place() { return &current->place; }

unsigned tinyir_lane() { return current->number % kWarp; }

int tinyir_barrier(unsigned id, unsigned count, int predicate, int fold, int line) {
  current->result = fold;
  if (arrive(id, count, predicate, line)) {
    open(id);
  } else {
    wait_here();
  }
  return current->result;
}

void tinyir_barrier_arrive(unsigned id, unsigned count, int line) {
  bool is_last = arrive(id, count, 1, line);
  set_ready(*current);
  if (is_last) open(id);
}

void tinyir_collective(unsigned mask, void* payload, TinyirComplete complete, int line) {
  unsigned lane = current->number % kWarp, first = current->number - lane;
  if (!(mask >> lane & 1)) stop(TINYIR_COLLECTIVE, line);
  Meeting& meeting = block.meetings[first + unsigned(__builtin_ctz(mask))];
  if (!meeting.arrived) {
    meeting.complete = complete;
    meeting.mask = mask;
  }
  unsigned wanted = mask & block.live_lanes[first / kWarp];
  unsigned come = unsigned(__builtin_popcount(meeting.arrived)) + 1;
  current->wait = TinyirWait{TINYIR_AT_COLLECTIVE, line, mask, come, unsigned(__builtin_popcount(wanted))};
  if (meeting.mask != mask || meeting.complete != complete) stop(TINYIR_COLLECTIVE, line);
  meeting.arrived |= 1u << lane;
  meeting.payloads[lane] = payload;
  if (meeting.arrived != wanted) return wait_here();
  finish_meeting(first, meeting);
}

unsigned tinyir_active_mask() {
  unsigned lane = current->number % kWarp;
  return 1u << lane;
}

void tinyir_yield(int line) {
  current->wait.line = line;
  switch_to(current->context, scheduler);
}

void tinyir_stop(int kind, int line) { stop(kind, line); }

int tinyir_allocate(size_t bytes, size_t alignment, void** data) { return allocate(bytes, alignment, data); }

int tinyir_protect(int allocation) {
  Allocation& a = allocations[allocation];
  return a.bytes ? mprotect(a.pages, a.page_bytes, PROT_READ) : 0;
}

int64_t tinyir_stray(int allocation) { return find_stray(allocations[allocation]); }

void tinyir_free(int allocation) {
  Allocation& a = allocations[allocation];
  if (a.zone) munmap(a.zone, a.zone_bytes);
  a = Allocation{};
}

int tinyir_launch(void (*call)(void**), void* (*touch_shared)(), void** arguments, const TinyirLaunch* launch, TinyirFault* report,
                  TinyirWait* waits) {
  fault = TinyirFault{};
  fault.allocation = -1;
  current = nullptr;
  kernel = call;
  kernel_arguments = arguments;
  uint64_t random = launch->seed;
  SharedMemory shared{touch_shared(), nullptr, 0};
  dl_iterate_phdr(find_shared, &shared);
  if (!has_stacks()) {
    report->kind = TINYIR_NO_MEMORY;
    return TINYIR_NO_MEMORY;
  }
  Watch watch(launch->limit_ns);
  if (sigsetjmp(way_out, 1) == 0) {
    for (unsigned z = 0; z < launch->grid.z; ++z)
      for (unsigned y = 0; y < launch->grid.y; ++y)
        for (unsigned x = 0; x < launch->grid.x; ++x) {
          if (shared.data) memset(shared.data, kPoison, shared.bytes);
          fault.block = TinyirDim{x, y, z};
          run_block(*launch, TinyirDim{x, y, z}, random);
        }
  } else {
    for (unsigned t = 0; t < block.threads; ++t) waits[t] = fibers[t].wait;
  }
  current = nullptr;
  *report = fault;
  return fault.kind;
}

}  // extern "C"
