"""A region that no family of kernels covers, in parts that each have one.

before: region z      for i0: N, i1: C    %m = reduce max (i1) { X[i0, i1] }    %z = reduce sum (i0) { %m }    yield z[]
                      = %z
after:  region m      for i0: N, i1: C    %m = reduce max (i1) { X[i0, i1] }    yield m[i0] = %m
        region z      for i0: N           %z = reduce sum (i0) { m[i0] }        yield z[] = %z

Each fold, and each value that is read at another point, goes into the first part that comes after what it needs and
that a family still covers with it. Everything else is computed where it is used: it is cheaper than its way through
memory, or as cheap.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.regions import fold_sizes
from ...ir.body import Axis, Body, Gather, Reduce, Ref, Scan, Scatter, rebuild, substitute, walk
from ...ir.expr import Expr
from ...ir.present import axes_of_values
from ...ir.region import Let, Region, Yield
from ...ir.traits import axes_of, bodies_of
from ...kit.records import dataclass, field, replace
from ..problem import is_covered, why_none
from .parts import Names, Parts, Surroundings, numbered_name

FOLDS = (Reduce, Scan, Scatter)


def part_region(region: Region, around: Surroundings) -> tuple[Region, ...]:
    """The regions that a region becomes: itself alone where a family covers it."""
    if not why_none(region):
        return (region,)
    region = name_folds(region)
    parting = _Parting(region, around.names)
    for let in region.lets:
        if parting.is_placed(let):
            parting.place(let)
    for item in region.yields:
        parting.place(item)
    return parting.regions()


@dataclass
class _Parting:
    """The parts of a region so far."""

    region: Region
    names: Names
    home: dict[str, int] = field(default_factory=dict)
    written: list[int] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        self.elsewhere = {
            n.name for body in bodies_of(self.region) for n in walk(body) if isinstance(n, Ref) and n.index is not None
        }

    def is_placed(self, let: Let) -> bool:
        """Whether a value is computed once, in a part of its own choice."""
        return let.name in self.elsewhere or any(isinstance(n, FOLDS) for n in walk(let.expr))

    def place(self, item: Let | Yield) -> None:
        """Gives a value or a write the first part that may have it."""
        first = max((self.home[name] + is_elsewhere for name, is_elsewhere in self._needs(item.expr)), default=0)
        number = next((n for n in range(first, self.count) if self._is_covered(item, n)), self.count)
        self._put(self, item, number)
        self.count = max(self.count, number + 1)

    def regions(self) -> tuple[Region, ...]:
        """The parts: the last bears the region's name, the others those of their first values."""
        values = [
            next((name for name, n in self.home.items() if n == number), self.region.name)
            for number in range(self.count)
        ]
        return Parts(self.region, self.home, self.written, self.names).regions(
            [*((v,) for v in values[:-1]), (self.region.name,)]
        )

    def _needs(self, body: Body) -> Iterator[tuple[str, bool]]:
        """The placed values that an expression needs, and whether at another point."""
        for node in walk(body):
            if isinstance(node, Ref) and node.name in self.home:
                yield node.name, node.index is not None
            elif isinstance(node, Ref):
                yield from self._needs(self.region.let(node.name).expr)

    def _is_covered(self, item: Let | Yield, number: int) -> bool:
        trial = replace(self, home=dict(self.home), written=list(self.written))
        self._put(trial, item, number)
        whole = replace(self.region, yields=self.region.yields[: len(trial.written)])
        return is_covered(Parts(whole, trial.home, trial.written, self.names).part(number))

    @staticmethod
    def _put(parting: _Parting, item: Let | Yield, number: int) -> None:
        if isinstance(item, Let):
            parting.home[item.name] = number
        else:
            parting.written.append(number)


def name_folds(region: Region) -> Region:
    """The region with every fold that varies along its axes alone as a value of its own, and no fold over both its axes
    and new ones."""
    naming = _Naming(region)
    for let in region.lets:
        naming.lets.append(replace(let, expr=naming.inside(let.expr)))
    yields = tuple(replace(y, expr=naming.at(y.expr)) for y in region.yields)
    return replace(region, lets=tuple(naming.lets), yields=yields)


class _Naming:
    """Takes folds out of expressions."""

    def __init__(self, region: Region):
        self.region, self.lets = region, []
        self.axes_of = axes_of_values(region)
        self.taken = {
            *(t.name for t in region.inputs + region.outputs),
            *(let.name for let in region.lets),
            *fold_sizes(region),
            *(n for body in bodies_of(region) for n in axes_of(body)),
        }

    def at(self, body: Body) -> Body:
        """The expression, its outermost folds named."""
        if not isinstance(body, FOLDS) and not (
            isinstance(body, Gather) and any(isinstance(n, FOLDS) for n in walk(body.body))
        ):
            return rebuild(body, self.at)
        self.lets.append(Let(self._name("fold"), self.inside(body)))
        return Ref(self.lets[-1].name, body.dtype)

    def inside(self, body: Body) -> Body:
        """A value's expression: its outermost fold is kept, those inside it that vary along no new axis are named."""
        if isinstance(body, Gather):
            return replace(body, at=self.at(body.at), body=self._without_own(body.body))
        if isinstance(body, Scatter):
            return replace(body, base=self.at(body.base))
        if isinstance(body, Scan):
            return replace(body, body=self.at(body.body))
        if isinstance(body, Reduce):
            own = {a.size is None for a in body.axes}
            return (
                replace(body, body=self.at(body.body))
                if own == {True}
                else self._over_new_axes(body)
                if len(own) == 2
                else body
            )
        return rebuild(body, self.at)

    def _without_own(self, body: Body) -> Body:
        """The expression at a gathered place, every fold in it over new axes."""
        body = self._over_new_axes(body) if isinstance(body, Reduce) else body
        return rebuild(body, self._without_own)

    def _over_new_axes(self, fold: Reduce) -> Reduce:
        """A fold over the region's axes as one over new axes of their sizes."""
        size_of = {a.name: a.size for a in self.region.iters}
        new = {a.name: Axis(self._name("k"), size_of[a.name]) for a in fold.axes if a.size is None}
        point = {name: Expr.of(axis.name) for name, axis in new.items()}
        return replace(
            fold,
            axes=tuple(new.get(a.name, a) for a in fold.axes),
            body=substitute(self._indexed(fold.body, set(new)), point),
        )

    def _indexed(self, body: Body, moved: set[str]) -> Body:
        """The expression, in which values that vary along the axes are read at a stated point."""
        if isinstance(body, Ref) and body.index is None and moved & set(self.axes_of[body.name]):
            return replace(body, index=tuple(map(Expr.of, self.axes_of[body.name])))
        return rebuild(body, lambda inner: self._indexed(inner, moved))

    def _name(self, base: str) -> str:
        name = numbered_name(base, self.taken)
        self.taken.add(name)
        return name
