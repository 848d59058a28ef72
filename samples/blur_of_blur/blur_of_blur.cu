// tinyir 1.0 cu
//
// model blur_of_blur
//   in  image       : fp32[N, 1, H, W]
//   out blurred     : fp32[N, 1, H, W]
// shapes default {N=1, H=1080, W=1920}
//
// program blur_of_blur
//
// region down
//   in  image       : fp32[N, 1, H, W]
//   out blurred     : fp32[N, 1, H, W]
//   for i0: N, i1: H, i2: W
//   from down : Pool at 13:5
//     %down.sum      = reduce sum (k0: 3) : fp32 { (fdiv(reduce sum (k1: 3) : fp32 { image[i0, 0, i1 + k0 - 1, i2 + k1 - 1] where 0 <= i2 + k1 - 1 < W else 0.0 }, 3.0)) where 0 <= i1 + k0 - 1 < H else 0.0 }
//     %down          = fdiv(%down.sum, 3.0)
//   yield blurred[i0, 0, i1, i2] = %down
//   analysis
//     parallel [i0, i1, i2]  reduce [k0, k1]  tail []
//     halo [i1: 2, i2: 2]  buffer reg depth 1  barrier cta
//
// manifest
//   launch down : sm90 grid [floor((H*N*W + 511)/512)] block [128]
//     tensors [image, blurred]  symbols [N, H, W]
//     flops 16*H*N*W  bytes 8*H*N*W

// region down: down : Pool at 13:5
// plan map flat: tile [512], micro [4], threads [128]
extern "C" __global__ void __launch_bounds__(128)
down(const float *__restrict__ image, float *__restrict__ blurred, int N, int H, int W)
{
  const int cta_x = (int)blockIdx.x;
  const int thread_x = (int)threadIdx.x;
  // region down: %down.sum, %down, blurred
  #pragma unroll
  for (int u = 0; u < 4; ++u) {
    const long long e = (long long)cta_x * 512 + thread_x + 128 * u;
    if (e < (long long)H * N * W) {
      const int i0 = (int)(e / ((long long)H * W));
      const int i1 = (int)(e / W % H);
      const int i2 = (int)(e % W);
      float down_sum_acc[1] = {};
      #pragma unroll
      for (int k0 = 0; k0 < 3; ++k0) {
        float down_sum_acc_acc[1] = {};
        #pragma unroll
        for (int k1 = 0; k1 < 3; ++k1) {
          down_sum_acc_acc[0] += 0 <= i1 + k0 - 1 && i1 + k0 - 1 < H && 0 <= i2 + k1 - 1 && i2 + k1 - 1 < W ? image[((long long)i0 * H + i1 + k0 - 1) * W + i2 + k1 - 1] : 0.0f;
        }
        down_sum_acc[0] += 0 <= i1 + k0 - 1 && i1 + k0 - 1 < H ? (down_sum_acc_acc[0] / 3.0f) : 0.0f;
      }
      const float down_sum = down_sum_acc[0];  // down : Pool at 13:5
      const float down = down_sum / 3.0f;  // down : Pool at 13:5
      blurred[((long long)i0 * H + i1) * W + i2] = down;
    }
  }
}
