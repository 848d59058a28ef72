"""tiny -> index: gives every value its axes and the map to each operand, and composes the maps of movements (seed 001
section 4.4).

One function an op group says where an element comes from; composition and simplification are `analysis.access`.
Movements cost nothing to read through: the composed map of a value is built from the composed map of its operand, so
that a chain of a thousand movements is as short as its net effect.
"""

from __future__ import annotations

from collections.abc import Callable

from ..analysis.access import compose, identity, padded, simplify, whole
from ..analysis.closure import openings
from ..ir import index, tiny
from ..ir.accumulate import neutral_of
from ..ir.book import check_bounds, check_symbols
from ..ir.expr import ONE, ZERO, Bound, Expr
from ..ir.index import Access, Axis, Entry, Read
from ..ir.ops import OPS
from ..ir.reshape import split
from ..ir.rules import broadcast_dims
from ..ir.scope import Scope
from ..ir.sets import is_representable
from ..ir.types import TensorType
from ..kit.diag import Diag, refuse_all

MANY = 16  # pieces of a composed access beyond which a movement is read as a value of its own
HEAVY = 96  # weight of a composed access beyond which, likewise: maps that mix ever more must not grow for ever
WIDE = 62  # bits of an integer in one
Step = tuple[tuple[Axis, ...], tuple[Access, ...]]


def lower(module: tiny.Module) -> index.Module:
    """The module with its book. Raises Refused (E1208 a symbol called as an axis, E1304 one the signature lacks, E1207
    a read outside)."""
    faults = list(check_symbols(module))
    refuse_all(faults)
    ranges = tuple((r.symbol, r.low, r.high) for r in map(module.model.range_of, module.model.symbols()))
    types = module.type_of()
    chains = Chains()
    entries = []
    for value in module.values:
        axes, steps = (_RULES.get(value.op) or _RULES[OPS[value.op].group])(value, [types[o] for o in value.operands])
        scope = Scope(tuple((a.name, a.size) for a in axes), ranges)
        scopes = [_scope_of(s, axes, ranges) for s in steps]
        steps = tuple(map(simplify, steps, scopes))
        if value.op in ("VIEW", "SHRINK"):  # the others stay inside whatever their attributes are
            faults += check_bounds(value, steps, types, scope)
        sources = tuple(map(chains.source_of, steps, value.operands, scopes))
        is_scop = all(_is_affine(s, scope) for s in sources)
        if OPS[value.op].is_movement:
            chains.add(value, steps[0], sources[0], is_scop, scope)
        entries.append(Entry(value.name, axes, steps, sources if is_scop else steps, () if is_scop else ("non_scop",)))
    refuse_all(faults)
    return index.Module(module, tuple(entries))


def _scope_of(step: Access, axes: tuple[Axis, ...], ranges: tuple[tuple[str, int, int], ...]) -> Scope:
    """The points at which an operand is read. Without the axes of the places that a scatter writes to and a gather
    reads from, unless it is read along them: there may be none of these, and what is scattered onto, and the index, are
    read all the same."""
    named = {name for e in step.exprs() for name in e.names()}
    return Scope(tuple((a.name, a.size) for a in axes if a.kind != "indirect" or a.name in named), ranges)


class Chains:
    """The composed accesses of the movements so far. `affine` ends at a value that is computed, input, or not affine;
    `exact` reads through that last kind too, so that a reshape across symbols and its undoing leave nothing."""

    def __init__(self) -> None:
        self.affine: dict[str, Access] = {}
        self.exact: dict[str, Access] = {}

    def source_of(self, step: Access, operand: str, scope: Scope) -> Access:
        """The step composed with the operand's access; the step itself where the operand is not a movement or cannot be
        read through."""
        if operand in self.exact:
            exact = compose(step, self.exact[operand], scope)
            if _is_affine(exact, scope) and _is_light(exact):
                return exact
        if operand in self.affine:
            found = compose(step, self.affine[operand], scope)
            if _is_light(found):
                return found
        return step

    def add(self, value: tiny.Value, step: Access, source: Access, is_scop: bool, scope: Scope) -> None:
        """Take in a movement with its composed access."""
        (operand,) = value.operands
        if is_scop and len(source.pieces) <= MANY:
            self.affine[value.name] = source
        inner = self.exact.get(operand) or (
            None if is_scop else self.affine.get(operand) or identity(operand, _axes_of(step))
        )
        if inner is not None:
            exact = compose(step, inner, scope)
            if len(exact.pieces) <= MANY and _is_light(exact):
                self.exact[value.name] = exact


def _axes_of(step: Access) -> list[str]:
    read = next(p.target for p in step.pieces if isinstance(p.target, Read))
    return [f"i{n}" for n in range(len(read.index))]


def _is_light(access: Access) -> bool:
    """Whether an access is short enough to be carried along."""
    return sum(e.weight for e in access.exprs()) <= HEAVY and all(e.bits <= WIDE for e in access.exprs())


def _is_affine(access: Access, scope: Scope) -> bool:
    return all(is_representable(e, dict(scope.axes)) for e in access.exprs())


def remarks(module: index.Module) -> list[Diag]:
    """A remark for each value whose map isl cannot hold (R3201), or that is read as it is since the map through it
    would be too long (R3204)."""
    values = module.tiny.value_of()
    found: dict[str, Diag] = {}
    for place in openings(module):
        value = values[place.value]
        if place.why == "affine":
            found[value.name] = Diag("R3201", value.name, {"expr": place.expr, "op": value.op}, value.span)
        elif place.why == "length":
            cut = values[place.source]
            found[cut.name] = Diag("R3204", cut.name, {"op": cut.op, "reader": value.name}, cut.span)
    return list(found.values())


def _own_axes(value: tiny.Value, broadcast: frozenset[int] = frozenset()) -> tuple[Axis, ...]:
    return tuple(
        Axis(f"i{n}", size, "broadcast" if n in broadcast else "iter") for n, size in enumerate(value.type.shape)
    )


def _names(count: int) -> list[Expr]:
    return [Expr.of(f"i{n}") for n in range(count)]


def _elementwise(value: tiny.Value, operands: list[TensorType]) -> Step:
    axes = _own_axes(value)
    return axes, tuple(identity(o, (a.name for a in axes)) for o in value.operands)


def _leaf(value: tiny.Value, operands: list[TensorType]) -> Step:
    return _own_axes(value), ()


def _reduce(value: tiny.Value, operands: list[TensorType]) -> Step:
    (source,) = operands
    reduced = {axis % source.rank for axis in value.attr("axes")}
    own, gone = iter(_names(value.type.rank)), iter(f"k{n}" for n in range(len(reduced)))
    read: list[Expr] = []
    extra: list[Axis] = []
    for axis, size in enumerate(source.shape):
        if axis in reduced:
            extra.append(Axis(next(gone), size, "reduce"))
            read.append(Expr.of(extra[-1].name))
        else:
            read.append(next(own))
    return _own_axes(value) + tuple(extra), (whole(value.operands[0], read),)


# --- movements


def _movement(value: tiny.Value, operands: list[TensorType]) -> Step:
    broadcast, access = _MOVEMENTS[value.op](value, operands[0])
    return _own_axes(value, broadcast), (access,)


Movement = tuple[frozenset[int], Access]
NONE: frozenset[int] = frozenset()


def _permute(value: tiny.Value, source: TensorType) -> Movement:
    perm = value.attr("perm")
    read = [ZERO] * len(perm)
    for at, axis in enumerate(perm):
        read[axis] = Expr.of(f"i{at}")
    return NONE, whole(value.operands[0], read)


def _expand(value: tiny.Value, source: TensorType) -> Movement:
    stands = broadcast_dims(source, value.type, dict(value.attrs))
    varies = {d for size, d in zip(source.shape, stands) if size != ONE}
    stretched = frozenset(d for d, size in enumerate(value.type.shape) if d not in varies and size != ONE)
    return stretched, whole(
        value.operands[0], [Expr.of(f"i{d}") if size != ONE else ZERO for size, d in zip(source.shape, stands)]
    )


def _reshape(value: tiny.Value, source: TensorType) -> Movement:
    return NONE, whole(value.operands[0], split(source.shape, value.type.shape))


def _pad(value: tiny.Value, source: TensorType) -> Movement:
    read, guard = [], []
    for i, size, (low, high) in zip(_names(source.rank), source.shape, value.attr("pad")):
        read.append(i - low)
        if low != ZERO or high != ZERO:
            guard.append(Bound(i - low, ZERO, size))
    return NONE, padded(value.operands[0], read, tuple(guard), value.fill)


def _shrink(value: tiny.Value, source: TensorType) -> Movement:
    steps = value.attr("step") or (1,) * source.rank
    return NONE, whole(
        value.operands[0], [i * step + low for i, step, low in zip(_names(source.rank), steps, value.attr("lo"))]
    )


def _flip(value: tiny.Value, source: TensorType) -> Movement:
    flipped = {axis % source.rank for axis in value.attr("axes")}
    return NONE, whole(
        value.operands[0],
        [size - 1 - i if n in flipped else i for n, (i, size) in enumerate(zip(_names(source.rank), source.shape))],
    )


def _view(value: tiny.Value, source: TensorType) -> Movement:
    used = {name for e in value.attr("index_map") for name in e.names()}
    still = frozenset(n for n, size in enumerate(value.type.shape) if f"i{n}" not in used and size != ONE)
    return still, whole(value.operands[0], value.attr("index_map"))


def _valid(value: tiny.Value, source: TensorType) -> Movement:
    return NONE, padded(value.operands[0], _names(source.rank), value.attr("guard"), value.fill)


# --- beyond the affine core: a value chooses the element, or an element needs those before it


def _gather(value: tiny.Value, operands: list[TensorType]) -> Step:
    source, chosen = operands
    axis = value.attr("axis") % source.rank
    own = _names(value.type.rank)
    read = [*own[:axis], Expr.of("k0"), *own[axis + chosen.rank :]]
    axes = (*_own_axes(value), Axis("k0", source.shape[axis], "indirect"))
    return axes, (whole(value.operands[0], read), whole(value.operands[1], own[axis : axis + chosen.rank]))


def _scatter(value: tiny.Value, operands: list[TensorType]) -> Step:
    source, chosen, _ = operands
    axis = value.attr("axis") % source.rank
    own = _names(source.rank)
    extra = tuple(Axis(f"k{n}", size, "indirect") for n, size in enumerate(chosen.shape))
    at = [Expr.of(a.name) for a in extra]
    data, indices, updates = value.operands
    return (*_own_axes(value), *extra), (
        whole(data, own),
        whole(indices, at),
        whole(updates, [*own[:axis], *at, *own[axis + 1 :]]),
    )


def _scan(value: tiny.Value, operands: list[TensorType]) -> Step:
    (source,) = operands
    axis = value.attr("axis") % source.rank
    here, there = Expr.of(f"i{axis}"), Expr.of("k0")
    ahead = there - here if value.attr("reverse") else here - there
    guard = Bound(ahead, ONE if value.attr("exclusive") else ZERO)
    read = [there if n == axis else i for n, i in enumerate(_names(source.rank))]
    axes = (*_own_axes(value), Axis("k0", source.shape[axis], "reduce"))
    return axes, (padded(value.operands[0], read, (guard,), neutral_of(value.attr("op"), value.attr("dtype")).value),)


_MOVEMENTS: dict[str, Callable[[tiny.Value, TensorType], Movement]] = {
    "RESHAPE": _reshape,
    "PERMUTE": _permute,
    "EXPAND": _expand,
    "PAD": _pad,
    "SHRINK": _shrink,
    "FLIP": _flip,
    "VIEW": _view,
    "VALID": _valid,
}
_RULES: dict[str, Callable[[tiny.Value, list[TensorType]], Step]] = {
    "movement": _movement,
    "unary": _elementwise,
    "binary": _elementwise,
    "ternary": _elementwise,
    "reduce": _reduce,
    "leaf": _leaf,
    "GATHER": _gather,
    "SCATTER": _scatter,
    "SCAN": _scan,
}
