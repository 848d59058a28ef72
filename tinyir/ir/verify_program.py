"""The verifier of a region program: names, memory and order, in the order that `ir.region.check` lists them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..kit.diag import Diag, Label
from ..kit.phrase import Listing, Phrase
from .expr import Expr
from .in_place import homes_of, owner_of
from .model import is_exchanged, memory_type
from .unknown import unknown_name

SIGNATURE = Phrase("the signature")
PLACES = ("gmem", "deferred")  # of a buffer: in memory, or on the chip between two regions


def check_program(module: Any) -> list[Diag]:
    """Invariants 2 to 4 of `ir.region.check`: names, memory, order."""
    return [*_check_names(module), *_check_must_fuse(module), *_check_memory(module), *_check_order(module)]


def twice(items: Any, at: str) -> Iterator[Diag]:
    """A fault for each item that has the name of an earlier one (E0201)."""
    first: dict[str, Any] = {}
    for item in items:
        if item.name in first:
            earlier = first[item.name].span
            yield Diag(
                "E0201",
                at or item.name,
                {"name": item.name},
                item.span,
                (Label(earlier, Phrase("first defined here")),) if earlier else (),
            )
        first.setdefault(item.name, item)


def _check_names(module: Any) -> Iterator[Diag]:
    program = module.program
    states = {t.name for t in module.model.inputs}  # a state is an input and an output of one name, and one memory
    yield from twice(
        (*module.model.inputs, *(t for t in module.model.outputs if t.name not in states), *program.buffers), ""
    )
    yield from twice(program.regions, "")


def _check_must_fuse(module: Any) -> Iterator[Diag]:
    regions = {r.name: r for r in module.program.regions}
    for region in module.program.regions if any(r.must_fuse for r in regions.values()) else ():
        unknown = [n for n in region.must_fuse if n not in regions]
        for name in unknown:
            yield Diag("E0202", region.name, unknown_name(name, regions), region.span)
        wanted = _sharing(region, regions)
        if not unknown and (set(region.must_fuse) != wanted or len(region.must_fuse) != len(wanted)):
            facts = {
                "region": region.name,
                "given": ", ".join(region.must_fuse) or "-",
                "wanted": ", ".join(n for n in regions if n in wanted),
            }
            yield Diag("E1426", region.name, facts, region.span)


def _sharing(region: Any, regions: dict[str, Any]) -> set[str]:
    """The regions that must share a kernel with a region, by what each of them says; none where nobody says so."""
    found: set[str] = set()
    pending = [region.name] if any(region.name in r.must_fuse for r in regions.values()) or region.must_fuse else []
    while pending:
        name = pending.pop()
        if name in found or name not in regions:
            continue
        found.add(name)
        pending += [*regions[name].must_fuse, *(r.name for r in regions.values() if name in r.must_fuse)]
    return found


def _check_memory(module: Any) -> Iterator[Diag]:
    """Every tensor of a region is an input, output or buffer of its type; an alias has the elements of what it lives
    in."""
    signature = {t.name: t for t in (*module.model.inputs, *module.model.outputs)}
    known = signature | {t.name: t for t in module.program.buffers}
    types = {name: t.type for name, t in known.items()} | {name: memory_type(t) for name, t in signature.items()}
    for buffer in module.program.buffers:
        target = buffer.attr("alias")
        if target is None:
            continue
        home = known.get(target)
        if home is None or home.type.dtype != buffer.type.dtype or _elements(home) != _elements(buffer):
            fault = (
                Phrase("{target} is not memory of the program", target=target)
                if home is None
                else Phrase("{target} is {type}, of another size or dtype", target=target, type=home.type)
            )
            aliased = Phrase("it is alias of {target}, but {fault}", target=target, fault=fault)
            yield Diag("E1402", buffer.name, {"name": buffer.name, "fault": aliased}, buffer.span)
    yield from _check_places(module.program)
    for region in module.program.regions:
        for tensor in region.inputs + region.outputs:
            if tensor.name not in known:
                yield Diag(
                    "E1402",
                    region.name,
                    {"name": tensor.name, "fault": Phrase("no input, output or buffer of the program is called so")},
                    tensor.span,
                )
            elif types[tensor.name] != tensor.type:
                given, declared, memory = tensor.type, known[tensor.name].type, types[tensor.name]
                fault = Phrase(
                    "it is {given} here, but {declared} where it is declared", given=given, declared=declared
                )
                if tensor.name in signature and is_exchanged(signature[tensor.name]):
                    fault = Phrase(
                        "it is {given} here, but {declared} where it is declared, with layout col_major: {memory} in "
                        "memory",
                        given=given,
                        declared=declared,
                        memory=memory,
                    )
                place = known[tensor.name].span
                labels = (Label(place, Phrase("declared here")),) if place else ()
                yield Diag("E1402", region.name, {"name": tensor.name, "fault": fault}, tensor.span, labels)


def _check_places(program: Any) -> Iterator[Diag]:
    """Where a tensor is kept is what its buffer says, everywhere; what stays on the chip is handed from one region to
    one other, and a region takes part in one such pair."""
    stated = [("", b) for b in program.buffers]
    stated += [(r.name, t) for r in program.regions for t in (*r.inputs, *r.outputs)]
    for at, tensor in stated:
        if _place_of(tensor) not in PLACES:
            facts = {"key": "materialize", "given": _place_of(tensor), "known": ", ".join(PLACES)}
            yield Diag("E1302", at or tensor.name, facts, tensor.span)
    buffers = {b.name: b for b in program.buffers}
    pairs: list[tuple[Any, set[str]]] = []
    for buffer in program.buffers:
        if _place_of(buffer) == "deferred":
            makers = [r.name for r in program.regions if any(t.name == buffer.name for t in r.outputs)]
            readers = [r.name for r in program.regions if any(t.name == buffer.name for t in r.inputs)]
            if len(makers) == 1 and len(readers) != 1:
                fault = Phrase(
                    "it stays on the chip for one region to read, but is read by {readers}",
                    readers=", ".join(readers) or Phrase("none"),
                )
                yield Diag("E1402", makers[0], {"name": buffer.name, "fault": fault}, buffer.span)
            elif len(makers) == 1:
                pairs.append((buffer, {makers[0], readers[0]}))
    for at, (buffer, pair) in enumerate(pairs):
        others = sorted(set().union(*(p for _, p in pairs[:at] if p & pair)) - pair)
        if others:
            fault = Phrase(
                "it joins {regions}, of which one shares a kernel with {others}",
                regions=Listing(sorted(pair)),
                others=", ".join(others),
            )
            yield Diag("E1402", buffer.name, {"name": buffer.name, "fault": fault}, buffer.span)
    for region in program.regions:
        for tensor in (*region.inputs, *region.outputs):
            buffer = buffers.get(tensor.name)
            declared = PLACES[0] if buffer is None else _place_of(buffer)
            if _place_of(tensor) in PLACES and _place_of(tensor) != declared:
                fault = Phrase(
                    "its materialize is {given} here, but {declared} where it is declared",
                    given=_place_of(tensor),
                    declared=declared,
                )
                labels = (Label(buffer.span, Phrase("declared here")),) if buffer is not None and buffer.span else ()
                yield Diag("E1402", region.name, {"name": tensor.name, "fault": fault}, tensor.span, labels)


def _place_of(tensor: Any) -> str:
    return tensor.attr("materialize") or PLACES[0]


def _elements(tensor: Any) -> Expr:
    total = Expr.of(1)
    for size in tensor.type.shape:
        total = total * size
    return total


def _check_order(module: Any) -> Iterator[Diag]:
    """Memory is written by one region, before it is read, but for a state, whose old value may be read first, and under
    no other name than that of its new value afterwards; every output is written."""
    program = module.program
    states = {module.model.memory_of(state) for state in module.model.states()}
    renewed: dict[str, str] = {}  # states that were written under another name, and that name
    written = {t.name: SIGNATURE for t in module.model.inputs}
    written.update((b.name, Phrase("its value")) for b in program.buffers if b.attr("value") is not None)
    for region in program.regions:
        for tensor in region.inputs:
            owner = owner_of(module, tensor.name)
            if owner in renewed and renewed[owner] not in homes_of(module, tensor.name):
                facts = {"region": region.name, "state": owner, "name": tensor.name, "new": renewed[owner]}
                yield Diag("E1427", region.name, facts, tensor.span)
            if owner not in written:
                yield Diag(
                    "E1402",
                    region.name,
                    {"name": tensor.name, "fault": Phrase("it is read before any region writes it")},
                    tensor.span,
                )
        for tensor in region.outputs:
            owner = owner_of(module, tensor.name)
            if owner in states and tensor.name != owner:
                renewed[owner] = tensor.name
            if owner in written and not (written[owner] == SIGNATURE and owner in states):
                yield Diag(
                    "E1402",
                    region.name,
                    {
                        "name": tensor.name,
                        "fault": Phrase("it is already written by {written}", written=written[owner]),
                    },
                    tensor.span,
                )
            written[owner] = region.name
    for output in module.model.outputs:
        owner = owner_of(module, output.name)  # a state that nobody writes keeps its value
        if owner not in states and written.get(owner, SIGNATURE) == SIGNATURE:
            yield Diag("E1402", output.name, {"name": output.name, "fault": Phrase("no region writes it")}, output.span)
