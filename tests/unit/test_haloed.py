"""Contractions over windows from a tile of the image with its edge (`kernels/haloed`): random ones beside playback,
what is none, how often an image is fetched, and the sample of the seed."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tinyir.ir import manifest, plan, region
from tinyir.ir.gpu import nodes
from tinyir.ir.gpu.walk import statements
from tinyir.kernels import haloed
from tinyir.kernels.check import check as check_families
from tinyir.kernels.family import Problem
from tinyir.kernels.haloed.halo import Halo, halo_of
from tinyir.kernels.problem import kernel_of
from tinyir.lower import cu as to_cu
from tinyir.lower import gpu as to_gpu
from tinyir.lower.plan import card_of
from tinyir.play.region import play
from tinyir.target.arch import ARCHS

from .stages import needs_host_compiler
from .test_windows_fetched import CONV, conv, drawn, ran, whole_numbers


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


def apart(text: str) -> str:
    """A convolution of two axes whose image has its channels before rows and columns."""
    text = re.sub(r"X : fp16\[(\d+), (\d+), (\d+), (\d+)\]", r"X : fp16[\1, \4, \2, \3]", text)
    return re.sub(r"X\[i0, ([^,\]]+), ([^,\]]+), k0\]", r"X[i0, k0, \1, \2]", text)


@needs_host_compiler
@pytest.mark.parametrize("arch", ["sm80", "sm90"])
@pytest.mark.parametrize(("columns", "width"), [(8, 4), (10, 2), (9, 1)])
def test_channels_that_lie_apart_come_by_their_columns(arch: str, columns: int, width: int) -> None:
    """As many at once as the rows of memory begin on; an odd number of columns one by one."""
    text = apart(conv(**CONV | {"sizes": [9, columns]}))
    module, one = region.parse(text), plans_of(text, arch)[0]
    assert one.widest == width
    planned = plan.Module(module, (one,))
    (kernel,) = to_gpu.lower(planned).kernels
    filled = [s for s in statements(kernel.body) if isinstance(s, (nodes.Copy, nodes.Store)) and s.to.name == "image"]
    ways = {(type(s), s.vector) for s in filled}  # of what is inside of the image, and zeros
    assert ways == {(nodes.Store, 8) if width > 1 else (nodes.Copy, 1)}
    text = manifest.show(to_cu.lower(to_gpu.lower(planned)))
    assert ("*(vector_of<fp16, 8> *)&swizzled_at<128>(image" in text) == (width > 1)  # 16 bytes at once
    arrays = whole_numbers(module)
    assert np.array_equal(ran(planned, arrays)["Y"], play(module, arrays)["Y"])


@needs_host_compiler
@pytest.mark.parametrize(
    "more",
    [
        {"channels": 72, "made": 24},
        {"channels": 20, "before": [1, 3], "behind": [0, 2]},
        {"steps": [2, 2], "sizes": [9, 20]},
        {"steps": [1, 3], "sizes": [9, 36], "before": [0, 0], "behind": [0, 0]},
        {"spread": [2, 2], "before": [2, 2], "behind": [2, 2]},
        {"window": [2, 5], "sizes": [5, 44]},
    ],
)
def test_columns_are_turned_as_playback_has_them(more: dict[str, Any]) -> None:
    """Channels that fill no block, windows that begin anywhere, by steps, spread: on each kind of plan."""
    text = apart(conv(**CONV | more))
    module, found = region.parse(text), {p.stages == 1: p for p in plans_of(text)}
    arrays = whole_numbers(module)
    for one in (*found.values(), *(replace(p, vectorize=()) for p in found.values())):
        assert one.widest in (1, 4)
        assert np.array_equal(ran(plan.Module(module, (one,)), arrays)["Y"], play(module, arrays)["Y"]), one.tile


def test_threads_that_turn_columns_store_to_other_banks() -> None:
    """Eight threads that store 16 bytes each at once meet all 32 banks of a swizzled tile."""
    text = apart(conv(**CONV | {"sizes": [16, 32]}))
    for one in plans_of(text):
        (kernel,) = to_gpu.lower(plan.Module(region.parse(text), (one,))).kernels
        store, *_ = (s for s in statements(kernel.body) if isinstance(s, nodes.Store) and s.to.name == "image")
        (loop,) = (s for s in statements(kernel.body) if isinstance(s, nodes.For) and s.name == "n")
        lets = {
            s.name: s.value for s in statements(loop.body) if isinstance(s, nodes.Let)
        }  # the same to load and store
        for first in range(0, 64, 8):
            banks = set()
            for thread in range(first, first + 8):
                at: dict[str, int] = {"thread.x": thread, "n": 0, "m": 0, "a": 0, "v": 0}
                for name in ("item", "rest", "stretch", "down", "oct"):
                    at[name] = lets[name].evaluate(at)
                place, channel = (e.evaluate(at) for e in store.to.index)
                banks.add(channel // 8 ^ place % 8)
            assert len(banks) == 8


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


@pytest.mark.parametrize("arch", ["sm80", "sm90"])
def test_the_sample_is_one_kernel(arch: str) -> None:
    """Seed 001 section 15.2: Conv + SiLU, three stages, the halo on the chip; the weights are packed once."""
    from pathlib import Path

    from tinyir.front import read
    from tinyir.lower import lower_to

    sample = Path(__file__).resolve().parents[2] / "samples" / "conv3x3_silu" / "conv3x3_silu.json"
    module: Any = read(sample.read_text(encoding="utf-8"))
    for stage in ("index", "poly", "region", "plan", "gpu"):
        module = lower_to(stage, module, arch)
    one = module.plans.plans[-1]
    assert one.algo == "haloed" and one.stages == 3
    assert {item.way for item in one.load} == {"", "halo"}
    assert [k.name for k in module.kernels if not k.is_once] == ["conv"]
