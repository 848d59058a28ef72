"""Tensors that scores meet element by element: which of them the copy engine brings in tiles, against playback in the
simulation, and faults planted in their waits."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from tests.bench.attention import Case, model_of
from tinyir.ir import gpu, manifest, plan
from tinyir.kernels.attention import streaming_of
from tinyir.kernels.flash.match import flash_of
from tinyir.lower import cu as to_cu
from tinyir.lower import gpu as to_gpu
from tinyir.lower import plan as to_plan
from tinyir.lower.plan.choose import WORTH

from .checked import check_gpu, check_plan
from .stages import needs_host_compiler
from .test_flash import ALGO, FP16, assert_equals_playback, with_few
from .test_needs import declared
from .test_streaming import arrays_of, attention, regions_of

BIASED: dict[str, Any] = {"mask": "fp16", "s": 200, "t": 264, "d": 64, **FP16}


def with_tiles(model: dict[str, Any]) -> tuple[Any, list[plan.Plan]]:
    """The regions of a model, and the plans whose bias comes in tiles."""
    module = regions_of(attention(**model))
    found = to_plan.candidates(module, module.program.regions[0])
    fitting = [c.plan for c in found if c.rejected in ("", to_plan.CROWDED) and c.plan.algo == ALGO]
    return module, [one for one in fitting if one.load_of("mask").by == "tma"]


@needs_host_compiler
@pytest.mark.parametrize(
    ("model", "columns", "seed"),
    [
        (BIASED, 64, 0),
        (BIASED, 128, 1),
        ({**BIASED, "t": 136, "s": 136, "causal": True, "d": 128, "batch": 2}, 128, 2),
        ({**BIASED, "mask": "bf16", "dtype": "bf16", "s": 70, "t": 72}, 64, 3),
        ({**BIASED, "t": 152}, 96, 4),
        ({**BIASED, "mask": "fp32"}, 96, 5),
        ({**BIASED, "mask": "fp32", "t": 132, "s": 150, "causal": True, "d": 256, "batch": 2}, 48, 6),
        ({**BIASED, "mask": "bool", "t": 272}, 64, 7),
        ({**BIASED, "mask": "bool", "t": 272, "d": 128}, 128, 8),
        ({**BIASED, "mask": "bool", "t": 176, "s": 150, "causal": True, "d": 256}, 32, 9),
    ],
    ids=["64", "128", "causal", "bf16", "96", "fp32", "fp32 256", "bool 64", "bool 128", "bool 32"],
)
def test_tiles_equal_playback(model: dict[str, Any], columns: int, seed: int) -> None:
    """With a ring of one slot and of several, and lengths that divide nothing, each in another order of threads."""
    module, fitting = with_tiles(model)
    one = next(p for p in fitting if p.tile[1] == columns)
    assert_equals_playback(with_few(plan.Module(module, (one,)), 2), arrays_of(module, {}, seed), seed)


@pytest.mark.parametrize(
    ("change", "is_tile"),
    [
        ({}, True),
        ({"t": 260}, False),  # rows that are not whole 16 bytes
        ({"mask": "fp32"}, True),
        ({"mask": "fp32", "t": 262}, False),
        ({"mask": "bool", "t": 272}, True),
        ({"mask": "bool"}, False),  # 264 bytes
        ({"s": 1, "heads": 4, "kv": 1}, False),  # heads of a group are the rows of a tile
    ],
)
def test_which_tensors_come_in_tiles(change: dict[str, Any], is_tile: bool) -> None:
    module, fitting = with_tiles({**BIASED, **change})
    assert bool(fitting) == is_tile == bool(flash_of(streaming_of(*module.program.regions[:2])).tiles and fitting)


@pytest.mark.parametrize("beside", ["", "fp32"])
def test_batches_that_share_a_bias_run_together(beside: str) -> None:
    """Tiles are counted by batches last, so that CTAs side by side fetch the same of it."""
    case = Case("fp16", 4, 16, 16, 4096, 128, has_bias=True, beside=beside)
    module = regions_of(model_of(case))
    found = flash_of(streaming_of(*module.program.regions[:2]))
    assert [axis.name for axis in found.outer] == ["i1", "i0"]


@pytest.mark.parametrize("mask", ["fp32", "bool"])
def test_a_place_in_a_tile_is_worked_out_in_two_parts(mask: str) -> None:
    """What lanes make of it is apart from what is known before the run; a producer of such a tile has registers left
    for its tensor map."""
    module, fitting = with_tiles({**BIASED, "mask": mask, "t": 272})
    one = next(p for p in fitting if p.tile[:2] == (128, 64))
    text = manifest.show(to_cu.lower(to_gpu.lower(plan.Module(module, (one,)))))
    places = re.findall(r"swizzled_of_lane<\d+>\(mask_tile[^,]*, [^,]*, 2 \* \(lane % 4\), ", text)
    assert len(places) == 2 and one.regs.producer > 24


@pytest.mark.parametrize(("depth", "tile", "slots"), [(128, (192, 64), 2), (256, (128, 48), 1)])
def test_a_tile_that_three_warpgroups_read_has_two_slots(depth: int, tile: tuple[int, int], slots: int) -> None:
    """The next is on its way while they read one; the output leaves from registers, without memory."""
    module = regions_of(model_of(Case("fp16", 4, 16, 16, 4096, depth, has_bias=True, beside="fp32")))
    first = to_plan.lower(module, "sm90", "h200").plans[0]
    assert (first.tile[:2], first.stages, len(first.store)) == (tile, 2, slots % 2)
    found = {array.label: array.slots for array in declared(module, first).shared if "out" not in array.label}
    assert found == {"q": 1, "k": 2, "v": 2, "bias.tile": slots}


def test_lengths_that_are_even_alone_have_a_plan_of_the_same_family() -> None:
    """After the plan for rows of whole 16 bytes comes the one for pairs, where it is much faster than what assumes
    less."""
    case = Case("fp16", 4, 16, 16, 4096, 128, has_bias=True)
    first, second, *others = to_plan.lower(regions_of(model_of(case)), "sm90", "h200").plans
    assert [p.algo for p in (first, second)] == [ALGO, ALGO] and {p.algo for p in others} == {"streaming_mma"}
    assert [p.load_of("bias").by for p in (first, second)] == ["tma", "ld"]
    assert len(first.assume) == len(second.assume) and set(first.assume) != set(second.assume)
    assert second.estimate.microseconds < WORTH * others[0].estimate.microseconds


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"tile": (128, 80, 64)}, "tile"),
        ({"assume": ()}, "load"),
        ({"load": ()}, "load"),
    ],
)
def test_plans_that_may_not_are_refused_by_the_field(change: dict[str, Any], field: str) -> None:
    module, fitting = with_tiles({**BIASED, "t": "T"})
    one = replace(next(p for p in fitting if p.tile[:2] == (128, 64)), **change)
    faults = [d for d in check_plan(plan.Module(module, (one,))) if d.is_error]
    assert field in {d.facts.get("field", "load") for d in faults}, [str(d) for d in faults]


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        ("          wait empty.mask.tile[mask.tile.next.slot] phase mask.tile.next.phase\n", "", "E1613"),
        ("        wait full.mask.tile[mask.tile.s.slot] phase mask.tile.s.phase for %load.mask.tile\n", "", "E1616"),
        ("        barrier warpgroup\n        arrive empty.mask.tile", "        arrive empty.mask.tile", "E1613"),
        ("        arrive empty.mask.tile[mask.tile.s.slot]\n", "", "E1621"),
        ("expect 16384 B\n          %load.mask", "expect 16368 B\n          %load.mask", "E1618"),
        ("        advance mask.tile.s\n", "", "E1621"),
        ("mask.tile[mask.tile.s.slot][part, 0]", "mask.tile[mask.tile.s.slot][part + 64, 0]", "E1614"),
    ],
)
def test_planted_faults_are_caught(before: str, after: str, code: str) -> None:
    module, fitting = with_tiles({**BIASED, "t": "T"})
    one = next(p for p in fitting if p.tile[:2] == (128, 64) and p.stages > 2)
    text = gpu.show(to_gpu.lower(plan.Module(module, (one,))))
    assert before in text, text[text.index("\nkernel") :]
    found = {d.code for d in check_gpu(gpu.parse(text.replace(before, after, 1))) if d.is_error}
    assert code in found, found
