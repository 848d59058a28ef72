"""Guards for what is not shown to be inside: an access of a tensor whose index the prover of gpu text cannot place
within its steps.

    y[i] = x[f]                      →   y[i] = x[f] where 0 <= f < N else 0.0
    store y[f] = %v                  →   if 0 <= f < N
                                           store y[f] = %v

The program means the same: in a region every read and write is inside at every point, so that no guard is ever broken
there. What several elements did at once is done one by one, where a guard may part them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...ir import plan
from ...ir.accumulate import literal
from ...ir.body import Body, Read, Select, rebuild
from ...ir.expr import ZERO, Bound, Expr, show_guard
from ...ir.gpu import Module, nodes
from ...ir.gpu.bounds import keeps_inside, unshown, written_by
from ...ir.gpu.nodes import Kernel, Launch, Place, Statement
from ...ir.gpu.prove import Facts
from ...ir.gpu.walk import Visit, tensor_of, tensors_of, visits
from ...ir.region import Tensor
from ...kit.diag import Diag
from ...kit.records import dataclass, field, replace


def with_guards(
    module: plan.Module, launches: Iterable[Kernel | Launch], buffers: tuple[Tensor, ...]
) -> tuple[tuple[Kernel | Launch, ...], list[Diag]]:
    """The launches, their kernels with a guard around each access of a tensor that is not shown to be inside, and R3601
    for each."""
    launches = tuple(launches)
    whole = Module(module, launches, buffers)
    made: list[Kernel | Launch] = []
    notes: list[Diag] = []
    for kernel in launches:
        if isinstance(kernel, Kernel) and not keeps_inside(kernel, whole):
            tensors = tensors_of(kernel, whole)
            guards = _Guards(tensors)
            for v in visits(kernel, module.program.model):
                guards.see(v)
            kernel = replace(kernel, body=guards.block(kernel.body))
            notes += [
                Diag("R3601", kernel.name, {"access": access, "guard": guard}, kernel.span)
                for access, guard in guards.said
            ]
        made.append(kernel)
    return tuple(made), notes


@dataclass(slots=True)
class _Guards:
    """Statements that are another now: a statement may be part of several blocks, and is guarded in all of them."""

    tensors: dict[str, Tensor]
    others: dict[int, tuple[Statement, Statement]] = field(default_factory=dict)
    said: dict[tuple[str, str], None] = field(default_factory=dict)

    def see(self, v: Visit) -> None:
        """Guards what a statement itself reads and writes."""
        old = self.others[id(v.statement)][1] if id(v.statement) in self.others else v.statement
        s = replace(
            old,
            **{
                word: self._guarded(body, v, v.inside)
                for word in ("value", "init")
                if (body := getattr(old, word, None)) is not None and not isinstance(body, Expr)
            },
        )
        places = written_by(v, self.tensors) if isinstance(old, (nodes.Store, nodes.Atomic)) else []
        guard = tuple(bound for place in places for bound in self._missing(place.name, place.index, v, v.inside))
        if guard:
            s = _under(guard, s)
        if s != old and getattr(s, "vector", 1) > 1 and not isinstance(s, nodes.CpAsync):
            s = replace(s, vector=1)
        if s != old:
            self.others[id(v.statement)] = v.statement, s

    def block(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """The block with the statements that were guarded."""
        made = []
        for s in body:
            found = self.others[id(s)][1] if id(s) in self.others else s
            inner = {
                word: self.block(block)
                for word in ("body", "otherwise")
                if found is s and isinstance(block := getattr(s, word, None), tuple)
            }
            made.append(replace(found, **inner) if inner else found)
        return tuple(made)

    def _guarded(self, body: Body, v: Visit, facts: Facts) -> Body:
        if isinstance(body, Read):
            guard = self._missing(body.tensor, body.index, v, facts)
            return Select(guard, body, literal(0, body.dtype), body.dtype) if guard else body
        if isinstance(body, Select):
            within = facts.with_guard(body.guard)
            if isinstance(body.then, Read):  # one guard, not one in another
                guard = self._missing(body.then.tensor, body.then.index, v, within)
                then = body.then
            else:
                guard, then = (), self._guarded(body.then, v, within)
            return replace(
                body,
                guard=body.guard + guard,
                then=then,
                other=self._guarded(body.other, v, facts.with_broken(body.guard)),
            )
        return rebuild(body, lambda inner: self._guarded(inner, v, facts))

    def _missing(self, name: str, index: tuple[Expr, ...], v: Visit, facts: Facts) -> tuple[Bound, ...]:
        """The guard that an access of a tensor lacks, a side each."""
        if name in v.arrays and not isinstance(v.arrays[name], nodes.Pick) or tensor_of(name, v) not in self.tensors:
            return ()
        bounds = [bound for _, bound in unshown(index, self.tensors[tensor_of(name, v)].type.shape, facts)]
        if bounds:
            self.said[str(Place(name, index)), show_guard(tuple(bounds))] = None
        return tuple(
            side
            for b in bounds
            for side in (Bound(b.expr, lower=b.lower), Bound(b.expr, upper=b.upper))
            if side != Bound(b.expr)
        )


def _under(guard: tuple[Bound, ...], s: Any) -> Statement:
    """A write under a guard, element by element."""
    over = getattr(s, "over", ())
    made: Statement = nodes.If(guard, (replace(s, over=(), vector=1) if over else s,))
    for name, size in reversed(over):
        made = nodes.For(name, ZERO, size, (made,), unroll=0)
    return made
