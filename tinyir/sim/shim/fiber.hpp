// A thread of the GPU is a fiber of one host thread: it runs until it waits. Switching saves the callee-saved registers only.
#pragma once
#include <stdint.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace tinyir_sim {

#if defined(__x86_64__)

struct Context {
  void* stack_pointer;
};

extern "C" void tinyir_switch(void** save, void* load);
asm(R"(
.text
.globl tinyir_switch
.hidden tinyir_switch
.type tinyir_switch, @function
tinyir_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size tinyir_switch, .-tinyir_switch
)");

// The first switch into the fiber enters `entry` with the stack aligned as the ABI wants it at a call; `entry` never returns.
inline void prepare(Context& context, char* stack, size_t bytes, void (*entry)()) {
  void** top = reinterpret_cast<void**>((reinterpret_cast<uintptr_t>(stack) + bytes) & ~uintptr_t(15));
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(entry);
  for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
  context.stack_pointer = top;
}

inline void switch_to(Context& from, Context& to) { tinyir_switch(&from.stack_pointer, to.stack_pointer); }

#else

struct Context {
  ucontext_t state;
};

inline void prepare(Context& context, char* stack, size_t bytes, void (*entry)()) {
  getcontext(&context.state);
  context.state.uc_stack.ss_sp = stack;
  context.state.uc_stack.ss_size = bytes;
  context.state.uc_link = nullptr;
  makecontext(&context.state, entry, 0);
}

inline void switch_to(Context& from, Context& to) { swapcontext(&from.state, &to.state); }

#endif

}  // namespace tinyir_sim
