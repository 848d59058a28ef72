"""The device functions that emitted CUDA calls, each printed only where it is used.

`GUARDED` is every function with inline PTX: declared for all, defined inside one `#ifndef TINYIR_SIM ... #endif`, where
a simulator supplies a host twin of the same signature. Everything else is C++ and CUDA's own intrinsics. Meanings
follow the op table (ir.ops), so NumPy's: NaN through max and min, integers that wrap, division by zero without a trap.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from ..kit.records import dataclass
from . import activations, ampere, hopper, packed, tf32, words
from .dtypes import DTYPES


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """One function with its overloads, or one type. `name` is the word by which code uses it."""

    name: str
    text: str

    @property
    def declaration(self) -> str:
        """What a twin defines: `__device__ float float_of_fp16(fp16 x);`."""
        head = self.text[: self.text.index("{")].strip() + ";"
        return (
            head if head.startswith("template") else head.replace(" __forceinline__", "")
        )  # a template's attributes are those of its first sight


def _inline(signature: str, body: str) -> Intrinsic:
    return Intrinsic(_name_in(signature), f"__device__ __forceinline__ {signature} {{ {body} }}")


def _template(signature: str, body: str) -> Intrinsic:
    return Intrinsic(_name_in(signature), f"template <class T> __device__ __forceinline__ {signature} {{ {body} }}")


def _name_in(signature: str) -> str:
    return re.search(r"(\w+)\(", signature)[1]


def _asm(ptx: str, out: str, *ins: str) -> str:
    return f'asm("{ptx}" : {out} : {", ".join(ins)});'


TYPES = (
    Intrinsic("fp16", "struct fp16 { unsigned short bits; };"),
    Intrinsic("bf16", "struct bf16 { unsigned short bits; };"),
    Intrinsic("fp8e4m3", "struct fp8e4m3 { unsigned char bits; };"),
    Intrinsic("fp8e5m2", "struct fp8e5m2 { unsigned char bits; };"),
    *(Intrinsic(*row) for row in hopper.TYPES),
)
GUARDED = (
    _inline(
        "unsigned int word_as_is(unsigned int x)",
        'asm volatile("" : "+r"(x)); return x;',
    ),
    _inline(
        "float float_of_fp16(fp16 x)",
        "float y; " + _asm("cvt.f32.f16 %0, %1;", '"=f"(y)', '"h"(x.bits)') + " return y;",
    ),
    _inline(
        "fp16 fp16_of_float(float x)",
        "fp16 y; " + _asm("cvt.rn.f16.f32 %0, %1;", '"=h"(y.bits)', '"f"(x)') + " return y;",
    ),
    _inline(
        "bf16 bf16_of_float(float x)",
        "bf16 y; " + _asm("cvt.rn.bf16.f32 %0, %1;", '"=h"(y.bits)', '"f"(x)') + " return y;",
    ),
    _inline(
        "float max_nan_of(float a, float b)",
        "float c; " + _asm("max.NaN.f32 %0, %1, %2;", '"=f"(c)', '"f"(a)', '"f"(b)') + " return c;",
    ),
    _inline(
        "float min_nan_of(float a, float b)",
        "float c; " + _asm("min.NaN.f32 %0, %1, %2;", '"=f"(c)', '"f"(a)', '"f"(b)') + " return c;",
    ),
    Intrinsic(
        "copy_16",
        """\
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
}""",  # noqa: E501
    ),
    *(Intrinsic(*row) for row in (*ampere.GUARDED, *tf32.GUARDED, *hopper.GUARDED, *words.GUARDED, *packed.GUARDED)),
)


def _integer(name: str) -> Intrinsic:
    """`i8_of(x)`: the integer next to a float towards 0; at the end of its range where x is beyond it, 0 for NaN."""
    dtype = DTYPES[name]
    word = {("i", True): "int", ("u", True): "uint", ("i", False): "ll", ("u", False): "ull"}[
        dtype.kind, dtype.bits <= 32
    ]
    lines = []
    for source in ("float", "double"):
        text = f"__{source}2{word}_rz(x)"
        if dtype.bits < 32:
            within = (
                f"min({text}, {dtype.highest}u)"
                if dtype.kind == "u"
                else f"max({dtype.lowest}, min({text}, {dtype.highest}))"
            )
            text = f"({dtype.cuda}){within}"
        if source == "double" or dtype.bits == 64:  # there the card makes another number of NaN
            text = f"x == x ? {text} : 0"
        lines.append(f"__device__ __forceinline__ {dtype.cuda} {name}_of({source} x) {{ return {text}; }}")
    return Intrinsic(f"{name}_of", "\n".join(lines))


PLAIN = (
    _inline("float float_of_bf16(bf16 x)", "return __uint_as_float((unsigned int)x.bits << 16);"),
    Intrinsic(
        "stay_as_read",
        """\
// What the compiler made of these 16-bit numbers it forgets here: it keeps them, two to a register.
template <class T, int n> __device__ __forceinline__ void stay_as_read(T (&x)[n]) {
#pragma unroll
  for (int i = 0; i < n; i += 2) {
    union { unsigned int word; T parts[2]; } two;
    two.parts[0] = x[i], two.parts[1] = x[i + 1];
    two.word = word_as_is(two.word);
    x[i] = two.parts[0], x[i + 1] = two.parts[1];
  }
}""",
    ),
    Intrinsic(
        "quotient_of",
        """\
// a / b of a b that divides many, with the reciprocal of |b| and what is left (Markstein 1990): rounded once, of an a below 2^-100 an ulp off at most.
__device__ __forceinline__ float quotient_of(float a, float b) {
  const float size = fabsf(b), scale = size < 0x1p-100f ? 0x1p64f : size > 0x1p100f ? 0x1p-64f : 1.0f;
  const float d = size * scale, n = a * copysignf(scale, b), r = 1.0f / d, q = n * r, over = fmaf(q, d, -n);
  return fabsf(over) <= 0x1.fffffep127f ? fmaf(-over, r, q) : q;  // an infinity is what it is
}""",  # noqa: E501
    ),
    *(Intrinsic(*row) for row in activations.ROWS),
    Intrinsic(
        "raised",
        """\
// An integer of 8 or 16 bits plus 2^23, of signed ones 2^23 + 2^15: it is the fraction of a float. The unit that converts integers is slow.
__device__ __forceinline__ float raised(unsigned short x) { return __uint_as_float(0x4b000000u | x); }
__device__ __forceinline__ float raised(unsigned char x) { return raised((unsigned short)x); }
__device__ __forceinline__ float raised(short x) { return raised((unsigned short)(x ^ 0x8000)); }
__device__ __forceinline__ float raised(signed char x) { return raised((short)x); }""",  # noqa: E501
    ),
    _inline(
        "unsigned int two_bytes(unsigned char low, unsigned char high)",
        "return low | (unsigned int)high << 16;",
    ),
    Intrinsic(
        "float_of_fp8e5m2",
        """\
__device__ __forceinline__ float float_of_fp8e5m2(fp8e5m2 x) {
  fp16 same = {(unsigned short)(x.bits << 8)};
  return float_of_fp16(same);
}""",
    ),
    Intrinsic(
        "float_of_fp8e4m3",
        """\
__device__ __forceinline__ float float_of_fp8e4m3(fp8e4m3 x) {
  if ((x.bits & 0x7f) == 0x7f) return __uint_as_float(0x7fc00000u);
  fp16 small = {(unsigned short)((x.bits & 0x80) << 8 | (x.bits & 0x7f) << 7)};  // the bits of x in fp16 stand for x / 256
  return 256.0f * float_of_fp16(small);
}""",  # noqa: E501
    ),
    Intrinsic(
        "fp8_of_float",
        """\
// The 7 bits below the sign of |x| in a format of `digits` fraction bits and exponent `bias`, to nearest even, and `over` beyond its range. Adding `step` rounds what has fewer digits.
__device__ __forceinline__ unsigned int fp8_of_float(float x, int digits, int bias, unsigned int over) {
  const float size = fabsf(x), step = __uint_as_float((unsigned int)(151 - bias - digits) << 23);
  const unsigned int bits = __float_as_uint(size), drop = 23 - digits;
  const unsigned int whole = ((bits + (1u << (drop - 1)) - 1u + (bits >> drop & 1u)) >> drop) - ((unsigned int)(127 - bias) << digits);
  const unsigned int few = __float_as_uint(size + step) - __float_as_uint(step);
  const unsigned int found = bits < (unsigned int)(128 - bias) << 23 ? few : whole;
  return found < over ? found : over;
}""",  # noqa: E501
    ),
    Intrinsic(
        "fp8e4m3_of_float",
        """\
__device__ __forceinline__ fp8e4m3 fp8e4m3_of_float(float x) {
  fp8e4m3 y = {(unsigned char)((__float_as_uint(x) >> 24 & 0x80u) | fp8_of_float(x, 3, 7, 0x7fu))};
  return y;
}""",
    ),
    Intrinsic(
        "fp8e5m2_of_float",
        """\
__device__ __forceinline__ fp8e5m2 fp8e5m2_of_float(float x) {
  const unsigned int size = x != x ? 0x7eu : fp8_of_float(x, 2, 15, 0x7cu);
  fp8e5m2 y = {(unsigned char)((__float_as_uint(x) >> 24 & 0x80u) | size)};
  return y;
}""",
    ),
    Intrinsic(
        "odd_float_of",
        """\
// A float between whose neighbours x lies, odd where it is not x: rounding it once more is rounding x.
__device__ __forceinline__ float odd_float_of(double x) {
  const float y = __double2float_rz(x);
  return (double)y == x || x != x ? y : __uint_as_float(__float_as_uint(y) | 1u);
}""",
    ),
    Intrinsic(
        "philox_block",
        """\
// The four words of a block of the Philox 4x32-10 stream of a key.
__device__ __forceinline__ uint4 philox_block(unsigned long long key, unsigned long long block) {
  unsigned int w[4] = {(unsigned int)block, (unsigned int)(block >> 32), 0u, 0u};
  unsigned int low = (unsigned int)key, high = (unsigned int)(key >> 32);
  #pragma unroll
  for (int round = 0; round < 10; ++round, low += 0x9e3779b9u, high += 0xbb67ae85u) {
    const unsigned long long first = 0xd2511f53ull * w[0], second = 0xcd9e8d57ull * w[2];
    const unsigned int next[4] = {(unsigned int)(second >> 32) ^ w[1] ^ low, (unsigned int)second, (unsigned int)(first >> 32) ^ w[3] ^ high, (unsigned int)first};
    w[0] = next[0], w[1] = next[1], w[2] = next[2], w[3] = next[3];
  }
  return make_uint4(w[0], w[1], w[2], w[3]);
}""",  # noqa: E501
    ),
    Intrinsic(
        "philox_word",
        """\
// Word `element` of the stream of a key that starts at block `offset`.
__device__ __forceinline__ unsigned int philox_word(unsigned long long key, unsigned long long offset, unsigned long long element) {
  const uint4 words = philox_block(key, element / 4 + offset);
  const int number = (int)(element % 4);
  return number == 0 ? words.x : number == 1 ? words.y : number == 2 ? words.z : words.w;
}""",  # noqa: E501
    ),
    Intrinsic(
        "place_below",
        """\
// An index that the data give, as a place below `extent`: from the end when negative, -1 when outside.
__device__ __forceinline__ long long place_below(long long at, long long extent) {
  const long long place = at < 0 ? at + extent : at;
  return place >= 0 && place < extent ? place : -1;
}""",
    ),
    *map(_integer, ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")),
    _inline("long long floor_div(long long a, long long b)", "return a / b - (a % b != 0 && (a < 0) != (b < 0));"),
    Intrinsic(
        "max_nan",
        """\
template <class T> __device__ __forceinline__ T max_nan(T a, T b) { return a > b || a != a ? a : b; }
__device__ __forceinline__ float max_nan(float a, float b) { return max_nan_of(a, b); }""",
    ),
    Intrinsic(
        "min_nan",
        """\
template <class T> __device__ __forceinline__ T min_nan(T a, T b) { return a < b || a != a ? a : b; }
__device__ __forceinline__ float min_nan(float a, float b) { return min_nan_of(a, b); }""",
    ),
    Intrinsic(
        "is_negative",
        """\
template <class T> __device__ __forceinline__ bool is_negative(T x) { return x < (T)1 && x != (T)0; }  // so that unsigned T draws no warning
__device__ __forceinline__ bool is_negative(float x) { return x < 0.0f; }
__device__ __forceinline__ bool is_negative(double x) { return x < 0.0; }""",  # noqa: E501
    ),
    Intrinsic(
        "absolute",
        """\
template <class T> __device__ __forceinline__ T absolute(T x) { return is_negative(x) ? (T)((T)0 - x) : x; }
__device__ __forceinline__ float absolute(float x) { return fabsf(x); }
__device__ __forceinline__ double absolute(double x) { return fabs(x); }""",
    ),
    _template("T sign(T x)", "return is_negative(x) ? (T)-1 : x > (T)0 ? (T)1 : (T)(x + (T)0);"),
    Intrinsic(
        "square_root",
        """\
__device__ __forceinline__ float square_root(float x) { return sqrtf(x); }
__device__ __forceinline__ double square_root(double x) { return sqrt(x); }""",
    ),
    Intrinsic(
        "bits_as",
        """\
template <class T, class U> __device__ __forceinline__ T bits_as(U x) {
  union { U from; T to; } same;
  same.from = x;
  return same.to;
}""",
    ),
    Intrinsic(
        "bit_not",
        """\
template <class T> __device__ __forceinline__ T bit_not(T x) { return (T)~x; }
__device__ __forceinline__ bool bit_not(bool x) { return !x; }""",
    ),
    Intrinsic(
        "truncated_divide",
        """\
template <class T> __device__ __forceinline__ T truncated_divide(T a, T b) { return b == 0 ? (T)0 : (T)-1 < (T)1 && b == (T)-1 ? (T)(0ull - a) : (T)(a / b); }
// nvcc 13.0 divides some neighbours of 8 bits by 2 without their signs; in fp32 each quotient is exact where it is whole
__device__ __forceinline__ signed char truncated_divide(signed char a, signed char b) { return b == 0 ? (signed char)0 : (signed char)(int)((float)a / (float)b); }
__device__ __forceinline__ float truncated_divide(float a, float b) { return truncf(a / b); }
__device__ __forceinline__ double truncated_divide(double a, double b) { return trunc(a / b); }""",  # noqa: E501
    ),
    Intrinsic(
        "remainder_of",
        """\
template <class T> __device__ __forceinline__ T remainder_of(T a, T b) { return b == 0 || ((T)-1 < (T)1 && b == (T)-1) ? (T)0 : (T)(a % b); }
__device__ __forceinline__ float remainder_of(float a, float b) { return fmodf(a, b); }
__device__ __forceinline__ double remainder_of(double a, double b) { return fmod(a, b); }""",  # noqa: E501
    ),
    Intrinsic(
        "modulo",
        """\
template <class T> __device__ __forceinline__ T modulo(T a, T b) {
  const T rest = remainder_of(a, b);
  return rest != 0 && is_negative(rest) != is_negative(b) ? (T)(rest + b) : rest;
}
__device__ __forceinline__ float modulo(float a, float b) {
  const float rest = remainder_of(a, b);
  return rest == 0.0f ? copysignf(0.0f, b) : is_negative(rest) != is_negative(b) ? rest + b : rest;
}
__device__ __forceinline__ double modulo(double a, double b) {
  const double rest = remainder_of(a, b);
  return rest == 0.0 ? copysign(0.0, b) : is_negative(rest) != is_negative(b) ? rest + b : rest;
}""",
    ),
    Intrinsic(
        "floor_divide",
        """\
template <class T> __device__ __forceinline__ T floor_divide(T a, T b) {
  return b == 0 ? (T)0 : (T)(truncated_divide(a, b) - (remainder_of(a, b) != 0 && is_negative(a) != is_negative(b)));
}
__device__ __forceinline__ float floor_divide(float a, float b) {
  if (b == 0.0f) return a / b;
  const float rest = remainder_of(a, b);
  const float whole = (a - rest) / b - (rest != 0.0f && is_negative(rest) != is_negative(b) ? 1.0f : 0.0f);
  return whole == 0.0f ? copysignf(0.0f, a / b) : whole - floorf(whole) > 0.5f ? floorf(whole) + 1.0f : floorf(whole);
}
__device__ __forceinline__ double floor_divide(double a, double b) {
  if (b == 0.0) return a / b;
  const double rest = remainder_of(a, b);
  const double whole = (a - rest) / b - (rest != 0.0 && is_negative(rest) != is_negative(b) ? 1.0 : 0.0);
  return whole == 0.0 ? copysign(0.0, a / b) : whole - floor(whole) > 0.5 ? floor(whole) + 1.0 : floor(whole);
}""",
    ),
    Intrinsic(
        "power",
        """\
template <class T> __device__ __forceinline__ T power(T base, T exponent) {
  unsigned long long result = 1, factor = (unsigned long long)base;
  if (is_negative(exponent) && base != 1) return base != (T)-1 ? (T)0 : exponent % 2 ? base : (T)1;
  for (T left = exponent; left != 0 && base != 1; left /= 2) {
    if (left % 2) result *= factor;
    factor *= factor;
  }
  return (T)result;
}
__device__ __forceinline__ float power(float base, float exponent) { return powf(base, exponent); }
__device__ __forceinline__ double power(double base, double exponent) { return pow(base, exponent); }""",
    ),
    _template(
        "T shift_left(T x, T by)",
        "return !is_negative(by) && by < (T)(8 * sizeof(T)) ? (T)((unsigned long long)x << by) : (T)0;",
    ),
    _template(
        "T shift_right(T x, T by)",
        "return !is_negative(by) && by < (T)(8 * sizeof(T)) ? (T)(x >> by) : is_negative(x) ? (T)-1 : (T)0;",
    ),
    _template("T wrap_add(T a, T b)", "return (T)((unsigned long long)a + (unsigned long long)b);"),
    _template("T wrap_sub(T a, T b)", "return (T)((unsigned long long)a - (unsigned long long)b);"),
    _template("T wrap_mul(T a, T b)", "return (T)((unsigned long long)a * (unsigned long long)b);"),
    _template("T product_of(T a, T b)", "return a * b;"),
    Intrinsic(
        "atomic_sum",
        """\
__device__ __forceinline__ void atomic_sum(int *to, int x) { atomicAdd((unsigned int *)to, (unsigned int)x); }
__device__ __forceinline__ void atomic_sum(unsigned int *to, unsigned int x) { atomicAdd(to, x); }
__device__ __forceinline__ void atomic_sum(long long *to, long long x) { atomicAdd((unsigned long long *)to, (unsigned long long)x); }
__device__ __forceinline__ void atomic_sum(unsigned long long *to, unsigned long long x) { atomicAdd(to, x); }
__device__ __forceinline__ void atomic_sum(float *to, float x) { atomicAdd(to, x); }
__device__ __forceinline__ void atomic_sum(double *to, double x) { atomicAdd(to, x); }""",  # noqa: E501
    ),
    Intrinsic(
        "atomic_fold",
        """\
// Folds x in: what is there is swapped for what it folds to, unless another thread was there meanwhile.
template <class T, class Word, T (*fold)(T, T)> __device__ __forceinline__ void atomic_fold(T *to, T x) {
  Word *const word = (Word *)to;
  Word before = __ldcg(word);
  for (;;) {
    const Word after = bits_as<Word, T>(fold(bits_as<T, Word>(before), x));
    if (after == before) return;
    const Word found = atomicCAS(word, before, after);
    if (found == before) return;
    before = found;
  }
}""",
    ),
    *(Intrinsic(*row) for row in (*hopper.PLAIN, *ampere.PLAIN, *tf32.PLAIN, *packed.PLAIN)),
)
INTRINSICS: tuple[Intrinsic, ...] = (*TYPES, *GUARDED, *PLAIN)
_TEXTS = {item.name: item.text for item in INTRINSICS}


def intrinsics_of(code: str) -> tuple[Intrinsic, ...]:
    """Those that the code calls, and those that they call, in the order of the table."""
    wanted: set[str] = set()
    waiting = _named_in(code)
    while waiting:
        wanted |= waiting
        waiting = frozenset().union(*map(_used_by, waiting)) - wanted
    return tuple(item for item in INTRINSICS if item.name in wanted)


def _named_in(code: str) -> frozenset[str]:
    """The names of the table among the words of code, which those of PTX are not: it has an mbarrier_init too."""
    return frozenset(_TEXTS.keys() & re.findall(r"\w+", re.sub(r'//[^\n]*|"[^"\n]*"', "", code)))


@functools.cache
def _used_by(name: str) -> frozenset[str]:
    """The names of the table in the text of this one."""
    return _named_in(_TEXTS[name])


def show_intrinsics(items: Iterable[Intrinsic]) -> str:
    """Their text: types, declarations of the guarded ones, these in their block, then the rest; empty when there are
    none."""
    names = {item.name for item in items}
    types, guarded, plain = ([i for i in kind if i.name in names] for kind in (TYPES, GUARDED, PLAIN))
    parts = ["\n".join(i.text for i in types)]
    if guarded:
        parts.append("\n".join(i.declaration for i in guarded))
        parts.append("#ifndef TINYIR_SIM\n" + "\n".join(i.text for i in guarded) + "\n#endif")
    parts.append("\n".join(i.text for i in plain))
    return "\n\n".join(part for part in parts if part)
