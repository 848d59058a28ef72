"""The verifier of gpu text: an mbarrier is set up, and all know it, before it is used; a role waits for it as often as
it completes.

    mbarrier full ring 8 count 1
    fence mbarrier_init
    if thread.index = 0                             the thread that has set up slot 0
      arrive full[0] expect 16384 B
    barrier cta                                     from here on all slots, by all threads
    role producer ...
      for k in 1..steps                             1 + (steps - 1) times filled
        arrive full[p.slot] expect 16384 B
    role consumer ...
      for k in 0..steps                             steps times waited for
        wait full[s.slot] phase s.phase for %load

A slot that is used too early hangs on a card, or does not, as warps happen to run; so does one that is waited for once
more than it is filled.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any

from ...kit.diag import Diag, Label
from ...kit.groups import lists_of
from ...kit.phrase import Listing, Phrase
from ...kit.records import dataclass, field
from ..body import show_body, substitute
from ..expr import ONE, ZERO, Expr
from ..traits import axes_of
from . import nodes
from .extremes import EXTREMES, as_name
from .nodes import Kernel, Place, Statement
from .walk import THREAD_NAMES, Visit, statements

WARPGROUP = 128  # threads
Trips = dict[
    tuple[tuple[Expr, Expr, Expr], ...], Expr
]  # by the loops around the innermost one: how often that one turns, in all


def check_mbarriers(kernel: Kernel, walked: list[Visit], module: Any) -> Iterator[Diag]:
    """E1616 for an mbarrier that is used before it is set up, or waited for more or less often than its phases
    complete."""
    told: set[tuple[str, str]] = set()
    for place, fault, s in _uses(kernel.body, _SetUp(), False):
        if (place.name, fault) not in told:  # its first use is enough
            told.add((place.name, fault))
            yield Diag("E1616", kernel.name, {"barrier": str(place), "fault": fault}, s.span)
    yield from _check_counts(kernel, walked)


@dataclass
class _SetUp:
    """The mbarriers that are declared; whose set-up a fence has made known; of which all threads know, those of the CTA
    and those of the cluster; and what the first half of a cluster's barrier has told."""

    made: set[str] = field(default_factory=set)
    fenced: set[str] = field(default_factory=set)
    met: set[str] = field(default_factory=set)
    told: set[str] = field(default_factory=set)
    begun: set[str] = field(default_factory=set)

    def copy(self) -> _SetUp:
        return _SetUp(*(set(own) for own in (self.made, self.fenced, self.met, self.told, self.begun)))

    def see(self, s: Statement) -> None:
        """What a statement adds."""
        if isinstance(s, nodes.Mbarrier):
            self.made.add(s.name)
        elif isinstance(s, nodes.Fence) and s.what == "mbarrier_init":
            self.fenced |= self.made
        elif isinstance(s, nodes.BlockReduce) or isinstance(s, nodes.Barrier) and s.scope == "cta":
            self.met |= self.fenced
        elif isinstance(s, nodes.Barrier) and s.scope == "cluster":
            self.told = self.told if s.half == "wait" else set(self.fenced)
            if s.half != "arrive":
                self.met |= self.told
                self.begun |= self.told


def _uses(body: Iterable[Statement], known: _SetUp, is_first: bool) -> Iterator[tuple[Place, str, Statement]]:
    """The faults of a block in which only thread 0 is at work (`is_first`), or others too. What roles see does not
    reach one another."""
    for s in body:
        known.see(s)
        for place, is_remote in _used_by(s):
            if fault := _fault_of(place, s, known, is_first, is_remote):
                yield place, fault, s
        if isinstance(s, nodes.Role):
            yield from _uses(s.body, known.copy(), False)
        elif isinstance(s, (nodes.For, nodes.If, nodes.Each)):
            picks = isinstance(s, nodes.If) and any(
                b.expr == Expr.of("thread.index") and b.equals == ZERO for b in s.guard
            )
            yield from _uses(s.body, known, is_first or picks)
            yield from _uses(getattr(s, "otherwise", ()), known, is_first)


def _used_by(s: Statement) -> Iterator[tuple[Place, bool]]:
    """The mbarriers that a statement uses, and whether another CTA's too."""
    if isinstance(s, (nodes.Arrive, nodes.Wait)):
        yield s.barrier, bool(getattr(s, "cluster", ()))
    elif isinstance(s, nodes.TmaLoad):
        yield s.on, bool(s.multicast)
    elif isinstance(s, nodes.Send):
        yield s.on, True
    elif isinstance(s, nodes.Drain):
        yield Place(s.barrier, ()), False
    elif isinstance(s, nodes.For) and s.via:
        yield from ((Place(name, ()), False) for name in (s.full, s.empty))


def _fault_of(place: Place, s: Statement, known: _SetUp, is_first: bool, is_remote: bool) -> str:
    name = place.name
    if name not in known.fenced:
        return Phrase("is used before `fence mbarrier_init`, which makes its set-up known")
    if is_remote and name not in known.begun:
        return Phrase("of another CTA is used before `barrier cluster`: that one may not have set it up")
    if name in known.met or is_first and not isinstance(s, nodes.Wait) and place.slot in (None, ZERO):
        return ""
    return Phrase(
        "is used before the CTA's threads have met: until then thread 0 alone may use it, and slot 0 alone, "
        "which it has set up"
    )


def _check_counts(kernel: Kernel, walked: list[Visit]) -> Iterator[Diag]:
    """Every phase that loads complete is waited for, in each role that waits for any, and no phase that nothing
    completes."""
    loaded = {v.statement.on.name for v in walked if isinstance(v.statement, nodes.TmaLoad)}
    for barrier in statements(kernel.body):
        if isinstance(barrier, nodes.Mbarrier) and barrier.name in loaded and barrier.count == 1:
            met = [v for v in walked if isinstance(v.statement, (nodes.Arrive, nodes.Wait))]
            yield from _count_faults(kernel, barrier, [v for v in met if v.statement.barrier.name == barrier.name])


def _count_faults(kernel: Kernel, barrier: nodes.Mbarrier, own: list[Visit]) -> Iterator[Diag]:
    """Of one barrier, at which `own` arrive and wait."""
    arrives = [v for v in own if isinstance(v.statement, nodes.Arrive)]
    depth = max(map(_depth, own), default=0)
    filled = _trips(arrives, depth)
    by_role = lists_of((_role_of(v), v) for v in own if isinstance(v.statement, nodes.Wait))
    for role, waits in by_role.items():
        waited = _trips(waits, depth)
        if waited is not None and role is not None:
            waited = _of_all_warpgroups(waited, role.threads // WARPGROUP)
        if filled is None or waited is None or _are_as_many(filled, waited, waits[0]):
            continue
        who = f"role {role.name}" if role is not None else Phrase("the CTA")
        asked, done = _show(waits, nodes.Wait), _show(own, nodes.Arrive)
        fault = Phrase("is completed by nothing, and {who} waits for it {waits}", who=who, waits=asked)
        if arrives:
            fault = Phrase("completes {own}, and {who} waits for it {waits}", own=done, who=who, waits=asked)
        first = arrives[0].statement.span if arrives else None
        label = (Label(first, Phrase("completed here")),) if first else ()
        yield Diag("E1616", kernel.name, {"barrier": barrier.name, "fault": fault}, waits[0].statement.span, label)


def _are_as_many(some: Trips, others: Trips, at: Visit) -> bool:
    """Whether two statements run equally often, by their words or by what is known there."""
    facts = at.facts
    return some.keys() == others.keys() and all(
        n == m or facts.is_at_least(n, m) and facts.is_at_least(m, n) for n, m in ((some[a], others[a]) for a in some)
    )


def _role_of(v: Visit) -> nodes.Role | None:
    return next((s for s in v.path if isinstance(s, nodes.Role)), None)


def _depth(v: Visit) -> int:
    return sum(isinstance(s, nodes.For) for s in v.path)


def _trips(those: Iterable[Visit], depth: int, is_spelled_out: bool = True) -> Trips | None:
    """How often statements run together, of which the innermost are in this number of loops: those turn so often in
    each turn of the others. None where a block around one depends on more than which thread it is. Spelled out, two
    that are alike are equal."""
    found: Trips = {}
    for v in those:
        loops: list[tuple[Expr, Expr, Expr]] = []
        names: dict[str, Expr] = {}
        for s in v.path:
            if isinstance(s, nodes.For):
                loops.append(
                    tuple(
                        _spelled_out(e, v).substitute(names) if is_spelled_out else e for e in (s.low, s.high, s.step)
                    )
                )
                names[s.name] = Expr.of(f"turn {len(loops)}")  # two roles may name it as they like
            elif (
                isinstance(s, nodes.Each)
                or isinstance(s, nodes.If)
                and any(set(b.expr.names()) - THREAD_NAMES for b in s.guard)
            ):
                return None
        low, high, step = loops.pop() if len(loops) == depth > 0 else (ZERO, ONE, ONE)
        if step.constant is None:
            return None
        around = tuple(loops)
        found[around] = found.get(around, ZERO) + (high - low).ceildiv(step.constant)
    return found


def _of_all_warpgroups(trips: Trips, count: int) -> Trips:
    """How often statements run in all the warpgroups of a role that take a loop's turns one after another: warpgroup w
    of two the turns `low + w*step`, two steps apart, and together each step."""
    return {tuple(_joined(loop, count) for loop in around): number for around, number in trips.items()}


def _joined(loop: tuple[Expr, Expr, Expr], count: int) -> tuple[Expr, Expr, Expr]:
    low, high, step = loop
    first, second = (low.substitute({"warpgroup.index": number}) for number in (0, 1))
    apart = (second - first).constant
    return (first, high, Expr.of(apart)) if apart and count * apart == step.constant else loop


def _spelled_out(e: Expr, v: Visit) -> Expr:
    """The expression with the values of `let` for their names, and of `least`, `most` and `choose` what they are of."""
    while given := {name: found for name in e.names() if (found := _value(name, v)) is not None}:
        e = e.substitute(given)
    return e


def _value(name: str, v: Visit) -> Expr | None:
    made = v.names.get(name)
    if isinstance(made, EXTREMES):
        return as_name(made, tuple(_spelled_out(e, v) for e in made.of))
    if isinstance(made, nodes.Choose):
        known = {n: _spelled_out(Expr.of(n), v) for n in axes_of(made.value)}
        return Expr.of(f"place {show_body(substitute(made.value, known))} below {_spelled_out(made.extent, v)}")
    return made.value if isinstance(made, nodes.Let) else None


def _show(those: list[Visit], kind: type) -> str:
    """`steps - 1 times in each of cta.x..tiles`, in the words of the text."""
    shown = [v for v in those if isinstance(v.statement, kind)]
    trips = _trips(shown, max(map(_depth, those), default=0), False) or {}
    return Listing(
        (
            functools.reduce(
                lambda told, ends: Phrase("{told} in each of {low}..{high}", told=told, low=ends[0], high=ends[1]),
                around,
                Phrase("{count} times", count=count),
            )
            for around, count in trips.items()
        ),
        " and ",
    )
