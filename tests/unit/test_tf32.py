"""fp32 on the tensor cores of mma.sync: as exact as fp32 by `tf32x3`, by `tf32` where that is asked for, and never
silently."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tinyir.ir import gpu, manifest, plan, region
from tinyir.kernels.multistage.space import TILES_OF
from tinyir.lower import gpu as to_gpu
from tinyir.lower import plan as to_plan
from tinyir.runtime.compile import cubin_of, find_nvcc, find_nvrtc, usage_of
from tinyir.sim.host import COMPILERS
from tinyir.sim.launch import SimDevice

from .checked import check_gpu, check_plan
from .emitted import lowered, region_text, simulated
from .simulated import Trial
from .test_multistage import is_right
from .test_sim_matrix import summed, with_specials
from .test_warp_specialized import BATCHED, BIAS, RESIDUAL, SCALED, product

needs_host_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
WORDS = {"dtype": "fp32", "out": "fp32"}
LARGEST = np.finfo(np.float32).max


def sized(sizes: tuple[int, int, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in zip("MNK", sizes))


def planned(
    sizes: tuple[int, int, int],
    layout: str = "NN",
    tile: tuple[int, ...] = (64, 64, 32),
    math: str = "",
    is_free: bool = False,
    **kind: str,
) -> plan.Module:
    """The fp32 product with the multistage candidate of this tile; of those that assume nothing of the rows where
    `is_free`."""
    module = product(layout, sizes=sized(sizes), **{**WORDS, **kind})
    found = [
        c.plan
        for c in to_plan.candidates(module, module.program.regions[0], fp32=math)
        if c.rejected in ("", to_plan.CROWDED)
    ]
    return plan.Module(
        module, (next(p for p in found if p.algo == "multistage" and p.tile == tile and not (is_free and p.vectorize)),)
    )


def of_fp32(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a b, one rounded multiply-add after the other."""
    total = np.zeros((len(a), b.shape[1]), np.float32)
    with np.errstate(all="ignore"):
        for k in range(a.shape[1]):
            total = (total + a[:, k : k + 1].astype(np.float64) * b[k]).astype(np.float32)
    return total


def multiplied(a: np.ndarray, b: np.ndarray, math: str = "") -> np.ndarray:
    """What the kernel gives."""
    (m, k), n = a.shape, b.shape[1]
    return simulated(lowered(planned((m, n, k), math=math))[1], {"A": a, "B": b})["C"]


# --- plans


def test_a_sum_long_enough_is_multiplied_by_tf32x3_and_the_text_says_so() -> None:
    first, *others = to_plan.lower(product("NN", sizes=sized((1024, 1024, 1024)), **WORDS)).plans
    assert first.math == "tf32x3" and "math       tf32x3\n" in plan.show_plan(first)
    assert "128 <= K" in plan.show_plan(first) and (others[-1].algo, others[-1].math, others[-1].assume) == (
        "synchronous",
        "",
        (),
    )
    short = to_plan.lower(product("NN", sizes=sized((1024, 1024, 120)), **WORDS)).plans
    assert {p.math for p in short} == {""}


@pytest.mark.parametrize("arch", ["sm80", "sm90"])
def test_tf32_is_taken_where_it_is_asked_for_and_nowhere_else(arch: str) -> None:
    for dtype in ("fp32", "fp16"):
        module = product("NN", dtype=dtype, out="fp32", sizes=sized((1024, 1024, 1024)))
        found = {math: to_plan.lower(module, arch=arch, fp32=math).plans[0].math for math in ("", "tf32")}
        assert found == ({"": "tf32x3", "tf32": "tf32"} if dtype == "fp32" else {"": "", "tf32": ""})


def test_math_is_read_checked_and_refused_where_it_has_no_place() -> None:
    module = planned((128, 128, 128))
    assert check_plan(module) == [] and plan.parse(plan.show(module)) == module
    assert [d.code for d in check_plan(plan.Module(module.program, (replace(module.plans[0], math="fp8"),)))] == [
        "E1503"
    ]
    halves = product("NN")
    for one in {p.algo: p for p in (c.plan for c in to_plan.candidates(halves, halves.program.regions[0]))}.values():
        assert {d.code for d in check_plan(plan.Module(halves, (replace(one, math="tf32x3"),))) if d.is_error}
    assert {d.code for d in check_plan(plan.Module(module.program, (replace(module.plans[0], math=""),))) if d.is_error}


def test_an_unknown_word_behind_an_mma_is_named() -> None:
    text = gpu.show(to_gpu.lower(planned((128, 128, 128))))
    assert {d.code for d in check_gpu(gpu.parse(text.replace("m16n8k8 math tf32x3", "m16n8k8 math tf32x2")))} == {
        "E1602"
    }


# --- results

CASES = [
    ("NN", (130, 136, 136), {}),
    (
        "NT",
        (70, 131, 132),
        {"extra": BIAS["extra"].replace("fp16", "fp32"), "epilogue": "%act = relu(%gemm)", "value": "act"},
    ),
    ("TN", (66, 65, 131), SCALED),
    (
        "TT",
        (1, 8, 128),
        {
            "extra": RESIDUAL["extra"].replace("fp16", "fp32"),
            "epilogue": "%added = add(%gemm, R[i0, i1])",
            "value": "added",
        },
    ),
    ("NN", (65, 70, 130), {"out": "fp16"}),
]


@needs_host_compiler
@pytest.mark.parametrize(("layout", "sizes", "kind"), CASES, ids=lambda v: str(v)[:16])
@pytest.mark.parametrize("tile", [(64, 64, 32), (128, 64, 32)])
def test_whole_numbers_are_exact(layout: str, sizes: tuple[int, int, int], kind: dict, tile: tuple[int, ...]) -> None:
    assert is_right(planned(sizes, layout, tile, **kind), dict(zip("MNK", sizes)))


@needs_host_compiler
def test_batches_and_joined_axes_are_right() -> None:
    module = region.parse(BATCHED.lstrip().replace("fp16", "fp32").replace("K=64", "K=136"))
    found = to_plan.candidates(module, module.program.regions[0])
    one = next(c.plan for c in found if c.plan.math)
    assert is_right(plan.Module(module, (one,)), {"H": 2, "M": 3, "S": 30, "K": 136, "N": 72})


def convolution(dtype: str, stride: int) -> Any:
    """A padded 3 x 3 convolution of 16 channels as a region."""
    high, wide = (
        f"{stride}*{i} + {k} - 1" if stride > 1 else f"{i} + {k} - 1" for i, k in (("i2", "k1"), ("i3", "k2"))
    )
    size = -(-9 // stride)
    value = "%act" if dtype == "fp32" else f"cast(%act) : {dtype}"
    text = region_text(
        f"in  X : {dtype}[N, 16, 9, 9]\nin  W : {dtype}[40, 16, 3, 3]\nout Y : {dtype}[N, 40, {size}, {size}]",
        f"for i0: N, i1: 40, i2: {size}, i3: {size}\n%conv = reduce sum (k0: 16, k1: 3, k2: 3) : fp32 {{ "
        f"mul(X[i0, k0, {high}, {wide}] "
        f"where 0 <= {high} < 9 and 0 <= {wide} < 9 else 0.0, W[i1, k0, k1, k2]) : fp32 }}\n%act = relu(%conv)\n"
        f"yield Y[i0, i1, i2, i3] = {value}",
    )
    return region.parse(text.replace("\nprogram r", "shapes default {N=2}\n\nprogram r", 1))


@needs_host_compiler
@pytest.mark.parametrize(("dtype", "by"), [("fp32", "cp_async"), ("fp16", "ld")])
@pytest.mark.parametrize("stride", [1, 2])
def test_a_window_is_gathered_element_by_element(dtype: str, by: str, stride: int) -> None:
    module = convolution(dtype, stride)
    one = next(
        c.plan
        for c in to_plan.candidates(module, module.program.regions[0])
        if c.plan.algo == "multistage" and c.plan.tile[:2] == (64, 64)
    )
    planned = plan.Module(module, (one,))
    assert check_plan(planned) == [] and {item.by for item in one.load} == {by} and one.vectorize == ()
    assert is_right(planned, {"N": 2})


def hard(kind: str, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """Factors whose products nearly cancel, or differ much in size."""
    draw = np.random.default_rng(depth)
    a, b = (draw.standard_normal(shape).astype(np.float32) for shape in ((64, depth), (depth, 64)))
    if kind == "halves":  # the second half takes back the first but for a little
        a[:, depth // 2 :] = -a[:, : depth // 2] * np.float32(1 + 2**-12)
        b[depth // 2 :] = b[: depth // 2]
    elif kind == "sizes":
        a *= np.exp2(draw.integers(-20, 20, a.shape)).astype(np.float32)
    elif kind == "positive":
        a, b = np.abs(a), np.abs(b)
    elif kind == "small":
        a *= np.float32(2.0**-120)
    return a, b


@needs_host_compiler
@pytest.mark.parametrize("depth", [128, 256])
@pytest.mark.parametrize("kind", ["normal", "halves", "sizes", "positive", "small"])
def test_tf32x3_is_no_farther_from_fp64_than_fp32(kind: str, depth: int) -> None:
    a, b = hard(kind, depth)
    exact = a.astype(np.float64) @ b
    ours, theirs = (np.sqrt(np.mean((c - exact) ** 2)) for c in (multiplied(a, b).astype(np.float64), of_fp32(a, b)))
    assert 0 < ours <= theirs


@needs_host_compiler
def test_tf32_rounds_its_factors() -> None:
    a, b = hard("normal", 128)
    error = np.abs(multiplied(a, b, "tf32") - a.astype(np.float64) @ b).max()
    assert 1e-4 < error < 128 * 2**-10


def assert_specials_are_those_of_fp32(
    multiplied: Callable[[np.ndarray, np.ndarray], np.ndarray], value: float, side: int
) -> None:
    """That an operand with a special value here and there, beside zeros, ones and next to nothing, gives infinities and
    NaN where fp32 does, and its numbers."""
    a, b = hard("normal", 128)
    a[:, ::7], b[::5, ::3] = 1, 0
    a[a == 1] += np.float32(2**-20)
    (a, b)[side][3, 5] = value
    (a, b)[side][60, 61] = -value if side else value
    a[5, 40], b[41, 9] = 2**-126, -np.float32(2**-140)
    ours, theirs = multiplied(a, b), of_fp32(a, b)
    assert np.array_equal(np.isnan(ours), np.isnan(theirs)) and np.array_equal(np.isinf(ours), np.isinf(theirs))
    plain = np.isfinite(theirs)
    assert np.array_equal(ours[~plain & ~np.isnan(theirs)], theirs[~plain & ~np.isnan(theirs)])
    assert np.allclose(ours[plain], theirs[plain], rtol=2e-6, atol=2e-5)


@needs_host_compiler
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, LARGEST, -LARGEST])
@pytest.mark.parametrize("side", [0, 1])
def test_infinities_and_nan_are_those_of_fp32(value: float, side: int) -> None:
    assert_specials_are_those_of_fp32(multiplied, value, side)


@needs_host_compiler
def test_factors_too_small_for_eleven_bits_keep_theirs() -> None:
    draw = np.random.default_rng(5)
    a = (draw.integers(-(2**14), 2**14, (64, 128)) * 2.0**-149).astype(np.float32)
    b = np.ldexp(np.eye(128), 100).astype(np.float32)
    assert np.abs(multiplied(a, b) - a * 2.0**100).max() <= 2.0**-47  # four of the least numbers


# --- the unit and the compiler

MMA = """extern "C" __global__ void k(const float *A, const float *B, float *C) {
  const int g = threadIdx.x / 4, q = threadIdx.x % 4;
  unsigned int a[4], b[2];
  for (int i = 0; i < 4; ++i) a[i] = tf32_of(A[(g + i % 2 * 8) * 8 + q + i / 2 * 4]);
  for (int i = 0; i < 2; ++i) b[i] = __float_as_uint(B[(q + i * 4) * 8 + g]) | 0x1fffu;
  float d[4] = {1, 2, 3, 4};
  mma_m16n8k8_tf32(d, a, b[0], b[1]);
  for (int e = 0; e < 4; ++e) C[8 * (g + 8 * (e / 2)) + 2 * q + e % 2] = d[e];
}"""
ROUNDED = (
    'extern "C" __global__ void k(const float *X, unsigned int *Y) { for (int i = threadIdx.x; i < 64; i += 32) Y[i] '
    "= tf32_of(X[i]); }"
)


def warp_product(is_special: bool = False) -> Trial:
    """Whole numbers that fit in 11 bits, whatever bits follow."""
    draw = np.random.default_rng(1)
    a, b = (draw.integers(-8, 9, shape).astype(np.float32) for shape in ((16, 8), (8, 8)))
    a = with_specials(a) if is_special else a
    start = np.array([[1, 2], [3, 4]], np.float32).repeat(8, axis=0)[:, None, :].repeat(4, axis=1).reshape(16, 8)
    return Trial(MMA, {"A": a, "B": b}, {"C": summed(a, b, start)}, {"block": (32,)})


def rounded() -> Trial:
    """Numbers of every kind to nearest, ties away from zero; a NaN keeps its sign and the first bits of its payload."""
    bits = np.random.default_rng(2).integers(0, 2**32, 64, np.uint64).astype(np.uint32)
    bits[:12] = [
        0,
        0x80000000,
        0x7F800000,
        0xFF800000,
        0x7FC00000,
        0xFFC00001,
        0x7F7FFFFF,
        0x3F801000,
        0x3F800FFF,
        0x3F803000,
        1,
        0x00001000,
    ]
    size = bits & 0x7FFFFFFF
    wanted = np.where(
        size > 0x7F800000, bits | 0x400000, np.where(size == 0x7F800000, bits, bits + np.uint32(0x1000))
    ) & np.uint32(0xFFFFE000)
    return Trial(ROUNDED, {"X": bits.view(np.float32)}, {"Y": wanted}, {"block": (32,)})


@needs_host_compiler
def test_the_twin_rounds_to_nearest_ties_away_from_zero() -> None:
    got = rounded().on(SimDevice())["Y"]
    assert [hex(word) for word in got[:12]] == [
        hex(word)
        for word in (
            0,
            0x80000000,
            0x7F800000,
            0xFF800000,
            0x7FC00000,
            0xFFC00000,
            0x7F800000,
            0x3F802000,
            0x3F800000,
            0x3F804000,
            0,
            0x2000,
        )
    ]


QUICK = ("TT", (64, 64, 32), "sm_80", "", False)
WAYS = (("sm_80", "", False), ("sm_90a", "", True), ("sm_80", "tf32", True), ("sm_90a", "tf32", False))
SHIPPED = [
    (layout, (*tile[:2], 32), *way) for layout in ("NN", "TT") for way in WAYS for tile in TILES_OF[way[1] or "tf32x3"]
]


@pytest.mark.parametrize(
    ("layout", "tile", "target", "math", "is_free"),
    [pytest.param(*way, marks=() if way == QUICK else pytest.mark.slow) for way in SHIPPED],
)
def test_every_shipped_plan_compiles_without_spills(
    layout: str, tile: tuple[int, ...], target: str, math: str, is_free: bool
) -> None:
    compiler = find_nvrtc() or find_nvcc()
    if compiler is None:
        pytest.skip("no CUDA compiler is installed")
    _, code = lowered(planned((512, 512, 512), layout, tile, math, is_free=is_free))
    (usage,) = usage_of(cubin_of(manifest.show(code), target, compiler)).values()
    assert (usage.stack, usage.spill_stores, usage.spill_loads) == (0, 0, 0)
