"""The program as a graph to be cut into regions: what each value computes, and through which maps it reads what.

A node is a value that is computed: its movements are in the accesses, its leaves (CONST, IOTA, RANDOM) are no nodes.
Axes of size 1 are 0 everywhere. An edge is `point` when the reader wants the source at its own point: each axis of the
source is one axis of the reader, of the same size, and no axis comes twice; only such edges share an iteration space.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from ...analysis.access import compose, identity
from ...ir import poly, tiny
from ...ir.accumulate import neutral_of
from ...ir.expr import ONE, ZERO, Expr
from ...ir.index import Access, Axis, Entry, Piece, Read
from ...ir.ops import OPS
from ...ir.scope import Scope
from ...ir.types import TensorType
from ...kit.records import dataclass, field, replace
from .movements import kept_for, read_until

FOLDS = ("reduction", "scan")


@dataclass(frozen=True, slots=True)
class Node:
    """One computed value; leaves that are results are movements of themselves.

    `kind` is elementwise, reduction, scan, gather, scatter, movement, or reshape (not affine: the same memory seen in
    another shape). `axes` are its own, then those it folds or chooses along; `own` and `extra` are the two parts.
    `sources` are the inputs and computed values that it reads, in order, each once. `is_heavy` marks a contraction
    (`is_contraction`) with reuse on both sides: what tensor cores are for. `linear_dims` are the dims of its reads: of
    what, which, at which index, and the axes that the index counts linearly. `still` are the axes of size 1."""

    value: tiny.Value
    kind: str
    axes: tuple[Axis, ...]
    reads: tuple[Access, ...]
    leaves: frozenset[str] = frozenset()
    is_heavy: bool = False
    is_contraction: bool = False
    own: tuple[Axis, ...] = field(init=False, compare=False)
    extra: tuple[Axis, ...] = field(init=False, compare=False)
    sources: tuple[str, ...] = field(init=False, compare=False)
    linear_dims: tuple[tuple[str, int, Expr, tuple[str, ...]], ...] = field(init=False, compare=False)
    still: frozenset[str] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        put, read = object.__setattr__, [t for a in self.reads for t in targets(a)]
        folded = [a.kind in ("reduce", "indirect") for a in self.axes]
        put(self, "own", tuple([a for a, is_folded in zip(self.axes, folded) if not is_folded]))
        put(self, "extra", tuple([a for a, is_folded in zip(self.axes, folded) if is_folded]))
        put(self, "sources", tuple(dict.fromkeys([t.source for t in read if t.source not in self.leaves])))
        names = {a.name for a in self.axes}
        dims = [
            (t.source, dim, e, tuple([m[0] for _, m in e.terms if len(m) == 1 and m[0] in names]))
            for t in read
            for dim, e in enumerate(t.index)
        ]
        put(self, "linear_dims", tuple(dims))
        put(self, "still", still_of(self.value, self.kind, self.axes))

    @property
    def name(self) -> str:
        """The value's name."""
        return self.value.name

    @property
    def is_fold(self) -> bool:
        """True for a reduction or a scan."""
        return self.kind in FOLDS


@dataclass(frozen=True, slots=True)
class Graph:
    """The nodes by name, in the program's order, with the module's types and leaves; `results` gives the outputs of the
    model that a value is, `users` the nodes that read it, `values` every value of the program by name. `parts` are
    nodes that compute some or all of a state's new value, each with that value, which is not a node and is in the
    state's memory, and the index in it at each point of the node. `kinds`
    numbers nodes without names, `kind_of` has the number of each that was asked for, `faults` what was found of
    clusters without names (`alike`)."""

    module: poly.Module
    nodes: dict[str, Node]
    types: dict[str, TensorType]
    leaves: dict[str, tiny.Value]
    results: dict[str, tuple[str, ...]]
    parts: dict[str, tuple[str, tuple[Expr, ...]]] = field(default_factory=dict)
    users: dict[str, tuple[str, ...]] = field(init=False)
    values: dict[str, tiny.Value] = field(init=False)
    kinds: dict[Hashable, int] = field(init=False, compare=False)
    kind_of: dict[str, int] = field(init=False, compare=False)
    faults: dict[Hashable, str] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", self.program.value_of())
        users: dict[str, dict[str, None]] = {}
        for node in self.nodes.values():
            for source in node.sources:
                users.setdefault(source, {})[node.name] = None
        object.__setattr__(self, "users", {s: tuple(u) for s, u in users.items()})
        for memo in ("kinds", "kind_of", "faults"):
            object.__setattr__(self, memo, {})

    @property
    def program(self) -> tiny.Module:
        """The tiny module."""
        return self.module.index.tiny

    def ranges(self) -> tuple[tuple[str, int, int], ...]:
        """What is known of every symbol."""
        return self.module.index.ranges()

    def results_of(self, name: str) -> tuple[str, ...]:
        """The outputs of the model that a value is."""
        return self.results.get(name, ())


def targets(access: Access) -> Iterator[Read]:
    """The reads of an access, without its constants."""
    return (p.target for p in access.pieces if p.target.__class__ is Read)


def is_exponential(node: Node) -> bool:
    """Whether a value is a power of one number."""
    if node.value.op == "POW":
        return all(t.source in node.leaves for t in targets(node.reads[0]))
    return node.value.op == "EXP2"


def build(module: poly.Module) -> Graph:
    """The graph of everything that the results need."""
    program = module.index.tiny
    entries = module.index.entry_of()
    values = {v.name: _of_no_point(v, entries[v.name]) for v in program.values}
    blocks, kept = module.block_of(), kept_for(module, entries, values)
    needed = {r.value for r in program.results}
    nodes: dict[str, Node] = {}
    leaves: dict[str, tiny.Value] = {}
    for value in reversed(values.values()):
        if value.name not in needed:
            continue
        kind, axes, reads = _computed(value, entries, values, module, kept.get(value.name, frozenset()))
        block = blocks.get(value.name)
        is_contraction = kind == "reduction" and block is not None and block.kind == "contraction"
        is_heavy = is_contraction and bool(block.left and block.right)
        read = {t.source for a in reads for t in targets(a)}
        own_leaves = frozenset(s for s in read if s in values and OPS[values[s].op].group == "leaf")
        leaves.update((s, values[s]) for s in own_leaves)
        nodes[value.name] = Node(value, kind, axes, reads, own_leaves, is_heavy, is_contraction)
        needed |= read - own_leaves
    results: dict[str, tuple[str, ...]] = {}
    for result in program.results:
        results[result.value] = (*results.get(result.value, ()), result.output)
    return Graph(
        module, {v.name: nodes[v.name] for v in program.values if v.name in nodes}, program.type_of(), leaves, results
    )


def _of_no_point(value: tiny.Value, entry: Entry) -> tiny.Value:
    """A reduction along an axis of size 0 as the constant that it is, so that no kernel runs along that axis; any other
    value as written."""
    if value.op != "REDUCE" or all(a.size != ZERO for a in entry.axes if a.kind == "reduce"):
        return value
    op, dtype = value.attr("op").lower(), value.type.dtype
    number = 0 if op in ("argmax", "argmin") else neutral_of(op, dtype).value
    return replace(value, op="CONST", operands=(), attrs=(("value", number),))


def _computed(
    value: tiny.Value,
    entries: dict[str, Entry],
    values: dict[str, tiny.Value],
    module: poly.Module,
    kept: frozenset[str],
) -> tuple[str, tuple[Axis, ...], tuple[Access, ...]]:
    """Kind, axes and reads of the node of a value; it reads the movements that are `kept` as values."""
    entry, group = entries[value.name], OPS[value.op].group
    operand = values.get(value.operands[0]) if value.operands else None
    if not entry.is_scop and value.op == "RESHAPE" and (operand is None or OPS[operand.op].group != "leaf"):
        return "reshape", entry.axes, entry.reads
    if group == "leaf":
        return "movement", entry.own_axes, (identity(value.name, (a.name for a in entry.own_axes)),)
    kind = {"reduce": "reduction", "indirect": value.op.lower()}.get(
        group, "movement" if group == "movement" else "elementwise"
    )
    reads = (
        tuple(read_until(value.name, at, kept, module, entries) for at in range(len(entry.reads)))
        if kept
        else entry.sources
    )
    axes = entry.axes
    if kind == "scan":  # the body is wanted at the point itself; the fold along the axis is the form's own
        axes = entry.own_axes
        scope = Scope(tuple((a.name, a.size) for a in axes), module.index.ranges())
        reads = (_through(identity(value.operands[0], (a.name for a in axes)), entries, values, scope),)
    still = still_of(value, kind, axes)
    return kind, tuple(axes), tuple([_still(a, still) for a in reads])


def still_of(value: tiny.Value, kind: str, axes: Iterable[Axis]) -> frozenset[str]:
    """The axes of size 1, at 0 everywhere; the axis that a scatter writes along is none of them, whatever its size."""
    along = f"i{value.attr('axis') % value.type.rank}" if kind == "scatter" else ""
    return frozenset([a.name for a in axes if a.size == ONE and a.name != along])


def _through(access: Access, entries: dict[str, Entry], values: dict[str, tiny.Value], scope: Scope) -> Access:
    """The access composed with the movement that it reads, if it reads one."""
    source = access.source
    if source in values and OPS[values[source].op].is_movement and entries[source].is_scop:
        return compose(access, entries[source].sources[0], scope)
    return access


def _still(access: Access, unit: frozenset[str]) -> Access:
    """The access with 0 for each axis of size 1."""
    if not unit:
        return access
    zero = dict.fromkeys(unit, ZERO)

    def put(piece: Piece) -> Piece:
        target = piece.target
        moved = (
            Read(target.source, tuple(e.substitute(zero) for e in target.index)) if isinstance(target, Read) else target
        )
        return Piece(tuple(b.substitute(zero) for b in piece.guard), moved)

    return Access(tuple(map(put, access.pieces)))


def point_map(reader: Node, source: Node, read: Read) -> dict[str, str] | None:
    """For a point read, the reader's axis that each axis of the source is; None when the read is of another point."""
    size_of = {a.name: a.size for a in reader.axes if a.kind != "indirect"}
    found: dict[str, str] = {}
    for axis, index in zip(source.own, read.index):
        if axis.size == ONE:
            continue
        name = index.name
        if name is None or size_of.get(name) != axis.size or name in found.values():
            return None
        found[axis.name] = name
    return found
