"""A state of which a run changes some rows alone, as a cache takes one row more: those are computed and written, at
their place; the others stay as they are.

before: %now = WHERE(i1 < P, cache, k) : fp32[H, P + 1, D]
        %new = WHERE(i1 < P + 1, %now, cache) : fp32[H, L, D]      of the state cache
        %y reads %now[i0, i1, i2]
after:  %new = k : fp32[H, 1, D], written at [0, P, 0] of the memory of cache
        %y reads %new[i0, i1, i2], from that memory

What an element of the new value is, is followed through movements and choices by place (`WHERE` of a comparison of
IOTAs and sizes). isl says for which elements it is the old value of this very element, and what the others are. These
must be a box, and all of one value.

A scatter that other movements put in another order of axes is one along the state's own axis:

before: %s = SCATTER(PERMUTE(cache), at, PERMUTE(k)) {axis=0}, %new = PERMUTE(%s)
after:  %new = SCATTER(cache, at, k) {axis=1}
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ...ir.expr import ONE, ZERO, Expr
from ...ir.index import Access, Axis, Piece, Read
from ...ir.read import read_expr
from ...ir.scope import Scope
from ...ir.sets import as_affine, bound_text, domain_text, is_representable, read_set, symbol_params
from ...kit.records import dataclass, replace
from .graph import Graph, Node
from .write import moved

COMPARED = {"CMPLT": "<", "CMPEQ": "=", "CMPNE": "!="}
MOST_PIECES = 16  # of one new value
Index = tuple[Expr, ...]


def write_changed(graph: Graph, states: Collection[str], apart: Collection[str] = ()) -> Graph:
    """The graph with the new values of these states as what a run changes of them. Those that are `apart` are computed
    again for the state alone, where that takes one elementwise op."""
    if graph.program.must_fuse:
        return graph  # its values are to stay as they are
    value_of = {output: value for value, outputs in graph.results.items() for output in outputs}
    for state, output in graph.program.model.states().items():
        if state in states and value_of[output] in graph.nodes:
            graph = _along_own_axis(graph, value_of[output])
            if value_of[output] not in graph.nodes:
                continue
            graph = _narrowed(graph, state, value_of[output])
            graph = _apart(graph, value_of[output], output) if state in apart else graph
    return graph


def _apart(graph: Graph, value: str, output: str) -> Graph:
    """The graph in which a new value is computed once more, for the state alone."""
    node = graph.nodes.get(value)
    if node is None or node.kind != "elementwise" or not graph.users.get(value):
        return graph
    name = _free(graph, f"{value}.state")
    nodes: dict[str, Node] = {}
    for known, one in graph.nodes.items():
        nodes[known] = one
        if known == value:
            nodes[name] = replace(node, value=replace(node.value, name=name))
    others = tuple(o for o in graph.results[value] if o != output)
    results = {n: outputs for n, outputs in graph.results.items() if n != value} | {name: (output,)}
    results |= {value: others} if others else {}
    return replace(graph, nodes=nodes, results=results, types={**graph.types, name: graph.types[value]})


def _free(graph: Graph, name: str) -> str:
    """A name that no value has."""
    while name in graph.types:
        name += "2"
    return name


# --- rows


@dataclass(frozen=True, slots=True)
class _Part:
    """Elements of a value, an isl set over its axes, and what they are: a tensor or value at an index; None where that
    is not followed."""

    where: Any
    source: str
    index: Index


class _Walk:
    """What the elements of a value are made of."""

    def __init__(self, graph: Graph, axes: tuple[Axis, ...]):
        self.graph = graph
        self.axes = {a.name: a.size for a in axes}
        self.parts: list[_Part] = []
        self.seen: list[_Part] = []  # values on the way
        self.params: dict[Expr, str] = dict(symbol_params(graph.program.model.symbols()))
        ranges = [(s, low, high) for s, low, high in graph.ranges()]
        self.given = [f"{low} <= {as_affine(Expr.of(s), self.params)} <= {high}" for s, low, high in ranges]
        self.symbols = tuple(str(as_affine(Expr.of(s), self.params)) for s, _, _ in ranges)

    def whole(self) -> Any:
        """All elements."""
        return self.set_of(domain_text(tuple(self.axes.items()), self.params) + self.given)

    def set_of(self, constraints: Iterable[str]) -> Any:
        """The elements for which constraints hold."""
        names = ", ".join(self.axes)
        text = f"{{ [{names}] : {' and '.join(constraints) or 'true'} }}"
        return read_set(text, tuple(dict.fromkeys((*self.symbols, *self.params.values()))))

    def follow(self, name: str, index: Index, where: Any, state: str) -> bool:
        """Find the parts of a value at an index, where the index is wanted; False where there are too many."""
        if where.is_empty():
            return True
        node = self.graph.nodes.get(name)
        is_followed = node is not None and (node.kind == "movement" or node.value.op == "WHERE") and not node.extra
        if not is_followed or name in node.leaves:
            self.parts.append(_Part(where, name, index))
            return len(self.parts) <= MOST_PIECES
        self.seen.append(_Part(where, name, index))
        point = {a.name: e for a, e in zip(node.own, index)}
        if node.kind == "movement":
            return self._access(moved(node.reads[0], point), where, state)
        chosen = self._condition(moved(node.reads[0], point))
        if chosen is None:
            self.parts.append(_Part(where, name, index))
            return len(self.parts) <= MOST_PIECES
        return self._access(moved(node.reads[1], point), where.intersect(chosen), state) and self._access(
            moved(node.reads[2], point), where.subtract(chosen), state
        )

    def _access(self, access: Access, where: Any, state: str) -> bool:
        for piece in access.pieces:
            exprs = [e for b in piece.guard for e in (b.expr, b.lower, b.upper, b.equals) if e is not None]
            if not all(is_representable(e, self.axes) for e in exprs):
                return False
            here = where.intersect(self.set_of([bound_text(b, self.params) for b in piece.guard]))
            where = where.subtract(here)
            target = piece.target
            if not isinstance(target, Read):
                if not here.is_empty():
                    return False
            elif not self.follow(target.source, target.index, here, state):
                return False
        return True

    def _condition(self, access: Access) -> Any:
        """The elements for which a condition holds, or None where places alone do not say so."""
        if len(access.pieces) != 1 or not isinstance(target := access.pieces[0].target, Read):
            return None
        node = self.graph.nodes.get(target.source)
        if node is None or node.kind != "elementwise":
            return None
        point = {a.name: e for a, e in zip(node.own, target.index)}
        operands = [moved(a, point) for a in node.reads]
        if node.value.op in COMPARED:
            sides = [self._number(a) for a in operands]
            if None in sides or not all(is_representable(e, self.axes) for e in sides):
                return None
            left, right = (as_affine(e, self.params) for e in sides)
            return self.set_of([f"{left} {COMPARED[node.value.op]} {right}"])
        if node.value.op in ("AND", "OR", "NOT"):
            found = [self._condition(a) for a in operands]
            if any(one is None for one in found):
                return None
            if node.value.op == "NOT":
                return self.set_of([]).subtract(found[0])
            return found[0].intersect(found[1]) if node.value.op == "AND" else found[0].union(found[1])
        return None

    def _number(self, access: Access) -> Expr | None:
        """The integer that an access gives by the place alone."""
        if len(access.pieces) != 1 or not isinstance(target := access.pieces[0].target, Read):
            return None
        leaf = self.graph.leaves.get(target.source)
        if leaf is None or not leaf.type.dtype.is_integer:
            return None
        if leaf.op == "IOTA":
            return target.index[leaf.attr("axis") % leaf.type.rank]
        value = leaf.attr("value")
        if leaf.op != "CONST" or isinstance(value, tuple):
            return None
        return value if isinstance(value, Expr) else Expr.of(int(value))


def _narrowed(graph: Graph, state: str, value: str) -> Graph:
    """The graph with a new value as the rows that a run changes; the same where it changes all, or they are no box."""
    node = graph.nodes[value]
    if node.kind not in ("movement", "elementwise"):
        return graph
    walk = _Walk(graph, node.own)
    own = tuple(ZERO if a.size == ONE else Expr.of(a.name) for a in node.own)
    if not walk.follow(value, own, walk.whole(), state):
        return graph
    kept = [p for p in walk.parts if p.source == state and p.index == own]
    rest = [p for p in walk.parts if p not in kept]
    if not kept or len({(p.source, p.index) for p in rest}) != 1 or rest[0].source == value:
        return graph
    changed = rest[0].where
    for part in rest[1:]:
        changed = changed.union(part.where)
    box = _box_of(changed.coalesce(), walk)
    if box is None:
        return graph
    corner, sizes = box
    first = [p.source for p in walk.seen if p.source != value and _is_first_part(p, graph, walk)]
    return _with_rows(_reading(graph, value, first), node, corner, sizes, rest[0])


def _is_first_part(part: _Part, graph: Graph, walk: _Walk) -> bool:
    """Whether a value on the way is the first rows of the new value, which is in memory anyway."""
    node = graph.nodes[part.source]
    names = list(walk.axes)
    if graph.results_of(part.source) or len(node.own) != len(names):
        return False
    own = tuple(ZERO if walk.axes[n] == ONE else Expr.of(n) for n in names)
    if any(e != wanted and not (a.size == ONE and e == ZERO) for e, wanted, a in zip(part.index, own, node.own)):
        return False
    box = domain_text(tuple(zip(names, (a.size for a in node.own))), walk.params)
    return walk.set_of([*box, *walk.given]).is_subset(part.where)


def _reading(graph: Graph, value: str, first: Collection[str]) -> Graph:
    """The graph that reads the new value in the place of its first rows."""

    def put(piece: Piece) -> Piece:
        found = piece.target
        is_first = isinstance(found, Read) and found.source in first
        return Piece(piece.guard, Read(value, found.index)) if is_first else piece

    nodes = {
        name: replace(one, reads=tuple(Access(tuple(map(put, a.pieces))) for a in one.reads))
        if name != value and name not in first and {*one.sources} & {*first}
        else one
        for name, one in graph.nodes.items()
    }
    return replace(graph, nodes=nodes)


def _with_rows(graph: Graph, node: Node, corner: Index, sizes: Index, part: _Part) -> Graph:
    """The graph with a node that is the rows of these sizes from a corner on, which are part of a value."""
    value = node.name
    axes = tuple(replace(a, size=size) for a, size in zip(node.own, sizes))
    scope = Scope(tuple((a.name, a.size) for a in axes), graph.ranges())
    place = {a.name: c if a.size == ONE else Expr.of(a.name) + c for a, c in zip(axes, corner)}
    index = tuple(scope.simplify(e.substitute(place)) for e in part.index)
    rows = Node(
        replace(node.value, op="SHRINK", operands=(part.source,), attrs=(), type=replace(node.value.type, shape=sizes)),
        "movement",
        axes,
        (Access((Piece((), Read(part.source, index)),)),),
        frozenset((part.source,)) & frozenset(graph.leaves),
    )
    name = _free(graph, f"{value}.rows")
    rows = replace(rows, value=replace(rows.value, name=name))
    nodes = {name if n == value else n: rows if n == value else one for n, one in graph.nodes.items()}
    written = tuple(c if a.size == ONE else Expr.of(a.name) + c for a, c in zip(axes, corner))
    parts = {**graph.parts, name: (value, written)}
    results = dict(graph.results)
    results[name] = results.pop(value)
    types = {**graph.types, name: rows.value.type}
    return _needed(replace(graph, nodes=nodes, results=results, types=types, parts=parts))


def _needed(graph: Graph) -> Graph:
    """The graph without what nothing needs any more."""
    needed = set(graph.results)
    nodes = {}
    home = {value: name for name, (value, _) in graph.parts.items()}
    for name, node in reversed(graph.nodes.items()):
        if name in needed:
            nodes[name] = node
            needed |= {home.get(s, s) for s in node.sources} | {*node.sources}
    return replace(graph, nodes=dict(reversed(nodes.items())))


def _box_of(changed: Any, walk: _Walk) -> tuple[Index, Index] | None:
    """Where a box begins and how large it is, in terms of the symbols; None for a set that is none."""
    low, high = [], []
    for at in range(len(walk.axes)):
        bounds = [_expr_of(changed.dim_min(at), walk), _expr_of(changed.dim_max(at), walk)]
        if None in bounds:
            return None
        low.append(bounds[0])
        high.append(bounds[1])
    whole = [
        f"{as_affine(a, walk.params)} <= {name} <= {as_affine(b, walk.params)}"
        for name, a, b in zip(walk.axes, low, high)
    ]
    box = walk.set_of([*whole, *walk.given])
    # where no row is changed the box may be empty as well, and no larger than the whole
    if not changed.is_equal(box.intersect(walk.whole())) or not box.is_subset(walk.whole()):
        return None
    return tuple(low), tuple(b - a + ONE for a, b in zip(low, high))


def _expr_of(found: Any, walk: _Walk) -> Expr | None:
    """A piecewise affine expression of isl in terms of the symbols; None for one of several pieces."""
    found = found.gist(walk.set_of(walk.given).params()) if hasattr(found, "gist") else found
    pieces = found.coalesce().get_pieces()
    if len(pieces) != 1:
        return None
    shown = pieces[0][1].to_str()
    inside = shown[shown.rindex("[(") + 2 : shown.rindex(")]")]
    try:
        read = read_expr(inside)
    except Exception:  # a form that only isl has
        return None
    names = {name: symbol for symbol, name in walk.params.items()}
    return read.substitute({n: names[n] for n in read.names() if n in names})


# --- scatters


def _along_own_axis(graph: Graph, value: str) -> Graph:
    """The graph with a new value that is a scatter in another order of axes as one in its own, which others read as
    well."""
    node = graph.nodes[value]
    target = node.reads[0].pieces[0].target if node.kind == "movement" and len(node.reads[0].pieces) == 1 else None
    inner = graph.nodes.get(target.source) if isinstance(target, Read) else None
    if inner is None or inner.kind != "scatter" or graph.results_of(inner.name) or value in inner.sources:
        return graph
    place = {e.name: at for at, e in enumerate(target.index) if e.name is not None}
    if any(e.name is None and e != ZERO for e in target.index):
        return _through_reshapes(graph, node, target.index, inner)
    own = [a.name for a in node.own if a.size != ONE]
    along = inner.value.attr("axis") % inner.value.type.rank
    flat = all(a.size == ONE for at, a in enumerate(inner.own) if at not in place.values())
    if set(place) != set(own) or len(place) != len(own) or not flat or along not in place.values():
        return graph
    scatter = _in_axes_of(node, inner, place, along)

    def turned(piece: Piece) -> Piece:
        """A read of the scatter as one of the new value."""
        found = piece.target
        if not isinstance(found, Read) or found.source != inner.name:
            return piece
        index = tuple(found.index[place[a.name]] if a.name in place else ZERO for a in node.own)
        return Piece(piece.guard, Read(value, index))

    nodes: dict[str, Node] = {}
    for name, one in graph.nodes.items():
        if name == inner.name:
            nodes[value] = scatter
        elif name != value:
            is_reader = inner.name in one.sources
            reads = (Access(tuple(map(turned, access.pieces))) for access in one.reads)
            nodes[name] = replace(one, reads=tuple(reads)) if is_reader else one
    return replace(graph, nodes=nodes)


def _in_axes_of(node: Node, inner: Node, place: Mapping[str, int], along: int) -> Node:
    """The scatter `inner` as the value of `node`, whose axes are at `place` among its own; it goes along the axis that
    is its axis `along`."""
    name_at = {at: name for name, at in place.items()}
    apart = {a.name: Expr.of(f"{a.name}_") for a in inner.own}  # the axes of both are i0, i1, ...
    here = {f"{a.name}_": Expr.of(name_at[at]) if at in name_at else ZERO for at, a in enumerate(inner.own)}
    reads = tuple(moved(moved(a, apart), here) for a in inner.reads)
    axis = [a.name for a in node.own].index(name_at[along])
    attrs = tuple((k, axis if k == "axis" else v) for k, v in inner.value.attrs)
    made = replace(inner.value, name=node.name, attrs=attrs, type=node.value.type, origin=node.value.origin)
    return Node(made, "scatter", (*node.own, *inner.extra), reads, inner.leaves)


def _through_reshapes(graph: Graph, node: Node, index: Index, inner: Node) -> Graph:
    """The graph with a new value that is a scatter in another shape, as that scatter, which is written at the index
    that its element has in the new value; others read that."""
    back = _inverse(index, node.own, inner.own)
    if back is None:
        return graph
    value, place = node.name, tuple(back[a.name] for a in node.own)

    def turned(one: Node) -> Node:
        """A reader of the scatter as one of the new value."""
        scope = Scope(tuple((a.name, a.size) for a in one.axes), graph.ranges())

        def put(piece: Piece) -> Piece:
            found = piece.target
            if not isinstance(found, Read) or found.source != inner.name:
                return piece
            here = dict(zip((a.name for a in inner.own), found.index))
            apart = {name: Expr.of(f"{name}_") for name in here}  # the axes of both are i0, i1, ...
            there = {f"{name}_": e for name, e in here.items()}
            moved_to = (scope.simplify(e.substitute(apart).substitute(there)) for e in place)
            return Piece(piece.guard, Read(value, tuple(moved_to)))

        return replace(one, reads=tuple(Access(tuple(map(put, a.pieces))) for a in one.reads))

    nodes = {
        name: turned(one) if inner.name in one.sources else one for name, one in graph.nodes.items() if name != value
    }
    results = {n: o for n, o in graph.results.items() if n != value} | {inner.name: graph.results[value]}
    return replace(graph, nodes=nodes, results=results, parts={**graph.parts, inner.name: (value, place)})


def _inverse(index: Index, axes: tuple[Axis, ...], inner: tuple[Axis, ...]) -> dict[str, Expr] | None:
    """Each of the axes in terms of the inner ones, each of which is a number with some of the axes as its digits; None
    where the index is not so."""
    size_of = {a.name: a.size for a in axes}
    found = {a.name: ZERO for a in axes if a.size == ONE}
    for whole, e in zip(inner, index):
        strides: dict[str, Expr] = {}
        for coefficient, monomial in e.terms:
            names = [m for m in monomial if isinstance(m, str) and m in size_of]
            if len(names) != 1:
                return None
            rest = list(monomial)
            rest.remove(names[0])
            strides[names[0]] = strides.get(names[0], ZERO) + Expr(((coefficient, tuple(rest)),))
        number, step = Expr.of(whole.name), ONE
        while strides:
            name = next((n for n, stride in strides.items() if stride == step), None)
            if name is None or name in found:
                return None
            del strides[name]
            wider = step * size_of[name]
            digit = number // step
            found[name] = digit - size_of[name] * (number // wider) if strides else digit
            step = wider
        if step != whole.size:
            return None
    return found if len(found) == len(axes) else None
