// tinyir 1.0 cu
//
// model conv3x3_silu
//   in  X           : fp16[N, 64, 56, 56]
//   in  W           : fp16[64, 64, 3, 3] {role=param, storage=const_pool}
//   out Y           : fp16[N, 64, 56, 56]
// shapes default {N=1}
//
// program conv3x3_silu
//   buffer conv.W      : fp16[64, 3, 3, 64]
//
// region conv.W
//   in  W           : fp16[64, 64, 3, 3]
//   out conv.W      : fp16[64, 3, 3, 64]
//   for i0: 64, i1: 3, i2: 3, i3: 64
//   from conv : Conv at 16:5
//   yield conv.W[i0, i1, i2, i3] = W[i0, i3, i1, i2]
//   analysis
//     parallel [i0, i1, i2, i3]  reduce []  tail [i1, i2]
//     halo []  buffer reg depth 1  barrier none
//
// region conv
//   in  X           : fp16[N, 64, 56, 56]
//   in  conv.W      : fp16[64, 3, 3, 64]
//   out Y           : fp16[N, 64, 56, 56]
//   for i0: N, i1: 64, i2: 56, i3: 56
//   from conv : Conv at 16:5
//     %conv          = reduce sum (k1: 3, k2: 3, k0: 64) : fp32 { mul(X[i0, k0, i2 + k1 - 1, i3 + k2 - 1] where 0 <= i2 + k1 - 1 < 56 and 0 <= i3 + k2 - 1 < 56 else 0.0, conv.W[i1, k1, k2, k0]) : fp32 }
//   from silu : Elementwise at 17:5
//     %silu.recip    = recip(add(exp2(mul(neg(%conv), 1.442695)), 1.0))
//     %silu          = mul(%conv, %silu.recip)
//   yield Y[i0, i1, i2, i3] = cast(%silu) : fp16
//   analysis
//     parallel [i0, i1, i2, i3]  reduce [k0, k1, k2]  tail [i0, i2, i3]
//     halo [i2: 2, i3: 2]  buffer reg depth 1  barrier cta
//
// manifest
//   launch conv.W as conv_W once : sm90 grid [288] block [128]
//     tensors [W, conv.W]  symbols []
//     flops 0  bytes 147456
//   launch conv : sm90 grid [112*N] block [128] smem 31744 B
//     tensors [X, conv.W, Y]  symbols []
//     assume 3136*N < 2147418112
//     assume 112*N < 2147418112
//     flops 232214528*N  bytes 802816*N + 73728

struct fp16 { unsigned short bits; };

__device__ fp16 fp16_of_float(float x);
__device__ void cp_async_16(void *to, const void *from, int bytes);
__device__ void cp_async_commit();
template <int pending> __device__ __forceinline__ void cp_async_wait();
__device__ void ldmatrix_x4(unsigned int &a, unsigned int &b, unsigned int &c, unsigned int &d, const void *from);
__device__ void mma_m16n8k16_fp16(float (&d)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1);
__device__ float exp2_approx(float x);
__device__ float recip_approx(float x);
__device__ unsigned int shared_address(const void *p);

#ifndef TINYIR_SIM
__device__ __forceinline__ fp16 fp16_of_float(float x) { fp16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y; }
__device__ __forceinline__ void cp_async_16(void *to, const void *from, int bytes) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(shared_address(to)), "l"(from), "r"(bytes) : "memory"); }
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int pending> __device__ __forceinline__ void cp_async_wait() { asm volatile("cp.async.wait_group %0;" :: "n"(pending) : "memory"); }
__device__ __forceinline__ void ldmatrix_x4(unsigned int &a, unsigned int &b, unsigned int &c, unsigned int &d, const void *from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(shared_address(from)) : "memory");
}
__device__ __forceinline__ void mma_m16n8k16_fp16(float (&d)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ float exp2_approx(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
__device__ __forceinline__ float recip_approx(float x) { float y; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
__device__ __forceinline__ unsigned int shared_address(const void *p) { return (unsigned int)__cvta_generic_to_shared(p); }
#endif

__device__ __forceinline__ float logistic_of_exp2(float x) { return recip_approx(1.0f + exp2_approx(x)); }
// A byte of a tile whose rows are `span` bytes, where the swizzle puts it: 16-byte pieces are exchanged by the row's number.
template <int span> __device__ __forceinline__ int swizzled(int byte) { return byte ^ (byte >> 3 & (span - 16)); }
// An element of such a tile.
template <int span, class T> __device__ __forceinline__ T &swizzled_at(T *tile, int row, int column) {
  return *(T *)((unsigned char *)tile + swizzled<span>(row * span + column * (int)sizeof(T)));
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

// region conv.W: conv : Conv at 16:5
// plan map flat: tile [128], micro [1], threads [128]
extern "C" __global__ void __launch_bounds__(128)
conv_W(const fp16 *__restrict__ W, fp16 *__restrict__ conv_W)
{
  const int cta_x = (int)blockIdx.x;
  const int thread_x = (int)threadIdx.x;
  const int e = 128 * cta_x + thread_x;
  const int i0 = e / 576;
  const int i1 = e / 192 % 3;
  const int i2 = e / 64 % 3;
  const int i3 = e % 64;
  conv_W[((i0 * 3 + i1) * 3 + i2) * 64 + i3] = W[((i0 * 64 + i3) * 3 + i1) * 3 + i2];
}

// region conv: conv : Conv at 16:5, silu : Elementwise at 17:5
// plan contraction haloed: tile [32, 64, 64], threads [128], stages 3
extern "C" __global__ void __maxnreg__(72)
conv(const fp16 *__restrict__ X, const fp16 *__restrict__ conv_W, fp16 *__restrict__ Y)
{
  const int cta_x = (int)blockIdx.x;
  const int lane = (int)threadIdx.x % 32;
  const int warp_index = (int)threadIdx.x / 32;
  const int thread_x = (int)threadIdx.x;
  extern __shared__ __align__(1024) unsigned char smem[];
  fp16 *const image = (fp16 *)smem;  // 1 x [108, 64], swizzled by 128 B
  fp16 *const taps = (fp16 *)(smem + 14336);  // 3 x [32, 64], swizzled by 128 B
  float (&staged)[4][16][20] = *(float (*)[4][16][20])(smem + 26624);
  const int tm = cta_x % 2;
  const int tw = cta_x / 2 % 4;
  const int th = cta_x / 8 % 14;
  const int picture = cta_x / 112;
  const int i0 = picture;
  const int row0 = 4 * th;
  const int col0 = (int)((long long)tw * 16);
  const int m0 = (int)((long long)tm * 32);
  const int wq = warp_index;
  const int wm = 0;
  float acc0[2][2][4] = {};  // this thread's part of its warp's [32, 16]
  unsigned int xf[1][4];  // its part of [16, 16]
  unsigned int wf_[2][4];  // its part of [32, 16]
  #pragma unroll
  for (int t = 0; t < 2; ++t) {
    // plan cache: conv.W -> smem at k1.o, as taps
    #pragma unroll
    for (int turn = 0; turn < 2; ++turn) {
      const int r = 16 * turn + thread_x / 8;
      const int c = 8 * (thread_x % 8);
      const int i1 = m0 + r;
      const int tap = t;
      const int k1 = 0;
      const int k2 = tap;
      cp_async_16(&swizzled_at<128>(taps + 2048 * t, r, c), &conv_W[((i1 * 3 + k1) * 3 + k2) * 64 + c], 16);
    }
    cp_async_commit();
  }
  // region conv: image
  #pragma unroll 1
  for (int n = 0; n < 1; ++n) {
    fp16 turned[3][8][4];
    #pragma unroll
    for (int m = 0; m < 3; ++m) {
      const int item = 128 * m + 384 * n + thread_x;
      if (item < 288) {
        const int rest = item / 4;
        const int stretch = rest % 6;
        const int down = rest / 6 % 6;
        const int oct = item + 4 * (rest / 36) - 4 * rest;
        if (0 <= down + row0 - 1 && down + row0 - 1 < 56 && 0 <= col0 + 4 * stretch - 4 && col0 + 4 * stretch - 4 < 53) {
          #pragma unroll
          for (int a = 0; a < 8; ++a) {
            load_near<4>(&turned[m][a][0], &X[(((long long)i0 * 64 + a + 8 * oct) * 56 + down + row0 - 1) * 56 + col0 + 4 * stretch - 4]);
          }
        }
      }
    }
    #pragma unroll
    for (int m = 0; m < 3; ++m) {
      const int item = 128 * m + 384 * n + thread_x;
      if (item < 288) {
        const int rest = item / 4;
        const int stretch = rest % 6;
        const int down = rest / 6 % 6;
        const int oct = item + 4 * (rest / 36) - 4 * rest;
        if (0 <= down + row0 - 1 && down + row0 - 1 < 56 && 0 <= col0 + 4 * stretch - 4 && col0 + 4 * stretch - 4 < 53) {
          #pragma unroll
          for (int v = 0; v < 4; ++v) {
            if (0 <= 4 * stretch + v - 3 && 4 * stretch + v - 3 < 18) {
              {
                vector_of<fp16, 8> piece;
                #pragma unroll
                for (int a = 0; a < 8; ++a)
                  piece.x[a] = turned[m][a][v];
                *(vector_of<fp16, 8> *)&swizzled_at<128>(image, 18 * down + 4 * stretch + v - 3, 8 * oct) = piece;
              }
            }
          }
        } else {
          #pragma unroll
          for (int v = 0; v < 4; ++v) {
            if (0 <= 4 * stretch + v - 3 && 4 * stretch + v - 3 < 18) {
              {
                vector_of<fp16, 8> piece;
                #pragma unroll
                for (int a = 0; a < 8; ++a)
                  piece.x[a] = fp16{0x0000};
                *(vector_of<fp16, 8> *)&swizzled_at<128>(image, 18 * down + 4 * stretch + v - 3, 8 * oct) = piece;
              }
            }
          }
        }
      }
    }
  }
  int p_slot = 2;
  int s_slot = 0;
  #pragma unroll 1
  for (int k = 0; k < 9; ++k) {
    cp_async_wait<1>();
    __syncthreads();
    const int next = k + 2;
    // plan cache: conv.W -> smem at k1.o, as taps
    #pragma unroll
    for (int turn = 0; turn < 2; ++turn) {
      const int r = 16 * turn + thread_x / 8;
      const int c = 8 * (thread_x % 8);
      const int i1 = m0 + r;
      const int tap = next;
      const int k1 = tap / 3;
      const int k2 = tap % 3;
      cp_async_16(&swizzled_at<128>(taps + 2048 * p_slot, r, c), &conv_W[((i1 * 3 + k1) * 3 + k2) * 64 + c], tap < 9 ? 16 : 0);
    }
    cp_async_commit();
    const int k2 = k % 3;
    const int k1 = k / 3;
    operand_along<128>(wf_, taps + 2048 * s_slot, wm, 0);
    factor_along<128>(xf, image, 18 * k1 + k2 + 18 * wq, 0);
    add_products_fp16(acc0, wf_, xf);
    operand_along<128>(wf_, taps + 2048 * s_slot, wm, 16);
    factor_along<128>(xf, image, 18 * k1 + k2 + 18 * wq, 16);
    add_products_fp16(acc0, wf_, xf);
    operand_along<128>(wf_, taps + 2048 * s_slot, wm, 32);
    factor_along<128>(xf, image, 18 * k1 + k2 + 18 * wq, 32);
    add_products_fp16(acc0, wf_, xf);
    operand_along<128>(wf_, taps + 2048 * s_slot, wm, 48);
    factor_along<128>(xf, image, 18 * k1 + k2 + 18 * wq, 48);
    add_products_fp16(acc0, wf_, xf);
    if (++p_slot == 3) { p_slot = 0; }
    if (++s_slot == 3) { s_slot = 0; }
  }
  cp_async_wait<0>();
  // region conv: %silu.recip, %silu, staged, Y
  #pragma unroll
  for (int i = 0; i < 2; ++i) {
    __syncwarp();
    #pragma unroll
    for (int piece = 0; piece < 2; ++piece) {
      #pragma unroll
      for (int element_ = 0; element_ < 4; ++element_) {
        const int r = 8 * (element_ / 2) + lane / 4;
        const int n = element_ % 2 + 2 * (lane % 4) + 8 * piece;
        staged[warp_index][r][n] = acc0[i][piece][element_];
      }
    }
    __syncwarp();
    #pragma unroll
    for (int v = 0; v < 2; ++v) {
      const int down = 8 * v + lane / 4;
      const int across = 4 * lane + 128 * v - 16 * down;
      const int row = row0 + wq;
      const int col = across + col0;
      const int of = down + 16 * i + m0 + wm;
      if (col + 3 < 56) {
        float staged_near[4];
        load_near<4>(staged_near, &staged[warp_index][down][across]);
        float Y_out[4];
        #pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float silu_recip = logistic_of_exp2((-staged_near[e]) * 1.442695f);  // silu : Elementwise at 17:5
          const float silu = staged_near[e] * silu_recip;  // silu : Elementwise at 17:5
          Y_out[e] = silu;
        }
        {
          vector_of<fp16, 4> piece;
          #pragma unroll
          for (int e = 0; e < 4; ++e)
            piece.x[e] = fp16_of_float(Y_out[e]);
          *(vector_of<fp16, 4> *)&Y[(((long long)i0 * 64 + of) * 56 + row) * 56 + col] = piece;
        }
      }
    }
  }
}
