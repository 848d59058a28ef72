"""The maps of NodeId JSON's VIEW and LOAD: where each axis of what is read is read, as an expression in the result's
axes i0, i1, ...

    "index_map": {"i0": "i1", "i1": "floordiv(i0, 2)"}     by the names of the axes that are read, in any order
    "map": ["i1", "i0 // 2"]                               in their order

`floordiv(a, b)`, `a // b` and `floor(a/b)` mean the same, and round down.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..ir.expr import Expr
from ..ir.read import read_expr
from ..kit.diag import Diag, Refused
from ..kit.phrase import Phrase
from .jsontext import Node, Places

KIND = Phrase('an expression in the axes of the result, such as "i0 + 2*i1" or "floordiv(i0, 2)"')


def read_map(
    node: Node, key: str, at: str, rank: int, result_rank: int, symbols: Iterable[str], places: Places
) -> tuple[list[Expr], list[Diag]]:
    """The expression for each of the `rank` axes that are read, and the faults: E0102 a key that is not an axis, E0104
    an axis without an expression, E1101 a list of another length, E0103 no expression, E1105 a divisor that is not
    positive, E1205 a name that is neither an axis of the result nor a symbol."""
    axes = [f"i{axis}" for axis in range(rank)]
    entries, faults = _entries(node, key, at, axes, places)
    known = [*(f"i{axis}" for axis in range(result_rank)), *symbols]
    found = []
    for axis in axes:
        if axis not in entries:
            continue
        entry = entries[axis]
        expr = _expr(entry.value, f"{key}.{axis}", at)
        if isinstance(expr, Diag):
            faults.append(Diag(expr.code, at, expr.facts, places.of(entry)))
            continue
        found.append(expr)
        for name in dict.fromkeys(expr.names()):
            if name not in known:
                facts = {"name": name, "known": ", ".join(known) or Phrase("none")}
                faults.append(Diag("E1205", at, facts, places.of(entry)))
    return found, faults


def _entries(node: Node, key: str, at: str, axes: list[str], places: Places) -> tuple[dict[str, Node], list[Diag]]:
    """What a map says of each axis, by name or in their order."""
    if isinstance(node.value, dict):
        said = {word: member for word, member in node.value.items() if word in axes}
        known = ", ".join(axes) or Phrase("no axis: what it reads is a scalar")
        faults = [
            Diag("E0102", at, {"at": key, "key": word, "known": known}, places.of(member))
            for word, member in node.value.items()
            if word not in said
        ]
        missing = [axis for axis in axes if axis not in said]
        faults += [Diag("E0104", at, {"key": f"{key}.{axis}", "kind": KIND}, places.of(node)) for axis in missing]
        return {word: member.node for word, member in said.items()}, faults
    if isinstance(node.value, list):
        facts = {"what": key, "given": len(node.value), "rank": len(axes)}
        faults = [Diag("E1101", at, facts, places.of(node))] if len(node.value) != len(axes) else []
        return dict(zip(axes, node.value)), faults
    expected = Phrase("an object from the axes of what is read to expressions, or a list of expressions in their order")
    return {}, [Diag("E0103", at, {"key": key, "expected": expected}, places.of(node))]


def _expr(value: Any, key: str, at: str) -> Expr | Diag:
    if type(value) is int:
        return Expr.of(value)
    expected = Diag("E0103", at, {"key": key, "expected": KIND})
    if not isinstance(value, str):
        return expected
    try:
        return read_expr(value)
    except Refused as fault:
        return fault.diags[0] if fault.diags[0].code == "E1105" else expected
