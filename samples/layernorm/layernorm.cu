// tinyir 1.0 cu
//
// model layernorm
//   in  X           : fp16[R, 768]
//   in  gamma       : fp16[768] {role=param, storage=const_pool}
//   in  beta        : fp16[768] {role=param, storage=const_pool}
//   out Y           : fp16[R, 768]
// shapes default {R=4096}
//
// program layernorm
//
// region layernorm
//   in  X           : fp16[R, 768]
//   in  gamma       : fp16[768]
//   in  beta        : fp16[768]
//   out Y           : fp16[R, 768]
//   for i0: R, i1: 768
//   from layernorm : LayerNorm at 18:5
//     %layernorm.c   = cast(X[i0, i1]) : fp32
//     %layernorm.sum = reduce sum (i1) : fp32 { %layernorm.c }
//     %layernorm.centred = sub(%layernorm.c, broadcast_in_dim(fdiv(%layernorm.sum, 768.0), dims=[0]))
//     %layernorm.sum2 = reduce sum (i1) : fp32 { mul(%layernorm.centred, %layernorm.centred) }
//     %layernorm.normed = mul(%layernorm.centred, broadcast_in_dim(rsqrt(add(fdiv(%layernorm.sum2, 768.0), 1e-05)), dims=[0]))
//     %layernorm.add2 = add(mul(%layernorm.normed, broadcast_in_dim(cast(gamma[i1]) : fp32, dims=[1])), broadcast_in_dim(cast(beta[i1]) : fp32, dims=[1]))
//     %layernorm     = cast(%layernorm.add2) : fp16
//   yield Y[i0, i1] = %layernorm
//   analysis
//     parallel [i0]  reduce [i1]  tail []
//     halo []  buffer reg depth 1  barrier cta
//
// manifest
//   launch layernorm : sm90 grid [floor((R + 3)/4)] block [32, 4]
//     tensors [X, gamma, beta, Y]  symbols [R]
//     flops 8448*R  bytes 3072*R + 3072

struct fp16 { unsigned short bits; };

__device__ float float_of_fp16(fp16 x);
__device__ fp16 fp16_of_float(float x);

#ifndef TINYIR_SIM
__device__ __forceinline__ float float_of_fp16(fp16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y; }
__device__ __forceinline__ fp16 fp16_of_float(float x) { fp16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y; }
#endif

__device__ __forceinline__ float square_root(float x) { return sqrtf(x); }
__device__ __forceinline__ double square_root(double x) { return sqrt(x); }
template <class T, int n> struct alignas(n * sizeof(T) < 16 ? n * sizeof(T) : 16) vector_of { T x[n]; };  // neighbours that move at once
template <int n> __device__ __forceinline__ void load_near_fp16(float *to, const fp16 *from) {
  const vector_of<fp16, n> all = *(const vector_of<fp16, n> *)from;
#pragma unroll
  for (int i = 0; i < n; ++i) to[i] = float_of_fp16(all.x[i]);
}

// region layernorm: layernorm : LayerNorm at 18:5
// plan row row_resident: tile [4, 768], threads [32, 4]
extern "C" __global__ void __maxnreg__(64)
layernorm(const fp16 *__restrict__ X, const fp16 *__restrict__ gamma, const fp16 *__restrict__ beta, fp16 *__restrict__ Y, int R)
{
  const int cta_x = (int)blockIdx.x;
  const int thread_x = (int)threadIdx.x;
  const int thread_y = (int)threadIdx.y;
  const int i0 = 4 * cta_x + thread_y;
  float layernorm_sum_acc_beside[8] = {};
  float layernorm_c_row[24];
  if (i0 < R) {
    #pragma unroll
    for (int u = 0; u < 3; ++u) {
      const int c = thread_x + 32 * u;
      const int i1 = 8 * c;
      float X_v[8];
      load_near_fp16<8>(X_v, &X[(long long)i0 * 768 + i1]);
      #pragma unroll
      for (int v = 0; v < 8; ++v) {
        layernorm_c_row[8 * u + v] = X_v[v];
        layernorm_sum_acc_beside[v] += layernorm_c_row[8 * u + v];
      }
    }
  }
  float layernorm_sum_acc[1];
  layernorm_sum_acc[0] = layernorm_sum_acc_beside[0];
  #pragma unroll
  for (int v = 1; v < 8; ++v) {
    layernorm_sum_acc[0] += layernorm_sum_acc_beside[v];
  }
  #pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) layernorm_sum_acc[0] = layernorm_sum_acc[0] + __shfl_xor_sync(0xffffffffu, layernorm_sum_acc[0], lanes);
  const float layernorm_sum = layernorm_sum_acc[0];  // layernorm : LayerNorm at 18:5
  float layernorm_sum2_acc_beside[8] = {};
  const float row_value = layernorm_sum / 768.0f;
  float layernorm_centred_row[24];
  if (i0 < R) {
    #pragma unroll
    for (int u = 0; u < 3; ++u) {
      #pragma unroll
      for (int v = 0; v < 8; ++v) {
        layernorm_centred_row[8 * u + v] = layernorm_c_row[8 * u + v] - row_value;
        layernorm_sum2_acc_beside[v] += layernorm_centred_row[8 * u + v] * layernorm_centred_row[8 * u + v];
      }
    }
  }
  float layernorm_sum2_acc[1];
  layernorm_sum2_acc[0] = layernorm_sum2_acc_beside[0];
  #pragma unroll
  for (int v = 1; v < 8; ++v) {
    layernorm_sum2_acc[0] += layernorm_sum2_acc_beside[v];
  }
  #pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) layernorm_sum2_acc[0] = layernorm_sum2_acc[0] + __shfl_xor_sync(0xffffffffu, layernorm_sum2_acc[0], lanes);
  const float layernorm_sum2 = layernorm_sum2_acc[0];  // layernorm : LayerNorm at 18:5
  const float row_value2 = (float)1 / square_root((layernorm_sum2 / 768.0f) + 1e-05f);
  if (i0 < R) {
    // region layernorm: %layernorm.normed, %layernorm.add2, Y
    #pragma unroll
    for (int u = 0; u < 3; ++u) {
      const int c = thread_x + 32 * u;
      const int i1 = 8 * c;
      float gamma_v[8];
      load_near_fp16<8>(gamma_v, &gamma[i1]);
      float beta_v[8];
      load_near_fp16<8>(beta_v, &beta[i1]);
      float Y_v[8];
      #pragma unroll
      for (int v = 0; v < 8; ++v) {
        const float layernorm_normed = layernorm_centred_row[8 * u + v] * row_value2;  // layernorm : LayerNorm at 18:5
        const float layernorm_add2 = (layernorm_normed * gamma_v[v]) + beta_v[v];  // layernorm : LayerNorm at 18:5
        Y_v[v] = layernorm_add2;
      }
      {
        vector_of<fp16, 8> piece;
        #pragma unroll
        for (int v = 0; v < 8; ++v)
          piece.x[v] = fp16_of_float(Y_v[v]);
        *(vector_of<fp16, 8> *)&Y[(long long)i0 * 768 + i1] = piece;
      }
    }
  }
}
