"""The way of one party of threads through a kernel, in a dry run."""

from __future__ import annotations

import copy
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ...expr import Expr
from .. import nodes
from ..across import LookBack, Ticket
from ..extremes import Least, Most
from ..nodes import Place, Statement
from .clocks import Meeting, Party
from .integers import holds, places, value
from .memory import Access, Cell, Here
from .registers import Key, Registers
from .steps import ORDERING, Apart, Step, inside

WARPGROUP = 128
At = Any  # the threads that are at work: an array of bools, or None for all
Wish = tuple[Here, str, Callable[[], bool]]  # where threads wait, for what, and whether it has come


class Unknown(Exception):
    """What the data decide, or what has no spelling: the run ends there, and says nothing of what comes after."""


class Threads:
    """Threads that go through the kernel of a run together, from `first` on. `at`: those at work at a statement that
    does not wait."""

    go: Mapping[type, Any] = MappingProxyType({})  # what a statement does that has a body or may wait,
    act: Mapping[type, Any] = MappingProxyType({})  # and any other

    def __init__(self, run: Any, cta: int, number: int):
        self.run = run
        self.party = Party(cta * run.groups + number, cta)
        first = number * run.unit
        count = min(run.unit, run.kernel.threads - first)
        self.threads = range(first, first + count)
        self.names: dict[str, Any] = {**run.sizes, **places(run.kernel, run.cluster, cta, first, count)}
        self.rings: dict[str, int] = {}
        self.came: dict[tuple[Any, ...], int] = {}  # how often, to each barrier
        self.registers = Registers()
        self.products: deque[tuple[Access, ...]] = deque()  # what wgmma reads, a product each
        self.stores: list[tuple[int | None, Access]] = []  # what tma_store reads, each with its thread
        self.at: At = None

    def block(self, steps: tuple[Step, ...], at: At = None) -> Iterator[Wish]:
        """Goes through steps, and stops wherever it waits. Raises Unknown behind the last step of a run."""
        run, thread = self.run, None if at is None else _only(at)
        for step in steps:
            run.steps += 1
            if run.steps > run.most:
                raise Unknown
            s = step.statement
            here = Here(run.kernel.name, s, self.party, thread)
            if step.reads or step.writes:
                self._touch(here, step, at)
            go = self.go.get(type(s))
            if go is not None:
                yield from go(self, s, step, at, here)
                continue
            act = self.act.get(type(s))
            if act is not None:
                self.at = at
                act(self, s, here)

    def _apart(self, s: Apart, step: Step, at: At, here: Here) -> Iterator[Wish]:
        """Goes through steps each of which one thread has for itself: any goes on while another waits. None learns here
        what another does."""
        forks = [self._fork() for _ in step.body]
        walks = [fork.block((alone,), at) for fork, alone in zip(forks, step.body)]
        waiting: dict[int, Wish | None] = dict.fromkeys(range(len(walks)))
        while waiting:
            ready = [number for number, wish in waiting.items() if wish is None or wish[2]()]
            if not ready:
                wishes = [wish for wish in waiting.values() if wish is not None]
                yield (*wishes[0][:2], lambda wishes=wishes: any(wish[2]() for wish in wishes))
            for number in ready:
                waiting[number] = next(walks[number], None)
                if waiting[number] is None:
                    del waiting[number]
        for fork in forks:
            self.party.learn(fork.party.release(fork.party.met))
            self.stores += fork.stores

    def _fork(self) -> Threads:
        """A thread of these that goes on alone, and knows what they know."""
        fork = copy.copy(self)
        self.run.forks += 1
        fork.party = Party(self.run.ctas * self.run.groups + self.run.forks, self.party.cta, met=self.party.met)
        fork.party.learn(self.party.release(self.party.met))
        fork.names, fork.rings, fork.came = dict(self.names), dict(self.rings), dict(self.came)
        fork.registers, fork.products, fork.stores = Registers(), deque(), []
        return fork

    def whole(self) -> Iterator[Wish]:
        """Goes through the kernel."""
        yield from self.block(self.run.way)
        for _, lent in self.stores:
            raise lent.here.fault("E1624", place=str(lent.place))

    # --- blocks

    def _for(self, s: nodes.For, step: Step, at: At, here: Here) -> Iterator[Wish]:
        if s.via:
            yield from self._drawn(s, step, at)
            return
        low, high, by = (self._known(e) for e in (s.low, s.high, s.step))
        while True:
            left = _and(low < high, at)
            if left is False:
                break
            self.names[s.name] = low
            yield from self.block(step.body, left)
            if step.is_alike:
                break
            low = low + by
        self.names.pop(s.name, None)

    def _drawn(self, s: nodes.For, step: Step, at: At) -> Iterator[Wish]:
        """A loop whose numbers are drawn: the other CTAs have no turn before this one has drawn all that are left. Of
        many numbers the first few and the last are drawn."""
        low, high, by = (self._number(e) for e in (s.low, s.high, s.step))
        numbers = (low, *range(by, high))
        if len(numbers) > self.run.turns:
            numbers = (*numbers[: self.run.turns - 1], numbers[-1])
        for number in numbers:
            if number < high:
                self.names[s.name] = number
                yield from self.block(step.body, at)
        self.names.pop(s.name, None)

    def _if(self, s: nodes.If, step: Step, at: At, here: Here) -> Iterator[Wish]:
        found = holds(s.guard, self.names)
        if found is None:
            if any(isinstance(inner.statement, ORDERING) for inner in inside((step,))):
                raise Unknown
            yield from self.block((*step.body, *step.otherwise), at)
            return
        for body, chosen in ((step.body, found), (step.otherwise, np.logical_not(found))):
            own = _and(chosen, at)
            if body and own is not False:
                yield from self.block(body, own)

    def _each(self, s: nodes.Each, step: Step, at: At, here: Here) -> Iterator[Wish]:
        for name in s.names:
            self.names.pop(name, None)
        yield from self.block(step.body, at)

    def _role(self, s: nodes.Role, step: Step, at: At, here: Here) -> Iterator[Wish]:
        each = s.threads // (s.last - s.first)
        low, high = each * s.first, each * s.last
        if low < self.threads.stop and self.threads.start < high:
            if self.threads.start < low or high < self.threads.stop:
                raise Unknown  # some of these threads alone
            index = self.names["warpgroup.index"]
            self.names["warpgroup.index"] = (self.threads.start - low) // WARPGROUP
            self.party.role = s.name
            yield from self.block(step.body, at)
            self.names["warpgroup.index"], self.party.role = index, ""

    # --- waiting

    def _wait(self, s: nodes.Wait, step: Step, at: At, here: Here) -> Iterator[Wish]:
        yield from self._wait_at(here, s.barrier.name, self._slot(s.barrier), self._number(s.phase))

    def _drain(self, s: nodes.Drain, step: Step, at: At, here: Here) -> Iterator[Wish]:
        slot, phase = self.names[f"{s.cursor}.slot"], self.names[f"{s.cursor}.phase"]
        for n in range(slot, slot + self.rings[s.cursor]):
            yield from self._wait_at(here, s.barrier, n % self.rings[s.cursor], phase ^ (n // self.rings[s.cursor]))

    def _wait_at(self, here: Here, name: str, slot: int, parity: int) -> Iterator[Wish]:
        phases = self.run.barrier(self.party.cta, name, slot)
        wanted = phases.wanted_by(self.party, parity)
        if len(phases.complete) < wanted:
            yield here, name, lambda: len(phases.complete) >= wanted
        if len(phases.complete) > wanted > self.party.clock.get(phases.key, 0):
            raise here.fault("E1621", what=name)
        if wanted:
            self.party.learn(phases.complete[wanted - 1])

    def _barrier(self, s: nodes.Barrier, step: Step, at: At, here: Here) -> Iterator[Wish]:
        run, own = self.run, self.party.cta
        if s.threads:
            yield from self._meet(here, ("threads", own, s.scope), s.threads // run.unit)
        elif s.scope == "cta":
            yield from self._meet(here, ("cta", own), run.groups)
        elif s.scope == "cluster":
            yield from self._meet(here, ("cluster", bool(s.half)), run.groups * run.ctas, s.half)
        elif s.scope == "warpgroup" and at is None:
            self.party.met += 1

    def _fold(self, s: Statement, step: Step, at: At, here: Here) -> Iterator[Wish]:
        if isinstance(s, Ticket):
            self.names[s.name] = self.names["cta.x"]
        yield from self._meet(here, ("cta", self.party.cta), self.run.groups)

    def _meet(self, here: Here, name: tuple[Any, ...], parties: int, half: str = "") -> Iterator[Wish]:
        if half != "wait":
            self.came[name] = self.came.get(name, 0) + 1
        meeting = self.run.meetings.setdefault((*name, self.came.get(name, 0)), Meeting(parties, not half))
        if half != "wait":
            meeting.come_to(self.party)
        if half != "arrive":
            if not meeting.is_complete:
                yield here, "barrier", lambda: meeting.is_complete
            meeting.leave(self.party)

    # --- what does not wait

    def _fence(self, s: nodes.Fence, here: Here) -> None:
        if s.what == "wgmma":
            self.registers.fence()
        elif s.what == "async_proxy":
            self.run.memory.fence(here)

    def _arrive(self, s: nodes.Arrive, here: Here) -> None:
        slot = self._slot(s.barrier)
        for cta in s.cluster or (self.party.cta,):
            self.run.barrier(cta, s.barrier.name, slot).arrive(self.party, s.expect, here.thread)

    def _tmaload(self, s: nodes.TmaLoad, here: Here) -> None:
        tile = self.run.arrays[s.to.name]
        ctas = s.multicast or (self.party.cta,)
        slot, on = self._slots(s.to, None), self._slot(s.on)
        for cta in ctas:
            phases = self.run.barrier(cta, s.on.name, on)
            for one in slot:
                is_operand = s.to.name in self.run.operands
                self.run.memory.fill(here, (cta, s.to.name, one), s.to, phases, is_operand)
            phases.land(tile.bytes // tile.ring // len(ctas))

    def _send(self, s: nodes.Send, here: Here) -> None:
        if isinstance(self.run.arrays[s.source.name], nodes.Reg):
            self.registers.read(here, self._keys(s.source), s.source)
        cta = self._number(s.cta)
        phases = self.run.barrier(cta, s.on.name, self._slot(s.on))
        for slot in self._slots(s.to, None):
            self.run.memory.fill(here, (cta, s.to.name, slot), s.to, phases)
        phases.land(math.prod(s.size) * self.run.arrays[s.to.name].type.dtype.bytes)

    def _tmastore(self, s: nodes.TmaStore, here: Here) -> None:
        self.stores += [(here.thread, lent) for lent in self._lent(s.source, here)]

    def _wgmma(self, s: nodes.Wgmma, here: Here) -> None:
        arrays, zero = self.run.arrays, False if s.zero is None else holds(s.zero, self.names)
        held = {key for p in (s.a, s.b) if isinstance(arrays[p.name], nodes.Reg) for key in self._keys(p)}
        self.registers.multiply(here, s, (s.acc, None), held, bool(zero))
        operands = [p for p in (s.a, s.b) if isinstance(arrays[p.name], nodes.Shared)]
        self.products.append(tuple(lent for p in operands for lent in self._lent(p, here)))

    def _waitgroup(self, s: nodes.WaitGroup, here: Here) -> None:
        if s.engine == "wgmma":
            while len(self.products) > s.pending:
                for lent in self.products.popleft():
                    lent.end(here)
        elif s.engine == "tma_store":
            own = [store for store in self.stores if here.thread in (None, store[0])]
            for store in own[: max(0, len(own) - s.pending)]:
                store[1].end(here)
                self.stores.remove(store)

    def _cursor(self, s: nodes.Cursor, here: Here) -> None:
        self.rings[s.name] = s.ring
        self._set_cursor(s.name, s.at, s.phase)

    def _advance(self, s: nodes.Advance, here: Here) -> None:
        slot, phase = self.names[f"{s.cursor}.slot"], self.names[f"{s.cursor}.phase"]
        turns, slot = divmod(slot + self._number(s.by), self.rings[s.cursor])
        self._set_cursor(s.cursor, slot, phase ^ (turns & 1))

    def _set_cursor(self, name: str, slot: int, phase: int) -> None:
        previous = (slot - 1) % self.rings[name]
        self.names |= {f"{name}.slot": slot, f"{name}.phase": phase, f"{name}.previous": previous}

    def _let(self, s: nodes.Let, here: Here) -> None:
        self._name(s.name, value(s.value, self.names))

    def _extreme(self, s: Least | Most, here: Here) -> None:
        found = [value(e, self.names) for e in s.of]
        fold = np.minimum if isinstance(s, Least) else np.maximum
        self._name(s.name, None if None in found else fold.reduce(found))

    def _choose(self, s: nodes.Choose, here: Here) -> None:
        self._name(s.name, None)

    def _order(self, s: nodes.Order, here: Here) -> None:
        """Column by column: in which order tiles come does not matter here."""
        tile, rows = value(s.tile, self.names), value(s.extents[0], self.names)
        known = tile is not None and rows
        self._name(s.names[0], tile % rows if known else None)
        self._name(s.names[1], tile // rows if known else None)

    # --- shared memory

    def _touch(self, here: Here, step: Step, at: At) -> None:
        memory = self.run.memory
        for place in step.reads:
            if isinstance(self.run.arrays[place.name], nodes.Reg):
                self.registers.read(here, self._keys(place), place)
            else:
                cells, is_known = self._cells(place, at)
                for cell in cells if is_known else ():
                    memory.read(here, cell, place)
                if not is_known:
                    memory.read_some(here, cells, place)
        for place in step.writes:
            if isinstance(self.run.arrays[place.name], nodes.Reg):
                self.registers.write(self._keys(place))
            else:
                for cell in self._cells(place, at)[0]:
                    memory.write(here, cell, place)

    def _cells(self, place: Place, at: At) -> tuple[list[Cell], bool]:
        """The cells of a place, of which several threads may have several; all of the array where they are not
        known."""
        array, slots = self.run.arrays[place.name], self._slots(place, at)
        if array.cluster:
            return [(cta, place.name, None) for cta in slots or range(array.cluster)], bool(slots)
        return [(self.party.cta, place.name, slot) for slot in slots or range(array.ring)], bool(slots)

    def _keys(self, place: Place) -> list[Key]:
        """The slots of a matrix in registers that a place may name."""
        slots = self._slots(place, None) or range(self.run.arrays[place.name].ring)
        return [(place.name, slot) for slot in slots]

    def _slots(self, place: Place, at: At) -> list[int | None]:
        """The slots that threads name; none where they are not known."""
        if place.slot is None:
            return [None]
        found = value(place.slot, self.names)
        if isinstance(found, np.ndarray):
            return sorted({*np.ravel(found if at is None else found[at]).tolist()})
        return [] if found is None else [int(found)]

    def _lent(self, place: Place, here: Here) -> list[Access]:
        return [
            self.run.memory.lend(here, (self.party.cta, place.name, slot), place) for slot in self._slots(place, None)
        ]

    # --- integers

    def _slot(self, place: Place) -> int:
        return 0 if place.slot is None else self._number(place.slot)

    def _number(self, e: Expr) -> int:
        """An integer that is alike in all threads. Raises Unknown."""
        found = self._known(e)
        if isinstance(found, np.ndarray):
            raise Unknown
        return int(found)

    def _known(self, e: Expr) -> Any:
        found = value(e, self.names)
        if found is None:
            raise Unknown
        return found

    def _name(self, name: str, found: Any) -> None:
        if found is None:
            self.names.pop(name, None)
        else:
            self.names[name] = found


def _only(at: Any) -> int | None:
    """The one thread that is at work; None where several are."""
    working = np.flatnonzero(at)
    return int(working[0]) if len(working) == 1 else None


def _and(chosen: Any, at: At) -> Any:
    """Those of the threads at work that are chosen: None for all, False for none."""
    if not isinstance(chosen, np.ndarray):
        return at if chosen else False
    both = chosen if at is None else chosen & at
    return None if both.all() else both if both.any() else False


Threads.go = {
    Apart: Threads._apart,
    nodes.For: Threads._for,
    nodes.If: Threads._if,
    nodes.Each: Threads._each,
    nodes.Role: Threads._role,
    nodes.Wait: Threads._wait,
    nodes.Drain: Threads._drain,
    nodes.Barrier: Threads._barrier,
    nodes.BlockReduce: Threads._fold,
    nodes.BlockScan: Threads._fold,
    Ticket: Threads._fold,
    LookBack: Threads._fold,
}
Threads.act = {
    nodes.Arrive: Threads._arrive,
    nodes.Fence: Threads._fence,
    nodes.TmaLoad: Threads._tmaload,
    nodes.Send: Threads._send,
    nodes.TmaStore: Threads._tmastore,
    nodes.Wgmma: Threads._wgmma,
    nodes.WaitGroup: Threads._waitgroup,
    nodes.Cursor: Threads._cursor,
    nodes.Advance: Threads._advance,
    nodes.Let: Threads._let,
    Least: Threads._extreme,
    Most: Threads._extreme,
    nodes.Choose: Threads._choose,
    nodes.Order: Threads._order,
}
