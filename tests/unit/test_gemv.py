"""Contractions with next to no rows: planned whatever the sizes and dtypes, right in the simulation, compiled without
spills."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest

from tinyir.ir import gpu, manifest, plan, region
from tinyir.lower import plan as to_plan
from tinyir.runtime.compile import cubin_of, find_nvcc, find_nvrtc, usage_of
from tinyir.sim.host import COMPILERS

from .checked import check_gpu, check_plan
from .emitted import lowered, played, region_text, simulated
from .test_any_shape import sized, whole_numbers
from .test_warp_specialized import BIAS, RESIDUAL, SCALED

needs_host_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
SINGLE = {"dtype": "fp32", "out": "fp32"}


def proposed(module: region.Module, arch: str = "sm90") -> list[plan.Plan]:
    """The gemv candidates of a region."""
    found = to_plan.candidates(module, module.program.regions[0], arch)
    return [c.plan for c in found if c.plan.algo == "gemv" and c.rejected in ("", to_plan.CROWDED)]


def of(module: region.Module, threads: tuple[int, int], parts: int = 1, width: int = 0) -> plan.Module:
    """The region with the candidate of these threads, this cut of its sum, and accesses of this number of elements
    where a number is given."""
    found = (p for p in proposed(module) if p.threads == threads and p.parts == parts)
    return plan.Module(
        module, (next(p for p in found if not width or max((v.width for v in p.vectorize), default=1) == width),)
    )


def test_it_is_chosen_where_tensor_cores_cannot_serve() -> None:
    for sizes in ((1, 4096, 4096), (2, 1000, 4095)):
        for layout in ("NN", "NT"):
            assert to_plan.lower(sized(layout, sizes, **SINGLE)).plans[0].algo == "gemv"
    assert to_plan.lower(sized("NT", (1, 4096, 4096), **SINGLE), arch="sm80").plans[0].algo == "gemv"


@pytest.mark.parametrize("kind", [SINGLE, {}])
@pytest.mark.parametrize("sizes", [(0, 64, 64), (64, 0, 64), (64, 64, 0), (1, 0, 0), (0, 0, 0)])
def test_products_of_nothing_are_planned(sizes: tuple[int, ...], kind: dict[str, str]) -> None:
    """Whatever the template: a size that is planned for may be nought, such as the rows of `x[-1:3:2]` at some
    length."""
    module = sized("NN", sizes, **kind)
    assert not any(d.is_error for d in check_gpu(lowered(to_plan.lower(module))[0]))


def test_many_rows_are_not_its_own() -> None:
    assert proposed(sized("NN", (4, 64, 64), **SINGLE)) and proposed(sized("NN", (5, 64, 64), **SINGLE)) == []


def test_neighbouring_threads_stand_along_the_contiguous_axis() -> None:
    for layout, axis in (("NN", "i1.i"), ("NT", "k0.i")):
        assert {p.place_of(axis) for p in proposed(sized(layout, (1, 64, 64)))} == {"thread.x"}


def test_wide_accesses_are_assumed_and_single_ones_assume_nothing() -> None:
    assumed = {
        (max((v.width for v in p.vectorize), default=1), tuple(map(str, p.assume)))
        for p in proposed(sized("NN", (1, 4096, 77), **SINGLE))
    }
    assert assumed == {(4, ("4*floor(N/4) = N",)), (1, ())}
    assert {p.vectorize for p in proposed(sized("NN", (1, 4095, 77), **SINGLE))} == {()}


def test_a_guard_that_always_holds_has_no_other_side() -> None:
    """A sum of one step is inside whatever the thread: its text has neither an `if` nor an `else`."""
    tensors = "in a : fp16[2, 512]\nin w : fp16[2048, 512]\nout y : fp32[2, 2048]"
    body = (
        "for i0: 2, i1: 2048\n  %y = reduce sum (k0: 512) : fp32 { mul(a[i0, k0], w[i1, k0]) : fp32 }\nyield y[i0, "
        "i1] = %y"
    )
    module = region.parse(region_text(tensors, body))
    texts = {manifest.show(lowered(plan.Module(module, (one,)))[1]) for one in proposed(module)}
    assert texts
    for text in texts:
        opened = []
        for line in text[text.index('extern "C"') :].splitlines():
            if line.strip().startswith("}") and opened:
                start = opened.pop()
                assert "else" not in line or start.startswith(("if", "} else if")), line
            if line.rstrip().endswith("{"):
                opened.append(line.strip())


def test_an_access_that_nothing_assumes_is_found() -> None:
    module = of(sized("NN", (1, 4096, 77), **SINGLE), (8, 64), width=4)
    assert check_plan(module) == []
    assert [d.code for d in check_plan(replace(module, plans=(replace(module.plans[0], assume=()),)))] == ["E1570"]


@pytest.mark.parametrize(
    "fields",
    [
        {
            "bind": tuple(
                plan.Bind(b.axes, {"thread.x": "thread.y", "thread.y": "thread.x"}.get(b.place, b.place))
                for b in of(sized("NN", (1, 64, 64)), (8, 64)).plans[0].bind
            ),
            "threads": (64, 8),
            "tile": (1, 64, 512),
        },
        {"vectorize": (plan.Vectorize("i1", 16),)},
        {"split_k": plan.SplitK(5, "cluster")},
        {"split_k": plan.SplitK(2, "workspace")},
    ],
)
def test_what_the_template_has_no_place_for_is_refused(fields: dict) -> None:
    module = of(sized("NN", (1, 64, 64)), (8, 64))
    assert {d.code for d in check_plan(replace(module, plans=(replace(module.plans[0], **fields),))) if d.is_error}


CASES = [
    (lambda s: of(sized("NN", s, **BIAS), (8, 64)), (1, 136, 328)),
    (lambda s: of(sized("NN", s, **BIAS), (4, 128), 2), (2, 72, 600)),
    (lambda s: of(sized("NN", s, **RESIDUAL), (32, 16), 8), (3, 75, 777)),
    (lambda s: of(sized("NT", s, **SCALED), (32, 8), 4), (4, 37, 1032)),
    (lambda s: of(sized("NT", s, dtype="bf16", out="bf16"), (32, 4)), (2, 41, 520)),
    (lambda s: of(sized("TT", s, **SINGLE), (32, 16), 2), (4, 40, 513)),
    (lambda s: of(sized("TN", s, **SINGLE), (4, 256), 1), (3, 36, 1500)),
    (lambda s: of(sized("NN", s, **SINGLE, **SCALED), (16, 32), 4), (1, 132, 260)),
]


@needs_host_compiler
@pytest.mark.parametrize("number", range(len(CASES)))
def test_the_emitted_kernel_is_right_in_the_simulation(number: int) -> None:
    planned, sizes = CASES[number]
    kernels, code = lowered(planned(sizes))
    assert gpu.parse(gpu.show(kernels)) == kernels
    arrays = whole_numbers(code, sizes, number)
    wanted = played(code, arrays)
    for name, got in simulated(code, arrays, seed=number).items():
        assert np.array_equal(got.astype(np.float64), wanted[name].astype(np.float64)), name


@needs_host_compiler
def test_one_text_runs_at_any_size_in_the_simulation() -> None:
    _, code = lowered(to_plan.lower(sized("NT", (1, 64, 64), **SINGLE, **SCALED)))
    for seed, sizes in enumerate([(1, 1, 1), (9, 3, 65), (2, 130, 8), (3, 5, 0)]):
        arrays = whole_numbers(code, sizes, seed)
        assert np.array_equal(simulated(code, arrays)["C"], played(code, arrays)["C"]), sizes


@pytest.mark.parametrize(
    "planned",
    [
        lambda: of(sized("NN", (4, 4096, 4096), **BIAS), (8, 64), 2),
        lambda: of(sized("NT", (4, 4096, 4096), **SINGLE), (32, 16)),
    ],
)
def test_plans_compile_without_spills(planned: object) -> None:
    compiler = find_nvrtc() or find_nvcc()
    if compiler is None:
        pytest.skip("no CUDA compiler is installed")
    _, code = lowered(planned())
    cubin = cubin_of(manifest.show(code), "sm_90a", compiler)
    for usage in usage_of(cubin).values():
        assert (usage.stack, usage.spill_stores, usage.spill_loads) == (0, 0, 0)
    assert "warning" not in cubin.log.lower()
