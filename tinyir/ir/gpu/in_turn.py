"""CTAs that wait for one another: only for those that run already, and only for what one of them says for certain.

A CTA may wait for tiles before its own if CTAs take their tiles in the order in which they come: by a ticket. Each
publishes what its tile folds to before it looks back, on every way through the kernel, and words begin as 0 at each
run: an earlier kernel, for this one, sets them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...kit.diag import Diag, Label
from ...kit.phrase import Phrase
from ...target.words import LEVELS, WORDS_OF
from ..body import Literal, Read
from ..expr import Expr
from . import nodes
from .across import ACROSS, LookBack, Publish, Ticket
from .nodes import Kernel, Statement
from .walk import Visit, places_in, reads_in, statements


def check_turns(kernel: Kernel, walked: list[Visit], module: Any) -> Iterator[Diag]:
    """E1680 for a ticket, a word or a wait with which a launch might never end, or give another result at each run."""
    waiting = [v for v in walked if isinstance(v.statement, ACROSS)]
    for v in waiting:
        fault = _FAULT_OF[type(v.statement)](kernel, v, waiting, module)
        if fault:
            name = (
                v.statement.name
                if isinstance(v.statement, Ticket)
                else v.statement.to.name
                if isinstance(v.statement, Publish)
                else v.statement.source.name
            )
            yield Diag("E1680", kernel.name, {"name": name, "fault": fault}, v.statement.span)
    for name, v in {place.name: v for v in waiting for _, place in places_in(v.statement)}.items():  # noqa: B020
        yield from starts_at_zero(kernel, name, v.statement, module)


def _ticket_fault(kernel: Kernel, v: Visit, waiting: list[Visit], module: Any) -> str:
    s = v.statement
    if v.path or any(isinstance(o.statement, Ticket) and o is not v for o in waiting):
        return Phrase("is not taken once, by all threads of every CTA")
    if len(kernel.grid) != 1 or kernel.cluster or s.extent != kernel.grid[0]:
        return Phrase("is below {extent}, which is not the number of CTAs", extent=s.extent)
    return "" if dtype_of(s.source.name, module) == "u32" else Phrase("counts in other than u32")


def _publish_fault(kernel: Kernel, v: Visit, waiting: list[Visit], module: Any) -> str:
    s = v.statement
    if not _is_in_turn(s.to.index, v):
        return Phrase("is published at a place that no ticket gives: two CTAs might have the same")
    if v.path or not s.to.index or s.to.index[0] != Expr.of(0):
        return Phrase("is not published by every CTA for its own tile, at level 0")
    return _words_fault(v, s.to.name, s.held, module)


def _look_back_fault(kernel: Kernel, v: Visit, waiting: list[Visit], module: Any) -> str:
    s = v.statement
    if not _is_in_turn(s.source.index, v):
        return Phrase(
            "is waited for by a CTA that no ticket puts behind those that publish it: they may not have begun"
        )
    before = [o.statement for o in waiting[: waiting.index(v)] if isinstance(o.statement, Publish)]
    if not any(p.to == s.source and p.name == s.name and p.held == s.held for p in before):
        return Phrase("is waited for by CTAs that have not published their own before")
    return _words_fault(v, s.source.name, s.held, module)


def _is_in_turn(index: tuple[Expr, ...], v: Visit) -> bool:
    """Whether a place is made of the ticket, and of nothing that differs between the threads."""
    names = {n for e in index for n in v.facts.plain(e).names()}
    tickets = {n for n in names if isinstance(v.names.get(n), Ticket)}
    return bool(tickets) and all(n in tickets or v.names.get(n, v) is None and "." not in n for n in names)


def _words_fault(v: Visit, name: str, held: str, module: Any) -> str:
    value = v.arrays[v.statement.name].type.dtype
    words, is_apart = WORDS_OF.get(value.bytes, ("", False))
    tensors = {t.name: t for t in module.buffers}
    if name not in tensors or tensors[name].type.dtype.name != words or tensors[name].type.shape[0] != Expr.of(LEVELS):
        return (
            Phrase(
                "is not a workspace of {words} with {levels} levels, as a value of {value} takes",
                words=words,
                levels=LEVELS,
                value=value,
            )
            if words
            else Phrase(
                "is not a workspace of words with {levels} levels, as a value of {value} takes",
                levels=LEVELS,
                value=value,
            )
        )
    if (
        is_apart != bool(held)
        or held
        and (
            held not in tensors
            or tensors[held].type.shape != tensors[name].type.shape
            or tensors[held].type.dtype != value
        )
    ):
        place = held or Phrase("not a tensor")
        return (
            Phrase(
                "has its values of {value} in {place}, and not in a workspace beside its words",
                value=value,
                place=place,
            )
            if is_apart
            else Phrase(
                "has its values of {value} in {place}, and not in a workspace of its words", value=value, place=place
            )
        )
    return ""


def dtype_of(name: str, module: Any) -> str:
    """The name of the dtype of a tensor between kernels; empty where there is none."""
    return next((b.type.dtype.name for b in module.buffers if b.name == name), "")


def starts_at_zero(kernel: Kernel, name: str, s: Statement, module: Any) -> Iterator[Diag]:
    """A kernel before this one sets every word to 0 at each run (that it is every one, `writes.py` counts); here
    only these statements touch it."""
    front = module.kernels[: [k.name for k in module.kernels].index(kernel.name)]
    stores = [
        o
        for k in front
        if k.serves == kernel.name and not k.is_once
        for o in statements(k.body)
        if isinstance(o, nodes.Store) and o.to.name == name
    ]
    if not stores or any(not isinstance(o.value, Literal) or o.value.value != 0 for o in stores):
        yield Diag(
            "E1680",
            kernel.name,
            {"name": name, "fault": Phrase("is not set to 0 at each run by a kernel before this one")},
            s.span,
        )
    for o in statements(kernel.body):
        touched = {p.name for _, p in places_in(o)} | {n.tensor for n in reads_in(o) if isinstance(n, Read)}
        if name in touched and not isinstance(o, ACROSS) and o is not s:
            yield Diag(
                "E1680",
                kernel.name,
                {"name": name, "fault": Phrase("is touched beside its own statements")},
                o.span,
                (Label(s.span, Phrase("by these")),) if s.span else (),
            )


_FAULT_OF = {Ticket: _ticket_fault, Publish: _publish_fault, LookBack: _look_back_fault}
