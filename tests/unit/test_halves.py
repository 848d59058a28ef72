"""Maps that become another at a place along an axis, as concatenations do: each side in vectors."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tinyir.ir import plan, region
from tinyir.ir.gpu import nodes
from tinyir.ir.gpu.walk import statements
from tinyir.kernels.parts.halves import halves_of
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
