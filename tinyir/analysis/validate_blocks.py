"""Translation validation of blocks: domains, accesses, roles and edges are what the book says, by isl and from the maps
alone. Three instances of a block are asked as well, the first, the last and one between at small sizes, in a way that
shares nothing with the lowering: what its relations hold there is what the book's maps give (`_Instances`)."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from ..ir import poly
from ..ir.blocks import tuple_names
from ..ir.index import Access, Entry
from ..ir.ops import OPS
from ..ir.poly import Block
from ..ir.sets import read_map, read_set
from ..kit.diag import Diag
from ..kit.groups import lists_of
from ..kit.phrase import Phrase
from ..kit.span import Span
from .contraction import Contraction, find_contraction
from .relations import domain_of, may_read, read_of, write_of

Ends = tuple[str, str, str]  # source, target and kind of an edge
SIZES = (5, 7, 6, 9)  # of the symbols in turn
MOST_ASKED = 96  # blocks of a text of which instances are asked
ROLE_FIELDS = ("pattern", *poly.ROLES, "windows")


def validate_poly(module: poly.Module, made: poly.Module | None = None) -> list[Diag]:
    """A diagnostic (E1222) for each block or edge that is missing or is not what the book implies, with a point at
    which they differ. `made` is what the lowering makes of the same book: blocks and edges that are its own are not
    looked at further."""
    found = list(_Validation(module, made).faults())
    return found if found or made is not None and made.blocks == module.blocks else confirm_poly(module)


def confirm_poly(module: poly.Module) -> list[Diag]:
    """A diagnostic (E1222) for each block of which one of three instances at small sizes is another one or
    reads or writes something else than the maps of the book give there. Blocks that differ in names alone are asked
    once, and MOST_ASKED of a text."""
    return list(_Instances(module).faults())


class _Validation:
    def __init__(self, module: poly.Module, made: poly.Module | None):
        self.module = module
        self.names = tuple_names(module.index.tiny)
        self.values = module.index.tiny.value_of()
        self.blocks = module.block_of()
        self.entries = module.index.entry_of()
        self.types = module.index.tiny.type_of()
        self.ranges = module.index.ranges()
        self.params = {p.means: p.name for p in module.params if p.means.name != p.name}
        is_comparable = made is not None and made.params == module.params
        self.made_blocks = frozenset(made.blocks if is_comparable else ())
        self.made_edges = frozenset(made.edges if is_comparable else ())

    def faults(self) -> Iterator[Diag]:
        if self.made_blocks == {*self.module.blocks} and self.made_edges == {*self.module.edges}:
            return
        blocks = self.blocks
        for block in self.module.blocks:
            if block not in self.made_blocks:
                yield from self._faults_of(block, self.entries[block.name])
            for source in dict.fromkeys([r.source for r in block.reads]):
                if source not in blocks and self._is_computed(source):
                    yield self._said(block.name, Phrase("it reads {source}, which has no block", source=source))
        yield from self._unread(blocks)
        yield from self._edges(blocks)

    def _is_computed(self, name: str) -> bool:
        return name in self.values and OPS[self.values[name].op].group != "leaf"

    def _unread(self, blocks: dict[str, Block]) -> Iterator[Diag]:
        """Blocks that no result and no block needs."""
        needed = {r.value for r in self.module.index.tiny.results} | {
            r.source for b in blocks.values() for r in b.reads
        }
        for name in blocks:
            if name not in needed:
                yield self._said(name, Phrase("no result and no block needs it"))

    def _said(self, block: str, what: str, point: str = "", span: Span | None = None) -> Diag:
        span = span or self.blocks[block].span or self.values[block].span
        return Diag("E1222", block, {"what": what, "point": point or Phrase("every point")}, span)

    def _faults_of(self, block: Block, entry: Entry) -> Iterator[Diag]:
        name = self.names[block.name]
        found = (
            find_contraction(self.values[block.name], self.entries, self.values, self.ranges)
            if self.values[block.name].op == "REDUCE"
            else None
        )
        contraction = found if isinstance(found, Contraction) else None
        yield from self._kind(block, entry, contraction)
        domain, wanted = self._set(block.domain), self._set(domain_of(entry, name, self.params))
        yield from self._compare(block.name, "domain", domain, wanted, block.place_of("domain"))
        yield from self._compare(
            block.name,
            "write",
            self._map(block.write).intersect_domain(wanted),
            self._map(write_of(entry, name)).intersect_domain(wanted),
            block.place_of("write"),
        )
        expected: dict[str, Any] = {}
        for source, text in self._reads(block, entry, contraction):
            relation = self._map(text).intersect_domain(wanted)
            expected[source] = expected[source].union(relation) if source in expected else relation
        given: dict[str, Any] = {}
        for read in block.reads:
            relation = self._map(read.relation).intersect_domain(wanted)
            given[read.source] = given[read.source].union(relation) if read.source in given else relation
        places = {read.source: read.span for read in block.reads[::-1]}
        for source in dict.fromkeys([*expected, *given]):
            if source not in given or source not in expected:
                yield self._said(
                    block.name,
                    Phrase("it does not read {source}", source=source)
                    if source in expected
                    else Phrase("it reads {source}", source=source),
                    span=places.get(source),
                )
            else:
                what = Phrase("read of {source}", source=source)
                yield from self._compare(block.name, what, given[source], expected[source], places[source])

    def _reads(self, block: Block, entry: Entry, contraction: Contraction | None) -> Iterator[tuple[str, str]]:
        name = self.names[block.name]
        if not entry.is_scop:
            for operand in self.values[block.name].operands:
                yield operand, may_read(entry, self.types[operand].shape, self.names[operand], name, self.params)
            return
        accesses: tuple[Access, ...] = (
            contraction.factors if contraction and block.kind == "contraction" else entry.sources
        )
        for access in accesses:
            if access.source is not None:
                yield access.source, read_of(entry, access, self.names[access.source], name, self.params)

    def _kind(self, block: Block, entry: Entry, found: Contraction | None) -> Iterator[Diag]:
        if (block.kind == "contraction") != (found is not None):
            told = (
                Phrase("its kind is {kind}, but it is a contraction", kind=block.kind)
                if found
                else Phrase("its kind is {kind}, but it is not a contraction", kind=block.kind)
            )
            yield self._said(block.name, told)
            return
        if found is None:
            kind = self._kind_of(block.name, entry)
            if block.kind != kind:
                yield self._said(
                    block.name, Phrase("its kind is {kind}, but the op makes it {kind2}", kind=block.kind, kind2=kind)
                )
            return
        fuses = () if found.product in self.module.block_of() else (found.product,)
        for field, right in (*((field, getattr(found, field)) for field in ROLE_FIELDS), ("fuses", fuses)):
            given = getattr(block, field)
            if given != right:
                yield self._said(
                    block.name,
                    Phrase(
                        "its {field} is {given}, but the maps say {right}",
                        field=field,
                        given=_shown(given),
                        right=_shown(right),
                    ),
                    span=block.place_of("roles" if field in poly.ROLES else field),
                )

    def _kind_of(self, name: str, entry: Entry) -> str:
        """The kind of the block of a value that is not a contraction."""
        op = self.values[name].op
        kinds = {"reduce": "reduction", "movement": "movement", "indirect": op.lower()}
        return kinds.get(OPS[op].group, "elementwise") if entry.is_scop else "opaque"

    def _edges(self, blocks: dict[str, Block]) -> Iterator[Diag]:
        stated = lists_of(((edge.source, edge.target, edge.kind), edge) for edge in self.module.edges)
        wanted: dict[Ends, Any] = {}
        for ends, relation in self._dependences(blocks):
            wanted[ends] = wanted[ends].union(relation) if ends in wanted else relation
        for (source, target, kind), relation in wanted.items():
            given = stated.pop((source, target, kind), [])
            if not given and not relation.is_empty():
                yield self._said(target, Phrase("the {kind} edge from {source} is missing", kind=kind, source=source))
            elif not self.made_edges.issuperset(given):
                together = functools.reduce(lambda a, b: a.union(b), (self._map(e.relation) for e in given))
                what = Phrase("{kind} edge from {source}", kind=kind, source=source)
                yield from self._compare(target, what, together, relation, given[0].span if given else None)
        for (source, target, kind), edges in stated.items():
            what = Phrase("there is no {kind} dependence on {source}", kind=kind, source=source)
            yield self._said(target, what, span=edges[0].span)

    def _dependences(self, blocks: dict[str, Block]) -> Iterator[tuple[Ends, Any]]:
        """(source, target, kind) of each dependence, with its relation: of a reader on the writer, and of what writes
        a state on what reads its old value."""
        for block in blocks.values():
            for source in dict.fromkeys(r.source for r in block.reads if r.source in blocks):
                relation = self._dependence(blocks[source], block, source)
                if relation is not None:
                    yield (source, block.name, "true"), relation
        state_of = {output: state for state, output in self.module.index.tiny.model.states().items()}
        for result in self.module.index.tiny.results:
            state, writer = state_of.get(result.output), blocks.get(result.value)
            if state is None or writer is None:
                continue
            for block in blocks.values():
                if block is not writer and any(r.source == state for r in block.reads):
                    relation = self._dependence(writer, block, state)
                    if relation is not None:
                        yield (block.name, writer.name, "anti"), relation.reverse()

    def _dependence(self, writer: Block, reader: Block, source: str) -> Any:
        """From the instances that write an element to those that read it as one of `source`, the written value or the
        state that is kept in it; None where an edited text reads nothing of it."""
        import islpy as isl

        wrote = self._map(writer.write).intersect_domain(self._set(writer.domain))
        total: Any = None
        for read in (r for r in reader.reads if r.source == source):
            seen = self._map(read.relation).intersect_domain(self._set(reader.domain))
            if source != writer.name:
                seen = seen.set_tuple_name(isl.dim_type.out, self.names[writer.name])
            through = wrote.apply_range(seen.reverse())
            total = through if total is None else total.union(through)
        return total

    def _set(self, text: str) -> Any:
        return read_set(text, self._params())

    def _map(self, text: str) -> Any:
        return read_map(text, self._params())

    def _params(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*(p.name for p in self.module.params), *self.params.values()]))

    def _compare(self, block: str, what: str, given: Any, wanted: Any, span: Span | None = None) -> Iterator[Diag]:
        import islpy as isl

        try:
            rests = (given.subtract(wanted), wanted.subtract(given))
        except isl.Error:  # an edited text has another number of axes
            yield self._said(block, Phrase("its {what} is not the book's", what=what), span=span)
            return
        for rest in rests:
            if not rest.is_empty():
                points = rest.domain() if isinstance(rest, isl.Map) else rest
                yield self._said(block, Phrase("its {what} is not the book's", what=what), self._place(points), span)
                return

    def _place(self, points: Any) -> str:
        """One of the points; where there are some, one at sizes that the symbols may have."""
        import islpy as isl

        allowed = points
        for symbol, low, high in self.ranges:
            if (at := points.find_dim_by_name(isl.dim_type.param, str(symbol))) >= 0:
                allowed = allowed.lower_bound_val(isl.dim_type.param, at, isl.Val(low))
                allowed = allowed.upper_bound_val(isl.dim_type.param, at, isl.Val(high))
        return _place(points if allowed.is_empty() else allowed)


class _Instances:
    """Instances of blocks and what they read and write, by isl from the text and by the maps of the book."""

    def __init__(self, module: poly.Module):
        self.module, self.values = module, module.index.tiny.value_of()
        self.entries, self.types = module.index.entry_of(), module.index.tiny.type_of()
        self.sizes = module.index.tiny.model.sizes_near(SIZES)
        self.params = tuple(p.name for p in module.params)
        self.asked: set[Any] = set()

    def faults(self) -> Iterator[Diag]:
        for block in self.module.blocks:
            entry = self.entries[block.name]
            likeness = entry.axes, tuple(a.pieces for a in entry.sources), block.domain.partition("[")[2]
            if entry.is_scop and likeness not in self.asked and len(self.asked) < MOST_ASKED:
                self.asked.add(likeness)
                yield from self._faults_of(block, entry)

    def _faults_of(self, block: Block, entry: Entry) -> Iterator[Diag]:
        domain = self._at_sizes(read_set(block.domain, self.params))
        spans = [axis.size.evaluate(self.sizes) for axis in entry.axes]
        if min(spans, default=1) < 1:
            return
        first, middle, last = [0] * len(spans), [n // 2 for n in spans], [n - 1 for n in spans]
        found = (domain.lexmin(), first), (_fixed(domain, middle), middle), (domain.lexmax(), last)
        for ends, point in found:
            if _elements(ends) != {tuple(point)}:
                yield self._said(block, Phrase("its {what} is not the book's", what="domain"), point)
                return
            env = {**self.sizes, **{axis.name: at for axis, at in zip(entry.axes, point)}}
            own = tuple(env[axis.name] for axis in entry.own_axes)
            if self._image(block.write, ends) != {own}:
                yield self._said(block, Phrase("its {what} is not the book's", what="write"), point)
            wanted = {found for at in range(len(entry.sources)) for found in self._read(block, block.name, at, env)}
            given = {(r.source, element) for r in block.reads for element in self._image(r.relation, ends)}
            for source, _ in sorted(wanted ^ given)[:1]:
                what = Phrase("read of {source}", source=source)
                yield self._said(block, Phrase("its {what} is not the book's", what=what), point)

    def _read(self, block: Block, name: str, operand: int, env: dict[str, int]) -> Iterator[tuple[str, Any]]:
        """What a value reads at a point; in the place of the product of a contraction what that reads."""
        found = self.entries[name].sources[operand].at(env)  # pyright: ignore - it reads alone
        if not isinstance(found, tuple):
            return
        source, element = found
        if block.kind != "contraction" or name != block.name:
            yield found
            return
        inner = self.entries[source]
        there = {**self.sizes, **{axis.name: at for axis, at in zip(inner.own_axes, element)}}
        for at in range(len(inner.sources)):
            yield from self._read(block, source, at, there)

    def _image(self, relation: str, points: Any) -> set[tuple[int, ...]]:
        return _elements(self._at_sizes(read_map(relation, self.params)).intersect_domain(points).range())

    def _at_sizes(self, found: Any) -> Any:
        """A set or map at the small sizes."""
        import islpy as isl

        for n, param in enumerate(self.module.params):
            found = found.fix_val(isl.dim_type.param, n, isl.Val(param.means.evaluate(self.sizes)))
        return found

    def _said(self, block: Block, what: Phrase, point: list[int]) -> Diag:
        place = ", ".join(f"{axis.name}={at}" for axis, at in zip(self.entries[block.name].axes, point))
        return Diag("E1222", block.name, {"what": what, "point": place}, block.span or self.values[block.name].span)


def _fixed(domain: Any, point: list[int]) -> Any:
    """One point of a set, or nothing."""
    import islpy as isl

    for n, at in enumerate(point[: domain.dim(isl.dim_type.set)]):
        domain = domain.fix_val(isl.dim_type.set, n, isl.Val(at))
    return domain


def _elements(points: Any) -> set[tuple[int, ...]]:
    """The points of a small set."""
    import islpy as isl

    found: set[tuple[int, ...]] = set()
    rank = points.dim(isl.dim_type.set)
    points.foreach_point(
        lambda p: found.add(tuple(p.get_coordinate_val(isl.dim_type.set, n).to_python() for n in range(rank)))
    )
    return found


def _place(points: Any) -> str:
    import islpy as isl

    sample = points.sample_point()
    return ", ".join(
        f"{points.get_dim_name(kind, n)}={sample.get_coordinate_val(kind, n)}"
        for kind in (isl.dim_type.param, isl.dim_type.set)
        for n in range(points.dim(kind))
        if points.get_dim_name(kind, n)
    )


def _shown(field: Any) -> str:
    if isinstance(field, tuple):
        return "[" + ", ".join(f"{w.source} {w.axis}: {w.index}" if hasattr(w, "axis") else str(w) for w in field) + "]"
    return str(field)
