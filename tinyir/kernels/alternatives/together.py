"""What becomes of several regions that one product takes in."""

from __future__ import annotations

from collections.abc import Callable, Container

from ...analysis.regions import analyse
from ...ir.body import Body, Read, rebuild
from ...ir.expr import Expr
from ...ir.region import Module, Region, Tensor
from ...kit.records import dataclass, replace
from .parts import Names


@dataclass(frozen=True, slots=True)
class Together:
    """A module in which one region does what several did before: its name, the names of these, and the regions that are
    other than before, what lays constants out for it among them."""

    module: Module
    name: str
    parts: tuple[str, ...]
    changed: tuple[Region, ...]


Way = Callable[[Module, Names], "Together | None"]  # of a module in which other regions may be other by now


def reading(r: Region, gone: Container[str], whole: Tensor, place: Callable[[Read], tuple[Expr, ...]]) -> Region:
    """The region with reads of `whole`, at the `place` of each, where it read one of the tensors `gone`."""
    if not any(t.name in gone for t in r.inputs):
        return r

    def put(body: Body) -> Body:
        body = rebuild(body, put)
        is_gone = isinstance(body, Read) and body.tensor in gone
        return replace(body, tensor=whole.name, index=place(body)) if is_gone else body

    other = replace(
        r,
        inputs=tuple(dict.fromkeys(whole if t.name in gone else t for t in r.inputs)),
        lets=tuple(replace(let, expr=put(let.expr)) for let in r.lets),
        yields=tuple(replace(y, expr=put(y.expr)) for y in r.yields),
    )
    return replace(other, analysis=analyse(other))
