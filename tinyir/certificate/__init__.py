"""Certificates: what there is to show of each kernel of a gpu text, with the sums that show it, for `tinyir.verifier`
to add up again. Nothing here is shared with that program: it finds what there is to show by itself."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Container, Iterable

from ..ir import gpu
from ..ir.expr import Expr
from ..ir.model import show_name
from ..kit.records import dataclass, replace
from .known import Wanted
from .places import wanted_of
from .rules import named_of
from .sums import Proof, Term

HEADER = "tinyir 1.0 cert"
TOGETHER = ("no element twice", "every element")  # what is shown of several goals
Place = tuple[int, str]  # a line, and what is to be shown there


@dataclass(frozen=True, slots=True)
class Entry:
    """An obligation as the certificate has it."""

    line: int
    what: str
    goal: str = ""
    proof: Proof | None = None
    status: str = "proven"
    points: tuple[tuple[str, Expr], ...] = ()

    def lines(self) -> Iterable[str]:
        """The text of it."""
        yield f"    {self.what}{self.goal and ': ' + self.goal}"
        for name, value in self.points:
            yield f"      at {show_name(name)}: {value}"
        for fact, terms in self.proof.first if self.proof is not None else ():
            yield f"      so {fact}: {_sum(terms)}"
        yield f"      {self.status} {_sum(self.proof.sum) if self.proof is not None else ''}".rstrip()


class Draft:
    """The obligations of a gpu text that holds its invariants, each with what shows it."""

    def __init__(self, module: gpu.Module):
        self.text = gpu.show(module)
        module = gpu.parse(self.text)
        self.entries: list[Entry] = []
        for kernel in module.kernels:
            self.entries += [_entry(one) for one in wanted_of(kernel, module)]
            self.entries += [Entry(line, what) for line, what in named_of(kernel, module)]

    def show(self, cuda: str, unconfirmed: Container[Place] = ()) -> str:
        """The certificate, bound to the CUDA that the text becomes. What is `unconfirmed` is listed, as what no sum
        shows is."""
        entries: dict[int, list[Entry]] = {}
        counts: Counter[str] = Counter()
        for entry in self.entries:
            if (entry.line, entry.what) in unconfirmed:
                entry = replace(entry, proof=None, status="listed")
            counts[entry.status] += 1
            if not entry.goal.isdigit():
                entries.setdefault(entry.line, []).append(entry)
        lines = [
            HEADER,
            f"gpu sha256 {_digest(self.text)}",
            f"cu sha256 {_digest(cuda)}",
            f"counts proven {counts['proven']} guarded {counts['guarded']} listed {counts['listed']}",
            "",
        ]
        for number, line in enumerate(self.text.splitlines(), 1):
            lines.append(f"| {line}".rstrip())
            lines += [shown for entry in entries.get(number, ()) for shown in entry.lines()]
        return "\n".join(lines) + "\n"


def _entry(one: Wanted) -> Entry:
    goals = str(one.goals[0]) if len(one.goals) == 1 and not one.what.startswith(TOGETHER) else ""
    if goals.isdigit():
        return Entry(one.line, one.what, goals)
    proof = one.known.sums.proof_of(one.goals[0]) if goals else one.proof
    if proof is None:
        return Entry(one.line, one.what, goals, status="listed", points=one.points)
    sums = (*(terms for _, terms in proof.first), proof.sum)
    by_data = any(f in one.known.data for terms in sums for t in terms for f in t.factors)
    return Entry(one.line, one.what, goals, proof, "guarded" if by_data else "proven", one.points)


def _sum(terms: Iterable[Term]) -> str:
    in_order = sorted(terms, key=lambda t: None not in t.factors)  # the denial first
    return " + ".join(map(str, in_order)).replace("+ -", "- ")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
