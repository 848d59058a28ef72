"""What the first of two regions hands to the second: buffers of what each chunk of an axis folds to."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

from ...ir.body import Axis, Body, BroadcastInDim, Read, Ref
from ...ir.expr import Expr
from ...ir.model import Origin
from ...ir.region import Let, Region, Tensor, Yield
from ...ir.traits import axes_of
from ...ir.types import TensorType
from ...kit.records import dataclass, field, replace
from .parts import Names, free_name, refs_of, region_of


@dataclass
class Handed:
    """The values of the first region, whose axes are `iters`, and where it writes them. `across` counts the chunks."""

    iters: tuple[Axis, ...]
    across: Axis
    names: Names
    lets: list[Let] = field(default_factory=list)
    yields: list[Yield] = field(default_factory=list)
    buffers: list[Tensor] = field(default_factory=list)

    def read(
        self,
        wanted: str,
        expr: Body,
        origin: Origin | None,
        along: Container[str] | None = None,
        value: Callable[[Body, tuple[str, ...]], Body] = lambda body, axes: body,
    ) -> Read:
        """The read of the buffer in which the first region writes the `value` of an expression of its own, given with
        its axes. The expression varies `along` names; these are those in it where it uses no value."""
        names = axes_of(expr) if along is None else along
        index = tuple(a for a in self.iters if a == self.across or a.name in names)
        axes = tuple(a.name for a in index)
        name = free_name(wanted, self.names.memory | {b.name for b in self.buffers})
        self.buffers.append(Tensor(name, TensorType(expr.dtype, tuple(a.size for a in index))))
        self.lets.append(Let(name, expr, origin))
        self.yields.append(Yield(name, tuple(map(Expr.of, axes)), value(Ref(name, expr.dtype), axes), (), origin))
        return Read(name, tuple(map(Expr.of, axes)), expr.dtype)

    def region(self, name: str, whole: Region, row: tuple[Axis, ...] = ()) -> Region:
        """The first region, made of a `whole`; its folds are over axes of their own, or along a `row`."""
        whole = replace(whole, iters=(*self.iters, *row))
        return region_of(name, whole, tuple(self.lets), tuple(self.yields), tuple(self.buffers))

    def reader(self, whole: Region, changed: Mapping[str, tuple[Let, ...]]) -> Region:
        """The second region: the whole with some values made of what the first hands to it."""
        return region_of(whole.name, whole, still_used(whole, changed), whole.yields, tuple(self.buffers))


def along(body: Body, axes: tuple[str, ...], own: str) -> Body:
    """What varies along one axis alone, as it is along several."""
    return body if axes == (own,) else BroadcastInDim(body, (axes.index(own),), body.dtype, axes)


def still_used(region: Region, changed: Mapping[str, tuple[Let, ...]]) -> tuple[Let, ...]:
    """The values that the writes need, once some are made in other ways."""
    lets, used = [], {r for y in region.yields for r in refs_of(y.expr)}
    for let in reversed(region.lets):
        if let.name in used:
            found = changed.get(let.name, (let,))
            lets[:0] = found
            used.update(r for made in found for r in refs_of(made.expr))
    return tuple(lets)
