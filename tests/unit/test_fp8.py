"""Factors of one byte on Hopper's tensor cores: along the sum, promoted to fp32, rounded to any dtype on the way
out."""

from __future__ import annotations

import functools
import shutil
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from tinyir.ir import gpu, manifest, plan, region
from tinyir.ir.evaluate import convert
from tinyir.ir.types import DTYPES
from tinyir.lower import gpu as to_gpu
from tinyir.lower import plan as to_plan
from tinyir.runtime.compile import cubin_of, find_nvcc, find_nvrtc, usage_of
from tinyir.runtime.device import Scalar
from tinyir.sim.host import COMPILERS

from .checked import check_gpu, check_plan
from .emitted import lowered, played, simulated
from .simulated import Trial, swizzled
from .test_any_shape import sized
from .test_sim_matrix import summed, wgmma_kernel, with_specials
from .test_warp_specialized import proposed, with_tile

needs_host_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
BYTES = {"fp8e4m3": ml_dtypes.float8_e4m3fn, "fp8e5m2": ml_dtypes.float8_e5m2}
SCALES = {
    "extra": "in s : fp32[M]; in t : fp32[N]",
    "epilogue": "%rows = mul(%gemm, broadcast_in_dim(s[i0], dims=[0])); %both = mul(%rows, broadcast_in_dim(t[i1], dims=[1]))",  # noqa: E501
    "value": "both",
}
BIASED = {
    "extra": "in bias : bf16[N]",
    "epilogue": "%biased = add(%gemm, broadcast_in_dim(cast(bias[i1]) : fp32, dims=[1])); %act = relu(%biased)",
    "value": "act",
}
SECOND = {
    "extra": "in R : bf16[M, N]; out P : fp8e4m3[M, N]",
    "epilogue": "%added = add(%gemm, cast(R[i0, i1]) : fp32)",
    "value": "added",
}


def of_bytes(sizes: tuple[int, int, int], dtype: str = "fp8e4m3", out: str = "bf16", **kind: str) -> region.Module:
    return sized("NT", sizes, dtype=dtype, out=out, **kind)


def is_right(module: plan.Module, names: dict[str, int], most: int = 3) -> bool:
    """Whether the simulation gives what playback gives, NaN for NaN."""
    _, code = lowered(module)
    draw = np.random.default_rng(3)
    shapes = {
        t.name: ([d.evaluate(names) for d in t.type.shape], DTYPES[t.type.dtype.name])
        for t in module.program.model.inputs
    }
    arrays = {
        name: convert(draw.integers(-most, most + 1, shape).astype(np.float32), dtype)
        for name, (shape, dtype) in shapes.items()
    }
    wanted = played(code, arrays)
    return all(
        np.array_equal(got.astype(np.float64), wanted[name].astype(np.float64), equal_nan=True)
        for name, got in simulated(code, arrays, 1).items()
    )


# --- plans


def test_bytes_along_the_sum_are_multiplied_by_wgmma_and_promoted() -> None:
    first = to_plan.lower(of_bytes((1024, 1024, 1024))).plans[0]
    assert (first.algo, first.tile[2], first.promote) == (
        "warp_specialized",
        128,
        128,
    ) and "promote    128\n" in plan.show_plan(first)
    assert proposed(sized("NT", (1024, 1024, 1024)))[0].promote == 0


@pytest.mark.parametrize("layout", ["NN", "TN", "TT"])
def test_operands_across_the_sum_are_refused_as_they_are(layout: str) -> None:
    module = sized(layout, (1024, 1024, 1024), dtype="fp8e4m3", out="bf16")
    one = with_tile(of_bytes((1024, 1024, 1024)), 64, 64).plans[0]
    assert {d.code for d in check_plan(plan.Module(module, (one,))) if d.is_error}


def test_sm80_has_no_unit_for_bytes_and_a_remark_says_so() -> None:
    module = of_bytes((1024, 1024, 1024))
    assert {p.algo for p in to_plan.lower(module, arch="sm80").plans} == {"synchronous"}
    (said,) = to_plan.verdicts(module, arch="sm80")
    assert said.code == "R3474" and dict(said.facts) == {
        "region": "r",
        "arch": "sm80",
        "dtypes": "fp8e4m3",
        "algo": "synchronous",
    }
    assert to_plan.verdicts(module) == [] and to_plan.verdicts(sized("NT", (1024, 1024, 1024)), arch="sm80") == []


def mixed(
    sizes: tuple[int, int, int], wide: str = "fp16", first: str = "fp8e4m3", second: str = "fp8e5m2", **kind: str
) -> region.Module:
    """The product of bytes of two kinds: each is widened to a float that holds it exactly."""
    text = region.show(of_bytes(sizes, first, **kind)).replace(
        f"in  B           : {first}", f"in  B           : {second}"
    )
    return region.parse(
        text.replace("mul(A[i0, k0], B[i1, k0])", f"mul(cast(A[i0, k0]) : {wide}, cast(B[i1, k0]) : {wide})")
    )


@needs_host_compiler
@pytest.mark.parametrize(
    ("first", "second", "wide"),
    [("fp8e4m3", "fp8e5m2", "fp16"), ("fp8e5m2", "fp8e4m3", "fp32"), ("fp8e4m3", "fp8e4m3", "fp32")],
)
def test_bytes_of_two_kinds_are_multiplied_as_they_are(first: str, second: str, wide: str) -> None:
    sizes = (70, 72, 272)
    module = with_tile(mixed(sizes, wide, first, second, out="fp32"), 64, 64)
    assert check_plan(module) == [] and check_gpu(to_gpu.lower(module)) == []
    name = f"wgmma_m64n64k32_{first}" + (f"_{second}" if first != second else "")
    assert f"{name}(" in manifest.show(lowered(module)[1]) and is_right(module, dict(zip("MNK", sizes)))


@pytest.mark.parametrize("wide", ["bf16", "fp16"])
def test_a_factor_that_is_rounded_is_more_than_bytes(wide: str) -> None:
    """A cast that loses something is work, and so is one of wider elements."""
    text = region.show(sized("NT", (512, 512, 512), dtype="fp32", out="fp32")).replace(
        "mul(A[i0, k0], B[i1, k0])", f"mul(cast(A[i0, k0]) : {wide}, cast(B[i1, k0]) : {wide})"
    )
    assert proposed(region.parse(text)) == []


def test_promotion_elsewhere_than_at_a_step_is_refused() -> None:
    good = with_tile(of_bytes((1024, 1024, 1024)), 64, 64)
    assert check_plan(good) == [] and plan.parse(plan.show(good)) == good
    for fields in ({"promote": 64}, {"promote": 256}):
        assert {d.code for d in check_plan(replace(good, plans=(replace(good.plans[0], **fields),))) if d.is_error}
    halves = next(p for p in proposed(sized("NT", (512, 512, 512))) if p.tile[:2] == (128, 256))
    wide = plan.Module(sized("NT", (512, 512, 512)), (replace(halves, promote=64),))
    assert "E1513" in {d.code for d in check_plan(wide)}


def test_two_sums_are_held_in_turn() -> None:
    module = of_bytes((1024, 1024, 1024))
    one = next(p for p in proposed(module) if p.partials == 2 and p.tile[:2] == (64, 64))
    good = plan.Module(module, (one,))
    assert check_plan(good) == [] and plan.parse(plan.show(good)) == good and "partials   2\n" in plan.show_plan(one)
    text = gpu.show(to_gpu.lower(good))
    assert check_gpu(gpu.parse(text)) == []
    for old, new, code in (
        ("pending 1 for %mma\n", "pending 2 for %mma\n", "E1617"),
        ("pending 0 for %mma.2", "pending 1 for %mma.2", "E1617"),
        ("arrive empty[s.previous]", "arrive empty[s.slot]", "E1613"),
    ):
        assert old in text and code in {d.code for d in check_gpu(gpu.parse(text.replace(old, new)))}
    for fields in ({"promote": 0}, {"partials": 3}):
        assert "E1510" in {d.code for d in check_plan(replace(good, plans=(replace(one, **fields),)))}


def test_accumulators_fit_in_the_registers_of_a_consumer() -> None:
    """Three consumers of 192 x 192 would hold twice 96 sums in 160 registers."""
    module = of_bytes((4096, 4096, 4096))
    found = {
        c.plan.tile[:2]: c.rejected
        for c in to_plan.candidates(module, module.program.regions[0])
        if c.plan.consumers and c.plan.consumers.count == 3 and c.plan.partials == 1
    }
    assert found[192, 192] == "over 160 registers a thread" and found[192, 128] in ("", to_plan.CROWDED)


def test_outputs_of_bytes_leave_in_rows_that_can_be_swizzled() -> None:
    """The pieces of 144 columns are 16 wide, and no swizzle has so few bytes."""
    module = of_bytes((512, 512, 512), out="fp8e4m3")
    found = {
        c.plan.tile[:2]: c
        for c in to_plan.candidates(module, module.program.regions[0])
        if c.plan.persistent and c.plan.partials == 1
    }
    assert found[128, 144].rejected == "C leaves in rows of 16 bytes" and found[128, 160].rejected in (
        "",
        to_plan.CROWDED,
    )
    assert {d.code for d in check_plan(plan.Module(module, (found[128, 144].plan,))) if d.is_error}


def test_a_sum_read_while_it_runs_is_found() -> None:
    text = gpu.show(to_gpu.lower(with_tile(of_bytes((1024, 1024, 1024)), 64, 64)))
    assert check_gpu(gpu.parse(text)) == []
    assert "E1617" in {
        d.code for d in check_gpu(gpu.parse(text.replace("wait_group wgmma pending 0", "wait_group wgmma pending 1")))
    }


# --- results

CASES = [
    ((64, 64), (1, 1), {"out": "fp32"}, (70, 72, 144)),
    ((128, 128), (2, 1), {"out": "fp16", **SCALES}, (130, 200, 272)),
    ((64, 128), (1, 1), {"out": "bf16", **BIASED}, (66, 136, 400)),
    ((128, 64), (1, 1), {"out": "fp8e4m3", **SCALES}, (130, 80, 144)),
    ((128, 128), (1, 1), {"dtype": "fp8e5m2", "out": "fp8e5m2"}, (66, 144, 272)),
    ((64, 64), (1, 1), {"out": "bf16", **SECOND}, (70, 80, 144)),
    ((64, 64), (1, 1), {"out": "fp8e4m3"}, (65, 67, 144)),
]


@needs_host_compiler
@pytest.mark.parametrize(("tile", "cluster", "kind", "sizes"), CASES, ids=lambda v: str(v)[:18])
def test_whole_numbers_are_exact(
    tile: tuple[int, int], cluster: tuple[int, int], kind: dict, sizes: tuple[int, int, int]
) -> None:
    assert is_right(with_tile(of_bytes(sizes, **kind), *tile, cluster), dict(zip("MNK", sizes)))


@needs_host_compiler
@pytest.mark.parametrize(
    ("tile", "sizes"), [((64, 64), (70, 72, 144)), ((128, 128), (130, 136, 656)), ((256, 64), (264, 72, 400))]
)
def test_sums_in_turn_are_exact_whether_steps_are_even_or_odd(
    tile: tuple[int, int], sizes: tuple[int, int, int]
) -> None:
    module = of_bytes(sizes, out="fp32", **SCALES)
    one = next(p for p in proposed(module) if p.partials == 2 and p.tile[:2] == tile and not p.cluster)
    assert is_right(
        plan.Module(module, (replace(one, persistent=2, stages=3, asynchrony=replace(one.asynchrony, prefetch=3)),)),
        dict(zip("MNK", sizes)),
    )


@needs_host_compiler
@pytest.mark.parametrize("sizes", [(67, 71, 133), (64, 66, 158)])
def test_rows_of_any_length_are_padded(sizes: tuple[int, int, int]) -> None:
    assert is_right(
        with_tile(of_bytes(sizes, out="fp32", **SCALES), 64, 64, padded=("A", "B")), dict(zip("MNK", sizes))
    )


@needs_host_compiler
def test_a_sum_that_a_cluster_shares_is_exact() -> None:
    module = of_bytes((64, 64, 1024), out="fp32")
    one = next(p for p in proposed(module, parts=2) if p.tile[:2] == (64, 64))
    assert is_right(plan.Module(module, (one,)), {"M": 64, "N": 64, "K": 1024})


@needs_host_compiler
@pytest.mark.parametrize("out", ["fp8e4m3", "fp8e5m2", "fp16"])
def test_what_is_too_large_becomes_what_the_cast_says(out: str) -> None:
    """e4m3 has no infinity: NaN; e5m2 and fp16 have one."""
    sizes = (64, 64, 512)
    module = of_bytes(sizes, out=out)
    _, code = lowered(with_tile(module, 64, 64))
    arrays = {
        "A": np.full((64, 512), 16, BYTES["fp8e4m3"]),
        "B": np.repeat(np.exp2(np.arange(64) % 8)[:, None], 512, axis=1).astype(BYTES["fp8e4m3"]),
    }
    got, wanted = simulated(code, arrays)["C"].astype(np.float32), played(code, arrays)["C"].astype(np.float32)
    assert np.array_equal(got, wanted, equal_nan=True) and not np.isfinite(got).all()


@needs_host_compiler
def test_promotion_brings_the_error_down() -> None:
    """The unit keeps some 14 bits of a sum, fp32 24."""
    sizes = (64, 64, 1024)
    module = of_bytes(sizes, out="fp32")
    draw = np.random.default_rng(0)
    arrays = {name: np.abs(draw.standard_normal((64, 1024))).astype(BYTES["fp8e4m3"]) for name in "AB"}
    exact = arrays["A"].astype(np.float64) @ arrays["B"].astype(np.float64).T
    errors = [
        np.abs(
            simulated(lowered(with_tile(module, 64, 64, promote=promote, partials=1))[1], arrays)["C"] / exact - 1
        ).max()
        for promote in (128, 0)
    ]
    assert errors[0] < 2**-10 and errors[1] > 3 * errors[0]


# --- the unit and the compiler


def product_of_bytes(n: int, left: str, right: str, is_special: bool = False) -> Trial:
    """128 along the sum, swizzled by 128 bytes."""
    draw = np.random.default_rng(n)
    a, b = (draw.integers(-4, 5, (rows, 128)).astype(BYTES[kind]) for rows, kind in ((64, left), (n, right)))
    a = with_specials(a) if is_special else a
    c = draw.integers(-9, 9, (64, n)).astype(np.float32)
    raw = np.zeros((64 + n) * 128, np.uint8)
    raw[swizzled(np.arange(raw.size), 128)] = np.concatenate([a.view(np.uint8), b.view(np.uint8)]).reshape(-1)
    descriptors = [start >> 4 | 1 << 16 | 64 << 32 | 1 << 62 for start in (0, 64 * 128)]
    numbers = [
        Scalar(raw.nbytes // 4, 4),
        *(Scalar(d, 8) for d in descriptors),
        Scalar(4, 4),
        Scalar(2, 8),
        Scalar(2, 8),
    ]
    name = f"wgmma_m64n{n}k32_{left}" + (f"_{right}" if left != right else "")
    code = wgmma_kernel(n, "fp16", 0, 0).replace(f"wgmma_m64n{n}k16_fp16<0, 0>", name)
    return Trial(
        code, {"raw": raw.view(np.uint16), "C": c}, {"D": summed(a, b.T, c)}, {"scalars": numbers, "shared": raw.nbytes}
    )


@functools.cache
def every_plan(out: str) -> dict[tuple, plan.Plan]:
    """One candidate of each tile, cluster, and number of partial sums."""
    plans = (p for p in proposed(of_bytes((512, 512, 512), out=out, **SCALES)) if p.persistent)
    return {(p.tile[:2], p.cluster.shape if p.cluster else (1, 1), p.partials): p for p in plans}


SHIPPED = [(out, key) for out in ("bf16", "fp8e4m3") for key in every_plan(out)]
QUICK = (((128, 96), (1, 1)), ((64, 64), (1, 1)))  # of two warpgroups, and of one, whose CTA hands no registers on


@pytest.mark.parametrize(
    ("out", "key"), [pytest.param(*way, marks=() if way[1][:2] in QUICK else pytest.mark.slow) for way in SHIPPED]
)
def test_every_shipped_plan_compiles_without_spills_or_serialised_products(out: str, key: tuple) -> None:
    compiler = find_nvrtc() or find_nvcc()
    if compiler is None:
        pytest.skip("no CUDA compiler is installed")
    _, code = lowered(plan.Module(of_bytes((512, 512, 512), out=out, **SCALES), (every_plan(out)[key],)))
    cubin = cubin_of(manifest.show(code), "sm_90a", compiler)
    (usage,) = usage_of(cubin).values()
    assert (usage.stack, usage.spill_stores, usage.spill_loads) == (0, 0, 0)
    assert not any(word in cubin.log.lower() for word in ("warning", "serialized", "ignored"))
