"""Translation validation: the book says of every value what its op means, and the blocks say what the book does.

Both sides become isl relations over the value's instances and must be equal, for every size of the symbols. A composed
map is held against the composition of the ops' own relations down to the value that it ends at. Where a size is a
product of symbols, or a map is not affine, isl is asked at a few sizes instead (`TRIED`), and that is a test, not a
proof. An entry that is the one that the lowering makes needs no question: a text that nobody edited costs none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..ir import index, tiny
from ..ir.expr import ONE, Bound, Expr
from ..ir.index import Access, Axis, Entry, Read, show_axes
from ..ir.ops import OPS
from ..ir.sets import as_affine, bound_text, domain_text, is_representable, read_map, read_set, symbol_params
from ..ir.types import TensorType, show_number
from ..kit.diag import Diag
from ..kit.phrase import Phrase
from ..kit.records import dataclass
from .by_terms import is_read, is_through
from .meaning import Meaning, extra_axes, meanings_of

TRIED = ((2, 3, 5, 7), (3, 2, 2, 4), (1, 4, 3, 1))  # sizes given to the symbols in turn
Sizes = Mapping[str, int]


class NotAffine(Exception):
    """A relation that isl cannot hold for all sizes."""


@dataclass(slots=True)
class Denotation:
    """What one operand of a value is at each instance: an element of a source, or a constant (by its text)."""

    reads: dict[str, Any]
    fills: dict[str, Any]

    def then(self, operand: str, inner: Denotation) -> Denotation:
        """With the elements of `operand` replaced by what they are."""
        through = self.reads.get(operand)
        found = Denotation({s: m for s, m in self.reads.items() if s != operand}, dict(self.fills))
        if through is not None:
            for source, relation in inner.reads.items():
                _add(found.reads, source, through.apply_range(relation))
            for constant, points in inner.fills.items():
                _add(found.fills, constant, through.intersect_range(points).domain())
        return found


def _add(parts: dict[str, Any], key: str, part: Any) -> None:
    parts[key] = parts[key].union(part) if key in parts else part


def validate_index(module: index.Module, made: index.Module | None = None) -> list[Diag]:
    """A diagnostic for each axis that has another size or kind than the op gives it (E1304, E1223), and for each access
    of the book that is not what the program means, with a point at which they differ (E1221). `made` is the book that
    the lowering makes of the same program: entries that are its own are not looked at further."""
    return list(_Validation(module).faults({} if made is None else made.entry_of()))


class _Validation:
    def __init__(self, module: index.Module):
        self.module = module
        self.types = module.tiny.type_of()
        self.values = module.tiny.value_of()
        self.symbols = module.tiny.model.symbols()
        self.ranges = module.ranges()
        self.composed: dict[str, tuple[Entry, Access]] = {}  # movements that are right: where their elements come from
        self.right: set[Any] = set()  # what is asked of accesses that are right

    def faults(self, made: Mapping[str, Entry]) -> Iterator[Diag]:
        for value, entry in zip(self.module.tiny.values, self.module.entries):
            known = made.get(value.name)
            if known == entry:
                continue
            odd = list(self._axes(value, entry))
            yield from odd
            for at in () if odd else range(len(value.operands)):
                yield from self._faults_of(value, entry, at)
            if not odd and known is not None and known.flags != entry.flags:
                yield Diag("E1224", value.name, {"given": _flags(entry), "wanted": _flags(known)}, value.span)

    def _axes(self, value: tiny.Value, entry: Entry) -> Iterator[Diag]:
        """The first axis whose size (E1304) or kind (E1223) is not what the op of the value makes it."""
        wanted = self._axes_of(value)
        for given, right in zip(entry.axes, wanted):
            if given.size != right.size:
                facts = {"left": f"{given.name}: {given.size}", "right": f"{right.name}: {right.size} ({value.op})"}
                yield Diag("E1304", value.name, facts, value.span)
                return
        if entry.axes != wanted:
            facts = {"given": show_axes(entry.axes), "wanted": show_axes(wanted), "op": value.op}
            yield Diag("E1223", value.name, facts, value.span)

    def _axes_of(self, value: tiny.Value) -> tuple[Axis, ...]:
        """The axes of a value by its op: an own one is broadcast where an EXPAND or a VIEW reads the same element all
        along it; those right of the bar are of one kind."""
        operands = [self.types[o] for o in value.operands]
        still = frozenset[str]()
        if value.op in ("EXPAND", "VIEW"):
            (meaning,) = meanings_of(value, operands)
            ends = (e for b in meaning.constraints for e in (b.expr, b.lower, b.upper, b.equals) if e is not None)
            read = {name for e in ends for name in e.names()}
            still = frozenset(f"i{n}" for n, size in enumerate(value.type.shape) if f"i{n}" not in read and size != ONE)
        own = [
            Axis(f"i{n}", size, "broadcast" if f"i{n}" in still else "iter") for n, size in enumerate(value.type.shape)
        ]
        kind = "indirect" if value.op in ("GATHER", "SCATTER") else "reduce"
        return (*own, *(Axis(f"k{n}", size, kind) for n, size in enumerate(extra_axes(value, operands))))

    def _faults_of(self, value: tiny.Value, entry: Entry, at: int) -> Iterator[Diag]:
        for word, access in (("reads", entry.reads[at]), ("from", entry.sources[at])):
            if word == "from" and access == entry.reads[at]:
                continue
            point = self._difference(value, entry, access, at)
            if point is not None:
                yield Diag("E1221", value.name, {"word": word, "operand": value.operands[at], **point}, value.span)
                return
        if OPS[value.op].is_movement:
            self.composed[value.name] = entry, entry.sources[at]

    def _difference(self, value: tiny.Value, entry: Entry, access: Access, at: int) -> dict[str, Any] | None:
        """Where the access and the program differ: facts for the message, or None. What is asked of the layers of a
        network differs in names alone, and is asked once."""
        if self._is_as_it_is(value, access, at):
            return None
        asked = self._asked(value, entry, access, at)
        if asked not in self.right:
            found = None if self._is_by_terms(value, entry, access, at) else self._found(value, entry, access, at)
            if found is not None:
                return found
            self.right.add(asked)
        return None

    def _is_as_it_is(self, value: tiny.Value, access: Access, at: int) -> bool:
        """Whether the access of an elementwise op is its own point of an operand of its own shape."""
        read, operand = access.read, value.operands[at]
        return (
            read is not None
            and read.source == operand
            and OPS[value.op].is_elementwise
            and self.types[operand].shape == value.type.shape
            and read.index == tuple(Expr.of(f"i{n}") for n in range(value.type.rank))
        )

    def _is_by_terms(self, value: tiny.Value, entry: Entry, access: Access, at: int) -> bool:
        """Whether an access is right term by term: what the op reads, or that of the movement which it reads."""
        operand, operands = value.operands[at], [self.types[o] for o in value.operands]
        if access is entry.reads[at]:
            return is_read(access, operand, operands[at], meanings_of(value, operands)[at], entry.axes)
        _, below = self.composed.get(operand, (None, None))
        return below is not None and is_through(access, entry.reads[at], below, entry.axes)

    def _asked(self, value: tiny.Value, entry: Entry, access: Access, at: int) -> Any:
        """All that an answer depends on, without names of values."""
        chain, here = [(value, at)], value.operands[at]
        while here != access.source and here in self.values and OPS[self.values[here].op].is_movement:
            chain.append((self.values[here], 0))
            here = self.values[here].operands[0]
        steps = [(v.op, v.attrs, v.type, tuple(self.types[o] for o in v.operands), n) for v, n in chain]
        claimed = [
            (p.guard, p.target.index if isinstance(p.target, Read) else show_number(p.target.value))
            for p in access.pieces
        ]
        return entry.axes, tuple(steps), tuple(claimed), here == access.source

    def _found(self, value: tiny.Value, entry: Entry, access: Access, at: int) -> dict[str, Any] | None:
        try:
            found = self._compare(value, entry, access, at, None)
            if found is None or found["is_certain"]:
                return _without_certainty(found)
        except NotAffine:
            pass
        within = {name: (low, high) for name, low, high in self.ranges}
        for numbers in TRIED:
            sizes = {s: numbers[n % len(numbers)] for n, s in enumerate(self.symbols)}
            sizes |= {s: min(max(sizes[s], low), high) for s, (low, high) in within.items()}
            found = self._compare(value, entry, access, at, sizes)
            if found is not None:
                return _without_certainty(found)
        return None

    def _compare(
        self, value: tiny.Value, entry: Entry, access: Access, at: int, sizes: Sizes | None
    ) -> dict[str, Any] | None:
        space = _Space(self.symbols, self.ranges, sizes)
        claim = self._claim(entry, access, sizes, space)
        meant = self._meant(value, at, access.source, sizes, space)
        for mine, other in ((claim, meant), (meant, claim)):
            for parts, others in ((mine.reads, other.reads), (mine.fills, other.fills)):
                for key, part in parts.items():
                    rest = part.subtract(others[key]) if key in others else part
                    if not rest.is_empty():
                        return self._point(rest, meant, entry, access, space)
        return None

    def _point(self, rest: Any, meant: Denotation, entry: Entry, access: Access, space: _Space) -> dict[str, Any]:
        import islpy as isl

        points = rest.domain() if isinstance(rest, isl.Map) else rest
        sample = points.sample_point()
        place = space.place_of(sample, points)
        here = isl.Set.from_point(sample)
        program = Phrase("nothing")
        for source, relation in meant.reads.items():
            image = relation.intersect_domain(here).range()
            if not image.is_empty():
                element = image.sample_point()
                inside = [
                    str(element.get_coordinate_val(isl.dim_type.set, n)) for n in range(image.dim(isl.dim_type.set))
                ]
                program = f"{source}[{', '.join(inside)}]"
        for constant, where in meant.fills.items():
            if not where.intersect(here).is_empty():
                program = constant
        try:
            given = access.at(place)
            book = f"{given[0]}[{', '.join(map(str, given[1]))}]" if isinstance(given, tuple) else show_number(given)
        except (KeyError, ZeroDivisionError):
            book = Phrase("nothing")
        shown = ", ".join(
            f"{name}={number}"
            for name, number in place.items()
            if name in self.symbols or name in {a.name for a in entry.axes}
        )
        return {
            "point": shown or Phrase("its one point"),
            "book": book,
            "program": program,
            "is_certain": not space.has_made_params,
        }

    def _claim(self, entry: Entry, access: Access, sizes: Sizes | None, space: _Space | None = None) -> Denotation:
        """What the book says."""
        space = space or _Space(self.symbols, self.ranges, sizes)
        axes = tuple((a.name, a.size) for a in entry.axes)
        found = Denotation({}, {})
        earlier: list[tuple[Bound, ...]] = []
        for piece in access.pieces:
            if isinstance(piece.target, Read):
                there = [(f"o{n}", e) for n, e in enumerate(piece.target.index)]
                equal = tuple(Bound(Expr.of(o), equals=e) for o, e in there)
                _add(
                    found.reads, piece.target.source, space.relation(axes, len(there), (*piece.guard, *equal), earlier)
                )
            else:
                _add(found.fills, show_number(piece.target.value), space.points(axes, piece.guard, earlier))
            earlier.append(piece.guard)
        return found

    def _meant(self, value: tiny.Value, at: int, end: str | None, sizes: Sizes | None, space: _Space) -> Denotation:
        """What the program says, down to the value `end`."""
        found, here = self._step(value, at, space), value.operands[at]
        while here != end and here in self.values and OPS[self.values[here].op].is_movement:
            known = self._known(here, end) if sizes is None else None
            if known is not None:
                found, here = found.then(here, known[1]), known[0] or ""
            else:
                below = self.values[here]
                found, here = found.then(here, self._step(below, 0, space)), below.operands[0]
        return found

    def _known(self, name: str, end: str | None) -> tuple[str | None, Denotation] | None:
        """What a movement on the way is, as the book has it and was found right, where that ends where it shall."""
        entry, access = self.composed.get(name, (None, None))
        if entry is None or access is None or end is not None and access.source != end:
            return None
        try:
            return access.source, self._claim(entry, access, None)
        except NotAffine:
            return None

    def _step(self, value: tiny.Value, at: int, space: _Space) -> Denotation:
        operands = [self.types[o] for o in value.operands]
        meaning = meanings_of(value, operands)[at]
        axes = tuple((f"i{n}", size) for n, size in enumerate(value.type.shape))
        axes += tuple((f"k{n}", size) for n, size in enumerate(extra_axes(value, operands)))
        return self._denote(axes, value.operands[at], operands[at], meaning, space)

    def _denote(
        self, axes: tuple[tuple[str, Expr], ...], operand: str, shape: TensorType, meaning: Meaning, space: _Space
    ) -> Denotation:
        inside = tuple(Bound(Expr.of(f"o{n}"), Expr.of(0), size) for n, size in enumerate(shape.shape))
        reads = space.relation(axes, shape.rank, (*meaning.constraints, *inside), [])
        if meaning.fill is None:
            return Denotation({operand: reads}, {})
        return Denotation(
            {operand: reads}, {show_number(meaning.fill): space.points(axes, (), []).subtract(reads.domain())}
        )


def _flags(entry: Entry) -> str:
    return " ".join(entry.flags) or "affine"


def _without_certainty(found: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if found is None else {k: v for k, v in found.items() if k != "is_certain"}


class _Space:
    """The parameters of one comparison: the symbols within their ranges, or sizes in place of them."""

    def __init__(self, symbols: tuple[str, ...], ranges: tuple[tuple[str, int, int], ...], sizes: Sizes | None):
        self.sizes = sizes
        self.symbols = symbols
        self.ranges = ranges if sizes is None else ()
        self.params = symbol_params(symbols) if sizes is None else {}
        self.given = len(self.params)

    @property
    def has_made_params(self) -> bool:
        """True when a parameter is a product of symbols, so that isl knows less than is true."""
        return len(self.params) > self.given

    def relation(self, axes: Any, rank: int, guard: tuple[Bound, ...], earlier: list[tuple[Bound, ...]]) -> Any:
        """The isl map from instances to elements `o0, ...` under the guard and none of the earlier ones. Its tuples
        have no names, so that the layers of a network, which differ in names only, are one text, which isl reads
        once."""
        there = [f"o{n}" for n in range(rank)]
        return read_map(
            f"{{ [{', '.join(a for a, _ in axes)}] -> [{', '.join(there)}] : "
            f"{self._constraints(axes, there, guard, earlier)} }}",
            self._words(),
        )

    def points(self, axes: Any, guard: tuple[Bound, ...], earlier: list[tuple[Bound, ...]]) -> Any:
        """The isl set of instances under the guard and none of the earlier ones."""
        return read_set(
            f"{{ [{', '.join(a for a, _ in axes)}] : {self._constraints(axes, [], guard, earlier)} }}", self._words()
        )

    def _words(self) -> tuple[str, ...]:
        if self.sizes is not None:
            return ()
        return (*(s for s in self.symbols if Expr.of(s) not in self.params), *self.params.values())

    def _constraints(
        self, axes: Any, there: list[str], guard: tuple[Bound, ...], earlier: list[tuple[Bound, ...]]
    ) -> str:
        names = {**dict(axes), **dict.fromkeys(there, Expr.of(1))}
        parts = domain_text(tuple((a, self._put(e)) for a, e in axes), self.params)
        parts += [self._bound(b, names) for b in guard]
        parts += [f"not ({' and '.join(self._bound(b, names) for b in g) or 'true'})" for g in earlier]
        parts += [f"{low} <= {as_affine(Expr.of(s), self.params)} <= {high}" for s, low, high in self.ranges]
        return " and ".join(parts) or "true"

    def _put(self, expr: Expr) -> Expr:
        return expr if self.sizes is None else expr.substitute(self.sizes)

    def _bound(self, bound: Bound, names: Mapping[str, Expr]) -> str:
        put = bound if self.sizes is None else bound.substitute(self.sizes)
        for expr in (put.expr, put.lower, put.upper, put.equals):
            if expr is not None and not is_representable(expr, names):
                raise NotAffine
        return bound_text(put, self.params)

    def place_of(self, sample: Any, points: Any) -> dict[str, int]:
        """A point of isl's as symbols and axes by name."""
        import islpy as isl

        back = {name: str(means) for means, name in self.params.items()}
        place = dict(self.sizes or {})
        for kind in (isl.dim_type.param, isl.dim_type.set):
            for n in range(points.dim(kind)):
                name = points.get_dim_name(kind, n)
                place[back.get(name, name)] = int(str(sample.get_coordinate_val(kind, n)))
        return place
