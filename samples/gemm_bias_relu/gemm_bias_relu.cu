// tinyir 1.0 cu
//
// model main
//   in  A           : fp16[M, K]
//   in  B           : fp16[K, N]
//   in  bias        : fp16[N] {role=param, storage=const_pool}
//   out C2          : fp16[M, N]
// shapes default {M=1024, N=1024, K=1024}
//
// program main
//
// region gemm
//   in  A           : fp16[M, K]
//   in  B           : fp16[K, N]
//   in  bias        : fp16[N]
//   out C2          : fp16[M, N]
//   for i0: M, i1: N
//   from gemm : GEMM at 17:5
//     %gemm          = reduce sum (k0: K) : fp32 { mul(A[i0, k0], B[k0, i1]) : fp32 }
//   from bias_add : Elementwise at 18:5
//     %bias_add      = add(%gemm, broadcast_in_dim(cast(bias[i1]) : fp32, dims=[1]))
//   from relu : Elementwise at 19:5
//     %relu          = relu(%bias_add)
//   yield C2[i0, i1] = cast(%relu) : fp16
//   analysis
//     parallel [i0, i1]  reduce [k0]  tail [i0, i1, k0]
//     halo []  buffer reg depth 1  barrier cta
//
// manifest
//   launch gemm : sm90 grid [floor((N + 63)/64), floor((M + 63)/64)] block [16, 16]
//     tensors [A, B, bias, C2]  symbols [M, K, N]
//     flops 2*K*M*N + 2*M*N  bytes 2*K*M + 2*K*N + 2*M*N + 2*N

struct fp16 { unsigned short bits; };

__device__ float float_of_fp16(fp16 x);
__device__ fp16 fp16_of_float(float x);

#ifndef TINYIR_SIM
__device__ __forceinline__ float float_of_fp16(fp16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y; }
__device__ __forceinline__ fp16 fp16_of_float(float x) { fp16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y; }
#endif

template <class T> __device__ __forceinline__ T max_nan(T a, T b) { return a > b || a != a ? a : b; }

// region gemm: gemm : GEMM at 17:5, bias_add : Elementwise at 18:5, relu : Elementwise at 19:5
// plan contraction synchronous: tile [64, 64, 32], micro [4, 4], threads [16, 16]
extern "C" __global__ void __launch_bounds__(256, 3)
gemm(const fp16 *__restrict__ A, const fp16 *__restrict__ B, const fp16 *__restrict__ bias, fp16 *__restrict__ C2, int M, int K, int N)
{
  const int cta_x = (int)blockIdx.x;
  const int cta_y = (int)blockIdx.y;
  const int thread_index = (int)threadIdx.x + 16 * (int)threadIdx.y;
  const int thread_x = (int)threadIdx.x;
  const int thread_y = (int)threadIdx.y;
  __shared__ __align__(16) float a[32][68];
  __shared__ __align__(16) float b[32][64];
  float acc[4][4] = {};
  float ar[4];
  float br[4];
  const int m0 = 64 * cta_y;
  const int n0 = 64 * cta_x;
  #pragma unroll 1
  for (int k = 0; k < K; k += 32) {
    // plan cache: A -> smem at k0.o, as a
    #pragma unroll
    for (int element = thread_index; element < 2048; element += 256) {
      const int ro = element / 128;
      const int co = element / 32 % 4;
      const int ri = element / 8 % 4;
      const int ci = element % 8;
      const int i0 = m0 + ri + 4 * ro;
      const int k0 = ci + 8 * co + k;
      a[ci + 8 * co][ri + 4 * ro] = i0 < M && k0 < K ? float_of_fp16(A[(long long)i0 * K + k0]) : 0.0f;
    }
    // plan cache: B -> smem at k0.o, as b
    #pragma unroll
    for (int element = thread_index; element < 2048; element += 256) {
      const int c = element / 64;
      const int r = element % 64;
      const int i1 = n0 + r;
      const int k0 = c + k;
      b[c][r] = i1 < N && k0 < K ? float_of_fp16(B[(long long)k0 * N + i1]) : 0.0f;
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
  // region gemm: %bias_add, %relu, C2
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int i0 = i + m0 + 4 * thread_y + 60 * (i / 4);
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int i1 = j + n0 + 4 * thread_x + 60 * (j / 4);
      if (i0 < M && i1 < N) {
        const float bias_add = acc[i][j] + float_of_fp16(bias[i1]);  // bias_add : Elementwise at 18:5
        const float relu = max_nan(bias_add, (float)0);  // relu : Elementwise at 19:5
        C2[(long long)i0 * N + i1] = fp16_of_float(relu);
      }
    }
  }
}
