"""fp32 on Hopper's matrix units by TF32: what the copy engine rounds, operands from shared memory and from registers,
every layout that they take."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tinyir.ir import gpu, manifest, plan, region
from tinyir.ir.gpu import nodes
from tinyir.ir.gpu.walk import statements
from tinyir.lower import gpu as to_gpu
from tinyir.lower import plan as to_plan
from tinyir.runtime.compile import cubin_of, find_nvcc, find_nvrtc, usage_of
from tinyir.sim.host import COMPILERS

from .checked import check_gpu, check_plan
from .emitted import lowered, simulated
from .simulated import Trial, simulate
from .test_multistage import is_right
from .test_sim_matrix import summed, with_specials
from .test_tf32 import hard, sized
from .test_warp_specialized import BATCHED, BIAS, RESIDUAL, SCALED, product

needs_host_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
Sizes = tuple[int, int, int]


def of_words(layout: str, sizes: Sizes = (512, 512, 512), **kind: str) -> region.Module:
    """The fp32 product as a region."""
    return product(layout, sizes=sized(sizes), **{"dtype": "fp32", "out": "fp32", **kind})


def proposed(module: region.Module, math: str = "tf32", padded: tuple[str, ...] = ()) -> list[plan.Plan]:
    """The warp-specialised candidates that multiply fp32 so and pad these operands."""
    found = to_plan.candidates(module, module.program.regions[0], fp32=math)
    kept = [
        c.plan
        for c in found
        if c.rejected in ("", to_plan.CROWDED) and (c.plan.algo, c.plan.math) == ("warp_specialized", math)
    ]
    return [p for p in kept if tuple(item.tensor for item in p.layout) == padded]


def with_tile(
    module: region.Module,
    tile: tuple[int, int],
    cluster: tuple[int, ...] = (1, 1),
    math: str = "tf32",
    padded: tuple[str, ...] = (),
    **fields: object,
) -> plan.Module:
    """The module with the candidate of this tile and cluster, on few CTAs that walk over the tiles."""
    found = (p for p in proposed(module, math, padded) if p.persistent and p.tile[:2] == tile)
    one = next(p for p in found if (p.cluster.shape if p.cluster else (1, 1)) == cluster)
    return plan.Module(module, (replace(one, persistent=2 * cluster[0] * cluster[1], **fields),))


# --- plans and text


@pytest.mark.parametrize(
    ("layout", "is_swapped", "is_held"), [("NT", False, False), ("NN", True, True), ("TT", False, True)]
)
def test_a_left_operand_across_the_sum_comes_from_registers(layout: str, is_swapped: bool, is_held: bool) -> None:
    module = of_words(layout)
    plans = proposed(module)
    assert {p.swap_ab for p in plans if p.persistent} == {is_swapped} and to_plan.lower(module, fp32="tf32").plans[
        0
    ].algo == "warp_specialized"
    for one in {p.tile: p for p in plans}.values():
        assert check_plan(plan.Module(module, (one,))) == []
        kernels = to_gpu.lower(plan.Module(module, (one,)))
        assert check_gpu(kernels) == [] and gpu.parse(gpu.show(kernels)) == kernels
        every = list(statements(kernels.kernels[0].body))
        (by_unit,) = [s for s in every if isinstance(s, nodes.Wgmma)]
        assert by_unit.b_transposed and by_unit.shape.endswith("k8") and (by_unit.a.name == "af") == is_held
        assert {m.rounding for m in every if isinstance(m, nodes.TensorMap) and m.tensor in "AB"} == {"tf32"}


def test_two_operands_across_the_sum_are_refused_as_they_are() -> None:
    assert proposed(of_words("TN")) == []
    one = with_tile(of_words("NT"), (128, 128)).plans[0]
    for layout in ("TN", "NN"):
        assert {d.code for d in check_plan(plan.Module(of_words(layout), (one,))) if d.is_error}


def test_every_candidate_holds_its_own_invariants() -> None:
    """Accumulators of a plan fit in the registers that it gives its consumers, whatever the factors."""
    for dtype, math in (("fp32", "tf32"), ("fp8e4m3", ""), ("fp16", "")):
        module = product("NT", dtype=dtype, out="bf16", sizes=sized((4096, 4096, 4096)))
        for c in to_plan.candidates(module, module.program.regions[0], fp32=math):
            if c.rejected in ("", to_plan.CROWDED):
                assert check_plan(plan.Module(module, (c.plan,))) == []


CHANGES = [
    ("wait_group wgmma pending 1 for %mma", "wait_group wgmma pending 2 for %mma", "E1617"),
    ("      wait_group wgmma pending 0 for %mma\n", "", "E1617"),
    ("arrive empty[s.previous]", "arrive empty[s.slot]", "E1613"),
    ("barrier warpgroup", "fence wgmma", "E1613"),
    ("round tf32", "round fp32", "E1602"),
    ("ring 2 wgmma_a", "ring 2 mma_c", "E1602"),
]


@pytest.mark.parametrize(("good", "bad", "code"), CHANGES)
def test_what_a_product_still_works_on_is_not_touched(good: str, bad: str, code: str) -> None:
    text = gpu.show(to_gpu.lower(with_tile(of_words("TT"), (128, 128))))
    assert good in text and code in {d.code for d in check_gpu(gpu.parse(text.replace(good, bad)))}


# --- results

CASES = [
    ("NT", (128, 256), (2, 1), {}, (200, 264, 136)),
    ("NT", (64, 64), (1, 1), RESIDUAL, (72, 80, 100)),
    ("NN", (256, 128), (1, 2), {}, (264, 264, 72)),
    ("NN", (64, 64), (1, 1), SCALED, (70, 72, 100)),
    ("NN", (160, 192), (1, 2), BIAS, (168, 200, 64)),
    ("NN", (128, 256), (2, 1), {"out": "fp16"}, (136, 264, 72)),
    ("TT", (128, 192), (1, 1), SCALED, (140, 200, 64)),
    ("TT", (256, 96), (1, 2), {"out": "bf16"}, (264, 104, 72)),
    ("TT", (64, 256), (1, 1), BIAS, (72, 131, 132)),
]


def fp32_words(kind: dict[str, str]) -> dict[str, str]:
    """The epilogue with tensors of fp32."""
    return {key: text.replace("fp16[M", "fp32[M") if key == "extra" else text for key, text in kind.items()}


@needs_host_compiler
@pytest.mark.parametrize(("layout", "tile", "cluster", "kind", "sizes"), CASES, ids=lambda v: str(v)[:18])
def test_whole_numbers_are_exact(
    layout: str, tile: tuple[int, int], cluster: tuple[int, int], kind: dict, sizes: Sizes
) -> None:
    assert is_right(with_tile(of_words(layout, sizes, **fp32_words(kind)), tile, cluster), dict(zip("MNK", sizes)))


@needs_host_compiler
@pytest.mark.parametrize("layout", ["NN", "NT", "TT"])
def test_rows_of_any_length_are_padded(layout: str) -> None:
    sizes = (67, 71, 133)
    assert is_right(with_tile(of_words(layout, sizes), (64, 64), padded=("A", "B")), dict(zip("MNK", sizes)))


@needs_host_compiler
@pytest.mark.parametrize(("layout", "sizes"), [("TT", (64, 64, 512)), ("NN", (16, 72, 512)), ("NN", (33, 72, 256))])
def test_a_sum_that_ends_in_shared_memory_is_exact(layout: str, sizes: Sizes) -> None:
    module = of_words(layout, sizes)
    ends = {(p.parts, p.tile[:2]): p for p in proposed(module) if p.has_one_tile}
    for one in list(ends.values())[:3]:
        assert is_right(plan.Module(module, (one,)), dict(zip("MNK", sizes)))


@needs_host_compiler
def test_batches_and_joined_axes_are_right() -> None:
    module = region.parse(BATCHED.lstrip().replace("fp16", "fp32").replace("K=64", "K=136"))
    assert is_right(with_tile(module, (64, 64)), {"H": 2, "M": 3, "S": 30, "K": 136, "N": 72})


def of_rounded(a: np.ndarray, b: np.ndarray, cut: bool) -> np.ndarray:
    """a b with factors of 11 bits, cut off or rounded to nearest, summed in fp64."""

    def short(x: np.ndarray) -> np.ndarray:
        bits = x.view(np.uint32)
        return (
            ((bits if cut else bits + np.uint32(0xFFF) + (bits >> 13 & 1)) & np.uint32(0xFFFFE000))
            .view(np.float32)
            .astype(np.float64)
        )

    return short(a) @ short(b)


@needs_host_compiler
@pytest.mark.parametrize("layout", ["NN", "NT", "TT"])
@pytest.mark.parametrize("kind", ["normal", "positive"])
def test_factors_are_rounded_and_not_cut(layout: str, kind: str) -> None:
    """The error is that of rounding alone; with bits cut off it would be twice as large, and for positive factors of
    one sign."""
    a, b = hard(kind, 256)
    given = {"A": a.T if layout[0] == "T" else a, "B": b.T if layout[1] == "T" else b}
    ours = simulated(
        lowered(with_tile(of_words(layout, (64, 64, 256)), (64, 64)))[1],
        {n: np.ascontiguousarray(x) for n, x in given.items()},
    )["C"].astype(np.float64)
    exact = a.astype(np.float64) @ b
    error, rounded, cut = (
        np.sqrt(np.mean((c - exact) ** 2)) for c in (ours, of_rounded(a, b, False), of_rounded(a, b, True))
    )
    assert error < 1.02 * rounded and error < 0.6 * cut


# --- the units

LEFT = {
    "shared": ("", "matrix_descriptor(a, 16, 1024) + 2 * s", ""),
    "along": ("unsigned int x[2][2][4]; rows_along<128>(x, a, 0, 0);", "x[s / 2][s % 2]", "_of_registers"),
    "across": ("unsigned int x[2][2][4]; rows_across<32>(x, a, 0, 0);", "x[s / 2][s % 2]", "_of_registers"),
}


def product_of_words(way: str, n: int, is_special: bool = False) -> Trial:
    """32 along the sum; whole numbers that fit in 11 bits, whatever bits follow."""
    draw = np.random.default_rng(n)
    a, b = (draw.integers(-8, 9, (rows, 32)).astype(np.float32) for rows in (64, n))
    a = with_specials(a) if is_special else a
    before, left, suffix = LEFT[way]
    place = (
        "swizzled_at<128>(a + i % 64 / 32 * 1024, i / 64, i % 32)"
        if way == "across"
        else "swizzled_at<128>(a, i / 32, i % 32)"
    )
    code = f"""extern "C" __global__ void k(const float *A, const float *B, float *D) {{
  extern __shared__ __align__(1024) unsigned char smem[];
  float *const a = (float *)smem, *const b = (float *)(smem + 8192);
  const int t = threadIdx.x;
  for (int i = t; i < 2048; i += 128) {place} = A[i];
  for (int i = t; i < {32 * n}; i += 128) swizzled_at<128>(b, i / 32, i % 32) = B[i];
  fence_async_proxy();
  __syncthreads();
  {before}
  float d[{n // 2}];
  wgmma_fence();
  #pragma unroll
  for (int s = 0; s < 4; ++s) wgmma_m64n{n}k8_tf32{suffix}(d, {left}, matrix_descriptor(b, 16, 1024) + 2 * s, s > 0);
  wgmma_commit();
  wgmma_wait<0>();
  #pragma unroll
  for (int i = 0; i < {n // 2}; ++i) D[(16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2)) * {n} + 8 * (i / 4) + 2 * (t % 4) + i % 2] = d[i];
}}"""  # noqa: E501
    wide = [
        (x.view(np.uint32) | np.uint32(0x1FFF)).view(np.float32) if way != "shared" else x
        for x in (a.T if way == "across" else a, b)
    ]
    return Trial(code, {"A": wide[0], "B": wide[1]}, {"D": summed(a, b.T)}, {"shared": 8192 + 128 * n})


ROUNDED = """extern "C" __global__ void k(const __grid_constant__ tensor_map map, const float *X, float *Y) {
  extern __shared__ __align__(1024) unsigned char smem[];
  __shared__ unsigned long long full;
  if (threadIdx.x == 0) mbarrier_init(&full, 1);
  fence_mbarrier_init();
  __syncthreads();
  if (threadIdx.x == 0) { mbarrier_expect(&full, 256); tma_load_1d(smem, &map, &full, 0); }
  mbarrier_wait(&full, 0);
  Y[threadIdx.x] = ((float *)smem)[threadIdx.x];
}"""


def rounded() -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arrays and options of ROUNDED: numbers of every kind, as the copy engine brings them."""
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
        0x00001001,
    ]
    return ({"X": bits.view(np.float32)}, {"Y": np.empty(64, np.float32)}), {
        "maps": {"m": ("X", (64,), 0, "tf32")},
        "block": (64,),
        "shared": 256,
    }


@needs_host_compiler
def test_the_copy_engine_rounds_to_nearest_ties_to_even() -> None:
    arrays, how = rounded()
    got = simulate(ROUNDED, *arrays, **how)["Y"].view(np.uint32)
    assert [hex(word) for word in got[:12]] == [
        hex(word)
        for word in (
            0,
            0x80000000,
            0x7F800000,
            0xFF800000,
            0x7FFFE000,
            0x7FFFE000,
            0x7F800000,
            0x3F800000,
            0x3F800000,
            0x3F804000,
            0,
            0x2000,
        )
    ]


# --- the compiler


def shipped(
    math: str = "tf32", layouts: tuple[str, ...] = ("NN", "NT", "TT"), outs: tuple[str, ...] = ("fp32", "fp16")
) -> list[tuple[str, str, plan.Module]]:
    """One plan of each tile and manner of candidates, with a name."""
    found: dict[tuple, plan.Module] = {}
    for layout in layouts:
        for out in outs:
            module = of_words(layout, out=out, **SCALED)
            for p in proposed(module, math):
                cluster = p.cluster.shape if p.cluster else ()
                found.setdefault(
                    (layout, out, *p.tile[:2], p.swap_ab, p.parts > 1, bool(p.persistent), cluster),
                    plan.Module(module, (p,)),
                )
    return [("-".join(re.sub(r"\W", "", str(word)) for word in key), math, module) for key, module in found.items()]


def compiles_well(module: plan.Module) -> bool:
    """Whether ptxas has nothing to say against it: no spills, no serialised products, registers set as asked."""
    compiler = find_nvrtc() or find_nvcc()
    if compiler is None:
        pytest.skip("no CUDA compiler is installed")
    cubin = cubin_of(manifest.show(lowered(module)[1]), "sm_90a", compiler)
    is_small = all(
        (usage.stack, usage.spill_stores, usage.spill_loads) == (0, 0, 0) for usage in usage_of(cubin).values()
    )
    return is_small and not any(word in cubin.log.lower() for word in ("warning", "serialized", "ignored"))


QUICK = (("NN", (256, 128)), ("TT", (256, 96)), ("NT", (128, 256)))


@pytest.mark.parametrize(("layout", "tile"), QUICK)
def test_a_shipped_plan_compiles_without_spills_or_serialised_products(layout: str, tile: tuple[int, int]) -> None:
    assert compiles_well(with_tile(of_words(layout, **SCALED), tile))


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["NN", "NT", "TT"])
def test_every_shipped_plan_compiles_without_spills_or_serialised_products(layout: str) -> None:
    assert [name for name, _, module in shipped(layouts=(layout,)) if not compiles_well(module)] == []
