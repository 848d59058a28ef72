// Faults of the running launch: signals of its host thread become facts, and the launch is left.
#pragma once
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>

#include "memory.hpp"

namespace tinyir_sim {

inline TinyirFault fault;  // what is known so far of what stops the launch
inline pthread_t runner;
inline volatile sig_atomic_t is_running;
inline uint64_t code_begin, code_end;  // of the kernels' shared object

// The launcher's: leaves the launch with `fault`, and tells a fiber's stack from other memory.
[[noreturn]] inline void stop(int kind, int line);
inline bool is_stack(const void* address);

inline void on_signal(int number, siginfo_t* what, void* raw) {
  if (!is_running || !pthread_equal(pthread_self(), runner)) {  // not ours: let it fall with the default action
    signal(number, SIG_DFL);
    return;
  }
  is_running = 0;
  auto* machine = static_cast<ucontext_t*>(raw);
  uint64_t instruction = 0;
#if defined(__x86_64__)
  instruction = uint64_t(machine->uc_mcontext.gregs[REG_RIP]);
  fault.is_write = (machine->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#elif defined(__aarch64__)
  instruction = machine->uc_mcontext.pc;
#endif
  if (instruction >= code_begin && instruction < code_end) fault.code = instruction - code_begin;
  if (number == SIGALRM) stop(TINYIR_TIME, 0);
  if (number == SIGILL || number == SIGTRAP) stop(TINYIR_TRAP, 0);
  if (number == SIGFPE) stop(TINYIR_ARITHMETIC, 0);
  fault.address = reinterpret_cast<uint64_t>(what->si_addr);
  fault.allocation = find_allocation(what->si_addr);
  if (is_stack(what->si_addr)) stop(TINYIR_STACK, 0);
  if (fault.allocation >= 0) fault.byte_offset = static_cast<char*>(what->si_addr) - allocations[fault.allocation].data;
  stop(TINYIR_MEMORY, 0);
}

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE, SIGALRM};
constexpr int kSignalCount = sizeof(kSignals) / sizeof(kSignals[0]);

// For as long as a launch lasts, its faults are caught, on a stack of their own: that of a fiber may be what overflowed.
struct Watch {
  struct sigaction before[kSignalCount];
  stack_t stack_before;
  char* stack;
  timer_t timer;
  bool has_timer = false;

  explicit Watch(uint64_t limit_ns) {
    stack = static_cast<char*>(malloc(size_t(64) << 10));
    stack_t own{};
    own.ss_sp = stack;
    own.ss_size = size_t(64) << 10;
    sigaltstack(&own, &stack_before);
    struct sigaction action {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (int i = 0; i < kSignalCount; ++i) sigaction(kSignals[i], &action, &before[i]);
    runner = pthread_self();
    is_running = 1;
    if (!limit_ns) return;
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGALRM;
    event._sigev_un._tid = pid_t(syscall(SYS_gettid));
    has_timer = timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
    itimerspec limit{};
    limit.it_value.tv_sec = time_t(limit_ns / 1000000000u);
    limit.it_value.tv_nsec = long(limit_ns % 1000000000u);
    if (has_timer) timer_settime(timer, 0, &limit, nullptr);
  }

  ~Watch() {
    is_running = 0;
    if (has_timer) timer_delete(timer);
    for (int i = 0; i < kSignalCount; ++i) sigaction(kSignals[i], &before[i], nullptr);
    sigaltstack(&stack_before, nullptr);
    free(stack);
  }
};

}  // namespace tinyir_sim
