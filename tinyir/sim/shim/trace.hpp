// The kernels are compiled with the instrumentation of a thread sanitizer, and this takes the place of its runtime: every load and store
// of an emitted text comes by here. Shared memory is told from global memory, and both from a fiber's own stack, by the address.
#pragma once
#include "matrix.hpp"

namespace tinyir_sim {

inline void trace(const void* address, size_t bytes, bool is_write, const void* from) {
  if (!current || !machine) return;
  size_t offset = size_t(static_cast<const char*>(address) - machine->shared);
  uint64_t code = code_of(static_cast<const char*>(from) - 1);
  if (offset < machine->shared_bytes) {
    Block& block = block_of(*current);
    current->code = code;
    if (offset + bytes > machine->shared_bytes) stop_at(TINYIR_OUTSIDE, int64_t(offset), is_write);
    if (is_write) note_write(block, *current, unsigned(offset), unsigned(bytes), code);
    else note_read(block, *current, unsigned(offset), unsigned(bytes), code);
  } else if (is_stack(address)) {
    check_accumulators(address, is_write, code);
  } else {
    current->code = code;
    note_global(address, bytes, is_write);
  }
}

}  // namespace tinyir_sim

#define TINYIR_TRACED(name, bytes, is_write)                                                               \
  __attribute__((visibility("default"))) void __tsan_##name(void* address) {                              \
    tinyir_sim::trace(address, bytes, is_write, __builtin_return_address(0));                             \
  }
#define TINYIR_TRACED_SIZES(prefix, is_write, word) \
  TINYIR_TRACED(prefix##word##1, 1, is_write)      \
  TINYIR_TRACED(prefix##word##2, 2, is_write)      \
  TINYIR_TRACED(prefix##word##4, 4, is_write)      \
  TINYIR_TRACED(prefix##word##8, 8, is_write)      \
  TINYIR_TRACED(prefix##word##16, 16, is_write)

extern "C" {
TINYIR_TRACED_SIZES(, false, read)
TINYIR_TRACED_SIZES(, true, write)
TINYIR_TRACED_SIZES(unaligned_, false, read)
TINYIR_TRACED_SIZES(unaligned_, true, write)
TINYIR_TRACED_SIZES(volatile_, false, read)
TINYIR_TRACED_SIZES(volatile_, true, write)
TINYIR_TRACED_SIZES(unaligned_volatile_, false, read)
TINYIR_TRACED_SIZES(unaligned_volatile_, true, write)
#define TINYIR_EXPORTED __attribute__((visibility("default")))
TINYIR_EXPORTED void __tsan_read_range(void* address, size_t bytes) { tinyir_sim::trace(address, bytes, false, __builtin_return_address(0)); }
TINYIR_EXPORTED void __tsan_write_range(void* address, size_t bytes) { tinyir_sim::trace(address, bytes, true, __builtin_return_address(0)); }
TINYIR_EXPORTED void __tsan_func_entry(void*) {}
TINYIR_EXPORTED void __tsan_func_exit() {}
TINYIR_EXPORTED void __tsan_init() {}
TINYIR_EXPORTED void __tsan_vptr_update(void*, void*) {}
#undef TINYIR_EXPORTED
}
