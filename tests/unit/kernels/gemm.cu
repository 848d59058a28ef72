// A tiled GEMM with bias and ReLU, as the synchronous plan prints it. The conversions are PTX on the GPU and twins on the CPU.
struct fp16 {
  unsigned short bits;
};
__device__ float float_of_fp16(fp16 x);
__device__ fp16 fp16_of_float(float x);
#ifndef TINYIR_SIM
__device__ __forceinline__ float float_of_fp16(fp16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
__device__ __forceinline__ fp16 fp16_of_float(float x) {
  fp16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
#endif

extern "C" __global__ void __launch_bounds__(256)
gemm(const fp16* __restrict__ A, const fp16* __restrict__ B, const fp16* __restrict__ bias, fp16* __restrict__ C, int M, int N, int K) {
  __shared__ fp16 a[128][16];
  __shared__ fp16 b[16][128];
  float acc[8][8] = {};
  const int m0 = 128 * blockIdx.y, n0 = 128 * blockIdx.x;
  const int thread = threadIdx.y * 16 + threadIdx.x;
  const fp16 zero = {0};
  for (int k = 0; k < K; k += 16) {
    for (int e = thread; e < 128 * 16; e += 256) {
      const int r = e / 16, c = e % 16;
      a[r][c] = m0 + r < M && k + c < K ? A[(m0 + r) * K + k + c] : zero;
    }
    for (int e = thread; e < 16 * 128; e += 256) {
      const int r = e / 128, c = e % 128;
      b[r][c] = k + r < K && n0 + c < N ? B[(k + r) * N + n0 + c] : zero;
    }
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < 16; ++kk)
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j)
          acc[i][j] = fmaf(float_of_fp16(a[threadIdx.y + 16 * i][kk]), float_of_fp16(b[kk][threadIdx.x + 16 * j]), acc[i][j]);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 8; ++i)
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int row = m0 + threadIdx.y + 16 * i, col = n0 + threadIdx.x + 16 * j;
      if (row < M && col < N) C[row * N + col] = fp16_of_float(fmaxf(acc[i][j] + float_of_fp16(bias[col]), 0.0f));
    }
}
