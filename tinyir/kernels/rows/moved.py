"""Statements with other integers in the place of names: the work at one element, done at another.

%x = X[i0, i1 + v]          with v = 0          %x = X[i0, i1]
X.row[v + 4*u] = %x         and u = 3           X.row[12] = %x
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from ...ir.body import Body, substitute
from ...ir.expr import Bound, Expr
from ...ir.gpu.nodes import Statement
from ...kit.records import fields, is_dataclass, replace

BODIES = get_args(Body)


def moved(lines: Iterable[Statement], names: Mapping[str, Expr]) -> tuple[Statement, ...]:
    """The statements at these integers."""
    return tuple(_moved(s, names) for s in lines)


def _moved(node: Any, names: Mapping[str, Expr]) -> Any:
    if isinstance(node, (Expr, Bound)):
        return node.substitute(names)
    if isinstance(node, BODIES):
        return substitute(node, names)
    if isinstance(node, tuple):
        return tuple(_moved(item, names) for item in node)
    if is_dataclass(node):
        return replace(node, **{f.name: _moved(getattr(node, f.name), names) for f in fields(node) if f.compare})
    return node
