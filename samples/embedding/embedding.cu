// tinyir 1.0 cu
//
// model embedding
//   in  ids         : i32[S]
//   in  table       : fp16[V, 768] {role=param, storage=const_pool}
//   out Y           : fp16[S, 768]
// shapes default {S=512, V=30522}
//
// program embedding
//
// region embedding
//   in  ids         : i32[S]
//   in  table       : fp16[V, 768]
//   out Y           : fp16[S, 768]
//   for i0: S, i1: 768
//   from embedding : Embedding at 16:5
//     %embedding     = gather (k0: V = ids[i0]) { table[k0, i1] }
//   yield Y[i0, i1] = %embedding
//   analysis
//     parallel [i0, i1]  reduce []  tail [i0]
//     halo []  buffer reg depth 1  barrier none
//
// manifest
//   launch embedding : sm90 grid [6*S] block [128]
//     tensors [ids, table, Y]  symbols [V]
//     flops 0  bytes 1540*S + 1536*V

struct fp16 { unsigned short bits; };

__device__ float float_of_fp16(fp16 x);
__device__ fp16 fp16_of_float(float x);

#ifndef TINYIR_SIM
__device__ __forceinline__ float float_of_fp16(fp16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y; }
__device__ __forceinline__ fp16 fp16_of_float(float x) { fp16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y; }
#endif

// An index that the data give, as a place below `extent`: from the end when negative, -1 when outside.
__device__ __forceinline__ long long place_below(long long at, long long extent) {
  const long long place = at < 0 ? at + extent : at;
  return place >= 0 && place < extent ? place : -1;
}

// region embedding: embedding : Embedding at 16:5
// plan map flat: tile [128], micro [1], threads [128]
extern "C" __global__ void __launch_bounds__(128)
embedding(const int *__restrict__ ids, const fp16 *__restrict__ table, fp16 *__restrict__ Y, int V)
{
  const int cta_x = (int)blockIdx.x;
  const int thread_x = (int)threadIdx.x;
  const long long e = (long long)cta_x * 128 + thread_x;
  const int i0 = (int)(e / 768);
  const int i1 = (int)(e % 768);
  const int k0_at = (int)place_below(ids[i0], V);
  const float embedding = 0 <= k0_at ? float_of_fp16(table[(long long)k0_at * 768 + i1]) : 0.0f;  // embedding : Embedding at 16:5
  Y[(long long)i0 * 768 + i1] = fp16_of_float(embedding);
}
