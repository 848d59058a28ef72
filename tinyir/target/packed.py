"""Floats as four bytes of a word: what is stored as integers or floats of 8 bits, side by side; and words of packed
integers taken apart in pairs (`lower.cu.pairs`). Rows of `target.intrinsics`.

    i8s_of(a, b, c, d)         as i8_of gives each, the first in the lowest byte
    fp8e4m3s_of(a, b, c, d)    as fp8e4m3_of_float gives each

One by one a float that becomes an integer takes the slow unit for conversions, and one that becomes fp8 some 20
instructions; two at once they take one. The unit for fp8 rounds to the greatest number what is beyond the range, which
the code of an infinity or NaN then takes the place of.
"""

from __future__ import annotations

from .tma import one

_INLINE = "__device__ __forceinline__ "
# PTX's name of each, what still rounds to its greatest number, and the codes of what is beyond and of NaN.
_LARGEST = {
    "fp8e4m3": ("e4m3", "464.0f", "0x7fu", "0x7fu"),
    "fp8e5m2": ("e5m2", "61439.996f", "0x7cu", "0x7eu"),
}


def _of_integers(name: str, sign: str) -> tuple[str, str]:
    given = ", ".join(f'"r"(__float2int_rz({x}))' for x in "abcd")
    ptx = "; ".join(f"cvt.pack.sat.{sign}8.s32.b32 {to}" for to in ("t, %4, %3, 0", "%0, %2, %1, t"))
    return (
        f"{name}s_of",
        f"""\
{_INLINE}unsigned int {name}s_of(float a, float b, float c, float d) {{
  unsigned int y;
  asm("{{.reg .b32 t; {ptx};}}" : "=r"(y) : {given});
  return y;
}}""",
    )


def _pair(dtype: str) -> tuple[str, str]:
    word = _LARGEST[dtype][0]
    return (
        f"pair_of_{dtype}",
        f"""\
{_INLINE}unsigned int pair_of_{dtype}(float low, float high) {{
  unsigned short y;
  asm("cvt.rn.satfinite.{word}x2.f32 %0, %1, %2;" : "=h"(y) : "f"(high), "f"(low));
  return y;
}}""",
    )


def _within(dtype: str) -> tuple[str, str]:
    _, largest, infinite, nan = _LARGEST[dtype]
    size = infinite if nan == infinite else f"(x == x ? {infinite} : {nan})"
    return (
        f"within_{dtype}",
        f"""\
{_INLINE}unsigned int within_{dtype}(float x, unsigned int near) {{
  return fabsf(x) <= {largest} ? near & 0xffu : {size} | (__float_as_uint(x) >> 24 & 0x80u);
}}""",
    )


def _of_floats(dtype: str) -> tuple[str, str]:
    inside = " & ".join(f"(fabsf({x}) <= {_LARGEST[dtype][1]})" for x in "abcd")
    a, *rest = (f"within_{dtype}({x}, near" + (f" >> {8 * n}) << {8 * n}" if n else ")") for n, x in enumerate("abcd"))
    return (
        f"{dtype}s_of",
        f"""\
{_INLINE}unsigned int {dtype}s_of(float a, float b, float c, float d) {{
  const unsigned int near = pair_of_{dtype}(a, b) | pair_of_{dtype}(c, d) << 16;
  return {inside} ? near : {" | ".join((a, *rest))};
}}""",
    )


GUARDED = (
    _of_integers("i8", "s"),
    _of_integers("u8", "u"),
    _pair("fp8e4m3"),
    _pair("fp8e5m2"),
    # The byte of a word that has bit `at`, in each half, from that bit on.
    one(
        "unsigned int byte_twice(unsigned int word, int at)",
        'unsigned int y; asm("prmt.b32 %0, %1, 0, %2;" : "=r"(y) : "r"(word), "r"(at / 8 * 0x101 | 0x4040)); '
        "return y >> at % 8;",
    ),
    # The half of each of two words that has bit `at`, from that bit on; what is above the first one's is of the second.
    one(
        "unsigned int halves_of(unsigned int low, unsigned int high, int at)",
        'unsigned int y; asm("prmt.b32 %0, %1, %2, %3;" : "=r"(y) : "r"(low), "r"(high), '
        '"r"(at < 16 ? 0x5410 : 0x7632)); return y >> at % 16;',
    ),
)
PLAIN = tuple(make(dtype) for dtype in _LARGEST for make in (_within, _of_floats))
INTEGERS, FLOATS = ("i8", "u8"), tuple(_LARGEST)
