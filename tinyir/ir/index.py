"""IndexBook: where each element comes from. The tiny text as written, and a `book` with an entry for each value
(seed 001 section 4).

    book
      %gemm.ax       [i0: M, i1: N broadcast, i2: K]
        reads %gemm.a[i0, 0, i2]
        from  A[i0, i2]
      %gemm          [i0: M, i1: N | k0: K]
        reads %gemm.mul[i0, i1, k0]
      %pad           [i0: W + 2]
        reads X[i0 - 1] where 0 <= i0 - 1 < W else 0.0

An entry states the value's axes, then one access an operand: `reads` is the step to the operand itself, `from` the
composition of steps through movements to the nearest value that is computed, or input (left out where it is the same).
Axes left of the bar are the value's own, `i0, i1, ...`; right of it come those of its reads that the value no longer
has, `k0, k1, ...`: the reduced ones, and `indirect` ones, whose element a value chooses at run time (GATHER, SCATTER).
An axis is `broadcast` when its operand does not vary along it. The identity of an axis is the value's name and the
axis's name: `(gemm, i0)`.

The pieces of an access are tried in order and the last has no guard. Maps are affine with floors; there is no `%`: `a
mod b` is `a - b*floor(a/b)`. An entry whose composed map is not affine (a reshape across symbols) is `non_scop`: its
map is exact, but isl cannot hold it, composition ends there, and so does a region, unless a later movement undoes it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator
from typing import Any

from ..kit.diag import Diag, Refused, collecting, refuse, refuse_all
from ..kit.held import once
from ..kit.phrase import Phrase
from ..kit.records import dataclass
from ..kit.text import Grammar, body_of, header, is_count, is_word, token_span
from . import tiny
from .book import check_book
from .expr import Bound, Expr, show_guard
from .model import show_name
from .read import GRAMMAR as EXPR_GRAMMAR
from .read import expr_of, guard_of, name_of, read_at
from .scope import Scope
from .types import DType, number_of, show_number

STAGE = "index"
GRAMMAR = Grammar("index", ("index", "axes"))
SIGNED_WORDS = ("inf", "nan")
NUMBER_WORDS = ("true", "false", *SIGNED_WORDS)
Fills = tuple[DType, ...]  # the dtypes, one of which has a number that is read; none where they are not known


@dataclass(frozen=True, slots=True, keeps_hash=True)
class Axis:
    """One axis of an entry. `kind` is iter, broadcast, reduce or indirect; the last two are right of the bar."""

    name: str
    size: Expr
    kind: str = "iter"


@dataclass(frozen=True, slots=True)
class Read:
    """An element of `source` (a value or an input): one Expr over the entry's axes for each of its axes."""

    source: str
    index: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Fill:
    """A constant in place of an element: what a PAD or VALID gives outside."""

    value: float | int | bool


@dataclass(frozen=True, slots=True)
class Piece:
    """`target where guard`; an empty guard always holds."""

    guard: tuple[Bound, ...]
    target: Read | Fill


@dataclass(frozen=True, slots=True)
class Access:
    """Where one operand's element comes from: the target of the first piece whose guard holds."""

    pieces: tuple[Piece, ...]

    @property
    def read(self) -> Read | None:
        """The Read, when the access is one read without a guard; None otherwise."""
        target = self.pieces[0].target
        return target if len(self.pieces) == 1 and isinstance(target, Read) else None

    @property
    def source(self) -> str | None:
        """What it reads; None when it is nothing but constants."""
        return next((p.target.source for p in self.pieces if isinstance(p.target, Read)), None)

    def exprs(self) -> Iterator[Expr]:
        """Every expression in it, guards included."""
        for piece in self.pieces:
            for bound in piece.guard:
                yield from (e for e in (bound.expr, bound.lower, bound.upper, bound.equals) if e is not None)
            if isinstance(piece.target, Read):
                yield from piece.target.index

    def at(self, point: dict[str, int]) -> tuple[str, tuple[int, ...]] | float | int | bool:
        """What it gives at one point (axes and symbols by name): `(source, indices)`, or a constant."""
        target = next(p.target for p in self.pieces if all(b.holds(point) for b in p.guard))
        return (
            (target.source, tuple(e.evaluate(point) for e in target.index))
            if isinstance(target, Read)
            else target.value
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """The book's word on one value. `reads` and `sources` have one Access an operand; flags: `non_scop`."""

    value: str
    axes: tuple[Axis, ...]
    reads: tuple[Access, ...] = ()
    sources: tuple[Access, ...] = ()
    flags: tuple[str, ...] = ()

    @property
    def own_axes(self) -> tuple[Axis, ...]:
        """The axes left of the bar: those of the value's shape."""
        return tuple(a for a in self.axes if a.kind not in ("reduce", "indirect"))

    @property
    def is_scop(self) -> bool:
        """False when its maps are not affine."""
        return "non_scop" not in self.flags

    @property
    def is_indirect(self) -> bool:
        """True when an element is chosen at run time by a value."""
        return any(a.kind == "indirect" for a in self.axes)

    def scope(self, ranges: tuple[tuple[str, int, int], ...]) -> Scope:
        """What holds at every point of the entry's domain, for symbols in `ranges`."""
        return Scope(tuple((a.name, a.size) for a in self.axes), ranges)


@dataclass(frozen=True, slots=True)
class Module:
    """An index text: the tiny module and the book, one entry a value, in the same order."""

    tiny: tiny.Module
    entries: tuple[Entry, ...]

    def entry_of(self) -> dict[str, Entry]:
        """Every entry by the name of its value."""
        return {e.value: e for e in self.entries}

    def ranges(self) -> tuple[tuple[str, int, int], ...]:
        """(symbol, low, high) for every symbol of the signature, bounds included."""
        bounds = (self.tiny.model.range_of(s) for s in self.tiny.model.symbols())
        return tuple((r.symbol, r.low, r.high) for r in bounds)


def parse(text: str) -> Module:
    """The Module of an index text. Raises Refused (E00xx text, E01xx words, E1203 a `%` in a map)."""
    body_of(text, STAGE)
    return module_of(GRAMMAR.parse(text, "index").children[1:], text)


def module_of(parts: list[Any], whole: str) -> Module:
    """The Module of the trees of rules `program` and `book`; `whole` is the text that the spans speak of."""
    program = tiny.program_of(parts[0], whole)
    dtypes = {name: t.dtype for name, t in program.type_of().items()}
    values = program.value_of()
    faults: list[Diag] = []
    entries = []
    for tree in parts[1].children:
        with collecting(faults):
            entries.append(_entry_of(tree, whole, dtypes, values))
    refuse_all(faults)
    return Module(program, tuple(entries))


def _entry_of(tree: Any, whole: str, dtypes: dict[str, DType], values: dict[str, tiny.Value]) -> Entry:
    value, bracket, *rest = tree.children
    name = name_of(value)
    flags = tuple(str(t) for t in rest if not hasattr(t, "data"))
    stated = {t.data: t.children for t in rest if hasattr(t, "data")}
    made = values.get(name)
    kinds = [_dtypes_of_fills(made, dtypes.get(o)) for o in made.operands] if made is not None else []
    reads = _accesses_of(stated.get("reads", ()), whole, kinds)
    sources = _accesses_of(stated["sources"], whole, kinds) if "sources" in stated else reads
    return Entry(name, read_at(read_axes, bracket, whole), reads, sources, flags)


def _dtypes_of_fills(value: tiny.Value, dtype: DType | None) -> Fills:
    """What a number that is read in the place of an element of `dtype` may be: a value of that, or, where a SCAN has
    nothing before a place, the neutral element of its own dtype."""
    if dtype is None:
        return ()
    return (dtype, value.attr("dtype")) if value.op == "SCAN" else (dtype,)


def _accesses_of(trees: Iterable[Any], whole: str, fills: list[Fills]) -> tuple[Access, ...]:
    return tuple(_access_of(t, whole, fills[at] if at < len(fills) else ()) for at, t in enumerate(trees))


def _access_of(tree: Any, whole: str, fills: Fills) -> Access:
    pieces = tree.children if tree.data == "pieces" else [tree]
    return Access(tuple(_piece_of(p, whole, fills) for p in pieces))


def _piece_of(tree: Any, whole: str, fills: Fills) -> Piece:
    if tree.data == "guarded":
        target, guard = tree.children
        return Piece(guard_of(guard), _target_of(target, whole, fills))
    return Piece((), _target_of(tree, whole, fills))


def _target_of(tree: Any, whole: str, fills: Fills) -> Read | Fill:
    if tree.data == "read":
        source, bracket = tree.children
        return Read(
            name_of(source.children[0] if hasattr(source, "children") else source), read_at(read_index, bracket, whole)
        )
    token = tree.children[0]
    if token.type == "NAME" and token not in (SIGNED_WORDS if tree.data == "negative" else NUMBER_WORDS):
        expected = Phrase("a number, or the bracket of a read behind a name")
        raise refuse("E0002", hint="", found=str(token), expected=expected, span=token_span(token))
    try:
        return Fill(_number_of(str(token), -1 if tree.data == "negative" else 1, fills))
    except Refused as fault:
        raise Refused([Diag(d.code, d.at, d.facts, token_span(token)) for d in fault.diags]) from None


def _number_of(word: str, sign: int, dtypes: Fills) -> float | int | bool:
    if word in ("true", "false"):
        return word == "true"
    value = sign * (int(word) if word.isdecimal() else float(word))
    for dtype in dtypes[:-1]:
        with contextlib.suppress(Refused):
            return number_of(dtype, value)
    return number_of(dtypes[-1], value) if dtypes else value


@functools.lru_cache(maxsize=65536)
def read_axes(text: str) -> tuple[Axis, ...]:
    """The axes that `[i0: M, i1: 1 | k0: K]` spells. Raises Refused (E0002)."""
    tree = GRAMMAR.parse(text[1:-1], "axes", offset=1, whole=text)
    left = [_axis_of(a, "iter") for a in tree.children if a is not None and a.data == "axis"]
    right = [
        _axis_of(a, "reduce") for bar in tree.children if bar is not None and bar.data == "bar" for a in bar.children
    ]
    return (*left, *right)


def _axis_of(tree: Any, kind: str) -> Axis:
    name, size, word = tree.children
    return Axis(str(name), expr_of(size), str(word) if word is not None else kind)


@functools.lru_cache(maxsize=65536)
def read_index(text: str) -> tuple[Expr, ...]:
    """The index that `[i0, 2*i1 - 1]` spells. Raises Refused (E0002, E1203)."""
    inside = text[1:-1]
    words = [w.strip() for w in inside.split(",")] if inside.strip() else []
    if all(is_word(w) or is_count(w) for w in words):
        return tuple(Expr.of(int(w) if is_count(w) else w) for w in words)
    try:
        return tuple(
            expr_of(d) for d in EXPR_GRAMMAR.parse(inside, "dims", offset=1, whole=text).children if d is not None
        )
    except Refused as fault:
        if "%" in text:
            raise Refused([Diag("E1203", "", {"index": text}, d.span) for d in fault.diags]) from None
        raise


def show(module: Module) -> str:
    """The canonical text of a module."""
    return header(STAGE) + "\n" + show_book(module)


def show_book(module: Module) -> str:
    """The tiny program and the book, without the header; the poly text prints them too."""
    values = module.tiny.value_of()
    dtypes = {name: t.dtype for name, t in module.tiny.type_of().items()}
    lines = [tiny.show_program(module.tiny), "book"]
    for entry in module.entries:
        kinds = [dtypes.get(o) for o in values[entry.value].operands] if entry.value in values else []
        flags = "".join(f" {flag}" for flag in entry.flags)
        lines.append(f"  %{show_name(entry.value):<13} {show_axes(entry.axes)}{flags}")
        if entry.reads:
            lines.append(f"    reads {_show_accesses(entry.reads, kinds, values)}")
        if entry.sources != entry.reads:
            lines.append(f"    from  {_show_accesses(entry.sources, kinds, values)}")
    return "\n".join(lines) + "\n"


@functools.lru_cache(maxsize=65536)
def show_axes(axes: tuple[Axis, ...]) -> str:
    """The axes as text: `[i0: M, i1: N broadcast | k0: K]`."""
    own = ", ".join(
        f"{a.name}: {a.size}{' broadcast' if a.kind == 'broadcast' else ''}"
        for a in axes
        if a.kind in ("iter", "broadcast")
    )
    rest = ", ".join(
        f"{a.name}: {a.size}{' indirect' if a.kind == 'indirect' else ''}"
        for a in axes
        if a.kind in ("reduce", "indirect")
    )
    return f"[{own}{' ' if own and rest else ''}{'| ' + rest if rest else ''}]"


def _show_accesses(accesses: tuple[Access, ...], dtypes: list[DType | None], values: Iterable[str]) -> str:
    return ", ".join(show_access(a, dtypes[at] if at < len(dtypes) else None, values) for at, a in enumerate(accesses))


def show_access(access: Access, dtype: DType | None, values: Iterable[str]) -> str:
    """One access as text; `values` are the names that are written with a `%`."""
    return " else ".join(_show_piece(p, dtype, values) for p in access.pieces)


def _show_piece(piece: Piece, dtype: DType | None, values: Iterable[str]) -> str:
    where = f" where {show_guard(piece.guard)}" if piece.guard else ""
    if isinstance(piece.target, Fill):
        return f"{show_number(piece.target.value, dtype)}{where}"
    return f"{tiny.show_ref(piece.target.source, values)}{show_index(piece.target.index)}{where}"


@functools.lru_cache(maxsize=65536)
def show_index(index: tuple[Expr, ...]) -> str:
    """An index as text: `[i0, 2*i1 - 1]`."""
    return f"[{', '.join(map(str, index))}]"


@once
def check(module: Module) -> list[Diag]:
    """Invariants of index text, one function each in `ir.book`, in this order:

    1. the tiny text holds its own invariants                                                           (E0xxx, E1xxx)
    2. no symbol is called as an axis is                                                                (E1208)
    3. the book has one entry a value, in the same order                                                (E1201)
    4. own axes are i0, i1, ..., then k0, k1, ... of kind reduce or indirect                            (E1202); own
       ones have the sizes of the value's type                                                          (E1304)
    5. sizes and maps name the signature's symbols and the entry's axes only                            (E1304, E1205)
    6. there is one access an operand; a step reads that operand, and an index has its rank             (E1204)
    7. the last piece of an access has no guard, and only the last                                      (E1204)
    8. composed maps are affine with positive divisors unless the entry is `non_scop`                   (E1206)
    9. at every point of the domain a read stays inside its source, under its guard                     (E1207)
    10. an access has few pieces                                                                        (W2101)
    """
    faults = tiny.check(module.tiny)
    return faults if any(d.is_error for d in faults) else [*faults, *check_book(module)]
