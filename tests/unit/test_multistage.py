"""Contractions on sm80's tensor cores: planned for any rows, right in the simulation, compiled without spills, faults
named."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tinyir.ir import gpu, manifest, plan, region
from tinyir.ir.evaluate import convert
from tinyir.ir.gpu import nodes
from tinyir.ir.gpu.walk import statements
from tinyir.ir.plan import Layout
from tinyir.ir.types import DTYPES
from tinyir.lower import gpu as to_gpu
from tinyir.lower import plan as to_plan
from tinyir.runtime.compile import cubin_of, find_nvcc, find_nvrtc, usage_of
from tinyir.sim.host import COMPILERS

from .checked import check_gpu, check_plan
from .emitted import lowered, played, region_text, simulated
from .test_warp_specialized import BATCHED, BIAS, RESIDUAL, SCALED, product

needs_host_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
LAYOUTS = ("NN", "NT", "TN", "TT")


def proposed(module: region.Module, arch: str = "sm80") -> list[plan.Plan]:
    """The multistage candidates of a region, on sm80 without those that its stop rules reject."""
    found = to_plan.candidates(module, module.program.regions[0], arch=arch)
    return [c.plan for c in found if c.plan.algo == "multistage" and c.rejected in ("", to_plan.CROWDED)]


def with_tile(
    module: region.Module,
    at: tuple[int, int, int],
    is_free: bool = False,
    arch: str = "sm80",
    is_padded: bool = False,
    **fields: Any,
) -> plan.Module:
    """The region with the candidate of this tile; of those that assume nothing where `is_free`, and that pad their
    operands where `is_padded`."""
    one = next(
        p for p in proposed(module, arch) if p.tile == at and not (is_free and p.assume) and bool(p.layout) == is_padded
    )
    return plan.Module(module, (replace(one, **fields),))


def whole_numbers(module: region.Module, names: dict[str, int], seed: int) -> dict[str, np.ndarray]:
    """Inputs whose products and sums are exact."""
    draw = np.random.default_rng(seed)
    shapes = {
        t.name: ([d.evaluate(names) for d in t.type.shape], DTYPES[t.type.dtype.name]) for t in module.model.inputs
    }
    return {
        name: convert(draw.integers(-3, 4, shape).astype(np.float32), dtype) for name, (shape, dtype) in shapes.items()
    }


def is_right(planned: plan.Module, names: dict[str, int], seed: int = 3) -> bool:
    """Whether the simulation gives what playback of the region gives, to the bit."""
    _, code = lowered(planned)
    arrays = whole_numbers(planned.program, names, seed)
    wanted = played(code, arrays)
    return all(
        np.array_equal(got.astype(np.float64), wanted[name].astype(np.float64))
        for name, got in simulated(code, arrays, seed).items()
    )


# --- plans


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_planned_and_obeyed(layout: str) -> None:
    module = product(layout, **BIAS)
    for one in {p.tile: p for p in proposed(module)}.values():
        planned = plan.Module(module, (one,))
        assert check_plan(planned) == [] and plan.parse(plan.show(planned)) == planned
        kernels, _ = lowered(planned)
        loads = [s for s in statements(kernels.kernels[0].body) if isinstance(s, nodes.Ldmatrix)]
        assert {s.is_transposed for s in loads if s.to.name == "af"} == {layout[0] == "T"}
        assert {s.is_transposed for s in loads if s.to.name == "bf"} == {layout[1] == "T"}


@pytest.mark.parametrize(
    ("sizes", "widths", "loads"),
    [
        ("M=64, N=64, K=64", {"k0": 8, "i1": 8}, {"A": "cp_async", "B": "cp_async"}),
        ("M=64, N=60, K=62", {"k0": 2, "i1": 4}, {"A": "cp_async", "B": "cp_async"}),
        ("M=64, N=63, K=64", {"k0": 8}, {"A": "cp_async", "B": "ld"}),
        ("M=63, N=63, K=33", {}, {"A": "ld", "B": "ld"}),
    ],
)
def test_copies_are_as_wide_as_the_rows_allow(sizes: str, widths: dict[str, int], loads: dict[str, str]) -> None:
    one = next(p for p in proposed(product("NN", sizes=sizes)) if not p.layout)
    assert {v.axis: v.width for v in one.vectorize} == widths and {item.tensor: item.by for item in one.load} == loads
    assert len(one.assume) == len(widths)


def test_rows_that_no_wide_copy_fits_are_padded_where_there_is_no_copy_engine() -> None:
    module = product("NN", sizes="M=2047, N=2047, K=2048", **BIAS)
    first = to_plan.lower(module, arch="sm80").plans[0]
    assert [(item.tensor, item.hint) for item in first.layout] == [("B", "padded")] and {
        item.by for item in first.load
    } == {"cp_async"}
    assert not any(p.layout for p in proposed(module, "sm90"))
    turned = plan.Module(module, (replace(first, layout=(Layout("B", "turned"),)),))
    assert {d.code for d in check_plan(turned) if d.is_error} == {"E1525"}


def test_plans_of_sm80_use_tensor_cores_at_any_size() -> None:
    first, second = to_plan.lower(product("NN", sizes="M=2048, N=2048, K=2048", **BIAS), arch="sm80").plans
    assert (first.algo, second.algo, second.assume) == ("multistage", "multistage", ())
    (alone,) = to_plan.lower(product("NN", sizes="M=2047, N=2047, K=2047"), arch="sm80").plans
    assert (alone.algo, alone.assume) == ("multistage", ())


def test_a_tile_that_the_template_has_no_place_for_is_refused() -> None:
    for fields in ({"warp_tile": (48, 32), "tile": (96, 64, 32)}, {"tile": (64, 64, 16)}, {"stages": 1}):
        assert {d.code for d in check_plan(with_tile(product("NN"), (64, 64, 32), **fields)) if d.is_error}


def test_a_swizzle_that_the_template_cannot_obey_is_refused() -> None:
    good = with_tile(product("NN"), (64, 64, 32)).plans[0]
    for load in good.load:
        for swizzle in {0, 32, 64, 128} - {load.swizzle}:
            loads = tuple(replace(one, swizzle=swizzle) if one == load else one for one in good.load)
            assert {d.code for d in check_plan(plan.Module(product("NN"), (replace(good, load=loads),))) if d.is_error}


# --- results

CASES = [
    ("NN", (128, 128, 32), {}, (130, 136, 72)),
    ("NT", (64, 64, 64), BIAS, (70, 72, 200)),
    ("TN", (64, 128, 32), BIAS, (72, 136, 40)),
    ("TT", (128, 64, 32), RESIDUAL, (136, 72, 64)),
    ("NN", (64, 64, 32), SCALED, (65, 64, 8)),
    ("NT", (64, 64, 32), {"out": "fp32", **SCALED}, (70, 131, 72)),
    ("NN", (64, 64, 32), {"dtype": "bf16", "out": "bf16", **SCALED}, (1, 8, 8)),
    ("NN", (64, 64, 32), BIAS, (66, 68, 66)),
    ("TN", (64, 64, 32), BIAS, (66, 65, 33)),
    ("NT", (64, 64, 64), RESIDUAL, (33, 65, 129)),
    ("TT", (64, 64, 32), {}, (65, 66, 17)),
]  # fmt: skip


@needs_host_compiler
@pytest.mark.parametrize(("layout", "tile", "kind", "sizes"), CASES, ids=lambda v: str(v)[:18])
def test_the_emitted_kernel_is_right_in_the_simulation(layout: str, tile: tuple, kind: dict, sizes: tuple) -> None:
    names = dict(zip("MNK", sizes))
    assert is_right(
        with_tile(product(layout, sizes=", ".join(f"{k}={v}" for k, v in names.items()), **kind), tile), names
    )


@needs_host_compiler
@pytest.mark.parametrize("is_padded", [False, True])
@pytest.mark.parametrize("depth", [32, 64])
@pytest.mark.parametrize("size", [33, 65, 17])
def test_a_last_tile_of_one_element_is_no_copy_of_two_bytes(size: int, depth: int, is_padded: bool) -> None:
    """tile-ai/tilelang#2365: the hardware has no such asynchronous copy. What is padded needs none."""
    planned = with_tile(product("NN", sizes=f"M=64, N=64, K={size}", out="fp32"), (64, 64, depth), is_padded=is_padded)
    kernels, code = lowered(planned)
    widths = {s.vector * 2 for s in statements(kernels.kernels[-1].body) if isinstance(s, nodes.CpAsync)}
    assert widths and widths <= ({16} if is_padded else {4, 8, 16})
    arrays = {
        "A": np.ones((64, size), np.float16),
        "B": np.repeat(np.arange(size, dtype=np.float16)[:, None], 64, axis=1),
    }
    assert np.all(simulated(code, arrays)["C"] == size * (size - 1) // 2)


@needs_host_compiler
def test_batches_and_joined_axes_are_right() -> None:
    module = region.parse(BATCHED.lstrip())
    assert is_right(with_tile(module, (64, 64, 32)), {"H": 2, "M": 3, "S": 30, "K": 40, "N": 72})


@needs_host_compiler
def test_dims_of_one_element_behind_a_row_hide_no_neighbours() -> None:
    """The weights of a strided convolution of one element: whole vectors along the sum, beside windows that are
    gathered."""
    tensors = "in X : fp16[64, 20, 20]\nin W : fp16[72, 64, 1, 1]\nout Y : fp32[72, 10, 10]"
    body = (
        "for i0: 72, i1: 10, i2: 10\n%y = reduce sum (k0: 64) : fp32 { mul(X[k0, 2*i1, 2*i2], W[i0, k0, 0, 0]) : "
        "fp32 }\nyield Y[i0, i1, i2] = %y"
    )
    planned = with_tile(region.parse(region_text(tensors, body)), (64, 64, 64))
    (kernel,) = lowered(planned)[0].kernels
    assert {s.vector for s in statements(kernel.body) if isinstance(s, nodes.CpAsync)} == {8}
    assert is_right(planned, {})


@needs_host_compiler
def test_other_sizes_take_the_alternative_and_an_empty_sum_is_zero() -> None:
    _, code = lowered(to_plan.lower(product("NN", **BIAS), arch="sm80"))
    draw = np.random.default_rng(0)
    for m, n, k in ((5, 7, 9), (3, 8, 0), (64, 64, 64), (0, 8, 8)):
        arrays = {
            "A": draw.integers(-3, 4, (m, k)),
            "B": draw.integers(-3, 4, (k, n)),
            "bias": draw.integers(-3, 4, (n,)),
        }
        arrays = {name: a.astype(np.float16) for name, a in arrays.items()}
        assert np.array_equal(simulated(code, arrays)["C"], played(code, arrays)["C"])


# --- the compiler


def every_tile() -> list[tuple[tuple[int, int, int], int, bool]]:
    """Tiles, stages, and whether the copies assume nothing, of all candidates on sm90."""
    found = proposed(product("NN", **BIAS), "sm90")
    return sorted({(p.tile, p.stages, not p.assume) for p in found})


QUICK = ((128, 128, 32), (64, 64, 64), (128, 256, 32))


@pytest.mark.parametrize("layout", ["NN", "TT"])
@pytest.mark.parametrize(
    ("tile", "stages", "is_free"),
    [pytest.param(*t, marks=() if t[0] in QUICK and t[1] < 4 else pytest.mark.slow) for t in every_tile()],
)
@pytest.mark.parametrize("target", ["sm_80"])
def test_every_shipped_plan_compiles_without_spills(
    tile: tuple, stages: int, is_free: bool, layout: str, target: str
) -> None:
    compiler = find_nvrtc() or find_nvcc()
    if compiler is None:
        pytest.skip("no CUDA compiler is installed")
    module = product(layout, **BIAS)
    one = next(p for p in proposed(module, "sm90") if (p.tile, p.stages, not p.assume) == (tile, stages, is_free))
    _, code = lowered(plan.Module(module, (replace(one, arch="sm90"),)))
    (usage,) = usage_of(cubin_of(manifest.show(code), target, compiler)).values()
    assert (usage.stack, usage.spill_stores, usage.spill_loads) == (0, 0, 0)


# --- faults

FAULTS = [
    (
        "    wait_group cp_async pending 2 for %first.a, %first.b, %load.a, %load.b\n    barrier cta\n",
        "    barrier cta\n",
        "E1613",
    ),
    (
        "for %first.a, %first.b, %load.a, %load.b\n    barrier cta\n",
        "for %first.a, %first.b, %load.a, %load.b\n",
        "E1613",
    ),
    ("    wait_group cp_async pending 2", "    wait_group cp_async pending 3", "E1613"),
    ("\n  wait_group cp_async pending 2", "\n  wait_group cp_async pending 3", "E1613"),
    ("cursor p ring 4 at 3", "cursor p ring 4 at 2", "E1613"),
    ("cursor s ring 4", "cursor s ring 4 at 1", "E1613"),
    ("    advance s\n", "", "E1613"),
    ("    commit %load.a, %load.b\n", "", "E1612"),
    ("for t in 0..3 unroll", "for t in 0..2 unroll", "E1613"),
    ("    barrier warp\n    for v", "    for v", "E1613"),
    ("    barrier warp\n    each", "    each", "E1613"),
    ("assume 8*floor(N/8) = N and 8*floor(K/8) = K", "assume 8*floor(N/8) = N and 4*floor(K/4) = K", "E1671"),
    ("where i0 < M and k0 < K else 0.0 vector 8", "where i0 < M else 0.0 vector 8", "E1615"),
    ("if row < M and col + 7 < N", "if row < M and col < N + 7", "E1615"),
    ("else 0.0 vector 8", "else 0.0", "E1670"),
    ("ldmatrix bf[0]", "ldmatrix acc", "E1602"),
]


@pytest.mark.parametrize(("good", "bad", "code"), FAULTS, ids=lambda v: v.strip()[:28])
def test_planted_faults_are_named(good: str, bad: str, code: str) -> None:
    one = next(p for p in proposed(product("NN", **BIAS), "sm90") if p.tile == (128, 128, 32) and p.stages == 4)
    text = gpu.show(to_gpu.lower(plan.Module(product("NN", **BIAS), (replace(one, arch="sm90"),))))
    assert check_gpu(gpu.parse(text)) == [] and good in text
    at = text.index("\nkernel ")
    assert code in {d.code for d in check_gpu(gpu.parse(text[:at] + text[at:].replace(good, bad, 1)))}


def test_an_asynchronous_copy_must_be_assumed_to_be_aligned() -> None:
    module = product("NN", **BIAS)
    for fields in ({"assume": ()}, {"vectorize": ()}):
        assert {d.code for d in check_plan(with_tile(module, (64, 64, 32), **fields))} == {"E1570"}
