// Runs the kernels of an emitted text on the CPU: clusters in turn, or a few by turns, the threads of their blocks as fibers. A fault ends the
// launch and is returned as facts; nothing here prints.
#include <link.h>

#include <algorithm>

#include "trace.hpp"

namespace tinyir_sim {

[[noreturn]] void stop_for_work(int kind, const Block& block, unsigned offset, bool is_write) {
  auto is_in = [&](unsigned from, unsigned bytes) { return offset >= from && offset < from + bytes; };
  for (const Work& work : machine->work)
    if (work.kind == Work::kLoad && work.blocks >> block.rank & 1 && is_in(work.to, box_bytes(work.map)))
      stop_between(kind, offset, is_write, work.fiber, work.code);
  for (const Fiber& fiber : machine->fibers) {
    if (fiber.block != block.rank) continue;
    for (const auto& group : fiber.copies)
      for (const Copy& copy : group)
        if (is_in(copy.to, copy.size)) stop_between(kind, offset, is_write, fiber.id, copy.code);
    for (const auto& group : fiber.stores)
      for (const TensorStore& store : group)
        if (!store.is_read && is_in(store.from, box_bytes(store.map))) stop_between(kind, offset, is_write, fiber.id, store.code);
  }
  for (const Warpgroup& group : block.warpgroups)
    for (size_t p = group.done; p < group.products.size(); ++p) {
      const Wgmma& product = group.products[p];
      bool is_read = false;
      auto look = [&](unsigned address, unsigned, unsigned) { is_read = is_read || is_in(address, kPin); };
      if (!product.has_registers) product.a.for_chunks(look);
      product.b.for_chunks(look);
      if (is_read) stop_between(kind, offset, is_write, product.fiber, product.code);
    }
  stop_at(kind, offset, is_write);
}

namespace {

void (*kernel)(void**);
void** kernel_arguments;

[[noreturn]] void run_fiber() {
  kernel(kernel_arguments);
  Block& block = block_of(*current);
  check_left();
  if (current->products && block.warpgroups[current->number / kWarpgroup].done < current->products) leave(TINYIR_LEFT);
  unsigned lane = current->number % kWarp, first = current->number - lane;
  current->wait = TinyirWait{};
  current->wait.kind = TINYIR_EXITED;
  block.live--;
  machine->live--;
  block.live_lanes[first / kWarp] &= ~(1u << lane);
  for (unsigned l = 0; l < kWarp; ++l) finish_meeting(block, first, block.meetings[first + l]);
  for (unsigned id = 0; id < kBarriers; ++id) {
    const Barrier& barrier = block.barriers[id];
    if (barrier.arrived && !barrier.wanted && barrier.arrived == block.live) open(block, id);
  }
  if (current->has_arrived_at_cluster) machine->cluster_arrived--;
  if (machine->live) open_cluster();
  wait_here();
  __builtin_unreachable();
}

void prepare_block(const TinyirLaunch& launch, Block& block, unsigned rank, TinyirDim at) {
  Machine& m = *machine;
  block = Block();
  block.rank = rank;
  block.live = m.threads;
  block.floor = m.now;
  block.meetings.assign((m.threads + kWarp - 1) / kWarp * kWarp, Meeting{});
  block.state.assign(m.shared_bytes, kNever);
  block.readers.assign(m.shared_bytes / kPin + 1, 0);
  block.warpgroups.resize(m.threads / kWarpgroup);
  if (m.is_traced) block.cells.resize(m.shared_bytes / kCell + 1);
  if (m.count > 1 || m.takes_turns) block.kept.assign(m.shared_bytes, char(kPoison));
  unsigned number = 0;
  for (unsigned z = 0; z < launch.block.z; ++z)
    for (unsigned y = 0; y < launch.block.y; ++y)
      for (unsigned x = 0; x < launch.block.x; ++x, ++number) {
        Fiber& fiber = m.fibers[rank * m.threads + number];
        fiber.place = TinyirPlace{{x, y, z}, at, launch.block, launch.grid};
        fiber.number = number;
        fiber.block = rank;
        fiber.id = rank * m.threads + number;
        fiber.clock = m.now;
        fiber.registers = kRegisters / m.threads / 8 * 8;
        set_ready(fiber);
        block.live_lanes[number / kWarp] |= 1u << number % kWarp;
        prepare(fiber.context, stacks[m.slot * m.count + rank] + number * kStack, kStack, run_fiber);
      }
}

template <class T>
void shuffle(std::vector<T>& order) {
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[mix(draw.random) % i]);
}

// One turn of each fiber of the block that can run; false when there is none. With a seed half of the warps stay behind.
bool run_ready(unsigned rank, std::vector<unsigned>& order) {
  Machine& m = *machine;
  bool has_run = false;
  uint64_t stay = draw.is_seeded ? mix(draw.random) : 0;
  for (unsigned number : order) {
    Fiber& fiber = m.fibers[rank * m.threads + number];
    if (!fiber.is_ready) continue;
    if (!has_run) activate(rank);
    has_run = true;
    if (stay >> fiber.number / kWarp & 1) continue;
    current = &fiber;
    switch_to(scheduler, fiber.context);
  }
  current = nullptr;
  return has_run;
}

void finish_cluster() {
  Machine& m = *machine;
  for (const Work& work : m.work) {
    current = &m.fibers[work.fiber];
    current->code = work.code;
    stop_at(TINYIR_LEFT, work.to, true);
  }
  for (Fiber& fiber : m.fibers)
    for (auto& group : fiber.stores)
      for (TensorStore& store : group) {
        current = &fiber;
        current->code = store.code;
        write_box(store);
      }
  current = nullptr;
}

// Dynamic shared memory is as long as the launch that asks for most wants it: what this one did not ask for.
struct Surplus {
  size_t begin, end;
};

void start_cluster(const TinyirLaunch& launch, TinyirDim first, unsigned number, Surplus surplus) {
  Machine& m = *machine;
  const TinyirDim& size = launch.cluster;
  m.live = m.count * m.threads;
  m.fibers.assign(m.live, Fiber{});
  m.blocks.resize(m.count);
  m.work.clear();
  m.active = m.cluster_arrived = 0;
  m.now = 1;
  m.cluster_gathered.clear();
  m.cluster_known.clear();
  m.known.clear();
  m.number = number;
  m.heard.clear();
  m.epoch = 1;
  m.is_stuck = m.steps_aside = false;
  memset(m.shared, kPoison, m.shared_bytes);
  unsigned rank = 0;
  for (unsigned z = 0; z < size.z; ++z)
    for (unsigned y = 0; y < size.y; ++y)
      for (unsigned x = 0; x < size.x; ++x, ++rank) {
        prepare_block(launch, m.blocks[rank], rank, TinyirDim{first.x + x, first.y + y, first.z + z});
        memset(m.blocks[rank].state.data() + surplus.begin, kOutside, surplus.end - surplus.begin);
      }
}

bool waits_for_others() {
  for (const Fiber& fiber : machine->fibers)
    if (fiber.wait.kind == TINYIR_AT_WORD) return true;
  return false;
}

// Runs the cluster until it ends, has told others something, or waits for them; true when it has ended.
bool run_cluster() {
  Machine& m = *machine;
  std::vector<unsigned> order(m.threads), ranks(m.count);
  for (unsigned t = 0; t < m.threads; ++t) order[t] = t;
  for (unsigned r = 0; r < m.count; ++r) ranks[r] = r;
  while (m.live && !m.steps_aside) {
    bool has_run = false;
    if (draw.is_seeded) shuffle(order);
    if (draw.is_seeded) shuffle(ranks);
    for (unsigned r : ranks) has_run = run_ready(r, order) || has_run;
    if (has_run && !(draw.is_seeded && mix(draw.random) % 4 == 0)) continue;
    if (let_units_work() || has_run) continue;
    if (!waits_for_others()) stop(TINYIR_DEADLOCK, 0);
    m.is_stuck = true;
    return false;
  }
  m.steps_aside = false;
  if (m.live) return false;
  finish_cluster();
  return true;
}

// The cluster's shared memory leaves, and another's comes.
void leave_cluster() {
  if (machine->live) memcpy(machine->blocks[machine->active].kept.data(), machine->shared, machine->shared_bytes);
}

void enter_cluster(Machine& next) {
  if (machine == &next) return;
  leave_cluster();
  machine = &next;
  memcpy(next.shared, next.blocks[next.active].kept.data(), next.shared_bytes);
  fault.block = next.fibers[0].place.block;
}

// The clusters of a launch, by their first blocks, in the order in which they begin: none is promised. Where blocks wait for one another the last
// come first, so that waiting for one that has not begun shows.
std::vector<TinyirDim> clusters_of(const TinyirLaunch& launch, bool is_waiting) {
  std::vector<TinyirDim> found;
  for (unsigned z = 0; z < launch.grid.z; z += launch.cluster.z)
    for (unsigned y = 0; y < launch.grid.y; y += launch.cluster.y)
      for (unsigned x = 0; x < launch.grid.x; x += launch.cluster.x) found.push_back(TinyirDim{x, y, z});
  if (draw.is_seeded) shuffle(found);
  else if (is_waiting) std::vector<TinyirDim>(found.rbegin(), found.rend()).swap(found);
  return found;
}

// The clusters run one by one, or where they wait for one another a few by turns: the last to begin as far as it can, or drawn.
void run_grid(const TinyirLaunch& launch, bool is_waiting, Surplus surplus) {
  const std::vector<TinyirDim> clusters = clusters_of(launch, is_waiting);
  unsigned most = is_waiting ? std::max(1u, std::min(kMaxClusters, kMaxBlocks / machines[0].count)) : 1;
  if (draw.is_seeded && most > 2) most = 2 + unsigned(mix(draw.random) % (most - 1));
  std::vector<Machine*> running, idle;
  for (unsigned slot = most; slot > 0; --slot) idle.push_back(&machines[slot - 1]);
  size_t next = 0;
  while (next < clusters.size() || !running.empty()) {
    if (next < clusters.size() && !idle.empty()) {
      leave_cluster();
      machine = idle.back();
      idle.pop_back();
      running.push_back(machine);
      fault.block = clusters[next];
      start_cluster(launch, clusters[next], unsigned(next + 1), surplus);
      ++next;
    } else {
      std::vector<Machine*> able;
      for (Machine* m : running)
        if (!m->is_stuck) able.push_back(m);
      if (able.empty()) stop(TINYIR_DEADLOCK, 0);
      enter_cluster(*able[draw.is_seeded ? mix(draw.random) % able.size() : able.size() - 1]);
    }
    if (!run_cluster()) continue;
    running.erase(std::find(running.begin(), running.end(), machine));
    idle.push_back(machine);
  }
}

// The thread-local storage of the kernels' shared object is the shared memory of a block.
struct Object {
  const void* inside;
  char* data;
  size_t bytes;
};

int find_object(dl_phdr_info* object, size_t, void* wanted) {
  Object& found = *static_cast<Object*>(wanted);
  char* data = static_cast<char*>(object->dlpi_tls_data);
  uint64_t end = 0;
  bool is_it = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    if (segment.p_type == PT_LOAD && segment.p_vaddr + segment.p_memsz > end) end = segment.p_vaddr + segment.p_memsz;
    if (segment.p_type != PT_TLS || !data || found.inside < data || found.inside >= data + segment.p_memsz) continue;
    found.data = data;
    found.bytes = segment.p_memsz;
    is_it = true;
  }
  if (!is_it) return 0;
  code_begin = object->dlpi_addr;
  code_end = object->dlpi_addr + end;
  return 1;
}

bool has_stacks(unsigned blocks) {
  for (unsigned b = 0; b < blocks && b < kMaxBlocks; ++b) {
    if (stacks[b]) continue;
    void* mapped = mmap(nullptr, kMaxThreads * kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return false;
    stacks[b] = static_cast<char*>(mapped);
    for (unsigned t = 0; t < kMaxThreads; ++t) mprotect(stacks[b] + t * kStack, size_t(sysconf(_SC_PAGESIZE)), PROT_NONE);
  }
  return true;
}

}  // namespace
}  // namespace tinyir_sim

using namespace tinyir_sim;

extern "C" {

const TinyirPlace* tinyir_place() { return &current->place; }
unsigned tinyir_lane() { return current->number % kWarp; }
unsigned tinyir_active_mask() { return 1u << current->number % kWarp; }

int tinyir_barrier(unsigned id, unsigned count, int predicate, int fold, int line) {
  TINYIR_ENTER();
  must(id < kBarriers, "named_barrier", "number", "0..15", id);
  must(count % kWarp == 0, "named_barrier", "threads", "% 32 = 0", count);
  current->result = fold;
  if (arrive(id, count, predicate, line)) open(block_of(*current), id);
  else wait_here();
  return current->result;
}

void tinyir_barrier_arrive(unsigned id, unsigned count) {
  TINYIR_ENTER();
  must(id < kBarriers, "named_barrier_arrive", "number", "0..15", id);
  must(count && count % kWarp == 0, "named_barrier_arrive", "threads", "% 32 = 0", count);
  bool is_last = arrive(id, count, 1, 0);
  set_ready(*current);
  if (is_last) open(block_of(*current), id);
}

void tinyir_cluster_arrive() { TINYIR_ENTER(), arrive_at_cluster(); }
void tinyir_cluster_wait() { TINYIR_ENTER(), wait_for_cluster(); }
unsigned tinyir_cluster_rank() { return current->block; }

void tinyir_collective(unsigned mask, void* payload, TinyirComplete complete, int line) {
  TINYIR_ENTER();
  meet_lanes(mask, payload, complete, line);
}

void tinyir_warp_fence(unsigned mask) { warp_fence(mask); }
void tinyir_atomic(int is_begin) {
  current->is_atomic = is_begin != 0;
  if (!is_begin) machine->steps_aside = machine->takes_turns;
}

void tinyir_yield(int line) {
  current->wait.line = line;
  step_aside();
}

void tinyir_stop(int kind, int line) { stop(kind, line); }

unsigned tinyir_shared_address(const void* p) {
  TINYIR_ENTER();
  size_t offset = size_t(static_cast<const char*>(p) - machine->shared);
  must(offset <= machine->shared_bytes, "shared_address", "p", "in shared memory", int64_t(reinterpret_cast<uint64_t>(p)));
  return unsigned(offset);
}

unsigned tinyir_cluster_address(unsigned address, unsigned cta) {
  TINYIR_ENTER();
  must(cta < machine->count, "mbarrier_arrive_at", "cta", "of the cluster", cta);
  return (address & 0xffffff) | (cta + 1) << 24;
}

void tinyir_cluster_read(unsigned address, unsigned cta, void* to, unsigned bytes) {
  TINYIR_ENTER();
  must(cta < machine->count, "load_of_cta", "cta", "of the cluster", cta);
  SharedPlace place = place_of((address & 0xffffff) | (cta + 1) << 24, bytes);
  if (!place.block->live) stop_at(TINYIR_LEFT, place.offset, false);
  note_read(*place.block, *current, place.offset, bytes, current->code);
  memcpy(to, shared_of(*place.block) + place.offset, bytes);
}

void tinyir_mbar_init(unsigned barrier, unsigned count) { TINYIR_ENTER(), make_mbarrier(barrier, count); }
void tinyir_mbar_init_fence() { TINYIR_ENTER(), fence_mbarriers(); }
void tinyir_mbar_arrive(unsigned barrier) { TINYIR_ENTER(), arrive_at(barrier, 0); }
void tinyir_mbar_expect(unsigned barrier, unsigned bytes) { TINYIR_ENTER(), arrive_at(barrier, bytes); }
void tinyir_mbar_wait(unsigned barrier, unsigned parity) { TINYIR_ENTER(), wait_for_phase(barrier, parity); }

void tinyir_publish(void* word, const void* value, unsigned bytes, int is_release) { TINYIR_ENTER(), publish(word, value, bytes, is_release != 0); }
uint64_t tinyir_await(const void* word, unsigned bytes, int is_acquire) { return TINYIR_ENTER(), await(word, bytes, is_acquire != 0); }

void tinyir_tma_load(unsigned to, const void* map, unsigned barrier, int rank, const int* at, unsigned ctas) {
  TINYIR_ENTER();
  issue_load(to, map, barrier, rank, at, ctas);
}
void tinyir_tma_load_windows(unsigned to, const void* map, unsigned barrier, int rank, const int* at, unsigned ctas) {
  TINYIR_ENTER();
  issue_windows(to, map, barrier, rank, at, ctas);
}
void tinyir_send_words(unsigned to, const void* words, unsigned barrier) { TINYIR_ENTER(), issue_words(to, words, barrier); }
void tinyir_send(unsigned to, unsigned from, unsigned bytes, unsigned barrier) { TINYIR_ENTER(), issue_send(to, from, bytes, barrier); }
void tinyir_tma_store(const void* map, unsigned from, int rank, const int* at) { TINYIR_ENTER(), issue_store(map, from, rank, at); }
void tinyir_bulk_commit() { TINYIR_ENTER(), commit_stores(); }
void tinyir_bulk_wait(unsigned pending, int is_read) { TINYIR_ENTER(), wait_for_stores(pending, is_read != 0); }
void tinyir_cp_async(unsigned to, const void* from, unsigned size, unsigned bytes) { TINYIR_ENTER(), issue_copy(to, from, size, bytes); }
void tinyir_cp_async_commit() { TINYIR_ENTER(), commit_copies(); }
void tinyir_cp_async_wait(unsigned pending) { TINYIR_ENTER(), wait_for_copies(pending); }
void tinyir_proxy_fence() { TINYIR_ENTER(), fence_proxy(); }

void tinyir_ldmatrix(unsigned* registers, unsigned from, int count, int is_transposed) {
  TINYIR_ENTER();
  move_tiles(registers, from, count, is_transposed != 0, false);
}
void tinyir_stmatrix(unsigned to, const unsigned* registers, int count, int is_transposed) {
  TINYIR_ENTER();
  move_tiles(const_cast<unsigned*>(registers), to, count, is_transposed != 0, true);
}
void tinyir_mma(float* d, const unsigned* a, const unsigned* b, int is_bf16) { TINYIR_ENTER(), multiply(d, a, b, is_bf16 != 0); }
void tinyir_mma_tf32(float* d, const unsigned* a, const unsigned* b) { TINYIR_ENTER(), multiply_tf32(d, a, b); }
void tinyir_wgmma(int n, int kind, int b_kind, int a_mn, int b_mn, float* d, const unsigned* registers, uint64_t a, uint64_t b, int accumulate) {
  TINYIR_ENTER();
  issue_product(unsigned(n), Factor(kind), Factor(b_kind), a_mn != 0, b_mn != 0, d, registers, a, b, accumulate != 0);
}
void tinyir_wgmma_fence() { TINYIR_ENTER(), current->is_wgmma_fenced = true; }
void tinyir_wgmma_commit() { TINYIR_ENTER(), commit_products(); }
void tinyir_wgmma_wait(unsigned pending) { TINYIR_ENTER(), wait_for_products(pending); }
void tinyir_setmaxnreg(unsigned registers, int is_increase) { TINYIR_ENTER(), set_registers(registers, is_increase != 0); }

int tinyir_allocate(size_t bytes, size_t alignment, void** data) { return allocate(bytes, alignment, data); }

void tinyir_fill(int allocation, const void* data, int is_constant) {
  Allocation& a = allocations[allocation];
  if (!a.bytes) return;
  mprotect(a.pages, a.page_bytes, PROT_READ | PROT_WRITE);
  memcpy(a.data, data, a.bytes);
  memset(a.writers, kBefore, a.bytes);
  if (is_constant) mprotect(a.pages, a.page_bytes, PROT_READ);
}

void tinyir_forget(int allocation) {
  Allocation& a = allocations[allocation];
  if (!a.bytes) return;
  mprotect(a.pages, a.page_bytes, PROT_READ | PROT_WRITE);
  memset(a.data, kPoison, a.bytes);
  memset(a.writers, kNobody, a.bytes);
}

int64_t tinyir_stray(int allocation) { return find_stray(allocations[allocation]); }

void tinyir_free(int allocation) {
  Allocation& a = allocations[allocation];
  if (a.zone) munmap(a.zone, a.zone_bytes);
  free(a.writers);
  a = Allocation{};
}

int tinyir_launch(const TinyirCode* code, void** arguments, const TinyirLaunch* launch, TinyirFault* report, TinyirWait* waits) {
  fault = TinyirFault{};
  fault.allocation = -1;
  current = nullptr;
  kernel = code->call;
  kernel_arguments = arguments;
  Object object{code->touch_shared(), nullptr, 0};
  dl_iterate_phdr(find_object, &object);
  draw = Draw{launch->seed, launch->seed != 0};
  unsigned count = launch->cluster.x * launch->cluster.y * launch->cluster.z;
  for (unsigned slot = 0; slot < kMaxClusters; ++slot) {
    Machine& m = machines[slot];
    m.fibers.clear();
    m.live = 0;
    m.slot = slot;
    m.threads = launch->block.x * launch->block.y * launch->block.z;
    m.count = count;
    m.shared = object.data;
    m.shared_bytes = object.bytes;
    m.is_traced = code->is_traced != 0;
    m.takes_turns = code->is_waiting != 0;
  }
  machine = &machines[0];
  if (!has_stacks(code->is_waiting ? count * kMaxClusters : count)) return report->kind = TINYIR_NO_MEMORY;
  settle_writers(code->is_waiting && code->is_traced);
  told.clear();
  Surplus surplus{0, 0};
  size_t dynamic_bytes = 0;
  if (const char* dynamic = static_cast<const char*>(code->dynamic(&dynamic_bytes)))
    surplus = {size_t(dynamic - object.data) + launch->dynamic_shared, size_t(dynamic - object.data) + dynamic_bytes};
  Watch watch(launch->limit_ns);
  if (sigsetjmp(way_out, 1) == 0) {
    run_grid(*launch, code->is_waiting != 0, surplus);
  } else {
    for (size_t f = 0; f < machine->fibers.size(); ++f) {
      TinyirWait& wait = machine->fibers[f].wait;
      if (wait.kind == TINYIR_AT_MBARRIER)  // its state now, not when the fiber came
        for (const Mbarrier& barrier : block_of(machine->fibers[f]).mbarriers)
          if (barrier.at == (wait.id & 0xffffff)) {
            wait.arrived = barrier.count - barrier.pending;
            wait.numbers[1] = barrier.bytes;
          }
      waits[f] = wait;
    }
  }
  current = nullptr;
  *report = fault;
  return fault.kind;
}

}  // extern "C"
