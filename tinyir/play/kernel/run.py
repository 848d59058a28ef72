"""A run of one cluster whose threads compute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...ir.gpu import nodes
from ...ir.gpu.dry.run import Run
from ...ir.gpu.dry.threads import Threads
from ...ir.gpu.walk import names_in, statements
from ...kit.records import dataclass, field
from .engines import Engines
from .threads import nothing
from .turns import are_turns_apart


@dataclass
class Playing(Run):
    """A run whose tensors are `tensors`, by name; `written` says where somebody has stored, and `stored` has one
    element of each store. `told` is what CTAs have published, for all clusters of a launch;
    `turned` counts the turns of each loop that is not unrolled, up to two or more."""

    tensors: Mapping[str, np.ndarray] = field(default_factory=dict)
    written: Mapping[str, np.ndarray] = field(default_factory=dict)
    stored: Mapping[str, list[tuple[int, ...]]] = field(default_factory=dict)
    told: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    turned: dict[int, int] = field(default_factory=dict)
    shared: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Run.__post_init__(self)
        self.spread: dict[int, bool] = {}
        self.used: dict[int, frozenset[str]] = {}
        self.picks = {s.name: s for s in statements(self.kernel.body) if isinstance(s, nodes.Pick)}
        for s in self.arrays.values():
            if isinstance(s, nodes.Shared):
                shape = [d.evaluate({}) for d in s.type.shape]
                self.shared[s.name] = nothing((self.ctas, s.ring, *shape), s.type.dtype)

    def party_of(self, cta: int, number: int) -> Threads:
        """Threads that compute."""
        return Engines(self, cta, number)

    def used_in(self, s: nodes.Statement) -> frozenset[str]:
        """The names that a statement uses, with what it holds and what it picks."""
        if id(s) not in self.used:
            named = {*names_in(s)}
            picked = (self.picks[name].at for name in named & self.picks.keys())
            self.used[id(s)] = frozenset(named.union(*(at.names() for at in picked)))
        return self.used[id(s)]

    def is_spread(self, s: nodes.For) -> bool:
        """Whether the turns of a loop need nothing of one another."""
        if id(s) not in self.spread:
            self.spread[id(s)] = are_turns_apart(s, self.arrays)
        return self.spread[id(s)]
