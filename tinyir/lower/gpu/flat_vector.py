"""The flat template in vectors: a thread takes neighbours along the last axis, which move in one access a tensor (`side_by_side`).

    let e = 128*cta.x + thread.x                      the number of a vector
    if e < 96*M
      let i0 = floor(e/96)
      let i1 = 8*e - 768*floor(e/96)                  its first element
      loads, the loop over the eight, stores

What is only moved goes from tensor to tensor; what is the same for all neighbours stands before the loop.
"""

from __future__ import annotations

from ...ir.body import Ref, walk
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Statement
from ...ir.kernels import axes_of
from ...ir.region import Region
from .point import Fresh, needed
from .side_by_side import SideBySide
from .statements import Statements


def vector_statements(region: Region, fresh: Fresh, width: int) -> tuple[Statement, ...]:
    """What a thread does with `width` neighbours, of which the region's axes name the first."""
    last = region.iters[-1].name
    writer, neighbours = Statements(region, fresh), SideBySide(region, fresh, width, last)
    writer.point[last] = neighbours.place
    lines = writer.values(needed(region, (y.expr for y in region.yields)))
    for item in region.yields:
        body, before = writer.body(item.expr)
        lines += [*before, *neighbours.store(item, body, writer.point, region.iters)]
    same, varying = _parted(lines, neighbours.turn)
    return (*same, *neighbours.loop(varying))


def _parted(lines: list[Statement], turn: str) -> tuple[list[Statement], list[Statement]]:
    """The statements that are the same for all neighbours, and the others."""
    same, inside, varying = [], [], set()
    for s in lines:
        is_inside = isinstance(s, nodes.Assign) or turn in axes_of(s.value) or any(isinstance(n, Ref) and n.name in varying for n in walk(s.value))
        (inside if is_inside else same).append(s)
        if is_inside and isinstance(s, nodes.Value):
            varying.add(s.name)
    return same, inside


__all__ = ["vector_statements"]
