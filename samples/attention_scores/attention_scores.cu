// tinyir 1.0 cu
//
// model attention_scores
//   in  Q           : fp16[B, H, M, D]
//   in  K           : fp16[B, H, N, D]
//   out n15         : fp16[B, H, M, N]
// shapes default {B=1, H=8, M=512, N=512, D=64}
//
// program attention_scores
//   buffer n8          : fp32[B, H, M, N]
//
// region n8
//   in  Q           : fp16[B, H, M, D]
//   in  K           : fp16[B, H, N, D]
//   out n8          : fp32[B, H, M, N]
//   for i0: B, i1: H, i2: M, i3: N
//   from n8 : REDUCE at 15:5
//     %n8            = reduce sum (k0: D) : fp32 { mul(Q[i0, i1, i2, k0], K[i0, i1, i3, k0]) : fp32 }
//   yield n8[i0, i1, i2, i3] = %n8
//   analysis
//     parallel [i0, i1, i2, i3]  reduce [k0]  tail [i2, i3, k0]
//     halo []  buffer reg depth 1  barrier cta
//
// region n9
//   in  n8          : fp32[B, H, M, N]
//   out n15         : fp16[B, H, M, N]
//   for i0: B, i1: H, i2: M, i3: N
//   from n9 : REDUCE at 17:5
//     %n9            = reduce max (i3) : fp32 { n8[i0, i1, i2, i3] }
//   from n10 : SUB at 19:5
//     %n10           = sub(n8[i0, i1, i2, i3], broadcast_in_dim(%n9, dims=[0, 1, 2]))
//   from n11 : MUL at 20:5
//     %n11           = mul(%n10, 1.442695)
//   from n12 : EXP2 at 21:5
//     %n12           = exp2(%n11)
//   from n13 : REDUCE at 22:5
//     %n13           = reduce sum (i3) : fp32 { %n12 }
//   from n14 : FDIV at 24:5
//     %n14           = fdiv(%n12, broadcast_in_dim(%n13, dims=[0, 1, 2]))
//   from n15 : CAST at 25:5
//     %n15           = cast(%n14) : fp16
//   yield n15[i0, i1, i2, i3] = %n15
//   analysis
//     parallel [i0, i1, i2]  reduce [i3]  tail [i3]
//     halo []  buffer reg depth 1  barrier cta
//
// manifest
//   buffer n8.Q.padded : fp16[B, H, M, 64*floor((D + 63)/64)]
//   buffer n8.K.padded : fp16[B, H, N, 64*floor((D + 63)/64)]
//   tensor_map a.map = Q box [1, 1, 128, 64] swizzle 128
//   tensor_map b.map = K box [1, 1, 64, 64] swizzle 128
//   tensor_map n8.out.map = n8 box [1, 1, 64, 32] swizzle 128
//   tensor_map a.map.2 = n8.Q.padded box [1, 1, 128, 64] swizzle 128
//   tensor_map b.map.2 = n8.K.padded box [1, 1, 64, 64] swizzle 128
//   launch n8 : sm90 grid [132] block [384] smem 229504 B
//     tensors []  maps [a.map, b.map, n8.out.map]  symbols [B, H, M, D, N]
//     assume 8*floor(D/8) = D and 4*floor(N/4) = N and 1 <= D
//     assume B*H < 2147418112
//     assume B*H*floor((M + 127)/128)*floor((N + 63)/64) < 2147418112
//     flops 2*B*D*H*M*N  bytes 2*B*D*H*M + 2*B*D*H*N + 4*B*H*M*N
//   launch n8.2.pad as n8_2_pad of n8 for n8.2 : sm90 grid [floor((B*H*M + 7)/8)*floor((D + 511)/512) + floor((B*H*N + 7)/8)*floor((D + 511)/512)] block [256]
//     tensors [Q, K, n8.Q.padded, n8.K.padded]  symbols [B, H, M, D, N]
//     assume floor((B*H*M + 7)/8)*floor((D + 511)/512) < 2147418112
//     assume floor((B*H*N + 7)/8)*floor((D + 511)/512) < 2147418112
//     assume floor((B*H*M + 7)/8)*floor((D + 511)/512) + floor((B*H*N + 7)/8)*floor((D + 511)/512) < 2147418112
//     flops 0  bytes 0
//   launch n8.2 as n8_2 of n8 : sm90 grid [132] block [384] smem 229504 B early
//     tensors [n8]  maps [a.map.2, b.map.2]  symbols [B, H, M, D, N]
//     assume 1 <= D
//     assume B*H < 2147418112
//     assume B*H*floor((M + 127)/128)*floor((N + 63)/64) < 2147418112
//     flops 2*B*D*H*M*N  bytes 2*B*D*H*M + 2*B*D*H*N + 4*B*H*M*N
//   launch n8.3 as n8_3 of n8 : sm90 grid [B*H*floor((M + 63)/64)*floor((N + 63)/64)] block [128] smem 25600 B
//     tensors [Q, K, n8]  symbols [M, D, N]
//     assume B*H < 2147418112
//     assume B*H*floor((M + 63)/64)*floor((N + 63)/64) < 2147418112
//     flops 2*B*D*H*M*N  bytes 2*B*D*H*M + 2*B*D*H*N + 4*B*H*M*N
//   launch n9 : sm90 grid [B*H*M] block [32] early
//     tensors [n8, n15]  symbols [H, M, N]
//     flops 6*B*H*M*N  bytes 6*B*H*M*N

struct fp16 { unsigned short bits; };
struct alignas(64) tensor_map { char bytes[128]; };

__device__ fp16 fp16_of_float(float x);
__device__ float max_nan_of(float a, float b);
// 16 bytes to where such begin, from anywhere: two aligned accesses, shifted together.
__device__ void copy_16(void *to, const void *from);
__device__ void ldmatrix_x4(unsigned int &a, unsigned int &b, unsigned int &c, unsigned int &d, const void *from);
__device__ void mma_m16n8k16_fp16(float (&d)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1);
__device__ unsigned int shared_address(const void *p);
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
__device__ void wait_previous();
__device__ void launch_next();
__device__ void tma_store_commit();
template <int pending> __device__ __forceinline__ void tma_store_wait();
__device__ void wgmma_fence();
__device__ void wgmma_commit();
template <int pending> __device__ __forceinline__ void wgmma_wait();
template <int a_major, int b_major>
__device__ __forceinline__ void wgmma_m64n64k16_fp16(float (&d)[32], unsigned long long a, unsigned long long b, bool is_added);
template <int count> __device__ __forceinline__ void take_registers();
template <int count> __device__ __forceinline__ void give_registers();
__device__ uint4 load_kept(const void *from);
__device__ uint4 load_last(const void *from);
__device__ void store_words_last(void *to, uint4 x);

#ifndef TINYIR_SIM
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
__device__ __forceinline__ void mma_m16n8k16_fp16(float (&d)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ unsigned int shared_address(const void *p) { return (unsigned int)__cvta_generic_to_shared(p); }
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
__device__ __forceinline__ void wait_previous() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void launch_next() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
__device__ __forceinline__ void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int pending> __device__ __forceinline__ void tma_store_wait() { asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(pending) : "memory"); }
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int pending> __device__ __forceinline__ void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(pending) : "memory"); }
template <int a_major, int b_major>
__device__ __forceinline__ void wgmma_m64n64k16_fp16(float (&d)[32], unsigned long long a, unsigned long long b, bool is_added) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31 "
    "}, %32, %33, p, 1, 1, %35, %36; }"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
      "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
      "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
      "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
    : "l"(a), "l"(b), "r"((int)is_added), "n"(a_major), "n"(b_major));
}
template <int count> __device__ __forceinline__ void take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(count)); }
template <int count> __device__ __forceinline__ void give_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(count)); }
__device__ __forceinline__ uint4 load_kept(const void *from) {
  uint4 x;
  asm("ld.global.nc.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "l"(from), "l"(0x14f0000000000000ull));
  return x;
}
__device__ __forceinline__ uint4 load_last(const void *from) {
  uint4 x;
  asm("ld.global.nc.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "l"(from), "l"(0x12f0000000000000ull));
  return x;
}
__device__ __forceinline__ void store_words_last(void *to, uint4 x) {
  asm volatile("st.global.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;" :: "l"(to), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "l"(0x12f0000000000000ull) : "memory");
}
#endif

// a / b of a b that divides many, with the reciprocal of |b| and what is left (Markstein 1990): rounded once, of an a below 2^-100 an ulp off at most.
__device__ __forceinline__ float quotient_of(float a, float b) {
  const float size = fabsf(b), scale = size < 0x1p-100f ? 0x1p64f : size > 0x1p100f ? 0x1p-64f : 1.0f;
  const float d = size * scale, n = a * copysignf(scale, b), r = 1.0f / d, q = n * r, over = fmaf(q, d, -n);
  return fabsf(over) <= 0x1.fffffep127f ? fmaf(-over, r, q) : q;  // an infinity is what it is
}
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
// The same where a thread's columns are those of a quad in every eight: what lanes make of a column and the rest have no bit in common, so that what is not known before is worked out once.
template <int span, class T> __device__ __forceinline__ T &swizzled_of_lane(T *tile, int row, int of_lane, int column) {
  const int turned = (row * (span / 8) & (span - 16)) ^ of_lane * (int)sizeof(T), byte = column * (int)sizeof(T);
  return *(T *)((unsigned char *)tile + row * span + (turned ^ (byte & -16)) + (byte & 15));
}
// A byte of a swizzled tile of `tall` rows that is wider than a swizzled row: several of them side by side.
template <int span, int tall> __device__ __forceinline__ const unsigned char *wide_at(const void *tile, int row, int byte) {
  return (const unsigned char *)tile + byte / span * (tall * span) + swizzled<span>(row * span + byte % span);
}
// `rows` x `columns` of a warpgroup's swizzled tile of `tall` rows to rows that begin anywhere, the first at `to`, of which `high` are inside, and `wide` elements
// of each: whole accesses of 16 bytes, for which the lanes of a row shift what they read, and single elements at both ends. Of at most 128 columns a thread's rows begin alike: they lie whole accesses apart.
template <int rows, int columns, int span, int tall, class T> __device__ __forceinline__ void store_rows(T *to, long long pitch, const T *tile, int high, int wide) {
  constexpr int size = (int)sizeof(T), each = 16 / size, pieces = columns / each;
  constexpr int lanes = pieces > 16 ? 32 : pieces > 8 ? 16 : pieces > 4 ? 8 : pieces > 2 ? 4 : 2, together = 128 / lanes;
  const int lane = (int)threadIdx.x % lanes, first = (int)threadIdx.x % 128 / lanes, most = wide < columns ? wide : columns;
  T *start = to + first * pitch;
  const int skew = (int)((unsigned long long)start % 16) / size;  // elements in front of a row that its first whole access also covers
  const int whole = (most + skew) / each, bytes = 16 - size * skew, words = bytes / 4, bits = bytes % 4 * 8;
  const int head = skew == 0 ? 0 : each - skew < most ? each - skew : most, tail = each * whole - skew < head ? head : each * whole - skew;
  const bool is_whole = lane < whole && (lane > 0 || skew == 0);
  #pragma unroll
  for (int turn = 0; turn < (rows + together - 1) / together; ++turn, start += together * pitch) {
    const int row = together * turn + first;
    const bool is_inside = row < high && row < rows;
    const uint4 own = *(const uint4 *)wide_at<span, tall>(tile, row, 16 * lane), before = *(const uint4 *)wide_at<span, tall>(tile, row, 16 * (lane > 0 ? lane - 1 : 0));
    unsigned int w[8] = {before.x, before.y, before.z, before.w, own.x, own.y, own.z, own.w};
    if (words & 4) w[0] = w[4], w[1] = w[5], w[2] = w[6], w[3] = w[7];
    if (words & 2) w[0] = w[2], w[1] = w[3], w[2] = w[4], w[3] = w[5], w[4] = w[6], w[5] = w[7];
    if (words & 1) w[0] = w[1], w[1] = w[2], w[2] = w[3], w[3] = w[4], w[4] = w[5];
    if (is_inside && is_whole)
      *(uint4 *)(start + each * lane - skew) = make_uint4(__funnelshift_r(w[0], w[1], bits), __funnelshift_r(w[1], w[2], bits),
                                                          __funnelshift_r(w[2], w[3], bits), __funnelshift_r(w[3], w[4], bits));
    #pragma unroll
    for (int turned = 0; turned < 2 * each; turned += lanes) {
      const int single = turned + lane, column = single < head ? single : tail + single - head;
      if (is_inside && single < head + most - tail) start[column] = *(const T *)wide_at<span, tall>(tile, row, size * column);
    }
  }
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
template <class T> __device__ __forceinline__ T loaded_kept(const T *from) {
  union { T all; uint4 parts[sizeof(T) / 16]; } x;
#pragma unroll
  for (int i = 0; i < (int)sizeof(T) / 16; ++i) x.parts[i] = load_kept((const uint4 *)from + i);
  return x.all;
}
template <class T> __device__ __forceinline__ T loaded_last(const T *from) {
  union { T all; uint4 parts[sizeof(T) / 16]; } x;
#pragma unroll
  for (int i = 0; i < (int)sizeof(T) / 16; ++i) x.parts[i] = load_last((const uint4 *)from + i);
  return x.all;
}
template <class T> __device__ __forceinline__ void store_last(T *to, const T &piece) {
  union { T all; uint4 parts[sizeof(T) / 16]; } x;
  x.all = piece;
#pragma unroll
  for (int i = 0; i < (int)sizeof(T) / 16; ++i) store_words_last((uint4 *)to + i, x.parts[i]);
}
template <int n, class T, class S> __device__ __forceinline__ void load_near_kept(T *to, const S *from) {
  const vector_of<S, n> all = loaded_kept((const vector_of<S, n> *)from);
#pragma unroll
  for (int i = 0; i < n; ++i) to[i] = all.x[i];
}
template <int n, class T, class S> __device__ __forceinline__ void load_near_last(T *to, const S *from) {
  const vector_of<S, n> all = loaded_last((const vector_of<S, n> *)from);
#pragma unroll
  for (int i = 0; i < n; ++i) to[i] = all.x[i];
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

// region n8: n8 : REDUCE at 15:5
// plan contraction warp_specialized: tile [128, 64, 64], stages 8
extern "C" __global__ void __launch_bounds__(384, 1)
n8(const __grid_constant__ tensor_map a_map, const __grid_constant__ tensor_map b_map, const __grid_constant__ tensor_map n8_out_map, int B, int H, int M, int D, int N)
{
  const int cta_x = (int)blockIdx.x;
  const int lane = (int)threadIdx.x % 32;
  const int warpgroup_thread = (int)threadIdx.x % 128;
  const int thread_x = (int)threadIdx.x;
  extern __shared__ __align__(1024) unsigned char smem[];
  if (thread_x == 32) prefetch_map(&a_map);
  if (thread_x == 32) prefetch_map(&b_map);
  if (thread_x == 32) prefetch_map(&n8_out_map);
  fp16 *const a = (fp16 *)smem;  // 8 x [128, 64], swizzled by 128 B
  fp16 *const b = (fp16 *)(smem + 131072);  // 8 x [64, 64], swizzled by 128 B
  float *const n8_out = (float *)(smem + 196608);  // 4 x [64, 32], swizzled by 128 B
  unsigned long long *const full = (unsigned long long *)(smem + 229376);
  mbarriers_init<8, 12>(full, 1);
  unsigned long long *const empty = (unsigned long long *)(smem + 229440);
  mbarriers_init<8, 12>(empty, 2);
  fence_mbarrier_init();
  __syncthreads();
  const int tiles_m = (M + 127) / 128;
  const int tiles_n = (N + 63) / 64;
  const int tiles = (int)((long long)B * H * tiles_m * tiles_n);
  const int steps = (D + 63) / 64;
  launch_next();
  if (thread_x < 128) {  // role producer
    give_registers<40>();
    if (warpgroup_thread == 0) {
      int p_slot = 0;
      unsigned int p_phase = 1;
      #pragma unroll 1
      for (int tile = cta_x; tile < tiles; tile += 132) {
        const int batch = tile / ((long long)tiles_m * tiles_n);
        const tile_place tm_tn = grouped_tile((long long)tile - (long long)batch * tiles_m * tiles_n, tiles_m, tiles_n, 8);
        const int tm = tm_tn.row, tn = tm_tn.column;
        const int m0 = 128 * tm;
        const int n0 = 64 * tn;
        #pragma unroll 1
        for (int k = 0; k < steps; ++k) {
          mbarrier_wait(&empty[p_slot], p_phase);
          mbarrier_expect(&full[p_slot], 24576);
          tma_load_4d(a + 8192 * p_slot, &a_map, &full[p_slot], 64 * k, m0, (long long)(batch % H), batch / H);
          tma_load_4d(b + 4096 * p_slot, &b_map, &full[p_slot], 64 * k, n0, (long long)(batch % H), batch / H);
          if (++p_slot == 8) { p_slot = 0; p_phase ^= 1; }
        }
      }
    }
  } else {  // role consumer
    take_registers<232>();
    const int warpgroup_index = thread_x / 128 - 1;
    int s_slot = 0;
    unsigned int s_phase = 0;
    int s_previous = 7;
    const int part = 64 * warpgroup_index;
    int o_slot = 0;
    float acc[32];  // this thread's part of [64, 64]
    // region n8: n8.out
    #pragma unroll 1
    for (int tile = cta_x; tile < tiles; tile += 132) {
      const int batch = tile / ((long long)tiles_m * tiles_n);
      const tile_place tm_tn = grouped_tile((long long)tile - (long long)batch * tiles_m * tiles_n, tiles_m, tiles_n, 8);
      const int tm = tm_tn.row, tn = tm_tn.column;
      const int m0 = 128 * tm;
      const int n0 = 64 * tn;
      #pragma unroll 1
      for (int k = 0; k < steps; ++k) {
        mbarrier_wait(&full[s_slot], s_phase);
        wgmma_fence();
        {
          const unsigned long long a_start = matrix_descriptor(a + 64 * part + 8192 * s_slot, 16, 1024);
          const unsigned long long b_start = matrix_descriptor(b + 4096 * s_slot, 16, 1024);
          #pragma unroll
          for (int step = 0; step < 4; ++step)
            wgmma_m64n64k16_fp16<0, 0>(acc, a_start + 2 * step, b_start + 2 * step, step > 0 || !(k == 0));
          wgmma_commit();
        }
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
        for (int piece = 0; piece < 2; ++piece) {  // 16 columns
          #pragma unroll
          for (int element_ = 0; element_ < 8; ++element_) {
            const int r = 8 * (element_ / 2 % 2) + lane / 4 + 16 * (warpgroup_thread / 32);
            swizzled_of_lane<128>(n8_out + 2048 * o_slot + 4096 * warpgroup_index, r, 2 * (lane % 4), element_ % 2 + 16 * piece + 8 * (element_ / 4)) = acc[element_ + 16 * j + 8 * piece];
          }
        }
        fence_async_proxy();
        warpgroup_barrier(2 + warpgroup_index);
        if (warpgroup_thread == 0) {
          tma_store_4d(&n8_out_map, 32 * j + n0, m0 + part, (long long)(batch % H), batch / H, n8_out + 2048 * o_slot + 4096 * warpgroup_index);
          tma_store_commit();
        }
        if (++o_slot == 2) { o_slot = 0; }
      }
    }
    if (warpgroup_thread == 0) tma_store_wait<0>();
  }
}

// region n8: n8 : REDUCE at 15:5
// plan contraction warp_specialized: tile [128, 64, 64], stages 8
extern "C" __global__ void __launch_bounds__(256)
n8_2_pad(const fp16 *__restrict__ Q, const fp16 *__restrict__ K, fp16 *__restrict__ n8_Q_padded, fp16 *__restrict__ n8_K_padded, int B, int H, int M, int D, int N)
{
  const int cta_x = (int)blockIdx.x;
  const int lane = (int)threadIdx.x % 32;
  const int warp_index = (int)threadIdx.x / 32;
  const int ctas_a = (int)((((long long)B * H * M + 7) / 8) * ((D + 511) / 512));
  launch_next();
  if (cta_x < ctas_a) {
    const long long row_a = (long long)(cta_x / ((D + 511) / 512)) * 8 + warp_index;
    const long long first_a = (long long)(8 * (cta_x % ((D + 511) / 512)));
    if (row_a < (long long)B * H * M) {
      if (64 * first_a + 511 < D) {
        // region n8: n8.Q.padded
        #pragma unroll
        for (int u = 0; u < 2; ++u) {
          const long long line_a = first_a + 4 * u + lane / 8;
          const long long col_a = 64 * line_a + 8 * (lane % 8);
          copy_16(&n8_Q_padded[(((row_a / ((long long)H * M)) * H + row_a / M % H) * M + row_a % M) * (64 * ((D + 63) / 64)) + col_a], &Q[(long long)D * row_a + col_a]);
        }
      } else {
        // region n8: n8.Q.padded
        #pragma unroll
        for (int u = 0; u < 2; ++u) {
          const long long line_a = first_a + 4 * u + lane / 8;
          if (line_a < (D + 63) / 64) {
            const long long col_a = 64 * line_a + 8 * (lane % 8);
            if (col_a + 7 < D) copy_16(&n8_Q_padded[(((row_a / ((long long)H * M)) * H + row_a / M % H) * M + row_a % M) * (64 * ((D + 63) / 64)) + col_a], &Q[(long long)D * row_a + col_a]);
            else {
              vector_of<fp16, 8> piece;
              #pragma unroll
              for (int v = 0; v < 8; ++v)
                piece.x[v] = col_a + v < D ? Q[(long long)D * row_a + col_a + v] : fp16{0x0000};
              *(vector_of<fp16, 8> *)&n8_Q_padded[(((row_a / ((long long)H * M)) * H + row_a / M % H) * M + row_a % M) * (64 * ((D + 63) / 64)) + col_a] = piece;
            }
          }
        }
      }
    }
  }
  if (ctas_a <= cta_x) {
    const int cta_b = cta_x - ctas_a;
    const long long row_b = (long long)(cta_b / ((D + 511) / 512)) * 8 + warp_index;
    const long long first_b = (long long)(8 * (cta_b % ((D + 511) / 512)));
    if (row_b < (long long)B * H * N) {
      if (64 * first_b + 511 < D) {
        // region n8: n8.K.padded
        #pragma unroll
        for (int u = 0; u < 2; ++u) {
          const long long line_b = first_b + 4 * u + lane / 8;
          const long long col_b = 64 * line_b + 8 * (lane % 8);
          copy_16(&n8_K_padded[((floor_div(row_b, (long long)H * N) * H + floor_div(row_b, N) - (long long)H * floor_div(row_b, (long long)H * N)) * N + row_b - (long long)N * floor_div(row_b, N)) * (64 * ((D + 63) / 64)) + col_b], &K[(long long)D * row_b + col_b]);
        }
      } else {
        // region n8: n8.K.padded
        #pragma unroll
        for (int u = 0; u < 2; ++u) {
          const long long line_b = first_b + 4 * u + lane / 8;
          if (line_b < (D + 63) / 64) {
            const long long col_b = 64 * line_b + 8 * (lane % 8);
            if (col_b + 7 < D) copy_16(&n8_K_padded[((floor_div(row_b, (long long)H * N) * H + floor_div(row_b, N) - (long long)H * floor_div(row_b, (long long)H * N)) * N + row_b - (long long)N * floor_div(row_b, N)) * (64 * ((D + 63) / 64)) + col_b], &K[(long long)D * row_b + col_b]);
            else {
              vector_of<fp16, 8> piece;
              #pragma unroll
              for (int v = 0; v < 8; ++v)
                piece.x[v] = col_b + v < D ? K[(long long)D * row_b + col_b + v] : fp16{0x0000};
              *(vector_of<fp16, 8> *)&n8_K_padded[((floor_div(row_b, (long long)H * N) * H + floor_div(row_b, N) - (long long)H * floor_div(row_b, (long long)H * N)) * N + row_b - (long long)N * floor_div(row_b, N)) * (64 * ((D + 63) / 64)) + col_b] = piece;
            }
          }
        }
      }
    }
  }
}

// region n8: n8 : REDUCE at 15:5
// plan contraction warp_specialized: tile [128, 64, 64], stages 8
extern "C" __global__ void __launch_bounds__(384, 1)
n8_2(float *__restrict__ n8, const __grid_constant__ tensor_map a_map, const __grid_constant__ tensor_map b_map, int B, int H, int M, int D, int N)
{
  const int cta_x = (int)blockIdx.x;
  const int lane = (int)threadIdx.x % 32;
  const int warpgroup_thread = (int)threadIdx.x % 128;
  const int thread_x = (int)threadIdx.x;
  extern __shared__ __align__(1024) unsigned char smem[];
  if (thread_x == 32) prefetch_map(&a_map);
  if (thread_x == 32) prefetch_map(&b_map);
  fp16 *const a = (fp16 *)smem;  // 8 x [128, 64], swizzled by 128 B
  fp16 *const b = (fp16 *)(smem + 131072);  // 8 x [64, 64], swizzled by 128 B
  float *const n8_out = (float *)(smem + 196608);  // 2 x [64, 64], swizzled by 128 B
  unsigned long long *const full = (unsigned long long *)(smem + 229376);
  mbarriers_init<8, 12>(full, 1);
  unsigned long long *const empty = (unsigned long long *)(smem + 229440);
  mbarriers_init<8, 12>(empty, 2);
  fence_mbarrier_init();
  __syncthreads();
  const int tiles_m = (M + 127) / 128;
  const int tiles_n = (N + 63) / 64;
  const int tiles = (int)((long long)B * H * tiles_m * tiles_n);
  const int steps = (D + 63) / 64;
  wait_previous();
  launch_next();
  if (thread_x < 128) {  // role producer
    give_registers<40>();
    if (warpgroup_thread == 0) {
      int p_slot = 0;
      unsigned int p_phase = 1;
      #pragma unroll 1
      for (int tile = cta_x; tile < tiles; tile += 132) {
        const int batch = tile / ((long long)tiles_m * tiles_n);
        const tile_place tm_tn = grouped_tile((long long)tile - (long long)batch * tiles_m * tiles_n, tiles_m, tiles_n, 8);
        const int tm = tm_tn.row, tn = tm_tn.column;
        const int m0 = 128 * tm;
        const int n0 = 64 * tn;
        #pragma unroll 1
        for (int k = 0; k < steps; ++k) {
          mbarrier_wait(&empty[p_slot], p_phase);
          mbarrier_expect(&full[p_slot], 24576);
          tma_load_4d(a + 8192 * p_slot, &a_map, &full[p_slot], 64 * k, m0, (long long)(batch % H), batch / H);
          tma_load_4d(b + 4096 * p_slot, &b_map, &full[p_slot], 64 * k, n0, (long long)(batch % H), batch / H);
          if (++p_slot == 8) { p_slot = 0; p_phase ^= 1; }
        }
      }
    }
  } else {  // role consumer
    take_registers<232>();
    const int warpgroup_index = thread_x / 128 - 1;
    int s_slot = 0;
    unsigned int s_phase = 0;
    int s_previous = 7;
    const int part = 64 * warpgroup_index;
    float acc[32];  // this thread's part of [64, 64]
    // region n8: n8.out, n8
    #pragma unroll 1
    for (int tile = cta_x; tile < tiles; tile += 132) {
      const int batch = tile / ((long long)tiles_m * tiles_n);
      const tile_place tm_tn = grouped_tile((long long)tile - (long long)batch * tiles_m * tiles_n, tiles_m, tiles_n, 8);
      const int tm = tm_tn.row, tn = tm_tn.column;
      const int m0 = 128 * tm;
      const int n0 = 64 * tn;
      #pragma unroll 1
      for (int k = 0; k < steps; ++k) {
        mbarrier_wait(&full[s_slot], s_phase);
        wgmma_fence();
        {
          const unsigned long long a_start = matrix_descriptor(a + 64 * part + 8192 * s_slot, 16, 1024);
          const unsigned long long b_start = matrix_descriptor(b + 4096 * s_slot, 16, 1024);
          #pragma unroll
          for (int step = 0; step < 4; ++step)
            wgmma_m64n64k16_fp16<0, 0>(acc, a_start + 2 * step, b_start + 2 * step, step > 0 || !(k == 0));
          wgmma_commit();
        }
        wgmma_wait<1>();
        if (1 <= k) if (warpgroup_thread == 0) mbarrier_arrive(&empty[s_previous]);
        s_previous = s_slot;
        if (++s_slot == 8) { s_slot = 0; s_phase ^= 1; }
      }
      wgmma_wait<0>();
      if (warpgroup_thread == 0) mbarrier_arrive(&empty[s_previous]);
      warpgroup_barrier(2 + warpgroup_index);
      #pragma unroll
      for (int piece = 0; piece < 4; ++piece) {  // 16 columns
        #pragma unroll
        for (int element_ = 0; element_ < 8; ++element_) {
          const int r = 8 * (element_ / 2 % 2) + lane / 4 + 16 * (warpgroup_thread / 32);
          swizzled_of_lane<128>(n8_out + 4096 * warpgroup_index + 2048 * ((element_ + 8 * piece) / 16), r, 2 * (lane % 4), 2 * ((element_ + 8 * piece) % 16) + 8 * (element_ / 4) - element_ - 2 * (element_ / 2)) = acc[element_ + 8 * piece];
        }
      }
      warpgroup_barrier(2 + warpgroup_index);
      store_rows<64, 64, 128, 64>(&n8[(long long)M * N * batch + (long long)N * m0 + (long long)N * part + n0], N, n8_out + 4096 * warpgroup_index, M - m0 - part, N - n0);
    }
  }
}

// region n8: n8 : REDUCE at 15:5
// plan contraction multistage: tile [64, 64, 32], threads [128], stages 2
extern "C" __global__ void __maxnreg__(128)
n8_3(const fp16 *__restrict__ Q, const fp16 *__restrict__ K, float *__restrict__ n8, int M, int D, int N)
{
  const int cta_x = (int)blockIdx.x;
  const int lane = (int)threadIdx.x % 32;
  const int warp_index = (int)threadIdx.x / 32;
  const int thread_x = (int)threadIdx.x;
  extern __shared__ __align__(1024) unsigned char smem[];
  fp16 *const a = (fp16 *)smem;  // 2 x [64, 32], swizzled by 64 B
  fp16 *const b = (fp16 *)(smem + 8192);  // 2 x [64, 32], swizzled by 64 B
  float (&staged)[4][16][36] = *(float (*)[4][16][36])(smem + 16384);
  const int tiles_m = (M + 63) / 64;
  const int tiles_n = (N + 63) / 64;
  const int batch = cta_x / ((long long)tiles_m * tiles_n);
  launch_next();
  const tile_place tm_tn = grouped_tile((long long)cta_x - (long long)batch * tiles_m * tiles_n, tiles_m, tiles_n, 8);
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
    // plan cache: Q -> smem at k0.o, as a
    #pragma unroll
    for (int element = thread_x; element < 2048; element += 128) {
      const int r = element / 32;
      const int c = element % 32;
      const int i2 = m0 + r;
      const int k0 = c + 32 * t;
      swizzled_at<64>(a + 2048 * t, r, c) = i2 < M && k0 < D ? Q[(long long)D * M * batch + (long long)D * i2 + k0] : fp16{0x0000};
    }
    // plan cache: K -> smem at k0.o, as b
    #pragma unroll
    for (int element = thread_x; element < 2048; element += 128) {
      const int r = element / 32;
      const int c = element % 32;
      const int i3 = n0 + r;
      const int k0 = c + 32 * t;
      swizzled_at<64>(b + 2048 * t, r, c) = i3 < N && k0 < D ? K[(long long)D * N * batch + (long long)D * i3 + k0] : fp16{0x0000};
    }
  }
  int p_slot = 1;
  int s_slot = 0;
  __syncthreads();
  operand_along<64>(af[0], a + 2048 * s_slot, wm, 0);
  factor_along<64>(bf[0], b + 2048 * s_slot, wn, 0);
  #pragma unroll 1
  for (int k = 0; k < D; k += 32) {
    const int next = k + 32;
    // plan cache: Q -> smem at k0.o, as a
    #pragma unroll
    for (int element = thread_x; element < 2048; element += 128) {
      const int r = element / 32;
      const int c = element % 32;
      const int i2 = m0 + r;
      const int k0 = c + next;
      swizzled_at<64>(a + 2048 * p_slot, r, c) = i2 < M && k0 < D ? Q[(long long)D * M * batch + (long long)D * i2 + k0] : fp16{0x0000};
    }
    // plan cache: K -> smem at k0.o, as b
    #pragma unroll
    for (int element = thread_x; element < 2048; element += 128) {
      const int r = element / 32;
      const int c = element % 32;
      const int i3 = n0 + r;
      const int k0 = c + next;
      swizzled_at<64>(b + 2048 * p_slot, r, c) = i3 < N && k0 < D ? K[(long long)D * N * batch + (long long)D * i3 + k0] : fp16{0x0000};
    }
    operand_along<64>(af[1], a + 2048 * s_slot, wm, 16);
    factor_along<64>(bf[1], b + 2048 * s_slot, wn, 16);
    add_products_fp16(acc, af[0], bf[0]);
    if (++p_slot == 2) { p_slot = 0; }
    if (++s_slot == 2) { s_slot = 0; }
    __syncthreads();
    operand_along<64>(af[0], a + 2048 * s_slot, wm, 0);
    factor_along<64>(bf[0], b + 2048 * s_slot, wn, 0);
    add_products_fp16(acc, af[1], bf[1]);
  }
  // region n8: staged, n8
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
        n8[(long long)M * N * batch + (long long)N * row + col] = staged[warp_index][down][across];
      }
    }
  }
}

// region n9: n9 : REDUCE at 17:5, n10 : SUB at 19:5, n11 : MUL at 20:5, n12 : EXP2 at 21:5, n13 : REDUCE at 22:5, n14 : FDIV at 24:5, n15 : CAST at 25:5
// plan row row_streamed: tile [1, 512], threads [32]
extern "C" __global__ void __maxnreg__(48)
n9(const float *__restrict__ n8, fp16 *__restrict__ n15, int H, int M, int N)
{
  const int cta_x = (int)blockIdx.x;
  const int thread_x = (int)threadIdx.x;
  const int i2 = (int)((long long)(cta_x % M));
  const int i1 = (int)((long long)(cta_x / M % H));
  const int i0 = cta_x / ((long long)H * M);
  const int head = (int)(8 * (((long long)H * M * N * i0 + (long long)M * N * i1 + (long long)N * i2 + 7) / 8) - (long long)H * M * N * i0 - (long long)M * N * i1 - (long long)N * i2);
  const int whole = (int)floor_div(N - head, 8);
  const long long left = (long long)whole * 8 * (int)floor_div(thread_x - head, 8) + thread_x + 8 * whole;
  float n9_acc_beside[8];
  #pragma unroll
  for (int e0 = 0; e0 < 8; ++e0)
    n9_acc_beside[e0] = __uint_as_float(0xff800000u);
  wait_previous();
  #pragma unroll 2
  for (int c = thread_x; c < whole; c += 32) {
    const int i3 = 8 * c + head;
    float n8_v[8];
    load_near_kept<8>(n8_v, &n8[(((long long)i0 * H + i1) * M + i2) * N + i3]);
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
      n9_acc_beside[v] = max_nan(n9_acc_beside[v], n8_v[v]);
    }
  }
  if (thread_x <= left && left < N) {
    const int i3 = (int)(left);
    n9_acc_beside[0] = max_nan(n9_acc_beside[0], n8[(((long long)i0 * H + i1) * M + i2) * N + i3]);
  }
  float n9_acc[1];
  n9_acc[0] = n9_acc_beside[0];
  #pragma unroll
  for (int v = 1; v < 8; ++v) {
    n9_acc[0] = max_nan(n9_acc[0], n9_acc_beside[v]);
  }
  #pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) n9_acc[0] = max_nan(n9_acc[0], __shfl_xor_sync(0xffffffffu, n9_acc[0], lanes));
  const float n9 = n9_acc[0];  // n9 : REDUCE at 17:5
  float n13_acc_beside[8] = {};
  #pragma unroll 2
  for (int c = thread_x; c < whole; c += 32) {
    const int i3 = 8 * c + head;
    float n8_v2[8];
    load_near_kept<8>(n8_v2, &n8[(((long long)i0 * H + i1) * M + i2) * N + i3]);
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
      const float n10 = n8_v2[v] - n9;  // n10 : SUB at 19:5
      const float n11 = n10 * 1.442695f;  // n11 : MUL at 20:5
      const float n12 = exp2f(n11);  // n12 : EXP2 at 21:5
      n13_acc_beside[v] += n12;
    }
  }
  if (thread_x <= left && left < N) {
    const int i3 = (int)(left);
    const float n10 = n8[(((long long)i0 * H + i1) * M + i2) * N + i3] - n9;  // n10 : SUB at 19:5
    const float n11 = n10 * 1.442695f;  // n11 : MUL at 20:5
    const float n12 = exp2f(n11);  // n12 : EXP2 at 21:5
    n13_acc_beside[0] += n12;
  }
  float n13_acc[1];
  n13_acc[0] = n13_acc_beside[0];
  #pragma unroll
  for (int v = 1; v < 8; ++v) {
    n13_acc[0] += n13_acc_beside[v];
  }
  #pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) n13_acc[0] = n13_acc[0] + __shfl_xor_sync(0xffffffffu, n13_acc[0], lanes);
  const float n13 = n13_acc[0];  // n13 : REDUCE at 22:5
  // region n9: %n10, %n11, %n12, %n14, n15
  #pragma unroll 2
  for (int c = thread_x; c < whole; c += 32) {
    const int i3 = 8 * c + head;
    float n8_v3[8];
    load_near_last<8>(n8_v3, &n8[(((long long)i0 * H + i1) * M + i2) * N + i3]);
    float n15_v[8];
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
      const float n10 = n8_v3[v] - n9;  // n10 : SUB at 19:5
      const float n11 = n10 * 1.442695f;  // n11 : MUL at 20:5
      const float n12 = exp2f(n11);  // n12 : EXP2 at 21:5
      const float n14 = quotient_of(n12, n13);  // n14 : FDIV at 24:5
      n15_v[v] = n14;
    }
    {
      vector_of<fp16, 8> piece;
      #pragma unroll
      for (int v = 0; v < 8; ++v)
        piece.x[v] = fp16_of_float(n15_v[v]);
      store_last((vector_of<fp16, 8> *)&n15[(((long long)i0 * H + i1) * M + i2) * N + i3], piece);
    }
  }
  if (thread_x <= left && left < N) {
    const int i3 = (int)(left);
    const float n10 = n8[(((long long)i0 * H + i1) * M + i2) * N + i3] - n9;  // n10 : SUB at 19:5
    const float n11 = n10 * 1.442695f;  // n11 : MUL at 20:5
    const float n12 = exp2f(n11);  // n12 : EXP2 at 21:5
    const float n14 = quotient_of(n12, n13);  // n14 : FDIV at 24:5
    n15[(((long long)i0 * H + i1) * M + i2) * N + i3] = fp16_of_float(n14);
  }
}
