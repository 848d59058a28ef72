// CPU twins of the PTX wrappers, which an emitted text declares for all and defines under `#ifndef TINYIR_SIM` (ir.intrinsics). Read after the
// text. A wrapper's types are the text's own; TINYIR_HAS_<type> says that the text has one. What they do is in the launcher.
#pragma once
#include "numbers.hpp"

typedef unsigned int tinyir_uint;

#ifdef TINYIR_HAS_fp16
__device__ float float_of_fp16(fp16 x) { return tinyir_sim::half_to_float(x.bits); }
__device__ fp16 fp16_of_float(float x) { return {tinyir_sim::float_to_half(x)}; }
#endif
#ifdef TINYIR_HAS_bf16
__device__ bf16 bf16_of_float(float x) { return {tinyir_sim::float_to_bfloat(x)}; }
#endif
__device__ tinyir_uint pair_of_fp16(float low, float high) {
  return tinyir_sim::float_to_half(low) | tinyir_uint(tinyir_sim::float_to_half(high)) << 16;
}
__device__ tinyir_uint pair_of_bf16(float low, float high) {
  return tinyir_sim::float_to_bfloat(low) | tinyir_uint(tinyir_sim::float_to_bfloat(high)) << 16;
}
// Numbers of fp16 two by two. Their differences and products are exact in double, and rounded once.
inline tinyir_uint tinyir_half_of(double x) {
  const float y = (float)x, z = fabs((double)y) > fabs(x) ? nextafterf(y, 0.0f) : y;  // towards zero
  if ((double)z == x || x != x || fabs(x) > 1e30) return tinyir_sim::float_to_half((float)x);
  return tinyir_sim::float_to_half(__uint_as_float(__float_as_uint(z) | 1u));
}
__device__ tinyir_uint difference_of_pairs(tinyir_uint a, tinyir_uint b) {
  const double low = (double)tinyir_sim::half_to_float((unsigned short)a) - tinyir_sim::half_to_float((unsigned short)b);
  const double high = (double)tinyir_sim::half_to_float((unsigned short)(a >> 16)) - tinyir_sim::half_to_float((unsigned short)(b >> 16));
  return tinyir_half_of(low) | tinyir_half_of(high) << 16;
}
__device__ tinyir_uint product_of_pairs(tinyir_uint a, tinyir_uint b) {
  const double low = (double)tinyir_sim::half_to_float((unsigned short)a) * tinyir_sim::half_to_float((unsigned short)b);
  const double high = (double)tinyir_sim::half_to_float((unsigned short)(a >> 16)) * tinyir_sim::half_to_float((unsigned short)(b >> 16));
  return tinyir_half_of(low) | tinyir_half_of(high) << 16;
}
__device__ tinyir_uint bytes_of(const tinyir_uint *words, int i, int j, tinyir_uint above) {
  const auto of = [words](int n) { return words[n / 4] >> 8 * (n % 4) & 0xffu; };
  return of(i) | of(j) << 16 | (above & 0xffu) * 0x01000100u;
}
__device__ tinyir_uint byte_twice(tinyir_uint word, int at) { return ((word >> at / 8 * 8 & 0xffu) * 0x10001u) >> at % 8; }
__device__ tinyir_uint halves_of(tinyir_uint low, tinyir_uint high, int at) {
  const int from = at / 16 * 16;
  return ((low >> from & 0xffffu) | (high >> from) << 16) >> at % 16;
}
__device__ tinyir_uint raised_pair(tinyir_uint word, tinyir_uint mask, tinyir_uint by) { return (word & mask) | by; }
// One NaN for all, and of zeros the positive one is greater, whatever the order.
__device__ float max_nan_of(float a, float b) { return a != a || b != b ? __uint_as_float(0x7fffffffu) : a > b || (a == b && !signbit(a)) ? a : b; }
__device__ float min_nan_of(float a, float b) { return a != a || b != b ? __uint_as_float(0x7fffffffu) : a < b || (a == b && signbit(a)) ? a : b; }
// The unit flushes subnormals to zero on both sides, keeping the sign of neither result (2^x is positive).
__device__ float exp2_approx(float x) {
  float y = exp2f(x);
  return y < 1.17549435e-38f ? 0.0f : y;
}
// The unit flushes subnormals to zeros of their sign on both sides.
__device__ float recip_approx(float x) {
  const float y = 1.0f / (fabsf(x) < 1.17549435e-38f ? copysignf(0.0f, x) : x);
  return fabsf(y) < 1.17549435e-38f ? copysignf(0.0f, y) : y;
}

// Floats towards zero, at most a byte's range, NaN as 0: four in a word.
inline tinyir_uint tinyir_byte_of(float x, float low, float high) { return x != x ? 0u : (unsigned char)(int)fminf(fmaxf(x, low), high); }
__device__ tinyir_uint i8s_of(float a, float b, float c, float d) {
  const float x[4] = {a, b, c, d};
  tinyir_uint y = 0;
  for (int n = 0; n < 4; ++n) y |= tinyir_byte_of(x[n], -128.0f, 127.0f) << 8 * n;
  return y;
}
__device__ tinyir_uint u8s_of(float a, float b, float c, float d) {
  const float x[4] = {a, b, c, d};
  tinyir_uint y = 0;
  for (int n = 0; n < 4; ++n) y |= tinyir_byte_of(x[n], 0.0f, 255.0f) << 8 * n;
  return y;
}
// Floats of 8 bits with `digits` of fraction, the greatest of them for what is beyond: two in half a word.
inline tinyir_uint tinyir_small_of(float x, int digits, int bias, tinyir_uint most) {
  const float size = fabsf(x);
  const int own = (int)(__float_as_uint(size) >> 23) - 127, exponent = own < 1 - bias ? 1 - bias : own;
  const double steps = ldexp((double)size, digits - exponent);  // of which a number is a whole count
  const double whole = floor(steps), rest = steps - whole;
  const double near = rest > 0.5 || (rest == 0.5 && (long long)whole % 2) ? whole + 1 : whole;
  const double code = size <= 1e9f ? near + ((exponent + bias - 1) << digits) : most;
  return (__float_as_uint(x) >> 24 & 0x80u) | (code < most ? (tinyir_uint)code : most);
}
__device__ tinyir_uint pair_of_fp8e4m3(float low, float high) { return tinyir_small_of(low, 3, 7, 0x7e) | tinyir_small_of(high, 3, 7, 0x7e) << 8; }
__device__ tinyir_uint pair_of_fp8e5m2(float low, float high) { return tinyir_small_of(low, 2, 15, 0x7b) | tinyir_small_of(high, 2, 15, 0x7b) << 8; }

__device__ tinyir_uint word_as_is(tinyir_uint x) { return x; }
__device__ uint4 load_once(const void* from) { return *static_cast<const uint4*>(from); }
__device__ uint4 load_line(const void* from) { return *static_cast<const uint4*>(from); }
__device__ void store_words_last(void* to, uint4 x) { *static_cast<uint4*>(to) = x; }
__device__ uint4 load_kept(const void* from) { return *static_cast<const uint4*>(from); }
__device__ uint4 load_last(const void* from) { return *static_cast<const uint4*>(from); }

__device__ void copy_16(void* to, const void* from) {
  if ((unsigned long long)from % 2)
    for (int i = 0; i < 16; ++i) static_cast<unsigned char*>(to)[i] = static_cast<const unsigned char*>(from)[i];
  else
    for (int i = 0; i < 8; ++i) static_cast<unsigned short*>(to)[i] = static_cast<const unsigned short*>(from)[i];
}

__device__ void publish_word(unsigned long long* word, tinyir_uint value) {
  const unsigned long long whole = (unsigned long long)value << 32 | 1;
  tinyir_publish(word, &whole, sizeof whole, 0);
}
__device__ tinyir_uint await_word(const unsigned long long* word) { return tinyir_uint(tinyir_await(word, sizeof *word, 0) >> 32); }
__device__ void publish_flag(tinyir_uint* flag) {
  const tinyir_uint whole = 1;
  tinyir_publish(flag, &whole, sizeof whole, 1);
}
__device__ void await_flag(const tinyir_uint* flag) { tinyir_await(flag, sizeof *flag, 1); }

typedef unsigned long long tinyir_mbarrier;
__device__ tinyir_uint shared_address(const void* p) { return tinyir_shared_address(p); }
__device__ void mbarrier_init(tinyir_mbarrier* barrier, int count) { tinyir_mbar_init(tinyir_shared_address(barrier), tinyir_uint(count)); }
__device__ void mbarrier_init_if(bool is_chosen, tinyir_mbarrier* barrier, int count) {
  if (is_chosen) mbarrier_init(barrier, count);
}
__device__ void fence_mbarrier_init() { tinyir_mbar_init_fence(); }
__device__ void mbarrier_arrive(tinyir_mbarrier* barrier) { tinyir_mbar_arrive(tinyir_shared_address(barrier)); }
__device__ void mbarrier_expect(tinyir_mbarrier* barrier, int bytes) { tinyir_mbar_expect(tinyir_shared_address(barrier), tinyir_uint(bytes)); }
__device__ void mbarrier_arrive_at(tinyir_mbarrier* barrier, int cta) {
  tinyir_mbar_arrive(tinyir_cluster_address(tinyir_shared_address(barrier), tinyir_uint(cta)));
}
__device__ void mbarrier_wait(tinyir_mbarrier* barrier, tinyir_uint phase) { tinyir_mbar_wait(tinyir_shared_address(barrier), phase); }

#ifdef TINYIR_HAS_tensor_map
#define TINYIR_TMA(rank, parameters, ...)                                                                             \
  __device__ void tma_load_##rank##d(void* to, const tensor_map* map, tinyir_mbarrier* barrier, parameters) {         \
    const int at[] = {__VA_ARGS__};                                                                                   \
    tinyir_tma_load(tinyir_shared_address(to), map, tinyir_shared_address(barrier), rank, at, 0);                     \
  }                                                                                                                   \
  __device__ void tma_streamed_##rank##d(void* to, const tensor_map* map, tinyir_mbarrier* barrier, parameters) {     \
    const int at[] = {__VA_ARGS__};                                                                                   \
    tinyir_tma_load(tinyir_shared_address(to), map, tinyir_shared_address(barrier), rank, at, 0);                     \
  }                                                                                                                   \
  __device__ void tma_multicast_##rank##d(void* to, const tensor_map* map, tinyir_mbarrier* barrier, parameters,      \
                                          unsigned short ctas) {                                                      \
    const int at[] = {__VA_ARGS__};                                                                                   \
    tinyir_tma_load(tinyir_shared_address(to), map, tinyir_shared_address(barrier), rank, at, ctas);                  \
  }                                                                                                                   \
  __device__ void tma_store_##rank##d(const tensor_map* map, parameters, const void* from) {                          \
    const int at[] = {__VA_ARGS__};                                                                                   \
    tinyir_tma_store(map, tinyir_shared_address(from), rank, at);                                                     \
  }
#define TINYIR_COMMA ,
TINYIR_TMA(1, int x, x)
TINYIR_TMA(2, int x TINYIR_COMMA int y, x, y)
TINYIR_TMA(3, int x TINYIR_COMMA int y TINYIR_COMMA int z, x, y, z)
TINYIR_TMA(4, int x TINYIR_COMMA int y TINYIR_COMMA int z TINYIR_COMMA int u, x, y, z, u)
TINYIR_TMA(5, int x TINYIR_COMMA int y TINYIR_COMMA int z TINYIR_COMMA int u TINYIR_COMMA int v, x, y, z, u, v)
#undef TINYIR_TMA
#define TINYIR_TMA_WINDOWS(rank, parameters, ...)                                                                     \
  __device__ void tma_load_windows_##rank##d(void* to, const tensor_map* map, tinyir_mbarrier* barrier, parameters) { \
    const int at[] = {__VA_ARGS__};                                                                                   \
    tinyir_tma_load_windows(tinyir_shared_address(to), map, tinyir_shared_address(barrier), rank, at, 0);             \
  }                                                                                                                   \
  __device__ void tma_multicast_windows_##rank##d(void* to, const tensor_map* map, tinyir_mbarrier* barrier,          \
                                                  parameters, unsigned short ctas) {                                  \
    const int at[] = {__VA_ARGS__};                                                                                   \
    tinyir_tma_load_windows(tinyir_shared_address(to), map, tinyir_shared_address(barrier), rank, at, ctas);          \
  }
TINYIR_TMA_WINDOWS(3, int x TINYIR_COMMA int y TINYIR_COMMA int z TINYIR_COMMA int a, x, y, z, a)
TINYIR_TMA_WINDOWS(4, int x TINYIR_COMMA int y TINYIR_COMMA int z TINYIR_COMMA int u TINYIR_COMMA int a TINYIR_COMMA int b, x, y, z, u, a, b)
TINYIR_TMA_WINDOWS(5, int x TINYIR_COMMA int y TINYIR_COMMA int z TINYIR_COMMA int u TINYIR_COMMA int v TINYIR_COMMA int a TINYIR_COMMA int b TINYIR_COMMA int c, x, y, z, u, v, a, b, c)
#undef TINYIR_COMMA
#undef TINYIR_TMA_WINDOWS
__device__ void prefetch_map(const tensor_map*) {}
#endif
__device__ void tma_store_commit() { tinyir_bulk_commit(); }
template <int pending> __device__ void tma_store_wait() { tinyir_bulk_wait(pending, 1); }
template <int pending> __device__ void tma_store_wait_written() { tinyir_bulk_wait(pending, 0); }
__device__ void cp_async_16(void* to, const void* from, int bytes) { tinyir_cp_async(tinyir_shared_address(to), from, 16, tinyir_uint(bytes)); }
__device__ void cp_async_8(void* to, const void* from, int bytes) { tinyir_cp_async(tinyir_shared_address(to), from, 8, tinyir_uint(bytes)); }
__device__ void cp_async_4(void* to, const void* from, int bytes) { tinyir_cp_async(tinyir_shared_address(to), from, 4, tinyir_uint(bytes)); }
__device__ void cp_async_commit() { tinyir_cp_async_commit(); }
template <int pending> __device__ void cp_async_wait() { tinyir_cp_async_wait(pending); }
__device__ void fence_async_proxy() { tinyir_proxy_fence(); }

#define TINYIR_TILES(suffix, is_transposed)                                                                           \
  __device__ void ldmatrix_x1##suffix(tinyir_uint& a, const void* from) { tinyir_ldmatrix(&a, tinyir_shared_address(from), 1, is_transposed); }\
  __device__ void ldmatrix_x2##suffix(tinyir_uint& a, tinyir_uint& b, const void* from) {                             \
    tinyir_uint r[2];                                                                                                 \
    tinyir_ldmatrix(r, tinyir_shared_address(from), 2, is_transposed);                                                \
    a = r[0], b = r[1];                                                                                               \
  }                                                                                                                   \
  __device__ void ldmatrix_x4##suffix(tinyir_uint& a, tinyir_uint& b, tinyir_uint& c, tinyir_uint& d, const void* from) {\
    tinyir_uint r[4];                                                                                                 \
    tinyir_ldmatrix(r, tinyir_shared_address(from), 4, is_transposed);                                                \
    a = r[0], b = r[1], c = r[2], d = r[3];                                                                           \
  }                                                                                                                   \
  __device__ void stmatrix_x1##suffix(void* to, tinyir_uint a) { tinyir_stmatrix(tinyir_shared_address(to), &a, 1, is_transposed); }\
  __device__ void stmatrix_x2##suffix(void* to, tinyir_uint a, tinyir_uint b) {                                       \
    const tinyir_uint r[] = {a, b};                                                                                   \
    tinyir_stmatrix(tinyir_shared_address(to), r, 2, is_transposed);                                                  \
  }                                                                                                                   \
  __device__ void stmatrix_x4##suffix(void* to, tinyir_uint a, tinyir_uint b, tinyir_uint c, tinyir_uint d) {         \
    const tinyir_uint r[] = {a, b, c, d};                                                                             \
    tinyir_stmatrix(tinyir_shared_address(to), r, 4, is_transposed);                                                  \
  }
TINYIR_TILES(, 0)
TINYIR_TILES(_trans, 1)
#undef TINYIR_TILES

#define TINYIR_MMA(dtype, is_bf16)                                                                                    \
  __device__ void mma_m16n8k16_##dtype(float (&d)[4], const tinyir_uint (&a)[4], tinyir_uint b0, tinyir_uint b1) {    \
    const tinyir_uint b[] = {b0, b1};                                                                                 \
    tinyir_mma(d, a, b, is_bf16);                                                                                     \
  }
__device__ void mma_m16n8k8_tf32(float (&d)[4], const tinyir_uint (&a)[4], tinyir_uint b0, tinyir_uint b1) {
  const tinyir_uint b[] = {b0, b1};
  tinyir_mma_tf32(d, a, b);
}
__device__ tinyir_uint tf32_of(float x) { return tinyir_sim::float_to_tf32(x); }
TINYIR_MMA(fp16, 0)
TINYIR_MMA(bf16, 1)
#undef TINYIR_MMA

// One for each product that the text names: what the name says.
#define TINYIR_WGMMA(name, n, kind, b_kind)                                                                           \
  template <int a_major, int b_major>                                                                                 \
  __device__ void name(float (&d)[n / 2], unsigned long long a, unsigned long long b, bool is_added) {                \
    tinyir_wgmma(n, kind, b_kind, a_major, b_major, d, nullptr, a, b, is_added);                                      \
  }                                                                                                                   \
  template <int b_major>                                                                                              \
  __device__ void name##_of_registers(float (&d)[n / 2], const tinyir_uint (&a)[4], unsigned long long b, bool is_added) { \
    tinyir_wgmma(n, kind, b_kind, 0, b_major, d, a, 0, b, is_added);                                                  \
  }
#define TINYIR_WGMMA_ALONG(name, n, kind, b_kind)                                                                     \
  __device__ void name(float (&d)[n / 2], unsigned long long a, unsigned long long b, bool is_added) {                \
    tinyir_wgmma(n, kind, b_kind, 0, 0, d, nullptr, a, b, is_added);                                                  \
  }                                                                                                                   \
  __device__ void name##_of_registers(float (&d)[n / 2], const tinyir_uint (&a)[4], unsigned long long b, bool is_added) { \
    tinyir_wgmma(n, kind, b_kind, 0, 0, d, a, 0, b, is_added);                                                        \
  }
__device__ void wgmma_fence() { tinyir_wgmma_fence(); }
__device__ void wgmma_commit() { tinyir_wgmma_commit(); }
template <int pending> __device__ void wgmma_wait() { tinyir_wgmma_wait(pending); }

__device__ void named_barrier(int number, int threads) { tinyir_barrier(tinyir_uint(number), tinyir_uint(threads), 1, TINYIR_AND, 0); }
__device__ void named_barrier_arrive(int number, int threads) { tinyir_barrier_arrive(tinyir_uint(number), tinyir_uint(threads)); }
__device__ void warpgroup_barrier(int number) { named_barrier(number, 128); }
__device__ void cluster_arrive() { tinyir_cluster_arrive(); }
__device__ void cluster_wait() { tinyir_cluster_wait(); }
// That a relaxed arrival orders nothing but what mbarrier_init made is for `ir.gpu.check` to see.
__device__ void cluster_arrive_relaxed() { tinyir_cluster_arrive(); }
__device__ void cluster_barrier() {
  tinyir_cluster_arrive();
  tinyir_cluster_wait();
}
__device__ void send_to_cta(void* to, const void* from, int bytes, tinyir_mbarrier* barrier, int cta) {
  const tinyir_uint there = tinyir_uint(cta);
  tinyir_send(tinyir_cluster_address(tinyir_shared_address(to), there), tinyir_shared_address(from), tinyir_uint(bytes),
              tinyir_cluster_address(tinyir_shared_address(barrier), there));
}
__device__ float one_of(bool is_first, float a, float b) { return is_first ? a : b; }
__device__ tinyir_uint address_in_cta(const void* p, int cta) { return tinyir_cluster_address(tinyir_shared_address(p), tinyir_uint(cta)); }
__device__ void send_words(tinyir_uint to, float a, float b, float c, float d, tinyir_uint barrier) {
  const float words[4] = {a, b, c, d};
  tinyir_send_words(to, words, barrier);
}
__device__ float load_of_cta(const float* place, int cta) {
  float value;
  tinyir_cluster_read(tinyir_shared_address(place), tinyir_uint(cta), &value, sizeof value);
  return value;
}
__device__ tinyir_uint cluster_rank() { return tinyir_cluster_rank(); }
// Launches run one after another.
__device__ void wait_previous() {}
__device__ void launch_next() {}
template <int count> __device__ void give_registers() { tinyir_setmaxnreg(count, 0); }
template <int count> __device__ void take_registers() { tinyir_setmaxnreg(count, 1); }
