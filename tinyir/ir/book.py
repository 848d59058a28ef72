"""The verifier of index text: one function an invariant, in the order that `ir.index.check` lists them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from ..kit import work
from ..kit.diag import Diag
from ..kit.phrase import Phrase
from .reshape import split
from .scope import Scope
from .sets import is_representable

MANY = 8  # pieces of one access beyond which W2101 is given


def check_book(module: Any) -> list[Diag]:
    """Invariants 2 to 10 of `ir.index.check`. Entries that do not fit their value are not looked at further."""
    faults = [*check_symbols(module.tiny), *_check_entries(module)]
    if faults:
        return faults
    types = module.tiny.type_of()
    symbols = frozenset(module.tiny.model.symbols())
    ranges = module.ranges()
    faultless: set[Hashable] = set()  # values that are the same but for names are checked once
    for value, entry in zip(module.tiny.values, module.entries):
        likeness = _likeness(value, entry, types)
        if likeness in faultless:
            continue
        work.count("values checked")
        found = [*_check_axes(value, entry), *_check_names(value, entry, symbols), *_check_reads(value, entry, types)]
        found = found or [*_check_affine(value, entry)]
        found = found or [*_check_bounds(value, entry, types, ranges)]
        found += _check_pieces(value, entry)
        faultless |= set() if found else {likeness}
        faults += found
    return faults


def _likeness(value: Any, entry: Any, types: dict[str, Any]) -> Hashable:
    """What values and their entries have in common that are the same but for names: a source by its place among the
    operands, and by its type."""
    number = {name: at for at, name in enumerate(value.operands)}

    def bare(accesses: Iterable[Any]) -> Hashable:
        return tuple(
            tuple(
                [
                    (p.guard, number.get(p.target.source), types.get(p.target.source), p.target.index)
                    if hasattr(p.target, "source")
                    else (p.guard, repr(p.target))
                    for p in access.pieces
                ]
            )
            for access in accesses
        )

    reads = bare(entry.reads)
    sources = reads if entry.sources is entry.reads else bare(entry.sources)
    return value.op, value.type, len(value.operands), len(number), entry.axes, entry.flags, reads, sources


def check_symbols(program: Any) -> Iterator[Diag]:
    """The symbols of a tiny module: none is called as an axis is, and types name the signature's only (E1208,
    E1304)."""
    symbols = program.model.symbols()
    for symbol in symbols:
        if re.fullmatch(r"[iko]\d+", symbol):
            yield Diag("E1208", symbol, {"symbol": symbol})
    for value in program.values:
        for size in value.type.shape:
            for name in dict.fromkeys(size.names()):
                if name not in symbols:
                    facts = {
                        "left": Phrase("{size} in {type}", size=size, type=value.type),
                        "right": Phrase("a size made of {symbols}", symbols=", ".join(symbols) or Phrase("no symbol")),
                    }
                    yield Diag("E1304", value.name, facts, value.span)


def _check_entries(module: Any) -> Iterator[Diag]:
    values = {v.name: v for v in module.tiny.values}
    entries = [e.value for e in module.entries]
    counts = Counter(entries)
    for name, count in counts.items():
        if name not in values:
            yield Diag(
                "E1201", name, {"fault": Phrase("%{name} has an entry but is not a value of the program", name=name)}
            )
        elif count > 1:
            yield Diag(
                "E1201",
                name,
                {"fault": Phrase("%{name} has {count} entries", name=name, count=count)},
                values[name].span,
            )
    for name, value in values.items():
        if name not in counts:
            yield Diag("E1201", name, {"fault": Phrase("%{name} has no entry", name=name)}, value.span)
    if sorted(entries) == sorted(values) and entries != list(values):
        name = next(a for a, b in zip(entries, values) if a != b)
        yield Diag(
            "E1201",
            name,
            {"fault": Phrase("%{name} is out of the order of the program", name=name)},
            values[name].span,
        )


def _check_axes(value: Any, entry: Any) -> Iterator[Diag]:
    own = [a for a in entry.axes if a.kind in ("iter", "broadcast")]
    rest = [a for a in entry.axes if a.kind in ("reduce", "indirect")]
    fault = ""
    if len(own) + len(rest) != len(entry.axes):
        odd = next(a for a in entry.axes if a not in own and a not in rest)
        fault = Phrase("{kind} is not a kind of axis", kind=odd.kind)
    elif [a.name for a in own] != [f"i{n}" for n in range(len(own))] or [a.name for a in rest] != [
        f"k{n}" for n in range(len(rest))
    ]:
        fault = Phrase("the axes are not called i0, i1, ... | k0, k1, ...")
    elif len(own) != value.type.rank:
        fault = Phrase("there are {count} axes of its own but the value is {type}", count=len(own), type=value.type)
    for axis, size in () if fault else zip(own, value.type.shape):
        if axis.size != size:
            facts = {
                "left": f"{axis.name}: {axis.size}",
                "right": Phrase("{size} in {type}", size=size, type=value.type),
            }
            yield Diag("E1304", entry.value, facts, value.span)
    if fault:
        yield Diag("E1202", entry.value, {"fault": fault}, value.span)


def _check_names(value: Any, entry: Any, symbols: frozenset[str]) -> Iterator[Diag]:
    axes = {a.name for a in entry.axes}
    for axis in entry.axes:
        for name in dict.fromkeys(axis.size.names()):
            if name not in symbols:
                facts = {
                    "left": f"{axis.name}: {axis.size}",
                    "right": Phrase(
                        "a size made of {symbols}", symbols=", ".join(sorted(symbols)) or Phrase("no symbol")
                    ),
                }
                yield Diag("E1304", entry.value, facts, value.span)
    for name in dict.fromkeys(n for access in entry.reads + entry.sources for e in access.exprs() for n in e.names()):
        if name not in symbols and name not in axes:
            yield Diag(
                "E1205",
                entry.value,
                {"name": name, "known": ", ".join([*(a.name for a in entry.axes), *sorted(symbols)])},
                value.span,
            )


def _check_reads(value: Any, entry: Any, types: dict[str, Any]) -> Iterator[Diag]:
    def fault(text: str) -> Diag:
        return Diag("E1204", entry.value, {"fault": text}, value.span)

    if len(entry.reads) != len(value.operands) or len(entry.sources) != len(value.operands):
        yield fault(
            Phrase(
                "there are {count} reads and {count2} sources for {count3} operands",
                count=len(entry.reads),
                count2=len(entry.sources),
                count3=len(value.operands),
            )
        )
        return
    for word, accesses in (("reads", entry.reads), ("from", entry.sources)):
        for operand, access in zip(value.operands, accesses):
            for at, piece in enumerate(access.pieces):
                if (at == len(access.pieces) - 1) == bool(piece.guard):
                    yield fault(Phrase("the last piece of an access has no guard, and only the last"))
                source = getattr(piece.target, "source", None)
                if source is None:
                    continue
                if word == "reads" and source != operand:
                    yield fault(
                        Phrase("the step reads {source} where the operand is {operand}", source=source, operand=operand)
                    )
                elif source not in types:
                    yield fault(Phrase("{source} is neither a value nor an input", source=source))
                elif len(piece.target.index) != types[source].rank:
                    yield fault(
                        Phrase(
                            "{source} has {rank} axes but is read with {count}",
                            source=source,
                            rank=types[source].rank,
                            count=len(piece.target.index),
                        )
                    )


def _check_affine(value: Any, entry: Any) -> Iterator[Diag]:
    axes = {a.name: a.size for a in entry.axes}
    for access in entry.sources if entry.is_scop else ():
        for expr in access.exprs():
            if not is_representable(expr, axes):
                yield Diag("E1206", entry.value, {"expr": expr}, value.span)


def _check_bounds(
    value: Any, entry: Any, types: dict[str, Any], ranges: tuple[tuple[str, int, int], ...]
) -> Iterator[Diag]:
    scope = entry.scope(ranges)
    return check_bounds(
        value, entry.reads if entry.sources is entry.reads else entry.reads + entry.sources, types, scope
    )


def check_bounds(value: Any, accesses: Iterable[Any], types: dict[str, Any], scope: Scope) -> Iterator[Diag]:
    """Every read of the accesses stays inside its source at every point of the scope, under its guard (E1207)."""
    for access in accesses:
        for piece in access.pieces:
            if hasattr(piece.target, "source"):
                yield from _check_read(
                    value, scope.with_given(piece.guard), piece.target, types[piece.target.source].shape
                )


def _check_read(value: Any, scope: Scope, read: Any, shape: tuple[Any, ...]) -> Iterator[Diag]:
    outside = scope.outside(read.index, shape)
    if outside and not scope.is_empty() and not _is_reshape(value, scope, read, shape):
        for axis in outside:
            yield Diag(
                "E1207",
                value.name,
                {"source": read.source, "axis": axis, "index": read.index[axis], "size": shape[axis]},
                value.span,
            )


def _is_reshape(value: Any, scope: Scope, read: Any, shape: tuple[Any, ...]) -> bool:
    """Whether the read is what the value's RESHAPE means: a reshape stays inside, though isl cannot say so across
    symbols."""
    if value.op != "RESHAPE" or read.source != value.operands[0]:
        return False
    return read.index == tuple(scope.simplify(e) for e in split(shape, value.type.shape))


def _check_pieces(value: Any, entry: Any) -> Iterator[Diag]:
    for operand, access in zip(value.operands, entry.sources):
        if len(access.pieces) > MANY:
            yield Diag(
                "W2101", entry.value, {"operand": operand, "pieces": len(access.pieces), "most": MANY}, value.span
            )
