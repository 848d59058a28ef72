"""Reports about other compilers, restated: graphs whose cost grew with the number of paths through them and not with
their size."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from tinyir.front.json import read
from tinyir.ir import tiny
from tinyir.lower import language_of, lower_to
from tinyir.play.tiny import play

from .stages import graph

# --- A20: p(i+1) = 0.5*p(i) + 0.5*p(i) doubled the work at each step (tinygrad 2259); the work itself is counted in test_cases_regions.py  # noqa: E501


def diamonds(count: int) -> str:
    """Front-end JSON of `count` diamonds in a row; the result equals x."""
    ops: list[tuple[str, list[Any], str, dict[str, Any]]] = []
    for n in range(count):
        last = f"p{n}"
        ops += [("Elementwise", [last, 0.5], f"{side}{n}", {"fn": "mul"}) for side in "ab"]
        ops.append(("Elementwise", [f"a{n}", f"b{n}"], f"p{n + 1}", {"fn": "add"}))
    return graph({"p0": ("fp32", [16])}, {f"p{count}": ("fp32", [16])}, *ops)


def texts(count: int) -> dict[str, int]:
    """The lines of each stage's text, down to regions."""
    module = read(diamonds(count))
    lines = {"tiny": tiny.show(module).count("\n")}
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
        lines[stage] = language_of(stage).show(module).count("\n")
    return lines


def test_diamonds_in_a_row_give_what_they_were_given() -> None:
    x = np.random.default_rng(0).standard_normal(16).astype(np.float32)
    for count in (1, 10, 40, 200):
        module = read(diamonds(count))
        np.testing.assert_array_equal(play(module, {"p0": x})[f"p{count}"], x)


def test_texts_grow_with_the_graph() -> None:
    found = {count: texts(count) for count in (10, 20, 40)}
    for stage in ("tiny", "index", "poly", "region"):
        ten, twenty, forty = (found[n][stage] for n in (10, 20, 40))
        assert forty - twenty == 2 * (twenty - ten)


@pytest.mark.parametrize("count", [16, 64])
def test_a_square_of_a_square_is_not_computed_twice_as_often(count: int) -> None:
    """Each step reads the one before twice, and at another place, so that nothing but a copy of it could take
    its place."""
    ops: list[tuple[str, list[Any], str, dict[str, Any]]] = []
    for n in range(count):
        last = f"v{n - 1}" if n else "x"
        ops += [("Elementwise", [last, last], f"m{n}", {"fn": "mul"}), ("Flip", [f"m{n}"], f"v{n}", {"axes": [0]})]
    module = read(graph({"x": ("fp32", [16])}, {f"v{count - 1}": ("fp32", [16])}, *ops))
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    assert language_of("region").show(module).count("\n") < 40 * count


@pytest.mark.parametrize("count", [1000, pytest.param(5000, marks=pytest.mark.slow)])
def test_thousands_of_diamonds(count: int) -> None:
    """Reading, parsing, checking and lowering do not recurse along the graph, which is deeper than Python's stack."""
    assert 2 * count > sys.getrecursionlimit()
    module = read(diamonds(count))
    assert tiny.parse(tiny.show(module)) == module
    assert [d for d in tiny.check(module) if d.is_error] == []
    for stage in ("index", "poly"):
        module = lower_to(stage, module, "sm90")
    assert len(module.blocks) == 3 * count
    assert [d for d in language_of("poly").check(module) if d.is_error] == []
