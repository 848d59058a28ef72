"""Heads of a query that share keys, where each has one query, as a decoder of exporters has them: the heads of a group
become an axis of their own. They are rows of one tile then, for which keys and values are fetched once.

before: for i0: 32, i1: N      ... mul(Q[i0, k0], K[floor(i0/4), i1, k0])          yield P[i0, i1] = %p
after:  for i0: 8, i2: 4, i1: N   ... mul(Q[4*i0 + i2, k0], K[i0, i1, k0])          yield P[i0, i2, i1] = %p
"""

from __future__ import annotations

from ...ir.body import Axis, Body, BroadcastInDim, Read, Ref, Transpose, rebuild, substitute, walk
from ...ir.expr import Expr, Floor
from ...ir.region import Program, Region, Tensor
from ...ir.scope import Scope
from ...ir.traits import bodies_of
from ...ir.types import TensorType
from ...kernels.attention import LONE_ROW, streaming_of
from ...kit.records import dataclass, replace
from .write import free_axes


@dataclass(frozen=True, slots=True)
class _Split:
    """An axis of a region as groups of `each`: its points are `each * major + minor`."""

    axis: str
    major: Axis
    minor: Axis
    each: int

    @property
    def point(self) -> Expr:
        """What takes the axis' place."""
        return self.each * Expr.of(self.major.name) + self.minor.name


def split_heads(program: Program) -> Program:
    """The program with groups of heads as axes of their own, in attention whose keys meet one query each."""
    makers = {t.name: r for r in program.regions for t in r.outputs if t.attr("materialize") == "deferred"}
    changed: dict[str, Region] = {}
    buffers = {t.name: t for t in program.buffers}
    for second in program.regions:
        for handed in (t for t in second.inputs if t.name in makers):
            found = _in_groups(makers[handed.name], second, handed)
            if found is not None:
                *pair, buffers[handed.name] = found
                changed |= {region.name: region for region in pair}
    if not changed:
        return program
    regions = tuple(changed.get(r.name, r) for r in program.regions)
    return replace(program, buffers=tuple(buffers.values()), regions=regions)


def _in_groups(first: Region, second: Region, handed: Tensor) -> tuple[Region, Region, Tensor] | None:
    """Both regions of an attention and what is handed on, with an axis for the heads of a group; None where there is no
    group."""
    if streaming_of(first, second) != LONE_ROW or not (_is_plain(first) and _is_plain(second)):
        return None
    (item,) = (y for y in first.yields if y.output == handed.name)
    reads = [n for body in bodies_of(second) for n in walk(body) if isinstance(n, Read) and n.tensor == handed.name]
    for at, size in enumerate(handed.type.shape):
        names = {read.index[at].name for read in reads}
        if item.index[at].name is None or len(names) != 1 or None in names or size.constant is None:
            continue
        axes = item.index[at].name, names.pop()
        if any(axis not in {a.name for a in r.iters} for r, axis in zip((first, second), axes)):
            continue  # what is summed over
        sizes = {n for region, axis in zip((first, second), axes) for n in _groups(region, axis)}
        if len(sizes) != 1 or size.constant % min(sizes) or min(sizes) in (1, size.constant):
            continue
        each = sizes.pop()
        shape = (*handed.type.shape[:at], size // each, Expr.of(each), *handed.type.shape[at + 1 :])
        told = replace(handed, type=TensorType(handed.type.dtype, shape))
        pair = tuple(_rewritten(r, _split_of(r, axis, each), told, at) for r, axis in zip((first, second), axes))
        if not isinstance(streaming_of(*pair), str):
            return (*pair, told)
    return None


def _is_plain(region: Region) -> bool:
    """Whether no value is read at another point than its own."""
    nodes = (n for body in bodies_of(region) for n in walk(body))
    return not any(isinstance(n, Transpose) or isinstance(n, Ref) and n.index is not None for n in nodes)


def _groups(region: Region, axis: str) -> set[int]:
    """By how much an axis is divided where tensors are read."""
    reads = (n for body in bodies_of(region) for n in walk(body) if isinstance(n, Read))
    atoms = (a for read in reads for e in read.index for _, m in e.terms for a in m)
    floors = (a for a in atoms if isinstance(a, Floor) and axis in a.num.names())
    return {a.den.constant if a.num == Expr.of(axis) and a.den.constant else 1 for a in floors}


def _split_of(region: Region, axis: str, each: int) -> _Split:
    tensors = (*region.inputs, *region.outputs)
    symbols = {n for t in tensors for e in t.type.shape for n in e.names()}
    taken = {*(a.name for a in region.iters), *symbols, *(t.name for t in tensors)}
    size = next(a.size for a in region.iters if a.name == axis)
    return _Split(axis, Axis(axis, size // each), Axis(next(free_axes("i", taken)), Expr.of(each)), each)


def _rewritten(region: Region, split: _Split, handed: Tensor, at: int) -> Region:
    """The region with the axis in two, which dim `at` of what is handed on has as two."""
    old = tuple(a.name for a in region.iters)
    scope = Scope(((split.major.name, split.major.size), (split.minor.name, split.minor.size)))
    pair, point = (split.major.name, split.minor.name), {split.axis: split.point}

    def wider(axes: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for axis in axes for name in (pair if axis == split.axis else (axis,)))

    def moved(index: tuple[Expr, ...], tensor: str) -> tuple[Expr, ...]:
        if tensor == handed.name:
            return (*index[:at], *map(Expr.of, pair), *index[at + 1 :])
        return tuple(map(scope.simplify, index))

    def put(body: Body) -> Body:
        if isinstance(body, Read):
            return replace(body, index=moved(body.index, body.tensor))
        inner = rebuild(body, put)
        if not isinstance(inner, BroadcastInDim):
            return inner
        axes = inner.axes if inner.axes is not None else old
        names, whole = wider(tuple(axes[d] for d in inner.dims)), wider(axes)
        return replace(inner, dims=tuple(map(whole.index, names)), axes=None if inner.axes is None else whole)

    def with_handed(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(handed if t.name == handed.name else t for t in tensors)

    return replace(
        region,
        inputs=with_handed(region.inputs),
        outputs=with_handed(region.outputs),
        iters=tuple(x for a in region.iters for x in ((split.major, split.minor) if a.name == split.axis else (a,))),
        lets=tuple(replace(let, expr=put(substitute(let.expr, point))) for let in region.lets),
        yields=tuple(
            replace(
                y,
                expr=put(substitute(y.expr, point)),
                index=moved(tuple(e.substitute(point) for e in y.index), y.output),
                guard=tuple(b.substitute(point) for b in y.guard),
            )
            for y in region.yields
        ),
    )
