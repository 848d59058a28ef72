"""Warpgroups that take turns: each has every other tile, told by mbarriers, right in the simulation; a turn that is not
told, and a slot of the other's tile that is not gone over, are found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tinyir.ir import gpu, plan
from tinyir.ir.gpu import nodes
from tinyir.ir.gpu.walk import statements
from tinyir.ir.plan import Async, Consumers, Regs
from tinyir.lower import cu as to_cu
from tinyir.lower import gpu as to_gpu
from tinyir.lower import plan as to_plan

from .checked import check_gpu, check_plan
from .emitted import played, simulated
from .test_multistage import needs_host_compiler, whole_numbers
from .test_warp_specialized import BIAS, RESIDUAL, SCALED, product, with_tile


def in_turn(
    layout: str, tile: tuple[int, int], kind: Mapping[str, str], cluster: tuple[int, int], persistent: int, **how: Any
) -> plan.Module:
    """A product whose two warpgroups have a tile each."""
    made = with_tile(product(layout, **kind), *tile, cluster, (), how.pop("is_swapped", False))
    one = made.plans[0]
    changed = replace(
        one,
        consumers=Consumers(2, "pingpong"),
        stages=4,
        asynchrony=Async(4, "epilogue"),
        regs=Regs(40, 232),
        persistent=how.pop("ctas", persistent),
        bind=tuple(b for b in one.bind if b.place != "warpgroup"),
        load=tuple(item for item in one.load if item.swizzle),  # what the epilogue reads by tiles no pair in turn takes
    )
    return replace(made, plans=(replace(changed, **how),))


CASES: dict[str, tuple] = {
    "one CTA": ("NN", (64, 128), BIAS, (1, 1), 1),
    "two CTAs": ("NT", (64, 256), RESIDUAL, (1, 1), 2),
    "clusters": ("TT", (64, 64), SCALED, (2, 1), 4),
    "rows of two": ("TN", (128, 128), BIAS, (1, 1), 3),
    "more CTAs than tiles": ("NN", (64, 128), BIAS, (1, 1), 132),
}


@needs_host_compiler
@pytest.mark.parametrize("name", CASES)
def test_two_warpgroups_give_what_one_tile_each_gives(name: str) -> None:
    module = in_turn(*CASES[name])
    assert check_plan(module) == []
    made = to_gpu.lower(module)
    assert check_gpu(made) == [] and gpu.parse(gpu.show(made)) == made
    code = to_cu.lower(made)
    for sizes in ((200, 264, 328), (72, 16, 24)):
        arrays = whole_numbers(module.program, dict(zip("MNK", sizes)), 3)
        there, here = simulated(code, arrays), played(code, arrays)
        assert all(np.array_equal(there[n], here[n]) for n in here), sizes


def test_each_warpgroup_has_all_accumulators_of_its_tile() -> None:
    (kernel,) = to_gpu.lower(in_turn(*CASES["two CTAs"])).kernels
    (acc,) = (s for s in statements(kernel.body) if isinstance(s, nodes.Reg) and s.kind == "wgmma")
    assert [e.evaluate({}) for e in acc.type.shape] == [64, 256]
    (empty,) = (s for s in statements(kernel.body) if isinstance(s, nodes.Mbarrier) and s.name == "empty")
    assert empty.count == 1


@pytest.mark.parametrize(
    "field, change",
    [
        ("consumers", {"consumers": Consumers(3, "pingpong")}),
        ("async", {"asynchrony": Async(4)}),
        ("consumers", {"ctas": 0}),
    ],
)
def test_what_does_not_take_turns_is_refused(field: str, change: dict[str, Any]) -> None:
    faults = check_plan(in_turn(*CASES["two CTAs"], **change))
    assert field in {d.facts.get("field") for d in faults}


def test_more_accumulators_than_registers_are_refused() -> None:
    module = in_turn(*CASES["two CTAs"])
    wide = replace(
        module, plans=(replace(module.plans[0], tile=(128, 256, 64), stages=2, asynchrony=Async(2, "epilogue")),)
    )
    assert [d.code for d in check_plan(wide)] == ["E1513"]


BROKEN = [
    ("for tile in cta.x + warpgroup.index..tiles step 2", "for tile in cta.x..tiles step 2", "E1616"),
    ("for tile in cta.x + warpgroup.index..tiles step 2", "for tile in cta.x + warpgroup.index..tiles", "E1616"),
]


@pytest.mark.parametrize("old, new, code", BROKEN, ids=range(len(BROKEN)))
def test_tiles_that_are_taken_twice_or_not_at_all_are_found(old: str, new: str, code: str) -> None:
    text = gpu.show(to_gpu.lower(in_turn(*CASES["one CTA"])))
    assert old in text
    assert code in {d.code for d in check_gpu(gpu.parse(text.replace(old, new)))}


@pytest.mark.parametrize(
    "sizes, takes_turns",
    [
        ("M=4096, N=3072, K=768", True),
        ("M=16384, N=16384, K=1024", True),
        ("M=8192, N=8192, K=8192", False),
        ("M=1024, N=50257, K=768", False),
    ],
)
def test_they_take_turns_where_a_sum_is_short(sizes: str, takes_turns: bool) -> None:
    """Where the end of a tile takes as long as a part of its sum, and not where it is little beside it, or all warps of
    an SM wait for it: rows of an odd number of columns are stored element by element."""
    chosen = to_plan.lower(product("NT", **BIAS, sizes=sizes), device="h200").plans[0]
    assert chosen.takes_turns == takes_turns
