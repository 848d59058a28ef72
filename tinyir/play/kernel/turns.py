"""Loops whose turns may run at once: no turn reads what another has written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...ir.body import Read
from ...ir.expr import Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...ir.gpu.walk import reads_in

ALLOWED = (nodes.Let, nodes.Value, nodes.Assign, nodes.For, nodes.If)


def are_turns_apart(loop: nodes.For, arrays: Mapping[str, Any]) -> bool:
    """Whether each turn writes elements of its own, in registers, and reads no others of those arrays."""
    inside = list(_statements(loop.body))
    if not all(isinstance(s, ALLOWED) for s in inside):
        return False
    turning = {loop.name, *(s.name for s in inside if isinstance(s, (nodes.For, nodes.Let)))}
    written = [s for s in inside if isinstance(s, nodes.Assign)]
    places: dict[str, set[Place]] = {}
    for s in written:
        array = arrays.get(s.to.name)
        if not isinstance(array, nodes.Reg) or array.kind or not _is_own(loop.name, s.to, turning):
            return False
        places.setdefault(s.to.name, set()).add(s.to)
    if any(len(found) > 1 for found in places.values()):
        return False
    for s in inside:
        for node in reads_in(s):
            if isinstance(node, Read) and node.tensor in places:
                if Place(node.tensor, node.index, node.slot) not in places[node.tensor]:
                    return False
    return True


def _is_own(name: str, place: Place, turning: set[str]) -> bool:
    """Whether an index tells the turns of a loop apart: along some axis nothing else turns."""
    return any(_turns(e, turning) == {name} and _is_linear(e, name) for e in place.index)


def _turns(e: Expr, turning: set[str]) -> set[str]:
    return turning.intersection(e.vocabulary)


def _is_linear(e: Expr, name: str) -> bool:
    return all(monomial == (name,) for _, monomial in e.terms if monomial)


def _statements(body: Iterable[Statement]) -> Iterator[Statement]:
    for s in body:
        yield s
        yield from _statements(getattr(s, "body", ()))
        yield from _statements(getattr(s, "otherwise", ()))
