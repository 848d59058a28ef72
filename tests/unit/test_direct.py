"""Folds over windows by blocks of results (`kernels/direct`): random ones beside playback, what is one, which plans the
planner takes, and how often an image is fetched."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tinyir.front import read
from tinyir.ir import gpu, plan, region
from tinyir.ir.gpu import nodes
from tinyir.ir.gpu.walk import statements
from tinyir.kernels import direct
from tinyir.kernels.family import Problem
from tinyir.kernels.windowed import Windowed, windowed_of
from tinyir.lower import gpu as to_gpu
from tinyir.lower import lower_to
from tinyir.lower.plan import candidates, card_of
from tinyir.play.region import play

from .checked import assert_holds
from .random_convolutions import Convolution
from .sliding import Sliding, drawn
from .stages import needs_host_compiler
from .test_windows_fetched import ran

DEPTHWISE = Sliding(
    "depthwise", "fp16", 2, 64, 1, 1, (28, 28), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), is_last=True, has_residual=False
)


def problem_of(text: str) -> Problem:
    """What the one region of a program asks for."""
    module = region.parse(text)
    assert [d for d in region.check(module) if d.is_error] == []
    (one,) = module.program.regions
    kernel = windowed_of(one)
    assert kernel is not None
    return Problem((one,), kernel, module.model)


def plans_of(text: str, arch: str = "sm90") -> list[Any]:
    """All plans that the family proposes and that fit."""
    return [p.plan for p in direct.FAMILY.space(problem_of(text), card_of(arch, None)) if not p.stop]


def whole_numbers(module: region.Module, seed: int) -> dict[str, np.ndarray]:
    draw, kinds = np.random.default_rng(seed), {"fp16": np.float16, "fp32": np.float32}
    return {
        t.name: draw.integers(-3, 4, [e.constant for e in t.type.shape]).astype(kinds[t.type.dtype.name])
        for t in module.model.inputs
    }


def check_drawn(seed: int) -> None:
    """A drawn fold, by a drawn plan, gives what playback gives."""
    text = drawn(seed).text()
    check_plan(text, random.Random(seed).choice(plans_of(text, random.Random(seed).choice(["sm80", "sm90"]))), seed)


def check_plan(text: str, one: plan.Plan, seed: int) -> None:
    """A plan gives what playback gives, of whole numbers, so that sums are exact."""
    module = region.parse(text)
    arrays = whole_numbers(module, seed)
    found = ran(plan.parse(plan.show(plan.Module(module, (one,)))), arrays)
    np.testing.assert_array_equal(found["y"], play(module, arrays)["y"], err_msg=f"{text} {one.micro}")


def walks_of(text: str) -> list[plan.Plan]:
    """The plans by which threads walk down rows in registers."""
    return [p for p in plans_of(text) if p.cache and p.stages == 1]


def staged_of(text: str) -> list[plan.Plan]:
    """The plans by which they walk down rows that come ahead."""
    return [p for p in plans_of(text) if p.stages > 1]


@needs_host_compiler
@pytest.mark.parametrize("seed", range(12))
def test_windows_are_folded_as_playback_folds_them(seed: int) -> None:
    check_drawn(seed)


@pytest.mark.slow
@needs_host_compiler
@pytest.mark.parametrize("seed", range(12, 112))
def test_more_windows_are_folded_as_playback_folds_them(seed: int) -> None:
    check_drawn(seed)


ALONE = """\
tinyir 1.0 region

model m
  in  x : fp32[{h}, {w}]
  in  t : fp32[3, 2]
  out y : fp32[{rows}, {columns}]

program m

region r
  in  x : fp32[{h}, {w}]
  in  t : fp32[3, 2]
  out y : fp32[{rows}, {columns}]
  for i0: {rows}, i1: {columns}
    %y = reduce sum (k0: 3, k1: 2) : fp32 {{ {body} }}
  yield y[i0, i1] = %y
"""


@needs_host_compiler
@pytest.mark.parametrize(
    "body",
    [
        "x[i0 + k0, i1 + k1]",
        "mul(x[i0 + k0, i1 + k1], t[k0, k1])",
        "(neg(x[i0 + k0, i1 + k1])) where 3 <= i0 + k0 < 10 else 7.0",
        "mul(x[i0 + k0, i1 + k1], cast(index(i0 + 2*i1) : i64) : fp32)",
        "mul(x[i0 + k0, i1 + k1], (t[k0, k1]) where 2 <= i0 + k0 else 0.0)",
    ],
)
def test_an_image_without_planes_is_folded(body: str) -> None:
    """Whatever the block of a thread: all plans are declared, and the first of each walk and of each block run. A guard
    around more than the image, and a place, are those of the row of results that takes in what a walk has read."""
    text = ALONE.format(h=11, w=9, rows=9, columns=8, body=body)
    plans = plans_of(text)
    chosen = {bool(p.cache): p for p in plans}
    assert len(chosen) == 2
    for one in chosen.values():
        check_plan(text, one, 1)


WALKED: dict[str, dict[str, Any]] = {
    "by ones": {"sizes": (17, 8), "window": (5, 3), "before": (2, 1), "behind": (2, 1)},
    "by twos": {"sizes": (19, 6), "steps": (2, 1)},
    "by twos, windows of four": {"sizes": (18, 6), "window": (4, 3), "steps": (2, 2)},
    "by threes, without padding": {
        "sizes": (31, 7),
        "window": (5, 2),
        "steps": (3, 1),
        "before": (0, 0),
        "behind": (0, 0),
    },
    "columns spread": {"sizes": (9, 12), "spread": (1, 3)},
    "maxima": {"kind": "max", "sizes": (14, 9)},
    "with a residual": {"sizes": (11, 8), "has_residual": True},
}


@needs_host_compiler
@pytest.mark.parametrize("name", WALKED)
def test_a_walk_folds_as_playback_folds(name: str) -> None:
    """In two lines or more of rows, of which the last may hang over the end."""
    text = replace(DEPTHWISE, groups=8, is_last=False, **WALKED[name]).text()
    plans = walks_of(text)
    check_plan(text, random.Random(name).choice([p for p in plans if p.micro[0] < max(q.micro[0] for q in plans)]), 1)


@pytest.mark.parametrize(
    "more",
    [
        {"is_last": True},  # channels are innermost
        {"spread": (2, 1), "before": (2, 1), "behind": (2, 1)},  # rows of taps apart
        {"steps": (3, 1)},  # no row belongs to two rows of results
        {"kind": "grouped", "groups": 16, "side": 4, "made": 4},
    ],
)
def test_what_is_not_walked(more: dict[str, Any]) -> None:
    assert walks_of(replace(DEPTHWISE, **{"is_last": False} | more).text()) == []


AHEAD: dict[str, dict[str, Any]] = {
    "by ones": {"sizes": (17, 8), "window": (5, 3), "before": (2, 1), "behind": (2, 1)},
    "by twos": {"sizes": (19, 16), "steps": (2, 1)},
    "by twos, windows of four": {"sizes": (18, 15), "window": (4, 3), "steps": (2, 2)},
    "by threes, without padding": {
        "sizes": (32, 15),
        "window": (5, 2),
        "steps": (3, 1),
        "before": (0, 0),
        "behind": (0, 0),
    },
    "columns spread": {"sizes": (9, 12), "spread": (1, 3)},
    "with a residual": {"sizes": (12, 8), "has_residual": True},
}


@needs_host_compiler
@pytest.mark.parametrize("name", AHEAD)
def test_a_walk_down_rows_that_come_ahead_folds_as_playback_folds(name: str) -> None:
    """With channels innermost, by two of the plans that have several stages."""
    text = replace(DEPTHWISE, **AHEAD[name]).text()
    for one in random.Random(name).sample(staged_of(text), 2):
        assert_holds(region.parse(text), one)
        check_plan(text, one, 1)


@pytest.mark.parametrize(
    "more",
    [
        {"is_last": False},  # columns are innermost
        {"kind": "max"},  # its surroundings are not zeros
        {"groups": 12},  # rows of channels are not whole accesses
        {"spread": (2, 1), "before": (2, 1), "behind": (2, 1)},  # rows of taps apart
        {"kind": "grouped", "groups": 16, "side": 4, "made": 4},
    ],
)
def test_what_does_not_come_ahead(more: dict[str, Any]) -> None:
    assert staged_of(replace(DEPTHWISE, **more).text()) == []


def test_rows_that_come_ahead_are_asked_for_once_each() -> None:
    """Three before the walk, then one in each of its 30 turns, by copies of which each thread has as many."""
    text = replace(DEPTHWISE, sizes=(28, 28)).text()
    one = next(p for p in staged_of(text) if p.micro[0] == 28)
    (kernel,) = to_gpu.lower(plan.Module(region.parse(text), (one,))).kernels
    loops = [s for s in kernel.body if isinstance(s, nodes.For) and s.name == "t"]
    turns = [s.high.constant - s.low.constant for s in loops]
    assert turns[0] == one.stages - 1 and sum(turns[1:]) == 30
    assert all(sum(isinstance(i, nodes.CpAsync) for i in statements(s.body)) == 1 for s in loops)
    (array,) = direct.FAMILY.declare(one, problem_of(text)).shared
    assert array.shape[0] * array.shape[1] // 8 % (one.threads[0] * one.threads[1]) == 0


@pytest.mark.parametrize(("taps", "most"), [(3, 16), (7, 8), (11, 2)])
def test_the_turns_that_have_guards_are_written_out(taps: int, most: int) -> None:
    """No loop that is left asks which rows of results there are; of windows with many taps a thread walks down few
    columns."""
    reach = (taps // 2, taps // 2)
    text = replace(DEPTHWISE, is_last=False, window=(taps, taps), before=reach, behind=reach).text()
    plans = walks_of(text)
    assert max(p.micro[1] for p in plans) == most
    for one in plans[::4]:
        (kernel,) = to_gpu.lower(plan.Module(region.parse(text), (one,))).kernels
        rolled = [s for s in statements(kernel.body) if isinstance(s, nodes.For) and s.unroll]
        guards = [b for loop in rolled for s in statements(loop.body) if isinstance(s, nodes.If) for b in s.guard]
        assert rolled and all({"i2", "i3"} & set(b.expr.names()) for b in guards)


def test_a_walk_fetches_a_row_once_and_factors_once() -> None:
    """Of 28 rows, windows of 3: two that precede the first whole row of results, and one that is on its way at the end;
    the factor of a tap before them."""
    text = replace(DEPTHWISE, is_last=False).text()
    one = next(p for p in walks_of(text) if p.micro == (28, 4, 1))
    (kernel,) = to_gpu.lower(plan.Module(region.parse(text), (one,))).kernels
    assert fetches(kernel) == (28 + 2 + 1) * 3
    assert fetches(kernel, "w") == 9


@pytest.mark.parametrize("is_last", [True, False])
@pytest.mark.parametrize("window", [3, 5, 7])
@pytest.mark.parametrize("step", [1, 2])
def test_depthwise_convolutions_are_planned_so(is_last: bool, window: int, step: int) -> None:
    """In both orders of dims, by accesses of several elements where rows allow them."""
    pads = (window // 2,) * 2
    case = replace(
        DEPTHWISE, window=(window,) * 2, steps=(step,) * 2, before=pads, behind=pads, is_last=is_last, batch=32
    )
    module = region.parse(case.text())
    best = next(c.plan for c in candidates(module, module.program.regions[0]) if not c.rejected)
    assert best.algo == "direct"
    assert is_last or best.widest > 1


@pytest.mark.parametrize("batch", [8, 32])
def test_groups_of_four_are_eight_columns_a_thread(batch: int) -> None:
    """Of 56 x 56 with channels first, as measured: four columns take 1.13 to 1.2 times as long."""
    one, pads = (1, 1), (1, 1)
    case = Convolution("fp16", batch, 128, 128, 32, (56, 56), (3, 3), one, one, pads, pads, False, False, "bias relu")
    module: Any = read(case.model())
    for stage in ("index", "poly", "region", "plan"):
        module = lower_to(stage, module, "sm90", "h200")
    assert [(p.algo, p.micro) for p in module.plans] == [("direct", (7, 8, 1))]


def kernel_of(text: str, micro: tuple[int, int, int]) -> nodes.Kernel:
    """The kernel of a plan with such a block."""
    one = next(p for p in plans_of(text) if p.micro == micro)
    module = to_gpu.lower(plan.Module(region.parse(text), (one,)))
    assert [d for d in gpu.check(module) if d.is_error] == []
    return module.kernels[0]


def fetches(kernel: nodes.Kernel, tensor: str = "x") -> int:
    """Accesses of a thread to a tensor, by default the image, loops written out."""
    found = 0

    def walk(body: tuple[Any, ...], turns: int) -> None:
        nonlocal found
        for s in body:
            if isinstance(s, nodes.For):
                walk(s.body, turns * (s.high - s.low).evaluate({}))
            elif isinstance(s, nodes.If):
                walk((*s.body, *s.otherwise), turns)
            elif isinstance(s, nodes.Assign) and getattr(s.value, "tensor", "") == tensor:
                found += turns

    walk(kernel.body, 1)
    return found


@pytest.mark.parametrize(
    ("more", "micro", "wanted"),
    [
        ({}, (1, 1, 8), 9),  # a result: its window
        ({}, (4, 4, 8), 6 * 6),  # 16 results: their rows, once
        ({"window": (7, 7), "before": (3, 3), "behind": (3, 3)}, (7, 4, 4), 13 * 10),
        ({"steps": (2, 2), "before": (0, 0), "behind": (0, 0)}, (2, 2, 8), 5 * 5),
        ({"spread": (2, 2), "before": (2, 2), "behind": (2, 2)}, (2, 2, 8), 6 * 6),
        ({"is_last": False}, (4, 4, 1), 6 * 3),  # 12 elements of a row, 4 at a time
        ({"is_last": False, "sizes": (28, 32)}, (4, 8, 1), 6 * 3),  # 8 at a time: the halo is two accesses more
    ],
)
def test_a_row_is_fetched_once_for_all_results_of_a_block(more: dict, micro: tuple, wanted: int) -> None:
    assert fetches(kernel_of(replace(DEPTHWISE, **more).text(), micro)) == wanted


def test_what_lies_outside_needs_no_guard_in_the_sums() -> None:
    kernel = kernel_of(DEPTHWISE.text(), (2, 4, 8))
    guards = [s for s in statements(kernel.body) if isinstance(s, nodes.If)]
    around_sums = [g for g in guards for s in statements(g.body) if isinstance(s, nodes.Assign) and "acc" in s.to.name]
    assert all(b.expr.vocabulary <= {"r", "p"} for g in around_sums for b in g.guard)


@pytest.mark.parametrize(
    "line",
    [
        "%c = reduce sum (k0: 3) : fp32 { mul(x[i0, k0], x[i0, k0]) : fp32 }",  # no axis of the region slides
        "%c = reduce argmax (k0: 3) : i32 { x[i0, i1 + k0] }",
        "%c = reduce sum (k0: 3) : fp32 { x[i0, i1 + 2*k0 - i0] where 0 <= i1 + 2*k0 - i0 < 9 else 0.0 }",
    ],
)
def test_other_folds_are_none(line: str) -> None:
    kind = "i32" if "argmax" in line else "fp32"
    source = "fp32" if "argmax" in line else "fp16"
    tensors = f"  in x : {source}[4, 9]\n  out y : {kind}[4, 5]\n"
    text = (
        f"tinyir 1.0 region\n\nmodel m\n{tensors}\nprogram m\n\nregion c\n{tensors}  for i0: 4, i1: 5\n    {line}\n"
        "  yield y[i0, i1] = %c\n"
    )
    assert windowed_of(region.parse(text).program.regions[0]) is None


def test_channels_of_a_group_are_no_columns() -> None:
    """A group's channels move with the group as a window's taps do with the result, without overlapping."""
    for is_last in (True, False):
        text = Sliding(
            "grouped", "fp16", 1, 4, 4, 2, (9, 9), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), is_last, False
        ).text()
        kernel = problem_of(text).kernel
        assert isinstance(kernel, Windowed)
        assert [a.name for a in (*kernel.rows, *kernel.columns)] == (["i1", "i2"] if is_last else ["i3", "i4"])
        assert [a.name for a in kernel.folds[0].beside] == ["k2"]


def pooled() -> str:
    """A model: the mean of 3x3 windows that are padded, of which some hold fewer elements."""
    from .stages import graph

    how = {"mode": "average", "kernel": [3, 3], "stride": [2, 2], "pad": [1, 1]}
    return graph({"x": ("fp16", [2, 4, 9, 9])}, {"y": ("fp16", [2, 4, 5, 5])}, ("Pool", ["x"], "y", how))


@needs_host_compiler
def test_how_many_elements_windows_hold_is_counted_once() -> None:
    """It depends on nothing but numbers, so no run does it again."""
    from tinyir.front import read
    from tinyir.ir import manifest
    from tinyir.lower import cu as to_cu
    from tinyir.lower import lower_to
    from tinyir.play.tiny import play as play_tiny
    from tinyir.runtime.program import Program
    from tinyir.sim.launch import SimDevice

    module: Any = read(pooled())
    arrays = {"x": np.random.default_rng(1).integers(-9, 9, (2, 4, 9, 9)).astype(np.float16)}
    wanted = play_tiny(module, arrays)["y"]
    for stage in ("index", "poly", "region", "plan", "gpu"):
        module = lower_to(stage, module, "sm90")
    assert [k.is_once for k in module.kernels] == [True, False]
    text = manifest.show(to_cu.lower(module))
    program = Program(SimDevice(limit=60.0), text, manifest.parse(text), {})
    try:
        program.upload(arrays)
        for _ in range(2):
            program.run()
            np.testing.assert_array_equal(program.outputs()["y"], wanted)
    finally:
        program.release()


@needs_host_compiler
def test_neighbours_are_those_of_memory_whatever_the_order_of_axes() -> None:
    """Groups and their channels are one dim of the output, which is innermost there and not in the region."""
    from .test_random_convolutions import planned

    case = Convolution(
        "fp16", 32, 128, 128, 64, (56, 56), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), False, True, "bias relu"
    )
    module = planned(case.model())
    (one,) = [p for p in module.plans if p.algo == "direct"]
    kernel = windowed_of(module.program.program.region(one.regions[0]))
    assert isinstance(kernel, Windowed) and kernel.is_across and len(kernel.planes) == 2
    assert one.widest == 2  # channels of a group
