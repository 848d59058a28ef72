// What CUDA C++ gives a kernel without any include, for a host compiler: keywords, built-in variables, vector types, intrinsics.
// Read before the emitted text. The text's own PTX wrappers are under `#ifndef TINYIR_SIM`; their twins are in twins.hpp.
#pragma once
#include "mathematics.hpp"

#include "abi.h"
#include "numbers.hpp"

#define __global__
#define __device__ inline __attribute__((always_inline))
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __maxnreg__(n)
#define __cluster_dims__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __forceinline__ __attribute__((always_inline))
#ifndef __noinline__
#define __noinline__ __attribute__((noinline))
#endif
// A block runs on one host thread, so its shared memory is that thread's own; the launcher poisons it before each block.
#define __shared__ thread_local

typedef TinyirDim uint3;
struct dim3 : TinyirDim {
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : TinyirDim{x, y, z} {}
};
#define threadIdx (tinyir_place()->thread)
#define blockIdx (tinyir_place()->block)
#define blockDim (tinyir_place()->block_size)
#define gridDim (tinyir_place()->grid_size)
constexpr int warpSize = 32;

// --- vector types, with CUDA's alignment
#define TINYIR_VECTORS(name, T, align2, align4)                                                              \
  struct name##1 { T x; };                                                                                  \
  struct __attribute__((aligned(align2))) name##2 { T x, y; };                                              \
  struct name##3 { T x, y, z; };                                                                            \
  struct __attribute__((aligned(align4))) name##4 { T x, y, z, w; };                                        \
  inline name##1 make_##name##1(T x) { return {x}; }                                                        \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }                                                \
  inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                                        \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
typedef signed char tinyir_schar;
typedef unsigned char tinyir_uchar;
typedef unsigned short tinyir_ushort;
typedef unsigned long tinyir_ulong;
typedef long long tinyir_longlong;
typedef unsigned long long tinyir_ulonglong;
TINYIR_VECTORS(char, tinyir_schar, 2, 4)
TINYIR_VECTORS(uchar, tinyir_uchar, 2, 4)
TINYIR_VECTORS(short, short, 4, 8)
TINYIR_VECTORS(ushort, tinyir_ushort, 4, 8)
TINYIR_VECTORS(int, int, 8, 16)
TINYIR_VECTORS(float, float, 8, 16)
TINYIR_VECTORS(double, double, 16, 16)
TINYIR_VECTORS(longlong, tinyir_longlong, 16, 16)
TINYIR_VECTORS(ulonglong, tinyir_ulonglong, 16, 16)
struct uint1 { unsigned x; };
struct __attribute__((aligned(8))) uint2 { unsigned x, y; };
struct __attribute__((aligned(16))) uint4 { unsigned x, y, z, w; };
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
#undef TINYIR_VECTORS

// --- barriers and fences. One host thread runs the block, so a fence has nothing to do
inline void __syncthreads(int line = __builtin_LINE()) { tinyir_barrier(0, 0, 1, TINYIR_AND, line); }
inline int __syncthreads_and(int p, int line = __builtin_LINE()) { return tinyir_barrier(0, 0, p, TINYIR_AND, line); }
inline int __syncthreads_or(int p, int line = __builtin_LINE()) { return tinyir_barrier(0, 0, p, TINYIR_OR, line); }
inline int __syncthreads_count(int p, int line = __builtin_LINE()) { return tinyir_barrier(0, 0, p, TINYIR_COUNT, line); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __nanosleep(unsigned, int line = __builtin_LINE()) { tinyir_yield(line); }
[[noreturn]] inline void __trap(int line = __builtin_LINE()) { tinyir_stop(TINYIR_TRAP, line); }

#include "warp.hpp"

// --- loads and stores with cache hints
template <class T> inline T __ldg(const T* p) { return *p; }
template <class T> inline T __ldca(const T* p) { return *p; }
template <class T> inline T __ldcg(const T* p) { return *p; }
template <class T> inline T __ldcs(const T* p) { return *p; }
template <class T> inline T __ldlu(const T* p) { return *p; }
template <class T> inline void __stwb(T* p, T v) { *p = v; }
template <class T> inline void __stcg(T* p, T v) { *p = v; }
template <class T> inline void __stcs(T* p, T v) { *p = v; }

// --- atomics: threads change places only where they wait, so plain operations are atomic
template <class T> struct tinyir_same { typedef T type; };
#define TINYIR_ATOMIC(name, expression)                                                                     \
  template <class T> inline T name(T* p, typename tinyir_same<T>::type v) {                                 \
    tinyir_atomic(1);                                                                                       \
    T old = *p;                                                                                             \
    *p = (expression);                                                                                      \
    tinyir_atomic(0);                                                                                       \
    return old;                                                                                             \
  }
TINYIR_ATOMIC(atomicAdd, old + v)
TINYIR_ATOMIC(atomicSub, old - v)
TINYIR_ATOMIC(atomicExch, v)
TINYIR_ATOMIC(atomicMin, v < old ? v : old)
TINYIR_ATOMIC(atomicMax, v > old ? v : old)
TINYIR_ATOMIC(atomicAnd, old & v)
TINYIR_ATOMIC(atomicOr, old | v)
TINYIR_ATOMIC(atomicXor, old ^ v)
#undef TINYIR_ATOMIC
template <class T> inline T atomicCAS(T* p, typename tinyir_same<T>::type expected, typename tinyir_same<T>::type v) {
  tinyir_atomic(1);
  T old = *p;
  if (old == expected) *p = v;
  tinyir_atomic(0);
  return old;
}

// --- bit patterns and integer arithmetic
inline int __float_as_int(float v) { return tinyir_sim::bits_as<int>(v); }
inline unsigned __float_as_uint(float v) { return tinyir_sim::bits_as<unsigned>(v); }
inline float __int_as_float(int v) { return tinyir_sim::bits_as<float>(v); }
inline float __uint_as_float(unsigned v) { return tinyir_sim::bits_as<float>(v); }
inline long long __double_as_longlong(double v) { return tinyir_sim::bits_as<long long>(v); }
inline double __longlong_as_double(long long v) { return tinyir_sim::bits_as<double>(v); }
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
inline int __clz(int v) { return v ? __builtin_clz(unsigned(v)) : 32; }
inline int __clzll(long long v) { return v ? __builtin_clzll((unsigned long long)v) : 64; }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
inline int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline unsigned __brev(unsigned v) {
  unsigned r = 0;
  for (int i = 0; i < 32; ++i) r |= (v >> i & 1) << (31 - i);
  return r;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return unsigned((((unsigned long long)high << 32 | low) << (shift & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return unsigned(((unsigned long long)high << 32 | low) >> (shift & 31));
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  unsigned long long both = (unsigned long long)b << 32 | a;
  unsigned r = 0;
  for (int i = 0; i < 4; ++i) {
    unsigned s = selector >> 4 * i, byte = unsigned(both >> 8 * (s & 7)) & 0xff;
    r |= (s & 8 ? (byte & 0x80 ? 0xffu : 0u) : byte) << 8 * i;
  }
  return r;
}

// --- float arithmetic with its rounding in the name
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __expf(float a) { return expf(a); }
inline float __logf(float a) { return logf(a); }
inline float __log2f(float a) { return log2f(a); }
inline float __sinf(float a) { return sinf(a); }
inline float __cosf(float a) { return cosf(a); }
inline float __powf(float a, float b) { return powf(a, b); }
inline float __saturatef(float a) { return a > 0 ? (a < 1 ? a : 1) : 0; }
inline float rsqrtf(float a) { return 1.0f / sqrtf(a); }
inline double rsqrt(double a) { return 1.0 / sqrt(a); }

// CUDA's conversions saturate, where C++ leaves it undefined. NaN becomes 0, but where either side has 64 bits it becomes
// the number whose highest bit alone is set (PTX cvt).
template <class Int, class Float>
inline Int tinyir_saturated(Float v) {
  constexpr bool is_signed = Int(-1) < Int(0);
  constexpr int digits = int(sizeof(Int)) * 8 - is_signed;
  const Int highest = Int(((Int(1) << (digits - 1)) - 1) * 2 + 1), lowest = is_signed ? Int(-highest - 1) : Int(0);
  if (v != v) return sizeof(Int) == 8 || sizeof(Float) == 8 ? Int(highest / 2 + 1) * (is_signed ? -2 : 1) : 0;
  if (v >= Float(highest)) return highest;
  if (v <= Float(lowest)) return lowest;
  return Int(v);
}
inline int __float2int_rz(float v) { return tinyir_saturated<int>(truncf(v)); }
inline int __float2int_rn(float v) { return tinyir_saturated<int>(rintf(v)); }
inline int __float2int_rd(float v) { return tinyir_saturated<int>(floorf(v)); }
inline int __float2int_ru(float v) { return tinyir_saturated<int>(ceilf(v)); }
inline unsigned __float2uint_rz(float v) { return tinyir_saturated<unsigned>(truncf(v)); }
inline unsigned __float2uint_rn(float v) { return tinyir_saturated<unsigned>(rintf(v)); }
inline long long __float2ll_rz(float v) { return tinyir_saturated<long long>(truncf(v)); }
inline unsigned long long __float2ull_rz(float v) { return tinyir_saturated<unsigned long long>(truncf(v)); }
inline int __double2int_rz(double v) { return tinyir_saturated<int>(trunc(v)); }
inline unsigned __double2uint_rz(double v) { return tinyir_saturated<unsigned>(trunc(v)); }
inline long long __double2ll_rz(double v) { return tinyir_saturated<long long>(trunc(v)); }
inline unsigned long long __double2ull_rz(double v) { return tinyir_saturated<unsigned long long>(trunc(v)); }
inline float __int2float_rn(int v) { return float(v); }
inline float __uint2float_rn(unsigned v) { return float(v); }
inline float __ll2float_rn(long long v) { return float(v); }
inline float __ull2float_rn(unsigned long long v) { return float(v); }
inline float __double2float_rn(double v) { return float(v); }
inline float __double2float_rz(double v) {
  float nearest = float(v);
  return fabs(double(nearest)) > fabs(v) ? nextafterf(nearest, 0.0f) : nearest;
}

#define TINYIR_MIN_MAX(T)                                                                                   \
  inline T min(T a, T b) { return b < a ? b : a; }                                                         \
  inline T max(T a, T b) { return a < b ? b : a; }
TINYIR_MIN_MAX(int)
TINYIR_MIN_MAX(unsigned)
TINYIR_MIN_MAX(long)
TINYIR_MIN_MAX(unsigned long)
TINYIR_MIN_MAX(long long)
TINYIR_MIN_MAX(unsigned long long)
#undef TINYIR_MIN_MAX
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

// --- the way in: one entry a kernel, with its arguments taken from slots of their own size
namespace tinyir_sim {

template <unsigned... I> struct Indices {};
template <unsigned N, unsigned... I> struct Count : Count<N - 1, N - 1, I...> {};
template <unsigned... I> struct Count<0, I...> { typedef Indices<I...> type; };

template <class... P, unsigned... I>
inline void call(void (*kernel)(P...), void** arguments, Indices<I...>) {
  (void)arguments;
  kernel(*static_cast<typename tinyir_same<P>::type*>(arguments[I])...);
}
template <class... P>
inline void call(void (*kernel)(P...), void** arguments) { call(kernel, arguments, typename Count<sizeof...(P)>::type{}); }

// static: an inline variable would be one for all loaded kernels. Its alignment is that of the whole of shared memory.
alignas(1024) static thread_local char shared_anchor;

}  // namespace tinyir_sim

#define TINYIR_SIM_EXPORT extern "C" __attribute__((visibility("default")))
#define TINYIR_SIM_KERNEL(name) \
  TINYIR_SIM_EXPORT void tinyir_call_##name(void** arguments) { tinyir_sim::call(name, arguments); }
TINYIR_SIM_EXPORT void* tinyir_touch_shared() { return &tinyir_sim::shared_anchor; }
inline size_t __cvta_generic_to_shared(const void* p) { return tinyir_shared_address(p); }
