// tinyir 1.0 cu
//
// model attention_causal
//   in  Q           : fp16[B, 4, S, 64]
//   in  K           : fp16[B, 4, S, 64]
//   in  V           : fp16[B, 4, S, 64]
//   out O           : fp16[B, 4, S, 64]
// shapes default {B=1, S=1024}
//
// program attention_causal
//   buffer attention.weights : fp16[B, 4, S, S] {materialize=deferred}
//
// region attention
//   in  Q           : fp16[B, 4, S, 64]
//   in  K           : fp16[B, 4, S, 64]
//   out attention.weights : fp16[B, 4, S, S] {materialize=deferred}
//   for i0: B, i1: 4, i2: S, i3: S
//   from attention : Attention at 14:5
//     %attention.sum = reduce sum (k0: 64) : fp32 { mul(Q[i0, i1, i2, k0], K[i0, i1, i3, k0]) : fp32 }
//     %attention.scaled = mul(%attention.sum, 0.125)
//     %attention.max.in = %attention.scaled where 0 <= i2 - i3 else -inf
//     %attention.max = reduce max (i3) : fp32 { %attention.max.in }
//     %attention.exp2 = exp2(mul(sub(%attention.max.in, broadcast_in_dim(%attention.max, dims=[0, 1, 2])), 1.442695))
//     %attention.sum2 = reduce sum (i3) : fp32 { %attention.exp2 }
//   yield attention.weights[i0, i1, i2, i3] = cast(fdiv(%attention.exp2, broadcast_in_dim(%attention.sum2, dims=[0, 1, 2]))) : fp16
//   analysis
//     parallel [i0, i1, i2]  reduce [i3, k0]  tail [i2, i3]
//     halo []  buffer reg depth 1  barrier cta
//
// region attention.sum3
//   in  attention.weights : fp16[B, 4, S, S] {materialize=deferred}
//   in  V           : fp16[B, 4, S, 64]
//   out O           : fp16[B, 4, S, 64]
//   for i0: B, i1: 4, i2: S, i3: 64
//   from attention : Attention at 14:5
//     %attention.sum3 = reduce sum (k0: S) : fp32 { mul(attention.weights[i0, i1, i2, k0], V[i0, i1, k0, i3]) : fp32 }
//     %attention     = cast(%attention.sum3) : fp16
//   yield O[i0, i1, i2, i3] = %attention
//   analysis
//     parallel [i0, i1, i2, i3]  reduce [k0]  tail [i2, k0]
//     halo []  buffer smem_ring depth 2  barrier cta
//
// manifest
//   launch attention.attention.sum3 as attention_attention_sum3 of attention, attention.sum3 : sm90 grid [4*B, floor((S + 31)/32)] block [16, 16] smem 51200 B
//     tensors [Q, K, V, O]  symbols [S]
//     flops 1052*B*S*S  bytes 2048*B*S

struct fp16 { unsigned short bits; };

__device__ float float_of_fp16(fp16 x);
__device__ fp16 fp16_of_float(float x);
__device__ float max_nan_of(float a, float b);

#ifndef TINYIR_SIM
__device__ __forceinline__ float float_of_fp16(fp16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y; }
__device__ __forceinline__ fp16 fp16_of_float(float x) { fp16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y; }
__device__ __forceinline__ float max_nan_of(float a, float b) { float c; asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b)); return c; }
#endif

template <class T> __device__ __forceinline__ T max_nan(T a, T b) { return a > b || a != a ? a : b; }
__device__ __forceinline__ float max_nan(float a, float b) { return max_nan_of(a, b); }
template <class T, int n> struct alignas(n * sizeof(T) < 16 ? n * sizeof(T) : 16) vector_of { T x[n]; };  // neighbours that move at once

// region attention: attention : Attention at 14:5
// region attention.sum3: attention : Attention at 14:5
// plan contraction streaming: tile [32, 64, 64], micro [2, 4], threads [16, 16]
extern "C" __global__ void __launch_bounds__(256, 2)
attention_attention_sum3(const fp16 *__restrict__ Q, const fp16 *__restrict__ K, const fp16 *__restrict__ V, fp16 *__restrict__ O, int S)
{
  const int cta_x = (int)blockIdx.x;
  const int cta_y = (int)blockIdx.y;
  const int thread_index = (int)threadIdx.x + 16 * (int)threadIdx.y;
  const int thread_x = (int)threadIdx.x;
  const int thread_y = (int)threadIdx.y;
  extern __shared__ __align__(128) unsigned char smem[];
  float (&q_tile)[32][68] = *(float (*)[32][68])(smem + 0);
  float (&k_tile)[64][68] = *(float (*)[64][68])(smem + 8704);
  float (&v_tile)[64][64] = *(float (*)[64][64])(smem + 26112);
  float (&p_tile)[32][68] = *(float (*)[32][68])(smem + 42496);
  float top[2];
  #pragma unroll
  for (int e0 = 0; e0 < 2; ++e0)
    top[e0] = __uint_as_float(0xff800000u);
  float total[2] = {};
  float acc[2][4] = {};
  const int i1 = cta_x % 4;
  const int i0 = cta_x / 4;
  const int m0 = 32 * ((S + 31) / 32) - 32 * cta_y - 32;
  // plan cache: Q -> smem at i2.o, as q.tile
  #pragma unroll
  for (int element = thread_index; element < 2048; element += 256) {
    const int r = element / 64;
    const int c = element % 64;
    const int i2 = m0 + r;
    const int k0 = c;
    q_tile[r][c] = i2 < S ? float_of_fp16(Q[(((long long)i0 * 4 + i1) * S + i2) * 64 + k0]) : 0.0f;
  }
  // region attention, attention.sum3: %attention.scaled, %base, %scale, p.tile
  #pragma unroll 1
  for (int n0 = 0; n0 < S; n0 += 64) {
    if (0 <= m0 + 31 - n0) {
      // plan cache: K -> smem at i3.o, as k.tile
      #pragma unroll
      for (int element = thread_index; element < 4096; element += 256) {
        const int r = element / 64;
        const int c = element % 64;
        const int i3 = n0 + r;
        const int k0 = c;
        k_tile[r][c] = i3 < S ? float_of_fp16(K[(((long long)i0 * 4 + i1) * S + i3) * 64 + k0]) : 0.0f;
      }
      // plan cache: V -> smem at i3.o, as v.tile
      #pragma unroll
      for (int element = thread_index; element < 4096; element += 256) {
        const int r = element / 64;
        const int c = element % 64;
        const int k0 = n0 + r;
        const int i3 = c;
        v_tile[r][c] = k0 < S ? float_of_fp16(V[(((long long)i0 * 4 + i1) * S + k0) * 64 + i3]) : 0.0f;
      }
      __syncthreads();
      float sc[2][4] = {};
      float qr[2][4];
      float kr[4][4];
      #pragma unroll 4
      for (int kk = 0; kk < 64; kk += 4) {
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
          #pragma unroll
          for (int x = 0; x < 4; ++x)
            qr[i][x] = q_tile[i + 2 * thread_y][kk + x];
        }
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          #pragma unroll
          for (int x = 0; x < 4; ++x)
            kr[j][x] = k_tile[16 * j + thread_x][kk + x];
        }
        #pragma unroll
        for (int u = 0; u < 4; ++u) {
          #pragma unroll
          for (int i = 0; i < 2; ++i) {
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
              sc[i][j] += qr[i][u] * kr[j][u];
            }
          }
        }
      }
      #pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int i2 = i + m0 + 2 * thread_y;
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int i3 = 16 * j + n0 + thread_x;
          if (i2 < S && i3 < S) {
            const float attention_scaled = sc[i][j] * 0.125f;  // attention : Attention at 14:5
            sc[i][j] = 0 <= i2 - i3 ? attention_scaled : __uint_as_float(0xff800000u);
          } else {
            sc[i][j] = __uint_as_float(0xff800000u);
          }
        }
      }
      float best[2];
      #pragma unroll
      for (int i = 0; i < 2; ++i) {
        best[i] = top[i];
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          best[i] = max_nan(best[i], sc[i][j]);
        }
      }
      #pragma unroll
      for (int lanes = 8; lanes > 0; lanes /= 2) best[0] = max_nan(best[0], __shfl_xor_sync(0xffffffffu, best[0], lanes));
      #pragma unroll
      for (int lanes = 8; lanes > 0; lanes /= 2) best[1] = max_nan(best[1], __shfl_xor_sync(0xffffffffu, best[1], lanes));
      #pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float base = (best[i] == __uint_as_float(0xff800000u)) ? 0.0f : best[i];
        const float scale = exp2f((top[i] - base) * 1.442695f);
        top[i] = best[i];
        total[i] = total[i] * scale;
        #pragma unroll
        for (int u = 0; u < 4; ++u) {
          acc[i][u] = acc[i][u] * scale;
        }
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
          sc[i][j] = exp2f((sc[i][j] - base) * 1.442695f);
          total[i] += sc[i][j];
          p_tile[i + 2 * thread_y][16 * j + thread_x] = sc[i][j];
        }
      }
      __syncthreads();
      #pragma unroll 4
      for (int cc = 0; cc < 64; cc += 4) {
        float pr[2][4];
        float vr[4];
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
          #pragma unroll
          for (int x = 0; x < 4; ++x)
            pr[i][x] = p_tile[i + 2 * thread_y][cc + x];
        }
        #pragma unroll
        for (int u = 0; u < 4; ++u) {
          {
            const vector_of<float, 4> piece = *(const vector_of<float, 4> *)&v_tile[cc + u][4 * thread_x];
            #pragma unroll
            for (int x = 0; x < 4; ++x)
              vr[x] = piece.x[x];
          }
          #pragma unroll
          for (int i = 0; i < 2; ++i) {
            #pragma unroll
            for (int e = 0; e < 4; ++e) {
              acc[i][e] += pr[i][u] * vr[e];
            }
          }
        }
      }
      __syncthreads();
    }
  }
  #pragma unroll
  for (int lanes = 8; lanes > 0; lanes /= 2) total[0] = total[0] + __shfl_xor_sync(0xffffffffu, total[0], lanes);
  #pragma unroll
  for (int lanes = 8; lanes > 0; lanes /= 2) total[1] = total[1] + __shfl_xor_sync(0xffffffffu, total[1], lanes);
  // region attention, attention.sum3: %norm, %attention.sum3, %attention, O
  #pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int i2 = i + m0 + 2 * thread_y;
    if (i2 < S) {
      const float norm = total[i];
      #pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int col = e + 4 * thread_x;
        const float attention_sum3 = acc[i][e] / norm;  // attention : Attention at 14:5
        const float attention = float_of_fp16(fp16_of_float(attention_sum3));  // attention : Attention at 14:5
        O[(((long long)i0 * 4 + i1) * S + i2) * 64 + col] = fp16_of_float(attention);
      }
    }
  }
}
