// Warp collectives: every lane brings a payload, the last to come computes for all (tinyir_collective).
#pragma once
#include "abi.h"
#include "numbers.hpp"

namespace tinyir_sim {

struct Shuffle {
  uint64_t value, result;
  int source;  // lane to read
};

inline void complete_shuffle(void** payloads, unsigned mask) {
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    Shuffle& own = *static_cast<Shuffle*>(payloads[lane]);
    // A lane that is not in the mask has no value: its reader gets the poison, as undefined as on the GPU but always the same.
    own.result = mask >> own.source & 1 ? static_cast<Shuffle*>(payloads[own.source])->value : ~uint64_t(0);
  }
}

template <class T>
inline T shuffle(unsigned mask, T value, int source, int line) {
  static_assert(sizeof(T) <= 8, "a lane passes at most 8 bytes");
  Shuffle payload{0, 0, source};
  memcpy(&payload.value, &value, sizeof value);
  tinyir_collective(mask, &payload, complete_shuffle, line);
  memcpy(&value, &payload.result, sizeof value);
  return value;
}

struct Vote {
  uint64_t value;
  unsigned result;
};

inline void complete_ballot(void** payloads, unsigned mask) {
  unsigned votes = 0;
  for (int lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1 && static_cast<Vote*>(payloads[lane])->value) votes |= 1u << lane;
  for (int lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1) static_cast<Vote*>(payloads[lane])->result = votes;
}

inline void complete_match(void** payloads, unsigned mask) {
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    Vote& own = *static_cast<Vote*>(payloads[lane]);
    own.result = 0;
    for (int other = 0; other < 32; ++other)
      if (mask >> other & 1 && static_cast<Vote*>(payloads[other])->value == own.value) own.result |= 1u << other;
  }
}

inline unsigned vote(unsigned mask, uint64_t value, TinyirComplete complete, int line) {
  Vote payload{value, 0};
  tinyir_collective(mask, &payload, complete, line);
  return payload.result;
}

inline void complete_fence(void**, unsigned mask) { tinyir_warp_fence(mask); }

struct Fold {
  int64_t value, result;
};

template <class Combine>
inline void complete_fold(void** payloads, unsigned mask) {
  int64_t total = 0;
  bool is_first = true;
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    int64_t value = static_cast<Fold*>(payloads[lane])->value;
    total = is_first ? value : Combine::of(total, value);
    is_first = false;
  }
  for (int lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1) static_cast<Fold*>(payloads[lane])->result = total;
}

template <class Combine, class T>
inline T fold(unsigned mask, T value, int line) {
  Fold payload{int64_t(value), 0};
  tinyir_collective(mask, &payload, complete_fold<Combine>, line);
  return T(payload.result);
}

struct Sum { static int64_t of(int64_t a, int64_t b) { return a + b; } };
struct Least { static int64_t of(int64_t a, int64_t b) { return b < a ? b : a; } };
struct Greatest { static int64_t of(int64_t a, int64_t b) { return a < b ? b : a; } };
struct And { static int64_t of(int64_t a, int64_t b) { return a & b; } };
struct Or { static int64_t of(int64_t a, int64_t b) { return a | b; } };
struct Xor { static int64_t of(int64_t a, int64_t b) { return a ^ b; } };

}  // namespace tinyir_sim

template <class T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, int line = __builtin_LINE()) {
  int lane = int(tinyir_lane());
  return tinyir_sim::shuffle(mask, value, (lane & ~(width - 1)) | (source & (width - 1)), line);
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, int line = __builtin_LINE()) {
  int lane = int(tinyir_lane()), source = lane - int(delta);
  return tinyir_sim::shuffle(mask, value, source < (lane & ~(width - 1)) ? lane : source, line);
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, int line = __builtin_LINE()) {
  int lane = int(tinyir_lane()), source = lane + int(delta);
  return tinyir_sim::shuffle(mask, value, source > (lane | (width - 1)) ? lane : source, line);
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, int line = __builtin_LINE()) {
  int lane = int(tinyir_lane()), source = lane ^ lanes;
  return tinyir_sim::shuffle(mask, value, source > (lane | (width - 1)) ? lane : source, line);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return tinyir_sim::vote(mask, predicate != 0, tinyir_sim::complete_ballot, line);
}
inline int __any_sync(unsigned mask, int predicate, int line = __builtin_LINE()) { return __ballot_sync(mask, predicate, line) != 0; }
inline int __all_sync(unsigned mask, int predicate, int line = __builtin_LINE()) { return __ballot_sync(mask, !predicate, line) == 0; }
template <class T>
inline unsigned __match_any_sync(unsigned mask, T value, int line = __builtin_LINE()) {
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  return tinyir_sim::vote(mask, bits, tinyir_sim::complete_match, line);
}
inline void __syncwarp(unsigned mask = 0xffffffffu, int line = __builtin_LINE()) {
  tinyir_collective(mask, nullptr, tinyir_sim::complete_fence, line);
}
inline unsigned __activemask() { return tinyir_active_mask(); }
#define TINYIR_REDUCE(name, Combine)                                                  \
  template <class T>                                                                  \
  inline T __reduce_##name##_sync(unsigned mask, T value, int line = __builtin_LINE()) { \
    return tinyir_sim::fold<tinyir_sim::Combine>(mask, value, line);                  \
  }
TINYIR_REDUCE(add, Sum)
TINYIR_REDUCE(min, Least)
TINYIR_REDUCE(max, Greatest)
TINYIR_REDUCE(and, And)
TINYIR_REDUCE(or, Or)
TINYIR_REDUCE(xor, Xor)
#undef TINYIR_REDUCE
