"""The points at which a statement runs: CTA, thread and turns of loops, as isl counts them at given sizes."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any

from ...kit.records import dataclass, replace
from ..expr import ONE, Bound, Expr, Floor, show_guard
from ..sets import WORDS, identifiers, read_map
from . import nodes
from .nodes import Kernel
from .verify import exprs_in
from .walk import AXES, statements

THREAD = "thread index"
RANK = "cluster.rank"
MOST_COUNTED = 1 << 12  # CTAs


class Lost(Exception):
    """isl cannot follow what the data decide, or what is not affine."""


@dataclass(frozen=True, slots=True)
class Ranged:
    """A dim runs over first..last in steps; both are of the dims before it."""

    dim: str
    first: Expr
    last: Expr
    step: int


@dataclass(frozen=True, slots=True)
class Guarded:
    """All bounds hold, or, if broken, not all of them."""

    bounds: tuple[Bound, ...]
    is_broken: bool


@dataclass(frozen=True, slots=True)
class _Held:
    """What holds at a point, in isl's notation, the dims that it speaks of, and what it is; None for what another says
    as well."""

    text: str
    dims: frozenset[str]
    says: Ranged | Guarded | None


@dataclass(frozen=True, slots=True)
class Point:
    """Where a store runs: each name as an expression of the dims, and what holds there, as isl text."""

    dims: tuple[str, ...]
    holds: tuple[_Held, ...]
    names: Mapping[str, Expr]
    lost: frozenset[str] = frozenset()  # names that only the data know

    def expr(self, e: Expr) -> Expr:
        """In terms of the dims. Raises Lost."""
        if any(n in self.lost or n not in self.names and n not in self.dims for n in e.names()):
            raise Lost
        found = _without_zeros(e.substitute(self.names), self.holds)
        if not found.is_affine():
            raise Lost
        return found

    def with_dim(self, name: str, low: Expr, high: Expr, step: int = 1) -> Point:
        """Also a name that runs over low..high."""
        dim = name
        while dim in self.dims or dim in WORDS:
            dim += "_"
        first, last = self.expr(low), self.expr(high)
        ranged = Ranged(dim, first, last, step)
        held = [f"{first} <= {dim} < {last}"] + [f"({dim} - ({first})) mod {step} = 0"] * (step > 1)
        named = frozenset([dim, *first.names(), *last.names()])
        return replace(
            self,
            dims=(*self.dims, dim),
            holds=(*self.holds, *(_Held(text, named, says) for text, says in zip(held, (ranged, None)))),
            names={**self.names, name: Expr.of(dim)},
            lost=self.lost - {name},
        )

    def with_name(self, name: str, value: Expr) -> Point:
        """Also name = value; lost where the value is."""
        try:
            return replace(self, names={**self.names, name: self.expr(value)}, lost=self.lost - {name})
        except Lost:
            return replace(self, lost=self.lost | {name})

    def under(self, guard: Iterable[Bound], is_broken: bool = False) -> Point:
        """Also a guard, or with `is_broken` that not all of it holds."""

        def put(e: Expr | None) -> Expr | None:
            return None if e is None else self.expr(e)

        bounds = tuple(Bound(self.expr(b.expr), put(b.lower), put(b.upper), put(b.equals)) for b in guard)
        text = show_guard(bounds) or "true"
        dims = frozenset().union(*(b.vocabulary for b in bounds))
        held = _Held(f"not ({text})" if is_broken else text, dims, Guarded(bounds, is_broken))
        return replace(self, holds=(*self.holds, held))


def _without_zeros(e: Expr, holds: tuple[_Held, ...]) -> Expr:
    """Without the floors of a dim by more than its range: a CTA's number in its cluster, by the cluster's size."""
    kept = []
    for coefficient, monomial in e.terms:
        atom = monomial[0] if len(monomial) == 1 else None
        name = atom.num.name if isinstance(atom, Floor) else None
        if name is None or not any(h.text == f"0 <= {name} < {atom.den}" for h in holds):
            kept.append((coefficient, monomial))
    return Expr(tuple(kept))


def map_of(point: Point, index: Iterable[Expr], clip: Iterable[int] = ()) -> Any:
    """Dims -> elements."""
    places = [point.expr(e) for e in index]
    names = identifiers(point.dims)
    renamed = {d: Expr.of(n) for d, n in names.items()}
    holds = [*(h.text for h in point.holds), *(f"0 <= {e} < {size}" for e, size in zip(places, clip))]
    text = " and ".join(f"({_renamed(h, names)})" for h in holds) or "true"
    outs = ", ".join(f"e{n}" for n in range(len(places)))
    equal = " and ".join(f"e{n} = {e.substitute(renamed)}" for n, e in enumerate(places)) or "true"
    return read_map(f"{{ [{', '.join(names.values())}] -> [{outs}] : {text} and {equal} }}", ())


def _renamed(text: str, names: Mapping[str, str]) -> str:
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, names[name]) if names[name] != name else text
    return text


def start_of(kernel: Kernel, sizes: Mapping[str, int]) -> Point:
    """Where a kernel starts: all threads of all CTAs, at these sizes of the symbols."""
    point = Point((), (), {n: Expr.of(v) for n, v in sizes.items()})
    rank, size = Expr.of(0), 1
    for axis, count, cluster in zip("xyz", (*kernel.grid, ONE, ONE), (*kernel.cluster, 1, 1, 1)):
        ctas = count.evaluate(sizes)
        if cluster == 1:
            point = point.with_dim(f"cta.{axis}", Expr.of(0), Expr.of(ctas))
            continue
        point = point.with_dim(f"cluster.{axis}", Expr.of(0), Expr.of(ctas // cluster)).with_dim(
            f"rank.{axis}", Expr.of(0), Expr.of(cluster)
        )
        inner = Expr.of(f"rank.{axis}")
        point = point.with_name(f"cta.{axis}", cluster * Expr.of(f"cluster.{axis}") + inner)
        rank, size = rank + size * inner, size * cluster
    return with_threads(point.with_name("cluster.rank", rank), kernel, 0, kernel.threads)


@functools.lru_cache(maxsize=64)
def _named_in(kernel: Kernel) -> frozenset[str]:
    """The integers that a kernel speaks of."""
    return frozenset(n for s in statements(kernel.body) for e in exprs_in(s) for n in e.names())


def with_threads(point: Point, kernel: Kernel, first: int, last: int) -> Point:
    """The threads first..last of the CTA, by the coordinates that the kernel speaks of: isl is quick where nothing has
    to be divided."""
    used = _named_in(kernel)
    if any(size > 1 for size in kernel.block[1:]):
        for axis, size in zip("xyz", (*kernel.block, 1, 1)):
            point = point.with_dim(f"thread.{axis}", Expr.of(0), Expr.of(size))
        x, y, z = (Expr.of(f"thread.{axis}") for axis in "xyz")
        t = x + kernel.block[0] * y + kernel.block[0] * (*kernel.block, 1)[1] * z
        return _named(point, {"thread.index": t, "warp.index": t // 32, "lane": t - 32 * (t // 32)}, used)
    parts = [
        n
        for n, words in (("warpgroup", {"warpgroup.index", "warpgroup.thread"}), ("warp", {"warp.index", "lane"}))
        if words & used
    ]
    t, unit = Expr.of(0), last - first
    for part in parts:
        size = 128 if part == "warpgroup" else 32
        if unit % size:
            continue
        point = point.with_dim(f"{part} number", Expr.of(0), Expr.of(unit // size))
        t, unit = t + size * Expr.of(f"{part} number"), size
    point = point.with_dim(THREAD, Expr.of(0), Expr.of(unit))
    low, t = Expr.of(THREAD), t + Expr.of(THREAD) + first
    group = t - low - 32 * Expr.of("warp number") if "warp" in parts and "warpgroup" in parts else t - low
    names = {
        "thread.index": t,
        "thread.x": t,
        "thread.y": Expr.of(0),
        "thread.z": Expr.of(0),
        "warp.index": (t - low).ceildiv(32) if unit == 32 else t // 32,
        "lane": low if unit == 32 else t - 32 * (t // 32),
        "warpgroup.index": (group - first).ceildiv(128),
        "warpgroup.thread": t - group,
    }
    return _named(point, names, used)


def without(point: Point, gone: set[str]) -> Point:
    """The point without some dims and what holds of them; names that are made of them are lost."""
    names = {n: e for n, e in point.names.items() if not gone & set(e.names())}
    holds = tuple(h for h in point.holds if not h.dims & gone)
    return Point(
        tuple(d for d in point.dims if d not in gone), holds, names, point.lost | (point.names.keys() - names.keys())
    )


def without_threads(point: Point) -> Point:
    """The point before it was known which threads there are. Raises Lost under a guard on them."""
    gone = {d for d in point.dims if d == THREAD or d.endswith(" number") or d.startswith("thread.")}
    if sum(bool(h.dims & gone) for h in point.holds) > len(gone):
        raise Lost
    return without(point, gone)


def depends(expr: Expr, dim: str, point: Point) -> bool:
    """Whether the expression is another one for another value of the dim. A term that is a multiple of the dim alone
    shows that, whatever the values are; else isl is asked."""
    other = expr.substitute({dim: 0})
    if [monomial for _, monomial in (expr - other).terms] == [(dim,)]:
        return True
    return not map_of(point, (expr,)).is_equal(map_of(point, (other,)))


def _named(point: Point, names: Mapping[str, Expr], used: set[str]) -> Point:
    for name in names:
        point = point.with_name(name, names[name]) if name in used else replace(point, lost=point.lost | {name})
    return point


def takes_turns(s: nodes.For, kernel: Kernel) -> bool:
    """Whether the CTAs whose numbers a loop begins at take the turns in between from one another: `for tile in
    cta.x..tiles step 132` of 132 CTAs. The sizes here may be too small to have more tiles than CTAs."""
    counts = dict(zip((f"cta.{axis}" for axis in AXES), kernel.grid)) | {RANK: Expr.of(math.prod(kernel.cluster))}
    own = {n: counts[n].constant for n in s.low.vocabulary & counts.keys()}
    step = s.step.constant
    if not own or None in own.values() or step is None or s.high.constant is not None or s.low.vocabulary - own.keys():
        return True
    if math.prod(own.values()) > MOST_COUNTED:
        return True
    begun = [s.low.evaluate(dict(zip(own, at))) for at in itertools.product(*map(range, own.values()))]
    return {n % step for n in begun} == set(range(step)) and max(begun) - min(begun) == step - 1
