"""What a contraction reads through windows, which no copy engine fetches, may be laid out as a matrix by a kernel of
its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinyir.ir import gpu, plan, region
from tinyir.ir.traits import sizes_of
from tinyir.kernels.alternatives.materialize_prologues import materialize_prologues
from tinyir.kernels.parts.boxes import View, view_of
from tinyir.kernels.problem import Contraction, kernels_of
from tinyir.lower import language_of, lower_to, lowering_of
from tinyir.play.region import play
from tinyir.runtime.arrays import random_arrays

from .checked import check_gpu
from .emitted import region_text, simulated
from .stages import Stages, graph, needs_host_compiler

Shape = list[int | str]
# By what is read: the image, the weight, the result, and how it is read.
WINDOWS: dict[str, tuple[Shape, Shape, Shape, dict[str, Any]]] = {
    "windows that overlap": ([1, 8, 9, 8], [6, 8, 3, 3], [1, 6, 9, 8], {"pad": [1, 1]}),
    "a batch": ([3, 8, 7, 8], [6, 8, 3, 3], [3, 6, 7, 8], {"pad": [1, 1]}),
    "a batch of any size": (["B", 8, 7, 8], [6, 8, 3, 3], ["B", 6, 7, 8], {"pad": [1, 1]}),
    "every other point": ([1, 8, 9, 11], [6, 8, 3, 3], [1, 6, 5, 6], {"pad": [1, 1], "stride": [2, 2]}),
    "points alone, every other": ([1, 8, 9, 11], [6, 8, 1, 1], [1, 6, 5, 6], {"stride": [2, 2]}),
    "windows with gaps": ([1, 8, 9, 8], [6, 8, 3, 3], [1, 6, 5, 4], {"dilation": [2, 2]}),
    "groups": ([1, 8, 9, 8], [6, 4, 3, 3], [1, 6, 9, 8], {"pad": [1, 1], "groups": 2}),
    "another pad at each end": ([1, 8, 9, 8], [6, 8, 2, 3], [1, 6, 9, 8], {"pad": [0, 1, 1, 1]}),
    "one row": ([1, 8, 1, 33], [6, 8, 1, 5], [1, 6, 1, 29], {}),
}


def conv(case: str, dtype: str = "fp32", fn: str = "") -> str:
    """The convolution, of `fn` of the image where there is one."""
    image, weight, result, how = WINDOWS[case]
    before = [("Elementwise", ["x"], "a", {"fn": fn})] if fn else []
    ops = [*before, ("Conv", ["a" if fn else "x", "w"], "y", how)]
    return graph(
        {"x": (dtype, image), "w": (dtype, weight)},
        {"y": (dtype, result)},
        *ops,
        shape_sets={"default": {"B": 2}} if "B" in image else {},
    )


def has_windows(module: region.Module, one: region.Region) -> bool:
    """Whether a contraction reads what no copy engine fetches."""
    kernel = next(iter(kernels_of(one)), None)
    return isinstance(kernel, Contraction) and not all(
        isinstance(view_of(one, r.tensor, r.index, kernel), View) for r in (kernel.lhs, kernel.rhs)
    )


def whole_numbers(module: region.Module) -> dict[str, np.ndarray]:
    """Inputs of which every sum is exact, in any order."""
    return {name: np.round(4 * array) for name, array in random_arrays(module.model, sizes_of(module.model), 3).items()}


def as_matrix(whole: region.Module, is_along: bool) -> region.Module:
    """The module with its windows as a matrix, along the sum or across it."""

    def time_of(module: region.Module, one: region.Region) -> float:
        kernel = next(iter(kernels_of(one)), None)
        if not isinstance(kernel, Contraction):
            return 0.0
        wanted = all(
            isinstance(v := view_of(one, r.tensor, r.index, kernel), View) and (v.inner == "sum") is is_along
            for r in (kernel.lhs, kernel.rhs)
            if "." in r.tensor
        )
        return 2.0 if has_windows(module, one) else 0.0 if wanted else 1.0

    apart, done = materialize_prologues(whole, time_of)
    assert [m.apart for m in done] == [0.0]
    return apart


@pytest.mark.parametrize("is_along", (True, False))
@pytest.mark.parametrize("fn", ("", "neg"))
@pytest.mark.parametrize("case", WINDOWS)
def test_windows_may_stand_apart(case: str, fn: str, is_along: bool) -> None:
    whole = Stages(conv(case, fn=fn)).region
    assert [has_windows(whole, one) for one in whole.program.regions] == [True]
    apart = as_matrix(whole, is_along)
    assert not any(has_windows(apart, one) for one in apart.program.regions)
    assert [d.code for d in region.check(apart)] == [] and region.parse(region.show(apart)) == apart
    arrays = whole_numbers(whole)
    for name, array in play(whole, arrays).items():
        np.testing.assert_array_equal(play(apart, arrays)[name], array)


@needs_host_compiler
@pytest.mark.parametrize("case", WINDOWS)
def test_a_matrix_of_windows_is_laid_out_in_the_simulation(case: str) -> None:
    whole = Stages(conv(case, "fp16", "neg")).region
    module: Any = as_matrix(whole, is_along=False)
    for stage in ("plan", "gpu", "cu"):
        module = lower_to(stage, module, "sm90")
    arrays = whole_numbers(whole)
    np.testing.assert_array_equal(simulated(module, arrays)["y"], play(whole, arrays)["y"])


def test_what_the_copy_engine_fetches_is_no_matrix_again() -> None:
    """A convolution by points is a product as it is."""
    whole = Stages(
        graph(
            {"x": ("fp16", [1, 64, 8, 8]), "w": ("fp16", [32, 64, 1, 1])},
            {"y": ("fp16", [1, 32, 8, 8])},
            ("Conv", ["x", "w"], "y", {}),
        )
    ).region
    assert materialize_prologues(whole, lambda _, one: 0.0) == (whole, ())


def test_a_matrix_that_takes_too_much_memory_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Stages(conv("a batch")).region
    numbers = 3 * 7 * 8 * 8 * 9
    for most, count in ((4 * numbers, 1), (4 * numbers - 1, 0)):
        monkeypatch.setitem(materialize_prologues.__globals__, "MOST_BYTES", most)
        assert len(materialize_prologues(whole, lambda m, one: float(has_windows(m, one)))[1]) == count


def test_equal_windows_are_laid_out_once() -> None:
    ops = [("Conv", ["x", w], y, {"pad": [1, 1]}) for w, y in (("w", "y"), ("v", "z"))]
    given = {"x": ("fp32", [1, 8, 9, 8]), "w": ("fp32", [6, 8, 3, 3]), "v": ("fp32", [5, 8, 3, 3])}
    whole = Stages(graph(given, {"y": ("fp32", [1, 6, 9, 8]), "z": ("fp32", [1, 5, 9, 8])}, *ops)).region
    apart, _ = materialize_prologues(whole, lambda m, one: float(has_windows(m, one)))
    assert [r.name for r in apart.program.regions] == ["y.x", "y", "z"]


@needs_host_compiler
@pytest.mark.parametrize(
    "arch, algo, size, channels, parts",
    (("sm90", "warp_specialized", 14, 64, "y.x, y"), ("sm80", "haloed", 28, 256, "y.w, y")),
)
def test_tensor_cores_multiply_windows(arch: str, algo: str, size: int, channels: int, parts: str) -> None:
    """A convolution of a network's size: the plan lays its windows out, or where a kernel reads them of the image its
    weights, says so, and is right."""
    given = {"x": ("fp16", [1, 64, size, size]), "w": ("fp16", [channels, 64, 3, 3])}
    text = graph(given, {"y": ("fp16", [1, channels, size, size])}, ("Conv", ["x", "w"], "y", {"pad": [1, 1]}))
    whole = Stages(text).region
    (said,) = [d for d in lowering_of("plan").verdicts(whole, arch) if d.code == "R3470"]
    assert said.facts["parts"] == parts and said.facts["apart_us"] < said.facts["fused_us"]
    planned = lower_to("plan", whole, arch)
    assert {p.algo for p in planned.plans} == {algo, "flat"}
    module: Any = planned
    for stage in ("plan", "gpu", "cu"):
        module = module if stage == "plan" else lower_to(stage, module, arch)
        assert [d.code for d in language_of(stage).check(module) if d.is_error] == []
    arrays = {name: np.round(array).astype(array.dtype) for name, array in random_arrays(whole.model, {}, 5).items()}
    np.testing.assert_array_equal(simulated(module, arrays)["y"], play(whole, arrays)["y"])


def laid_out(is_wide: bool) -> str:
    """The gpu text of the kernel that lays out a convolution's windows, in vectors or element by element: isl, asked by
    the matrix' five indices, has no answer."""
    body = (
        "yield Y[i0, i1, i2, i3, i4] = X[i0, i1 + i3 - 1, i2 + i4 - 1] where 0 <= i1 + i3 - 1 < 28 and 0 <= i2 + i4 "
        "- 1 < 28 else 0.0"
    )
    module = region.parse(
        region_text(
            "in X : fp16[128, 28, 28]\nout Y : fp16[128, 3, 3, 28, 28]",
            f"for i0: 128, i1: 3, i2: 3, i3: 28, i4: 28\n{body}",
        )
    )
    found = (c.plan for c in lowering_of("plan").candidates(module, module.program.regions[0]) if c.plan.algo == "flat")
    chosen = next(
        p for p in found if p.threads == (128,) and bool(p.vectorize) == is_wide and p.micro[0] == 4 * p.widest
    )
    return gpu.show(lower_to("gpu", plan.Module(module, (chosen,)), "sm90"))


# The form, what is put in the place of what, and the code.
FAULTS = {
    "too few CTAs": (False, "grid [1764]", "grid [1763]", "E1619"),
    "a turn left out": (False, "for u in 0..4 unroll", "for u in 1..4 unroll", "E1619"),
    "two turns that meet": (False, "thread.x + 128*u", "thread.x + 127*u", "E1619"),
    "tiles that meet": (False, "let e = 512*cta.x", "let e = 511*cta.x", "E1619"),
    "another digit": (
        False,
        "let i3 = floor(e/28) - 28*floor(e/784)",
        "let i3 = floor(e/28) - 29*floor(e/784)",
        "E1615",
    ),
    "two digits that are one": (
        False,
        "let i4 = e - 28*floor(e/28)",
        "let i4 = floor(e/28) - 28*floor(e/784)",
        "E1619",
    ),
    "too few CTAs of vectors": (True, "grid [221]", "grid [220]", "E1619"),
    "tiles of vectors that meet": (True, "let e = 512*cta.x", "let e = 511*cta.x", "E1619"),
}


@pytest.mark.parametrize("is_wide", (True, False))
def test_the_matrix_is_written_whole(is_wide: bool) -> None:
    assert check_gpu(gpu.parse(laid_out(is_wide))) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_in_a_matrix_of_windows_are_found(fault: str) -> None:
    is_wide, good, bad, code = FAULTS[fault]
    text = laid_out(is_wide)
    assert good in text
    assert code in {d.code for d in check_gpu(gpu.parse(text.replace(good, bad))) if d.is_error}
