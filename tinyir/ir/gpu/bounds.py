"""The verifier of gpu text: whatever is read or written is inside, at every point that its guards let through."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any

from ...kit.diag import Diag
from ...kit.phrase import Phrase
from ..body import Body, Read, Select, operands_of
from ..expr import ZERO, Bound, Expr
from ..model import Model
from . import nodes
from .across import ACROSS
from .nodes import Kernel, Place
from .prove import Facts
from .walk import Visit, bodies_in, places_in, tensor_of, tensors_of, visits

WRITERS = (nodes.Store, nodes.Atomic, *ACROSS)  # of one element of a tensor


def check_bounds(kernel: Kernel, walked: list[Visit], module: Any) -> Iterator[Diag]:
    """E1614 for an array, E1615 for a tensor. What once was seen to hold of a kernel is not asked again."""
    asked = _Asked(kernel, module.plans.program.model, tensors_of(kernel, module), walked)
    if not _holds(asked):
        yield from _faults(asked)


def keeps_inside(kernel: Kernel, module: Any) -> bool:
    """Whether all that a kernel reads and writes is shown to be inside."""
    return _holds(_Asked(kernel, module.plans.program.model, tensors_of(kernel, module)))


def unshown(index: Iterable[Expr], shape: Iterable[Expr], facts: Facts) -> Iterator[tuple[int, Bound]]:
    """The axes along which an index is not shown to be inside, each with the sides that are not."""
    for axis, (e, size) in enumerate(zip(index, shape)):
        low = None if facts.is_at_least(e, ZERO) else ZERO
        high = None if facts.is_below(e, size) else size
        if low is not None or high is not None:
            yield axis, Bound(e, low, high)


def written_by(v: Visit, tensors: dict[str, Any]) -> list[Place]:
    """The elements of tensors that a statement writes, or tells other CTAs of."""
    return [
        place
        for _, place in places_in(v.statement)
        if isinstance(v.statement, WRITERS) and tensor_of(place.name, v) in tensors
    ]


class _Asked:
    """A kernel with the tensors and symbols that it speaks of: equal ones keep inside alike. `walked` takes no part in
    that."""

    def __init__(self, kernel: Kernel, model: Model, tensors: dict[str, Any], walked: list[Visit] | None = None):
        self.kernel, self.model, self.tensors, self._walked = kernel, model, tensors, walked
        shapes = tuple((name, tensor.type) for name, tensor in tensors.items())
        self._key = (kernel, shapes, tuple(model.range_of(name) for name in model.symbols()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Asked) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def take_walked(self) -> list[Visit]:
        """The kernel's statements with what holds at each; kept no longer than for the first question."""
        walked, self._walked = self._walked, None
        return list(visits(self.kernel, self.model)) if walked is None else walked


@functools.lru_cache(maxsize=4096)
def _holds(asked: _Asked) -> bool:
    return next(_faults(asked), None) is None


def _faults(asked: _Asked) -> Iterator[Diag]:
    kernel, tensors = asked.kernel, asked.tensors
    for v in asked.take_walked():
        s = v.statement
        for place in written_by(v, tensors):
            yield from _outside(kernel, v, place, tensors[tensor_of(place.name, v)].type.shape, v.inside, "E1615")
        for _, place in places_in(s):
            if isinstance(s, nodes.StoreRows) and place is s.to:
                yield from _outside_rows(kernel, v, tensors[tensor_of(place.name, v)].type.shape)
            array = v.arrays.get(place.name)
            yield from _no_slot(kernel, v, place, array, v.inside)
            if isinstance(array, (nodes.Shared, nodes.Reg)) and not (isinstance(array, nodes.Reg) and array.kind):
                yield from _outside(kernel, v, place, array.type.shape, v.inside, "E1614")
        for body in bodies_in(s):
            yield from _reads_outside(kernel, v, body, v.inside, tensors)


def _reads_outside(kernel: Kernel, v: Visit, body: Body, facts: Facts, tensors: dict[str, Any]) -> Iterator[Diag]:
    if isinstance(body, Select):
        yield from _reads_outside(kernel, v, body.then, facts.with_guard(body.guard), tensors)
        yield from _reads_outside(kernel, v, body.other, facts.with_broken(body.guard), tensors)
        return
    if isinstance(body, Read):
        array = v.arrays.get(body.tensor)
        yield from _no_slot(kernel, v, body, array, facts)
        if isinstance(array, (nodes.Shared, nodes.Reg)) and not (isinstance(array, nodes.Reg) and array.kind):
            yield from _outside(kernel, v, Place(body.tensor, body.index, body.slot), array.type.shape, facts, "E1614")
        elif array is None or isinstance(array, nodes.Pick):
            yield from _outside(
                kernel, v, Place(body.tensor, body.index), tensors[tensor_of(body.tensor, v)].type.shape, facts, "E1615"
            )
    for inner in operands_of(body):
        yield from _reads_outside(kernel, v, inner, facts, tensors)


def _outside_rows(kernel: Kernel, v: Visit, shape: tuple[Expr, ...]) -> Iterator[Diag]:
    """Rows that leave together end with the tensor; their first element, and what counts batches, is inside."""
    s = v.statement
    tile = v.arrays[s.source.name].type.shape
    for axis, side, size in zip((0, 1), (s.box[n] for n in s.sides), tile):
        if not v.inside.is_below(side, size + 1):
            yield Diag(
                "E1614",
                kernel.name,
                {"place": str(s.source), "index": str(side - 1), "axis": axis, "size": str(size)},
                s.span,
            )
    for axis, (e, size) in enumerate(zip(s.to.index, s.dims or shape)):
        if not v.inside.is_at_least(e, ZERO) or axis not in s.sides and not v.inside.is_below(e, size):
            yield Diag(
                "E1615", kernel.name, {"place": str(s.to), "index": str(e), "axis": axis, "size": str(size)}, s.span
            )


def _no_slot(kernel: Kernel, v: Visit, place: Place | Read, array: Any, facts: Facts) -> Iterator[Diag]:
    """A slot that a ring, or the arrays of a cluster's CTAs, may not have."""
    if place.slot is None or array is None:
        return
    count = getattr(array, "cluster", 0) or array.ring
    if not facts.is_one_of(place.slot, Expr.of(count)):
        what = f"{place}" if isinstance(place, Place) else f"{place.tensor}[{place.slot}]"
        said = {"place": what, "index": str(place.slot), "axis": Phrase("ring"), "size": str(count)}
        yield Diag("E1614", kernel.name, said, v.statement.span)


def _outside(
    kernel: Kernel, v: Visit, place: Place, shape: tuple[Expr, ...], facts: Facts, code: str
) -> Iterator[Diag]:
    for axis, bound in unshown(place.index, shape, facts):
        yield Diag(
            code,
            kernel.name,
            {"place": str(place), "index": str(bound.expr), "axis": axis, "size": str(shape[axis])},
            v.statement.span,
        )
