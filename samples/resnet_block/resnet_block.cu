// tinyir 1.0 cu
//
// model resnet_block
//   in  X           : fp16[N, 64, 56, 56]
//   in  W1          : fp16[64, 64, 3, 3] {role=param, storage=const_pool}
//   in  bn1.scale   : fp16[64] {role=param, storage=const_pool}
//   in  bn1.shift   : fp16[64] {role=param, storage=const_pool}
//   in  bn1.mean    : fp16[64] {role=param, storage=const_pool}
//   in  bn1.variance : fp16[64] {role=param, storage=const_pool}
//   in  W2          : fp16[64, 64, 3, 3] {role=param, storage=const_pool}
//   in  bn2.scale   : fp16[64] {role=param, storage=const_pool}
//   in  bn2.shift   : fp16[64] {role=param, storage=const_pool}
//   in  bn2.mean    : fp16[64] {role=param, storage=const_pool}
//   in  bn2.variance : fp16[64] {role=param, storage=const_pool}
//   out Y           : fp16[N, 64, 56, 56]
// shapes default {N=8}
//
// program resnet_block
//   buffer h           : fp16[N, 56, 56, 64]
//   buffer bn1.factor  : fp32[64]
//   buffer bn2.factor  : fp32[64]
//   buffer conv1.X     : fp16[N, 56, 56, 64]
//   buffer conv1.W1    : fp16[64, 3, 3, 64]
//   buffer conv2.W2    : fp16[64, 3, 3, 64]
//
// region bn1.factor
//   in  bn1.scale   : fp16[64]
//   in  bn1.variance : fp16[64]
//   out bn1.factor  : fp32[64]
//   for i1: 64
//   from bn1 : BatchNorm at 36:5
//     %bn1.factor    = mul(cast(bn1.scale[i1]) : fp32, rsqrt(add(cast(bn1.variance[i1]) : fp32, 1e-05)))
//   yield bn1.factor[i1] = %bn1.factor
//   analysis
//     parallel [i1]  reduce []  tail []
//     halo []  buffer reg depth 1  barrier none
//
// region conv1.X
//   in  X           : fp16[N, 64, 56, 56]
//   out conv1.X     : fp16[N, 56, 56, 64]
//   for i0: N, i1: 56, i2: 56, i3: 64
//   from conv1 : Conv at 35:5
//   yield conv1.X[i0, i1, i2, i3] = X[i0, i3, i1, i2]
//   analysis
//     parallel [i0, i1, i2, i3]  reduce []  tail [i0, i1, i2]
//     halo []  buffer reg depth 1  barrier none
//
// region conv1.W1
//   in  W1          : fp16[64, 64, 3, 3]
//   out conv1.W1    : fp16[64, 3, 3, 64]
//   for i0: 64, i1: 3, i2: 3, i3: 64
//   from conv1 : Conv at 35:5
//   yield conv1.W1[i0, i1, i2, i3] = W1[i0, i3, i1, i2]
//   analysis
//     parallel [i0, i1, i2, i3]  reduce []  tail [i1, i2]
//     halo []  buffer reg depth 1  barrier none
//
// region conv1
//   in  conv1.X     : fp16[N, 56, 56, 64]
//   in  conv1.W1    : fp16[64, 3, 3, 64]
//   in  bn1.mean    : fp16[64]
//   in  bn1.factor  : fp32[64]
//   in  bn1.shift   : fp16[64]
//   out h           : fp16[N, 56, 56, 64]
//   for i0: N, i2: 56, i3: 56, i1: 64
//   from conv1 : Conv at 35:5
//     %conv1         = reduce sum (k1: 3, k2: 3, k0: 64) : fp32 { mul(conv1.X[i0, i2 + k1 - 1, i3 + k2 - 1, k0] where 0 <= i2 + k1 - 1 < 56 and 0 <= i3 + k2 - 1 < 56 else 0.0, conv1.W1[i1, k1, k2, k0]) : fp32 }
//   from bn1 : BatchNorm at 36:5
//     %bn1.scaled    = mul(sub(%conv1, broadcast_in_dim(cast(bn1.mean[i1]) : fp32, dims=[3])), broadcast_in_dim(bn1.factor[i1], dims=[3]))
//     %bn1           = add(%bn1.scaled, broadcast_in_dim(cast(bn1.shift[i1]) : fp32, dims=[3]))
//   from relu1 : Elementwise at 37:5
//     %relu1         = relu(%bn1)
//   yield h[i0, i2, i3, i1] = cast(%relu1) : fp16
//   analysis
//     parallel [i0, i2, i3, i1]  reduce [k0, k1, k2]  tail [i0, i2, i3]
//     halo [i2: 2, i3: 2]  buffer reg depth 1  barrier cta
// region bn2.factor as bn1.factor
//   tensors [bn2.scale, bn2.variance, bn2.factor]  values [bn2.factor]
//   from bn2 : BatchNorm at 39:5
// region conv2.W2 as conv1.W1
//   tensors [W2, conv2.W2]  values []
//   from conv2 : Conv at 38:5
//
// region conv2
//   in  h           : fp16[N, 56, 56, 64]
//   in  conv2.W2    : fp16[64, 3, 3, 64]
//   in  bn2.mean    : fp16[64]
//   in  bn2.factor  : fp32[64]
//   in  bn2.shift   : fp16[64]
//   in  X           : fp16[N, 64, 56, 56]
//   out Y           : fp16[N, 64, 56, 56]
//   for i0: N, i1: 64, i2: 56, i3: 56
//   from conv2 : Conv at 38:5
//     %conv2         = reduce sum (k1: 3, k2: 3, k0: 64) : fp32 { mul(h[i0, i2 + k1 - 1, i3 + k2 - 1, k0] where 0 <= i2 + k1 - 1 < 56 and 0 <= i3 + k2 - 1 < 56 else 0.0, conv2.W2[i1, k1, k2, k0]) : fp32 }
//   from bn2 : BatchNorm at 39:5
//     %bn2.scaled    = mul(sub(%conv2, broadcast_in_dim(cast(bn2.mean[i1]) : fp32, dims=[1])), broadcast_in_dim(bn2.factor[i1], dims=[1]))
//     %bn2           = add(%bn2.scaled, broadcast_in_dim(cast(bn2.shift[i1]) : fp32, dims=[1]))
//   from add : Elementwise at 40:5
//     %add           = add(%bn2, cast(X[i0, i1, i2, i3]) : fp32)
//   from relu2 : Elementwise at 41:5
//     %relu2         = relu(%add)
//   yield Y[i0, i1, i2, i3] = cast(%relu2) : fp16
//   analysis
//     parallel [i0, i1, i2, i3]  reduce [k0, k1, k2]  tail [i0, i2, i3]
//     halo [i2: 2, i3: 2]  buffer reg depth 1  barrier cta
//
// manifest
//   tensor_map a.map = conv1.X as windows [56, 56] from [-1, -1] step [1, 1] box [256, 1, 1, 64] swizzle 128
//   tensor_map b.map = conv1.W1 as [64, 9, 64] box [64, 1, 64] swizzle 128
//   tensor_map h.out.map = h as [3136*N, 64] box [64, 64] swizzle 128
//   tensor_map a.map.2 = conv2.W2 as [64, 9, 64] box [64, 1, 64] swizzle 128
//   tensor_map b.map.2 = h as windows [56, 56] from [-1, -1] step [1, 1] box [256, 1, 1, 64] swizzle 128
//   launch bn1.factor as bn1_factor once : sm90 grid [1] block [128]
//     tensors [bn1.scale, bn1.variance, bn1.factor]  symbols []
//     flops 192  bytes 512
//   launch conv1.X as conv1_X : sm90 grid [49*N] block [64]
//     tensors [X, conv1.X]  symbols []
//     flops 0  bytes 802816*N
//   launch conv1.W1 as conv1_W1 once : sm90 grid [288] block [128]
//     tensors [W1, conv1.W1]  symbols []
//     flops 0  bytes 147456
//   launch conv1 : sm90 grid [132] block [384] smem 198208 B early
//     tensors [bn1.mean, bn1.factor, bn1.shift]  maps [a.map, b.map, h.out.map]  symbols [N]
//     assume 3136*N < 2147418112
//     assume 12*N + floor((N + 3)/4) < 2147418112
//     flops 232013824*N  bytes 802816*N + 74240
//   launch bn2.factor like bn1.factor : tensors [bn2.scale, bn2.variance, bn2.factor]
//   launch conv2.W2 like conv1.W1 : tensors [W2, conv2.W2]
//   launch conv2 : sm90 grid [132] block [256] smem 223056 B early
//     tensors [bn2.mean, bn2.factor, bn2.shift, X, Y]  maps [a.map.2, b.map.2]  symbols [N]
//     assume 3136*N < 2147418112
//     assume 12*N + floor((N + 3)/4) < 2147418112
//     flops 232214528*N  bytes 1204224*N + 74240

struct fp16 { unsigned short bits; };
struct alignas(64) tensor_map { char bytes[128]; };

__device__ float float_of_fp16(fp16 x);
__device__ fp16 fp16_of_float(float x);
__device__ float max_nan_of(float a, float b);
__device__ unsigned int shared_address(const void *p);
__device__ unsigned int pair_of_fp16(float low, float high);
__device__ void mbarrier_init_if(bool is_chosen, unsigned long long *barrier, int count);
__device__ void mbarrier_expect(unsigned long long *barrier, int bytes);
__device__ void mbarrier_arrive(unsigned long long *barrier);
__device__ void mbarrier_wait(unsigned long long *barrier, unsigned int phase);
__device__ void fence_mbarrier_init();
__device__ void fence_async_proxy();
__device__ void warpgroup_barrier(int number);
__device__ void tma_store_2d(const tensor_map *map, int x, int y, const void *from);
__device__ void tma_load_3d(void *to, const tensor_map *map, unsigned long long *barrier, int x, int y, int z);
__device__ void tma_load_windows_4d(void *to, const tensor_map *map, unsigned long long *barrier, int x, int y, int z, int u, int a, int b);
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
template <int a_major, int b_major>
__device__ __forceinline__ void wgmma_m64n256k16_fp16(float (&d)[128], unsigned long long a, unsigned long long b, bool is_added);
template <int count> __device__ __forceinline__ void take_registers();
template <int count> __device__ __forceinline__ void give_registers();
__device__ void stmatrix_x4(void *to, unsigned int a, unsigned int b, unsigned int c, unsigned int d);

#ifndef TINYIR_SIM
__device__ __forceinline__ float float_of_fp16(fp16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y; }
__device__ __forceinline__ fp16 fp16_of_float(float x) { fp16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y; }
__device__ __forceinline__ float max_nan_of(float a, float b) { float c; asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b)); return c; }
__device__ __forceinline__ unsigned int shared_address(const void *p) { return (unsigned int)__cvta_generic_to_shared(p); }
__device__ __forceinline__ unsigned int pair_of_fp16(float low, float high) { unsigned int y; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low)); return y; }
__device__ __forceinline__ void mbarrier_init_if(bool is_chosen, unsigned long long *barrier, int count) { asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p mbarrier.init.shared::cta.b64 [%0], %1; }" :: "r"(shared_address(barrier)), "r"(count), "r"((int)is_chosen) : "memory"); }
__device__ __forceinline__ void mbarrier_expect(unsigned long long *barrier, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(shared_address(barrier)), "r"(bytes) : "memory"); }
__device__ __forceinline__ void mbarrier_arrive(unsigned long long *barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared_address(barrier)) : "memory"); }
__device__ __forceinline__ void mbarrier_wait(unsigned long long *barrier, unsigned int phase) { asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @p bra done; bra again; done: }" :: "r"(shared_address(barrier)), "r"(phase) : "memory"); }
__device__ __forceinline__ void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void warpgroup_barrier(int number) { asm volatile("bar.sync %0, 128;" :: "r"(number) : "memory"); }
__device__ __forceinline__ void tma_store_2d(const tensor_map *map, int x, int y, const void *from) { asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" :: "l"(map), "r"(shared_address(from)), "r"(x), "r"(y) : "memory"); }
__device__ __forceinline__ void tma_load_3d(void *to, const tensor_map *map, unsigned long long *barrier, int x, int y, int z) { asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" :: "r"(shared_address(to)), "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z) : "memory"); }
__device__ __forceinline__ void tma_load_windows_4d(void *to, const tensor_map *map, unsigned long long *barrier, int x, int y, int z, int u, int a, int b) { asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" :: "r"(shared_address(to)), "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z), "r"(u), "h"((unsigned short)a), "h"((unsigned short)b) : "memory"); }
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
template <int a_major, int b_major>
__device__ __forceinline__ void wgmma_m64n256k16_fp16(float (&d)[128], unsigned long long a, unsigned long long b, bool is_added) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %130, 0; wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127 "
    "}, %128, %129, p, 1, 1, %131, %132; }"
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
      "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),
      "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),
      "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]),
      "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]),
      "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
    : "l"(a), "l"(b), "r"((int)is_added), "n"(a_major), "n"(b_major));
}
template <int count> __device__ __forceinline__ void take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(count)); }
template <int count> __device__ __forceinline__ void give_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(count)); }
__device__ __forceinline__ void stmatrix_x4(void *to, unsigned int a, unsigned int b, unsigned int c, unsigned int d) { asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" :: "r"(shared_address(to)), "r"(a), "r"(b), "r"(c), "r"(d) : "memory"); }
#endif

__device__ __forceinline__ long long floor_div(long long a, long long b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
template <class T> __device__ __forceinline__ T max_nan(T a, T b) { return a > b || a != a ? a : b; }
__device__ __forceinline__ float max_nan(float a, float b) { return max_nan_of(a, b); }
__device__ __forceinline__ float square_root(float x) { return sqrtf(x); }
__device__ __forceinline__ double square_root(double x) { return sqrt(x); }
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
template <class T, int n> struct alignas(n * sizeof(T) < 16 ? n * sizeof(T) : 16) vector_of { T x[n]; };  // neighbours that move at once
template <int n, class T, class S> __device__ __forceinline__ void load_near(T *to, const S *from) {
  const vector_of<S, n> all = *(const vector_of<S, n> *)from;
#pragma unroll
  for (int i = 0; i < n; ++i) to[i] = all.x[i];
}
template <int n> __device__ __forceinline__ void load_near_fp16(float *to, const fp16 *from) {
  const vector_of<fp16, n> all = *(const vector_of<fp16, n> *)from;
#pragma unroll
  for (int i = 0; i < n; ++i) to[i] = float_of_fp16(all.x[i]);
}
template <int n, class T> __device__ __forceinline__ void store_near(T *to, const T *from) {
  vector_of<T, n> all;
#pragma unroll
  for (int i = 0; i < n; ++i) all.x[i] = from[i];
  *(vector_of<T, n> *)to = all;
}

// launches bn1.factor, bn2.factor: in names of the first
// region bn1.factor: bn1 : BatchNorm at 36:5
// plan map flat: tile [512], micro [4], threads [128]
extern "C" __global__ void __launch_bounds__(128)
bn1_factor(const fp16 *__restrict__ bn1_scale, const fp16 *__restrict__ bn1_variance, float *__restrict__ bn1_factor)
{
  const int cta_x = (int)blockIdx.x;
  const int thread_x = (int)threadIdx.x;
  const int e = 128 * cta_x + thread_x;
  if (e < 16) {
    const int i1 = 4 * e;
    float bn1_scale_v[4];
    load_near_fp16<4>(bn1_scale_v, &bn1_scale[i1]);
    float bn1_variance_v[4];
    load_near_fp16<4>(bn1_variance_v, &bn1_variance[i1]);
    float bn1_factor_v[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      const float bn1_factor_ = bn1_scale_v[v] * ((float)1 / square_root(bn1_variance_v[v] + 1e-05f));  // bn1 : BatchNorm at 36:5
      bn1_factor_v[v] = bn1_factor_;
    }
    store_near<4>(&bn1_factor[i1], bn1_factor_v);
  }
}

// region conv1.X: conv1 : Conv at 35:5
// plan map transposed: tile [4096], micro [64], threads [64]
extern "C" __global__ void __launch_bounds__(64)
conv1_X(const fp16 *__restrict__ X, fp16 *__restrict__ conv1_X)
{
  const int cta_x = (int)blockIdx.x;
  const int thread_x = (int)threadIdx.x;
  __shared__ __align__(16) fp16 X_tile[8][520];
  const int i0 = cta_x / 49;
  const int i2_o = cta_x % 49;
  const int i3_o = 0;
  launch_next();
  // region conv1.X: X.tile
  #pragma unroll
  for (int u = 0; u < 1; ++u) {
    const int r = thread_x / 8;
    const int c = thread_x % 8;
    const int i2 = (int)((long long)i2_o * 64 + 8 * c);
    fp16 X_block[8][8];
    #pragma unroll
    for (int a = 0; a < 8; ++a) {
      const int i3 = a + 64 * i3_o + 8 * r;
      load_near<8>(&X_block[a][0], &X[(long long)i0 * 200704 + i2 + 3136 * i3]);
    }
    #pragma unroll
    for (int b = 0; b < 8; ++b) {
      #pragma unroll
      for (int a = 0; a < 8; ++a)
        X_tile[c][a + 64 * b + 8 * r] = X_block[a][b];
    }
  }
  __syncthreads();
  // region conv1.X: conv1.X
  #pragma unroll
  for (int u = 0; u < 8; ++u) {
    const int c = 8 * u + thread_x / 8;
    const int r = thread_x % 8;
    const int i2 = (int)((long long)i2_o * 64 + c);
    const int i3 = 64 * i3_o + 8 * r;
    fp16 X_near[8];
    #pragma unroll
    for (int v = 0; v < 8; ++v)
      X_near[v] = X_tile[c / 8][64 * (c % 8) + 8 * r + v];
    store_near<8>(&conv1_X[(long long)i0 * 200704 + 64 * i2 + i3], X_near);
  }
}

// launches conv1.W1, conv2.W2: in names of the first
// region conv1.W1: conv1 : Conv at 35:5
// plan map flat: tile [128], micro [1], threads [128]
extern "C" __global__ void __launch_bounds__(128)
conv1_W1(const fp16 *__restrict__ W1, fp16 *__restrict__ conv1_W1)
{
  const int cta_x = (int)blockIdx.x;
  const int thread_x = (int)threadIdx.x;
  const int e = 128 * cta_x + thread_x;
  const int i0 = e / 576;
  const int i1 = e / 192 % 3;
  const int i2 = e / 64 % 3;
  const int i3 = e % 64;
  conv1_W1[((i0 * 3 + i1) * 3 + i2) * 64 + i3] = W1[((i0 * 64 + i3) * 3 + i1) * 3 + i2];
}

// region conv1: conv1 : Conv at 35:5, bn1 : BatchNorm at 36:5, relu1 : Elementwise at 37:5
// plan contraction warp_specialized: tile [256, 64, 64], stages 4
extern "C" __global__ void __launch_bounds__(384, 1)
conv1(const fp16 *__restrict__ bn1_mean, const float *__restrict__ bn1_factor, const fp16 *__restrict__ bn1_shift, const __grid_constant__ tensor_map a_map, const __grid_constant__ tensor_map b_map, const __grid_constant__ tensor_map h_out_map, int N)
{
  const int cta_x = (int)blockIdx.x;
  const int lane = (int)threadIdx.x % 32;
  const int warpgroup_thread = (int)threadIdx.x % 128;
  const int thread_x = (int)threadIdx.x;
  extern __shared__ __align__(1024) unsigned char smem[];
  if (thread_x == 32) prefetch_map(&a_map);
  if (thread_x == 32) prefetch_map(&b_map);
  if (thread_x == 32) prefetch_map(&h_out_map);
  fp16 *const a = (fp16 *)smem;  // 4 x [256, 64], swizzled by 128 B
  fp16 *const b = (fp16 *)(smem + 131072);  // 4 x [64, 64], swizzled by 128 B
  fp16 *const h_out = (fp16 *)(smem + 163840);  // 4 x [64, 64], swizzled by 128 B
  float (&bn1_mean_tile)[2][64] = *(float (*)[2][64])(smem + 196608);
  float (&bn1_factor_tile1)[2][64] = *(float (*)[2][64])(smem + 197120);
  float (&bn1_shift_tile2)[2][64] = *(float (*)[2][64])(smem + 197632);
  unsigned long long *const full = (unsigned long long *)(smem + 198144);
  mbarriers_init<4, 12>(full, 1);
  unsigned long long *const empty = (unsigned long long *)(smem + 198176);
  mbarriers_init<4, 12>(empty, 2);
  fence_mbarrier_init();
  __syncthreads();
  const int tiles_m = (int)((long long)N * 12 + (N + 3) / 4);
  const int tiles_n = 1;
  const int tiles = tiles_m * tiles_n;
  const int steps = 9;
  wait_previous();
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
        const long long m0 = (long long)tm * 256;
        const int n0 = 64 * tn;
        #pragma unroll 1
        for (int k = 0; k < steps; ++k) {
          mbarrier_wait(&empty[p_slot], p_phase);
          mbarrier_expect(&full[p_slot], 40960);
          tma_load_windows_4d(a + 16384 * p_slot, &a_map, &full[p_slot], 0, m0 - 56 * floor_div(m0, 56) - 1, floor_div(m0, 56) - 56 * floor_div(m0, 3136) - 1, floor_div(m0, 3136), k % 3, k / 3);
          tma_load_3d(b + 4096 * p_slot, &b_map, &full[p_slot], 0, k, n0);
          if (++p_slot == 4) { p_slot = 0; p_phase ^= 1; }
        }
      }
    }
  } else {  // role consumer
    take_registers<232>();
    const int warpgroup_index = thread_x / 128 - 1;
    int s_slot = 0;
    unsigned int s_phase = 0;
    int s_previous = 3;
    const int part = 128 * warpgroup_index;
    int o_slot = 0;
    float acc[2][32];  // this thread's part of [128, 64]
    // region conv1: %bn1.scaled, %bn1, %relu1, bn1_mean.tile, bn1_factor.tile1, bn1_shift.tile2, h.out
    #pragma unroll 1
    for (int tile = cta_x; tile < tiles; tile += 132) {
      const tile_place tm_tn = grouped_tile(tile, tiles_m, tiles_n, 8);
      const int tm = tm_tn.row, tn = tm_tn.column;
      const long long m0 = (long long)tm * 256;
      const int n0 = 64 * tn;
      float bn1_mean_tile_early[1] = {};
      if (warpgroup_thread < 64) bn1_mean_tile_early[0] = float_of_fp16(bn1_mean[n0 + warpgroup_thread]);
      float bn1_factor_tile1_early[1] = {};
      if (warpgroup_thread < 64) bn1_factor_tile1_early[0] = bn1_factor[n0 + warpgroup_thread];
      float bn1_shift_tile2_early[1] = {};
      if (warpgroup_thread < 64) bn1_shift_tile2_early[0] = float_of_fp16(bn1_shift[n0 + warpgroup_thread]);
      #pragma unroll 1
      for (int k = 0; k < steps; ++k) {
        mbarrier_wait(&full[s_slot], s_phase);
        wgmma_fence();
        {
          const unsigned long long a_start = matrix_descriptor(a + 64 * part + 16384 * s_slot, 16, 1024);
          const unsigned long long b_start = matrix_descriptor(b + 4096 * s_slot, 16, 1024);
          #pragma unroll
          for (int step = 0; step < 4; ++step) {
            wgmma_m64n64k16_fp16<0, 0>(acc[0], a_start + 2 * step, b_start + 2 * step, step > 0 || !(k == 0));
            wgmma_m64n64k16_fp16<0, 0>(acc[1], a_start + 2 * step + 512, b_start + 2 * step, step > 0 || !(k == 0));
          }
          wgmma_commit();
        }
        if (k == 0) {
          if (warpgroup_thread < 64) bn1_mean_tile[warpgroup_index][warpgroup_thread] = bn1_mean_tile_early[0];
          if (warpgroup_thread < 64) bn1_factor_tile1[warpgroup_index][warpgroup_thread] = bn1_factor_tile1_early[0];
          if (warpgroup_thread < 64) bn1_shift_tile2[warpgroup_index][warpgroup_thread] = bn1_shift_tile2_early[0];
        }
        wgmma_wait<1>();
        if (1 <= k) if (warpgroup_thread == 0) mbarrier_arrive(&empty[s_previous]);
        s_previous = s_slot;
        if (++s_slot == 4) { s_slot = 0; s_phase ^= 1; }
      }
      wgmma_wait<0>();
      if (warpgroup_thread == 0) mbarrier_arrive(&empty[s_previous]);
      #pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (warpgroup_thread == 0) tma_store_wait<1>();
        warpgroup_barrier(2 + warpgroup_index);
        #pragma unroll
        for (int piece = 0; piece < 4; ++piece) {  // 16 columns
          float h_out_piece[8];
          #pragma unroll
          for (int element_ = 0; element_ < 8; ++element_) {
            const int n = element_ % 2 + 2 * (lane % 4) + 16 * piece + 8 * (element_ / 4);
            const float bn1_scaled = (acc[i][element_ + 8 * piece] - bn1_mean_tile[warpgroup_index][n]) * bn1_factor_tile1[warpgroup_index][n];  // bn1 : BatchNorm at 36:5
            const float bn1 = bn1_scaled + bn1_shift_tile2[warpgroup_index][n];  // bn1 : BatchNorm at 36:5
            const float relu1 = max_nan(bn1, (float)0);  // relu1 : Elementwise at 37:5
            h_out_piece[element_] = relu1;
          }
          store_piece_fp16<128>(h_out + 4096 * o_slot + 8192 * warpgroup_index, 16 * (warpgroup_thread / 32), 16 * piece, h_out_piece);
        }
        fence_async_proxy();
        warpgroup_barrier(2 + warpgroup_index);
        if (warpgroup_thread == 0) {
          tma_store_2d(&h_out_map, n0, m0 + 64 * i + part, h_out + 4096 * o_slot + 8192 * warpgroup_index);
          tma_store_commit();
        }
        if (++o_slot == 2) { o_slot = 0; }
      }
    }
    if (warpgroup_thread == 0) tma_store_wait<0>();
  }
}

// region conv2: conv2 : Conv at 38:5, bn2 : BatchNorm at 39:5, add : Elementwise at 40:5, relu2 : Elementwise at 41:5
// plan contraction warp_specialized: tile [64, 256, 64], stages 5
extern "C" __global__ void __maxnreg__(216)
conv2(const fp16 *__restrict__ bn2_mean, const float *__restrict__ bn2_factor, const fp16 *__restrict__ bn2_shift, const fp16 *__restrict__ X, fp16 *__restrict__ Y, const __grid_constant__ tensor_map a_map, const __grid_constant__ tensor_map b_map, int N)
{
  const int cta_x = (int)blockIdx.x;
  const int lane = (int)threadIdx.x % 32;
  const int warpgroup_thread = (int)threadIdx.x % 128;
  const int thread_x = (int)threadIdx.x;
  extern __shared__ __align__(1024) unsigned char smem[];
  if (thread_x == 32) prefetch_map(&a_map);
  if (thread_x == 32) prefetch_map(&b_map);
  fp16 *const a = (fp16 *)smem;  // 5 x [64, 64], swizzled by 128 B
  fp16 *const b = (fp16 *)(smem + 40960);  // 5 x [256, 64], swizzled by 128 B
  float (&sums)[64][68] = *(float (*)[64][68])(smem + 204800);
  float *bn2_mean_tile = (float *)(smem + 222208);
  float *bn2_factor_tile1 = (float *)(smem + 222464);
  float *bn2_shift_tile2 = (float *)(smem + 222720);
  unsigned long long *const full = (unsigned long long *)(smem + 222976);
  mbarriers_init<5, 8>(full, 1);
  unsigned long long *const empty = (unsigned long long *)(smem + 223016);
  mbarriers_init<5, 8>(empty, 1);
  fence_mbarrier_init();
  __syncthreads();
  const int tiles_m = 1;
  const int tiles_n = (int)((long long)N * 12 + (N + 3) / 4);
  const int tiles = tiles_m * tiles_n;
  const int steps = 9;
  wait_previous();
  if (thread_x < 128) {  // role producer
    if (warpgroup_thread == 0) {
      int p_slot = 0;
      unsigned int p_phase = 1;
      #pragma unroll 1
      for (int tile = cta_x; tile < tiles; tile += 132) {
        const tile_place tm_tn = grouped_tile(tile, tiles_m, tiles_n, 8);
        const int tm = tm_tn.row, tn = tm_tn.column;
        const int m0 = 64 * tm;
        const long long n0 = (long long)tn * 256;
        #pragma unroll 1
        for (int k = 0; k < steps; ++k) {
          mbarrier_wait(&empty[p_slot], p_phase);
          mbarrier_expect(&full[p_slot], 40960);
          tma_load_3d(a + 4096 * p_slot, &a_map, &full[p_slot], 0, k, m0);
          tma_load_windows_4d(b + 16384 * p_slot, &b_map, &full[p_slot], 0, n0 - 56 * floor_div(n0, 56) - 1, floor_div(n0, 56) - 56 * floor_div(n0, 3136) - 1, floor_div(n0, 3136), k % 3, k / 3);
          if (++p_slot == 5) { p_slot = 0; p_phase ^= 1; }
        }
      }
    }
  } else {  // role consumer
    const int warpgroup_index = thread_x / 128 - 1;
    int s_slot = 0;
    unsigned int s_phase = 0;
    int s_previous = 4;
    float acc[128];  // this thread's part of [64, 256]
    // region conv2: %bn2.scaled, %bn2, %add, %relu2, bn2_mean.tile, bn2_factor.tile1, bn2_shift.tile2, sums, Y
    #pragma unroll 1
    for (int tile = cta_x; tile < tiles; tile += 132) {
      const tile_place tm_tn = grouped_tile(tile, tiles_m, tiles_n, 8);
      const int tm = tm_tn.row, tn = tm_tn.column;
      const int m0 = 64 * tm;
      const long long n0 = (long long)tn * 256;
      float bn2_mean_tile_early[1] = {};
      if (warpgroup_thread < 64) bn2_mean_tile_early[0] = float_of_fp16(bn2_mean[m0 + warpgroup_thread]);
      float bn2_factor_tile1_early[1] = {};
      if (warpgroup_thread < 64) bn2_factor_tile1_early[0] = bn2_factor[m0 + warpgroup_thread];
      float bn2_shift_tile2_early[1] = {};
      if (warpgroup_thread < 64) bn2_shift_tile2_early[0] = float_of_fp16(bn2_shift[m0 + warpgroup_thread]);
      #pragma unroll 1
      for (int k = 0; k < steps; ++k) {
        mbarrier_wait(&full[s_slot], s_phase);
        wgmma_fence();
        {
          const unsigned long long a_start = matrix_descriptor(a + 4096 * s_slot, 16, 1024);
          const unsigned long long b_start = matrix_descriptor(b + 16384 * s_slot, 16, 1024);
          #pragma unroll
          for (int step = 0; step < 4; ++step)
            wgmma_m64n256k16_fp16<0, 0>(acc, a_start + 2 * step, b_start + 2 * step, step > 0 || !(k == 0));
          wgmma_commit();
        }
        if (k == 0) {
          if (warpgroup_thread < 64) bn2_mean_tile[warpgroup_thread] = bn2_mean_tile_early[0];
          if (warpgroup_thread < 64) bn2_factor_tile1[warpgroup_thread] = bn2_factor_tile1_early[0];
          if (warpgroup_thread < 64) bn2_shift_tile2[warpgroup_thread] = bn2_shift_tile2_early[0];
        }
        wgmma_wait<1>();
        if (1 <= k) if (warpgroup_thread == 0) mbarrier_arrive(&empty[s_previous]);
        s_previous = s_slot;
        if (++s_slot == 5) { s_slot = 0; s_phase ^= 1; }
      }
      wgmma_wait<0>();
      if (warpgroup_thread == 0) mbarrier_arrive(&empty[s_previous]);
      warpgroup_barrier(2 + warpgroup_index);
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int down = warpgroup_thread / 16;
        const int across = 4 * warpgroup_thread - 64 * down;
        const long long col = n0 + across + 64 * j;
        const long long plane = floor_div(col, 3136);
        const int first = (int)(col - 3136 * plane);
        fp16 X_ahead[8][4];
        #pragma unroll
        for (int v = 0; v < 8; ++v) {
          const int line = down + 8 * v;
          const int row = line + m0;
          if (col + 3 < (long long)N * 3136) load_near<4>(&X_ahead[v][0], &X[200704 * plane + first + 3136 * row]);
        }
        #pragma unroll
        for (int piece = 0; piece < 4; ++piece) {  // 16 columns
          #pragma unroll
          for (int element_ = 0; element_ < 8; ++element_) {
            const int r = 8 * (element_ / 2 % 2) + lane / 4 + 16 * (warpgroup_thread / 32);
            const int n = element_ % 2 + 2 * (lane % 4) + 16 * piece + 8 * (element_ / 4);
            sums[r][n] = acc[element_ + 32 * j + 8 * piece];
          }
        }
        warpgroup_barrier(2 + warpgroup_index);
        #pragma unroll
        for (int v = 0; v < 8; ++v) {
          const int line = down + 8 * v;
          const int row = line + m0;
          if (col + 3 < (long long)N * 3136) {
            float sums_near[4];
            load_near<4>(sums_near, &sums[line][across]);
            float X_near[4];
            #pragma unroll
            for (int e = 0; e < 4; ++e)
              X_near[e] = float_of_fp16(X_ahead[v][e]);
            float Y_out[4];
            #pragma unroll
            for (int e = 0; e < 4; ++e) {
              const float bn2_scaled = (sums_near[e] - bn2_mean_tile[line]) * bn2_factor_tile1[line];  // bn2 : BatchNorm at 39:5
              const float bn2 = bn2_scaled + bn2_shift_tile2[line];  // bn2 : BatchNorm at 39:5
              const float add = bn2 + X_near[e];  // add : Elementwise at 40:5
              const float relu2 = max_nan(add, (float)0);  // relu2 : Elementwise at 41:5
              Y_out[e] = relu2;
            }
            {
              vector_of<fp16, 4> piece;
              #pragma unroll
              for (int e = 0; e < 4; ++e)
                piece.x[e] = fp16_of_float(Y_out[e]);
              *(vector_of<fp16, 4> *)&Y[200704 * plane + first + 3136 * row] = piece;
            }
          }
        }
        warpgroup_barrier(2 + warpgroup_index);
      }
      warpgroup_barrier(2 + warpgroup_index);
    }
  }
}
