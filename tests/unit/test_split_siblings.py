"""Sibling contractions of one region become a region each in the plan, and mean what they meant."""

from __future__ import annotations

import numpy as np
import pytest

from tinyir.ir import region, tiny
from tinyir.kernels.problem import Contraction, kernels_of
from tinyir.lower import lower_to
from tinyir.lower import plan as lower_plan
from tinyir.play.region import play

from .checked import check_plan
from .models import Net


def projections(net: Net, x: str) -> dict[str, str]:
    """Three results that do not meet."""
    return {name: net.relu(net.linear(x, 64, 128, name)) for name in "qkv"}


def gated(net: Net, x: str) -> dict[str, str]:
    """Two results that meet: one gates the other, and is a result itself."""
    gate, up = (net.matmul(x, net.input(f"w.{name}", 64, 128), name) for name in ("gate", "up"))
    net.begin("silu")
    active = net.last(net.put("TANH", gate))
    net.begin("mul")
    return {"y": net.last(net.put("MUL", active, up)), "g": gate}


def program_of(make, **sizes: int) -> tuple[tiny.Module, region.Module]:
    net = Net("siblings", M=32, **sizes)
    module = net.module(**make(net, net.input("x", "M", 64)))
    found = module
    for stage in ("index", "poly", "region"):
        found = lower_to(stage, found, "sm90")
    return module, found


def arrays_of(module: tiny.Module, rows: int = 5) -> dict[str, np.ndarray]:
    """Small integers, whose sums of products are exact in any order: BLAS has another for a product of other sizes."""
    numbers = np.random.default_rng(0)
    return {
        t.name: numbers.integers(-2, 3, [d.evaluate({"M": rows}) for d in t.type.shape]).astype(np.float32)
        for t in module.model.inputs
    }


@pytest.mark.parametrize("make, count", [(projections, 3), (gated, 2)])
def test_each_is_a_contraction_of_its_own(make, count: int) -> None:
    module, whole = program_of(make)
    assert len(whole.program.regions) == 1
    parts = lower_plan.in_parts(whole)
    assert [d.code for d in region.check(parts)] == [] and region.parse(region.show(parts)) == parts
    assert len(parts.program.regions) == count
    assert all(isinstance(kernels_of(r)[0], Contraction) for r in parts.program.regions)
    arrays = arrays_of(module)
    wanted, found = play(whole, arrays), play(parts, arrays)
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("make, code", [(projections, "R3469"), (gated, "R3467")])
def test_their_plans_hold_and_it_is_said(make, code: str) -> None:
    _, whole = program_of(make)
    planned = lower_to("plan", whole, "sm90")
    assert [d.code for d in check_plan(planned) if d.is_error] == []
    assert [d.code for d in lower_plan.verdicts(whole)] == [code]
    assert {p.family for p in planned.plans} == {"contraction"}


def test_what_fills_a_card_alone_has_no_siblings() -> None:
    net = Net("large", M=4096)
    x = net.input("x", "M", 1024)
    module = net.module(**{name: net.linear(x, 1024, 4096, name) for name in "qkv"})
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    assert len(module.program.regions) == 3
    assert lower_plan.in_parts(module) == module
