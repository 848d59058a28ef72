// tinyir 1.0 cu
//
// model mlp
//   in  X           : fp16[M, 768]
//   in  W1          : fp16[768, 3072] {role=param, storage=const_pool}
//   in  b1          : fp16[3072] {role=param, storage=const_pool}
//   in  W2          : fp16[3072, 768] {role=param, storage=const_pool}
//   in  b2          : fp16[768] {role=param, storage=const_pool}
//   out Y           : fp16[M, 768]
// shapes default {M=2048}
//
// program mlp
//   buffer H           : fp16[M, 3072]
//
// region up
//   in  X           : fp16[M, 768]
//   in  W1          : fp16[768, 3072]
//   in  b1          : fp16[3072]
//   out H           : fp16[M, 3072]
//   for i0: M, i1: 3072
//   from up : GEMM at 23:5
//     %up.sum        = reduce sum (k0: 768) : fp32 { mul(X[i0, k0], W1[k0, i1]) : fp32 }
//     %up            = add(%up.sum, broadcast_in_dim(cast(b1[i1]) : fp32, dims=[1]))
//   from gelu : Elementwise at 24:5
//     %gelu          = mul(mul(%up, 0.5), add(erf(mul(%up, 0.70710677)), 1.0))
//   yield H[i0, i1] = cast(%gelu) : fp16
//   analysis
//     parallel [i0, i1]  reduce [k0]  tail [i0]
//     halo []  buffer reg depth 1  barrier cta
//
// region down
//   in  H           : fp16[M, 3072]
//   in  W2          : fp16[3072, 768]
//   in  b2          : fp16[768]
//   out Y           : fp16[M, 768]
//   for i0: M, i1: 768
//   from down : GEMM at 25:5
//     %down.sum      = reduce sum (k0: 3072) : fp32 { mul(H[i0, k0], W2[k0, i1]) : fp32 }
//     %down          = add(%down.sum, broadcast_in_dim(cast(b2[i1]) : fp32, dims=[1]))
//   yield Y[i0, i1] = cast(%down) : fp16
//   analysis
//     parallel [i0, i1]  reduce [k0]  tail [i0]
//     halo []  buffer reg depth 1  barrier cta
//
// manifest
//   tensor_map a.map = X box [256, 64] swizzle 128
//   tensor_map b.map = W1 box [64, 64] swizzle 128
//   tensor_map H.out.map = H box [64, 64] swizzle 128
//   tensor_map a.map.2 = H box [128, 64] swizzle 128
//   tensor_map b.map.2 = W2 box [64, 64] swizzle 128
//   tensor_map Y.out.map = Y box [64, 64] swizzle 128
//   launch up : sm90 grid [132] block [384] smem 206384 B
//     tensors [b1]  maps [a.map, b.map, H.out.map]  symbols [M]
//     flops 4737024*M  bytes 7680*M + 4724736
//   launch down : sm90 grid [132] block [384] smem 230512 B early
//     tensors [b2]  maps [a.map.2, b.map.2, Y.out.map]  symbols [M]
//     flops 4719360*M  bytes 7680*M + 4720128

struct fp16 { unsigned short bits; };
struct alignas(64) tensor_map { char bytes[128]; };

__device__ float float_of_fp16(fp16 x);
__device__ float max_nan_of(float a, float b);
__device__ float exp2_approx(float x);
__device__ unsigned int shared_address(const void *p);
__device__ unsigned int pair_of_fp16(float low, float high);
__device__ void mbarrier_init_if(bool is_chosen, unsigned long long *barrier, int count);
__device__ void mbarrier_expect(unsigned long long *barrier, int bytes);
__device__ void mbarrier_arrive(unsigned long long *barrier);
__device__ void mbarrier_wait(unsigned long long *barrier, unsigned int phase);
__device__ void fence_mbarrier_init();
__device__ void fence_async_proxy();
__device__ void warpgroup_barrier(int number);
__device__ void tma_load_2d(void *to, const tensor_map *map, unsigned long long *barrier, int x, int y);
__device__ void tma_store_2d(const tensor_map *map, int x, int y, const void *from);
__device__ void prefetch_map(const tensor_map *map);
__device__ void wait_previous();
__device__ void launch_next();
__device__ void tma_store_commit();
template <int pending> __device__ __forceinline__ void tma_store_wait();
__device__ void wgmma_fence();
__device__ void wgmma_commit();
template <int pending> __device__ __forceinline__ void wgmma_wait();
template <int a_major, int b_major>
__device__ __forceinline__ void wgmma_m64n128k16_fp16(float (&d)[64], unsigned long long a, unsigned long long b, bool is_added);
template <int a_major, int b_major>
__device__ __forceinline__ void wgmma_m64n192k16_fp16(float (&d)[96], unsigned long long a, unsigned long long b, bool is_added);
template <int count> __device__ __forceinline__ void take_registers();
template <int count> __device__ __forceinline__ void give_registers();
__device__ void stmatrix_x4(void *to, unsigned int a, unsigned int b, unsigned int c, unsigned int d);

#ifndef TINYIR_SIM
__device__ __forceinline__ float float_of_fp16(fp16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y; }
__device__ __forceinline__ float max_nan_of(float a, float b) { float c; asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b)); return c; }
__device__ __forceinline__ float exp2_approx(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
__device__ __forceinline__ unsigned int shared_address(const void *p) { return (unsigned int)__cvta_generic_to_shared(p); }
__device__ __forceinline__ unsigned int pair_of_fp16(float low, float high) { unsigned int y; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low)); return y; }
__device__ __forceinline__ void mbarrier_init_if(bool is_chosen, unsigned long long *barrier, int count) { asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p mbarrier.init.shared::cta.b64 [%0], %1; }" :: "r"(shared_address(barrier)), "r"(count), "r"((int)is_chosen) : "memory"); }
__device__ __forceinline__ void mbarrier_expect(unsigned long long *barrier, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(shared_address(barrier)), "r"(bytes) : "memory"); }
__device__ __forceinline__ void mbarrier_arrive(unsigned long long *barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared_address(barrier)) : "memory"); }
__device__ __forceinline__ void mbarrier_wait(unsigned long long *barrier, unsigned int phase) { asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @p bra done; bra again; done: }" :: "r"(shared_address(barrier)), "r"(phase) : "memory"); }
__device__ __forceinline__ void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void warpgroup_barrier(int number) { asm volatile("bar.sync %0, 128;" :: "r"(number) : "memory"); }
__device__ __forceinline__ void tma_load_2d(void *to, const tensor_map *map, unsigned long long *barrier, int x, int y) { asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" :: "r"(shared_address(to)), "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y) : "memory"); }
__device__ __forceinline__ void tma_store_2d(const tensor_map *map, int x, int y, const void *from) { asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" :: "l"(map), "r"(shared_address(from)), "r"(x), "r"(y) : "memory"); }
__device__ __forceinline__ void prefetch_map(const tensor_map *map) { asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory"); }
__device__ __forceinline__ void wait_previous() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void launch_next() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
__device__ __forceinline__ void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int pending> __device__ __forceinline__ void tma_store_wait() { asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(pending) : "memory"); }
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int pending> __device__ __forceinline__ void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(pending) : "memory"); }
template <int a_major, int b_major>
__device__ __forceinline__ void wgmma_m64n128k16_fp16(float (&d)[64], unsigned long long a, unsigned long long b, bool is_added) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63 "
    "}, %64, %65, p, 1, 1, %67, %68; }"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
      "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
      "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
      "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
      "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
      "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
      "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
      "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
    : "l"(a), "l"(b), "r"((int)is_added), "n"(a_major), "n"(b_major));
}
template <int a_major, int b_major>
__device__ __forceinline__ void wgmma_m64n192k16_fp16(float (&d)[96], unsigned long long a, unsigned long long b, bool is_added) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %98, 0; wgmma.mma_async.sync.aligned.m64n192k16.f32.f16.f16 {"
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95 "
    "}, %96, %97, p, 1, 1, %99, %100; }"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
      "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
      "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
      "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
      "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
      "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
      "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
      "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
      "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
      "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),
      "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),
      "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
    : "l"(a), "l"(b), "r"((int)is_added), "n"(a_major), "n"(b_major));
}
template <int count> __device__ __forceinline__ void take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(count)); }
template <int count> __device__ __forceinline__ void give_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(count)); }
__device__ __forceinline__ void stmatrix_x4(void *to, unsigned int a, unsigned int b, unsigned int c, unsigned int d) { asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" :: "r"(shared_address(to)), "r"(a), "r"(b), "r"(c), "r"(d) : "memory"); }
#endif

// x/2 * (1 + erf(x/sqrt(2))) within 0.17 of an ulp of fp16: max(x, 0) - |x| times 2^p, p a polynomial in |x| near log2 of half of erfc(|x|/sqrt(2)).
__device__ __forceinline__ float gelu_for_fp16(float x) {
  const float size = fabsf(fminf(x, 64.0f));
  float p = fmaf(0.00032012776f, size, -0.0058227054f);
  p = fmaf(p, size, 0.048217326f);
  p = fmaf(p, size, 0.46415889f);
  p = fmaf(p, size, 1.1491462f);
  p = fmaf(p, size, 1.0001273f);
  return fmaf(-size, exp2_approx(-p), max_nan_of(x, 0.0f));
}
// The barriers of a ring, each by the first lane of another of the CTA's warps, as one takes some 20 clocks. What a warp has set up, all its lanes may use.
template <int ring, int warps> __device__ __forceinline__ void mbarriers_init(unsigned long long *barriers, int count) {
  #pragma unroll
  for (int first = 0; first < ring; first += warps) {
    const int i = first + (int)threadIdx.x / 32;
    mbarrier_init_if((int)threadIdx.x % 32 == 0 && i < ring, &barriers[i], count);
  }
  __syncwarp();
}
// A byte of a tile whose rows are `span` bytes, where the swizzle puts it: 16-byte pieces are exchanged by the row's number.
template <int span> __device__ __forceinline__ int swizzled(int byte) { return byte ^ (byte >> 3 & (span - 16)); }
// A warp's 16 x 16 piece of an accumulator, each thread's eight values in the order in which wgmma leaves them, into a swizzled tile.
template <int span>
__device__ __forceinline__ void store_piece_fp16(fp16 *tile, int row, int column, const float (&x)[8]) {
  const int lane = (int)threadIdx.x % 32;
  const int place = swizzled<span>((row + lane % 16) * span + 2 * (column + 8 * (lane / 16)));
  stmatrix_x4((unsigned char *)tile + place, pair_of_fp16(x[0], x[1]), pair_of_fp16(x[2], x[3]), pair_of_fp16(x[4], x[5]), pair_of_fp16(x[6], x[7]));
}
// What wgmma knows of an operand in shared memory, swizzled by 128 bytes: where it starts, and its strides in bytes.
__device__ __forceinline__ unsigned long long matrix_descriptor(const void *start, int leading, int stride) {
  const unsigned long long address = shared_address(start) & 0x3ffff;
  return address >> 4 | (unsigned long long)(leading >> 4) << 16 | (unsigned long long)(stride >> 4) << 32 | 1ull << 62;
}
// Tile number `tile` of rows x columns when `width` rows of tiles are taken together, column by column: neighbours in time share L2.
struct tile_place { int row, column; };
__device__ __forceinline__ tile_place grouped_tile(int tile, int rows, int columns, int width) {
  const int group = tile / (width * columns), first = group * width, inside = tile - first * columns;
  const int here = rows - first < width ? rows - first : width;
  tile_place place = {first + inside % here, inside / here};
  return place;
}

// region up: up : GEMM at 23:5, gelu : Elementwise at 24:5
// plan contraction warp_specialized: tile [256, 192, 64], stages 3
extern "C" __global__ void __launch_bounds__(384, 1)
up(const fp16 *__restrict__ b1, const __grid_constant__ tensor_map a_map, const __grid_constant__ tensor_map b_map, const __grid_constant__ tensor_map H_out_map, int M)
{
  const int cta_x = (int)blockIdx.x;
  const int lane = (int)threadIdx.x % 32;
  const int warpgroup_thread = (int)threadIdx.x % 128;
  const int thread_x = (int)threadIdx.x;
  extern __shared__ __align__(1024) unsigned char smem[];
  if (thread_x == 32) prefetch_map(&a_map);
  if (thread_x == 32) prefetch_map(&b_map);
  if (thread_x == 32) prefetch_map(&H_out_map);
  fp16 *const a = (fp16 *)smem;  // 3 x [256, 64], swizzled by 128 B
  fp16 *const b = (fp16 *)(smem + 98304);  // 3 x [64, 192], swizzled by 128 B
  fp16 *const H_out = (fp16 *)(smem + 172032);  // 4 x [64, 64], swizzled by 128 B
  float (&b1_tile)[2][192] = *(float (*)[2][192])(smem + 204800);
  unsigned long long *const full = (unsigned long long *)(smem + 206336);
  mbarriers_init<3, 12>(full, 1);
  unsigned long long *const empty = (unsigned long long *)(smem + 206360);
  mbarriers_init<3, 12>(empty, 2);
  fence_mbarrier_init();
  __syncthreads();
  const int tiles_m = (M + 255) / 256;
  const int tiles_n = 16;
  const int tiles = tiles_m * tiles_n;
  const int steps = 12;
  launch_next();
  if (thread_x < 128) {  // role producer
    give_registers<40>();
    if (warpgroup_thread == 0) {
      int p_slot = 0;
      unsigned int p_phase = 1;
      #pragma unroll 1
      for (int tile = cta_x; tile < tiles; tile += 132) {
        const tile_place tm_tn = grouped_tile(tile, tiles_m, tiles_n, 8);
        const int tm = tm_tn.row, tn = tm_tn.column;
        const int m0 = 256 * tm;
        const int n0 = 192 * tn;
        #pragma unroll 1
        for (int k = 0; k < steps; ++k) {
          mbarrier_wait(&empty[p_slot], p_phase);
          mbarrier_expect(&full[p_slot], 57344);
          tma_load_2d(a + 16384 * p_slot, &a_map, &full[p_slot], 64 * k, m0);
          #pragma unroll
          for (int box = 0; box < 3; ++box)
            tma_load_2d(b + 4096 * box + 12288 * p_slot, &b_map, &full[p_slot], 64 * box + n0, 64 * k);
          if (++p_slot == 3) { p_slot = 0; p_phase ^= 1; }
        }
      }
    }
  } else {  // role consumer
    take_registers<232>();
    const int warpgroup_index = thread_x / 128 - 1;
    int s_slot = 0;
    unsigned int s_phase = 0;
    int s_previous = 2;
    const int part = 128 * warpgroup_index;
    int o_slot = 0;
    float acc[2][96];  // this thread's part of [128, 192]
    // region up: %up, %gelu, b1.tile, H.out
    #pragma unroll 1
    for (int tile = cta_x; tile < tiles; tile += 132) {
      const tile_place tm_tn = grouped_tile(tile, tiles_m, tiles_n, 8);
      const int tm = tm_tn.row, tn = tm_tn.column;
      const int m0 = 256 * tm;
      const int n0 = 192 * tn;
      #pragma unroll 1
      for (int k = 0; k < steps; ++k) {
        mbarrier_wait(&full[s_slot], s_phase);
        wgmma_fence();
        {
          const unsigned long long a_start = matrix_descriptor(a + 64 * part + 16384 * s_slot, 16, 1024);
          const unsigned long long b_start = matrix_descriptor(b + 12288 * s_slot, 8192, 1024);
          #pragma unroll
          for (int step = 0; step < 4; ++step) {
            wgmma_m64n192k16_fp16<0, 1>(acc[0], a_start + 2 * step, b_start + 128 * step, step > 0 || !(k == 0));
            wgmma_m64n192k16_fp16<0, 1>(acc[1], a_start + 2 * step + 512, b_start + 128 * step, step > 0 || !(k == 0));
          }
          wgmma_commit();
        }
        if (k == 0) {
          #pragma unroll
          for (int v = 0; v < 2; ++v) {
            if (128 * v + warpgroup_thread < 192) {
              b1_tile[warpgroup_index][128 * v + warpgroup_thread] = float_of_fp16(b1[n0 + 128 * v + warpgroup_thread]);
            }
          }
        }
        wgmma_wait<1>();
        if (1 <= k) if (warpgroup_thread == 0) mbarrier_arrive(&empty[s_previous]);
        s_previous = s_slot;
        if (++s_slot == 3) { s_slot = 0; s_phase ^= 1; }
      }
      wgmma_wait<0>();
      if (warpgroup_thread == 0) mbarrier_arrive(&empty[s_previous]);
      #pragma unroll
      for (int i = 0; i < 2; ++i) {
        #pragma unroll
        for (int j = 0; j < 3; ++j) {
          if (warpgroup_thread == 0) tma_store_wait<1>();
          warpgroup_barrier(2 + warpgroup_index);
          #pragma unroll
          for (int piece = 0; piece < 4; ++piece) {  // 16 columns
            float H_out_piece[8];
            #pragma unroll
            for (int element_ = 0; element_ < 8; ++element_) {
              const int n = element_ % 2 + 2 * (lane % 4) + 16 * piece + 8 * (element_ / 4);
              const float up = acc[i][element_ + 32 * j + 8 * piece] + b1_tile[warpgroup_index][64 * j + n];  // up : GEMM at 23:5
              const float gelu = gelu_for_fp16(up);  // gelu : Elementwise at 24:5
              H_out_piece[element_] = gelu;
            }
            store_piece_fp16<128>(H_out + 4096 * o_slot + 8192 * warpgroup_index, 16 * (warpgroup_thread / 32), 16 * piece, H_out_piece);
          }
          fence_async_proxy();
          warpgroup_barrier(2 + warpgroup_index);
          if (warpgroup_thread == 0) {
            tma_store_2d(&H_out_map, 64 * j + n0, 64 * i + m0 + part, H_out + 4096 * o_slot + 8192 * warpgroup_index);
            tma_store_commit();
          }
          if (++o_slot == 2) { o_slot = 0; }
        }
      }
    }
    if (warpgroup_thread == 0) tma_store_wait<0>();
  }
}

// region down: down : GEMM at 25:5
// plan contraction warp_specialized: tile [128, 128, 64], stages 6
extern "C" __global__ void __launch_bounds__(384, 1)
down(const fp16 *__restrict__ b2, const __grid_constant__ tensor_map a_map, const __grid_constant__ tensor_map b_map, const __grid_constant__ tensor_map Y_out_map, int M)
{
  const int cta_x = (int)blockIdx.x;
  const int lane = (int)threadIdx.x % 32;
  const int warpgroup_thread = (int)threadIdx.x % 128;
  const int thread_x = (int)threadIdx.x;
  extern __shared__ __align__(1024) unsigned char smem[];
  if (thread_x == 32) prefetch_map(&a_map);
  if (thread_x == 32) prefetch_map(&b_map);
  if (thread_x == 32) prefetch_map(&Y_out_map);
  fp16 *const a = (fp16 *)smem;  // 6 x [128, 64], swizzled by 128 B
  fp16 *const b = (fp16 *)(smem + 98304);  // 6 x [64, 128], swizzled by 128 B
  fp16 *const Y_out = (fp16 *)(smem + 196608);  // 4 x [64, 64], swizzled by 128 B
  float (&b2_tile)[2][128] = *(float (*)[2][128])(smem + 229376);
  unsigned long long *const full = (unsigned long long *)(smem + 230400);
  mbarriers_init<6, 12>(full, 1);
  unsigned long long *const empty = (unsigned long long *)(smem + 230448);
  mbarriers_init<6, 12>(empty, 1);
  unsigned long long *const turn_ = (unsigned long long *)(smem + 230496);
  mbarriers_init<2, 12>(turn_, 1);
  fence_mbarrier_init();
  __syncthreads();
  const int tiles_m = (M + 127) / 128;
  const int tiles_n = 6;
  const int tiles = tiles_m * tiles_n;
  const int steps = 48;
  wait_previous();
  if (thread_x < 128) {  // role producer
    give_registers<40>();
    if (warpgroup_thread == 0) {
      int p_slot = 0;
      unsigned int p_phase = 1;
      #pragma unroll 1
      for (int tile = cta_x; tile < tiles; tile += 132) {
        const tile_place tm_tn = grouped_tile(tile, tiles_m, tiles_n, 8);
        const int tm = tm_tn.row, tn = tm_tn.column;
        const int m0 = 128 * tm;
        const int n0 = 128 * tn;
        #pragma unroll 1
        for (int k = 0; k < steps; ++k) {
          mbarrier_wait(&empty[p_slot], p_phase);
          mbarrier_expect(&full[p_slot], 32768);
          tma_load_2d(a + 8192 * p_slot, &a_map, &full[p_slot], 64 * k, m0);
          #pragma unroll
          for (int box = 0; box < 2; ++box)
            tma_load_2d(b + 4096 * box + 8192 * p_slot, &b_map, &full[p_slot], 64 * box + n0, 64 * k);
          if (++p_slot == 6) { p_slot = 0; p_phase ^= 1; }
        }
      }
    }
  } else {  // role consumer
    take_registers<232>();
    const int warpgroup_index = thread_x / 128 - 1;
    int s_slot = 0;
    unsigned int s_phase = 0;
    int s_previous = 5;
    int t_slot = 0;
    unsigned int t_phase = 1;
    if (warpgroup_index == 1) {
      s_slot += steps;
      s_phase ^= s_slot / 6 & 1;
      s_slot %= 6;
      s_previous = (s_slot + 5) % 6;
      if (++t_slot == 1) { t_slot = 0; t_phase ^= 1; }
    }
    int o_slot = 0;
    float acc[2][64];  // this thread's part of [128, 128]
    // region down: %down, b2.tile, Y.out
    #pragma unroll 1
    for (int tile = cta_x + 132 * warpgroup_index; tile < tiles; tile += 264) {
      const tile_place tm_tn = grouped_tile(tile, tiles_m, tiles_n, 8);
      const int tm = tm_tn.row, tn = tm_tn.column;
      const int m0 = 128 * tm;
      const int n0 = 128 * tn;
      float b2_tile_early[1] = {};
      b2_tile_early[0] = float_of_fp16(b2[n0 + warpgroup_thread]);
      mbarrier_wait(&turn_[warpgroup_index], t_phase);
      #pragma unroll 1
      for (int k = 0; k < steps; ++k) {
        mbarrier_wait(&full[s_slot], s_phase);
        wgmma_fence();
        {
          const unsigned long long a_start = matrix_descriptor(a + 8192 * s_slot, 16, 1024);
          const unsigned long long b_start = matrix_descriptor(b + 8192 * s_slot, 8192, 1024);
          #pragma unroll
          for (int step = 0; step < 4; ++step) {
            wgmma_m64n128k16_fp16<0, 1>(acc[0], a_start + 2 * step, b_start + 128 * step, step > 0 || !(k == 0));
            wgmma_m64n128k16_fp16<0, 1>(acc[1], a_start + 2 * step + 512, b_start + 128 * step, step > 0 || !(k == 0));
          }
          wgmma_commit();
        }
        if (k == 0) b2_tile[warpgroup_index][warpgroup_thread] = b2_tile_early[0];
        wgmma_wait<1>();
        if (1 <= k) if (warpgroup_thread == 0) mbarrier_arrive(&empty[s_previous]);
        s_previous = s_slot;
        if (++s_slot == 6) { s_slot = 0; s_phase ^= 1; }
      }
      if (warpgroup_thread == 0) mbarrier_arrive(&turn_[1 - warpgroup_index]);
      wgmma_wait<0>();
      if (warpgroup_thread == 0) mbarrier_arrive(&empty[s_previous]);
      s_slot += steps;
      s_phase ^= s_slot / 6 & 1;
      s_slot %= 6;
      s_previous = (s_slot + 5) % 6;
      if (++t_slot == 1) { t_slot = 0; t_phase ^= 1; }
      #pragma unroll
      for (int i = 0; i < 2; ++i) {
        #pragma unroll
        for (int j = 0; j < 2; ++j) {
          if (warpgroup_thread == 0) tma_store_wait<1>();
          warpgroup_barrier(2 + warpgroup_index);
          #pragma unroll
          for (int piece = 0; piece < 4; ++piece) {  // 16 columns
            float Y_out_piece[8];
            #pragma unroll
            for (int element_ = 0; element_ < 8; ++element_) {
              const int n = element_ % 2 + 2 * (lane % 4) + 16 * piece + 8 * (element_ / 4);
              const float down = acc[i][element_ + 32 * j + 8 * piece] + b2_tile[warpgroup_index][64 * j + n];  // down : GEMM at 25:5
              Y_out_piece[element_] = down;
            }
            store_piece_fp16<128>(Y_out + 4096 * o_slot + 8192 * warpgroup_index, 16 * (warpgroup_thread / 32), 16 * piece, Y_out_piece);
          }
          fence_async_proxy();
          warpgroup_barrier(2 + warpgroup_index);
          if (warpgroup_thread == 0) {
            tma_store_2d(&Y_out_map, 64 * j + n0, 64 * i + m0, Y_out + 4096 * o_slot + 8192 * warpgroup_index);
            tma_store_commit();
          }
          if (++o_slot == 2) { o_slot = 0; }
        }
      }
    }
    if (warpgroup_thread == 0) tma_store_wait<0>();
  }
}
