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
//   tensor_map q.map = Q box [1, 1, 64, 64] swizzle 128
//   tensor_map k.map = K box [1, 1, 96, 64] swizzle 128
//   tensor_map v.map = V box [1, 1, 96, 64] swizzle 128
//   tensor_map O.out.map = O box [1, 1, 64, 64] swizzle 128
//   launch attention.attention.sum3 as attention_attention_sum3 of attention, attention.sum3 : sm90 grid [4*B*floor((S + 63)/64)] block [160] smem 98416 B
//     tensors []  maps [q.map, k.map, v.map, O.out.map]  symbols [B, S]
//     assume 1 <= B and 1 <= S
//     assume 4*B*floor((S + 63)/64) < 2147418113
//     flops 1052*B*S*S  bytes 2048*B*S
//   launch attention.attention.sum3.2 as attention_attention_sum3_2 of attention, attention.sum3 : sm90 grid [4*B*floor((S + 63)/64)] block [128] smem 73728 B
//     tensors [Q, K, V, O]  symbols [B, S]
//     assume 4*B*floor((S + 63)/64) < 2147483648
//     flops 1052*B*S*S  bytes 2048*B*S

struct fp16 { unsigned short bits; };
struct alignas(64) tensor_map { char bytes[128]; };

__device__ float float_of_fp16(fp16 x);
__device__ fp16 fp16_of_float(float x);
__device__ float max_nan_of(float a, float b);
__device__ void cp_async_16(void *to, const void *from, int bytes);
__device__ void cp_async_commit();
template <int pending> __device__ __forceinline__ void cp_async_wait();
__device__ void ldmatrix_x4(unsigned int &a, unsigned int &b, unsigned int &c, unsigned int &d, const void *from);
__device__ void ldmatrix_x4_trans(unsigned int &a, unsigned int &b, unsigned int &c, unsigned int &d, const void *from);
__device__ void mma_m16n8k16_fp16(float (&d)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1);
__device__ float exp2_approx(float x);
__device__ unsigned int shared_address(const void *p);
__device__ unsigned int pair_of_fp16(float low, float high);
__device__ void mbarrier_init(unsigned long long *barrier, int count);
__device__ void mbarrier_init_if(bool is_chosen, unsigned long long *barrier, int count);
__device__ void mbarrier_expect(unsigned long long *barrier, int bytes);
__device__ void mbarrier_arrive(unsigned long long *barrier);
__device__ void mbarrier_wait(unsigned long long *barrier, unsigned int phase);
__device__ void fence_mbarrier_init();
__device__ void fence_async_proxy();
__device__ void warpgroup_barrier(int number);
__device__ void tma_load_4d(void *to, const tensor_map *map, unsigned long long *barrier, int x, int y, int z, int u);
__device__ void tma_store_4d(const tensor_map *map, int x, int y, int z, int u, const void *from);
__device__ void prefetch_map(const tensor_map *map);
__device__ void tma_store_commit();
template <int pending> __device__ __forceinline__ void tma_store_wait();
__device__ void wgmma_fence();
__device__ void wgmma_commit();
template <int pending> __device__ __forceinline__ void wgmma_wait();
template <int a_major, int b_major>
__device__ __forceinline__ void wgmma_m64n96k16_fp16(float (&d)[48], unsigned long long a, unsigned long long b, bool is_added);
template <int b_major>
__device__ __forceinline__ void wgmma_m64n64k16_fp16_of_registers(float (&d)[32], const unsigned int (&a)[4], unsigned long long b, bool is_added);
__device__ void stmatrix_x4(void *to, unsigned int a, unsigned int b, unsigned int c, unsigned int d);

#ifndef TINYIR_SIM
__device__ __forceinline__ float float_of_fp16(fp16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y; }
__device__ __forceinline__ fp16 fp16_of_float(float x) { fp16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y; }
__device__ __forceinline__ float max_nan_of(float a, float b) { float c; asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b)); return c; }
__device__ __forceinline__ void cp_async_16(void *to, const void *from, int bytes) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(shared_address(to)), "l"(from), "r"(bytes) : "memory"); }
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int pending> __device__ __forceinline__ void cp_async_wait() { asm volatile("cp.async.wait_group %0;" :: "n"(pending) : "memory"); }
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
__device__ __forceinline__ float exp2_approx(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
__device__ __forceinline__ unsigned int shared_address(const void *p) { return (unsigned int)__cvta_generic_to_shared(p); }
__device__ __forceinline__ unsigned int pair_of_fp16(float low, float high) { unsigned int y; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low)); return y; }
__device__ __forceinline__ void mbarrier_init(unsigned long long *barrier, int count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_address(barrier)), "r"(count) : "memory"); }
__device__ __forceinline__ void mbarrier_init_if(bool is_chosen, unsigned long long *barrier, int count) { asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p mbarrier.init.shared::cta.b64 [%0], %1; }" :: "r"(shared_address(barrier)), "r"(count), "r"((int)is_chosen) : "memory"); }
__device__ __forceinline__ void mbarrier_expect(unsigned long long *barrier, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(shared_address(barrier)), "r"(bytes) : "memory"); }
__device__ __forceinline__ void mbarrier_arrive(unsigned long long *barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared_address(barrier)) : "memory"); }
__device__ __forceinline__ void mbarrier_wait(unsigned long long *barrier, unsigned int phase) { asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @p bra done; bra again; done: }" :: "r"(shared_address(barrier)), "r"(phase) : "memory"); }
__device__ __forceinline__ void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void warpgroup_barrier(int number) { asm volatile("bar.sync %0, 128;" :: "r"(number) : "memory"); }
__device__ __forceinline__ void tma_load_4d(void *to, const tensor_map *map, unsigned long long *barrier, int x, int y, int z, int u) { asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" :: "r"(shared_address(to)), "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z), "r"(u) : "memory"); }
__device__ __forceinline__ void tma_store_4d(const tensor_map *map, int x, int y, int z, int u, const void *from) { asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" :: "l"(map), "r"(shared_address(from)), "r"(x), "r"(y), "r"(z), "r"(u) : "memory"); }
__device__ __forceinline__ void prefetch_map(const tensor_map *map) { asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory"); }
__device__ __forceinline__ void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int pending> __device__ __forceinline__ void tma_store_wait() { asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(pending) : "memory"); }
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int pending> __device__ __forceinline__ void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(pending) : "memory"); }
template <int a_major, int b_major>
__device__ __forceinline__ void wgmma_m64n96k16_fp16(float (&d)[48], unsigned long long a, unsigned long long b, bool is_added) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %50, 0; wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16 {"
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47 "
    "}, %48, %49, p, 1, 1, %51, %52; }"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
      "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
      "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
      "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
      "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
      "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
    : "l"(a), "l"(b), "r"((int)is_added), "n"(a_major), "n"(b_major));
}
template <int b_major>
__device__ __forceinline__ void wgmma_m64n64k16_fp16_of_registers(float (&d)[32], const unsigned int (&a)[4], unsigned long long b, bool is_added) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %37, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, p, 1, 1, %38; }"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)is_added), "n"(b_major));
}
__device__ __forceinline__ void stmatrix_x4(void *to, unsigned int a, unsigned int b, unsigned int c, unsigned int d) { asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" :: "r"(shared_address(to)), "r"(a), "r"(b), "r"(c), "r"(d) : "memory"); }
#endif

__device__ __forceinline__ long long floor_div(long long a, long long b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
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
template <int span, int count>
__device__ __forceinline__ void operand_along(unsigned int (&x)[count][4], const void *tile, int row, int column) {
  const int lane = (int)threadIdx.x % 32;
  const unsigned char *const from = (const unsigned char *)tile + (swizzled<span>((row + lane % 16) * span + lane / 16 * 16) ^ 2 * column);
#pragma unroll
  for (int i = 0; i < count; ++i) ldmatrix_x4(x[i][0], x[i][1], x[i][2], x[i][3], from + 16 * span * i);
}
template <int span, int count>
__device__ __forceinline__ void factor_along(unsigned int (&x)[count][4], const void *tile, int row, int column) {
  const int lane = (int)threadIdx.x % 32;
  const unsigned char *const from = (const unsigned char *)tile + (swizzled<span>((row + lane % 8 + lane / 16 * 8) * span + lane / 8 % 2 * 16) ^ 2 * column);
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

// region attention: attention : Attention at 14:5
// region attention.sum3: attention : Attention at 14:5
// plan contraction streaming_softmax: tile [64, 96, 64], threads [160], stages 3
extern "C" __global__ void __maxnreg__(152)
attention_attention_sum3(const __grid_constant__ tensor_map q_map, const __grid_constant__ tensor_map k_map, const __grid_constant__ tensor_map v_map, const __grid_constant__ tensor_map O_out_map, int B, int S)
{
  const int cta_x = (int)blockIdx.x;
  const int lane = (int)threadIdx.x % 32;
  const int warpgroup_thread = (int)threadIdx.x % 128;
  const int thread_x = (int)threadIdx.x;
  extern __shared__ __align__(1024) unsigned char smem[];
  if (thread_x == 32) prefetch_map(&q_map);
  if (thread_x == 32) prefetch_map(&k_map);
  if (thread_x == 32) prefetch_map(&v_map);
  if (thread_x == 32) prefetch_map(&O_out_map);
  fp16 *const q = (fp16 *)smem;  // 1 x [64, 64], swizzled by 128 B
  fp16 *const k = (fp16 *)(smem + 8192);  // 3 x [96, 64], swizzled by 128 B
  fp16 *const v = (fp16 *)(smem + 45056);  // 3 x [96, 64], swizzled by 128 B
  fp16 *const O_out = (fp16 *)(smem + 81920);  // 2 x [64, 64], swizzled by 128 B
  unsigned long long *const full_q = (unsigned long long *)(smem + 98304);
  if (thread_x == 0) mbarrier_init(full_q, 1);
  unsigned long long *const empty_q = (unsigned long long *)(smem + 98312);
  if (thread_x == 0) mbarrier_init(empty_q, 1);
  unsigned long long *const full_k = (unsigned long long *)(smem + 98320);
  mbarriers_init<3, 5>(full_k, 1);
  unsigned long long *const empty_k = (unsigned long long *)(smem + 98344);
  mbarriers_init<3, 5>(empty_k, 1);
  unsigned long long *const full_v = (unsigned long long *)(smem + 98368);
  mbarriers_init<3, 5>(full_v, 1);
  unsigned long long *const empty_v = (unsigned long long *)(smem + 98392);
  mbarriers_init<3, 5>(empty_v, 1);
  fence_mbarrier_init();
  __syncthreads();
  const long long heads = (long long)B * 4;
  const int tiles_m = (S + 63) / 64;
  if (thread_x < 128) {  // role consumer
    const int warpgroup_index = thread_x / 128;
    int q_s_slot = 0;
    unsigned int q_s_phase = 0;
    int k_s_slot = 0;
    unsigned int k_s_phase = 0;
    int v_s_slot = 0;
    unsigned int v_s_phase = 0;
    int o_slot = 0;
    float sc[48];  // this thread's part of [64, 96]
    unsigned int p[1][6][4];  // its part of [64, 96]
    float acc[32];  // this thread's part of [64, 64]
    float top[2];  // of this thread's rows of 64
    float old[2];  // of this thread's rows of 64
    float base[2];  // of this thread's rows of 64
    float change[2];  // of this thread's rows of 64
    float scale[2];  // of this thread's rows of 64
    float total[2];  // of this thread's rows of 64
    const int part = 64 * warpgroup_index;
    const int tile = cta_x;
    const tile_place head_tm = grouped_tile(tile, heads, tiles_m, 4);
    const int head = head_tm.row, tm = head_tm.column;
    const int i1 = (int)(head % 4);
    const int i0 = (int)(head / 4);
    const int m0 = 64 * tiles_m - 64 * tm - 64;
    const int end = S < (m0 + 64) ? S : (m0 + 64);
    const int last = 1 > (int)floor_div(end + 95, 96) ? 1 : (int)floor_div(end + 95, 96);
    const int cut_most = 1 > (last - (int)floor_div(m0 + 1, 96)) ? 1 : (last - (int)floor_div(m0 + 1, 96));
    const int cut = last < cut_most ? last : cut_most;
    #pragma unroll
    for (int which = 0; which < 2; ++which) {
      top[which] = __uint_as_float(0xff800000u);
      total[which] = 0.0f;
    }
    #pragma unroll
    for (int piece = 0; piece < 4; ++piece) {  // 16 columns
      #pragma unroll
      for (int element_ = 0; element_ < 8; ++element_) {
        acc[element_ + 8 * piece] = 0.0f;
      }
    }
    mbarrier_wait(full_q, q_s_phase);
    const int n0_last = 96 * last - 96;
    mbarrier_wait(&full_k[k_s_slot], k_s_phase);
    wgmma_fence();
    {
      const unsigned long long q_start = matrix_descriptor(q + 64 * part, 16, 1024);
      const unsigned long long k_start = matrix_descriptor(k + 6144 * k_s_slot, 16, 1024);
      #pragma unroll
      for (int step = 0; step < 4; ++step)
        wgmma_m64n96k16_fp16<0, 0>(sc, q_start + 2 * step, k_start + 2 * step, step > 0);
      wgmma_commit();
    }
    wgmma_wait<0>();
    if (warpgroup_thread == 0) mbarrier_arrive(&empty_k[k_s_slot]);
    if (++k_s_slot == 3) { k_s_slot = 0; k_s_phase ^= 1; }
    #pragma unroll
    for (int piece = 0; piece < 6; ++piece) {  // 16 columns
      #pragma unroll
      for (int element_ = 0; element_ < 8; ++element_) {
        const int r = 8 * (element_ / 2 % 2) + lane / 4 + 16 * (warpgroup_thread / 32);
        const int n = element_ % 2 + 2 * (lane % 4) + 16 * piece + 8 * (element_ / 4);
        const int i2 = m0 + part + r;
        const int i3 = n + n0_last;
        sc[element_ + 8 * piece] = 0 <= (long long)i2 - i3 && i3 < S ? sc[element_ + 8 * piece] : __uint_as_float(0xff800000u);
      }
    }
    #pragma unroll
    for (int which = 0; which < 2; ++which) {
      old[which] = top[which];
    }
    #pragma unroll
    for (int element_ = 0; element_ < 48; ++element_)
      top[element_ / 2 % 2] = max_nan(top[element_ / 2 % 2], sc[element_]);
    #pragma unroll
    for (int which = 0; which < 2; ++which) {
      #pragma unroll
      for (int lanes = 2; lanes > 0; lanes /= 2) top[which] = max_nan(top[which], __shfl_xor_sync(0xffffffffu, top[which], lanes));
    }
    #pragma unroll
    for (int which = 0; which < 2; ++which) {
      base[which] = (top[which] == __uint_as_float(0xff800000u)) ? 0.0f : (top[which] * 0.18033688f);
      change[which] = exp2_approx((old[which] * 0.18033688f) - base[which]);
      total[which] = total[which] * change[which];
    }
    #pragma unroll
    for (int piece = 0; piece < 6; ++piece) {  // 16 columns
      #pragma unroll
      for (int element_ = 0; element_ < 8; ++element_) {
        sc[element_ + 8 * piece] = exp2_approx((sc[element_ + 8 * piece] * 0.18033688f) - base[element_ / 2 % 2]);
      }
    }
    #pragma unroll
    for (int element_ = 0; element_ < 48; ++element_)
      total[element_ / 2 % 2] = total[element_ / 2 % 2] + sc[element_];
    #pragma unroll
    for (int piece = 0; piece < 6; ++piece) {  // 16 columns
      float p_piece[8];
      #pragma unroll
      for (int element_ = 0; element_ < 8; ++element_) {
        p_piece[element_] = sc[element_ + 8 * piece];
      }
      #pragma unroll
      for (int i = 0; i < 4; ++i) p[0][piece][i] = pair_of_fp16(p_piece[2 * i], p_piece[2 * i + 1]);
    }
    #pragma unroll 1
    for (int t = 1; t < cut; ++t) {
      const int n0 = 96 * last - 96 * t - 96;
      mbarrier_wait(&full_k[k_s_slot], k_s_phase);
      wgmma_fence();
      {
        const unsigned long long q_start = matrix_descriptor(q + 64 * part, 16, 1024);
        const unsigned long long k_start = matrix_descriptor(k + 6144 * k_s_slot, 16, 1024);
        #pragma unroll
        for (int step = 0; step < 4; ++step)
          wgmma_m64n96k16_fp16<0, 0>(sc, q_start + 2 * step, k_start + 2 * step, step > 0);
        wgmma_commit();
      }
      mbarrier_wait(&full_v[v_s_slot], v_s_phase);
      wgmma_fence();
      {
        const unsigned long long v_start = matrix_descriptor(v + 6144 * v_s_slot, 12288, 1024);
        #pragma unroll
        for (int step = 0; step < 6; ++step)
          wgmma_m64n64k16_fp16_of_registers<1>(acc, p[0][step], v_start + 128 * step, true);
        wgmma_commit();
      }
      wgmma_wait<0>();
      if (warpgroup_thread == 0) mbarrier_arrive(&empty_k[k_s_slot]);
      if (++k_s_slot == 3) { k_s_slot = 0; k_s_phase ^= 1; }
      if (warpgroup_thread == 0) mbarrier_arrive(&empty_v[v_s_slot]);
      if (++v_s_slot == 3) { v_s_slot = 0; v_s_phase ^= 1; }
      #pragma unroll
      for (int piece = 0; piece < 6; ++piece) {  // 16 columns
        #pragma unroll
        for (int element_ = 0; element_ < 8; ++element_) {
          const int r = 8 * (element_ / 2 % 2) + lane / 4 + 16 * (warpgroup_thread / 32);
          const int n = element_ % 2 + 2 * (lane % 4) + 16 * piece + 8 * (element_ / 4);
          const int i2 = m0 + part + r;
          const int i3 = n + n0;
          sc[element_ + 8 * piece] = 0 <= (long long)i2 - i3 && i3 < S ? sc[element_ + 8 * piece] : __uint_as_float(0xff800000u);
        }
      }
      #pragma unroll
      for (int which = 0; which < 2; ++which) {
        old[which] = top[which];
      }
      #pragma unroll
      for (int element_ = 0; element_ < 48; ++element_)
        top[element_ / 2 % 2] = max_nan(top[element_ / 2 % 2], sc[element_]);
      #pragma unroll
      for (int which = 0; which < 2; ++which) {
        #pragma unroll
        for (int lanes = 2; lanes > 0; lanes /= 2) top[which] = max_nan(top[which], __shfl_xor_sync(0xffffffffu, top[which], lanes));
      }
      #pragma unroll
      for (int which = 0; which < 2; ++which) {
        base[which] = (top[which] == __uint_as_float(0xff800000u)) ? 0.0f : (top[which] * 0.18033688f);
        change[which] = exp2_approx((old[which] * 0.18033688f) - base[which]);
        total[which] = total[which] * change[which];
      }
      #pragma unroll
      for (int piece = 0; piece < 6; ++piece) {  // 16 columns
        #pragma unroll
        for (int element_ = 0; element_ < 8; ++element_) {
          sc[element_ + 8 * piece] = exp2_approx((sc[element_ + 8 * piece] * 0.18033688f) - base[element_ / 2 % 2]);
        }
      }
      #pragma unroll
      for (int element_ = 0; element_ < 48; ++element_)
        total[element_ / 2 % 2] = total[element_ / 2 % 2] + sc[element_];
      #pragma unroll
      for (int piece = 0; piece < 4; ++piece) {  // 16 columns
        #pragma unroll
        for (int element_ = 0; element_ < 8; ++element_) {
          acc[element_ + 8 * piece] = acc[element_ + 8 * piece] * change[element_ / 2 % 2];
        }
      }
      #pragma unroll
      for (int piece = 0; piece < 6; ++piece) {  // 16 columns
        float p_piece[8];
        #pragma unroll
        for (int element_ = 0; element_ < 8; ++element_) {
          p_piece[element_] = sc[element_ + 8 * piece];
        }
        #pragma unroll
        for (int i = 0; i < 4; ++i) p[0][piece][i] = pair_of_fp16(p_piece[2 * i], p_piece[2 * i + 1]);
      }
    }
    #pragma unroll 1
    for (int t = cut; t < last; ++t) {
      mbarrier_wait(&full_k[k_s_slot], k_s_phase);
      wgmma_fence();
      {
        const unsigned long long q_start = matrix_descriptor(q + 64 * part, 16, 1024);
        const unsigned long long k_start = matrix_descriptor(k + 6144 * k_s_slot, 16, 1024);
        #pragma unroll
        for (int step = 0; step < 4; ++step)
          wgmma_m64n96k16_fp16<0, 0>(sc, q_start + 2 * step, k_start + 2 * step, step > 0);
        wgmma_commit();
      }
      mbarrier_wait(&full_v[v_s_slot], v_s_phase);
      wgmma_fence();
      {
        const unsigned long long v_start = matrix_descriptor(v + 6144 * v_s_slot, 12288, 1024);
        #pragma unroll
        for (int step = 0; step < 6; ++step)
          wgmma_m64n64k16_fp16_of_registers<1>(acc, p[0][step], v_start + 128 * step, true);
        wgmma_commit();
      }
      wgmma_wait<0>();
      if (warpgroup_thread == 0) mbarrier_arrive(&empty_k[k_s_slot]);
      if (++k_s_slot == 3) { k_s_slot = 0; k_s_phase ^= 1; }
      if (warpgroup_thread == 0) mbarrier_arrive(&empty_v[v_s_slot]);
      if (++v_s_slot == 3) { v_s_slot = 0; v_s_phase ^= 1; }
      #pragma unroll
      for (int which = 0; which < 2; ++which) {
        old[which] = top[which];
      }
      #pragma unroll
      for (int element_ = 0; element_ < 48; ++element_)
        top[element_ / 2 % 2] = max_nan(top[element_ / 2 % 2], sc[element_]);
      #pragma unroll
      for (int which = 0; which < 2; ++which) {
        #pragma unroll
        for (int lanes = 2; lanes > 0; lanes /= 2) top[which] = max_nan(top[which], __shfl_xor_sync(0xffffffffu, top[which], lanes));
      }
      #pragma unroll
      for (int which = 0; which < 2; ++which) {
        base[which] = (top[which] == __uint_as_float(0xff800000u)) ? 0.0f : (top[which] * 0.18033688f);
        change[which] = exp2_approx((old[which] * 0.18033688f) - base[which]);
        total[which] = total[which] * change[which];
      }
      #pragma unroll
      for (int piece = 0; piece < 6; ++piece) {  // 16 columns
        #pragma unroll
        for (int element_ = 0; element_ < 8; ++element_) {
          sc[element_ + 8 * piece] = exp2_approx((sc[element_ + 8 * piece] * 0.18033688f) - base[element_ / 2 % 2]);
        }
      }
      #pragma unroll
      for (int element_ = 0; element_ < 48; ++element_)
        total[element_ / 2 % 2] = total[element_ / 2 % 2] + sc[element_];
      #pragma unroll
      for (int piece = 0; piece < 4; ++piece) {  // 16 columns
        #pragma unroll
        for (int element_ = 0; element_ < 8; ++element_) {
          acc[element_ + 8 * piece] = acc[element_ + 8 * piece] * change[element_ / 2 % 2];
        }
      }
      #pragma unroll
      for (int piece = 0; piece < 6; ++piece) {  // 16 columns
        float p_piece[8];
        #pragma unroll
        for (int element_ = 0; element_ < 8; ++element_) {
          p_piece[element_] = sc[element_ + 8 * piece];
        }
        #pragma unroll
        for (int i = 0; i < 4; ++i) p[0][piece][i] = pair_of_fp16(p_piece[2 * i], p_piece[2 * i + 1]);
      }
    }
    if (warpgroup_thread == 0) mbarrier_arrive(empty_q);
    if (++q_s_slot == 1) { q_s_slot = 0; q_s_phase ^= 1; }
    mbarrier_wait(&full_v[v_s_slot], v_s_phase);
    wgmma_fence();
    {
      const unsigned long long v_start = matrix_descriptor(v + 6144 * v_s_slot, 12288, 1024);
      #pragma unroll
      for (int step = 0; step < 6; ++step)
        wgmma_m64n64k16_fp16_of_registers<1>(acc, p[0][step], v_start + 128 * step, true);
      wgmma_commit();
    }
    wgmma_wait<0>();
    if (warpgroup_thread == 0) mbarrier_arrive(&empty_v[v_s_slot]);
    if (++v_s_slot == 3) { v_s_slot = 0; v_s_phase ^= 1; }
    #pragma unroll
    for (int which = 0; which < 2; ++which) {
      scale[which] = 0.0f;
    }
    {
      float scale_part[2] = {total[0], total[1]};
      #pragma unroll
      for (int which = 0; which < 2; ++which) {
        #pragma unroll
        for (int lanes = 2; lanes > 0; lanes /= 2) scale_part[which] = scale_part[which] + __shfl_xor_sync(0xffffffffu, scale_part[which], lanes);
        scale[which] = scale[which] + scale_part[which];
      }
    }
    #pragma unroll
    for (int which = 0; which < 2; ++which) {
      scale[which] = 1.0f / scale[which];
    }
    if (warpgroup_thread == 0) tma_store_wait<1>();
    warpgroup_barrier(1 + warpgroup_index);
    #pragma unroll
    for (int piece = 0; piece < 4; ++piece) {  // 16 columns
      float O_out_piece[8];
      #pragma unroll
      for (int element_ = 0; element_ < 8; ++element_) {
        const float attention_sum3 = acc[element_ + 8 * piece] * scale[element_ / 2 % 2];  // attention : Attention at 14:5
        const float attention = attention_sum3;  // attention : Attention at 14:5
        O_out_piece[element_] = attention;
      }
      store_piece_fp16<128>(O_out + 4096 * o_slot, 16 * (warpgroup_thread / 32), 16 * piece, O_out_piece);
    }
    fence_async_proxy();
    warpgroup_barrier(1 + warpgroup_index);
    if (warpgroup_thread == 0) {
      tma_store_4d(&O_out_map, 0, m0 + part, i1, i0, O_out + 4096 * o_slot);
      tma_store_commit();
    }
    if (++o_slot == 2) { o_slot = 0; }
    if (warpgroup_thread == 0) tma_store_wait<0>();
  } else {  // role producer
    if (lane == 0) {
      int q_next_slot = 0;
      unsigned int q_next_phase = 1;
      int k_next_slot = 0;
      unsigned int k_next_phase = 1;
      int v_next_slot = 0;
      unsigned int v_next_phase = 1;
      const int tile = cta_x;
      const tile_place head_tm = grouped_tile(tile, heads, tiles_m, 4);
      const int head = head_tm.row, tm = head_tm.column;
      const int i1 = (int)(head % 4);
      const int i0 = (int)(head / 4);
      const int m0 = 64 * tiles_m - 64 * tm - 64;
      const int end = S < (m0 + 64) ? S : (m0 + 64);
      const int last = 1 > (int)floor_div(end + 95, 96) ? 1 : (int)floor_div(end + 95, 96);
      mbarrier_wait(empty_q, q_next_phase);
      if (warpgroup_thread == 0) mbarrier_expect(full_q, 8192);
      tma_load_4d(q, &q_map, full_q, 0, m0, i1, i0);
      if (++q_next_slot == 1) { q_next_slot = 0; q_next_phase ^= 1; }
      #pragma unroll 1
      for (int t = 0; t < last; ++t) {
        const int n0 = 96 * last - 96 * t - 96;
        mbarrier_wait(&empty_k[k_next_slot], k_next_phase);
        if (warpgroup_thread == 0) mbarrier_expect(&full_k[k_next_slot], 12288);
        tma_load_4d(k + 6144 * k_next_slot, &k_map, &full_k[k_next_slot], 0, n0, i1, i0);
        if (++k_next_slot == 3) { k_next_slot = 0; k_next_phase ^= 1; }
        mbarrier_wait(&empty_v[v_next_slot], v_next_phase);
        if (warpgroup_thread == 0) mbarrier_expect(&full_v[v_next_slot], 12288);
        tma_load_4d(v + 6144 * v_next_slot, &v_map, &full_v[v_next_slot], 0, n0, i1, i0);
        if (++v_next_slot == 3) { v_next_slot = 0; v_next_phase ^= 1; }
      }
    }
  }
}

// region attention: attention : Attention at 14:5
// region attention.sum3: attention : Attention at 14:5
// plan contraction streaming_mma: tile [64, 128, 64], threads [128], stages 2
extern "C" __global__ void __maxnreg__(255)
attention_attention_sum3_2(const fp16 *__restrict__ Q, const fp16 *__restrict__ K, const fp16 *__restrict__ V, fp16 *__restrict__ O, int B, int S)
{
  const int cta_x = (int)blockIdx.x;
  const int lane = (int)threadIdx.x % 32;
  const int warp_index = (int)threadIdx.x / 32;
  const int thread_x = (int)threadIdx.x;
  extern __shared__ __align__(1024) unsigned char smem[];
  fp16 *const q = (fp16 *)smem;  // 1 x [64, 64], swizzled by 128 B
  fp16 *const k = (fp16 *)(smem + 8192);  // 2 x [128, 64], swizzled by 128 B
  fp16 *const v = (fp16 *)(smem + 40960);  // 2 x [128, 64], swizzled by 128 B
  const long long heads = (long long)B * 4;
  const int tiles_m = (S + 63) / 64;
  const tile_place head_tm = grouped_tile(cta_x, heads, tiles_m, 4);
  const int head = head_tm.row, tm = head_tm.column;
  const int i1 = (int)(head % 4);
  const int i0 = (int)(head / 4);
  const int m0 = 64 * tiles_m - 64 * tm - 64;
  const int part = 16 * warp_index;
  const int end = S < (m0 + 64) ? S : (m0 + 64);
  const int last = 1 > (int)floor_div(end + 127, 128) ? 1 : (int)floor_div(end + 127, 128);
  const int cut_most = 1 > (last - (int)floor_div(m0 + 1, 128)) ? 1 : (last - (int)floor_div(m0 + 1, 128));
  const int cut = last < cut_most ? last : cut_most;
  float acc[1][8][4];  // this thread's part of its warp's [16, 64]
  float top[2];  // of this thread's rows of 16
  float old[2];  // of this thread's rows of 16
  float base[2];  // of this thread's rows of 16
  float change[2];  // of this thread's rows of 16
  float scale[2];  // of this thread's rows of 16
  float total[2];  // of this thread's rows of 16
  #pragma unroll
  for (int which = 0; which < 2; ++which) {
    top[which] = __uint_as_float(0xff800000u);
    total[which] = 0.0f;
  }
  #pragma unroll
  for (int piece = 0; piece < 8; ++piece) {
    #pragma unroll
    for (int element_ = 0; element_ < 4; ++element_) {
      acc[0][piece][element_] = 0.0f;
    }
  }
  // plan cache: Q -> smem at i2.o, as q
  #pragma unroll
  for (int turn = 0; turn < 4; ++turn) {
    const int r = 16 * turn + thread_x / 8;
    const int c = 8 * (thread_x % 8);
    const int i2 = m0 + r;
    const int k0 = c;
    cp_async_16(&swizzled_at<128>(q, r, c), &Q[(((long long)i0 * 4 + i1) * S + i2) * 64 + k0], i2 < S ? 16 : 0);
  }
  if (0 < last) {
    const int n0_first = 128 * last - 128;
    // plan cache: K -> smem at i3.o, as k
    #pragma unroll
    for (int turn = 0; turn < 8; ++turn) {
      const int r = 16 * turn + thread_x / 8;
      const int c = 8 * (thread_x % 8);
      const int i3 = n0_first + r;
      const int k0 = c;
      cp_async_16(&swizzled_at<128>(k, r, c), &K[(((long long)i0 * 4 + i1) * S + i3) * 64 + k0], i3 < S ? 16 : 0);
    }
    // plan cache: V -> smem at i3.o, as v
    #pragma unroll
    for (int turn = 0; turn < 8; ++turn) {
      const int r = 16 * turn + thread_x / 8;
      const int c = 8 * (thread_x % 8);
      const int k0 = n0_first + r;
      const int i3 = c;
      cp_async_16(&swizzled_at<128>(v, r, c), &V[(((long long)i0 * 4 + i1) * S + k0) * 64 + i3], k0 < S ? 16 : 0);
    }
  }
  cp_async_commit();
  int s_slot = 0;
  int next_slot = 1;
  #pragma unroll 1
  for (int t = 0; t < cut; ++t) {
    cp_async_wait<0>();
    __syncthreads();
    if (t + 1 < last) {
      const int n0_cut = 128 * last - 128 * t - 256;
      // plan cache: K -> smem at i3.o, as k
      #pragma unroll
      for (int turn = 0; turn < 8; ++turn) {
        const int r = 16 * turn + thread_x / 8;
        const int c = 8 * (thread_x % 8);
        const int i3 = n0_cut + r;
        const int k0 = c;
        cp_async_16(&swizzled_at<128>(k + 8192 * next_slot, r, c), &K[(((long long)i0 * 4 + i1) * S + i3) * 64 + k0], i3 < S ? 16 : 0);
      }
      // plan cache: V -> smem at i3.o, as v
      #pragma unroll
      for (int turn = 0; turn < 8; ++turn) {
        const int r = 16 * turn + thread_x / 8;
        const int c = 8 * (thread_x % 8);
        const int k0 = n0_cut + r;
        const int i3 = c;
        cp_async_16(&swizzled_at<128>(v + 8192 * next_slot, r, c), &V[(((long long)i0 * 4 + i1) * S + k0) * 64 + i3], k0 < S ? 16 : 0);
      }
    }
    cp_async_commit();
    float sc[1][16][4];  // this thread's part of its warp's [16, 128]
    const int n0 = 128 * last - 128 * t - 128;
    #pragma unroll
    for (int piece = 0; piece < 16; ++piece) {
      #pragma unroll
      for (int element_ = 0; element_ < 4; ++element_) {
        sc[0][piece][element_] = 0.0f;
      }
    }
    unsigned int qf[1][4];  // its part of [16, 16]
    unsigned int kf[8][4];  // its part of [16, 128]
    operand_along<128>(qf, q, part, 0);
    factor_along<128>(kf, k + 8192 * s_slot, 0, 0);
    add_products_fp16(sc, qf, kf);
    operand_along<128>(qf, q, part, 16);
    factor_along<128>(kf, k + 8192 * s_slot, 0, 16);
    add_products_fp16(sc, qf, kf);
    operand_along<128>(qf, q, part, 32);
    factor_along<128>(kf, k + 8192 * s_slot, 0, 32);
    add_products_fp16(sc, qf, kf);
    operand_along<128>(qf, q, part, 48);
    factor_along<128>(kf, k + 8192 * s_slot, 0, 48);
    add_products_fp16(sc, qf, kf);
    unsigned int p[8][1][4];  // its part of [16, 128]
    #pragma unroll
    for (int piece = 0; piece < 16; ++piece) {
      #pragma unroll
      for (int element_ = 0; element_ < 4; ++element_) {
        const int r = 8 * (element_ / 2) + lane / 4;
        const int n = element_ % 2 + 2 * (lane % 4) + 8 * piece;
        const int i2 = m0 + part + r;
        const int i3 = n + n0;
        sc[0][piece][element_] = 0 <= (long long)i2 - i3 && i3 < S ? sc[0][piece][element_] : __uint_as_float(0xff800000u);
      }
    }
    #pragma unroll
    for (int which = 0; which < 2; ++which) {
      old[which] = top[which];
    }
    #pragma unroll
    for (int block = 0; block < 1; ++block)
    #pragma unroll
      for (int piece = 0; piece < 16; ++piece)
    #pragma unroll
        for (int element_ = 0; element_ < 4; ++element_)
          top[2 * block + element_ / 2] = max_nan(top[2 * block + element_ / 2], sc[block][piece][element_]);
    #pragma unroll
    for (int which = 0; which < 2; ++which) {
      #pragma unroll
      for (int lanes = 2; lanes > 0; lanes /= 2) top[which] = max_nan(top[which], __shfl_xor_sync(0xffffffffu, top[which], lanes));
    }
    #pragma unroll
    for (int which = 0; which < 2; ++which) {
      base[which] = (top[which] == __uint_as_float(0xff800000u)) ? 0.0f : (top[which] * 0.18033688f);
      change[which] = exp2_approx((old[which] * 0.18033688f) - base[which]);
      total[which] = total[which] * change[which];
    }
    #pragma unroll
    for (int piece = 0; piece < 16; ++piece) {
      #pragma unroll
      for (int element_ = 0; element_ < 4; ++element_) {
        sc[0][piece][element_] = exp2_approx((sc[0][piece][element_] * 0.18033688f) - base[element_ / 2]);
      }
    }
    #pragma unroll
    for (int block = 0; block < 1; ++block)
    #pragma unroll
      for (int piece = 0; piece < 16; ++piece)
    #pragma unroll
        for (int element_ = 0; element_ < 4; ++element_)
          total[2 * block + element_ / 2] = total[2 * block + element_ / 2] + sc[block][piece][element_];
    #pragma unroll
    for (int piece = 0; piece < 8; ++piece) {
      #pragma unroll
      for (int element_ = 0; element_ < 4; ++element_) {
        acc[0][piece][element_] = acc[0][piece][element_] * change[element_ / 2];
      }
    }
    #pragma unroll
    for (int piece = 0; piece < 16; ++piece) {
      float p_piece[4];
      #pragma unroll
      for (int element_ = 0; element_ < 4; ++element_) {
        p_piece[element_] = sc[0][piece][element_];
      }
      #pragma unroll
      for (int i = 0; i < 2; ++i) p[piece / 2][0][2 * (piece % 2) + i] = pair_of_fp16(p_piece[2 * i], p_piece[2 * i + 1]);
    }
    unsigned int vf[4][4];  // its part of [16, 64]
    factor_across<128>(vf, v + 8192 * s_slot, 0, 0);
    add_products_fp16(acc, p[0], vf);
    factor_across<128>(vf, v + 8192 * s_slot, 16, 0);
    add_products_fp16(acc, p[1], vf);
    factor_across<128>(vf, v + 8192 * s_slot, 32, 0);
    add_products_fp16(acc, p[2], vf);
    factor_across<128>(vf, v + 8192 * s_slot, 48, 0);
    add_products_fp16(acc, p[3], vf);
    factor_across<128>(vf, v + 8192 * s_slot, 64, 0);
    add_products_fp16(acc, p[4], vf);
    factor_across<128>(vf, v + 8192 * s_slot, 80, 0);
    add_products_fp16(acc, p[5], vf);
    factor_across<128>(vf, v + 8192 * s_slot, 96, 0);
    add_products_fp16(acc, p[6], vf);
    factor_across<128>(vf, v + 8192 * s_slot, 112, 0);
    add_products_fp16(acc, p[7], vf);
    if (++s_slot == 2) { s_slot = 0; }
    if (++next_slot == 2) { next_slot = 0; }
  }
  #pragma unroll 1
  for (int t = cut; t < last; ++t) {
    cp_async_wait<0>();
    __syncthreads();
    if (t + 1 < last) {
      const int n0_whole = 128 * last - 128 * t - 256;
      // plan cache: K -> smem at i3.o, as k
      #pragma unroll
      for (int turn = 0; turn < 8; ++turn) {
        const int r = 16 * turn + thread_x / 8;
        const int c = 8 * (thread_x % 8);
        const int i3 = n0_whole + r;
        const int k0 = c;
        cp_async_16(&swizzled_at<128>(k + 8192 * next_slot, r, c), &K[(((long long)i0 * 4 + i1) * S + i3) * 64 + k0], i3 < S ? 16 : 0);
      }
      // plan cache: V -> smem at i3.o, as v
      #pragma unroll
      for (int turn = 0; turn < 8; ++turn) {
        const int r = 16 * turn + thread_x / 8;
        const int c = 8 * (thread_x % 8);
        const int k0 = n0_whole + r;
        const int i3 = c;
        cp_async_16(&swizzled_at<128>(v + 8192 * next_slot, r, c), &V[(((long long)i0 * 4 + i1) * S + k0) * 64 + i3], k0 < S ? 16 : 0);
      }
    }
    cp_async_commit();
    float sc[1][16][4];  // this thread's part of its warp's [16, 128]
    #pragma unroll
    for (int piece = 0; piece < 16; ++piece) {
      #pragma unroll
      for (int element_ = 0; element_ < 4; ++element_) {
        sc[0][piece][element_] = 0.0f;
      }
    }
    unsigned int qf[1][4];  // its part of [16, 16]
    unsigned int kf[8][4];  // its part of [16, 128]
    operand_along<128>(qf, q, part, 0);
    factor_along<128>(kf, k + 8192 * s_slot, 0, 0);
    add_products_fp16(sc, qf, kf);
    operand_along<128>(qf, q, part, 16);
    factor_along<128>(kf, k + 8192 * s_slot, 0, 16);
    add_products_fp16(sc, qf, kf);
    operand_along<128>(qf, q, part, 32);
    factor_along<128>(kf, k + 8192 * s_slot, 0, 32);
    add_products_fp16(sc, qf, kf);
    operand_along<128>(qf, q, part, 48);
    factor_along<128>(kf, k + 8192 * s_slot, 0, 48);
    add_products_fp16(sc, qf, kf);
    unsigned int p[8][1][4];  // its part of [16, 128]
    #pragma unroll
    for (int which = 0; which < 2; ++which) {
      old[which] = top[which];
    }
    #pragma unroll
    for (int block = 0; block < 1; ++block)
    #pragma unroll
      for (int piece = 0; piece < 16; ++piece)
    #pragma unroll
        for (int element_ = 0; element_ < 4; ++element_)
          top[2 * block + element_ / 2] = max_nan(top[2 * block + element_ / 2], sc[block][piece][element_]);
    #pragma unroll
    for (int which = 0; which < 2; ++which) {
      #pragma unroll
      for (int lanes = 2; lanes > 0; lanes /= 2) top[which] = max_nan(top[which], __shfl_xor_sync(0xffffffffu, top[which], lanes));
    }
    #pragma unroll
    for (int which = 0; which < 2; ++which) {
      base[which] = (top[which] == __uint_as_float(0xff800000u)) ? 0.0f : (top[which] * 0.18033688f);
      change[which] = exp2_approx((old[which] * 0.18033688f) - base[which]);
      total[which] = total[which] * change[which];
    }
    #pragma unroll
    for (int piece = 0; piece < 16; ++piece) {
      #pragma unroll
      for (int element_ = 0; element_ < 4; ++element_) {
        sc[0][piece][element_] = exp2_approx((sc[0][piece][element_] * 0.18033688f) - base[element_ / 2]);
      }
    }
    #pragma unroll
    for (int block = 0; block < 1; ++block)
    #pragma unroll
      for (int piece = 0; piece < 16; ++piece)
    #pragma unroll
        for (int element_ = 0; element_ < 4; ++element_)
          total[2 * block + element_ / 2] = total[2 * block + element_ / 2] + sc[block][piece][element_];
    #pragma unroll
    for (int piece = 0; piece < 8; ++piece) {
      #pragma unroll
      for (int element_ = 0; element_ < 4; ++element_) {
        acc[0][piece][element_] = acc[0][piece][element_] * change[element_ / 2];
      }
    }
    #pragma unroll
    for (int piece = 0; piece < 16; ++piece) {
      float p_piece[4];
      #pragma unroll
      for (int element_ = 0; element_ < 4; ++element_) {
        p_piece[element_] = sc[0][piece][element_];
      }
      #pragma unroll
      for (int i = 0; i < 2; ++i) p[piece / 2][0][2 * (piece % 2) + i] = pair_of_fp16(p_piece[2 * i], p_piece[2 * i + 1]);
    }
    unsigned int vf[4][4];  // its part of [16, 64]
    factor_across<128>(vf, v + 8192 * s_slot, 0, 0);
    add_products_fp16(acc, p[0], vf);
    factor_across<128>(vf, v + 8192 * s_slot, 16, 0);
    add_products_fp16(acc, p[1], vf);
    factor_across<128>(vf, v + 8192 * s_slot, 32, 0);
    add_products_fp16(acc, p[2], vf);
    factor_across<128>(vf, v + 8192 * s_slot, 48, 0);
    add_products_fp16(acc, p[3], vf);
    factor_across<128>(vf, v + 8192 * s_slot, 64, 0);
    add_products_fp16(acc, p[4], vf);
    factor_across<128>(vf, v + 8192 * s_slot, 80, 0);
    add_products_fp16(acc, p[5], vf);
    factor_across<128>(vf, v + 8192 * s_slot, 96, 0);
    add_products_fp16(acc, p[6], vf);
    factor_across<128>(vf, v + 8192 * s_slot, 112, 0);
    add_products_fp16(acc, p[7], vf);
    if (++s_slot == 2) { s_slot = 0; }
    if (++next_slot == 2) { next_slot = 0; }
  }
  #pragma unroll
  for (int which = 0; which < 2; ++which) {
    scale[which] = 0.0f;
  }
  {
    float scale_part[2] = {total[0], total[1]};
    #pragma unroll
    for (int which = 0; which < 2; ++which) {
      #pragma unroll
      for (int lanes = 2; lanes > 0; lanes /= 2) scale_part[which] = scale_part[which] + __shfl_xor_sync(0xffffffffu, scale_part[which], lanes);
      scale[which] = scale[which] + scale_part[which];
    }
  }
  #pragma unroll
  for (int which = 0; which < 2; ++which) {
    scale[which] = 1 <= S ? (1.0f / scale[which]) : 0.0f;
  }
  cp_async_wait<0>();
  __syncthreads();
  #pragma unroll
  for (int piece = 0; piece < 8; ++piece) {
    #pragma unroll
    for (int element_ = 0; element_ < 4; ++element_) {
      const int r = 8 * (element_ / 2) + lane / 4;
      const int n = element_ % 2 + 2 * (lane % 4) + 8 * piece;
      const float attention_sum3 = acc[0][piece][element_] * scale[element_ / 2];  // attention : Attention at 14:5
      const float attention = float_of_fp16(fp16_of_float(attention_sum3));  // attention : Attention at 14:5
      swizzled_at<128>(q, part + r, n) = fp16_of_float(attention);
    }
  }
  __syncthreads();
  // region attention, attention.sum3: O
  #pragma unroll
  for (int turn_ = 0; turn_ < 4; ++turn_) {
    const int piece = lane + 32 * turn_;
    const int down = piece / 8;
    const int i2 = down + m0 + part;
    if (i2 < S) {
      fp16 near[8];
      load_near<8>(near, &swizzled_at<128>(q, down + part, 8 * piece - 64 * down));
      store_near<8>(&O[(((long long)i0 * 4 + i1) * S + i2) * 64 + 8 * piece - 64 * down], near);
    }
  }
}
