// tinyir 1.0 cu
//
// model cumsum
//   in  X           : fp32[R, C]
//   out Y           : fp32[R, C]
// shapes default {R=8, C=100}
//
// program cumsum
//
// region cumsum
//   in  X           : fp32[R, C]
//   out Y           : fp32[R, C]
//   for i0: R, i1: C
//   from cumsum : CumSum at 32:3
//     %cumsum        = scan sum (i1) : fp32 { X[i0, i1] }
//   yield Y[i0, i1] = %cumsum
//   analysis
//     parallel [i0]  reduce [i1]  tail [i1]
//     halo []  buffer reg depth 1  barrier cta
//
// manifest
//   launch cumsum : sm90 grid [R] block [32]
//     tensors [X, Y]  symbols [C]
//     flops 0  bytes 8*C*R

template <class T, int n> struct alignas(n * sizeof(T) < 16 ? n * sizeof(T) : 16) vector_of { T x[n]; };  // neighbours that move at once
template <int n, class T, class S> __device__ __forceinline__ void load_near(T *to, const S *from) {
  const vector_of<S, n> all = *(const vector_of<S, n> *)from;
#pragma unroll
  for (int i = 0; i < n; ++i) to[i] = all.x[i];
}
template <int n, class T> __device__ __forceinline__ void store_near(T *to, const T *from) {
  vector_of<T, n> all;
#pragma unroll
  for (int i = 0; i < n; ++i) all.x[i] = from[i];
  *(vector_of<T, n> *)to = all;
}

// region cumsum: cumsum : CumSum at 32:3
// plan scan scan_block: tile [1, 128], threads [32]
extern "C" __global__ void __launch_bounds__(32)
cumsum(const float *__restrict__ X, float *__restrict__ Y, int C)
{
  const int cta_x = (int)blockIdx.x;
  const int lane = (int)threadIdx.x % 32;
  const int thread_x = (int)threadIdx.x;
  const int i0 = cta_x;
  const int skew = (int)((long long)C * i0 % 4);
  float cumsum_acc[1];
  float cumsum_carry[1] = {};
  float cumsum_own[4];
  // region cumsum: %cumsum, Y
  #pragma unroll 4
  for (int c = 0; c < (C + skew + 3) / 4; c += 32) {
    const int n = c + thread_x;
    const int i1 = 4 * n - skew;
    cumsum_acc[0] = 0.0f;
    if (n < (C + skew + 3) / 4) {
      if (0 <= i1 && i1 < C - 3) {
        float X_v[4];
        load_near<4>(X_v, &X[(long long)i0 * C + i1]);
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
          cumsum_acc[0] += X_v[v];
          cumsum_own[v] = cumsum_acc[0];
        }
      } else {
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
          if (0 <= i1 + v && i1 + v < C) {
            cumsum_acc[0] += X[(long long)i0 * C + i1 + v];
            cumsum_own[v] = cumsum_acc[0];
          }
        }
      }
    }
    // sum over the threads before, after cumsum_carry
    {
      #pragma unroll
      for (int lanes = 1; lanes < 32; lanes *= 2) {
        const auto other = __shfl_up_sync(0xffffffffu, cumsum_acc[0], lanes);
        if (lane >= lanes) cumsum_acc[0] = cumsum_acc[0] + other;
      }
      auto before = cumsum_carry[0];
      const auto total = __shfl_sync(0xffffffffu, cumsum_acc[0], 31);
      cumsum_carry[0] = cumsum_carry[0] + total;
      const auto own = __shfl_up_sync(0xffffffffu, cumsum_acc[0], 1);
      if (lane > 0) before = before + own;
      cumsum_acc[0] = before;
    }
    if (n < (C + skew + 3) / 4) {
      if (0 <= i1 && i1 < C - 3) {
        float Y_v[4];
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
          const float cumsum = cumsum_acc[0] + cumsum_own[v];  // cumsum : CumSum at 32:3
          Y_v[v] = cumsum;
        }
        store_near<4>(&Y[(long long)i0 * C + i1], Y_v);
      } else {
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
          if (0 <= i1 + v && i1 + v < C) {
            const float cumsum = cumsum_acc[0] + cumsum_own[v];  // cumsum : CumSum at 32:3
            Y[(long long)i0 * C + i1 + v] = cumsum;
          }
        }
      }
    }
  }
}
