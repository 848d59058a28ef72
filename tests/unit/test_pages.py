"""Attention over a cache in pages: the kernel follows the table itself, and no copy is made; against playback in the
simulation, with pages in any order, of any size, and tables that name none."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tinyir.ir import gpu, plan, region
from tinyir.kernels.alternatives.parts import Names
from tinyir.kernels.alternatives.split_columns import split_columns
from tinyir.lower import plan as to_plan
from tinyir.lower.plan.choose import card_of
from tinyir.lower.plan.kernels_for import in_two_steps, pages_read
from tinyir.lower.plan.planner import Planner

from .emitted import lowered, played, simulated
from .stages import needs_host_compiler
from .test_streaming import arrays_of, regions_of

SIZES = {"N": 5, "P": 9}


def paged(page: int = 64, order: str = "phnd", least: int = 1, has_lengths: bool = True, dtype: str = "i32") -> str:
    """A model of one query for each of two sequences, whose keys are in pages of `page` rows each: page, head, row,
    depth in this `order`. Symbols are at least `least`."""
    shape = {"p": "P", "h": 2, "n": page, "d": 64}
    tensors: dict[str, Any] = {"Q": [2, 8, 1, 64], "O": [2, 8, 1, 64], "table": [2, "N"], "lengths": [2]}
    tensors |= {name: [shape[n] for n in order] for name in ("Kp", "Vp")}
    graph: list[dict[str, Any]] = []
    perm = [0, *(2 + order[1:].index(n) if n != "N" else 1 for n in "hNnd")]
    for name in "KV":
        graph += [
            {"op": "Gather", "inputs": [f"{name}p", "table"], "outputs": [f"{name}1"], "attrs": {"axis": 0}},
            {"op": "Transpose", "inputs": [f"{name}1"], "outputs": [f"{name}2"], "attrs": {"perm": perm}},
            {"op": "Reshape", "inputs": [f"{name}2"], "outputs": [name], "attrs": {"shape": [2, 2, f"{page}*N", 64]}},
        ]
    inputs = ["Q", "K", "V"]
    if has_lengths:
        iota = {"shape": [1, 1, 1, f"{page}*N"], "axis": 3, "dtype": "i32"}
        graph += [
            {"op": "Iota", "inputs": [], "outputs": ["keys"], "attrs": iota},
            {"op": "Reshape", "inputs": ["lengths"], "outputs": ["each"], "attrs": {"shape": [2, 1, 1, 1]}},
            {"op": "Elementwise", "inputs": ["keys", "each"], "outputs": ["less"], "attrs": {"fn": "less"}},
        ]
        inputs.append("less")
    graph.append({"op": "Attention", "name": "attention", "inputs": inputs, "outputs": ["O"]})
    given = ["Q", "Kp", "Vp", "table", *(["lengths"] if has_lengths else [])]
    kinds = {"table": dtype, "lengths": "i32"}
    return json.dumps(
        {
            "signature": {"inputs": [{"tensor": n} for n in given], "outputs": [{"tensor": "O"}]},
            "tensors": {
                n: {"dtype": kinds.get(n, "fp16"), "shape": s} for n, s in tensors.items() if n in (*given, "O")
            },
            "graph": graph,
            "shape_sets": {"first": {"N": 64, "P": 200}},
            "symbols": {"N": [least, 1024], "P": [least, 65536]},
        }
    )


def read_in_place(text: str) -> region.Module:
    """The module whose attention reads pages in place."""
    module, found = pages_read(regions_of(text), Planner(card_of("sm90", "h200")))
    assert list(found.values()) and len(module.program.regions) == 2
    assert [d for d in region.check(module) if d.is_error] == []
    assert region.parse(region.show(module)) == module
    return module


def inputs_of(module: region.Module, page: int, lengths: tuple[int, int]) -> dict[str, np.ndarray]:
    """Pages in an order that is none; those beyond a length are the last, or none that there is."""
    arrays = arrays_of(module, SIZES, 3)
    table = np.array([[7, 2, 8, 0, 4], [1, 3, 6, 5, 0]])
    for sequence, length in enumerate(lengths):
        table[sequence, -(-length // page) :] = [-1, 99, -200, 9, 1000][-(-length // page) :]
    arrays["table"] = table.astype(arrays["table"].dtype)
    return arrays | ({"lengths": np.array(lengths, np.int32)} if "lengths" in arrays else {})


@needs_host_compiler
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize(
    "how",
    [{}, {"page": 32, "order": "pnhd"}, {"page": 128, "dtype": "i64"}, {"page": 16}],
    ids=["64 rows", "rows before heads", "long pages", "short pages"],
)
def test_pages_are_read_where_they_lie(how: dict[str, Any], parts: int) -> None:
    module, page = read_in_place(paged(**how)), how.get("page", 64)
    if parts > 1:
        pair = module.program.regions[0], module.program.regions[1]
        way = split_columns(pair, parts, 64, Names.of(module))
        assert way is not None
        module = in_two_steps(module, pair, way)
    planned = to_plan.lower(module, "sm90", "h200")
    assert planned.plans[0].algo == "streaming_softmax" and page % planned.plans[0].tile[1] == 0
    kernels, code = lowered(planned)
    assert "choose k.page = " in gpu.show(kernels) and "k.map = Kp" in gpu.show(kernels)
    arrays = inputs_of(module, page, (page + 3, 5 * page - 1))
    np.testing.assert_allclose(simulated(code, arrays)["O"], played(code, arrays)["O"], rtol=3e-3, atol=3e-3)


def test_the_planner_makes_no_copy_of_pages() -> None:
    module = regions_of(paged())
    plans = to_plan.lower(module, "sm90", "h200").plans
    assert {p.algo for p in plans} <= {"streaming_softmax", "flat"} and plans[0].algo == "streaming_softmax"
    (said,) = [d for d in to_plan.verdicts(module, "sm90", "h200") if d.code == "R3481"]
    assert len(dict(said.facts)["copies"].split(", ")) == 2


@pytest.mark.parametrize("arch, least", [("sm80", 1), ("sm90", 0)], ids=["no copy engine", "sizes that may be 0"])
def test_copies_are_made_where_no_kernel_follows_a_table(arch: str, least: int) -> None:
    module = regions_of(paged(least=least))
    planned = to_plan.lower(module, arch)
    assert any("gather" in line for line in plan.show(planned).splitlines())
    assert len({r for p in planned.plans for r in p.regions}) >= 4
    assert not [d for d in to_plan.verdicts(module, arch) if d.code == "R3481"]
