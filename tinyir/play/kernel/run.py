"""A run of one cluster whose threads compute, and the loops whose turns may run at once: no turn reads what another has
written."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ...ir.body import Read
from ...ir.expr import Expr
from ...ir.gpu import nodes
from ...ir.gpu.dry.run import Run
from ...ir.gpu.dry.threads import Threads
from ...ir.gpu.nodes import Place, Statement
from ...ir.gpu.walk import names_in, reads_in, statements
from ...kit.records import dataclass, field
from .engines import Engines
from .threads import nothing


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

    def turns_of(self, every: list[nodes.Statement]) -> int:
        """All turns: each stores what no other does."""
        return sys.maxsize

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


ALLOWED = (nodes.Let, nodes.Value, nodes.Assign, nodes.For, nodes.If)


def are_turns_apart(loop: nodes.For, arrays: Mapping[str, Any]) -> bool:
    """Whether each turn writes elements of its own, in registers, and reads no others of those arrays."""
    inside = list(_statements(loop.body))
    if not all(isinstance(s, ALLOWED) for s in inside):
        return False
    turning = {loop.name, *(s.name for s in inside if isinstance(s, (nodes.For, nodes.Let)))}
    written = [s for s in inside if isinstance(s, nodes.Assign)]
    places: dict[str, set[Place]] = {}
    for s in written:
        array = arrays.get(s.to.name)
        if not isinstance(array, nodes.Reg) or array.kind or not _is_own(loop.name, s.to, turning):
            return False
        places.setdefault(s.to.name, set()).add(s.to)
    if any(len(found) > 1 for found in places.values()):
        return False
    for s in inside:
        for node in reads_in(s):
            if isinstance(node, Read) and node.tensor in places:
                if Place(node.tensor, node.index, node.slot) not in places[node.tensor]:
                    return False
    return True


def _is_own(name: str, place: Place, turning: set[str]) -> bool:
    """Whether an index tells the turns of a loop apart: along some axis nothing else turns."""
    return any(_turns(e, turning) == {name} and _is_linear(e, name) for e in place.index)


def _turns(e: Expr, turning: set[str]) -> set[str]:
    return turning.intersection(e.vocabulary)


def _is_linear(e: Expr, name: str) -> bool:
    return all(monomial == (name,) for _, monomial in e.terms if monomial)


def _statements(body: Iterable[Statement]) -> Iterator[Statement]:
    for s in body:
        yield s
        yield from _statements(getattr(s, "body", ()))
        yield from _statements(getattr(s, "otherwise", ()))
