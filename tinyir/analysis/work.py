"""The work of a region as expressions of its symbols: floating-point and integer operations, and bytes that must cross
memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ir.body import Axis, Binary, Body, Gather, Index, Read, Reduce, Ref, Ternary, Unary, operands_of, walk
from ..ir.expr import ONE, ZERO, Expr
from ..ir.region import Region, Tensor
from ..ir.rules import product
from ..ir.traits import axes_of, is_product_of_sides
from ..kit.groups import lists_of
from ..kit.records import dataclass
from .traffic import SLOW, SLOW_OPS

NO_SIZES: Mapping[str, int] = {}
FREE_OPS = frozenset({"cast", "where", "not", "neg"})  # renaming, choosing and signs cost no arithmetic unit


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a region at one shape set: operations, and bytes to and from memory."""

    flops: int
    bytes: int


def work_of(region: Region, sizes: Mapping[str, int]) -> Work:
    """The region's work at the symbol values `sizes`."""
    return Work(flops_of(region).evaluate(sizes), bytes_of(region, sizes).evaluate(sizes))


def flops_of(region: Region) -> Expr:
    """Arithmetic operations, a multiply-add counted as two, as an expression of the symbols; each value is computed
    once, and so is each factor of a contraction."""
    size = {a.name: a.size for a in region.iters}
    free: dict[str, set[str]] = {}
    total = ZERO
    for let in region.lets:
        free[let.name] = _free(let.expr, free) & size.keys()
        total = total + _count(let.expr, _extent(free[let.name], size), size)
    for item in region.yields:
        names = {name for e in item.index for name in e.names()} | _free(item.expr, free)
        total = total + _count(item.expr, _extent(names & size.keys(), size), size)
    return total


def ops_each(body: Body) -> int:
    """Instructions for one element of an expression, less its reads: slow ops count for what they are worth."""
    return sum(SLOW_OPS if n.op.upper() in SLOW else 1 for n in walk(body) if isinstance(n, (Unary, Binary, Ternary)))


def bytes_of(region: Region, sizes: Mapping[str, int] = NO_SIZES) -> Expr:
    """Bytes that cross memory when what is read of every input is read once and every output is written once, of a
    state the rows that are written; buffers that stay on the chip are free. Where `sizes` are given it is known too of
    an input whose rows symbols count how many are read."""
    total = ZERO
    points = _points_read(region, sizes)
    for tensor in region.inputs:
        if tensor.attr("materialize") != "deferred":
            whole = _at(product(tensor.type.shape), sizes)
            total = total + _lesser(whole, points.get(tensor.name, whole)) * tensor.type.dtype.bytes
    for tensor in region.outputs:
        if tensor.attr("materialize") != "deferred":
            total = total + _written(region, tensor) * tensor.type.dtype.bytes
    return total


def _written(region: Region, tensor: Tensor) -> Expr:
    """Elements of an output that a region writes."""
    if tensor.attr("alias") is None:
        return product(tensor.type.shape)
    size = {a.name: a.size for a in region.iters}
    written = ({n for e in y.index for n in e.names()} for y in region.yields if y.output == tensor.name)
    return sum((_extent(names, size) for names in written), start=ZERO)


def _points_read(region: Region, sizes: Mapping[str, int]) -> dict[str, Expr]:
    """For each input that may not be read whole at how many points it is read, each place of the text counted for
    itself: of a table with a row for each word, the rows that are picked; of a cache with room, the rows that there
    are. At least as many as its elements that are read."""
    nodes = [n for item in (*region.lets, *region.yields) for n in walk(item.expr)]
    folds = {a.name: a.size for n in nodes if isinstance(n, Reduce) for a in n.axes if a.size is not None}
    size = folds | {a.name: a.size for a in region.iters}
    shapes = {t.name: t.type.shape for t in region.inputs}
    reads = {(n.tensor, n.index) for n in nodes if isinstance(n, Read)}
    named = [(tensor, tuple(e.name for e in index)) for tensor, index in reads]
    if all(tuple(map(size.get, names)) == shapes.get(tensor) for tensor, names in named):
        return {}
    picks = lists_of((n.axis.name, n.at) for n in nodes if isinstance(n, Gather))
    points: dict[str, Expr] = {}
    for tensor, index in reads:
        axes = _varying({name for e in index for name in e.names()}, picks, size)
        found = _at(_extent(axes, size), sizes)
        along = (_at(_extent(_varying(set(e.names()), picks, size), size), sizes) for e in index)
        box = (_lesser(_at(side, sizes), here) for side, here in zip(shapes.get(tensor, ()), along))
        points[tensor] = points.get(tensor, ZERO) + _lesser(product(tuple(box)), found)
    return points


def _varying(names: set[str], picks: Mapping[str, Sequence[Body]], size: Mapping[str, Expr]) -> set[str]:
    """The axes along which places of these axes vary: one that gathers pick varies along those of what picks it."""
    found: set[str] = set()
    for name in names:
        for at in picks.get(name, ()):
            for n in walk(at):
                if isinstance(n, Index):
                    found |= _varying(set(n.expr.names()), picks, size)
                elif isinstance(n, (Read, Ref)) and n.index is not None:
                    found |= _varying({inner for e in n.index for inner in e.names()}, picks, size)
                elif isinstance(n, Ref):
                    found |= size.keys()
    return found | (names - picks.keys())


def _at(size: Expr, sizes: Mapping[str, int]) -> Expr:
    """A size at the values of its symbols, where they are given."""
    return Expr.of(size.evaluate(sizes)) if sizes else size


def _lesser(whole: Expr, read: Expr) -> Expr:
    """The smaller of two where both are numbers; else all of it, since a text cannot say which it will be."""
    a, b = whole.constant, read.constant
    return read if a is not None and b is not None and b < a else whole


def _free(body: Body, known: dict[str, set[str]]) -> set[str]:
    """The axes that an expression still has: those it uses, less those it folds away."""
    if isinstance(body, Reduce):
        return (_free(body.body, known)) - {a.name for a in body.axes}
    if isinstance(body, Ref):
        return set(known.get(body.name, ())) if body.index is None else {name for e in body.index for name in e.names()}
    if not any(isinstance(n, (Reduce, Ref)) for n in walk(body)):
        return axes_of(body)
    return set().union(*(_free(i, known) for i in operands_of(body)))


def _extent(names: set[str], size: dict[str, Expr]) -> Expr:
    total = ONE
    for name, points in size.items():
        if name in names:
            total = total * points
    return total


def _count(body: Body, points: Expr, size: dict[str, Expr]) -> Expr:
    """Operations of an expression that is computed at `points` points."""
    if isinstance(body, Reduce):
        inside = points
        for axis in body.axes:
            inside = inside * (axis.size if axis.size is not None else size[axis.name])
        if is_product_of_sides(body, tuple(Axis(n, s) for n, s in size.items())):
            extents = size | {a.name: a.size for a in body.axes}
            factors = ((f, _extent(axes_of(f), extents)) for f in (body.body.left, body.body.right))
            return sum((_count(f, once, size) for f, once in factors), start=2 * inside)
        return _count(body.body, inside, size) + inside
    own = points if isinstance(body, (Unary, Binary, Ternary)) and body.op not in FREE_OPS else ZERO
    for operand in operands_of(body):
        own = own + _count(operand, points, size)
    return own
