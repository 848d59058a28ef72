"""A decoder with room as the bench has it: what it is planned as, and how its kernels read the mask."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("onnx")
from tests.bench import room  # noqa: E402
from tinyir.ir.body import Read, walk  # noqa: E402
from tinyir.ir.gpu import nodes  # noqa: E402
from tinyir.ir.gpu.walk import bodies_in, statements  # noqa: E402
from tinyir.lower import gpu  # noqa: E402


@pytest.fixture(scope="module")
def planned() -> Any:
    return room.planned(room.model_of(8, None))


def test_plans_are_for_a_length_that_leaves_one_row(planned: Any) -> None:
    (one,) = planned.program.model.shape_sets
    assert dict(one.sizes) == {"past": room.ROOM - 2}
    assert planned.program.model.range_of("past").high == room.ROOM - 1


def test_heads_of_a_group_are_rows_and_all_lengths_have_these_plans(planned: Any) -> None:
    pairs = [p for p in planned.plans if len(p.regions) == 2]
    assert {p.algo for p in pairs} >= {"streaming_softmax"}
    for plan in pairs:
        first = planned.program.program.region(plan.regions[0])
        assert str(room.HEADS // room.SHARED) in {str(a.size) for a in first.iters}
        names = {n for bound in plan.assume for e in (bound.expr, bound.lower) if e is not None for n in e.names()}
        assert names <= {"past"}


@pytest.mark.parametrize("batch", room.BATCHES)
def test_a_short_cache_is_walked_in_chunks_too(batch: int) -> None:
    """Its rows are priced, and not the room: memory's time of the room would hide what the chunks save."""
    short = room.planned(room.model_of(batch, None), room.LENGTHS[0])
    first = {p.regions: p.algo for p in reversed(short.plans) if len(p.regions) == 2}
    assert first == {(f"s{n}", f"{y}.part"): "streaming_softmax" for n, y in enumerate(("y0", "y"))}


def test_no_read_of_the_mask_is_behind_a_branch(planned: Any) -> None:
    """Each would wait for the one before."""
    kernels = [one for one in gpu.lower(planned).kernels if isinstance(one, nodes.Kernel) and len(one.regions) == 2]

    def read_masks(body: Any) -> int:
        nodes_of = (n for s in statements(body) for value in bodies_in(s) for n in walk(value))
        return sum(isinstance(n, Read) and n.tensor == "mask" for n in nodes_of)

    assert kernels
    for kernel in kernels:
        assert read_masks(kernel.body) > 0
        assert not any(read_masks(s.body) for s in statements(kernel.body) if isinstance(s, nodes.If))
