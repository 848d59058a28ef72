"""Translation validation of blocks: domains, accesses, roles and edges are what the book says, by isl and from the maps
alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..ir import poly
from ..ir.index import Access, Entry
from ..ir.ops import OPS
from ..ir.poly import Block
from ..ir.sets import read_map, read_set
from ..kit.diag import Diag
from .contraction import Contraction, find_contraction
from .relations import domain_of, may_read, read_of, write_of

ROLE_FIELDS = ("pattern", *poly.ROLES, "windows")


def validate_poly(module: poly.Module) -> list[Diag]:
    """A diagnostic (E1222) for each block or edge that is not what the book implies, with a point at which they
    differ."""
    return list(_Validation(module).faults())


class _Validation:
    def __init__(self, module: poly.Module):
        self.module = module
        self.names = poly.tuple_names(module.index.tiny)
        self.values = module.index.tiny.value_of()
        self.entries = module.index.entry_of()
        self.types = module.index.tiny.type_of()
        self.ranges = module.index.ranges()
        self.params = {p.means: p.name for p in module.params if p.means.name != p.name}

    def faults(self) -> Iterator[Diag]:
        for block in self.module.blocks:
            yield from self._faults_of(block, self.entries[block.name])
        yield from self._edges()

    def _said(self, block: str, what: str, point: str = "") -> Diag:
        return Diag("E1222", block, {"what": what, "point": point or "every point"}, self.values[block].span)

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
        yield from self._compare(block.name, "domain", domain, wanted)
        yield from self._compare(
            block.name,
            "write",
            self._map(block.write).intersect_domain(wanted),
            self._map(write_of(entry, name)).intersect_domain(wanted),
        )
        expected: dict[str, Any] = {}
        for source, text in self._reads(block, entry, contraction):
            relation = self._map(text).intersect_domain(wanted)
            expected[source] = expected[source].union(relation) if source in expected else relation
        given: dict[str, Any] = {}
        for read in block.reads:
            relation = self._map(read.relation).intersect_domain(wanted)
            given[read.source] = given[read.source].union(relation) if read.source in given else relation
        for source in dict.fromkeys([*expected, *given]):
            if source not in given or source not in expected:
                yield self._said(block.name, f"it {'does not read' if source in expected else 'reads'} {source}")
            else:
                yield from self._compare(block.name, f"read of {source}", given[source], expected[source])

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
            yield self._said(block.name, f"its kind is {block.kind}, but it is {'a' if found else 'no'} contraction")
        elif found is not None:
            for field in ROLE_FIELDS:
                if getattr(block, field) != getattr(found, field):
                    yield self._said(
                        block.name,
                        f"its {field} is {_shown(getattr(block, field))}, but the maps say "
                        f"{_shown(getattr(found, field))}",
                    )
        elif (block.kind == "opaque") == entry.is_scop or (
            block.kind == "movement" and not OPS[self.values[block.name].op].is_movement
        ):
            yield self._said(block.name, f"its kind is {block.kind}")

    def _edges(self) -> Iterator[Diag]:
        blocks = self.module.block_of()
        stated = {(e.source, e.target): e for e in self.module.edges if e.kind == "true"}
        for block in self.module.blocks:
            for source in dict.fromkeys(r.source for r in block.reads if r.source in blocks):
                edge = stated.get((source, block.name))
                wanted = self._dependence(blocks[source], block)
                if edge is None:
                    if not wanted.is_empty():
                        yield self._said(block.name, f"the edge from {source} is missing")
                else:
                    yield from self._compare(block.name, f"edge from {source}", self._map(edge.relation), wanted)

    def _dependence(self, writer: Block, reader: Block) -> Any:
        wrote = self._map(writer.write).intersect_domain(self._set(writer.domain))
        total = None
        for read in (r for r in reader.reads if r.source == writer.name):
            through = wrote.apply_range(self._map(read.relation).intersect_domain(self._set(reader.domain)).reverse())
            total = through if total is None else total.union(through)
        return total

    def _set(self, text: str) -> Any:
        return read_set(text, self._params())

    def _map(self, text: str) -> Any:
        return read_map(text, self._params())

    def _params(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*(p.name for p in self.module.params), *self.params.values()]))

    def _compare(self, block: str, what: str, given: Any, wanted: Any) -> Iterator[Diag]:
        import islpy as isl

        try:
            rests = (given.subtract(wanted), wanted.subtract(given))
        except isl.Error:  # an edited text has another number of axes
            yield self._said(block, f"its {what} is not the book's")
            return
        for rest in rests:
            if not rest.is_empty():
                points = rest.domain() if isinstance(rest, isl.Map) else rest
                yield self._said(block, f"its {what} is not the book's", _place(points))
                return


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


__all__ = ["validate_poly"]
