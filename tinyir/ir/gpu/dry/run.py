"""A dry run of one cluster: its threads go through the kernel as far as they can, stop where they wait, and learn of
one another at barriers. No element is computed.

Threads that take the same way, a warpgroup or a CTA without roles, go together as one party; integers that tell them
apart are arrays of a number for each thread, and so are guards, which leave some of the threads at work. Where single
threads of a party have waits of their own, one after another in the text, each goes on by itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ....kit.records import dataclass, field
from .. import nodes
from ..nodes import Kernel
from ..walk import statements
from .clocks import Meeting, Phases
from .memory import Memory
from .sizes import often_of
from .steps import Step
from .threads import WARPGROUP, Threads, Wish

MOST_STEPS = 2500  # of all parties together; what comes after them is not looked at
GROUPED = (nodes.Role, nodes.Mbarrier, nodes.Wgmma, nodes.TmaStore)


@dataclass
class Run:
    """What the parties of a cluster share. `cluster` counts clusters along each axis of the grid; `arrays` are what the
    kernel declares, by name; `operands` those that wgmma reads."""

    kernel: Kernel
    way: tuple[Step, ...]
    sizes: Mapping[str, int]
    cluster: tuple[int, ...] = ()
    memory: Memory = field(default_factory=Memory)
    phases: dict[tuple[int, str, int], Phases] = field(default_factory=dict)
    meetings: dict[tuple[Any, ...], Meeting] = field(default_factory=dict)
    steps: int = 0
    forks: int = 0  # threads that went on alone
    most: int = MOST_STEPS

    def __post_init__(self) -> None:
        every = list(statements(self.kernel.body))
        self.turns = self.turns_of(every)  # of a loop that draws its numbers
        self.arrays: dict[str, Any] = {
            s.name: s for s in every if isinstance(s, (nodes.Shared, nodes.Reg, nodes.Mbarrier, nodes.TensorMap))
        }
        self.operands = {p.name for s in every if isinstance(s, nodes.Wgmma) for p in (s.a, s.b)}
        self.unit = WARPGROUP if any(isinstance(s, GROUPED) for s in every) else self.kernel.threads
        self.ctas = math.prod(self.kernel.cluster)
        self.groups = -(-self.kernel.threads // self.unit)

    def whole(self) -> None:
        """Runs all parties to their ends. Raises Found at the first fault, Unknown where the run cannot go on."""
        parties = [self.party_of(cta, number) for cta in range(self.ctas) for number in range(self.groups)]
        walks = [party.whole() for party in parties]
        waiting: dict[int, Wish | None] = dict.fromkeys(range(len(walks)))
        while waiting:
            ready = [number for number, wish in waiting.items() if wish is None or wish[2]()]
            if not ready:
                here, what, _ = min(filter(None, waiting.values()), key=_by_place)
                raise here.fault("E1621", what=what)
            for number in ready:
                waiting[number] = next(walks[number], None)
                if waiting[number] is None:
                    del waiting[number]
        self.memory.leave()

    def turns_of(self, every: list[nodes.Statement]) -> int:
        """How often a loop is to turn: as often as at sizes that are chosen for a run."""
        return often_of(every)

    def party_of(self, cta: int, number: int) -> Threads:
        """The threads of one party."""
        return Threads(self, cta, number)

    def barrier(self, cta: int, name: str, slot: int) -> Phases:
        """An mbarrier of a CTA."""
        key = (cta, name, slot)
        if key not in self.phases:
            self.phases[key] = Phases(key, self.arrays[name].count)
        return self.phases[key]


def _by_place(wish: Wish) -> tuple[bool, int]:
    """The first wait of an mbarrier in the text, else the first barrier."""
    s = wish[0].statement
    return isinstance(s, nodes.Barrier), s.span.start if s.span else 0
