"""A cluster as a region: which members become values of their own, what is written inline, and how axes are named.

A value of the model, a fold, and whatever is used twice is a value of the region; what a model op was expanded into is
written where it is used while that stays readable. Movements are the indices of reads, guards are `where ... else`,
operands with fewer axes are broadcast_in_dim; inside a fold operands are read directly (C-CON1). Outside of folds a sum
or a product has a value of the region before what is read, so that regions that differ in this order alone are alike.
What is read and
written here is memory: the index of a col_major tensor has the tensor's last two axes exchanged.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterator, Mapping

from ...analysis.access import simplify
from ...ir.accumulate import neutral_of
from ...ir.body import (
    Axis,
    Binary,
    Body,
    Gather,
    Index,
    Literal,
    Random,
    Read,
    Reduce,
    Ref,
    Scan,
    Scatter,
    Select,
    Ternary,
    Unary,
    walk,
)
from ...ir.expr import ONE, ZERO, Expr, Like
from ...ir.index import Access, Fill, Piece
from ...ir.index import Read as BookRead
from ...ir.meet import meet
from ...ir.ops import OPS
from ...ir.present import present_axes
from ...ir.region import Let, Region, Tensor, Yield
from ...ir.scope import Scope
from ...ir.types import DType, is_exact, round_to
from ...kit.groups import lists_of
from .cluster import Cluster
from .graph import Graph, Node, targets

LONGEST = 5  # ops and operands of what may be written inside another expression; longer ones get a line of their own
ORDERED = ("MAX", "MIN")  # of 0.0 and -0.0 these take the second
Point = Mapping[str, Like]


class _Either(Container[str]):
    """The names that one or the other has: each has those of a whole program, of which few are asked for."""

    def __init__(self, one: Container[str], other: Container[str]):
        self.one, self.other = one, other

    def __contains__(self, name: object) -> bool:
        return name in self.one or name in self.other


class Writer:
    """One cluster on its way to being a region. `tensor_of` gives the memory of a value that is outside; `known` is
    memory by its name, `in_order` brings what there is for each axis of a tensor in the order of the axes in memory;
    `places` are where values are in their memory that are a part of it, in terms of their axes."""

    def __init__(
        self,
        graph: Graph,
        cluster: Cluster,
        outputs: Mapping[str, tuple[str, ...]],
        tensor_of: Callable[[str], Tensor],
        known: Mapping[str, Tensor],
        in_order: Callable[[str, tuple], tuple] = lambda _, items: items,
        places: Mapping[str, tuple[Expr, ...]] | None = None,
    ):
        self.graph = graph
        self.cluster = cluster
        self.places = places or {}
        self.outputs = outputs
        self.tensor_of, self.known, self.in_order = tensor_of, known, in_order
        self.taken = _Either(known, graph.types)  # by memory, which an index cannot name beside an axis
        self.length: dict[str, int] = {}
        self.lets = self._choose_lets()
        self.iter_of, self.iters = self._name_axes()
        self.fresh: dict[str, Expr] = {}
        self.open: list[str] = []
        self.axes_of: dict[str, tuple[str, ...]] = {}

    # --- what is a value, and along which axes

    def _choose_lets(self) -> set[str]:
        cluster = self.cluster
        sites = lists_of(
            (target.source, reader.name)
            for reader in cluster.members.values()
            for access in reader.reads
            for target in targets(access)
        )
        room = self._room()
        lets = {source for source, _ in cluster.stored.values()}
        for name, node in cluster.members.items():
            self.length[name] = 1 + sum(
                self.length[s] if s in cluster.members and s not in lets else 1 for s in node.sources
            )
            if name in cluster.folds or node.kind == "scatter":
                lets.add(name)
                continue
            if name not in cluster.place or not cluster.own(name) <= room:
                continue
            readers = sites.get(name, [])
            if name in self.outputs:
                if readers or self._is_named(node) or self.length[name] > LONGEST or len(self.outputs[name]) > 1:
                    lets.add(name)
                continue
            feeds_fold = len(readers) == 1 and readers[0] in cluster.folds
            if len(readers) > 1 or not feeds_fold and (self._is_named(node) or self.length[name] > LONGEST):
                lets.add(name)
        return lets

    def _room(self) -> frozenset[int]:
        """The axes along which values may go: all, but in a contraction only those of its result."""
        heavy = self.cluster.heavy()
        return self.cluster.own(heavy[0]) if heavy and not self.cluster.is_streamed else frozenset(self.cluster.sizes)

    def _is_named(self, node: Node) -> bool:
        return node.value.origin is not None and node.value.origin.name == node.name

    def _name_axes(self) -> tuple[dict[int, str], tuple[Axis, ...]]:
        """Names for the axes of values: the widest output's, in the order of its memory, then those of other
        values."""
        cluster = self.cluster
        widest = max(self.outputs, key=lambda n: len(cluster.own(n)) if n in cluster.place else 0)
        iter_of: dict[int, str] = {}
        free = free_axes("i", self.taken)
        for name in (widest, *self.outputs, *(n for n in cluster.members if n in self.lets)):
            place = cluster.place.get(name, {})
            own = tuple(cluster.members[name].own)
            for axis in self.in_order(self.outputs[name][0], own) if name in self.outputs else own:
                if axis.name in place and place[axis.name] not in iter_of:
                    iter_of[place[axis.name]] = next(free)
        return iter_of, tuple(Axis(name, cluster.sizes[number]) for number, name in iter_of.items())

    # --- the region

    def region(self, name: str) -> Region:
        """The region, called `name`."""
        cluster = self.cluster
        lets: list[Let] = []
        yields: list[Yield] = []
        names = tuple(a.name for a in self.iters)
        for member in (m for m in cluster.members if m in self.lets):
            node = cluster.members[member]
            body = self._body(node, self._point(node), False)
            lets.append(Let(member, body, node.value.origin))
            present = present_axes(body, names, self.axes_of)
            self.axes_of[member] = tuple(n for n in names if n in present)
        for member, outputs in self.outputs.items():
            node = cluster.members[member]
            point = self._point(node)
            index = tuple(Expr.of(point[a.name]) for a in node.own)
            if member in cluster.stored:
                source, order = cluster.stored[member]
                index = tuple(e.substitute(self._point(cluster.members[source])) for e in order)
                point = {a.name: e for a, e in zip(node.own, index)}
            body = Ref(member, node.value.type.dtype) if member in self.lets else self._body(node, point, False)
            if member in cluster.stored and not isinstance(body, (Literal, Ref)):
                lets.append(Let(member, body, node.value.origin))
                body = Ref(member, body.dtype)
            if member in self.places:
                index = tuple(e.substitute(point) for e in self.places[member])
            yields += [Yield(o, self.in_order(o, index), body, (), node.value.origin) for o in outputs]
        written = tuple(self.known[o] for outputs in self.outputs.values() for o in outputs)
        return Region(name, self._inputs(lets, yields), written, self.iters, tuple(lets), tuple(yields))

    def _inputs(self, lets: list[Let], yields: list[Yield]) -> tuple[Tensor, ...]:
        read = dict.fromkeys(n.tensor for item in (*lets, *yields) for n in walk(item.expr) if isinstance(n, Read))
        return tuple(map(self.known.__getitem__, read))

    def _point(self, node: Node) -> dict[str, Expr]:
        """The region's name of each axis of a member at the current point."""
        place = self.cluster.place.get(node.name, {})
        return {a.name: Expr.of(self.iter_of[place[a.name]]) if a.name in place else ZERO for a in node.own}

    def _scope(self) -> Scope:
        """The points of the region and of the folds that are open here."""
        return Scope(
            (*((a.name, a.size) for a in self.iters), *((n, self.fresh[n]) for n in self.open)), self.graph.ranges()
        )

    def _fresh(self, size: Expr) -> Axis:
        """A new axis for a fold: the first `k` of this size that no fold around it runs along, so that sibling folds
        share names."""
        name = next(n for n in free_axes("k", self.taken) if n not in self.open and self.fresh.get(n, size) == size)
        self.fresh[name] = size
        self.open.append(name)
        return Axis(name, size)

    def _close(self, axes: list[Axis]) -> None:
        """The fold over these axes ends here."""
        self.open = [n for n in self.open if n not in {a.name for a in axes}]

    # --- expressions

    def _body(self, node: Node, point: Point, in_fold: bool) -> Body:
        """What a member is at a point of its axes."""
        return getattr(self, f"_{node.kind}")(node, point, in_fold)

    def _elementwise(self, node: Node, point: Point, in_fold: bool) -> Body:
        dtype, row = node.value.type.dtype, OPS[node.value.op]
        operands = [
            self._operand(a, point, self.graph.types[o].dtype, in_fold) for a, o in zip(node.reads, node.value.operands)
        ]
        if row.name == "CAST" and operands[0].dtype == dtype:
            return operands[0]
        if row.is_commutative and row.name not in ORDERED and not in_fold and any(isinstance(o, Ref) for o in operands):
            operands.sort(key=lambda operand: isinstance(operand, Read))
        kind = {"unary": Unary, "binary": Binary, "ternary": Ternary}[row.group]
        return kind(row.name.lower(), *self._meet(operands, in_fold), dtype)

    def _movement(self, node: Node, point: Point, in_fold: bool) -> Body:
        return self._operand(node.reads[0], point, node.value.type.dtype, in_fold)

    def _reduction(self, node: Node, point: Point, in_fold: bool) -> Body:
        dtype, op = node.value.type.dtype, node.value.attr("op").lower()
        chooses = op in ("argmax", "argmin")
        inside = dict(point)
        axes: list[Axis] = []
        place = self.cluster.place.get(node.name, {})
        for axis in node.extra:
            if axis.size == ONE:
                inside[axis.name] = ZERO
                continue
            number = place.get(axis.name)
            found = Axis(self.iter_of[number]) if number in self.iter_of else self._fresh(axis.size)
            axes.append(found)
            inside[axis.name] = Expr.of(found.name)
        body = self._operand(
            node.reads[0], inside, self.graph.types[node.value.operands[0]].dtype, bool(axes) or in_fold
        )
        self._close(axes)
        if not chooses and not is_exact(body.dtype, dtype):
            body = Unary("cast", body, dtype)
        if axes:
            return Reduce(op, tuple(axes), body, dtype)
        return Literal(0, dtype) if chooses else self._folded_once(op, body, dtype, in_fold)

    def _folded_once(self, op: str, body: Body, dtype: DType, in_fold: bool) -> Body:
        """The fold of one element alone: a sum starts from 0.0, which makes 0.0 of -0.0 and leaves all else."""
        element = body if body.dtype == dtype else Unary("cast", body, dtype)
        if op != "sum" or not dtype.is_float:
            return element
        return Binary("add", *self._meet([element, neutral_of(op, dtype)], in_fold), dtype)

    def _scan(self, node: Node, point: Point, in_fold: bool) -> Body:
        value = node.value
        rank = value.type.rank
        axis = node.own[value.attr("axis") % rank]
        body = self._operand(node.reads[0], point, self.graph.types[value.operands[0]].dtype, axis.size != ONE)
        dtype = value.type.dtype
        if not is_exact(body.dtype, dtype):
            body = Unary("cast", body, dtype)
        if axis.size == ONE:
            if value.attr("exclusive"):
                return neutral_of(value.attr("op"), dtype)
            return self._folded_once(value.attr("op").lower(), body, dtype, in_fold)
        along = Expr.of(point[axis.name]).name
        return Scan(
            value.attr("op").lower(), along, body, dtype, bool(value.attr("reverse")), bool(value.attr("exclusive"))
        )

    def _gather(self, node: Node, point: Point, in_fold: bool) -> Body:
        (axis,) = node.extra
        source, chosen = node.value.operands
        at = self._operand(node.reads[1], point, self.graph.types[chosen].dtype, in_fold)
        found = self._fresh(axis.size)
        body = self._operand(node.reads[0], {**point, axis.name: found.name}, node.value.type.dtype, True)
        self._close([found])
        return Gather(found, at, body, node.value.type.dtype)

    def _scatter(self, node: Node, point: Point, in_fold: bool) -> Body:
        value = node.value
        place = value.attr("axis") % value.type.rank
        inside, axes = dict(point), []
        types = [self.graph.types[o].dtype for o in value.operands]
        base = self._operand(node.reads[0], point, types[0], in_fold)  # read where there is no place, too
        for axis in node.extra:
            axes.append(self._fresh(axis.size))
            inside[axis.name] = Expr.of(axes[-1].name)
        at, update = (self._operand(node.reads[n], inside, types[n], True) for n in (1, 2))
        self._close(axes)
        along = Expr.of(point[f"i{place}"]).name
        return Scatter(value.attr("op").lower(), along, tuple(axes), update, at, base, value.type.dtype)

    def _operand(self, access: Access, point: Point, dtype: DType, in_fold: bool) -> Body:
        """What an access gives at a point: nested choices, the last piece innermost."""
        here = simplify(moved(access, point), self._scope())
        found: Body | None = None
        for piece in reversed(here.pieces):
            target = piece.target
            body = (
                Literal(round_to(dtype, target.value), dtype)
                if isinstance(target, Fill)
                else self._value_at(target.source, target.index, dtype, in_fold)
            )
            if found is None:
                found = body
            else:
                then, other = self._meet([body, found], in_fold)
                found = Select(piece.guard, then, other, dtype)
        assert found is not None
        return found

    def _value_at(self, name: str, index: tuple[Expr, ...], dtype: DType, in_fold: bool) -> Body:
        if name in self.graph.leaves:
            return self._leaf(name, index, dtype)
        node = self.cluster.members.get(name)
        if node is None:
            tensor = self.tensor_of(name)
            places = zip(self.in_order(tensor.name, index), tensor.type.shape)
            return Read(tensor.name, tuple(ZERO if size == ONE else e for e, size in places), dtype)
        point = {a.name: ZERO if a.size == ONE else e for a, e in zip(node.own, index)}
        if name in self.lets and all(Expr.of(e) == here for e, here in zip(point.values(), self._point(node).values())):
            return Ref(name, dtype)
        return self._body(node, point, in_fold)

    def _leaf(self, name: str, index: tuple[Expr, ...], dtype: DType) -> Body:
        value = self.graph.leaves[name]
        if value.op == "IOTA":
            return Index(index[value.attr("axis") % value.type.rank], dtype)
        if value.op == "RANDOM":
            linear = ZERO
            for e, size in zip(index, value.type.shape):
                linear = linear * size + e
            return Random(linear, value.attr("seed"), value.attr("offset") or 0, dtype)
        constant = value.attr("value")
        if isinstance(constant, tuple):
            return Read(
                self.tensor_of(name).name,
                tuple(ZERO if size == ONE else e for e, size in zip(index, value.type.shape)),
                dtype,
            )
        return Index(constant, dtype) if isinstance(constant, Expr) else Literal(round_to(dtype, constant), dtype)

    def _meet(self, operands: list[Body], in_fold: bool) -> list[Body]:
        """Operands along the axes of all of them; inside a fold as they are."""
        return operands if in_fold else meet(operands, tuple(a.name for a in self.iters), self.axes_of)


def free_axes(letter: str, taken: Container[str]) -> Iterator[str]:
    """i0, i1, ... without the names that are taken."""
    return (name for name in (f"{letter}{number}" for number in itertools.count()) if name not in taken)


def moved(access: Access, point: Point) -> Access:
    """The access at another point: its axes replaced."""

    def put(piece: Piece) -> Piece:
        target = piece.target
        if isinstance(target, BookRead):
            target = BookRead(target.source, tuple(e.substitute(point) for e in target.index))
        return Piece(tuple(b.substitute(point) for b in piece.guard), target)

    return Access(tuple(map(put, access.pieces)))
