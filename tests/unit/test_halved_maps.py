"""Maps that do one thing in the first half of their rows and another in the second: both halves at each point give the
same bits, and no choice and no load twice is left."""

from __future__ import annotations

import numpy as np
import pytest

from tests.models.network import Network, RandomModel
from tinyir.ir import gpu, region
from tinyir.ir.body import Read, Select, Ternary, walk
from tinyir.ir.prove_region import check_proofs
from tinyir.ir.traits import bodies_of
from tinyir.kernels.alternatives.halve_maps import halve_maps
from tinyir.kernels.alternatives.parts import Names, Surroundings, with_parts
from tinyir.lower import plan as to_plan
from tinyir.play import region as play_region

from .emitted import lowered, simulated
from .stages import needs_host_compiler
from .test_streaming import regions_of


def rotary(
    rows: int = 6, columns: int = 32, dtype: str = "fp16", is_shared: bool = True, turns: int | None = None
) -> RandomModel:
    """The halves of rows, turned by angles of each place, or by those of one row for all (`turns` is 1); unless
    `is_shared`, each half scaled alone."""
    net, half = Network("rotary", dtype), columns // 2
    low, high = net.split(net.input("x", [rows, columns]), ["low", "high"])
    cos, sin = (net.input(name, [turns or rows, half]) for name in ("cos", "sin"))

    def times(name: str, x: str, y: str) -> str:
        return net.elementwise("mul", name, x, y)

    if is_shared:
        first = net.elementwise("sub", "first", times("a", low, cos), times("b", high, sin))
        second = net.elementwise("add", "second", times("c", high, cos), times("d", low, sin))
    else:
        first, second = times("first", low, cos), times("second", high, sin)
    return net.model(net.op("Concat", "y", [first, second], [rows, columns], axis=1))


def halved(module: region.Module) -> region.Module:
    """The module with its maps halved, whatever they take."""
    around = Surroundings(Names.of(module), lambda one: 0.0, {})
    made = with_parts(module, {r.name: halve_maps(r, around) for r in module.program.regions})
    assert [d.code for d in region.check(made) if d.is_error] == []
    assert [d for r in made.program.regions for d in check_proofs(made, r)] == []
    assert region.parse(region.show(made)) == made
    return made


@pytest.mark.parametrize(("columns", "dtype"), [(32, "fp16"), (48, "fp16"), (128, "fp16"), (16, "fp32"), (48, "fp32")])
def test_both_halves_are_done_at_once(columns: int, dtype: str) -> None:
    model = rotary(columns=columns, dtype=dtype)
    before = to_plan.in_parts(regions_of(model.text))
    after = halved(before)
    (one,) = after.program.regions
    nodes = [n for body in bodies_of(one) for n in walk(body)]
    assert len(one.yields) == 2 and one.iters[-1].size.constant == columns // 2
    assert not any(isinstance(n, (Select, Ternary)) for n in nodes)
    assert len({n for n in nodes if isinstance(n, Read)}) == 4
    arrays = model.arrays()
    wanted, found = (play_region.play(module, arrays)["y"] for module in (before, after))
    np.testing.assert_array_equal(found, wanted)


@needs_host_compiler
@pytest.mark.parametrize("turns", [6, 1])
def test_of_halves_of_less_than_a_sector_a_thread_writes_one(turns: int) -> None:
    """16 bytes each: neighbouring threads write a row together, and each reads all of it. Angles of one row for all
    meet the axes of the row alone."""
    model = rotary(columns=16, turns=turns)
    before = to_plan.in_parts(regions_of(model.text))
    after = halved(before)
    (one,) = after.program.regions
    assert [a.size.constant for a in one.iters] == [6, 2, 8] and len(one.yields) == 1
    assert len({n for body in bodies_of(one) for n in walk(body) if isinstance(n, Read)}) == 4
    arrays = model.arrays()
    wanted, found = (play_region.play(module, arrays)["y"] for module in (before, after))
    np.testing.assert_array_equal(found, wanted)
    kernels, code = lowered(to_plan.lower(after, device="h200"))
    text = gpu.show(kernels)
    assert text.count("vector 8") == 5 and "if h0" not in text  # four loads and a store
    np.testing.assert_array_equal(simulated(code, arrays)["y"], wanted)


@pytest.mark.parametrize(("columns", "is_shared"), [(24, True), (10, True), (32, False)])
def test_halves_that_break_vectors_or_share_nothing_stay(columns: int, is_shared: bool) -> None:
    module = to_plan.in_parts(regions_of(rotary(columns=columns, is_shared=is_shared).text))
    assert halved(module) == module


SCALED_HALVES = """tinyir 1.0 region

model scaled
  in  X           : fp32[4, 32, 64]
  in  C           : fp32[4, 16]
  out Y           : fp32[4, 32]

program scaled

region scaled
  in  X           : fp32[4, 32, 64]
  in  C           : fp32[4, 16]
  out Y           : fp32[4, 32]
  for i0: 4, i1: 32
    %sum           = reduce sum (k0: 64) : fp32 { X[i0, i1, k0] }
  yield Y[i0, i1] = mul(%sum, add((C[i0, i1]) where i1 < 16 else 0.0, (C[i0, i1 - 16]) where 0 <= i1 - 16 else 0.0))
"""


def test_a_fold_is_not_halved() -> None:
    """It is a value of its point: the other half has another."""
    module = region.parse(SCALED_HALVES)
    assert halved(module) == module


@needs_host_compiler
def test_the_kernel_reads_what_both_halves_share_once() -> None:
    model = rotary(64, 64)
    module = to_plan.lower(regions_of(model.text), device="h200")
    _, code = lowered(module)
    assert "where" not in region.show(module.program)
    arrays = model.arrays()
    wanted = play_region.play(module.program, arrays)["y"]
    np.testing.assert_allclose(simulated(code, arrays)["y"], wanted, rtol=1e-3, atol=1e-3)
