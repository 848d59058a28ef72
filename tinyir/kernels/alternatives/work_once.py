"""Work on constants of the model alone that a region does again for each of its points becomes a region of its own,
which runs once, when they are uploaded (`ir.once`).

before: region y              for i0: N, i1: C
          %factor = mul(scale[i1], rsqrt(add(variance[i1], 1e-05)))
          %y      = mul(X[i0, i1], broadcast_in_dim(%factor, dims=[1]))
after:  region factor         for i1: C           yield factor[i1] = mul(scale[i1], rsqrt(add(variance[i1], 1e-05)))
        region y              for i0: N, i1: C
          %y      = mul(X[i0, i1], broadcast_in_dim(factor[i1], dims=[1]))

The numbers are the same to the bit. What is made must be read no more often than what it is made of, or take long to
make: a table of all sums of two vectors is slower to read than to make again.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.body import (
    Binary,
    Body,
    BroadcastInDim,
    Literal,
    Read,
    Ref,
    Ternary,
    Transpose,
    Unary,
    rebuild,
    walk,
)
from ...ir.present import axes_of_values, is_whole, present_axes
from ...ir.region import Let, Region, Yield
from ...ir.rules import product
from ...ir.traits import extent_of
from ...kit.records import replace
from .parts import Parts, Surroundings, free_name, refs_of

LEAST_TIMES = 8  # that an element is computed again, which a read of memory is worth
PLAIN = (Read, Ref, Literal, Unary, Binary, BroadcastInDim)  # what is moved: no guard, no fold, no place that data give
SLOW = frozenset(  # that take many instructions
    ("recip", "sqrt", "rsqrt", "exp2", "log2", "sin", "tanh", "erf", "fdiv", "idiv", "floordiv", "mod", "rem", "pow")
)


def work_once(region: Region, around: Surroundings) -> tuple[Region, ...]:
    """The regions that a region becomes: one for each value of constants, by the axes that it varies along, then the
    rest."""
    inputs = {t.name for t in region.inputs}
    if not around.constants & inputs or inputs <= around.constants:
        return (region,)
    named, worth = _named(region, around)
    used = {name for item in (*named.lets, *named.yields) if _name_of(item) not in worth for name in refs_of(item.expr)}
    wanted = [name for name in worth if name in used]
    if not wanted:
        return (region,)
    axes_of = axes_of_values(named)
    groups = list(dict.fromkeys(axes_of[name] for name in wanted))
    home = {name: groups.index(axes_of[name]) for name in wanted}
    firsts = [next(name for name, at in home.items() if at == number) for number in range(len(groups))]
    parts = Parts(named, home, [len(groups)] * len(named.yields), around.names)
    return parts.regions([*((name, f"{name}.once") for name in firsts), (region.name,)])


def _named(region: Region, around: Surroundings) -> tuple[Region, dict[str, None]]:
    """The region with each expression of constants that is worth a region of its own as a value; the names of these."""
    taken, lets = {v.name for v in region.lets}, []
    found = _Constant(region, around)
    worth: dict[str, None] = {}

    def moved(body: Body, item: Let | Yield) -> Body:
        if not isinstance(body, (Unary, Binary, Ternary, BroadcastInDim, Transpose)):
            return body
        if not found.is_worth(body):
            return rebuild(body, lambda inner: moved(inner, item))
        name = free_name(f"{_name_of(item)}.once", taken)
        taken.add(name)
        worth[name] = None
        lets.append(Let(name, body, item.origin))
        return Ref(name, body.dtype)

    for let in region.lets:
        if found.is_worth(let.expr):
            worth[let.name] = None
            lets.append(let)
        else:
            lets.append(replace(let, expr=moved(let.expr, let)))
    yields = tuple(replace(y, expr=moved(y.expr, y)) for y in region.yields)
    return replace(region, lets=tuple(lets), yields=yields), worth


def _name_of(item: Let | Yield) -> str:
    return item.name if isinstance(item, Let) else item.output


class _Constant:
    """What of a region's expressions is constant, and worth a region of its own."""

    def __init__(self, region: Region, around: Surroundings):
        self.region, self.around = region, around
        self.iters, self.axes_of = tuple(a.name for a in region.iters), axes_of_values(region)
        self.sizes = {a.name: a.size for a in region.iters}
        self.points = extent_of(region.iters).evaluate(around.sizes)
        self.made_of: dict[str, frozenset[str]] = {}  # the constants that a constant value is made of, by its name
        for let in region.lets:
            if (of := self._made_of(let.expr)) is not None:
                self.made_of[let.name] = of

    def is_worth(self, body: Body) -> bool:
        """Whether to do it once takes less than to do it again at each point."""
        of = self._made_of(body)
        axes = present_axes(body, self.iters, self.axes_of) if of else frozenset()
        if not of or not axes <= set(self.iters) or not is_whole(body, self.iters, self.axes_of):
            return False
        ops = [n.op for n in self._all(body) if isinstance(n, (Unary, Binary)) and n.op != "cast"]
        is_slow = any(op in SLOW for op in ops)
        made = product([self.sizes[a] for a in axes]).evaluate(self.around.sizes)
        shapes = [t.type.shape for t in self.region.inputs if t.name in of]
        is_small = made <= sum(product(shape).evaluate(self.around.sizes) for shape in shapes)
        return made * LEAST_TIMES <= self.points and (is_slow or is_small and len(ops) > 1)

    def _made_of(self, body: Body) -> frozenset[str] | None:
        """The constants that an expression is made of; None where it is made of anything else."""
        found: set[str] = set()
        for node in walk(body):
            if not isinstance(node, PLAIN) or isinstance(node, Ref) and node.name not in self.made_of:
                return None
            if isinstance(node, Read) and node.tensor not in self.around.constants:
                return None
            found |= {node.tensor} if isinstance(node, Read) else set()
            found |= self.made_of[node.name] if isinstance(node, Ref) else set()
        return frozenset(found)

    def _all(self, body: Body) -> Iterator[Body]:
        """The nodes of an expression and of the values that it names."""
        for node in walk(body):
            yield node
            if isinstance(node, Ref):
                yield from self._all(self.region.let(node.name).expr)
