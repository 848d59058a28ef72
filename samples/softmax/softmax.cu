// tinyir 1.0 cu
//
// model softmax
//   in  X           : fp16[R, C]
//   out Y           : fp16[R, C]
// shapes default {R=4096, C=1024}
//
// program softmax
//
// region softmax
//   in  X           : fp16[R, C]
//   out Y           : fp16[R, C]
//   for i0: R, i1: C
//   from softmax : Softmax at 12:5
//     %softmax.c     = cast(X[i0, i1]) : fp32
//     %softmax.max   = reduce max (i1) : fp32 { %softmax.c }
//     %softmax.exp2  = exp2(mul(sub(%softmax.c, broadcast_in_dim(%softmax.max, dims=[0])), 1.442695))
//     %softmax.sum   = reduce sum (i1) : fp32 { %softmax.exp2 }
//     %softmax       = cast(fdiv(%softmax.exp2, broadcast_in_dim(%softmax.sum, dims=[0]))) : fp16
//   yield Y[i0, i1] = %softmax
//   analysis
//     parallel [i0]  reduce [i1]  tail [i1]
//     halo []  buffer reg depth 1  barrier cta
//
// manifest
//   launch softmax : sm90 grid [R] block [64]
//     tensors [X, Y]  symbols [C]
//     flops 6*C*R  bytes 4*C*R

struct fp16 { unsigned short bits; };

__device__ float float_of_fp16(fp16 x);
__device__ fp16 fp16_of_float(float x);
__device__ float max_nan_of(float a, float b);
__device__ uint4 load_kept(const void *from);
__device__ uint4 load_last(const void *from);
__device__ void store_words_last(void *to, uint4 x);

#ifndef TINYIR_SIM
__device__ __forceinline__ float float_of_fp16(fp16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y; }
__device__ __forceinline__ fp16 fp16_of_float(float x) { fp16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y; }
__device__ __forceinline__ float max_nan_of(float a, float b) { float c; asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b)); return c; }
__device__ __forceinline__ uint4 load_kept(const void *from) {
  uint4 x;
  asm("ld.global.nc.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "l"(from), "l"(0x14f0000000000000ull));
  return x;
}
__device__ __forceinline__ uint4 load_last(const void *from) {
  uint4 x;
  asm("ld.global.nc.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "l"(from), "l"(0x12f0000000000000ull));
  return x;
}
__device__ __forceinline__ void store_words_last(void *to, uint4 x) {
  asm volatile("st.global.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;" :: "l"(to), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "l"(0x12f0000000000000ull) : "memory");
}
#endif

// a / b of a b that divides many, with the reciprocal of |b| and what is left (Markstein 1990): rounded once, of an a below 2^-100 an ulp off at most.
__device__ __forceinline__ float quotient_of(float a, float b) {
  const float size = fabsf(b), scale = size < 0x1p-100f ? 0x1p64f : size > 0x1p100f ? 0x1p-64f : 1.0f;
  const float d = size * scale, n = a * copysignf(scale, b), r = 1.0f / d, q = n * r, over = fmaf(q, d, -n);
  return fabsf(over) <= 0x1.fffffep127f ? fmaf(-over, r, q) : q;  // an infinity is what it is
}
__device__ __forceinline__ long long floor_div(long long a, long long b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
template <class T> __device__ __forceinline__ T max_nan(T a, T b) { return a > b || a != a ? a : b; }
__device__ __forceinline__ float max_nan(float a, float b) { return max_nan_of(a, b); }
template <class T, int n> struct alignas(n * sizeof(T) < 16 ? n * sizeof(T) : 16) vector_of { T x[n]; };  // neighbours that move at once
template <class T> __device__ __forceinline__ T loaded_kept(const T *from) {
  union { T all; uint4 parts[sizeof(T) / 16]; } x;
#pragma unroll
  for (int i = 0; i < (int)sizeof(T) / 16; ++i) x.parts[i] = load_kept((const uint4 *)from + i);
  return x.all;
}
template <class T> __device__ __forceinline__ T loaded_last(const T *from) {
  union { T all; uint4 parts[sizeof(T) / 16]; } x;
#pragma unroll
  for (int i = 0; i < (int)sizeof(T) / 16; ++i) x.parts[i] = load_last((const uint4 *)from + i);
  return x.all;
}
template <class T> __device__ __forceinline__ void store_last(T *to, const T &piece) {
  union { T all; uint4 parts[sizeof(T) / 16]; } x;
  x.all = piece;
#pragma unroll
  for (int i = 0; i < (int)sizeof(T) / 16; ++i) store_words_last((uint4 *)to + i, x.parts[i]);
}
template <int n> __device__ __forceinline__ void load_near_kept_fp16(float *to, const fp16 *from) {
  const vector_of<fp16, n> all = loaded_kept((const vector_of<fp16, n> *)from);
#pragma unroll
  for (int i = 0; i < n; ++i) to[i] = float_of_fp16(all.x[i]);
}
template <int n> __device__ __forceinline__ void load_near_last_fp16(float *to, const fp16 *from) {
  const vector_of<fp16, n> all = loaded_last((const vector_of<fp16, n> *)from);
#pragma unroll
  for (int i = 0; i < n; ++i) to[i] = float_of_fp16(all.x[i]);
}

// region softmax: softmax : Softmax at 12:5
// plan row row_streamed: tile [1, 1024], threads [64]
extern "C" __global__ void __maxnreg__(48)
softmax(const fp16 *__restrict__ X, fp16 *__restrict__ Y, int C)
{
  const int cta_x = (int)blockIdx.x;
  const int thread_x = (int)threadIdx.x;
  __shared__ __align__(16) float part[2];
  __shared__ __align__(16) float part2[2];
  const int i0 = cta_x;
  const int head = (int)(8 * (((long long)C * i0 + 7) / 8) - (long long)C * i0);
  const int whole = (int)floor_div(C - head, 8);
  const long long left = (long long)whole * 8 * (int)floor_div(thread_x - head, 8) + thread_x + 8 * whole;
  float softmax_max_acc_beside[8];
  #pragma unroll
  for (int e0 = 0; e0 < 8; ++e0)
    softmax_max_acc_beside[e0] = __uint_as_float(0xff800000u);
  #pragma unroll 2
  for (int c = thread_x; c < whole; c += 64) {
    const int i1 = 8 * c + head;
    float X_v[8];
    load_near_kept_fp16<8>(X_v, &X[(long long)i0 * C + i1]);
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
      const float softmax_c = X_v[v];  // softmax : Softmax at 12:5
      softmax_max_acc_beside[v] = max_nan(softmax_max_acc_beside[v], softmax_c);
    }
  }
  if (thread_x <= left && left < C) {
    const int i1 = (int)(left);
    const float softmax_c = float_of_fp16(X[(long long)i0 * C + i1]);  // softmax : Softmax at 12:5
    softmax_max_acc_beside[0] = max_nan(softmax_max_acc_beside[0], softmax_c);
  }
  float softmax_max_acc[1];
  softmax_max_acc[0] = softmax_max_acc_beside[0];
  #pragma unroll
  for (int v = 1; v < 8; ++v) {
    softmax_max_acc[0] = max_nan(softmax_max_acc[0], softmax_max_acc_beside[v]);
  }
  // max over the CTA
  #pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) softmax_max_acc[0] = max_nan(softmax_max_acc[0], __shfl_xor_sync(0xffffffffu, softmax_max_acc[0], lanes));
  if (thread_x % 32 == 0) part[thread_x / 32] = softmax_max_acc[0];
  __syncthreads();
  softmax_max_acc[0] = part[0];
  #pragma unroll
  for (int w = 1; w < 2; ++w) softmax_max_acc[0] = max_nan(softmax_max_acc[0], part[w]);
  const float softmax_max = softmax_max_acc[0];  // softmax : Softmax at 12:5
  float softmax_sum_acc_beside[8] = {};
  #pragma unroll 2
  for (int c = thread_x; c < whole; c += 64) {
    const int i1 = 8 * c + head;
    float X_v2[8];
    load_near_kept_fp16<8>(X_v2, &X[(long long)i0 * C + i1]);
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
      const float softmax_c = X_v2[v];  // softmax : Softmax at 12:5
      const float softmax_exp2 = exp2f((softmax_c - softmax_max) * 1.442695f);  // softmax : Softmax at 12:5
      softmax_sum_acc_beside[v] += softmax_exp2;
    }
  }
  if (thread_x <= left && left < C) {
    const int i1 = (int)(left);
    const float softmax_c = float_of_fp16(X[(long long)i0 * C + i1]);  // softmax : Softmax at 12:5
    const float softmax_exp2 = exp2f((softmax_c - softmax_max) * 1.442695f);  // softmax : Softmax at 12:5
    softmax_sum_acc_beside[0] += softmax_exp2;
  }
  float softmax_sum_acc[1];
  softmax_sum_acc[0] = softmax_sum_acc_beside[0];
  #pragma unroll
  for (int v = 1; v < 8; ++v) {
    softmax_sum_acc[0] += softmax_sum_acc_beside[v];
  }
  // sum over the CTA
  #pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) softmax_sum_acc[0] = softmax_sum_acc[0] + __shfl_xor_sync(0xffffffffu, softmax_sum_acc[0], lanes);
  if (thread_x % 32 == 0) part2[thread_x / 32] = softmax_sum_acc[0];
  __syncthreads();
  softmax_sum_acc[0] = part2[0];
  #pragma unroll
  for (int w = 1; w < 2; ++w) softmax_sum_acc[0] = softmax_sum_acc[0] + part2[w];
  const float softmax_sum = softmax_sum_acc[0];  // softmax : Softmax at 12:5
  // region softmax: %softmax.c, %softmax.exp2, Y
  #pragma unroll 2
  for (int c = thread_x; c < whole; c += 64) {
    const int i1 = 8 * c + head;
    float X_v3[8];
    load_near_last_fp16<8>(X_v3, &X[(long long)i0 * C + i1]);
    float Y_v[8];
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
      const float softmax_c = X_v3[v];  // softmax : Softmax at 12:5
      const float softmax_exp2 = exp2f((softmax_c - softmax_max) * 1.442695f);  // softmax : Softmax at 12:5
      Y_v[v] = quotient_of(softmax_exp2, softmax_sum);
    }
    {
      vector_of<fp16, 8> piece;
      #pragma unroll
      for (int v = 0; v < 8; ++v)
        piece.x[v] = fp16_of_float(Y_v[v]);
      store_last((vector_of<fp16, 8> *)&Y[(long long)i0 * C + i1], piece);
    }
  }
  if (thread_x <= left && left < C) {
    const int i1 = (int)(left);
    const float softmax_c = float_of_fp16(X[(long long)i0 * C + i1]);  // softmax : Softmax at 12:5
    const float softmax_exp2 = exp2f((softmax_c - softmax_max) * 1.442695f);  // softmax : Softmax at 12:5
    Y[(long long)i0 * C + i1] = fp16_of_float(quotient_of(softmax_exp2, softmax_sum));
  }
}
