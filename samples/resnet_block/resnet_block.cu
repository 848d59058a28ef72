// tinyir 1.0 cu
//
// model resnet_block
//   in  X           : fp16[N, 64, 56, 56]
//   in  W1          : fp16[64, 64, 3, 3] {role=param, storage=const_pool}
//   in  bn1.scale   : fp16[64] {role=param, storage=const_pool}
//   in  bn1.shift   : fp16[64] {role=param, storage=const_pool}
//   in  bn1.mean    : fp16[64] {role=param, storage=const_pool}
//   in  bn1.variance : fp16[64] {role=param, storage=const_pool}
//   in  W2          : fp16[64, 64, 3, 3] {role=param, storage=const_pool}
//   in  bn2.scale   : fp16[64] {role=param, storage=const_pool}
//   in  bn2.shift   : fp16[64] {role=param, storage=const_pool}
//   in  bn2.mean    : fp16[64] {role=param, storage=const_pool}
//   in  bn2.variance : fp16[64] {role=param, storage=const_pool}
//   out Y           : fp16[N, 64, 56, 56]
// shapes default {N=8}
//
// program resnet_block
//   buffer h           : fp16[N, 64, 56, 56]
//
// region conv1
//   in  X           : fp16[N, 64, 56, 56]
//   in  W1          : fp16[64, 64, 3, 3]
//   in  bn1.scale   : fp16[64]
//   in  bn1.variance : fp16[64]
//   in  bn1.mean    : fp16[64]
//   in  bn1.shift   : fp16[64]
//   out h           : fp16[N, 64, 56, 56]
//   for i0: N, i1: 64, i2: 56, i3: 56
//   from conv1 : Conv at 35:5
//     %conv1         = reduce sum (k0: 64, k1: 3, k2: 3) : fp32 { mul(X[i0, k0, i2 + k1 - 1, i3 + k2 - 1] where 0 <= i2 + k1 - 1 < 56 and 0 <= i3 + k2 - 1 < 56 else 0.0, W1[i1, k0, k1, k2]) : fp32 }
//   from bn1 : BatchNorm at 36:5
//     %bn1.factor    = mul(cast(bn1.scale[i1]) : fp32, rsqrt(add(cast(bn1.variance[i1]) : fp32, 1e-05)))
//     %bn1.scaled    = mul(sub(%conv1, broadcast_in_dim(cast(bn1.mean[i1]) : fp32, dims=[1])), broadcast_in_dim(%bn1.factor, dims=[1]))
//     %bn1           = add(%bn1.scaled, broadcast_in_dim(cast(bn1.shift[i1]) : fp32, dims=[1]))
//   from relu1 : Elementwise at 37:5
//     %relu1         = relu(%bn1)
//   yield h[i0, i1, i2, i3] = cast(%relu1) : fp16
//   analysis
//     parallel [i0, i1, i2, i3]  reduce [k0, k1, k2]  tail [i0, i2, i3]
//     halo [i2: 2, i3: 2]  buffer reg depth 1  barrier cta
//
// region conv2
//   in  h           : fp16[N, 64, 56, 56]
//   in  W2          : fp16[64, 64, 3, 3]
//   in  bn2.scale   : fp16[64]
//   in  bn2.variance : fp16[64]
//   in  bn2.mean    : fp16[64]
//   in  bn2.shift   : fp16[64]
//   in  X           : fp16[N, 64, 56, 56]
//   out Y           : fp16[N, 64, 56, 56]
//   for i0: N, i1: 64, i2: 56, i3: 56
//   from conv2 : Conv at 38:5
//     %conv2         = reduce sum (k0: 64, k1: 3, k2: 3) : fp32 { mul(h[i0, k0, i2 + k1 - 1, i3 + k2 - 1] where 0 <= i2 + k1 - 1 < 56 and 0 <= i3 + k2 - 1 < 56 else 0.0, W2[i1, k0, k1, k2]) : fp32 }
//   from bn2 : BatchNorm at 39:5
//     %bn2.factor    = mul(cast(bn2.scale[i1]) : fp32, rsqrt(add(cast(bn2.variance[i1]) : fp32, 1e-05)))
//     %bn2.scaled    = mul(sub(%conv2, broadcast_in_dim(cast(bn2.mean[i1]) : fp32, dims=[1])), broadcast_in_dim(%bn2.factor, dims=[1]))
//     %bn2           = add(%bn2.scaled, broadcast_in_dim(cast(bn2.shift[i1]) : fp32, dims=[1]))
//   from add : Elementwise at 40:5
//     %add           = add(%bn2, cast(X[i0, i1, i2, i3]) : fp32)
//   from relu2 : Elementwise at 41:5
//     %relu2         = relu(%add)
//   yield Y[i0, i1, i2, i3] = cast(%relu2) : fp16
//   analysis
//     parallel [i0, i1, i2, i3]  reduce [k0, k1, k2]  tail [i0, i2, i3]
//     halo [i2: 2, i3: 2]  buffer reg depth 1  barrier cta
//
// manifest
//   launch conv1 : sm90 grid [49*N] block [16, 16]
//     tensors [X, W1, bn1.scale, bn1.variance, bn1.mean, bn1.shift, h]  symbols []
//     flops 232013824*N + 192  bytes 802816*N + 74240
//   launch conv2 : sm90 grid [49*N] block [16, 16] early
//     tensors [h, W2, bn2.scale, bn2.variance, bn2.mean, bn2.shift, X, Y]  symbols []
//     flops 232214528*N + 192  bytes 1204224*N + 74240

struct fp16 { unsigned short bits; };

__device__ float float_of_fp16(fp16 x);
__device__ fp16 fp16_of_float(float x);
__device__ float max_nan_of(float a, float b);
__device__ void wait_previous();
__device__ void launch_next();

#ifndef TINYIR_SIM
__device__ __forceinline__ float float_of_fp16(fp16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y; }
__device__ __forceinline__ fp16 fp16_of_float(float x) { fp16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y; }
__device__ __forceinline__ float max_nan_of(float a, float b) { float c; asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b)); return c; }
__device__ __forceinline__ void wait_previous() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void launch_next() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
#endif

template <class T> __device__ __forceinline__ T max_nan(T a, T b) { return a > b || a != a ? a : b; }
__device__ __forceinline__ float max_nan(float a, float b) { return max_nan_of(a, b); }
__device__ __forceinline__ float square_root(float x) { return sqrtf(x); }
__device__ __forceinline__ double square_root(double x) { return sqrt(x); }

// region conv1: conv1 : Conv at 35:5, bn1 : BatchNorm at 36:5, relu1 : Elementwise at 37:5
// plan contraction synchronous: tile [64, 64, 32], micro [4, 4], threads [16, 16]
extern "C" __global__ void __launch_bounds__(256, 3)
conv1(const fp16 *__restrict__ X, const fp16 *__restrict__ W1, const fp16 *__restrict__ bn1_scale, const fp16 *__restrict__ bn1_variance, const fp16 *__restrict__ bn1_mean, const fp16 *__restrict__ bn1_shift, fp16 *__restrict__ h)
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
  launch_next();
  #pragma unroll 1
  for (int k = 0; k < 576; k += 32) {
    // plan cache: W1 -> smem at k0.o, as a
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
      a[ci + 8 * co][ri + 4 * ro] = float_of_fp16(W1[((i1 * 64 + k0) * 3 + k1) * 3 + k2]);
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
  // region conv1: %bn1.factor, %bn1.scaled, %bn1, %relu1, h
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int i1 = i + m0 + 4 * thread_y;
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      const long long col = n0 + j + 4 * thread_x;
      const int i0 = (int)(col / 3136);
      const int i2 = (int)(col / 56 % 56);
      const int i3 = (int)(col % 56);
      const float bn1_factor = float_of_fp16(bn1_scale[i1]) * ((float)1 / square_root(float_of_fp16(bn1_variance[i1]) + 1e-05f));  // bn1 : BatchNorm at 36:5
      const float bn1_scaled = (acc[i][j] - float_of_fp16(bn1_mean[i1])) * bn1_factor;  // bn1 : BatchNorm at 36:5
      const float bn1 = bn1_scaled + float_of_fp16(bn1_shift[i1]);  // bn1 : BatchNorm at 36:5
      const float relu1 = max_nan(bn1, (float)0);  // relu1 : Elementwise at 37:5
      h[(((long long)i0 * 64 + i1) * 56 + i2) * 56 + i3] = fp16_of_float(relu1);
    }
  }
}

// region conv2: conv2 : Conv at 38:5, bn2 : BatchNorm at 39:5, add : Elementwise at 40:5, relu2 : Elementwise at 41:5
// plan contraction synchronous: tile [64, 64, 32], micro [4, 4], threads [16, 16]
extern "C" __global__ void __launch_bounds__(256, 3)
conv2(const fp16 *__restrict__ h, const fp16 *__restrict__ W2, const fp16 *__restrict__ bn2_scale, const fp16 *__restrict__ bn2_variance, const fp16 *__restrict__ bn2_mean, const fp16 *__restrict__ bn2_shift, const fp16 *__restrict__ X, fp16 *__restrict__ Y)
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
  wait_previous();
  #pragma unroll 1
  for (int k = 0; k < 576; k += 32) {
    // plan cache: W2 -> smem at k0.o, as a
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
      a[ci + 8 * co][ri + 4 * ro] = float_of_fp16(W2[((i1 * 64 + k0) * 3 + k1) * 3 + k2]);
    }
    // plan cache: h -> smem at k0.o, as b
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
      b[ci + 8 * co][ri + 4 * ro] = 0 <= i2 + k1 - 1 && i2 + k1 - 1 < 56 && 0 <= i3 + k2 - 1 && i3 + k2 - 1 < 56 ? float_of_fp16(h[(((long long)i0 * 64 + k0) * 56 + i2 + k1 - 1) * 56 + i3 + k2 - 1]) : 0.0f;
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
  // region conv2: %bn2.factor, %bn2.scaled, %bn2, %add, %relu2, Y
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int i1 = i + m0 + 4 * thread_y;
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      const long long col = n0 + j + 4 * thread_x;
      const int i0 = (int)(col / 3136);
      const int i2 = (int)(col / 56 % 56);
      const int i3 = (int)(col % 56);
      const float bn2_factor = float_of_fp16(bn2_scale[i1]) * ((float)1 / square_root(float_of_fp16(bn2_variance[i1]) + 1e-05f));  // bn2 : BatchNorm at 39:5
      const float bn2_scaled = (acc[i][j] - float_of_fp16(bn2_mean[i1])) * bn2_factor;  // bn2 : BatchNorm at 39:5
      const float bn2 = bn2_scaled + float_of_fp16(bn2_shift[i1]);  // bn2 : BatchNorm at 39:5
      const float add = bn2 + float_of_fp16(X[(((long long)i0 * 64 + i1) * 56 + i2) * 56 + i3]);  // add : Elementwise at 40:5
      const float relu2 = max_nan(add, (float)0);  // relu2 : Elementwise at 41:5
      Y[(((long long)i0 * 64 + i1) * 56 + i2) * 56 + i3] = fp16_of_float(relu2);
    }
  }
}
