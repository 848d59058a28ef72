// CPU twins of the PTX wrappers, which an emitted text declares for all and defines under `#ifndef TINYIR_SIM` (ir.ptx). Read after the
// text. A wrapper's types are the text's own; TINYIR_HAS_<type> says that the text has one. What they do stands in the launcher.
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
__device__ tinyir_uint fp16x2_of_floats(float low, float high) {
  return tinyir_sim::float_to_half(low) | tinyir_uint(tinyir_sim::float_to_half(high)) << 16;
}
__device__ tinyir_uint bf16x2_of_floats(float low, float high) {
  return tinyir_sim::float_to_bfloat(low) | tinyir_uint(tinyir_sim::float_to_bfloat(high)) << 16;
}
// The unit flushes subnormals to zero on both sides, keeping the sign of neither result (2^x is positive).
__device__ float exp2_approx(float x) {
  float y = exp2f(x);
  return y < 1.17549435e-38f ? 0.0f : y;
}

__device__ void mbar_init(tinyir_uint barrier, tinyir_uint count) { tinyir_mbar_init(barrier, count); }
__device__ void fence_mbarrier_init() { tinyir_mbar_init_fence(); }
__device__ void mbar_arrive(tinyir_uint barrier) { tinyir_mbar_arrive(barrier); }
__device__ void mbar_expect(tinyir_uint barrier, tinyir_uint bytes) { tinyir_mbar_expect(barrier, bytes); }
__device__ void mbar_arrive_cluster(tinyir_uint barrier, tinyir_uint cta) { tinyir_mbar_arrive(tinyir_cluster_address(barrier, cta)); }
__device__ void mbar_wait(tinyir_uint barrier, tinyir_uint parity) { tinyir_mbar_wait(barrier, parity); }

#ifdef TINYIR_HAS_tensor_map
#define TINYIR_TMA(rank, parameters, ...)                                                                             \
  __device__ void tma_load_##rank##d(tinyir_uint to, const tensor_map* map, tinyir_uint barrier, parameters) {        \
    const int at[] = {__VA_ARGS__};                                                                                   \
    tinyir_tma_load(to, map, barrier, rank, at, 0);                                                                   \
  }                                                                                                                   \
  __device__ void tma_load_##rank##d_multicast(tinyir_uint to, const tensor_map* map, tinyir_uint barrier, parameters, \
                                               unsigned short ctas) {                                                 \
    const int at[] = {__VA_ARGS__};                                                                                   \
    tinyir_tma_load(to, map, barrier, rank, at, ctas);                                                                \
  }                                                                                                                   \
  __device__ void tma_store_##rank##d(const tensor_map* map, tinyir_uint from, parameters) {                          \
    const int at[] = {__VA_ARGS__};                                                                                   \
    tinyir_tma_store(map, from, rank, at);                                                                            \
  }
#define TINYIR_COMMA ,
TINYIR_TMA(1, int x0, x0)
TINYIR_TMA(2, int x0 TINYIR_COMMA int x1, x0, x1)
TINYIR_TMA(3, int x0 TINYIR_COMMA int x1 TINYIR_COMMA int x2, x0, x1, x2)
TINYIR_TMA(4, int x0 TINYIR_COMMA int x1 TINYIR_COMMA int x2 TINYIR_COMMA int x3, x0, x1, x2, x3)
TINYIR_TMA(5, int x0 TINYIR_COMMA int x1 TINYIR_COMMA int x2 TINYIR_COMMA int x3 TINYIR_COMMA int x4, x0, x1, x2, x3, x4)
#undef TINYIR_COMMA
#undef TINYIR_TMA
__device__ void tma_prefetch(const tensor_map*) {}
#endif
__device__ void tma_store_commit() { tinyir_bulk_commit(); }
template <int PENDING> __device__ void tma_store_wait() { tinyir_bulk_wait(PENDING, 0); }
template <int PENDING> __device__ void tma_store_wait_read() { tinyir_bulk_wait(PENDING, 1); }
__device__ void cp_async_16(tinyir_uint to, const void* from, tinyir_uint bytes) { tinyir_cp_async(to, from, 16, bytes); }
__device__ void cp_async_8(tinyir_uint to, const void* from, tinyir_uint bytes) { tinyir_cp_async(to, from, 8, bytes); }
__device__ void cp_async_4(tinyir_uint to, const void* from, tinyir_uint bytes) { tinyir_cp_async(to, from, 4, bytes); }
__device__ void cp_async_commit() { tinyir_cp_async_commit(); }
template <int PENDING> __device__ void cp_async_wait() { tinyir_cp_async_wait(PENDING); }
__device__ void fence_async_proxy() { tinyir_proxy_fence(); }

#define TINYIR_TILES(suffix, is_transposed)                                                                           \
  __device__ void ldmatrix_x1##suffix(tinyir_uint& a, tinyir_uint from) { tinyir_ldmatrix(&a, from, 1, is_transposed); } \
  __device__ void ldmatrix_x2##suffix(tinyir_uint& a, tinyir_uint& b, tinyir_uint from) {                             \
    tinyir_uint r[2];                                                                                                 \
    tinyir_ldmatrix(r, from, 2, is_transposed);                                                                       \
    a = r[0], b = r[1];                                                                                               \
  }                                                                                                                   \
  __device__ void ldmatrix_x4##suffix(tinyir_uint& a, tinyir_uint& b, tinyir_uint& c, tinyir_uint& d, tinyir_uint from) { \
    tinyir_uint r[4];                                                                                                 \
    tinyir_ldmatrix(r, from, 4, is_transposed);                                                                       \
    a = r[0], b = r[1], c = r[2], d = r[3];                                                                           \
  }                                                                                                                   \
  __device__ void stmatrix_x1##suffix(tinyir_uint to, tinyir_uint a) { tinyir_stmatrix(to, &a, 1, is_transposed); }   \
  __device__ void stmatrix_x2##suffix(tinyir_uint to, tinyir_uint a, tinyir_uint b) {                                 \
    const tinyir_uint r[] = {a, b};                                                                                   \
    tinyir_stmatrix(to, r, 2, is_transposed);                                                                         \
  }                                                                                                                   \
  __device__ void stmatrix_x4##suffix(tinyir_uint to, tinyir_uint a, tinyir_uint b, tinyir_uint c, tinyir_uint d) {   \
    const tinyir_uint r[] = {a, b, c, d};                                                                             \
    tinyir_stmatrix(to, r, 4, is_transposed);                                                                         \
  }
TINYIR_TILES(, 0)
TINYIR_TILES(_trans, 1)
#undef TINYIR_TILES

#define TINYIR_MMA(dtype, is_bf16)                                                                                    \
  __device__ void mma_m16n8k16_##dtype(float (&d)[4], const tinyir_uint (&a)[4], tinyir_uint b0, tinyir_uint b1) {    \
    const tinyir_uint b[] = {b0, b1};                                                                                 \
    tinyir_mma(d, a, b, is_bf16);                                                                                     \
  }
TINYIR_MMA(fp16, 0)
TINYIR_MMA(bf16, 1)
#undef TINYIR_MMA

// One for each product that the text declares: its name and what the name says.
#define TINYIR_WGMMA(name, n, is_bf16, a_mn, b_mn)                                                                    \
  __device__ void name(float (&d)[n / 2], unsigned long long a, unsigned long long b, int accumulate) {               \
    tinyir_wgmma(n, is_bf16, a_mn, b_mn, d, nullptr, a, b, accumulate);                                               \
  }
#define TINYIR_WGMMA_RA(name, n, is_bf16, b_mn)                                                                       \
  __device__ void name(float (&d)[n / 2], const tinyir_uint (&a)[4], unsigned long long b, int accumulate) {          \
    tinyir_wgmma(n, is_bf16, 0, b_mn, d, a, 0, b, accumulate);                                                        \
  }
__device__ void wgmma_fence() { tinyir_wgmma_fence(); }
__device__ void wgmma_commit() { tinyir_wgmma_commit(); }
template <int PENDING> __device__ void wgmma_wait() { tinyir_wgmma_wait(PENDING); }

__device__ void barrier_sync(tinyir_uint number, tinyir_uint threads) { tinyir_barrier(number, threads, 1, TINYIR_AND, 0); }
__device__ void barrier_arrive(tinyir_uint number, tinyir_uint threads) { tinyir_barrier_arrive(number, threads); }
__device__ void cluster_arrive() { tinyir_cluster_arrive(); }
__device__ void cluster_wait() { tinyir_cluster_wait(); }
__device__ tinyir_uint cluster_rank() { return tinyir_cluster_rank(); }
__device__ tinyir_uint cluster_address(tinyir_uint address, tinyir_uint cta) { return tinyir_cluster_address(address, cta); }
template <int REGISTERS> __device__ void setmaxnreg_dec() { tinyir_setmaxnreg(REGISTERS, 0); }
template <int REGISTERS> __device__ void setmaxnreg_inc() { tinyir_setmaxnreg(REGISTERS, 1); }
__device__ bool elect_one() {
  __syncwarp();
  return tinyir_lane() == 0;
}
