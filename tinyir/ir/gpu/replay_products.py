"""The products of wgmma, replayed: each is a group of its own, and `wait_group wgmma pending n` leaves the last n of
them running.

While a product runs its accumulator and the registers of its operand are the unit's, and what it reads from shared
memory may not be given back. What threads read from there themselves may be once they have met, for one of them tells
it for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...kit.diag import Diag
from ...kit.phrase import Phrase
from ...kit.records import dataclass, field
from ..body import Read
from ..expr import ZERO, Expr
from . import nodes
from .nodes import Kernel, Place, Statement
from .replay import Replay, turns_of
from .walk import Visit, places_in, reads_in, statements, words_held

Key = tuple[str, int | None]


def check_products(kernel: Kernel, walked: list[Visit], module: Any) -> Iterator[Diag]:
    """No register is touched, and no slot given back, while a product that works on it may still run, or a thread that
    reads it."""
    every = list(statements(kernel.body))
    if not any(isinstance(s, nodes.Wgmma) for s in every):
        return
    arrays = {s.name: s for s in every if isinstance(s, (nodes.Reg, nodes.Shared))}
    replay = _Products(kernel, turns_of(a.ring for a in arrays.values()), arrays=arrays, guarded=_guarded(kernel))
    replay.block(kernel.body)
    yield from replay.found.values()


def _guarded(kernel: Kernel) -> dict[str, set[str]]:
    """Barrier -> the arrays that are filled again once it has been waited for: where a block waits for several, those
    at its slot."""
    found: dict[str, set[str]] = {}
    for block in (getattr(s, "body", ()) for s in statements(kernel.body)):
        waits: list[nodes.Wait] = []
        for s in block:
            if isinstance(s, nodes.Wait) and not s.tokens:
                waits.append(s)
            elif isinstance(s, nodes.TmaLoad):
                own = [w for w in waits if w.barrier.slot == s.to.slot] or waits
                for wait in own:
                    found.setdefault(wait.barrier.name, set()).add(s.to.name)
    return found


@dataclass
class _Products(Replay):
    arrays: dict[str, Any] = field(default_factory=dict)
    guarded: dict[str, set[str]] = field(default_factory=dict)
    running: list[nodes.Wgmma] = field(default_factory=list)
    keys: list[tuple[Key, ...]] = field(default_factory=list)  # of those: the accumulator, then the operands
    read: dict[Key, Statement] = field(default_factory=dict)  # by threads, since they last met
    places: dict[int, list[tuple[str, Expr | None, bool]]] = field(default_factory=dict)

    def state(self) -> tuple:
        return tuple(map(id, self.running)), tuple(self.keys), tuple(zip(self.read, map(id, self.read.values())))

    def _key(self, place: Place) -> Key:
        return place.name, self.number(place.slot)

    def enter(self, s: Statement) -> None:
        if isinstance(s, nodes.Role):
            self.running, self.keys, self.read = [], [], {}
        elif isinstance(s, nodes.Each):
            self._touch(s, (s.of, 0))

    def one(self, s: Statement) -> None:
        kind = type(s)
        if kind is nodes.Wgmma:
            self.running.append(s)
            self.keys.append(((s.acc, 0), self._key(s.a), self._key(s.b)))
        elif kind is nodes.WaitGroup and s.engine == "wgmma":
            done = max(0, len(self.running) - s.pending)
            del self.running[:done], self.keys[:done]
        elif kind is nodes.Arrive:
            for name in self.guarded.get(s.barrier.name, ()):
                self._give_back(s, (name, self.number(s.barrier.slot)))
        elif kind is nodes.Barrier and not s.half:
            self.read.clear()
        else:
            for name, slot, is_place in self._places(s):
                key = name, self.number(slot)
                self._touch(s, key)
                if is_place:
                    self.read[key] = s

    def _places(self, s: Statement) -> list[tuple[str, Expr | None, bool]]:
        """The registers and the shared memory that a statement works on, each with its slot, and whether the statement
        names a place in it; found once for each statement."""
        found = self.places.get(id(s))
        if found is None:
            named = [getattr(s, word) for word in words_held(type(s), ("source", "to"))]
            every = [(name, ZERO, False) for name in named if isinstance(name, str)]
            every += [(p.name, p.slot, True) for _, p in places_in(s)]
            every += [(n.tensor, n.slot, True) for n in reads_in(s) if isinstance(n, Read)]
            found = self.places[id(s)] = [place for place in dict.fromkeys(every) if place[0] in self.arrays]
        return found

    def _touch(self, s: Statement, key: Key) -> None:
        if not isinstance(self.arrays.get(key[0]), nodes.Reg):
            return
        other = self._running_on(key)
        if other is not None:
            self.fault("E1617", s, other, name=key[0], token=other.token)

    def _give_back(self, s: Statement, key: Key) -> None:
        other = self._running_on(key)
        if other is not None:
            self.fault(
                "E1613",
                s,
                other,
                place=key[0],
                fault=Phrase("is given back while %{token} may still read it", token=other.token),
            )
        elif key in self.read:
            self.fault(
                "E1613",
                s,
                self.read[key],
                place=key[0],
                fault=Phrase("is given back with no barrier after other threads read it"),
            )

    def _running_on(self, key: Key) -> nodes.Wgmma | None:
        return next((one for one, keys in zip(self.running, self.keys) if key in keys), None)
