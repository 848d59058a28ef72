"""Producers whose readers want other points: computed there when that takes less than a round trip, and then right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinyir.front.json import read
from tinyir.ir.expr import Expr
from tinyir.lower import lower_to
from tinyir.lower import region as lower_region

from .stages import Stages, graph


def windows(channels: int, size: int, last: tuple[str, dict[str, Any]], groups: int = 0) -> str:
    """A depthwise 3x3 convolution and what reads it: a pool, or a convolution of `groups`."""
    op, attrs = last
    inputs = {"x": ("fp32", [1, channels, size, size]), "w": ("fp32", [channels, 1, 3, 3])}
    if groups:
        inputs["v"] = ("fp32", [channels, channels // groups, 3, 3])
    conv = ("Conv", ["x", "w"], "a", {"stride": [1], "pad": [1], "groups": channels})
    then = (
        op,
        ["a", "v"] if groups else ["a"],
        "y",
        {"stride": [1], "pad": [1], **attrs, **({"groups": groups} if groups else {})},
    )
    return graph(inputs, {"y": ("fp32", [1, channels, size, size])}, conv, then)


def verdict(text: str, source: str) -> dict[str, Any]:
    module = read(text)
    for stage in ("index", "poly"):
        module = lower_to(stage, module, "sm90")
    return next({"code": d.code, **d.facts} for d in lower_region.verdicts(module) if d.facts.get("source") == source)


@pytest.mark.parametrize("last, groups", [(("Conv", {}), 4), (("Pool", {"mode": "max", "kernel": [3]}), 0)])
def test_a_window_of_a_window_in_one_region(last: tuple[str, dict[str, Any]], groups: int) -> None:
    stages = Stages(windows(4, 9, last, groups))
    assert len(stages.region.program.regions) == 1
    assert stages.region.program.regions[0].analysis.halo == (("i1", Expr.of(4)), ("i2", Expr.of(4)))
    numbers = np.random.default_rng(0)
    arrays = {
        t.name: numbers.integers(-4, 5, [d.constant for d in t.type.shape]).astype(np.float32)
        for t in stages.region.model.inputs
    }
    (_, wanted), *others = stages.outputs(arrays)
    for stage, found in others:
        np.testing.assert_array_equal(found["y"], wanted["y"], err_msg=stage)


@pytest.mark.parametrize(
    "channels, size, groups, code, rule",
    [
        (32, 56, 32, "R3401", "compute at"),  # a launch takes longer than nine times the work
        (256, 256, 256, "R3402", "cost"),  # 17 million elements, each nine times
        (32, 56, 1, "R3402", "operand"),  # a contraction reads what it multiplies
    ],
)
def test_the_cost_model_decides(channels: int, size: int, groups: int, code: str, rule: str) -> None:
    found = verdict(windows(channels, size, ("Conv", {}), groups), "a.sum")
    assert (found["code"], found["rule"]) == (code, rule)
    # the groups are an axis
    assert found["legal"] is False and found["halo"] == "i2: 2, i3: 2" if groups == 1 else "i3: 2, i4: 2"
    assert found["halo_elements"] == 34**2 - 32**2 and found["halo_bytes"] == 4 * found["halo_elements"]


def chain(count: int, fan: int = 1) -> str:
    """`count` times the greater of two neighbours, on a ring."""
    ops: list[tuple[str, list[Any], str, dict[str, Any]]] = []
    for n in range(count):
        last = f"v{n}" if n else "x"
        ops += [
            ("Roll", [last], f"r{n}", {"shifts": [1], "axes": [0]}),
            ("Elementwise", [last, f"r{n}"], f"v{n + 1}", {"fn": "max"}),
        ]
    return graph(
        {"x": ("fp32", [64])}, {f"v{count}": ("fp32", [64]), **({"v1": ("fp32", [64])} if fan > 1 else {})}, *ops
    )


@pytest.mark.parametrize("count, regions", [(2, 1), (12, 6)])
def test_a_chain_is_cut_before_its_text_doubles_too_often(count: int, regions: int) -> None:
    stages = Stages(chain(count))
    assert len(stages.region.program.regions) == regions
    x = np.random.default_rng(0).standard_normal(64).astype(np.float32)
    wanted = x
    for _ in range(count):
        wanted = np.maximum(wanted, np.roll(wanted, 1))
    stages.assert_gives({"x": x}, {f"v{count}": wanted})


def test_what_others_read_is_computed_once() -> None:
    assert len(Stages(chain(2, fan=2)).region.program.regions) == 2
