// Global memory of the simulated device: allocations between guard zones, so that a stray access faults at once and names its buffer.
// Beside each allocation is a byte for every one of its own: whether it was written, and by which block of the running launch.
#pragma once
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "abi.h"

namespace tinyir_sim {

constexpr unsigned char kPoison = 0xff;  // NaN in every float, -1 in every integer
constexpr int kMaxAllocations = 4096;
constexpr size_t kGuard = size_t(1) << 30;  // reach of the zone on each side, address space only: an index that is off by far still lands in it

struct Allocation {
  char* zone = nullptr;  // everything mapped, guards included
  size_t zone_bytes = 0;
  char* pages = nullptr;  // the part that may be touched
  size_t page_bytes = 0;
  char* data = nullptr;
  size_t bytes = 0;
  unsigned char* writers = nullptr;  // of each byte: kNobody, kBefore the launch, or a block of it
  std::vector<uint64_t> stamps;      // of each byte, where blocks wait for one another: which cluster stored it, and in which epoch
};

enum : unsigned char { kNobody = 0, kBefore = 1, kFirstBlock = 2 };

inline Allocation allocations[kMaxAllocations];
inline int allocation_count;  // those behind are free
inline int last_allocation;   // that an address was found in

inline size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

inline int allocate(size_t bytes, size_t alignment, void** data) {
  int index = 0;
  while (index < kMaxAllocations && allocations[index].zone) ++index;
  if (index == kMaxAllocations) return -1;
  size_t page = size_t(sysconf(_SC_PAGESIZE));
  Allocation a;
  size_t span = round_up(bytes, alignment);
  a.bytes = bytes;
  a.page_bytes = round_up(span ? span : 1, page);
  a.zone_bytes = a.page_bytes + 2 * kGuard;
  void* zone = mmap(nullptr, a.zone_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (zone == MAP_FAILED) return -1;
  a.zone = static_cast<char*>(zone);
  a.pages = a.zone + kGuard;
  if (mprotect(a.pages, a.page_bytes, PROT_READ | PROT_WRITE)) {
    munmap(zone, a.zone_bytes);
    return -1;
  }
  memset(a.pages, kPoison, a.page_bytes);
  a.data = a.pages + a.page_bytes - span;
  if (!bytes) mprotect(a.pages, a.page_bytes, PROT_NONE);
  a.writers = static_cast<unsigned char*>(calloc(bytes ? bytes : 1, 1));
  if (!a.writers) {
    munmap(zone, a.zone_bytes);
    return -1;
  }
  allocations[index] = a;
  if (index >= allocation_count) allocation_count = index + 1;
  *data = a.data;
  return index;
}

// The allocation in whose zone an address is, or -1.
inline int find_allocation(const void* address) {
  const char* p = static_cast<const char*>(address);
  for (int index = 0; index < allocation_count; ++index) {
    const Allocation& a = allocations[index];
    if (a.zone && p >= a.zone && p < a.zone + a.zone_bytes) return index;
  }
  return -1;
}

// The allocation that holds the bytes, or null.
inline Allocation* find_data(const void* address, size_t bytes) {
  const char* p = static_cast<const char*>(address);
  auto holds = [&](const Allocation& a) { return p >= a.data && p + bytes <= a.data + a.bytes; };
  if (holds(allocations[last_allocation])) return &allocations[last_allocation];
  for (int index = 0; index < allocation_count; ++index)
    if (holds(allocations[index])) {
      last_allocation = index;
      return &allocations[index];
    }
  return nullptr;
}

// A launch begins: what the ones before it wrote is there.
inline void settle_writers(bool is_stamped) {
  for (int index = 0; index < allocation_count; ++index) {
    allocations[index].stamps.assign(is_stamped && allocations[index].zone ? allocations[index].bytes : 0, 0);
    for (size_t i = 0; i < allocations[index].bytes; ++i)
      if (allocations[index].writers[i] > kBefore) allocations[index].writers[i] = kBefore;
  }
}

// The offset from the data of a byte outside it that no longer holds the poison, or 0.
inline int64_t find_stray(const Allocation& a) {
  if (!a.bytes) return 0;
  for (char* p = a.pages; p < a.data; ++p)
    if (static_cast<unsigned char>(*p) != kPoison) return p - a.data;
  for (char* p = a.data + a.bytes; p < a.pages + a.page_bytes; ++p)
    if (static_cast<unsigned char>(*p) != kPoison) return p - a.data;
  return 0;
}

}  // namespace tinyir_sim
