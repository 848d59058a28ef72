"""What the epilogue of a product reads at every place of the tile: which of it the copy engine brings, where plans say
so, and which plans may."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tinyir.front.json import read
from tinyir.ir import manifest, plan
from tinyir.kernels.parts.tile_reads import tile_reads
from tinyir.kernels.problem import kernel_of
from tinyir.lower import language_of, lower_to
from tinyir.play import tiny as play_tiny

from .emitted import simulated

CASE = "tinyir/kernels/warp_specialized/cases/hopper_residual.plan"


def lowered(text: str, stage: str) -> Any:
    module = read(text)
    for each in ("index", "poly", "region", "plan", "gpu", "cu"):
        module = lower_to(each, module, "sm90")
        if each == stage:
            return module
    raise AssertionError(stage)


def model(rows: int, columns: int, depth: int, other: str, **more: list[int]) -> str:
    """o = x @ w + `other`, all fp16."""
    shapes = {"x": [rows, depth], "w": [depth, columns], **more}
    made = {"y": [rows, columns], "o": [rows, columns]}
    return json.dumps(
        {
            "name": "m",
            "signature": {"inputs": [{"tensor": name} for name in shapes], "outputs": [{"tensor": "o"}]},
            "tensors": {name: {"dtype": "fp16", "shape": shape} for name, shape in {**shapes, **made}.items()},
            "graph": [
                {"op": "GEMM", "name": "y", "inputs": ["x", "w"], "outputs": ["y"]},
                {"op": "Elementwise", "fn": "add", "name": "o", "inputs": ["y", other], "outputs": ["o"]},
            ],
        }
    )


def offered(text: str) -> list[str]:
    region = lowered(text, "region").program.regions[-1]
    return [one.tensor for one, _ in tile_reads(region, kernel_of(region, "contraction"))]


def test_a_residual_is_brought_by_the_copy_engine() -> None:
    text = model(4096, 256, 64, "r", r=[4096, 256])
    assert offered(text) == ["r"]
    assert [one.load_of("r") for one in lowered(text, "plan").plans] == [plan.Load("r", "tma")]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(model(256, 256, 256, "x"), id="a factor"),
        pytest.param(model(256, 256, 64, "r", r=[256]), id="a bias"),
        pytest.param(model(256, 256, 64, "r", r=[256, 1]), id="a number for each row"),
    ],
)
def test_what_is_read_elsewhere_or_along_one_side_is_not(text: str) -> None:
    assert offered(text) == []


def test_rows_that_are_not_whole_16_bytes_are_read_by_threads() -> None:
    module = lowered(model(4096, 252, 64, "r", r=[4096, 252]), "plan")
    assert {one.load_of("r").by for one in module.plans} == {"ld"}


@pytest.mark.parametrize(
    ("line", "other", "field"),
    [
        ("async      prefetch 3 overlap epilogue", "async      prefetch 3", "async"),
        ("consumers  2 cooperative", "consumers  2 pingpong", "load"),
        ("store      C tma", "store      C rows", "load"),
        ("R tma", "R tma swizzle 64", "load"),
        ("R tma", "bias tma", "load"),
        ("R tma", "R tma, R tma", "load"),
    ],
)
def test_plans_that_may_not_are_refused_by_the_field(line: str, other: str, field: str) -> None:
    with open(CASE, encoding="utf-8") as file:
        text = file.read()
    assert line in text
    faults = language_of("plan").check(plan.parse(text.replace(line, other)))
    assert field in {d.facts.get("field") for d in faults if d.code in ("E1524", "E1525")}, [str(d) for d in faults]


def test_more_rows_for_a_warpgroup_than_a_product_has_are_read_by_threads() -> None:
    with open(CASE, encoding="utf-8") as file:
        text = file.read().replace("tile       [128, 192, 64]", "tile       [256, 96, 64]")
    (fault,) = (d for d in language_of("plan").check(plan.parse(text)) if d.facts.get("field") == "load")
    assert "R tma is not taken" in fault.why() and fault.why().endswith("and R only where tile[0] is 128")
    direct = plan.parse(text.replace(", R tma", ""))
    assert not [d for d in language_of("plan").check(direct) if d.is_error]


def test_it_gives_what_playback_gives() -> None:
    text = model(200, 264, 72, "r", r=[200, 264])
    draw = np.random.default_rng(3)
    arrays = {
        name: draw.integers(-3, 4, shape).astype(np.float16)
        for name, shape in {"x": (200, 72), "w": (72, 264), "r": (200, 264)}.items()
    }
    module = lowered(text, "gpu")
    assert "r.tile" in language_of("gpu").show(module)
    found = simulated(manifest.parse(language_of("cu").show(lower_to("cu", module, "sm90"))), arrays)
    np.testing.assert_array_equal(found["o"], play_tiny.play(read(text), arrays)["o"])
