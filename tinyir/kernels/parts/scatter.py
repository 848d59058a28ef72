"""A scatter in one thread: the element of the result looks for its writers, in their order, so that every run gives the
same bits.

    y.acc[0] = data[i0]
    for k0 in 0..K
      choose k0.at = place[k0] below N
      if k0.at = i0
        y.acc[0] = add(y.acc[0], updates[k0])

It reads every place for each element of the result: K places for N elements are N*K reads, most of them from cache.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.accumulate import cast, fold_word, wide
from ...ir.body import Binary, Body, Read, Scatter
from ...ir.expr import ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Place, Statement
from ...kit.records import replace
from .fold import type_of
from .point import Values

Emit = Callable[[list[Statement], str], Callable[..., Body]]


def thread_scatter(
    scatter: Scatter, values: Values, register: str, place: str, lines: list[Statement], emit_to: Emit
) -> Body:
    """Appends the statements to `lines` and gives the value. `register` and `place` are free names; `emit_to` says
    where what is inside an expression writes its own statements."""
    dtype = wide(scatter.dtype)
    so_far = Read(register, (ZERO,), dtype)
    to = Place(register, (ZERO,))
    names = {a.name: Expr.of(a.name) for a in scatter.axes}
    looking: list[Statement] = []
    deeper = replace(values, point={**values.point, **names}, emit=emit_to(looking, register))
    extent = next(a.size for a in values.region.iters if a.name == scatter.axis)
    at = values.shielded(deeper.at(scatter.at))
    looking.append(nodes.Choose(place, at, extent))
    found: list[Statement] = []
    update = cast(values.shielded(replace(deeper, emit=emit_to(found, register)).at(scatter.update)), dtype)
    folded = update if scatter.op == "update" else Binary(fold_word(scatter.op, dtype), so_far, update, dtype)
    found.append(nodes.Assign(to, folded))
    looking.append(nodes.If((Bound(Expr.of(place), equals=values.point[scatter.axis]),), tuple(found)))
    for axis in reversed(scatter.axes):
        looking = [nodes.For(axis.name, ZERO, axis.size, tuple(looking))]
    base = cast(values.shielded(values.at(scatter.base)), dtype)
    lines += [nodes.Reg(register, type_of(dtype, 1)), nodes.Assign(to, base), *looking]
    return cast(so_far, scatter.dtype)
