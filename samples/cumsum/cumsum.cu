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
//   launch cumsum : sm90 grid [R] block [128]
//     tensors [X, Y]  symbols [C]
//     flops 0  bytes 8*C*R

// region cumsum: cumsum : CumSum at 32:3
// plan scan scan_block: tile [1, 128], threads [128]
extern "C" __global__ void __launch_bounds__(128)
cumsum(const float *__restrict__ X, float *__restrict__ Y, int C)
{
  const int cta_x = (int)blockIdx.x;
  const int lane = (int)threadIdx.x % 32;
  const int warp_index = (int)threadIdx.x / 32;
  const int thread_x = (int)threadIdx.x;
  __shared__ __align__(16) float part[4];
  const int i0 = cta_x;
  float cumsum_acc[1];
  float cumsum_carry[1] = {};
  // region cumsum: %cumsum, Y
  #pragma unroll 1
  for (int c = 0; c < C; c += 128) {
    const int i1 = c + thread_x;
    cumsum_acc[0] = 0.0f;
    if (c + thread_x < C) {
      cumsum_acc[0] = X[(long long)i0 * C + i1];
    }
    // sum over the threads before and this one, after cumsum_carry
    {
      #pragma unroll
      for (int lanes = 1; lanes < 32; lanes *= 2) {
        const auto other = __shfl_up_sync(0xffffffffu, cumsum_acc[0], lanes);
        if (lane >= lanes) cumsum_acc[0] = cumsum_acc[0] + other;
      }
      __syncthreads();
      if (lane == 31) part[warp_index] = cumsum_acc[0];
      __syncthreads();
      auto before = cumsum_carry[0];
      #pragma unroll
      for (int w = 0; w < 4; ++w) {
        if (w < warp_index) before = before + part[w];
        cumsum_carry[0] = cumsum_carry[0] + part[w];
      }
      before = before + cumsum_acc[0];
      cumsum_acc[0] = before;
    }
    if (c + thread_x < C) {
      const float cumsum = cumsum_acc[0];  // cumsum : CumSum at 32:3
      Y[(long long)i0 * C + i1] = cumsum;
    }
  }
}
