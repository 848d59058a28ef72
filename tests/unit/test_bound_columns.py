"""Masks that compare data of rows with data of columns: kernels before attention find which columns the rows of each
block may see, in any order of the data, and what it gives is what playback gives."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tinyir.ir import gpu, plan, region
from tinyir.kernels.alternatives import bound_columns
from tinyir.kernels.alternatives.parts import Names, with_parts
from tinyir.kernels.attention import streaming_of
from tinyir.kernels.attention.score import score_of
from tinyir.lower import language_of
from tinyir.lower import plan as to_plan
from tinyir.lower.plan.choose import card_of
from tinyir.lower.plan.kernels_for import columns_bounded
from tinyir.lower.plan.planner import Planner
from tinyir.play import region as play_region

from .emitted import lowered, played, simulated
from .stages import needs_host_compiler
from .test_streaming import arrays_of, regions_of

MASKS = {  # of a row's number q and a column's number k, and what of a score is then not -inf
    "of one document": ("equal", lambda q, k: q == k),
    "before": ("greater", lambda q, k: q > k),
    "not after": ("greater_equal", lambda q, k: q >= k),
    "after": ("less", lambda q, k: q < k),
    "not before": ("less_equal", lambda q, k: q <= k),
}


def masked(fn: str = "equal", s: Any = 300, t: Any = 333, dtype: str = "i32", causal: bool = False, d: int = 64) -> str:
    """Attention of two sequences, whose mask is `fn` of numbers of rows and of columns."""
    shapes: dict[str, Any] = {"Q": [2, 2, s, d], "K": [2, 2, t, d], "V": [2, 2, t, d], "O": [2, 2, s, d]}
    shapes |= {"rows": [2, s], "columns": [2, t]}
    graph: list[dict[str, Any]] = [
        {"op": "Reshape", "inputs": ["rows"], "outputs": ["own"], "attrs": {"shape": [2, 1, s, 1]}},
        {"op": "Reshape", "inputs": ["columns"], "outputs": ["other"], "attrs": {"shape": [2, 1, 1, t]}},
        {"op": "Elementwise", "inputs": ["own", "other"], "outputs": ["seen"], "attrs": {"fn": fn}},
        {"op": "Attention", "name": "attention", "inputs": ["Q", "K", "V", "seen"], "outputs": ["O"],
         "attrs": {"causal": causal}},
    ]  # fmt: skip
    kinds = dict.fromkeys(("rows", "columns"), dtype)
    given = ["Q", "K", "V", "rows", "columns"]
    return json.dumps(
        {
            "signature": {"inputs": [{"tensor": n} for n in given], "outputs": [{"tensor": "O"}]},
            "tensors": {n: {"dtype": kinds.get(n, "fp16"), "shape": shape} for n, shape in shapes.items()},
            "graph": graph,
            "shape_sets": {"first": {"S": 4096}} if "S" in (s, t) else {},
        }
    )


def pair_of(module: region.Module) -> tuple[region.Region, region.Region]:
    first = next(r for r in module.program.regions if any(t.attr("materialize") == "deferred" for t in r.outputs))
    return first, next(
        r for r in module.program.regions if {t.name for t in r.inputs} & {t.name for t in first.outputs}
    )


def bounded(text: str, number: int = 0) -> region.Module:
    """The model with the ends of columns, blocks of rows being the first or the second number of them."""
    module = regions_of(text)
    pair = pair_of(module)
    way = list(bound_columns.ways(pair, Names.of(module)))[number]
    whole = {one.name: (one,) for one in module.program.regions} | {pair[0].name: way}
    made = with_parts(module, whole)
    assert [d for d in region.check(made) if d.is_error] == []
    assert region.parse(region.show(made)) == made
    return made


def drawn(module: region.Module, order: str, sizes: dict[str, int], seed: int = 1) -> dict[str, np.ndarray]:
    """Arrays whose numbers of rows and columns are in this order."""
    arrays, draw = arrays_of(module, sizes, seed), np.random.default_rng(seed)
    for name in ("rows", "columns"):
        shape = arrays[name].shape
        found = np.sort(draw.integers(-3, 4, shape), 1) * (2 if name == "rows" else 1)
        found = draw.permuted(found, axis=1) if order == "shuffled" else found[:, ::-1] if order == "falling" else found
        arrays[name] = found.astype(arrays[name].dtype)
    return arrays


@pytest.mark.parametrize("order", ["rising", "falling", "shuffled"])
@pytest.mark.parametrize("name", MASKS)
def test_the_ends_leave_out_no_column_that_a_row_sees(name: str, order: str) -> None:
    """And none that no row sees is an end of theirs, but of documents between those of the block."""
    fn, sees = MASKS[name]
    module = bounded(masked(fn))
    arrays = drawn(module, order, {})
    values: dict[str, np.ndarray] = {}
    play_region.play(module, arrays, watch=values.setdefault)
    first, end = (next(x for n, x in values.items() if n.endswith(word)) for word in (".first", ".end"))
    seen = sees(arrays["rows"][:, :, None], arrays["columns"][:, None, :])
    for batch in range(2):
        for block in range(first.shape[1]):
            rows = slice(128 * block, 128 * block + 128)
            if fn == "equal":
                own, other = arrays["rows"][batch, rows], arrays["columns"][batch]
                columns = np.flatnonzero((own.min() <= other) & (other <= own.max()))
            else:
                columns = np.flatnonzero(seen[batch, rows].any(0))
            ends = (columns[0], columns[-1] + 1) if columns.size else (seen.shape[2], 0)
            assert (first[batch, block], end[batch, block]) == ends
            assert not seen[batch, rows, : ends[0]].any() and not seen[batch, rows, ends[1] :].any()


@needs_host_compiler
@pytest.mark.parametrize(
    ("name", "order", "is_causal", "number", "arch"),
    [
        ("of one document", "rising", True, 0, "sm80"),
        pytest.param("of one document", "rising", True, 0, "sm90", marks=pytest.mark.slow),
        ("of one document", "shuffled", False, 1, "sm90"),
        ("not after", "falling", False, 0, "sm90"),
        pytest.param("before", "rising", False, 1, "sm80", marks=pytest.mark.slow),
    ],
)
def test_attention_between_the_ends_equals_playback(
    name: str, order: str, is_causal: bool, number: int, arch: str
) -> None:
    """Rows that see nothing among them."""
    module = to_plan.lower(bounded(masked(MASKS[name][0], s=300, t=300, causal=is_causal), number), arch)
    assert module.plans[-1].algo in ("streaming_softmax", "streaming_mma")
    assert bound_columns.BLOCKS[number] % module.plans[-1].tile[0] == 0
    _, code = lowered(module)
    arrays = drawn(module.program, order, {}, number)
    found, wanted = (run["O"].astype(np.float64) for run in (simulated(code, arrays, 1), played(code, arrays)))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_allclose(found, wanted, rtol=3e-3, atol=3e-3)


def test_a_mask_that_says_what_is_not_seen() -> None:
    """-inf where documents differ, or where a row comes before a column: as many columns are between the ends."""
    module = regions_of(masked(s=140, t=150))
    text = region.show(module)
    plain = re.search(r"%seen += cmpeq\((.*)\)\n", text)
    assert plain is not None
    hidden = f"%seen = or(cmpne({plain[1]}), cmplt({plain[1]}))"
    text = text.replace(plain[0].rstrip(), hidden)
    text = re.sub(r"where\((broadcast_in_dim\(%seen, dims=\[[\d, ]*\]\)), (.*), -inf\)", r"where(\1, -inf, \2)", text)
    other = region.parse(text)
    (way, _) = bound_columns.ways(pair_of(other), Names.of(other))
    made = with_parts(other, {r.name: (r,) for r in other.program.regions} | {way[2].name: way})
    assert [d for d in region.check(made) if d.is_error] == []
    assert len(way[0].yields) == 4  # of both comparisons
    arrays = drawn(other, "rising", {})
    found, wanted = (play_region.play(m, arrays)["O"] for m in (made, other))
    np.testing.assert_array_equal(found, wanted)


def test_it_is_done_where_the_cost_model_finds_that_it_takes_less() -> None:
    long, short = (columns_bounded(regions_of(masked(s=n, t=n)), Planner(card_of("sm90", "h200"))) for n in (4096, 64))
    assert [len(way) for way in long[1].values()] == [3] and not short[1]
    assert len(long[0].program.regions) == len(short[0].program.regions) + 2
    exact = masked(s=4096, t=4096).replace('"fp16"', '"fp32"')  # of a family that walks every column
    assert not columns_bounded(regions_of(exact), Planner(card_of("sm90", "h200")))[1]
    again = columns_bounded(long[0], Planner(card_of("sm90", "h200")))
    assert not again[1]


def test_blocks_of_rows_at_any_length() -> None:
    """The number of blocks is the length's; each tile reads the ends of its own."""
    module = bounded(masked(s="S", t="S"))
    text = region.show(module)
    assert "floor((S + 127)/128)" in text
    made, _ = lowered(to_plan.lower(module))
    assert "attention.end[i0, floor(m0/128)]" in gpu.show(made)


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_numbers_of_which_there_may_be_no_least_are_left_alone(dtype: str) -> None:
    module = regions_of(masked(dtype=dtype))
    assert not list(bound_columns.ways(pair_of(module), Names.of(module)))


def test_a_tile_is_part_of_one_block() -> None:
    module = bounded(masked())
    kernel = streaming_of(*pair_of(module))
    assert {limit.rows for limit in score_of(kernel).limits} == {128}
    found = to_plan.candidates(module, pair_of(module)[0])
    fitting = [c.plan for c in found if c.rejected in ("", to_plan.CROWDED)]
    assert fitting and all(128 % one.tile[0] == 0 for one in fitting)
    one = next(p for p in fitting if p.algo == "streaming_softmax")
    wide = replace(one, tile=(192, *one.tile[1:]), threads=(), consumers=plan.Consumers(3, "cooperative"), regs=None)
    faults = {d.code: d.facts for d in language_of("plan").check(plan.Module(module, (wide,)))}
    assert faults["E1581"]["field"] == "tile" and "128" in str(faults["E1581"]["wanted"])
