"""What one thread alone may start: copies of the copy engine, the bytes that an mbarrier is told to expect, and a loop
whose numbers it draws.

    role producer warpgroups 0..1
      if warpgroup.thread = 0                       one thread of each warpgroup of a role, of the CTA elsewhere
        arrive full[p.slot] expect 32768
        %load.a = tma_load a[p.slot] <- A.map[...] on full[p.slot]

Each thread that came to such a statement would start a copy of its own, or tell the barrier once more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...kit.diag import Diag
from ..expr import Expr
from . import nodes
from .nodes import Kernel, Statement
from .walk import THREAD_NAMES, Visit

OF_A_CTA = (  # names that tell its threads apart
    ("thread.index",),
    ("thread.x", "thread.y", "thread.z"),
    ("warp.index", "lane"),
    ("warpgroup.index", "warpgroup.thread"),
)
OF_A_WARPGROUP = (("warpgroup.thread",), *OF_A_CTA)
OF_A_WARP = (("lane",), *OF_A_CTA)
WARP = 32  # threads
WORDS = {
    nodes.TmaLoad: "tma_load",
    nodes.TmaStore: "tma_store",
    nodes.Send: "send",
    nodes.Arrive: "arrive",
    nodes.For: "for",
}


def check_elected(kernel: Kernel, walked: list[Visit], module: Any) -> Iterator[Diag]:
    """E1684 for what several threads would start, unless the guards around it are shown to leave one."""
    for v in walked:
        if _is_for_one(v) and not _is_one(v):
            facts = {"statement": WORDS[type(v.statement)]}
            yield Diag("E1684", kernel.name, facts, v.statement.span)


def _is_for_one(v: Visit) -> bool:
    s: Statement = v.statement
    if isinstance(s, nodes.Send):  # of a matrix in registers each thread sends what it holds
        return isinstance(v.arrays.get(s.source.name), nodes.Shared)
    draws = isinstance(s, nodes.For) and s.source is not None
    return draws or isinstance(s, (nodes.TmaLoad, nodes.TmaStore)) or isinstance(s, nodes.Arrive) and s.expect > 0


def _is_one(v: Visit) -> bool:
    """Whether one thread of the warpgroup, in a role, of a role of one warp, or of the CTA comes to a statement."""
    role = next((s for s in v.path if isinstance(s, nodes.Role)), None)
    ways = OF_A_CTA if role is None else OF_A_WARP if role.threads == WARP else OF_A_WARPGROUP
    return not v.facts.is_reached or any(all(_is_fixed(name, v) for name in names) for names in ways)


def _is_fixed(name: str, v: Visit) -> bool:
    """Whether the threads that come to a statement have one number of this kind: their range is one, or a guard says
    that it is what all of them know."""
    found = v.facts.ranges.get(name)
    if found is not None and found.low is not None and found.low == found.high:
        return True
    return any(
        b.equals is not None
        and v.facts.plain(b.expr) == Expr.of(name)
        and not THREAD_NAMES & set(v.facts.plain(b.equals).names())
        for b in v.facts.guards
    )
