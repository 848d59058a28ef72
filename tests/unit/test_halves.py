"""Maps that become another at a place along an axis, as concatenations do: each side in vectors."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tinyir.ir import plan, region, tiny
from tinyir.ir.body import Ternary, Unary, show_body, walk
from tinyir.ir.gpu import nodes
from tinyir.ir.gpu.walk import statements
from tinyir.ir.intervals import Interval
from tinyir.ir.traits import bodies_of
from tinyir.kernels.alternatives.choices import decided
from tinyir.kernels.attention.limits import limits_in
from tinyir.kernels.parts.halves import halves_of
from tinyir.lower import lower_to
from tinyir.lower.plan import candidates
from tinyir.runtime.arrays import random_arrays
from tinyir.sim.host import COMPILERS

from .emitted import lowered, played, region_text, simulated


def joined(columns: int, *places: int) -> region.Module:
    """Y is X[i1] up to the first place, then 2 X[i1 - place], then 3 X[i1 - place] ... Each choice is a value, the one
    of the last place first."""
    ends = (*places, columns)
    parts = []
    for number, (start, end) in enumerate(zip((0, *places), ends), 1):
        low, at = ("0 <= ", f"i1 - {start}") if start else ("", "i1")
        high = f" < {end - start}" if end < columns else ""
        parts.append(f"mul(X[i0, {at}], {number}.0) where {low}{at}{high} else 0.0")
    body, lets = f"({parts[-1]})", []
    for part, place in list(zip(parts, places))[::-1]:
        choice = f"where(broadcast_in_dim(cmplt(index(i1) : i64, {place}), dims=[1]), ({part}), {body})"
        lets.append(f"%from{place} = {choice}")
        body = f"%from{place}"
    text = region_text(
        f"in X : fp32[M, {columns}]\nout Y : fp32[M, {columns}]",
        "\n".join((f"for i0: M, i1: {columns}", *lets, f"yield Y[i0, i1] = {body}")),
    )
    return region.parse(text)


def one_of(module: region.Module) -> region.Region:
    return module.program.regions[0]


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
@pytest.mark.parametrize("places", [(32,), (30,), (16, 48), (5, 37)], ids=str)
def test_each_side_computes_what_playback_computes(places: tuple[int, ...]) -> None:
    module = joined(64, *places)
    found = [c.plan for c in candidates(module, one_of(module)) if c.plan.algo == "flat" and c.plan.vectorize]
    assert found
    _, code = lowered(plan.Module(module, (found[0],)))
    for rows in (1, 7):
        arrays = random_arrays(module.model, {"M": rows}, rows)
        np.testing.assert_array_equal(simulated(code, arrays)["Y"], played(code, arrays)["Y"])


def test_a_place_between_vectors_leaves_no_element_alone() -> None:
    """Where the place is a multiple of the width all accesses are whole; else those around it are single."""
    for place, is_whole in ((32, True), (30, False)):
        module = joined(64, place)
        chosen = next(c.plan for c in candidates(module, one_of(module)) if c.plan.vectorize)
        body = lowered(plan.Module(module, (chosen,)))[0].kernels[0].body
        stores = [s for s in statements(body) if isinstance(s, nodes.Store)]
        assert {s.vector == 1 for s in stores} == ({False} if is_whole else {True, False})


@pytest.mark.parametrize(
    ("number", "dtype", "place"),
    [("32", "i64", 32), ("32", "i32", 32), ("32.5", "fp32", None), ("inf", "fp16", None), ("nan", "fp32", None)]
    + [("32", dtype, None) for dtype in ("i8", "u8", "u32", "fp16")],
)
def test_places_are_numbers_of_integers_that_hold_every_place(number: str, dtype: str, place: int | None) -> None:
    """index(i1) : i8 is less than 32 from 128 on again, and 32 is less than 32.5."""
    text = region_text(
        "in X : fp32[320]\nin Z : fp32[320]\nout Y : fp32[320]",
        f"for i1: 320\nyield Y[i1] = where(cmplt(index(i1) : {dtype}, {number}), X[i1], Z[i1])",
    )
    one = one_of(region.parse(text))
    found = halves_of(one, "i1", 8)
    assert (found.place if found is not None else None) == place
    (row,) = one.yields
    assert (decided(row.expr, {"i1": Interval(0, 7)}) != row.expr) == (place is not None)


@pytest.mark.parametrize(
    ("steps", "dtype", "wanted"),
    [
        (["CAST({}) : i64", "SUB({}, %one) : i64"], "i64", ["cast(n[i0]) : i64"]),
        (["SUB({}, %one) : u8", "CAST({}) : i64"], "i64", ["cast(sub(n[i0], 1)) : i64"]),
        (["SUB({}, %one) : u8"], "u8", []),
    ],
    ids=["sub of i64", "sub of u8", "cmplt of u8"],
)
def test_ends_that_data_give_are_integers_that_do_not_wrap(steps: list[str], dtype: str, wanted: list[str]) -> None:
    """0 - 1 is 255 in u8: a limit has it as a whole."""
    shape, value = "[4, 8, 320]", "%n1"
    lines = [f"  {side} : fp32{shape}" for side in ("in X", "in Z", "out Y")]
    lines += ["  in n : u8[4]", "", "  %n0 = RESHAPE(n) : u8[4, 1, 1]", f"  %n1 = EXPAND(%n0) : u8{shape}"]
    for step in steps:
        if "SUB" in step:
            lines.append(f"  %one = CONST() {{value=1}} : {step.split()[-1]}{shape}")
        lines.append(f"  {value}s = {step.format(value)}{shape}")
        value += "s"
    lines += [f"  %i = IOTA() {{axis=2}} : {dtype}{shape}", f"  %seen = CMPLT(%i, {value}) : bool{shape}"]
    lines += [f"  %y = WHERE(%seen, X, Z) : fp32{shape}", "", "outputs: Y=%y", ""]
    text = tiny.parse("\n".join(["tinyir 1.0 tiny", "", "model m", *lines]))
    for stage in ("index", "poly", "region"):
        text = lower_to(stage, text, "sm90")
    one = one_of(text)
    _, row, column = one.iters
    (condition,) = (n.first for b in bodies_of(one) for n in walk(b) if isinstance(n, Ternary))
    _, limits, _ = limits_in(one, condition, row, column, 0)
    data = [n for limit in limits for n in walk(limit.value) if isinstance(n, Unary)]
    assert [show_body(n) for n in data] == wanted


def test_a_map_that_is_the_same_all_along_has_no_place() -> None:
    text = region_text("in X : fp32[M, 64]\nout Y : fp32[M, 64]", "for i0: M, i1: 64\nyield Y[i0, i1] = X[i0, i1]")
    assert halves_of(one_of(region.parse(text)), "i1", 8) is None
    found = halves_of(one_of(joined(64, 16, 48)), "i1", 8)
    assert found.place == 48 and halves_of(found.behind, "i1", 8) is None
    assert halves_of(found.before, "i1", 8).place == 16


def test_a_place_has_a_vector_on_both_sides() -> None:
    assert halves_of(one_of(joined(64, *range(2, 64, 2))), "i1", 8) is None
    assert halves_of(one_of(joined(64, 4, 32, 61)), "i1", 8).place == 32


def test_statements_grow_with_the_pieces_and_not_with_their_combinations() -> None:
    def count(pieces: int) -> int:
        module = joined(32 * pieces, *range(32, 32 * pieces, 32))
        chosen = next(c.plan for c in candidates(module, one_of(module)) if c.plan.vectorize)
        body = lowered(plan.Module(module, (chosen,)))[0].kernels[0].body
        assert all(s.vector > 1 for s in statements(body) if isinstance(s, nodes.Store))
        return sum(1 for _ in statements(body))

    few, many = count(3), count(24)
    assert many <= 8 * few
