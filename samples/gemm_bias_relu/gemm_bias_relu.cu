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
//   buffer gemm.A.padded : fp16[M, 64*floor((K + 63)/64)]
//   buffer gemm.B.padded : fp16[K, 64*floor((N + 63)/64)]
//   tensor_map a.map = A box [64, 64] swizzle 128
//   tensor_map b.map = B box [64, 64] swizzle 128
//   tensor_map C2.out.map = C2 box [64, 64] swizzle 128
//   tensor_map a.map.2 = gemm.B.padded box [64, 64] swizzle 128
//   tensor_map b.map.2 = gemm.A.padded box [128, 64] swizzle 128
//   launch gemm : sm90 grid [132] block [256] smem 213632 B
//     tensors [bias]  maps [a.map, b.map, C2.out.map]  symbols [M, K, N]
//     assume 8*floor(K/8) = K and 8*floor(N/8) = N and 1 <= K
//     assume floor((M + 63)/64)*floor((N + 127)/128) < 2147418112
//     flops 2*K*M*N + 2*M*N  bytes 2*K*M + 2*K*N + 2*M*N + 2*N
//   launch gemm.2.pad as gemm_2_pad of gemm for gemm.2 : sm90 grid [floor((K + 7)/8)*floor((N + 511)/512) + floor((K + 511)/512)*floor((M + 7)/8)] block [256]
//     tensors [A, B, gemm.A.padded, gemm.B.padded]  symbols [M, K, N]
//     assume floor((K + 511)/512)*floor((M + 7)/8) < 2147418112
//     assume floor((K + 7)/8)*floor((N + 511)/512) < 2147418112
//     assume floor((K + 7)/8)*floor((N + 511)/512) + floor((K + 511)/512)*floor((M + 7)/8) < 2147418112
//     flops 0  bytes 0
//   launch gemm.2 as gemm_2 of gemm : sm90 grid [floor((N + 63)/64), floor((M + 127)/128)] block [256] smem 231808 B early
//     tensors [bias, C2]  maps [a.map.2, b.map.2]  symbols [M, K, N]
//     assume 1 <= K
//     assume floor((M + 127)/128) < 65536
//     flops 2*K*M*N + 2*M*N  bytes 2*K*M + 2*K*N + 2*M*N + 2*N
//   launch gemm.3 as gemm_3 of gemm : sm90 grid [floor((M + 63)/64)*floor((N + 63)/64)] block [128] smem 41984 B
//     tensors [A, B, bias, C2]  symbols [M, K, N]
//     assume floor((M + 63)/64)*floor((N + 63)/64) < 2147418112
//     flops 2*K*M*N + 2*M*N  bytes 2*K*M + 2*K*N + 2*M*N + 2*N

struct fp16 { unsigned short bits; };
struct alignas(64) tensor_map { char bytes[128]; };

__device__ float float_of_fp16(fp16 x);
__device__ fp16 fp16_of_float(float x);
__device__ float max_nan_of(float a, float b);
// 16 bytes to where such begin, from anywhere: two aligned accesses, shifted together.
__device__ void copy_16(void *to, const void *from);
__device__ void ldmatrix_x4(unsigned int &a, unsigned int &b, unsigned int &c, unsigned int &d, const void *from);
__device__ void ldmatrix_x4_trans(unsigned int &a, unsigned int &b, unsigned int &c, unsigned int &d, const void *from);
__device__ void mma_m16n8k16_fp16(float (&d)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1);
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
__device__ void stmatrix_x4(void *to, unsigned int a, unsigned int b, unsigned int c, unsigned int d);

#ifndef TINYIR_SIM
__device__ __forceinline__ float float_of_fp16(fp16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y; }
__device__ __forceinline__ fp16 fp16_of_float(float x) { fp16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y; }
__device__ __forceinline__ float max_nan_of(float a, float b) { float c; asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b)); return c; }
// 16 bytes to where such begin, from anywhere: two aligned accesses, shifted together.
__device__ __forceinline__ void copy_16(void *to, const void *from) {
  const unsigned long long at = (unsigned long long)from;
  const uint4 *const aligned = (const uint4 *)(at & ~15ull);
  const int words = (int)(at >> 2 & 3), bits = (int)(at & 3) * 8;
  const uint4 low = aligned[0], high = at & 15 ? aligned[1] : low;
  unsigned int w[7] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z}, last = high.w;
  if (words & 2) w[0] = w[2], w[1] = w[3], w[2] = w[4], w[3] = w[5], w[4] = w[6], w[5] = last;
  if (words & 1) w[0] = w[1], w[1] = w[2], w[2] = w[3], w[3] = w[4], w[4] = w[5];
  *(uint4 *)to = make_uint4(__funnelshift_r(w[0], w[1], bits), __funnelshift_r(w[1], w[2], bits), __funnelshift_r(w[2], w[3], bits),
                            __funnelshift_r(w[3], w[4], bits));
}
__device__ __forceinline__ void ldmatrix_x4(unsigned int &a, unsigned int &b, unsigned int &c, unsigned int &d, const void *from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(shared_address(from)) : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned int &a, unsigned int &b, unsigned int &c, unsigned int &d, const void *from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(shared_address(from)) : "memory");
}
__device__ __forceinline__ void mma_m16n8k16_fp16(float (&d)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
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
__device__ __forceinline__ void stmatrix_x4(void *to, unsigned int a, unsigned int b, unsigned int c, unsigned int d) { asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" :: "r"(shared_address(to)), "r"(a), "r"(b), "r"(c), "r"(d) : "memory"); }
#endif

template <class T> __device__ __forceinline__ T max_nan(T a, T b) { return a > b || a != a ? a : b; }
__device__ __forceinline__ float max_nan(float a, float b) { return max_nan_of(a, b); }
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
// An element of such a tile.
template <int span, class T> __device__ __forceinline__ T &swizzled_at(T *tile, int row, int column) {
  return *(T *)((unsigned char *)tile + swizzled<span>(row * span + column * (int)sizeof(T)));
}
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
template <int rows, int columns, int pairs>
__device__ __forceinline__ void add_products_fp16(float (&d)[rows][columns][4], const unsigned int (&a)[rows][4], const unsigned int (&b)[pairs][4]) {
#pragma unroll
  for (int i = 0; i < rows; ++i)
#pragma unroll
    for (int j = 0; j < columns; ++j) mma_m16n8k16_fp16(d[i][j], a[i], b[j / 2][2 * (j % 2)], b[j / 2][2 * (j % 2) + 1]);
}
template <class T, int n> struct alignas(n * sizeof(T) < 16 ? n * sizeof(T) : 16) vector_of { T x[n]; };  // neighbours that move at once
template <int span, int count>
__device__ __forceinline__ void operand_along(unsigned int (&x)[count][4], const void *tile, int row, int column) {
  const int lane = (int)threadIdx.x % 32;
  const unsigned char *const from = (const unsigned char *)tile + (swizzled<span>((row + lane % 16) * span + lane / 16 * 16) ^ 2 * column);
#pragma unroll
  for (int i = 0; i < count; ++i) ldmatrix_x4(x[i][0], x[i][1], x[i][2], x[i][3], from + 16 * span * i);
}
template <int depth, int count>
__device__ __forceinline__ void factor_across(unsigned int (&x)[count][4], const void *tile, int row, int column) {
  const int lane = (int)threadIdx.x % 32;
  const int first = swizzled<128>((lane % 16) * 128 + lane / 16 * 16) ^ column % 64 * 2;
  const unsigned char *const from = (const unsigned char *)tile + (column / 64 * depth + row) * 128;
#pragma unroll
  for (int i = 0; i < count; ++i) ldmatrix_x4_trans(x[i][0], x[i][1], x[i][2], x[i][3], from + i / 4 * depth * 128 + (first ^ i % 4 * 32));
}

// region gemm: gemm : GEMM at 17:5, bias_add : Elementwise at 18:5, relu : Elementwise at 19:5
// plan contraction warp_specialized: tile [64, 128, 64], stages 8
extern "C" __global__ void __maxnreg__(104)
gemm(const fp16 *__restrict__ bias, const __grid_constant__ tensor_map a_map, const __grid_constant__ tensor_map b_map, const __grid_constant__ tensor_map C2_out_map, int M, int K, int N)
{
  const int cta_x = (int)blockIdx.x;
  const int lane = (int)threadIdx.x % 32;
  const int warpgroup_thread = (int)threadIdx.x % 128;
  const int thread_x = (int)threadIdx.x;
  extern __shared__ __align__(1024) unsigned char smem[];
  if (thread_x == 32) prefetch_map(&a_map);
  if (thread_x == 32) prefetch_map(&b_map);
  if (thread_x == 32) prefetch_map(&C2_out_map);
  fp16 *const a = (fp16 *)smem;  // 8 x [64, 64], swizzled by 128 B
  fp16 *const b = (fp16 *)(smem + 65536);  // 8 x [64, 128], swizzled by 128 B
  fp16 *const C2_out = (fp16 *)(smem + 196608);  // 2 x [64, 64], swizzled by 128 B
  float *bias_tile = (float *)(smem + 212992);
  unsigned long long *const full = (unsigned long long *)(smem + 213504);
  mbarriers_init<8, 8>(full, 1);
  unsigned long long *const empty = (unsigned long long *)(smem + 213568);
  mbarriers_init<8, 8>(empty, 1);
  fence_mbarrier_init();
  __syncthreads();
  const int tiles_m = (M + 63) / 64;
  const int tiles_n = (N + 127) / 128;
  const int tiles = (int)((long long)tiles_m * tiles_n);
  const int steps = (K + 63) / 64;
  if (thread_x < 128) {  // role producer
    if (warpgroup_thread == 0) {
      int p_slot = 0;
      unsigned int p_phase = 1;
      #pragma unroll 1
      for (int tile = cta_x; tile < tiles; tile += 132) {
        const tile_place tm_tn = grouped_tile(tile, tiles_m, tiles_n, 8);
        const int tm = tm_tn.row, tn = tm_tn.column;
        const int m0 = 64 * tm;
        const int n0 = 128 * tn;
        #pragma unroll 1
        for (int k = 0; k < steps; ++k) {
          mbarrier_wait(&empty[p_slot], p_phase);
          mbarrier_expect(&full[p_slot], 24576);
          tma_load_2d(a + 4096 * p_slot, &a_map, &full[p_slot], 64 * k, m0);
          #pragma unroll
          for (int box = 0; box < 2; ++box)
            tma_load_2d(b + 4096 * box + 8192 * p_slot, &b_map, &full[p_slot], 64 * box + n0, 64 * k);
          if (++p_slot == 8) { p_slot = 0; p_phase ^= 1; }
        }
      }
    }
  } else {  // role consumer
    const int warpgroup_index = thread_x / 128 - 1;
    int s_slot = 0;
    unsigned int s_phase = 0;
    int s_previous = 7;
    int o_slot = 0;
    float acc[64];  // this thread's part of [64, 128]
    // region gemm: %bias_add, %relu, bias.tile, C2.out
    #pragma unroll 1
    for (int tile = cta_x; tile < tiles; tile += 132) {
      const tile_place tm_tn = grouped_tile(tile, tiles_m, tiles_n, 8);
      const int tm = tm_tn.row, tn = tm_tn.column;
      const int m0 = 64 * tm;
      const int n0 = 128 * tn;
      float bias_tile_early[1] = {};
      bias_tile_early[0] = n0 + warpgroup_thread < N ? float_of_fp16(bias[n0 + warpgroup_thread]) : 0.0f;
      #pragma unroll 1
      for (int k = 0; k < steps; ++k) {
        mbarrier_wait(&full[s_slot], s_phase);
        wgmma_fence();
        {
          const unsigned long long a_start = matrix_descriptor(a + 4096 * s_slot, 16, 1024);
          const unsigned long long b_start = matrix_descriptor(b + 8192 * s_slot, 8192, 1024);
          #pragma unroll
          for (int step = 0; step < 4; ++step)
            wgmma_m64n128k16_fp16<0, 1>(acc, a_start + 2 * step, b_start + 128 * step, step > 0 || !(k == 0));
          wgmma_commit();
        }
        if (k == 0) bias_tile[warpgroup_thread] = bias_tile_early[0];
        wgmma_wait<1>();
        if (1 <= k) if (warpgroup_thread == 0) mbarrier_arrive(&empty[s_previous]);
        s_previous = s_slot;
        if (++s_slot == 8) { s_slot = 0; s_phase ^= 1; }
      }
      wgmma_wait<0>();
      if (warpgroup_thread == 0) mbarrier_arrive(&empty[s_previous]);
      #pragma unroll
      for (int j = 0; j < 2; ++j) {
        if (warpgroup_thread == 0) tma_store_wait<1>();
        warpgroup_barrier(2 + warpgroup_index);
        #pragma unroll
        for (int piece = 0; piece < 4; ++piece) {  // 16 columns
          float C2_out_piece[8];
          #pragma unroll
          for (int element_ = 0; element_ < 8; ++element_) {
            const int n = element_ % 2 + 2 * (lane % 4) + 16 * piece + 8 * (element_ / 4);
            const float bias_add = acc[element_ + 32 * j + 8 * piece] + bias_tile[64 * j + n];  // bias_add : Elementwise at 18:5
            const float relu = max_nan(bias_add, (float)0);  // relu : Elementwise at 19:5
            C2_out_piece[element_] = relu;
          }
          store_piece_fp16<128>(C2_out + 4096 * o_slot, 16 * (warpgroup_thread / 32), 16 * piece, C2_out_piece);
        }
        fence_async_proxy();
        warpgroup_barrier(2 + warpgroup_index);
        if (warpgroup_thread == 0) {
          tma_store_2d(&C2_out_map, 64 * j + n0, m0, C2_out + 4096 * o_slot);
          tma_store_commit();
        }
        if (++o_slot == 2) { o_slot = 0; }
      }
    }
    if (warpgroup_thread == 0) tma_store_wait<0>();
  }
}

// region gemm: gemm : GEMM at 17:5, bias_add : Elementwise at 18:5, relu : Elementwise at 19:5
// plan contraction warp_specialized: tile [128, 64, 64], stages 8
extern "C" __global__ void __launch_bounds__(256)
gemm_2_pad(const fp16 *__restrict__ A, const fp16 *__restrict__ B, fp16 *__restrict__ gemm_A_padded, fp16 *__restrict__ gemm_B_padded, int M, int K, int N)
{
  const int cta_x = (int)blockIdx.x;
  const int lane = (int)threadIdx.x % 32;
  const int warp_index = (int)threadIdx.x / 32;
  const int ctas_a = (int)((long long)((K + 511) / 512) * ((M + 7) / 8));
  launch_next();
  if (cta_x < ctas_a) {
    const long long row_a = (long long)(cta_x / ((K + 511) / 512)) * 8 + warp_index;
    const long long first_a = (long long)(8 * (cta_x % ((K + 511) / 512)));
    if (row_a < M) {
      if (64 * first_a + 511 < K) {
        // region gemm: gemm.A.padded
        #pragma unroll
        for (int u = 0; u < 2; ++u) {
          const long long line_a = first_a + 4 * u + lane / 8;
          const long long col_a = 64 * line_a + 8 * (lane % 8);
          copy_16(&gemm_A_padded[row_a * (64 * ((K + 63) / 64)) + col_a], &A[row_a * K + col_a]);
        }
      } else {
        // region gemm: gemm.A.padded
        #pragma unroll
        for (int u = 0; u < 2; ++u) {
          const long long line_a = first_a + 4 * u + lane / 8;
          if (line_a < (K + 63) / 64) {
            const long long col_a = 64 * line_a + 8 * (lane % 8);
            if (col_a + 7 < K) copy_16(&gemm_A_padded[row_a * (64 * ((K + 63) / 64)) + col_a], &A[row_a * K + col_a]);
            else {
              vector_of<fp16, 8> piece;
              #pragma unroll
              for (int v = 0; v < 8; ++v)
                piece.x[v] = col_a + v < K ? A[row_a * K + col_a + v] : fp16{0x0000};
              *(vector_of<fp16, 8> *)&gemm_A_padded[row_a * (64 * ((K + 63) / 64)) + col_a] = piece;
            }
          }
        }
      }
    }
  }
  if (ctas_a <= cta_x) {
    const int cta_b = cta_x - ctas_a;
    const long long row_b = (long long)(cta_b / ((N + 511) / 512)) * 8 + warp_index;
    const long long first_b = (long long)(8 * (cta_b % ((N + 511) / 512)));
    if (row_b < K) {
      if (64 * first_b + 511 < N) {
        // region gemm: gemm.B.padded
        #pragma unroll
        for (int u = 0; u < 2; ++u) {
          const long long line_b = first_b + 4 * u + lane / 8;
          const long long col_b = 64 * line_b + 8 * (lane % 8);
          copy_16(&gemm_B_padded[row_b * (64 * ((N + 63) / 64)) + col_b], &B[row_b * N + col_b]);
        }
      } else {
        // region gemm: gemm.B.padded
        #pragma unroll
        for (int u = 0; u < 2; ++u) {
          const long long line_b = first_b + 4 * u + lane / 8;
          if (line_b < (N + 63) / 64) {
            const long long col_b = 64 * line_b + 8 * (lane % 8);
            if (col_b + 7 < N) copy_16(&gemm_B_padded[row_b * (64 * ((N + 63) / 64)) + col_b], &B[row_b * N + col_b]);
            else {
              vector_of<fp16, 8> piece;
              #pragma unroll
              for (int v = 0; v < 8; ++v)
                piece.x[v] = col_b + v < N ? B[row_b * N + col_b + v] : fp16{0x0000};
              *(vector_of<fp16, 8> *)&gemm_B_padded[row_b * (64 * ((N + 63) / 64)) + col_b] = piece;
            }
          }
        }
      }
    }
  }
}

// region gemm: gemm : GEMM at 17:5, bias_add : Elementwise at 18:5, relu : Elementwise at 19:5
// plan contraction warp_specialized: tile [128, 64, 64], stages 8
extern "C" __global__ void __maxnreg__(104)
gemm_2(const fp16 *__restrict__ bias, fp16 *__restrict__ C2, const __grid_constant__ tensor_map a_map, const __grid_constant__ tensor_map b_map, int M, int K, int N)
{
  const int cta_x = (int)blockIdx.x;
  const int cta_y = (int)blockIdx.y;
  const int lane = (int)threadIdx.x % 32;
  const int warpgroup_thread = (int)threadIdx.x % 128;
  const int thread_x = (int)threadIdx.x;
  extern __shared__ __align__(1024) unsigned char smem[];
  if (thread_x == 32) prefetch_map(&a_map);
  if (thread_x == 32) prefetch_map(&b_map);
  fp16 *const a = (fp16 *)smem;  // 8 x [64, 64], swizzled by 128 B
  fp16 *const b = (fp16 *)(smem + 65536);  // 8 x [128, 64], swizzled by 128 B
  float (&sums)[128][68] = *(float (*)[128][68])(smem + 196608);
  float *bias_tile = (float *)(smem + 231424);
  unsigned long long *const full = (unsigned long long *)(smem + 231680);
  mbarriers_init<8, 8>(full, 1);
  unsigned long long *const empty = (unsigned long long *)(smem + 231744);
  mbarriers_init<8, 8>(empty, 1);
  fence_mbarrier_init();
  __syncthreads();
  const int tm = cta_x;
  const int tn = cta_y;
  const int m0 = 64 * tm;
  const int n0 = 128 * tn;
  const int steps = (K + 63) / 64;
  wait_previous();
  if (thread_x < 128) {  // role producer
    if (warpgroup_thread == 0) {
      int p_slot = 0;
      unsigned int p_phase = 1;
      #pragma unroll 1
      for (int k = 0; k < steps; ++k) {
        mbarrier_wait(&empty[p_slot], p_phase);
        mbarrier_expect(&full[p_slot], 24576);
        tma_load_2d(a + 4096 * p_slot, &a_map, &full[p_slot], m0, 64 * k);
        tma_load_2d(b + 8192 * p_slot, &b_map, &full[p_slot], 64 * k, n0);
        if (++p_slot == 8) { p_slot = 0; p_phase ^= 1; }
      }
    }
  } else {  // role consumer
    int s_slot = 0;
    unsigned int s_phase = 0;
    int s_previous = 7;
    if (warpgroup_thread < 64) {
      bias_tile[warpgroup_thread] = m0 + warpgroup_thread < N ? float_of_fp16(bias[m0 + warpgroup_thread]) : 0.0f;
    }
    float acc[64];  // this thread's part of [64, 128]
    #pragma unroll 1
    for (int k = 0; k < steps; ++k) {
      mbarrier_wait(&full[s_slot], s_phase);
      wgmma_fence();
      {
        const unsigned long long a_start = matrix_descriptor(a + 4096 * s_slot, 8192, 1024);
        const unsigned long long b_start = matrix_descriptor(b + 8192 * s_slot, 16, 1024);
        #pragma unroll
        for (int step = 0; step < 4; ++step)
          wgmma_m64n128k16_fp16<1, 0>(acc, a_start + 128 * step, b_start + 2 * step, step > 0 || !(k == 0));
        wgmma_commit();
      }
      wgmma_wait<1>();
      if (1 <= k) if (warpgroup_thread == 0) mbarrier_arrive(&empty[s_previous]);
      s_previous = s_slot;
      if (++s_slot == 8) { s_slot = 0; s_phase ^= 1; }
    }
    wgmma_wait<0>();
    if (warpgroup_thread == 0) mbarrier_arrive(&empty[s_previous]);
    // region gemm: sums
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      #pragma unroll
      for (int piece = 0; piece < 4; ++piece) {  // 16 columns
        #pragma unroll
        for (int element_ = 0; element_ < 8; ++element_) {
          const int r = 8 * (element_ / 2 % 2) + lane / 4 + 16 * (warpgroup_thread / 32);
          const int n = element_ % 2 + 2 * (lane % 4) + 16 * piece + 8 * (element_ / 4);
          sums[64 * j + n][r] = acc[element_ + 32 * j + 8 * piece];
        }
      }
    }
  }
  __syncthreads();
  // region gemm: %bias_add, %relu, C2
  #pragma unroll
  for (int v = 0; v < 32; ++v) {
    const int start = thread_x + 256 * v;
    const int own = start / 64;
    const int r = own;
    const int n = start - 64 * own;
    const int row = n0 + r;
    const int col = m0 + n;
    if (row < M && col < N) {
      const float bias_add = sums[r][n] + bias_tile[n];  // bias_add : Elementwise at 18:5
      const float relu = max_nan(bias_add, (float)0);  // relu : Elementwise at 19:5
      C2[(long long)row * N + col] = fp16_of_float(relu);
    }
  }
}

// region gemm: gemm : GEMM at 17:5, bias_add : Elementwise at 18:5, relu : Elementwise at 19:5
// plan contraction multistage: tile [64, 64, 64], threads [128], stages 2
extern "C" __global__ void __maxnreg__(136)
gemm_3(const fp16 *__restrict__ A, const fp16 *__restrict__ B, const fp16 *__restrict__ bias, fp16 *__restrict__ C2, int M, int K, int N)
{
  const int cta_x = (int)blockIdx.x;
  const int lane = (int)threadIdx.x % 32;
  const int warp_index = (int)threadIdx.x / 32;
  const int thread_x = (int)threadIdx.x;
  extern __shared__ __align__(1024) unsigned char smem[];
  fp16 *const a = (fp16 *)smem;  // 2 x [64, 64], swizzled by 128 B
  fp16 *const b = (fp16 *)(smem + 16384);  // 2 x [64, 64], swizzled by 128 B
  float (&staged)[4][16][36] = *(float (*)[4][16][36])(smem + 32768);
  const int tiles_m = (M + 63) / 64;
  const int tiles_n = (N + 63) / 64;
  const tile_place tm_tn = grouped_tile(cta_x, tiles_m, tiles_n, 8);
  const int tm = tm_tn.row, tn = tm_tn.column;
  const int m0 = 64 * tm;
  const int n0 = 64 * tn;
  const int wm = 32 * (warp_index / 2);
  const int wn = 32 * (warp_index % 2);
  float acc[2][4][4] = {};  // this thread's part of its warp's [32, 32]
  unsigned int af[2][2][4];  // its part of [32, 16]
  unsigned int bf[2][2][4];  // its part of [16, 32]
  #pragma unroll
  for (int t = 0; t < 1; ++t) {
    // plan cache: A -> smem at k0.o, as a
    #pragma unroll
    for (int element = thread_x; element < 4096; element += 128) {
      const int r = element / 64;
      const int c = element % 64;
      const int i0 = m0 + r;
      const int k0 = c + 64 * t;
      swizzled_at<128>(a + 4096 * t, r, c) = i0 < M && k0 < K ? A[(long long)i0 * K + k0] : fp16{0x0000};
    }
    // plan cache: B -> smem at k0.o, as b
    #pragma unroll
    for (int element = thread_x; element < 4096; element += 128) {
      const int r = element / 64;
      const int c = element % 64;
      const int i1 = c + n0;
      const int k0 = r + 64 * t;
      swizzled_at<128>(b + 4096 * t, r, c) = i1 < N && k0 < K ? B[(long long)k0 * N + i1] : fp16{0x0000};
    }
  }
  int p_slot = 1;
  int s_slot = 0;
  __syncthreads();
  operand_along<128>(af[0], a + 4096 * s_slot, wm, 0);
  factor_across<64>(bf[0], b + 4096 * s_slot, 0, wn);
  #pragma unroll 1
  for (int k = 0; k < K; k += 64) {
    const int next = k + 64;
    // plan cache: A -> smem at k0.o, as a
    #pragma unroll
    for (int element = thread_x; element < 4096; element += 128) {
      const int r = element / 64;
      const int c = element % 64;
      const int i0 = m0 + r;
      const int k0 = c + next;
      swizzled_at<128>(a + 4096 * p_slot, r, c) = i0 < M && k0 < K ? A[(long long)i0 * K + k0] : fp16{0x0000};
    }
    // plan cache: B -> smem at k0.o, as b
    #pragma unroll
    for (int element = thread_x; element < 4096; element += 128) {
      const int r = element / 64;
      const int c = element % 64;
      const int i1 = c + n0;
      const int k0 = next + r;
      swizzled_at<128>(b + 4096 * p_slot, r, c) = i1 < N && k0 < K ? B[(long long)k0 * N + i1] : fp16{0x0000};
    }
    operand_along<128>(af[1], a + 4096 * s_slot, wm, 16);
    factor_across<64>(bf[1], b + 4096 * s_slot, 16, wn);
    add_products_fp16(acc, af[0], bf[0]);
    operand_along<128>(af[0], a + 4096 * s_slot, wm, 32);
    factor_across<64>(bf[0], b + 4096 * s_slot, 32, wn);
    add_products_fp16(acc, af[1], bf[1]);
    operand_along<128>(af[1], a + 4096 * s_slot, wm, 48);
    factor_across<64>(bf[1], b + 4096 * s_slot, 48, wn);
    add_products_fp16(acc, af[0], bf[0]);
    if (++p_slot == 2) { p_slot = 0; }
    if (++s_slot == 2) { s_slot = 0; }
    __syncthreads();
    operand_along<128>(af[0], a + 4096 * s_slot, wm, 0);
    factor_across<64>(bf[0], b + 4096 * s_slot, 0, wn);
    add_products_fp16(acc, af[1], bf[1]);
  }
  // region gemm: %bias_add, %relu, staged, C2
  #pragma unroll
  for (int i = 0; i < 2; ++i) {
    __syncwarp();
    #pragma unroll
    for (int piece = 0; piece < 4; ++piece) {
      #pragma unroll
      for (int element_ = 0; element_ < 4; ++element_) {
        const int r = 8 * (element_ / 2) + lane / 4;
        const int n = element_ % 2 + 2 * (lane % 4) + 8 * piece;
        staged[warp_index][r][n] = acc[i][piece][element_];
      }
    }
    __syncwarp();
    #pragma unroll 8
    for (int v = 0; v < 16; ++v) {
      const int down = v;
      const int across = lane;
      const int row = down + 16 * i + m0 + wm;
      const int col = across + n0 + wn;
      if (row < M && col < N) {
        const float bias_add = staged[warp_index][down][across] + float_of_fp16(bias[col]);  // bias_add : Elementwise at 18:5
        const float relu = max_nan(bias_add, (float)0);  // relu : Elementwise at 19:5
        C2[(long long)row * N + col] = fp16_of_float(relu);
      }
    }
  }
}
