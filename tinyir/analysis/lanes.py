"""The lanes of warps at a point of gpu text: every integer of the text as an array of [instructions, 32].

One row is one warp of the first CTA or of the one in the middle, at one turn of the loops around. What the data decide
has no value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from ..ir.expr import ONE, Bound, Expr
from ..ir.gpu.nodes import Kernel
from ..kit.records import dataclass, field, replace

WARP, GROUP = 32, 128  # threads of a warp, of a warpgroup
Numbers = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes at a point of the walk: the value of each name, and which of them are there. `runs` are the names that
    take neighbouring values one after the other, with how many. `corner` are the names of an `each` as the corner of
    the warp's 16 x 16 piece has them, where `is_first` is the piece's first element."""

    names: Numbers
    is_active: np.ndarray
    runs: Mapping[str, int] = field(default_factory=dict)
    corner: Numbers = field(default_factory=dict)
    is_first: np.ndarray | None = None

    @property
    def count(self) -> int:
        """Instructions."""
        return len(self.is_active)

    def at(self, e: Expr) -> np.ndarray:
        """The value of an expression. Raises KeyError where the data decide it."""
        with np.errstate(divide="ignore"):
            return np.broadcast_to(np.asarray(e.evaluate(self.names), np.int64), self.is_active.shape)

    def holds(self, guard: Iterable[Bound]) -> np.ndarray:
        """Where a guard holds; everywhere as far as the data decide it."""
        found = np.ones_like(self.is_active)
        for bound in guard:
            try:
                value = self.at(bound.expr)
                for limit, is_met in (
                    (bound.lower, np.greater_equal),
                    (bound.upper, np.less),
                    (bound.equals, np.equal),
                ):
                    if limit is not None:
                        found &= is_met(value, self.at(limit))
            except KeyError:
                continue
        return found

    def where(self, is_active: np.ndarray) -> Lanes:
        """Those of the lanes that are there too."""
        return replace(self, is_active=self.is_active & is_active)

    def given(self, **names: np.ndarray | int) -> Lanes:
        """Also these names."""
        return self.with_names(names)

    def with_names(self, names: Mapping[str, np.ndarray | int]) -> Lanes:
        """Also these names, each a number a lane or the same for all."""
        shape = self.is_active.shape
        return replace(
            self, names={**self.names, **{n: np.broadcast_to(np.asarray(v, np.int64), shape) for n, v in names.items()}}
        )

    def without(self, name: str) -> Lanes:
        """With a name that the data decide."""
        return replace(self, names={n: v for n, v in self.names.items() if n != name})

    def with_let(self, name: str, value: Expr) -> Lanes:
        """Also `let name = value`."""
        try:
            return self.with_names({name: self.at(value)})
        except KeyError:
            return self.without(name)

    def times(self, count: int) -> tuple[Lanes, np.ndarray]:
        """Every instruction `count` times, and which time it is."""

        def again(array: np.ndarray) -> np.ndarray:
            return np.repeat(array, count, axis=0)

        more = Lanes(
            {n: again(v) for n, v in self.names.items()},
            again(self.is_active),
            self.runs,
            {n: again(v) for n, v in self.corner.items()},
            None if self.is_first is None else again(self.is_first),
        )
        return more, np.tile(np.arange(count), self.count)[:, None]

    def packed(self) -> Lanes:
        """Without the instructions in which no lane takes part."""
        kept = self.is_active.any(axis=1)
        if kept.all():
            return self
        return Lanes(
            {n: v[kept] for n, v in self.names.items()},
            self.is_active[kept],
            self.runs,
            {n: v[kept] for n, v in self.corner.items()},
            None if self.is_first is None else self.is_first[kept],
        )


def start_of(kernel: Kernel, sizes: Mapping[str, int]) -> Lanes:
    """All warps of the first CTA and of the one in the middle."""
    x, y, z = (*kernel.block, 1, 1)[:3]
    grid = [max(1, e.evaluate(sizes)) for e in (*kernel.grid, ONE, ONE)[:3]]
    warps = -(-kernel.threads // WARP)
    places = list(dict.fromkeys([(0, 0, 0), tuple(size // 2 for size in grid)]))
    thread = np.tile(np.arange(warps * WARP).reshape(warps, WARP), (len(places), 1))
    cta = np.repeat(np.array(places), warps, axis=0)
    lanes = Lanes({}, thread < kernel.threads).with_names(dict(sizes))
    named = {
        "thread.index": thread,
        "thread.x": thread % x,
        "thread.y": thread // x % y,
        "thread.z": thread // (x * y),
        "lane": thread % WARP,
        "warp.index": thread // WARP,
        "warpgroup.index": thread // GROUP,
        "warpgroup.thread": thread % GROUP,
        "cluster.rank": cta[:, :1] % math.prod(kernel.cluster or (1,)),
    }
    return lanes.with_names(named | {f"cta.{axis}": cta[:, n : n + 1] for n, axis in enumerate("xyz")})
