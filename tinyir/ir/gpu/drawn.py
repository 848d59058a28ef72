"""Loops whose numbers are drawn: that each number of the grid's walk has one turn, and that all who go through it hear
of the same numbers.

One thread draws, in one role; the warps of other roles have the same loop without the counter. So all begin with the
CTA's own number, and the ring hands every other one on, in order: a slot is written when each warp has taken what was
in it. A draw gives each number behind the grid once, whoever comes first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...kit.diag import Diag
from ...kit.phrase import Phrase
from ..expr import ZERO, Expr
from . import nodes
from .in_turn import dtype_of, starts_at_zero
from .nodes import Kernel
from .walk import Visit, own_names_in

WARP, WARPGROUP = 32, 128  # threads


def check_drawn(kernel: Kernel, walked: list[Visit], module: Any) -> Iterator[Diag]:
    """E1680 for a loop of which a number might have two turns or none, or of which a role might not hear."""
    loops = [v for v in walked if isinstance(v.statement, nodes.For) and v.statement.via]
    for via in dict.fromkeys(v.statement.via for v in loops):
        own = [v for v in loops if v.statement.via == via]
        for v in own:
            if fault := _fault_of(kernel, v, own, walked, module):
                yield Diag("E1680", kernel.name, {"name": v.statement.name, "fault": fault}, v.statement.span)
                break
        else:
            drawing = next(v for v in own if v.statement.source is not None)
            yield from starts_at_zero(kernel, drawing.statement.source.name, drawing.statement, module)


def _fault_of(kernel: Kernel, v: Visit, own: list[Visit], walked: list[Visit], module: Any) -> str:
    s, first = v.statement, own[0].statement
    if len(kernel.grid) != 1 or kernel.cluster or s.low != Expr.of("cta.x") or s.step != kernel.grid[0]:
        return Phrase("does not go from cta.x on in steps of the number of CTAs")
    if (s.high, s.full, s.empty) != (first.high, first.full, first.empty):
        return Phrase("is not the same loop in all roles")
    if s.unroll != 1:
        return Phrase("is unrolled, though nobody knows its next number")
    drawing = [o for o in own if o.statement.source is not None]
    if len(drawing) != 1:
        return Phrase("is drawn by {count} threads of a CTA, and not by one", count=len(drawing))
    if not isinstance(v.path[0] if v.path else None, nodes.Role) or sum(o.path[:1] == v.path[:1] for o in own) > 1:
        return Phrase("is not there once in its role")
    if v is drawing[0]:
        if any(isinstance(around, nodes.For) for around in v.path) or v.path[0].threads != WARPGROUP:
            return Phrase("is not drawn once, by one thread of a role of one warpgroup")
        if dtype_of(s.source.name, module) != "u32" or s.source.index != (ZERO,):
            return Phrase("counts in other than u32")
    elif len(v.path) > 1:
        return Phrase("is not gone through once, by all warps of its role")
    return _ring_fault(v, own, walked)


def _ring_fault(v: Visit, own: list[Visit], walked: list[Visit]) -> str:
    """What is wrong with the ring by which numbers are handed on."""
    s = v.statement
    ring, full, empty = (v.arrays.get(name) for name in (s.via, s.full, s.empty))
    if ring is None or full is None or empty is None:
        return ""  # said already (E1602)
    warps = sum(o.path[0].threads // WARP for o in own if o.statement.source is None)
    if str(ring.type) != "i32[1]" or not ring.ring == full.ring == empty.ring > 1:
        return Phrase("is handed on through other than a ring of i32[1], and two of barriers as long")
    if full.count != 1 or empty.count != warps:
        return Phrase(
            "is handed on to {warps} warps, of which each arrives: its barriers count {full} and {empty}",
            warps=warps,
            full=full.count,
            empty=empty.count,
        )
    loops = {id(o.statement) for o in own}
    for o in walked if v is own[0] else ():  # the others' rings are the same ones
        made = isinstance(o.statement, (nodes.Shared, nodes.Mbarrier))
        if id(o.statement) not in loops and not made and {s.via, s.full, s.empty} & set(own_names_in(o.statement)):
            return Phrase("is handed on through what other statements touch")
    return ""
