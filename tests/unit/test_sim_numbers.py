"""The twins of conversions, of max and min, of 2^x and of the copy from anywhere: kernels for numbers of every kind,
and what NumPy makes of them.

The GPU has one NaN, whatever its sign and payload were (ptxas says so where it knows the operand), but for TF32
(test_tf32). PTX leaves open which NaN 2^NaN is.
"""

from __future__ import annotations

import shutil

import ml_dtypes
import numpy as np
import pytest

from tinyir.runtime.device import Scalar
from tinyir.sim.host import COMPILERS
from tinyir.sim.launch import SimDevice

from .simulated import NAN, Trial, with_one_nan

pytestmark = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")

NUMPY = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16}
EIGHT = {"fp8e4m3": ml_dtypes.float8_e4m3fn, "fp8e5m2": ml_dtypes.float8_e5m2}
INFINITY = {"fp16": 0x7C00, "bf16": 0x7F80}
_POSITIVE = np.array(
    # 0, infinity; NaN quiet and signalling; the ends of the subnormals; the greatest number; one, what is beside it,
    # ten
    [
        0,
        0x7F800000,
        0x7FC00000,
        0x7FC12345,
        0x7FFFFFFF,
        0x7F800001,
        0x7FBFFFFF,
        1,
        0x007FFFFF,
        0x00800000,
        0x7F7FFFFF,
        0x3F800000,
        0x3F7FFFFF,
        0x3F800001,
        0x41200000,
    ],
    np.uint32,
)
SPECIAL = np.concatenate([_POSITIVE, _POSITIVE | np.uint32(0x80000000)]).view(np.float32)


def applied(call: str, source: str, result: str, x: np.ndarray, wanted: np.ndarray, ulps: int = 0) -> Trial:
    """Y[i] of X[i]."""
    code = (
        f'extern "C" __global__ void k(const {source} *X, {result} *Y, int count) {{ for (int i = threadIdx.x; i < '
        f"count; i += 128) Y[i] = {call}; }}"
    )
    return Trial(code, {"X": x}, {"Y": wanted}, {"scalars": [Scalar(wanted.size, 4)]}, ulps)


def widened() -> Trial:
    """Every fp16 as fp32."""
    x = np.arange(0x10000).astype(np.uint16)
    return applied("float_of_fp16(X[i])", "fp16", "float", x, with_one_nan(x.view(np.float16).astype(np.float32)))


def as_they_are() -> Trial:
    """Words that the compiler is told to forget the making of."""
    x = np.random.default_rng(5).integers(0, 1 << 32, 4096, dtype=np.uint32)
    return applied("word_as_is(X[i])", "unsigned int", "unsigned int", x, x)


def to_round(dtype: str) -> np.ndarray:
    """Special numbers; some of those of 16 bits, what is half way between one and the next, at the end of the range
    too, and neighbours of these."""
    every = np.arange(INFINITY[dtype]).astype(np.uint16).view(NUMPY[dtype]).astype(np.float64)
    middle = every + np.diff(every, append=2 * every[-1] - every[-2]) / 2
    kept = np.r_[:40, 40 : every.size - 40 : 7, every.size - 40 : every.size]
    found = np.stack([every[kept], middle[kept]]).astype(np.float32).reshape(-1)
    positive = np.concatenate([found, *(np.nextafter(found, np.float32(to)) for to in (np.inf, -np.inf))])
    return np.concatenate([SPECIAL, positive, -positive])


def halves_of(x: np.ndarray, dtype: str) -> np.ndarray:
    """The bits of each number, rounded to nearest, ties to even."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(np.isnan(x), np.uint16(0x7FFF), x.astype(NUMPY[dtype]).view(np.uint16))


def rounded(dtype: str) -> Trial:
    """One number after the other."""
    x = to_round(dtype)
    return applied(f"{dtype}_of_float(X[i]).bits", "float", "unsigned short", x, halves_of(x, dtype))


def rounded_pairs(dtype: str) -> Trial:
    """Two numbers at once, the first in the lower half of a word."""
    x = to_round(dtype)
    return applied(
        f"pair_of_{dtype}(X[2 * i], X[2 * i + 1])", "float", "unsigned int", x, halves_of(x, dtype).view(np.uint32)
    )


def of_pairs(name: str) -> Trial:
    """`difference` or `product` of two words of fp16, every kind of number with every kind, rounded once."""
    sixteen = np.r_[[0, 1, 0x3FF, 0x400, 0x7BFF, 0x7C00, 0x7E00, 0x3C00, 0x6408], np.arange(3, 0x7C00, 1789)]
    halves = np.r_[sixteen, sixteen | 0x8000].astype(np.uint16)
    both = np.stack(np.meshgrid(halves, halves), axis=-1).reshape(-1, 2)[: halves.size**2 // 2 * 2]
    x = np.ascontiguousarray(both.reshape(-1, 2, 2).transpose(0, 2, 1)).view(np.uint32).reshape(-1)
    left, right = (np.ascontiguousarray(both[:, side]).view(np.float16).astype(np.float64) for side in (0, 1))
    with np.errstate(invalid="ignore"):
        found = left - right if name == "difference" else left * right
    return applied(
        f"{name}_of_pairs(X[2 * i], X[2 * i + 1])",
        "unsigned int",
        "unsigned int",
        x,
        halves_of(found, "fp16").view(np.uint32),
    )


def to_bytes(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Numbers, half ways between them and their neighbours, special ones; and the byte that each becomes."""
    if dtype in EIGHT:
        every = np.sort(np.arange(0x100, dtype=np.uint8).view(EIGHT[dtype]).astype(np.float32))
        every = every[np.isfinite(every)]
        middle = (every + np.r_[every[1:], 2 * every[-1] - every[-2]]) / 2
        near = np.concatenate([every, middle])
    else:
        near = np.r_[-131:260:0.5].astype(np.float32)
    x = np.concatenate([near, *(np.nextafter(near, np.float32(to)) for to in (np.inf, -np.inf)), SPECIAL])
    x = x[: x.size // 4 * 4]
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype in EIGHT:
            found, over = x.astype(EIGHT[dtype]).view(np.uint8), {"fp8e4m3": 0x7F, "fp8e5m2": 0x7E}[dtype]
            found = np.where(np.isnan(x), np.signbit(x) * np.uint8(0x80) | np.uint8(over), found)
        else:
            low, high = (-128, 127) if dtype == "i8" else (0, 255)
            found = np.clip(np.trunc(np.nan_to_num(x)), low, high).astype(np.int64)
    return x, found.astype(np.uint8)


def four_bytes(dtype: str, is_mixed: bool) -> Trial:
    """Four numbers to a word, of about the same size, or of all sizes."""
    x, found = to_bytes(dtype)
    order = np.random.default_rng(9).permutation(x.size) if is_mixed else np.arange(x.size)
    call = f"{dtype}s_of(X[4 * i], X[4 * i + 1], X[4 * i + 2], X[4 * i + 3])"
    return applied(call, "float", "unsigned int", x[order], found[order].view(np.uint32))


def pair_of_eight(dtype: str) -> Trial:
    """Two numbers to half a word, the greatest where they are beyond it."""
    x, found = to_bytes(dtype)
    most = float(ml_dtypes.finfo(EIGHT[dtype]).max)
    inside = np.abs(x) <= most
    x, found = x[inside][: inside.sum() // 2 * 2], found[inside][: inside.sum() // 2 * 2]
    return applied(
        f"pair_of_{dtype}(X[2 * i], X[2 * i + 1])", "float", "unsigned int", x, found.view(np.uint16).astype(np.uint32)
    )


def raised_pairs() -> Trial:
    """Bits of each half of a word as fractions of a number."""
    x = np.random.default_rng(5).integers(0, 1 << 32, 64, dtype=np.uint32)
    call = "raised_pair(X[i], 0x00f0000fu, 0x54006400u)"
    return applied(call, "unsigned int", "unsigned int", x, x & 0x00F0000F | 0x54006400)


def bytes_of_words(first: int, second: int) -> Trial:
    """Two bytes of the second of two words, or one twice, with 0x64 above each."""
    x = np.random.default_rng(6).integers(0, 256, (64, 8), dtype=np.uint8)
    wanted = np.stack([x[:, first], np.full(64, 0x64), x[:, second], np.full(64, 0x64)], 1).astype(np.uint8)
    call = f"bytes_of(&X[2 * i], {first}, {second}, 0x64)"
    return applied(call, "unsigned int", "unsigned int", x.view(np.uint32).reshape(-1), wanted.view(np.uint32)[:, 0])


def byte_twice(at: int) -> Trial:
    """A byte of a word in each half, from a bit of it on; what is above the first one is of the second."""
    x = np.random.default_rng(8).integers(0, 1 << 32, 64, dtype=np.uint32)
    wanted = ((x >> at // 8 * 8 & 0xFF) * np.uint32(0x10001)) >> at % 8
    return applied(f"byte_twice(X[i], {at})", "unsigned int", "unsigned int", x, wanted.astype(np.uint32))


def halves_of_words(at: int) -> Trial:
    """The halves of two words that have a bit, from that bit on."""
    x = np.random.default_rng(9).integers(0, 1 << 32, 128, dtype=np.uint32)
    low, high = (x[n::2] >> at // 16 * 16 & 0xFFFF for n in (0, 1))
    wanted = ((low | high << 16) >> at % 16).astype(np.uint32)
    return applied(f"halves_of(X[2 * i], X[2 * i + 1], {at})", "unsigned int", "unsigned int", x, wanted)


def loaded(how: str) -> Trial:
    """Four words at once."""
    x = np.random.default_rng(7).integers(0, 1 << 32, 256, dtype=np.uint32)
    return applied(f"load_{how}(&X[4 * i]).z", "unsigned int", "unsigned int", x, np.ascontiguousarray(x[2::4]))


def extreme(name: str) -> Trial:
    """`max` or `min` of each number with each, -0 below 0."""
    both = np.stack(np.meshgrid(SPECIAL, SPECIAL), axis=-1).reshape(-1, 2)
    bits = both.view(np.uint32)
    chosen, of_zeros = {"max": (np.maximum, np.bitwise_and), "min": (np.minimum, np.bitwise_or)}[name]
    found = np.where((both == 0).all(axis=1), of_zeros(*bits.T), chosen(*both.T).view(np.uint32))
    return applied(
        f"{name}_nan_of(X[2 * i], X[2 * i + 1])",
        "float",
        "float",
        both,
        np.where(np.isnan(both).any(axis=1), NAN, found).view(np.float32),
    )


def exponential(is_special: bool) -> Trial:
    """2^x: exact where PTX says what it is, elsewhere two ulps from it at most; what would be subnormal is 0."""
    tiny = np.array([0, 1, 0x007FFFFF, 0x80000000, 0x80000001, 0x807FFFFF], np.uint32).view(np.float32)
    far = np.array([-np.inf, np.inf, -1000, -150, -127, 128, 1000], np.float32)
    plain = np.concatenate([np.linspace(-125.9, 127.9, 2001), np.linspace(-1, 1, 501), np.arange(-125, 128)]).astype(
        np.float32
    )
    x = np.concatenate([tiny, far] if is_special else [plain, SPECIAL[np.isnan(SPECIAL)]])
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = np.exp2(x.astype(np.float64)).astype(np.float32)
    return applied(
        "exp2_approx(X[i])",
        "float",
        "float",
        x,
        np.where(wanted < 2.0**-126, np.float32(0), wanted),
        ulps=0 if is_special else 2,
    )


def reciprocal(is_special: bool) -> Trial:
    """1/x: exact where PTX says what it is, elsewhere one ulp from it at most; subnormals are zeros on both sides."""
    edges = np.array([0, 1, 0x007FFFFF, 0x7E800001, 0x7F000000, 0x7F7FFFFF, 0x7F800000], np.uint32)
    edges = np.concatenate([edges, edges | np.uint32(1 << 31)]).view(np.float32)
    draws = np.random.default_rng(8)
    plain = (draws.uniform(1, 2, 3001) * 2.0 ** draws.integers(-125, 125, 3001)).astype(np.float32)
    x = edges if is_special else np.concatenate([plain, -plain, SPECIAL[np.isnan(SPECIAL)]])
    least = np.float32(2.0**-126)
    with np.errstate(divide="ignore", invalid="ignore"):
        flat = np.where(np.abs(x) < least, np.copysign(np.float32(0), x), x)
        wanted = (1 / flat.astype(np.float64)).astype(np.float32)
    wanted = np.where(np.abs(wanted) < least, np.copysign(np.float32(0), wanted), wanted)
    return applied("recip_approx(X[i])", "float", "float", x, wanted, ulps=0 if is_special else 1)


STORE = (
    """extern "C" __global__ void k(const uint4 *A, uint4 *B) { store_words_last(B + threadIdx.x, A[threadIdx.x]); }"""
)


def stored() -> Trial:
    """Sixteen bytes of each thread."""
    a = np.random.default_rng(7).integers(0, 1 << 32, 4 * 33, dtype=np.uint32)
    return Trial(STORE, {"A": a}, {"B": a.copy()}, {"block": (33,)})


COPY = """extern "C" __global__ void k(const unsigned char *A, unsigned char *B) { copy_16(B + 16 * threadIdx.x, A + threadIdx.x); }"""  # noqa: E501


def copied() -> Trial:
    """Sixteen bytes from each of 33 places that follow one another."""
    a = (np.arange(48) + 1).astype(np.uint8)
    return Trial(COPY, {"A": a}, {"B": np.lib.stride_tricks.sliding_window_view(a, 16).copy()}, {"block": (33,)})


BITS = {  # of results by those of operands
    "fp16_of_float(X[i]).bits": {
        0x3F801000: 0x3C00,
        0x3F803000: 0x3C02,
        0x477FEFFF: 0x7BFF,
        0x477FF000: 0x7C00,
        0x33000000: 0,
        0x33000001: 1,
        0xB3000001: 0x8001,
        0xFFC00001: 0x7FFF,
    },
    "bf16_of_float(X[i]).bits": {
        0x3F808000: 0x3F80,
        0x3F818000: 0x3F82,
        0x7F7F7FFF: 0x7F7F,
        0x7F7F8000: 0x7F80,
        0x00008000: 0,
        0x80008001: 0x8001,
        0x7F800001: 0x7FFF,
    },
    "__float_as_uint(max_nan_of(0.0f, X[i]))": {0x80000000: 0, 1: 1, 0x80000001: 0, 0xFFC12345: 0x7FFFFFFF},
    "__float_as_uint(min_nan_of(0.0f, X[i]))": {
        0x80000000: 0x80000000,
        1: 0,
        0x80000001: 0x80000001,
        0x7F800001: 0x7FFFFFFF,
    },
    "__float_as_uint(exp2_approx(X[i]))": {
        0: 0x3F800000,
        0x80000001: 0x3F800000,
        0x7F800000: 0x7F800000,
        0xFF800000: 0,
        0xC2FD0000: 0,
    },
}


@pytest.mark.parametrize("call", BITS)
def test_special_numbers_give_what_the_gpu_gives(call: str) -> None:
    x, wanted = (np.array([*bits], np.uint32) for bits in (BITS[call], BITS[call].values()))
    trial = applied(call, "float", "unsigned int", x.view(np.float32), wanted)
    assert trial.differing(trial.on(SimDevice()), trial.wanted) == []
