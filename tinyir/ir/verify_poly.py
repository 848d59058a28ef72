"""The verifier of poly text: one function an invariant, in the order that `ir.poly.check` lists them."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Hashable, Iterator
from typing import Any

from ..kit.diag import Diag
from ..kit.phrase import Phrase
from ..kit.span import Span
from .blocks import KINDS, ROLES, Module, tuple_names
from .expr import Expr
from .sets import identifier, read_map, read_set, tuples, with_names

_NUMBER = re.compile(r"(?<![\w.])[1-9][0-9]*\b")
_ENDS = ("left_", "right_")  # names for tuples whose own were compared already


def check_blocks(module: Module) -> list[Diag]:
    """Invariants 2 to 7 of `ir.poly.check`. Sets are not read before the parameters and the blocks' names are right."""
    faults = [*_check_params(module), *_check_names(module)]
    if faults:
        return faults
    return [*_check_sets(module), *_check_roles(module), *_check_edges(module)]


def _check_params(module: Module) -> Iterator[Diag]:
    symbols = module.index.tiny.model.symbols()
    seen: set[str] = set()
    for param in module.params:
        fault = ""
        if param.name in seen:
            fault = Phrase("{param} is there twice", param=param.name)
        elif identifier(param.name) != param.name:
            fault = Phrase("isl does not read {param} as a name", param=param.name)
        elif any(name not in symbols for name in param.means.names()):
            fault = Phrase(
                "{param} = {means} names what is not a symbol of the signature", param=param.name, means=param.means
            )
        if fault:
            yield Diag("E1209", param.name, {"fault": fault})
        seen.add(param.name)
    means = {p.means for p in module.params}
    for symbol in symbols:
        if Expr.of(symbol) not in means:
            yield Diag("E1209", symbol, {"fault": Phrase("the symbol {symbol} is missing", symbol=symbol)})


def _check_names(module: Module) -> Iterator[Diag]:
    values = {v.name: v for v in module.index.tiny.values}
    order = {name: at for at, name in enumerate(values)}
    known = {*values, *(t.name for t in module.index.tiny.model.inputs)}
    last = -1
    for block in module.blocks:

        def fault(text: str) -> Diag:
            return Diag("E1210", block.name, {"fault": text}, block.span)  # noqa: B023

        if block.kind not in KINDS:
            yield fault(Phrase("{kind} is not a kind of block", kind=block.kind))
        if block.name not in values:
            yield fault(Phrase("{block} is not a value of the program", block=block.name))
            continue
        if order[block.name] <= last:
            yield fault(Phrase("{block} is there twice, or out of the order of the program", block=block.name))
        last = order[block.name]
        for name in [*(r.source for r in block.reads), *block.fuses, *(w.source for w in block.windows)]:
            if name not in known:
                yield fault(Phrase("it names {name}, which is neither a value nor an input", name=name))
        for reading, count in Counter(block.reads).items():
            if count > 1:
                yield Diag("E1214", block.name, {"word": f"read {reading.source}", "block": block.name}, reading.span)
    have = {b.name for b in module.blocks}
    for result in module.index.tiny.results:
        if result.value in values and result.value not in have:
            yield Diag(
                "E1210",
                result.value,
                {"fault": Phrase("%{value} is a result and has no block", value=result.value)},
                values[result.value].span,
            )


def _check_sets(module: Module) -> Iterator[Diag]:
    names = tuple_names(module.index.tiny)
    types = module.index.tiny.type_of()
    axes = {e.value: [a.name for a in e.axes] for e in module.index.entries}
    words = tuple(p.name for p in module.params)
    right: set[Hashable] = set()  # what was found right, but for names of tuples and numbers: of layers, once

    def wrong(at: str, text: str, want: list[tuple[str, int]], span: Span | None) -> Diag | None:
        bare = _without_names(text, [name for name, _ in want]), tuple([rank for _, rank in want])
        if bare in right:
            return None
        found = tuples(text)
        for piece in range(0, len(found), len(want)):
            for (name, inside), (wanted, rank) in zip(found[piece:], want):
                if name != wanted or len(inside) != rank:
                    return Diag(
                        "E1211",
                        at,
                        {
                            "text": text,
                            "fault": Phrase(
                                "{name}[{inside}] is where {wanted} with {rank} axes is wanted",
                                name=name,
                                inside=", ".join(inside),
                                wanted=wanted,
                                rank=rank,
                            ),
                        },
                        span,
                    )
        try:
            if not found:
                raise ValueError(Phrase("it has no tuple"))
            if text.count("{") != 1 or text.find("}") != len(text) - 1:  # isl leaves unread what is behind the first
                raise ValueError(Phrase("it is not in one pair of braces"))
            _must_have_tuples(
                (read_set if len(want) == 1 else read_map)(with_names(text, *_ENDS), words), [rank for _, rank in want]
            )
        except ValueError as fault:
            return Diag("E1211", at, {"text": text, "fault": str(fault)}, span)
        right.add(bare)
        return None

    for block in module.blocks:
        here = (names[block.name], len(axes[block.name]))
        own = tuples(block.domain)
        if own and own[0][1] != axes[block.name]:
            yield Diag(
                "E1211",
                block.name,
                {
                    "text": block.domain,
                    "fault": Phrase("the axes are not those of the book, [{axes}]", axes=", ".join(axes[block.name])),
                },
                block.place_of("domain"),
            )
            continue
        written = (names[block.name], types[block.name].rank)
        wants = [(block.domain, [here], block.place_of("domain"))]
        wants += [(block.write, [here, written], block.place_of("write"))]
        wants += [(r.relation, [here, (names[r.source], types[r.source].rank)], r.span) for r in block.reads]
        yield from filter(None, (wrong(block.name, *want) for want in wants))
    for edge in module.edges:
        if edge.source in axes and edge.target in axes:
            ends = [(names[end], len(axes[end])) for end in (edge.source, edge.target)]
            yield from filter(None, [wrong(edge.target, edge.relation, ends, edge.span)])


def _without_names(text: str, names: list[str]) -> Hashable:
    """The text of a set or map with numbers for the names of its tuples, and how many names these are; with the names,
    where one ends as another. A number is 1, unless it is 0: whether isl reads it is the same for every other."""
    text = _NUMBER.sub("1", text)
    if len({*names}) > 1 and any(a.endswith(b) for a, b in itertools.permutations(names, 2)):
        return text, *names
    for number, name in enumerate(names):
        text = text.replace(f"{name}[", f"{number}\0[")
    return text, len({*names})


def _must_have_tuples(thing: Any, ranks: list[int]) -> None:
    """Raise ValueError when a set, or a map, has other numbers of axes than its words seem to say, or a tuple without a
    name."""
    import islpy as isl

    ends = [isl.dim_type.set] if len(ranks) == 1 else [isl.dim_type.in_, isl.dim_type.out]
    found = [thing.dim(end) for end in ends]
    if found != ranks:
        raise ValueError(Phrase("isl reads tuples of {found} axes in it", found=", ".join(map(str, found))))
    if [thing.get_space().get_tuple_name(end) for end in ends] != list(_ENDS[: len(ends)]):
        raise ValueError(Phrase("a tuple in it has no name"))


def _check_roles(module: Module) -> Iterator[Diag]:
    axes = {e.value: e.axes for e in module.index.entries}
    for block in module.blocks:
        stated = [a for role in ROLES for a in getattr(block, role)]
        fault = ""
        if block.kind != "contraction":
            fault = Phrase("it has roles but is not a contraction") if stated or block.pattern else ""
        elif block.pattern not in ("matmul", "conv"):
            fault = Phrase("{pattern} is not a pattern of a contraction", pattern=block.pattern)
        elif sorted(stated) != sorted(a.name for a in axes[block.name]):
            fault = Phrase(
                "the axes in roles are [{stated}], not each of [{a}] once",
                stated=", ".join(stated),
                a=", ".join(a.name for a in axes[block.name]),
            )
        elif set(block.sum) != {a.name for a in axes[block.name] if a.kind == "reduce"}:
            fault = Phrase("sum is [{block}], not the reduced axes of the book", block=", ".join(block.sum))
        if fault:
            yield Diag("E1212", block.name, {"fault": fault}, block.place_of("roles"))


def _check_edges(module: Module) -> Iterator[Diag]:
    blocks = module.block_of()
    for edge, count in Counter(module.edges).items():
        fault = ""
        if count > 1:
            facts = {"word": f"edge {edge.source} -> {edge.target}", "block": edge.target}
            yield Diag("E1214", edge.target, facts, edge.span)
        if edge.source not in blocks or edge.target not in blocks:
            fault = Phrase("an end of it is not a block")
        elif edge.kind == "true" and edge.source not in {r.source for r in blocks[edge.target].reads}:
            fault = Phrase("{target} does not read %{source}", target=edge.target, source=edge.source)
        elif edge.kind not in ("true", "anti", "output"):
            fault = Phrase("{kind} is not a kind of dependence", kind=edge.kind)
        if fault:
            facts = {"source": edge.source, "target": edge.target, "fault": fault}
            yield Diag("E1213", edge.target, facts, edge.span)
