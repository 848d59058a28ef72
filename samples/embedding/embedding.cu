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
//   launch embedding : sm90 grid [floor((3*S + 3)/4)] block [128]
//     tensors [ids, table, Y]  symbols [S, V]
//     flops 0  bytes 1540*S + 1536*V

struct fp16 { unsigned short bits; };

// An index that the data give, as a place below `extent`: from the end when negative, -1 when outside.
__device__ __forceinline__ long long place_below(long long at, long long extent) {
  const long long place = at < 0 ? at + extent : at;
  return place >= 0 && place < extent ? place : -1;
}
template <class T, int n> struct alignas(n * sizeof(T) < 16 ? n * sizeof(T) : 16) vector_of { T x[n]; };  // neighbours that move at once

// region embedding: embedding : Embedding at 16:5
// plan map flat: tile [1024], micro [8], threads [128]
extern "C" __global__ void __launch_bounds__(128)
embedding(const int *__restrict__ ids, const fp16 *__restrict__ table, fp16 *__restrict__ Y, int S, int V)
{
  const int cta_x = (int)blockIdx.x;
  const int thread_x = (int)threadIdx.x;
  const long long e = (long long)cta_x * 128 + thread_x;
  if (e < (long long)S * 96) {
    const int i0 = (int)(e / 96);
    const int i1 = (int)(8 * (e % 96));
    const int k0_at = (int)place_below(ids[i0], V);
    if (0 <= k0_at) *(vector_of<fp16, 8> *)&Y[(long long)i0 * 768 + i1] = *(const vector_of<fp16, 8> *)&table[(long long)k0_at * 768 + i1];
    else {
      vector_of<fp16, 8> piece;
      #pragma unroll
      for (int v = 0; v < 8; ++v)
        piece.x[v] = 0 <= k0_at ? table[(long long)k0_at * 768 + i1 + v] : fp16{0x0000};
      *(vector_of<fp16, 8> *)&Y[(long long)i0 * 768 + i1] = piece;
    }
  }
}
