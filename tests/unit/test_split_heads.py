"""Heads of a query that share keys, as exporters repeat them, become rows of one tile where each has one query."""

from __future__ import annotations

import numpy as np
import pytest

from tinyir.ir import region
from tinyir.lower import lower_to
from tinyir.lower import plan as to_plan
from tinyir.lower.region.split_heads import split_heads
from tinyir.play import region as play_region
from tinyir.play import tiny as play_tiny

from .emitted import lowered, simulated
from .naive_attention import Spelling, Writer, arrays_of
from .stages import needs_host_compiler

DEPTH, LENGTH = 16, 37


def spelled(repeat: int, heads: int = 8, queries: int = 1, **more: object) -> Spelling:
    sizes = (heads, queries, LENGTH, DEPTH, DEPTH)
    return Spelling(dtype="fp16", sizes=sizes, repeat=repeat, **more)


def regions_of(how: Spelling) -> tuple[object, region.Module]:
    model = module = Writer(how).module()
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    assert region.check(module) == []
    return model, module


def pair_of(module: region.Module) -> tuple[region.Region, region.Region]:
    (handed,) = (b.name for b in module.program.buffers if b.attr("materialize") == "deferred")
    first = next(r for r in module.program.regions if any(t.name == handed for t in r.outputs))
    return first, next(r for r in module.program.regions if any(t.name == handed for t in r.inputs))


@pytest.mark.parametrize("repeat", [2, 4])
@pytest.mark.parametrize("softmax", ["usual", "logged", "negated", "guarded"])
def test_the_heads_of_a_group_are_rows(repeat: int, softmax: str) -> None:
    how = spelled(repeat, softmax=softmax)
    model, module = regions_of(how)
    first, second = pair_of(module)
    for one in (first, second):
        assert [str(a.size) for a in one.iters][:2] == [str(8 // repeat), str(repeat)]
        assert "floor" not in "".join(str(let.expr) for let in one.lets)
    arrays = arrays_of(model, repeat)
    found, wanted = play_region.play(module, arrays), play_tiny.play(model, arrays)
    for name, want in wanted.items():
        np.testing.assert_allclose(found[name].astype(float), want.astype(float), rtol=2e-3, atol=2e-3)


@needs_host_compiler
@pytest.mark.parametrize("arch", ["sm80", "sm90"])
def test_their_kernels_are_right(arch: str) -> None:
    how = spelled(4, scores=("scale", "mask"))
    model = module = Writer(how).module()
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, arch)
    arrays = arrays_of(model, 3)
    wanted = play_tiny.play(model, arrays)
    for name, given in simulated(lowered(to_plan.lower(module, arch))[1], arrays).items():
        np.testing.assert_allclose(given.astype(float), wanted[name].astype(float), rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("how", [spelled(1), spelled(8), spelled(4, queries=5)], ids=["alone", "all", "queries"])
def test_others_stay_as_they_are(how: Spelling) -> None:
    """Heads that share no key, that all share one, or that have rows of their own."""
    _, module = regions_of(how)
    assert split_heads(module.program) is module.program
    first, _ = pair_of(module)
    assert str(first.iters[0].size) == "8"
