"""Contractions over windows from a tile of the image with its edge (`kernels/haloed`): random ones beside playback,
what is none, how often an image is fetched, and the sample of the seed."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tinyir.ir import plan, region
from tinyir.ir.gpu import nodes
from tinyir.ir.gpu.walk import statements
from tinyir.kernels import haloed
from tinyir.kernels.check import check as check_families
from tinyir.kernels.family import Problem
from tinyir.kernels.haloed.halo import Halo, halo_of
from tinyir.kernels.problem import kernel_of
from tinyir.lower import gpu as to_gpu
from tinyir.lower.plan import card_of
from tinyir.play.region import play
from tinyir.target.arch import ARCHS

from .stages import needs_host_compiler
from .test_windows_fetched import CONV, conv, drawn, ran, whole_numbers

FIRST = "for i0: 2, i1: 64, i2: 9, i3: 8"


def problem_of(text: str) -> Problem:
    """What the one region of a program asks for."""
    module = region.parse(text)
    assert [d for d in region.check(module) if d.is_error] == []
    (one,) = module.program.regions
    return Problem((one,), kernel_of(one, "contraction"), module.model)


def plans_of(text: str, arch: str = "sm90") -> list[Any]:
    """All plans that the family proposes and that fit."""
    problem, most = problem_of(text), ARCHS[arch].smem_per_cta
    found = (p.plan for p in haloed.FAMILY.space(problem, card_of(arch, None)))
    return [p for p in found if haloed.FAMILY.declare(p, problem).smem <= most]


def images_first(text: str) -> str:
    """The convolution with the channels before the columns, where no 4 bytes of them are contiguous."""
    return (
        text.replace("X : fp16[2, 9, 8, 64]", "X : fp16[2, 64, 9, 8]")
        .replace("Y : fp16[2, 9, 8, 64]", "Y : fp16[2, 64, 9, 8]")
        .replace("X[i0, 1*i1 + 1*k1 - 1, 1*i2 + 1*k2 - 1, k0]", "X[i0, k0, 1*i2 + 1*k1 - 1, 1*i3 + 1*k2 - 1]")
        .replace("0 <= 1*i2 + 1*k2", "0 <= 1*i3 + 1*k2")
        .replace("0 <= 1*i1 + 1*k1", "0 <= 1*i2 + 1*k1")
        .replace("W[i3, ", "W[i1, ")
        .replace("for i0: 2, i1: 9, i2: 8, i3: 64", FIRST)
    )


def check_drawn(seed: int, **more: Any) -> bool:
    """A drawn convolution of two axes, by a drawn plan, gives what playback gives; whether it is one and has a plan."""
    case = drawn(seed) | {"weight": "taps first"} | more
    text = conv(**case)
    if len(case["sizes"]) != 2 or min(case["window"]) == 1:
        return False
    plans = plans_of(text, random.Random(seed).choice(["sm80", "sm90"]))
    if not plans:
        return False
    one, module = random.Random(seed).choice([p for p in plans if p.stages == 1] or plans), region.parse(text)
    if one.stages == 1:  # fewer CTAs than tiles, as many for each part of what is made
        fewer = (replace(one, persistent=n) for n in range(max(1, one.persistent // 3), one.persistent + 1))
        one = next(p for p in fewer if not check_families(plan.Module(module, (p,))))
    arrays = whole_numbers(module)
    found = ran(plan.parse(plan.show(plan.Module(module, (one,)))), arrays)
    np.testing.assert_array_equal(found["Y"], play(module, arrays)["Y"], err_msg=f"{case} {one.tile}")
    return True


@needs_host_compiler
def test_windows_are_multiplied_as_playback_does() -> None:
    assert sum(check_drawn(seed) for seed in range(14)) >= 4


@pytest.mark.slow
@needs_host_compiler
def test_more_windows_are_multiplied_as_playback_does() -> None:
    assert sum(check_drawn(seed) for seed in range(14, 240)) >= 25


@needs_host_compiler
def test_windows_of_few_channels_are_expanded_as_playback_does() -> None:
    assert all(check_drawn(seed, channels=1 + seed % 5) for seed in (3, 5, 8, 13))


@pytest.mark.slow
@needs_host_compiler
def test_more_windows_of_few_channels_are_expanded_as_playback_does() -> None:
    assert sum(check_drawn(seed, channels=1 + seed % 8) for seed in range(14, 200)) >= 25


@pytest.mark.parametrize("channels, expanded", [(8, True), (9, False)])
def test_windows_are_expanded_of_few_channels_alone(channels: int, expanded: bool) -> None:
    assert any(p.stages == 1 for p in plans_of(conv(**CONV | {"channels": channels}))) == expanded


def test_expanded_windows_have_no_more_zeros_than_fill_up_a_fragment() -> None:
    """The sum of 3 x 3 taps of three channels is 27 elements, and a tile's 32."""
    plans = [p for p in plans_of(conv(**CONV | {"channels": 3})) if p.stages == 1]
    assert plans and {p.tile[2] for p in plans} == {32}


def test_a_cta_takes_the_factor_of_expanded_windows_once() -> None:
    """Outside of the loop over its tiles, in which it takes an image's tile."""
    text = conv(**CONV | {"channels": 3})
    one = next(p for p in plans_of(text) if p.stages == 1)
    (kernel,) = to_gpu.lower(plan.Module(region.parse(text), (one,))).kernels
    (loop,) = (s for s in kernel.body if isinstance(s, nodes.For))
    copies = {s.to.name for s in statements(kernel.body) if isinstance(s, nodes.Copy)}
    assert {s.to.name for s in statements(loop.body) if isinstance(s, nodes.Copy)} == {"image"} < copies


@needs_host_compiler
@pytest.mark.parametrize("arch", ["sm80", "sm90"])
def test_channels_that_lie_apart_are_copied_one_by_one(arch: str) -> None:
    text = images_first(conv(**CONV))
    assert FIRST in text
    module = region.parse(text)
    one = plans_of(text, arch)[0]
    assert one.vectorize == ()
    planned = plan.Module(module, (one,))
    (kernel,) = to_gpu.lower(planned).kernels
    assert [s.to.name for s in statements(kernel.body) if isinstance(s, nodes.Copy)] == ["image"]
    arrays = whole_numbers(module)
    assert np.array_equal(ran(planned, arrays)["Y"], play(module, arrays)["Y"])


@needs_host_compiler
@pytest.mark.parametrize(("channels", "width"), [(72, 8), (12, 4), (6, 2), (5, 1)])
def test_channels_are_copied_by_as_many_bytes_as_their_rows_have(channels: int, width: int) -> None:
    text = conv(**CONV | {"channels": channels})
    found = halo_of(problem_of(text).region, problem_of(text).kernel)
    assert isinstance(found, Halo) and found.width == width
    module, one = region.parse(text), plans_of(text, "sm80")[0]
    arrays = whole_numbers(module)
    assert np.array_equal(ran(plan.Module(module, (one,)), arrays)["Y"], play(module, arrays)["Y"])


@pytest.mark.parametrize(
    ("more", "places"),
    [
        ({}, 10 * 18),
        ({"spread": [2, 2], "before": [2, 2], "behind": [2, 2]}, 12 * 20),
        ({"steps": [2, 2]}, 17 * 34),  # two columns of 17 by their remainders
        ({"window": [5, 2]}, 12 * 17),
    ],
)
def test_an_image_is_fetched_once_with_its_edge(more: dict[str, Any], places: int) -> None:
    """Eight rows of 16 results: their places, and what the windows reach beyond them."""
    text = conv(**CONV | more)
    module = region.parse(text)
    one = next(p for p in plans_of(text) if p.tile[0] == 128)
    (kernel,) = to_gpu.lower(plan.Module(module, (one,))).kernels
    copies = [s for s in statements(kernel.body) if isinstance(s, nodes.CpAsync) and s.to.name == "image"]
    (copy,) = copies
    assert [size.constant for _, size in copy.over] == [places, 64]
    assert not any(s is copy for f in kernel.body if isinstance(f, nodes.For) for s in statements(f.body))


@pytest.mark.parametrize(
    "text",
    [
        conv(**CONV | {"sizes": [9], "window": [3], "steps": [1], "spread": [1], "before": [1], "behind": [1]}),
        conv(**CONV | {"weight": "across"}),
        conv(**CONV).replace("mul(X[", "mul(relu(X[").replace("else 0.0,", "else 0.0),"),
    ],
)
def test_other_products_are_none(text: str) -> None:
    problem = problem_of(text)
    assert not isinstance(halo_of(problem.region, problem.kernel), Halo)
    assert plans_of(text) == []


def test_sm80_takes_the_sample_in_one_kernel() -> None:
    """Seed 001 section 15.2: Conv + SiLU, three stages, the halo on the chip; the weights are packed once."""
    from pathlib import Path

    from tinyir.front import read
    from tinyir.lower import lower_to

    sample = Path(__file__).resolve().parents[2] / "samples" / "conv3x3_silu" / "conv3x3_silu.json"
    module: Any = read(sample.read_text(encoding="utf-8"))
    for stage in ("index", "poly", "region", "plan", "gpu"):
        module = lower_to(stage, module, "sm80")
    one = module.plans.plans[-1]
    assert one.algo == "haloed" and one.stages == 3
    assert {item.way for item in one.load} == {"", "halo"}
    assert [k.name for k in module.kernels if not k.is_once] == ["conv"]
