// tinyir 1.0 cu
//
// model conv3x3_silu
//   in  X           : fp16[N, 64, 56, 56]
//   in  W           : fp16[64, 64, 3, 3] {role=param, storage=const_pool}
//   out Y           : fp16[N, 64, 56, 56]
// shapes default {N=8}
//
// program conv3x3_silu
//
// region conv
//   in  X           : fp16[N, 64, 56, 56]
//   in  W           : fp16[64, 64, 3, 3]
//   out Y           : fp16[N, 64, 56, 56]
//   for i0: N, i1: 64, i2: 56, i3: 56
//   from conv : Conv at 16:5
//     %conv          = reduce sum (k0: 64, k1: 3, k2: 3) : fp32 { mul(X[i0, k0, i2 + k1 - 1, i3 + k2 - 1] where 0 <= i2 + k1 - 1 < 56 and 0 <= i3 + k2 - 1 < 56 else 0.0, W[i1, k0, k1, k2]) : fp32 }
//   from silu : Elementwise at 17:5
//     %silu.recip    = recip(add(exp2(mul(neg(%conv), 1.442695)), 1.0))
//     %silu          = mul(%conv, %silu.recip)
//   yield Y[i0, i1, i2, i3] = cast(%silu) : fp16
//   analysis
//     parallel [i0, i1, i2, i3]  reduce [k0, k1, k2]  tail [i0, i2, i3]
//     halo [i2: 2, i3: 2]  buffer reg depth 1  barrier cta
//
// manifest
//   launch conv : sm90 grid [49*N] block [16, 16]
//     tensors [X, W, Y]  symbols []
//     flops 232214528*N  bytes 802816*N + 73728

struct fp16 { unsigned short bits; };

__device__ float float_of_fp16(fp16 x);
__device__ fp16 fp16_of_float(float x);

#ifndef TINYIR_SIM
__device__ __forceinline__ float float_of_fp16(fp16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y; }
__device__ __forceinline__ fp16 fp16_of_float(float x) { fp16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y; }
#endif

// region conv: conv : Conv at 16:5, silu : Elementwise at 17:5
// plan contraction synchronous: tile [64, 64, 32], micro [4, 4], threads [16, 16]
extern "C" __global__ void __launch_bounds__(256, 3)
conv(const fp16 *__restrict__ X, const fp16 *__restrict__ W, fp16 *__restrict__ Y)
{
  const int cta_x = (int)blockIdx.x;
  const int cta_y = (int)blockIdx.y;
  const int thread_index = (int)threadIdx.x + 16 * (int)threadIdx.y;
  const int thread_x = (int)threadIdx.x;
  const int thread_y = (int)threadIdx.y;
  __shared__ __align__(16) float a[32][68];
  __shared__ __align__(16) float b[32][68];
  float acc[4][4] = {};
  float ar[4];
  float br[4];
  const int m0 = 64 * cta_y;
  const long long n0 = (long long)cta_x * 64;
  #pragma unroll 1
  for (int k = 0; k < 576; k += 32) {
    // plan cache: W -> smem at k0.o, as a
    #pragma unroll
    for (int element = thread_index; element < 2048; element += 256) {
      const int ro = element / 128;
      const int co = element / 32 % 4;
      const int ri = element / 8 % 4;
      const int ci = element % 8;
      const int i1 = m0 + ri + 4 * ro;
      const int term = ci + 8 * co + k;
      const int k0 = term / 9;
      const int k1 = term / 3 % 3;
      const int k2 = term % 3;
      a[ci + 8 * co][ri + 4 * ro] = float_of_fp16(W[((i1 * 64 + k0) * 3 + k1) * 3 + k2]);
    }
    // plan cache: X -> smem at k0.o, as b
    #pragma unroll
    for (int element = thread_index; element < 2048; element += 256) {
      const int ro = element / 128;
      const int co = element / 32 % 4;
      const int ri = element / 8 % 4;
      const int ci = element % 8;
      const long long col = n0 + ri + 4 * ro;
      const int i0 = (int)(col / 3136);
      const int i2 = (int)(col / 56 % 56);
      const int i3 = (int)(col % 56);
      const int term = ci + 8 * co + k;
      const int k0 = term / 9;
      const int k1 = term / 3 % 3;
      const int k2 = term % 3;
      b[ci + 8 * co][ri + 4 * ro] = 0 <= i2 + k1 - 1 && i2 + k1 - 1 < 56 && 0 <= i3 + k2 - 1 && i3 + k2 - 1 < 56 ? float_of_fp16(X[(((long long)i0 * 64 + k0) * 56 + i2 + k1 - 1) * 56 + i3 + k2 - 1]) : 0.0f;
    }
    __syncthreads();
    // plan micro [4, 4]: this thread's share of the tile
    #pragma unroll 8
    for (int kk = 0; kk < 32; ++kk) {
      #pragma unroll
      for (int v = 0; v < 4; ++v)
        ar[v] = a[kk][4 * thread_y + v];
      #pragma unroll
      for (int v = 0; v < 4; ++v)
        br[v] = b[kk][4 * thread_x + v];
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          acc[i][j] += ar[i] * br[j];
        }
      }
    }
    __syncthreads();
  }
  // region conv: %silu.recip, %silu, Y
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int i1 = i + m0 + 4 * thread_y;
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      const long long col = n0 + j + 4 * thread_x;
      const int i0 = (int)(col / 3136);
      const int i2 = (int)(col / 56 % 56);
      const int i3 = (int)(col % 56);
      const float silu_recip = (float)1 / (exp2f((-acc[i][j]) * 1.442695f) + 1.0f);  // silu : Elementwise at 17:5
      const float silu = acc[i][j] * silu_recip;  // silu : Elementwise at 17:5
      Y[(((long long)i0 * 64 + i1) * 56 + i2) * 56 + i3] = fp16_of_float(silu);
    }
  }
}
