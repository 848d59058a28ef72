"""The device functions that multiply fp32 on tensor cores, whose factors have 11 bits (TF32). Rows of
`target.intrinsics`.

A warp's operand is `x[i][s][2h+v]`: of its rows (of M or N) 16i + 8v + lane/4, of the sum 8s + 4h + lane%4.
`words_along` and `words_across` fetch it from a swizzled tile whose rows run along the sum, or across it; `row` and
`column` are multiples of 16. A warpgroup's left operand is `x[p][s][2h+v]`, of the sum 16p + 8s + 4h + lane%4, of the
rows that wgmma gives the warp; `rows_along` and `rows_across` fetch it from 64 rows.

`add_products_tf32x3` writes a factor as high + low / 1024, both of 11 bits, and adds low*high, high*low and high*high.
What it leaves out is below 2^-22 of a product. The low parts are scaled so that they are no smaller than what the unit
can hold. Sixteen products at a time are summed by the unit, which cuts bits off; these sums are added in fp32, which
rounds. Infinities would meet low parts of 0 and of the other sign, so a step that has one, a NaN, or a factor that
rounds to one, is multiplied in fp32. Source: PTX ISA, sections on mma and cvt; H. Ootomo, R. Yokota, "Recovering single
precision accuracy from Tensor Cores" (2022).

A matrix product of a warpgroup takes its right operand from shared memory, where nobody rounds it: there high is what
the unit looks at, the upper 19 bits, and `split_tile` writes 1024 * (x - high), rounded, to a tile of its own. The left
operand is split in registers as above, so that low * low, which is left out, has either sign. Infinities, NaN and
overflows make a sum that is not finite, and such a sum is made again in fp32.
"""

from __future__ import annotations

Rows = tuple[tuple[str, str], ...]

LOW_SCALE = 1024  # of low parts, in the texts below too
PRODUCTS = {"": 1, "tf32": 1, "tf32x3": 3}  # of a multiply-add, by a plan's `math`

_INLINE = "__device__ __forceinline__ "
_WORD = "unsigned int"
_OUTS, _INS = (", ".join(f'"{how}"({name}[{n}])' for n in range(4)) for how, name in (("+f", "d"), ("r", "a")))
_PIECE = f"const {_WORD} (&x)[2][4], {_WORD} (&high)[2][4], {_WORD} (&low)[2][4]"
_OPERANDS = f"float (&acc)[rows][columns][4], const {_WORD} (&a)[rows][2][4], const {_WORD} (&b)[columns / 2][2][4]"
_PARTS = f"{_WORD} a_high[2][4], a_low[2][4], b_high[columns / 2][2][4], b_low[columns / 2][2][4];"

GUARDED: Rows = (
    (
        "tf32_of",
        f'{_INLINE}{_WORD} tf32_of(float x) {{ {_WORD} y; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x)); '
        f"return y; }}",
    ),
    (
        "mma_m16n8k8_tf32",
        f"""\
{_INLINE}void mma_m16n8k8_tf32(float (&d)[4], const {_WORD} (&a)[4], {_WORD} b0, {_WORD} b1) {{
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
    : {_OUTS} : {_INS}, "r"(b0), "r"(b1));
}}""",  # noqa: E501
    ),
)


def _product(to: str, a: str, b: str) -> str:
    return f"mma_m16n8k8_tf32({to}, {a}[s], {b}[j / 2][s][j % 2], {b}[j / 2][s][2 + j % 2]);"


def _for_b(call: str) -> str:
    return f"#pragma unroll\n  for (int j = 0; j < columns / 2; ++j) {call};"


def _for_tiles(before: str, *lines: str) -> str:
    """C that walks over the 16 x 8 pieces of the accumulator, `before` once before each row of them."""
    inner = "\n".join(f"      {line}" for line in lines)
    return f"""\
#pragma unroll
  for (int i = 0; i < rows; ++i) {{
    {before}
#pragma unroll
    for (int j = 0; j < columns; ++j) {{
{inner}
    }}
  }}"""


_STEPS = "for (int s = 0; s < 2; ++s)"
_ADDED = "for (int e = 0; e < 4; ++e) acc[i][j][e] +="
PLAIN: Rows = (
    (
        "words_along",
        f"""\
template <int span, int count>
{_INLINE}void words_along({_WORD} (&x)[count][2][4], const void *tile, int row, int column) {{
  const int lane = (int)threadIdx.x % 32;
  const int first = swizzled<span>((row + lane % 16) * span + lane / 16 * 16) ^ 4 * column;
#pragma unroll
  for (int i = 0; i < count; ++i)
#pragma unroll
    {_STEPS} ldmatrix_x4(x[i][s][0], x[i][s][1], x[i][s][2], x[i][s][3], (const unsigned char *)tile + (first ^ 32 * s) + 16 * span * i);
}}""",  # noqa: E501
    ),
    (
        "words_across",
        f"""\
template <int depth, int count>
{_INLINE}void words_across({_WORD} (&x)[count][2][4], const void *tile, int row, int column) {{
  const int lane = (int)threadIdx.x % 32;
  const int first = swizzled<128>(lane % 4 * 128 + lane / 4 * 4) ^ column % 32 * 4;
  const unsigned char *const from = (const unsigned char *)tile + (column / 32 * depth + row) * 128;
#pragma unroll
  for (int i = 0; i < count; ++i)
#pragma unroll
    for (int e = 0; e < 8; ++e)  // s, h and v in one
      x[i][e / 4][e % 4] = *(const {_WORD} *)(from + (i / 2 * depth + e / 2 * 4) * 128 + (first ^ (i + e / 2) % 2 * 64 ^ e % 2 * 32));
}}""",  # noqa: E501
    ),
    (
        "rows_along",
        f"""\
template <int span, int count>
{_INLINE}void rows_along({_WORD} (&x)[count][2][4], const void *tile, int row, int column) {{
  const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32 % 4;
  const int first = swizzled<span>((row + 16 * warp + lane % 16) * span + lane / 16 * 16) ^ 4 * column;
#pragma unroll
  for (int e = 0; e < 2 * count; ++e)  // p and s in one
    ldmatrix_x4(x[e / 2][e % 2][0], x[e / 2][e % 2][1], x[e / 2][e % 2][2], x[e / 2][e % 2][3], (const unsigned char *)tile + (first ^ 32 * e));
}}""",  # noqa: E501
    ),
    (
        "rows_across",
        f"""\
// Odd lanes take the two halves of eight along the sum in turn, so that all lanes meet different banks.
template <int depth, int count>
{_INLINE}void rows_across({_WORD} (&x)[count][2][4], const void *tile, int row, int column) {{
  const int lane = (int)threadIdx.x % 32, at = column + (int)threadIdx.x / 32 % 4 * 16 + lane / 4, odd = lane % 2;
  const int first = swizzled<128>(lane % 4 * 128 + at % 32 * 4);
  const unsigned char *const from = (const unsigned char *)tile + (at / 32 * depth + row) * 128;
#pragma unroll
  for (int e = 0; e < 4 * count; ++e) {{  // p, s and v in one
    const unsigned char *const both = from + e / 2 * 1024;
    const {_WORD} one = *(const {_WORD} *)(both + odd * 512 + (first ^ odd * 64 ^ e % 2 * 32));
    const {_WORD} other = *(const {_WORD} *)(both + (1 - odd) * 512 + (first ^ (1 - odd) * 64 ^ e % 2 * 32));
    x[e / 4][e / 2 % 2][e % 2] = odd ? other : one;
    x[e / 4][e / 2 % 2][2 + e % 2] = odd ? one : other;
  }}
}}""",
    ),
    (
        "round_tf32",
        f"""\
{_INLINE}void round_tf32(const {_WORD} (&x)[2][4], {_WORD} (&y)[2][4]) {{
#pragma unroll
  for (int e = 0; e < 8; ++e) y[e / 4][e % 4] = tf32_of(__uint_as_float(x[e / 4][e % 4]));
}}""",
    ),
    (
        "add_products_tf32",
        f"""\
template <int rows, int columns>
{_INLINE}void add_products_tf32({_OPERANDS}) {{
  {_WORD} x[2][4], y[columns / 2][2][4];
{_for_b("round_tf32(b[j], y[j])")}
{_for_tiles("round_tf32(a[i], x);", f"{_STEPS} {_product('acc[i][j]', 'x', 'y')}")}
}}""",
    ),
    (
        "split_tf32",
        f"""\
{_INLINE}void split_tf32({_PIECE}) {{
#pragma unroll
  for (int e = 0; e < 8; ++e) {{
    const float whole = __uint_as_float(x[e / 4][e % 4]);
    high[e / 4][e % 4] = tf32_of(whole);
    low[e / 4][e % 4] = tf32_of(1024.0f * (whole - __uint_as_float(high[e / 4][e % 4])));
  }}
}}""",
    ),
    (
        "split_tile",
        f"""\
// All threads of a warpgroup, neighbours side by side.
template <int count>
{_INLINE}void split_tile(float *low, const float *tile) {{
#pragma unroll 4
  for (int i = 4 * ((int)threadIdx.x % 128); i < count; i += 512) {{
    vector_of<float, 4> words = *(const vector_of<float, 4> *)(tile + i);
#pragma unroll
    for (int e = 0; e < 4; ++e)
      words.x[e] = __uint_as_float(tf32_of(1024.0f * (words.x[e] - __uint_as_float(__float_as_uint(words.x[e]) & 0xffffe000u))));
    *(vector_of<float, 4> *)(low + i) = words;
  }}
}}""",  # noqa: E501
    ),
    (
        "is_odd_tf32",
        f"""\
// Whether a factor of the warp is not finite, or rounds to what is not.
template <int count>
{_INLINE}float largest_of(const {_WORD} (&x)[count][2][4], float most) {{
#pragma unroll
  for (int e = 0; e < 8 * count; ++e) most = max_nan_of(most, fabsf(__uint_as_float(x[e / 8][e / 4 % 2][e % 4])));
  return most;
}}
template <int rows, int columns>
{_INLINE}bool is_odd_tf32(const {_WORD} (&a)[rows][2][4], const {_WORD} (&b)[columns][2][4]) {{
  return __any_sync(0xffffffffu, __float_as_uint(largest_of(b, largest_of(a, 0.0f))) >= 0x7f7ff000u) != 0;
}}""",
    ),
    (
        "add_odd_products_tf32x3",
        f"""\
// The products of a step in fp32, every lane its own elements of the accumulator.
template <int rows, int columns>
{_INLINE}void add_odd_products_tf32x3({_OPERANDS}) {{
  const int lane = (int)threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < 16; ++k) {{
    const int s = k / 8, h = k / 4 % 2;
    float x[rows][2], y[columns][2];
    for (int i = 0; i < 2 * rows; ++i) x[i / 2][i % 2] = __uint_as_float(__shfl_sync(0xffffffffu, a[i / 2][s][2 * h + i % 2], lane / 4 * 4 + k % 4));
    for (int j = 0; j < 2 * columns; ++j)
      y[j / 2][j % 2] = __uint_as_float(__shfl_sync(0xffffffffu, b[j / 4][s][2 * h + j / 2 % 2], lane % 4 * 8 + j % 2 * 4 + k % 4));
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < columns; ++j)
        for (int e = 0; e < 4; ++e) acc[i][j][e] = fmaf(x[i][e / 2], y[j][e % 2], acc[i][j][e]);
  }}
}}""",  # noqa: E501
    ),
    (
        "add_products_tf32x3",
        f"""\
template <int rows, int columns>
{_INLINE}void add_products_tf32x3({_OPERANDS}) {{
  if (is_odd_tf32(a, b)) {{
    add_odd_products_tf32x3(acc, a, b);
    return;
  }}
  {_PARTS}
{_for_b("split_tf32(b[j], b_high[j], b_low[j])")}
{
            _for_tiles(
                "split_tf32(a[i], a_high, a_low);",
                "float part[4] = {};",
                _STEPS + " {",
                "  " + _product("part", "a_low", "b_high"),
                "  " + _product("part", "a_high", "b_low"),
                "}",
                "for (int e = 0; e < 4; ++e) part[e] *= 1.0f / 1024.0f;",
                f"{_STEPS} {_product('part', 'a_high', 'b_high')}",
                f"{_ADDED} part[e];",
            )
        }
}}""",
    ),
)
