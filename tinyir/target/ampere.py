"""The device functions of sm80 that emitted CUDA calls: cp.async, tiles between shared memory and a warp's registers,
mma, accesses of several elements. Rows of `target.intrinsics`.

`cp_async_16` copies `bytes` of 16, the rest is zero. A tile is 8x8 elements of 16 bits; lanes 8i..8i+7 give the
addresses of the rows of tile i. Fragments of `mma_m16n8k16` are as PTX says: with g = lane/4 and q = lane%4, a[2h+v] is
A[g+8v][2q+8h..], bh is B[2q+8h..][g], d[2v+e] is D[g+8v][2q+e]. Source: PTX ISA, sections on cp.async, ldmatrix,
stmatrix and mma.

`operand_along` and `operand_across` fetch a warp's left operand, 16 rows of M by 16 of K at a time, x[i][2h+v] for the
halves v of the rows and h of K, from a swizzled tile whose rows run along K, or across it; `factor_along` and
`factor_across` its right operand, x[i][2v+h], so that the two words of a product are neighbours, as the instruction
takes them. `row` and `column` are multiples of 16 but for the operand's own start. A step along a swizzled row changes
bits that its start leaves zero, so that the pattern is worked out once.
"""

from __future__ import annotations

from .dtypes import SMALL_FLOATS

Rows = tuple[tuple[str, str], ...]

COPIES = (16, 8, 4)  # bytes that one cp.async moves
TYPES = {"fp16": "f16", "bf16": "bf16"}
_INLINE = "__device__ __forceinline__ "
_WORD = "unsigned int"


def _copy(size: int) -> tuple[str, str]:
    cache = "cg" if size == 16 else "ca"
    name, operands = f"cp_async_{size}", '"r"(shared_address(to)), "l"(from), "r"(bytes)'
    ptx = f"cp.async.{cache}.shared.global [%0], [%1], {size}, %2;"
    return (
        name,
        f'{_INLINE}void {name}(void *to, const void *from, int bytes) {{ asm volatile("{ptx}" :: {operands} : '
        f'"memory"); }}',
    )


def _tiles(count: int, transposed: str) -> Rows:
    words = "abcd"[:count]
    held = ", ".join(f"%{n}" for n in range(count))
    kept = ", ".join(f"%{n + 1}" for n in range(count))
    form = f"sync.aligned.m8n8.x{count}{transposed.replace('_', '.')}.shared.b16"
    load, store = f"ldmatrix_x{count}{transposed}", f"stmatrix_x{count}{transposed}"
    outs, ins = ", ".join(f'"=r"({w})' for w in words), ", ".join(f'"r"({w})' for w in words)
    loaded, stored = ", ".join(f"{_WORD} &{w}" for w in words), ", ".join(f"{_WORD} {w}" for w in words)
    return (
        (
            load,
            f"""\
{_INLINE}void {load}({loaded}, const void *from) {{
  asm volatile("ldmatrix.{form} {{{held}}}, [%{count}];" : {outs} : "r"(shared_address(from)) : "memory");
}}""",
        ),
        (
            store,
            f"""\
{_INLINE}void {store}(void *to, {stored}) {{
  asm volatile("stmatrix.{form} [%0], {{{kept}}};" :: "r"(shared_address(to)), {ins} : "memory");
}}""",
        ),
    )


def _product(dtype: str) -> tuple[str, str]:
    kind = TYPES[dtype]
    outs, ins = (", ".join(f'"{how}"({name}[{n}])' for n in range(4)) for how, name in (("+f", "d"), ("r", "a")))
    return (
        f"mma_m16n8k16_{dtype}",
        f"""\
{_INLINE}void mma_m16n8k16_{dtype}(float (&d)[4], const {_WORD} (&a)[4], {_WORD} b0, {_WORD} b1) {{
  asm("mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 {{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
    : {outs} : {ins}, "r"(b0), "r"(b1));
}}""",  # noqa: E501
    )


_WAIT = 'asm volatile("cp.async.wait_group %0;" :: "n"(pending) : "memory");'
_RECIP = 'float y; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y;'
_EXP2 = 'float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y;'
GUARDED: Rows = (
    *map(_copy, (16, 8, 4)),
    ("cp_async_commit", f'{_INLINE}void cp_async_commit() {{ asm volatile("cp.async.commit_group;" ::: "memory"); }}'),
    ("cp_async_wait", f"template <int pending> {_INLINE}void cp_async_wait() {{ {_WAIT} }}"),
    *(
        row
        for count in (1, 2, 4)
        for trans in ("", "_trans")
        for row in _tiles(count, trans)
        if row[0] != "stmatrix_x4"
    ),  # ir.hopper has it
    *map(_product, TYPES),
    ("exp2_approx", f"{_INLINE}float exp2_approx(float x) {{ {_EXP2} }}"),
    ("recip_approx", f"{_INLINE}float recip_approx(float x) {{ {_RECIP} }}"),
)


_LANE = "const int lane = (int)threadIdx.x % 32;"
_INNER, _OUTER = "lane % 16", "lane % 8 + lane / 16 * 8"  # rows of the tiles 0..3: the second below the first, or third
_BESIDE, _BEHIND = (
    "lane / 16 * 16",
    "lane / 8 % 2 * 16",
)  # bytes of their columns: the third beside the first, or second


def _along(name: str, row: str, beside: str) -> tuple[str, str]:
    return (
        name,
        f"""\
template <int span, int count>
{_INLINE}void {name}({_WORD} (&x)[count][4], const void *tile, int row, int column) {{
  {_LANE}
  const unsigned char *const from = (const unsigned char *)tile + (swizzled<span>((row + {row}) * span + {beside}) ^ 2 * column);
#pragma unroll
  for (int i = 0; i < count; ++i) ldmatrix_x4(x[i][0], x[i][1], x[i][2], x[i][3], from + 16 * span * i);
}}""",  # noqa: E501
    )


def _across(name: str, row: str, beside: str) -> tuple[str, str]:
    return (
        name,
        f"""\
template <int depth, int count>
{_INLINE}void {name}({_WORD} (&x)[count][4], const void *tile, int row, int column) {{
  {_LANE}
  const int first = swizzled<128>(({row}) * 128 + {beside}) ^ column % 64 * 2;
  const unsigned char *const from = (const unsigned char *)tile + (column / 64 * depth + row) * 128;
#pragma unroll
  for (int i = 0; i < count; ++i) ldmatrix_x4_trans(x[i][0], x[i][1], x[i][2], x[i][3], from + i / 4 * depth * 128 + (first ^ i % 4 * 32));
}}""",  # noqa: E501
    )


def _products(dtype: str) -> tuple[str, str]:
    return (
        f"add_products_{dtype}",
        f"""\
template <int rows, int columns, int pairs>
{_INLINE}void add_products_{dtype}(float (&d)[rows][columns][4], const {_WORD} (&a)[rows][4], const {_WORD} (&b)[pairs][4]) {{
#pragma unroll
  for (int i = 0; i < rows; ++i)
#pragma unroll
    for (int j = 0; j < columns; ++j) mma_m16n8k16_{dtype}(d[i][j], a[i], b[j / 2][2 * (j % 2)], b[j / 2][2 * (j % 2) + 1]);
}}""",  # noqa: E501
    )


def _load_near(way: str, dtype: str) -> tuple[str, str]:
    """Neighbours in memory to registers, in one access, which asks the caches for something; small floats as fp32."""
    name = f"load_near{way and f'_{way}'}{dtype and f'_{dtype}'}"
    types, to, of = ("", "float", dtype) if dtype else (", class T, class S", "T", "S")
    place = f"(const vector_of<{of}, n> *)from"
    return (
        name,
        f"""\
template <int n{types}> {_INLINE}void {name}({to} *to, const {of} *from) {{
  const vector_of<{of}, n> all = {f"loaded_{way}({place})" if way else f"*{place}"};
#pragma unroll
  for (int i = 0; i < n; ++i) to[i] = {f"float_of_{dtype}(all.x[i])" if dtype else "all.x[i]"};
}}""",
    )


def _store_near(way: str, dtype: str) -> tuple[str, str]:
    """Registers to neighbours in memory, in one access; fp32 as a small float. `last`: what L2 gives up first."""
    name = f"store_near{way and f'_{way}'}{dtype and f'_{dtype}'}"
    types, to, of = ("", dtype, "float") if dtype else (", class T", "T", "T")
    return (
        name,
        f"""\
template <int n{types}> {_INLINE}void {name}({to} *to, const {of} *from) {{
  vector_of<{to}, n> all;
#pragma unroll
  for (int i = 0; i < n; ++i) all.x[i] = {f"{dtype}_of_float(from[i])" if dtype else "from[i]"};
  {f"store_{way}((vector_of<{to}, n> *)to, all)" if way else f"*(vector_of<{to}, n> *)to = all"};
}}""",
    )


PLAIN: Rows = (
    *map(_products, TYPES),
    (
        "vector_of",
        "template <class T, int n> struct alignas(n * sizeof(T) < 16 ? n * sizeof(T) : 16) vector_of { T x[n]; "
        "};  // neighbours that move at once",
    ),
    *(
        (
            f"loaded_{how}",
            f"""\
template <class T> {_INLINE}T loaded_{how}(const T *from) {{
  union {{ T all; uint4 parts[sizeof(T) / 16]; }} x;
#pragma unroll
  for (int i = 0; i < (int)sizeof(T) / 16; ++i) x.parts[i] = load_{how}((const uint4 *)from + i);
  return x.all;
}}""",
        )
        for how in ("once", "line", "kept", "last")
    ),
    (
        "store_last",
        f"""\
template <class T> {_INLINE}void store_last(T *to, const T &piece) {{
  union {{ T all; uint4 parts[sizeof(T) / 16]; }} x;
  x.all = piece;
#pragma unroll
  for (int i = 0; i < (int)sizeof(T) / 16; ++i) store_words_last((uint4 *)to + i, x.parts[i]);
}}""",
    ),
    *(_load_near(way, dtype) for way in ("", "once", "line", "kept", "last") for dtype in ("", *SMALL_FLOATS)),
    *(_store_near(way, dtype) for way in ("", "last") for dtype in ("", *SMALL_FLOATS)),
    (
        "word_of",
        f"""\
template <class T> {_INLINE}{_WORD} word_of(const T *two) {{ return *(const {_WORD} *)two; }}
template <class T> {_INLINE}{_WORD} word_of(T low, T high) {{ return low.bits | ({_WORD})high.bits << 16; }}""",
    ),
    (
        "half_of",
        f"template <class T> {_INLINE}T half_of({_WORD} word, int which) {{ return T{{(unsigned short)(word >> 16 * "
        "which)}; }",
    ),
    _along("operand_along", _INNER, _BESIDE),
    _across("operand_across", _OUTER, _BEHIND),
    _along("factor_along", _OUTER, _BEHIND),
    _across("factor_across", _INNER, _BESIDE),
    (
        "rows_of_halves",
        f"""\
// A warpgroup's 64 rows as a left operand; `height` rows of the tile are between one swizzled row's columns and the next.
template <int span, int height, int count>
{_INLINE}void rows_of_halves({_WORD} (&x)[count][4], const void *tile, int row, int column) {{
  {_LANE}
  const int first = swizzled<span>((row + (int)threadIdx.x / 32 % 4 * 16 + {_INNER}) * span + {_BESIDE}), before = 2 * column / span;
#pragma unroll
  for (int i = 0; i < count; ++i)
    ldmatrix_x4(x[i][0], x[i][1], x[i][2], x[i][3], (const unsigned char *)tile + (before + 32 * i / span) * height * span + (first ^ 32 * i % span));
}}""",  # noqa: E501
    ),
)
