"""Shared memory in a dry run: who has filled and read a slot, and whether that is known where it is used again."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from ....kit.diag import Diag, Label
from ....kit.phrase import Phrase
from ....kit.records import dataclass, field
from ..nodes import Place, Statement
from .clocks import Party, Phases

Cell = tuple[int, str, int | None]  # CTA, array, slot


class Found(Exception):
    """The fault with which a dry run ends."""

    def __init__(self, diag: Diag):
        super().__init__(diag.code)
        self.diag = diag


@dataclass(slots=True, eq=False)
class Here:
    """Where a run is: at a statement of a party, of which one thread alone is at work, or several (None)."""

    kernel: str
    statement: Statement
    party: Party
    thread: int | None = None

    def fault(self, code: str, other: Statement | None = None, **facts: object) -> Found:
        """The end of the run with a diagnostic of this statement."""
        labels = (Label(other.span, Phrase("by this")),) if other is not None and other.span else ()
        return Found(Diag(code, self.kernel, facts, self.statement.span, labels))


@dataclass(slots=True, eq=False)
class Access:
    """A read or a write. One by an engine goes on until it `ended`; what it brings has landed when phase `phase` of
    `barrier` is complete; an operand is then read by a matrix unit. `tick` and `met` say when the threads did it, or
    waited for the engine; `fence` and `fenced`, where they told the engines of it, and when."""

    here: Here
    place: Place
    by_engine: bool = False
    ended: bool = True
    tick: int = 0
    met: int = 0
    thread: int | None = None
    barrier: Hashable = None
    phase: int = 0
    is_operand: bool = False
    fence: Here | None = None
    fenced: tuple[int, int] = (0, 0)
    role: str = ""

    def is_open(self, here: Here) -> bool:
        """Whether it may go on there: one by an engine, or by threads of another role. Those of a role share slots."""
        return (self.by_engine or self.role != here.party.role) and not self.is_over(here)

    def tell(self, here: Here) -> bool:
        """`fence async_proxy` of threads who wrote: whether it is about this write."""
        if here.thread is not None and here.thread != self.thread:
            return False
        self.fence, self.fenced = here, (here.party.tick, here.party.met)
        return True

    def is_told(self, here: Here) -> bool:
        """Whether an engine that is started there sees what these threads wrote."""
        if self.fence is None:
            return False
        tick, met = self.fenced
        if self.here.party is not here.party:
            return here.party.knows(self.here.party, tick, met)
        return met < here.party.met or self.thread is not None and self.thread == here.thread

    def end(self, here: Here) -> None:
        """It is over, as `here` sees."""
        self.ended, self.tick, self.met, self.thread = True, here.party.tick, here.party.met, here.thread

    def is_over(self, here: Here) -> bool:
        """Whether it is known to be over there."""
        if self.barrier is not None:
            return here.party.clock.get(self.barrier, 0) > self.phase
        if not self.ended:
            return False
        if self.here.party is not here.party:  # an engine's end all threads of a party wait for
            is_met = here.party.knows(self.here.party, self.tick, -1 if self.by_engine else self.met)
            is_alone = self.thread is not None and not self.by_engine
            return is_met or is_alone and here.party.knows_of(self.here.party, self.tick, self.thread or 0)
        return self.met < here.party.met or self.thread is not None and self.thread == here.thread


@dataclass(slots=True)
class _Slot:
    writes: list[Access] = field(default_factory=list)
    reads: list[Access] = field(default_factory=list)
    is_read: bool = False  # since it was last filled


@dataclass(slots=True)
class Memory:
    """The slots of all CTAs of a cluster. What several threads write and read between barriers is not looked at here:
    `ir.gpu.order` does."""

    slots: dict[Cell, _Slot] = field(default_factory=dict)
    untold: dict[int, list[Access]] = field(default_factory=dict)  # writes with no fence since, by party

    def fill(self, here: Here, cell: Cell, place: Place, phases: Phases, is_operand: bool = False) -> None:
        """An engine begins to fill a slot; the bytes land on a barrier's next phase."""
        slot = self.slots.setdefault(cell, _Slot())
        new = Access(here, place, True, barrier=phases.key, phase=len(phases.complete), is_operand=is_operand)
        beside = [w for w in slot.writes if (w.barrier, w.phase) == (new.barrier, new.phase)]
        for other in slot.reads if beside else (*slot.writes, *slot.reads):
            if not other.is_over(here):
                raise here.fault("E1623", other.here.statement, place=str(place))
        if not beside:
            _check_read(slot)
        slot.writes, slot.reads, slot.is_read = [*beside, new], [], False

    def write(self, here: Here, cell: Cell, place: Place) -> None:
        """Threads write to a slot."""
        slot = self.slots.setdefault(cell, _Slot())
        for other in (*slot.writes, *slot.reads):
            if other.is_open(here):
                raise here.fault("E1623", other.here.statement, place=str(place))
        slot.writes = [w for w in slot.writes if not w.by_engine and w.here.party is not here.party]
        slot.writes.append(_of_threads(here, place))
        self.untold.setdefault(here.party.number, []).append(slot.writes[-1])
        slot.reads = [r for r in slot.reads if not r.by_engine]

    def read(self, here: Here, cell: Cell, place: Place) -> None:
        """Threads read a slot."""
        slot = self._filled(here, cell, place)
        slot.reads = [r for r in slot.reads if r.by_engine or r.here.party is not here.party or r.thread != here.thread]
        slot.reads.append(_of_threads(here, place))

    def fence(self, here: Here) -> None:
        """`fence async_proxy`: engines see what these threads wrote, once those who start them have met them."""
        own = self.untold.get(here.party.number, [])
        own[:] = [write for write in own if not write.tell(here)]

    def lend(self, here: Here, cell: Cell, place: Place) -> Access:
        """An engine begins to read a slot. The caller ends the access that is returned."""
        slot = self._filled(here, cell, place)
        for write in slot.writes:
            if not write.by_engine and not write.is_told(here):
                raise here.fault("E1628", write.here.statement, place=str(place))
        lent = Access(here, place, True, False)
        slot.reads.append(lent)
        return lent

    def read_some(self, here: Here, cells: Iterable[Cell], place: Place) -> None:
        """Threads read some of these slots."""
        if not any(cell in self.slots for cell in cells):
            raise here.fault("E1622", place=str(place))

    def leave(self) -> None:
        """All threads are through."""
        for slot in self.slots.values():
            _check_read(slot)

    def _filled(self, here: Here, cell: Cell, place: Place) -> _Slot:
        slot = self.slots.get(cell)
        if slot is None or not slot.writes:
            raise here.fault("E1622", place=str(place))
        for other in slot.writes:
            if other.is_open(here):
                raise here.fault("E1622", other.here.statement, place=str(place))
        slot.is_read = True
        return slot


def _check_read(slot: _Slot) -> None:
    """What the copy engine has brought as an operand somebody reads."""
    if not slot.is_read:
        for write in slot.writes:
            if write.is_operand:
                raise write.here.fault("E1625", place=str(write.place))


def _of_threads(here: Here, place: Place) -> Access:
    party = here.party
    return Access(here, place, tick=party.tick, met=party.met, thread=here.thread, role=party.role)
