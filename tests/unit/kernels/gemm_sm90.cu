// relu(A B + bias) as a small warp-specialised kernel for sm90, written by hand: a producer warpgroup and two consumers of 64 rows each, a
// ring of two stages, clusters of two blocks that share B by multicast. A is [M, K], B [K, N], C [M, N], row-major. The device functions
// that it calls are those of tinyir.ir.intrinsics, which go in front of it.

constexpr int kRows = 128, kColumns = 64, kDepth = 64, kStages = 2;

extern "C" __global__ void __launch_bounds__(384, 1) __cluster_dims__(2, 1, 1)
gemm(const __grid_constant__ tensor_map a_map, const __grid_constant__ tensor_map b_map, const __grid_constant__ tensor_map c_map,
     const fp16 *bias, int M, int N, int K)
{
  extern __shared__ __align__(1024) unsigned char smem[];
  fp16 *const a = (fp16 *)smem;                                  // 2 x [128, 64]
  fp16 *const b = a + kStages * kRows * kDepth;                  // 2 x [64, 64], n the fastest
  fp16 *const c = b + kStages * kDepth * kColumns;               // [128, 64]
  unsigned long long *const full = (unsigned long long *)(c + kRows * kColumns);
  unsigned long long *const empty = full + kStages;
  const int thread = (int)threadIdx.x, rank = (int)cluster_rank();
  if (thread == 0) {
    for (int i = 0; i < kStages; ++i) {
      mbarrier_init(&full[i], 1);
      mbarrier_init(&empty[i], 4);
    }
    fence_mbarrier_init();
  }
  cluster_barrier();
  const int rows = (M + 2 * kRows - 1) / (2 * kRows), columns = (N + kColumns - 1) / kColumns, steps = (K + kDepth - 1) / kDepth;
  const int first = (int)blockIdx.x / 2, stride = (int)gridDim.x / 2;
  if (thread < 128) {  // producer
    give_registers<40>();
    if (thread == 0) {
      int slot = 0;
      unsigned int phase = 1;
      for (int tile = first; tile < rows * columns; tile += stride) {
        const int m0 = (2 * (tile % rows) + rank) * kRows, n0 = tile / rows * kColumns;
        for (int k = 0; k < steps; ++k) {
          mbarrier_wait(&empty[slot], phase);
          mbarrier_expect(&full[slot], 2 * kRows * kDepth + 2 * kDepth * kColumns);
          tma_load_2d(a + slot * kRows * kDepth, &a_map, &full[slot], k * kDepth, m0);
          tma_multicast_2d(b + slot * kDepth * kColumns + rank * 32 * kColumns, &b_map, &full[slot], n0, k * kDepth + 32 * rank, 3);
          if (++slot == kStages) { slot = 0; phase ^= 1; }
        }
      }
      for (int i = 0; i < kStages; ++i) {  // nobody leaves while the other block may still write here
        mbarrier_wait(&empty[slot], phase);
        if (++slot == kStages) { slot = 0; phase ^= 1; }
      }
    }
  } else {  // consumers
    take_registers<232>();
    const int part = thread / 128 - 1, lane = thread % 32, own = thread % 128;
    int slot = 0, previous = 0;
    unsigned int phase = 0;
    float acc[kColumns / 2];
    for (int tile = first; tile < rows * columns; tile += stride) {
      const int m0 = (2 * (tile % rows) + rank) * kRows + 64 * part, n0 = tile / rows * kColumns;
      for (int k = 0; k < steps; ++k) {
        mbarrier_wait(&full[slot], phase);
        const unsigned long long left = matrix_descriptor(a + (slot * kRows + 64 * part) * kDepth, 16, 1024);
        const unsigned long long right = matrix_descriptor(b + slot * kDepth * kColumns, 1024 * 8, 1024);
        wgmma_fence();
        for (int step = 0; step < kDepth / 16; ++step)
          wgmma_m64n64k16_fp16<0, 1>(acc, left + 2 * step, right + 128 * step, k > 0 || step > 0);
        wgmma_commit();
        wgmma_wait<1>();
        if (k > 0 && own < 2) mbarrier_arrive_at(&empty[previous], own);
        previous = slot;
        if (++slot == kStages) { slot = 0; phase ^= 1; }
      }
      wgmma_wait<0>();
      if (own < 2) mbarrier_arrive_at(&empty[previous], own);
      if (own == 0) tma_store_wait<0>();
      warpgroup_barrier(1 + part);
      fp16 *const out = c + 64 * part * kColumns;
      for (int piece = 0; piece < 4; ++piece) {
        float x[8];
        for (int e = 0; e < 8; ++e) {
          const int n = n0 + 16 * piece + 8 * (e / 4) + 2 * (lane % 4) + e % 2;
          x[e] = fmaxf(acc[8 * piece + e] + (n < N ? float_of_fp16(bias[n]) : 0.0f), 0.0f);
        }
        store_piece_fp16<128>(out, own / 32 * 16, 16 * piece, x);
      }
      fence_async_proxy();
      warpgroup_barrier(1 + part);
      if (own == 0) {
        tma_store_2d(&c_map, n0, m0, out);
        tma_store_commit();
      }
    }
    if (own == 0) tma_store_wait<0>();
  }
}
