"""Who knows of what in a dry run: the threads that go through a kernel together, and the barriers at which they learn
of one another.

A clock says of each party how far it had come at what is known: of threads the releases (`Party.tick`) and how often
they had met, of an mbarrier the phases. What a party did before a release is known to all whose clock has that release;
what one thread releases it does for itself, and for others of its party as far as they had met.
"""

from __future__ import annotations

from collections.abc import Hashable

from ....kit.records import dataclass, field

Clock = dict[Hashable, int]


@dataclass(slots=True, eq=False)
class Party:
    """Threads of one CTA that go through the kernel together. `tick` counts what they have released, `met` the
    barriers that all of them came to; `role` is what they are in."""

    number: int
    cta: int
    tick: int = 1
    met: int = 0
    clock: Clock = field(default_factory=dict)
    role: str = ""

    def release(self, met: int, thread: int | None = None) -> Clock:
        """What others learn of these threads here, where all of them did what was before this meeting of theirs; and of
        the one `thread` that tells, or of each."""
        told = {**self.clock, self.number: self.tick, (self.number, "met"): met, (self.number, thread): self.tick}
        self.tick += 1
        return told

    def learn(self, told: Clock) -> None:
        """Joins what others have told."""
        _join(self.clock, told)

    def knows(self, party: Party, tick: int, met: int) -> bool:
        """Whether another party's release is known, and that all of its threads came past a meeting before it."""
        return self.clock.get(party.number, 0) >= tick and self.clock.get((party.number, "met"), 0) > met

    def knows_of(self, party: Party, tick: int, thread: int) -> bool:
        """Whether a release by a thread of another party is known, or one by all of them."""
        return max(self.clock.get((party.number, who), 0) for who in (thread, None)) >= tick


@dataclass(slots=True)
class Phases:
    """An mbarrier: the clocks of the phases that are complete, and of the one that is not how many have arrived, how
    many bytes are expected, and what those who arrived knew."""

    key: Hashable
    count: int
    complete: list[Clock] = field(default_factory=list)
    arrived: int = 0
    bytes: int = 0
    told: Clock = field(default_factory=dict)

    def arrive(self, party: Party, expected: int, thread: int | None = None) -> None:
        """One arrival, by one `thread` or all, which expects this number of bytes."""
        _join(self.told, party.release(party.met, thread))
        self.arrived += 1
        self.bytes += expected
        self._close()

    def land(self, landed: int) -> None:
        """Bytes land."""
        self.bytes -= landed
        self._close()

    def _close(self) -> None:
        if self.arrived >= self.count and self.bytes == 0:
            number = len(self.complete)
            self.complete.append({**self.told, self.key: number + 1})
            self.arrived, self.told = 0, {}

    def wanted_by(self, party: Party, parity: int) -> int:
        """How many phases must be complete before a wait for this parity ends for certain: as many as the party knows
        of, or one more."""
        known = party.clock.get(self.key, 0)
        return known if known % 2 != parity else known + 1


@dataclass(slots=True)
class Meeting:
    """A barrier at which a number of parties meet; `is_told`: what they did before is known behind it."""

    parties: int
    is_told: bool = True
    come: int = 0
    clock: Clock = field(default_factory=dict)

    def come_to(self, party: Party) -> None:
        """A party is there."""
        self.come += 1
        if self.is_told:
            _join(self.clock, party.release(party.met + 1))

    @property
    def is_complete(self) -> bool:
        """Whether all are there."""
        return self.come >= self.parties

    def leave(self, party: Party) -> None:
        """A party goes on."""
        party.learn(self.clock)
        if self.is_told:
            party.met += 1


def _join(clock: Clock, told: Clock) -> None:
    """The later of both, for every party."""
    if not clock:
        clock.update(told)
        return
    for name, count in told.items():
        if name not in clock or count > clock[name]:
            clock[name] = count
