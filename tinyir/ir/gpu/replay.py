"""Statements replayed in order, and with them the copies of cp.async: a slot is read when its copy is done and all
threads have met since, and filled again when all that read it have met since.

Loops of numbers run as they say, others often enough to come round every ring. Positions in a ring are numbers then, so
that a cursor that starts wrong, a wait that leaves one group too many, and a barrier that is not there all show.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...kit.diag import Diag, Label
from ...kit.phrase import Phrase
from ...kit.records import dataclass, field
from ..body import Read
from ..expr import Expr
from . import nodes
from .nodes import Kernel, Place, Statement
from .walk import Visit, places_in, reads_in, statements

Slot = tuple[str, int]
_STEERING = frozenset((nodes.For, nodes.If, nodes.Role, nodes.Each, nodes.Cursor, nodes.Advance))


@dataclass
class Replay:
    """A run over a kernel's statements; `one` sees each of those that are no blocks. A loop of unknown length takes
    `turns`."""

    kernel: Kernel
    turns: int
    numbers: dict[str, int] = field(default_factory=dict)  # cursors' fields and the names of loops
    rings: dict[str, int] = field(default_factory=dict)
    found: dict[tuple, Diag] = field(default_factory=dict)

    def block(self, body: Iterable[Statement]) -> None:
        """Runs a block."""
        for s in body:
            kind = type(s)
            if kind not in _STEERING:
                self.one(s)
            elif kind is nodes.For:
                self._loop(s)
            elif kind is nodes.If or kind is nodes.Role or kind is nodes.Each:
                self.enter(s)
                self.block(s.body)
                self.block(getattr(s, "otherwise", ()))
            elif kind is nodes.Cursor:
                self.rings[s.name] = s.ring
                self.numbers |= {f"{s.name}.slot": s.at, f"{s.name}.previous": (s.at - 1) % s.ring}
            else:
                slot = self.numbers[f"{s.cursor}.slot"]
                by, ring = self.number(s.by), self.rings[s.cursor]  # of unknown length are the steps of a loop
                after = slot + (self.turns if by is None else by)
                self.numbers |= {f"{s.cursor}.previous": (after - 1) % ring, f"{s.cursor}.slot": after % ring}

    def enter(self, s: Statement) -> None:
        """A block other than a loop begins."""

    def one(self, s: Statement) -> None:
        """A statement runs."""
        raise NotImplementedError

    def number(self, e: Expr | None) -> int | None:
        """An integer where it is known; 0 for none."""
        if e is None:
            return 0
        constant = e.constant
        if constant is not None:
            return constant
        return e.evaluate(self.numbers) if all(n in self.numbers for n in e.vocabulary) else None

    def fault(self, code: str, s: Statement, other: Statement, **facts: Any) -> None:
        """Notes a diagnostic of a statement, each once."""
        labels = (Label(other.span, Phrase("by this")),) if other.span else ()
        self.found.setdefault((id(s), *facts.values()), Diag(code, self.kernel.name, facts, s.span, labels))

    def _loop(self, s: nodes.For) -> None:
        low, high, step = (self.number(e) for e in (s.low, s.high, s.step))
        known = low is not None and high is not None and step is not None
        turns = range(low, high, step) if known else range(self.turns)
        seen: dict[tuple, int] | None = None if known and _counts(s) else {}
        at = 0
        while at < len(turns):
            if seen is not None:
                first = seen.setdefault(self._state(s.name), at)
                if first < at:  # what follows was seen: whole rounds of it show nothing more
                    at = len(turns) - (len(turns) - at) % (at - first)
                    seen = None
                    continue
            if known:
                self.numbers[s.name] = turns[at]
            self.block(s.body)
            at += 1
        self.numbers.pop(s.name, None)

    def _state(self, without: str) -> tuple:
        return (*((k, v) for k, v in self.numbers.items() if k != without), *self.state())

    def state(self) -> tuple:
        """What the run knows beside the numbers, as something that can be compared."""
        raise NotImplementedError


def _counts(loop: nodes.For) -> bool:
    """Whether the turn that a loop is in has a part in where its statements are in their rings, or in how often loops
    in it turn."""
    for s in statements(loop.body):
        numbers = [place.slot for _, place in places_in(s)] + [n.slot for n in reads_in(s) if isinstance(n, Read)]
        if isinstance(s, nodes.Advance):
            numbers.append(s.by)
        if isinstance(s, nodes.For):
            numbers += [s.low, s.high, s.step]
        if any(e is not None and loop.name in e.vocabulary for e in numbers):
            return True
    return False


def turns_of(rings: Iterable[int]) -> int:
    """Turns in which loops come round every one of these rings."""
    return 2 + max(rings, default=1)


def check_copies(kernel: Kernel, walked: list[Visit], module: Any) -> Iterator[Diag]:
    """No slot is read before its copies are whole for all threads, or filled while threads may still read it."""
    every = list(statements(kernel.body))
    rings = {s.name for s in every if isinstance(s, nodes.Shared) and s.ring > 1}
    filled = {
        s.to.name for s in every if isinstance(s, nodes.CpAsync) or isinstance(s, nodes.Copy) and s.to.name in rings
    }
    if not filled:
        return
    replay = _Copies(
        kernel, turns_of(s.ring for s in every if isinstance(s, nodes.Shared) and s.name in filled), filled=filled
    )
    replay.block(kernel.body)
    yield from replay.found.values()


@dataclass
class _Copies(Replay):
    filled: set[str] = field(default_factory=set)
    open: list[tuple[Slot, Statement]] = field(default_factory=list)  # copies that no group has
    groups: list[list[tuple[Slot, Statement]]] = field(default_factory=list)
    landed: dict[Slot, Statement] = field(default_factory=dict)  # waited for, but threads have not met since
    read: dict[Slot, Statement] = field(default_factory=dict)  # since threads last met

    def state(self) -> tuple:
        groups = tuple(tuple((slot, id(s)) for slot, s in group) for group in (*self.groups, self.open))
        landed, read = (tuple((slot, id(s)) for slot, s in of.items()) for of in (self.landed, self.read))
        return groups, landed, read

    def _slot(self, place: Place) -> Slot | None:
        number = self.number(place.slot)
        return None if number is None or place.name not in self.filled else (place.name, number)

    def one(self, s: Statement) -> None:
        if isinstance(s, (nodes.CpAsync, nodes.Copy)):
            self._fill(s)
        elif isinstance(s, nodes.Commit):
            self.groups.append(self.open)
            self.open = []
        elif isinstance(s, nodes.WaitGroup) and s.engine == "cp_async":
            done = self.groups[: max(0, len(self.groups) - s.pending)]
            self.groups = self.groups[len(done) :]
            self.landed |= {slot: copy for group in done for slot, copy in group}
        elif isinstance(s, nodes.BlockReduce) or isinstance(s, nodes.Barrier) and s.scope == "cta":
            self.landed.clear()
            self.read.clear()
        for place in [p for word, p in places_in(s) if word == "source"] + [
            Place(n.tensor, n.index, n.slot) for n in reads_in(s) if isinstance(n, Read)
        ]:
            self._see(s, place)

    def _fill(self, s: nodes.CpAsync | nodes.Copy) -> None:
        slot = self._slot(s.to)
        if slot is None:
            return
        if slot in self.read:
            self._fault(s, self.read[slot], s.to, Phrase("is refilled with no barrier after other threads read it"))
        if isinstance(s, nodes.CpAsync):
            self.open.append((slot, s))
        else:
            self.landed[slot] = s

    def _see(self, s: Statement, place: Place) -> None:
        slot = self._slot(place)
        if slot is None:
            return
        late = next((copy for group in (*self.groups, self.open) for at, copy in group if at == slot), None)
        if late is not None:
            self._fault(
                s,
                late,
                place,
                Phrase(
                    "is read before a wait that leaves fewer groups: %{token} may not have landed", token=late.token
                ),
            )
        elif slot in self.landed:
            done = (
                Phrase("wrote it") if isinstance(self.landed[slot], nodes.Copy) else Phrase("waited for their copies")
            )
            self._fault(
                s, self.landed[slot], place, Phrase("is read with no barrier after other threads {done}", done=done)
            )
        self.read[slot] = s

    def _fault(self, s: Statement, other: Statement, place: Place, fault: str) -> None:
        self.fault("E1613", s, other, place=str(place), fault=fault)
