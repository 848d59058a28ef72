"""The order of what a kernel does: one CTA's threads go through it at sizes at which its loops turn a few times.

Of each slot of shared memory it is watched who reads and writes it, and whether that is known to be over where it is
used again. A party (a warpgroup or a warp of a role, or all threads outside of roles) knows of itself after its
barriers, of others by phases of mbarriers, and of an engine by waits for it.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .polynomials import WORD, Poly, constant, read, value
from .text import ENGINES, Half, Kernel, Line, Obligation, Points, Text, bytes_of, statements

MOST_STEPS = 4000  # of a run; what it has seen by then it has seen
SIZES = (16384, 72, 8)  # of all symbols, and of each while the others are 8
ORDERING = ENGINES | {*"wait wait_group arrive drain barrier advance commit block_reduce block_scan role".split()}
STRANGE = frozenset("ticket publish look_back".split())  # for CTAs of other clusters
Walk = Iterator[Callable[[], bool]]  # gives, where it waits, what it waits for
Clock = dict[Any, int]


class Lost(Exception):
    """What a run does not follow."""


class Enough(Exception):
    """The end of a run that would go on."""


def holds(guard: Sequence[Half], names: dict[str, int]) -> list[bool | None]:
    """Whether each side of a guard holds; None where a name has no number."""
    sides = [(value(poly, names), is_equal) for poly, is_equal in guard]
    return [None if v is None else v == 0 if is_equal else v >= 0 for v, is_equal in sides]


class Touch:
    """A read or a write. `done`: the party's step at which it was over; None before. A load is over when phase `done`
    of `by` is complete."""

    def __init__(self, party: Party, is_write: bool, is_of_engine: bool):
        self.party, self.is_write, self.is_of_engine, self.by = party, is_write, is_of_engine, party.who
        self.done = party.step if party.alone and not is_of_engine else None
        self.cells: list[Any] = []

    def is_over(self, party: Party) -> bool:
        """Whether a party knows that it is over."""
        is_own = party.alone and self.by == party.who
        return self.done is not None and (bool(is_own) or party.clock.get(self.by, 0) >= self.done)


class Party:
    """Threads that go through a kernel together. `step` counts what they have told others and their barriers; `alone`
    is the guard that picks the one thread at work, by a name that tells threads `apart`. `clock` has the steps that are
    known to be over, of their own since a barrier, by whom: all of a party, or one thread `alone`."""

    def __init__(self, names: dict[str, int], clock: Clock, apart: str = "thread.index"):
        self.names, self.clock, self.rings, self.cta = names, clock, {}, names["cluster.rank"]
        self.step, self.alone, self.apart, self.lone = 1, "", {"thread.index", apart}, {""}
        self.open: list[tuple[Any, Touch]] = []
        self.groups: dict[str, list[list[Touch]]] = {}

    @property
    def who(self) -> tuple[Party, str]:
        """Who is at work."""
        return self, self.alone

    def tell(self) -> Clock:
        """What others learn here of this party, or of the one thread at work."""
        self.step += 1
        return self.clock | {(self, alone): self.step - 1 for alone in ({self.alone} if self.alone else self.lone)}

    def learn(self, clock: Clock) -> None:
        """Joins what others have told."""
        self.clock |= {who: max(step, self.clock.get(who, 0)) for who, step in clock.items() if who[0] is not self}

    def meet(self, is_warp: bool = False) -> None:
        """A barrier of all these threads, or of each warp: of a slot for each warp that is all there is to know."""
        for cell, touch in self.open:
            if not is_warp or cell[1] == "warp":
                touch.done = 0 if is_warp else self.step
        self.open = [(cell, touch) for cell, touch in self.open if touch.done is None]
        if not is_warp:
            self.clock = self.tell()

    def put(self, cursor: str, slot: int, phase: int) -> None:
        """Puts a cursor on a slot."""
        previous = (slot - 1) % self.rings[cursor]
        self.names |= {f"{cursor}.slot": slot, f"{cursor}.phase": phase, f"{cursor}.previous": previous}

    def call(self, name: str, number: int | None) -> None:
        """Gives a name its number, or none."""
        self.names.pop(name, None)
        if number is not None:
            self.names[name] = number

    def known(self, poly: Poly) -> int:
        """The number of an integer. Raises Lost."""
        found = value(poly, self.names)
        if found is None:
            raise Lost
        return found


class Run:
    """A CTA at given sizes. `faults`: the arrays of which some touch is not in order."""

    def __init__(self, kernel: Kernel, sizes: dict[str, int]):
        self.steps, self.faults, self.turned = 0, set[str](), set[int]()
        self.arrays = {s.get("name"): s for s in statements(kernel.body) if s.kind in ("shared", "mbarrier", "reg")}
        self.cells: dict[Any, list[Touch]] = {}
        self.phases: dict[Any, list[Any]] = {}  # arrivals, bytes, what they told; then what each complete phase told
        self.gone: list[Party] = []
        self.slots: dict[str, set[bool]] = {}
        self.touched: dict[int, list[tuple[str, Any, bool]]] = {}
        self.waiting: list[tuple[Party, Walk, Callable[[], bool]]] = []
        self.ctas = math.prod(kernel.cluster)
        for cta in range(self.ctas):
            rank, places = cta, {"cluster.rank": cta}
            for axis, size in zip("xyz", (*kernel.cluster, 1, 1, 1)):
                places[f"cta.{axis}"], rank = rank % size, rank // size
            self._start(Party({**sizes, **places}, {}), kernel.body)
        with contextlib.suppress(Enough):
            self._drive()

    def _start(self, party: Party, body: Sequence[Line]) -> Party:
        self.waiting.append((party, self._block(body, party), lambda: True))
        return party

    def has_turned(self, ring: Line) -> bool:
        """Whether the phases of mbarriers have gone round their ring, and once more."""
        complete = sum(len(phases[3]) for cell, phases in self.phases.items() if cell[0] == ring.get("name"))
        return complete >= 2 * ring.get("ring", 1)

    def _drive(self) -> None:
        """Lets parties go on in turn until all are at the end."""
        while self.waiting:
            ready = [one for one in self.waiting if one[2]()]
            if not ready:
                raise Lost  # they wait for ever
            for one in ready:
                self.waiting.remove(one)
                party, walk, _ = one
                wish = next(walk, None)
                if wish is not None:
                    self.waiting.append((party, walk, wish))
                    continue
                self.gone.append(party)
                stores = party.groups.get("tma_store", ())
                self.faults |= {cell[0] for group in stores for touch in group for cell in touch.cells}

    def _block(self, body: Sequence[Line], party: Party) -> Walk:
        roles: list[Party] = []
        for at, s in enumerate(body):
            if s.kind == "role":
                first, is_wide = s.get("first"), s.get("unit") == "warpgroups"
                for index in range(s.get("last") - first):
                    own = {"warpgroup.index": index} if is_wide else {"warp.index": first + index}
                    apart = "warpgroup.thread" if is_wide else "lane"
                    roles.append(self._start(Party({**party.names, **own}, party.tell(), apart), s.body))
                if at + 1 == len(body) or body[at + 1].kind != "role":
                    yield lambda: all(role in self.gone for role in roles)
                continue
            self.steps += 1
            if self.steps > MOST_STEPS or s.kind in STRANGE:
                raise Lost if s.kind in STRANGE else Enough
            act = getattr(self, f"_{s.kind}", None)
            if act is None:
                self._access(s, party)
            else:
                yield from act(s, party) or ()

    # --- blocks and integers

    def _for(self, s: Line, party: Party) -> Walk:
        ends = [value(s.get(end, {(): 1}), party.names) for end in ("low", "high", "step")]
        is_plain = not any(inner.kind in ORDERING for inner in statements(s.body))
        if None in ends and not is_plain:
            raise Lost
        numbers = [None] if None in ends else range(*ends)  # pyright: ignore
        if s.get("drawn") and None not in ends:  # the other CTAs have no turn before this one has drawn all
            numbers = [n for n in (ends[0], *range(ends[2], ends[1])) if n < ends[1]]  # pyright: ignore
        for turn in numbers:
            self.turned.add(s.number)
            party.call(s.get("name"), None if is_plain else turn)
            yield from self._block(s.body, party)
            if is_plain:
                break

    def _if(self, s: Line, party: Party) -> Walk:
        sides, before = holds(s.get("guard"), party.names), party.alone
        if any(is_equal and self._is_of_one(poly, party) for poly, is_equal in s.get("guard")):
            party.alone = party.alone or s.text
            party.lone.add(party.alone)
        if False not in sides:
            yield from self._block(s.body, party)
        party.alone = before
        if not all(sides):
            yield from self._block(s.otherwise, party)

    def _is_of_one(self, poly: Poly, party: Party) -> bool:
        """Whether at most one thread of a party can make an integer 0."""
        names = {atom for monomial in poly for atom in monomial}
        return len(names) == 1 and names <= party.apart

    def _each(self, s: Line, party: Party) -> Walk:
        yield from self._block(s.body, party)

    def _let(self, s: Line, party: Party) -> None:
        party.call(s.get("name"), value(s.get("value"), party.names))

    def _least(self, s: Line, party: Party) -> None:
        found = [value(e, party.names) for e in s.get("of")]
        party.call(s.get("name"), None if None in found else (min if s.kind == "least" else max)(found))  # pyright: ignore

    _most = _least

    def _order(self, s: Line, party: Party) -> None:
        tile, rows = value(s.get("tile"), party.names), value(s.get("of")[0], party.names)
        found = (None, None) if tile is None or not rows else (tile % rows, tile // rows)
        for called, number in zip(s.get("names"), found):
            party.call(called, number)

    def _cursor(self, s: Line, party: Party) -> None:
        party.rings[s.get("name")] = s.get("ring")
        party.put(s.get("name"), s.get("at", 0), s.get("phase", 0))

    def _advance(self, s: Line, party: Party) -> None:
        called = s.get("name")
        turns, slot = divmod(party.names[f"{called}.slot"] + party.known(s.get("by", {(): 1})), party.rings[called])
        party.put(called, slot, party.names[f"{called}.phase"] ^ turns & 1)

    # --- what is waited for

    def _barrier(self, s: Line, party: Party) -> Walk:
        scope, threads = s.get("scope", "cta"), s.get("threads", 0)
        if s.get("half"):
            return  # it orders the set-up of mbarriers alone
        party.meet(scope == "warp")
        for gone in self.gone if scope in ("cta", "cluster") else ():
            if gone.cta == party.cta:
                gone.meet()
                party.learn(gone.tell())
        if threads or scope == "cluster":
            called = f"barrier {scope}"
            turn = party.names[called] = party.names.get(called, 0) + 1
            self._arrived((called, turn, threads and party.cta), party.tell(), 0, threads // 128 or self.ctas)
            yield from self._wait_for((called, turn, threads and party.cta), 0, party)

    def _block_reduce(self, s: Line, party: Party) -> Walk:
        if not s.get("fresh"):
            yield from self._barrier(s, party)
        if s.get("via"):
            self._touch((s.get("via"), 0, party.cta), Touch(party, True, False))
            yield from self._barrier(s, party)
            self._touch((s.get("via"), 0, party.cta), Touch(party, False, False))

    _block_scan = _block_reduce

    def _mbarrier(self, s: Line, party: Party) -> None:
        self._touch((s.get("name"), "set up", party.cta), Touch(party, True, False))

    def _wait(self, s: Line, party: Party) -> Walk:
        yield from self._wait_for(self._cell(s.get("on"), party), party.known(s.get("phase")), party)

    def _drain(self, s: Line, party: Party) -> Walk:
        slot, phase = (party.names[f"{s.get('name')}.{field}"] for field in ("slot", "phase"))
        ring = party.rings[s.get("name")]
        for n in range(slot, slot + ring):
            yield from self._wait_for((s.get("on"), n % ring, party.cta), phase ^ n // ring, party)

    def _wait_for(self, cell: Any, parity: int, party: Party) -> Walk:
        if cell[0] in self.arrays:
            self._touch((cell[0], "set up", party.cta), Touch(party, False, False))
        complete, known = self._phases(cell)[3], party.clock.get(cell, 0)
        wanted = known if known % 2 != parity else known + 1
        if len(complete) < wanted:
            yield lambda: len(complete) >= wanted
        if len(complete) > wanted > known:
            raise Lost  # a phase may be missed
        party.learn(complete[wanted - 1] if wanted else {})

    def _phases(self, cell: Any) -> list[Any]:
        return self.phases.setdefault(cell, [0, 0, {}, []])

    def _arrive(self, s: Line, party: Party) -> None:
        name, slot, own = self._cell(s.get("on"), party)
        self._touch((name, "set up", own), Touch(party, False, False))
        for cta in map(party.known, s.get("ctas", ({(): own} if own else {},))):
            self._arrived((name, slot, cta), party.tell(), s.get("expect", 0))

    def _arrived(self, cell: Any, clock: Clock | None, size: int, wanted: int = 0) -> None:
        phases = self._phases(cell)
        phases[0] += clock is not None
        phases[1] += size
        phases[2] |= {who: max(step, phases[2].get(who, 0)) for who, step in (clock or {}).items()}
        if phases[0] >= (wanted or self.arrays[cell[0]].get("count")) and not phases[1]:
            phases[3].append({**phases[2], cell: len(phases[3]) + 1})
            phases[0], phases[2] = 0, {}

    def _wait_group(self, s: Line, party: Party) -> None:
        groups = party.groups.setdefault(s.get("engine"), [])
        while len(groups) > s.get("pending"):
            for touch in groups.pop(0):
                touch.done, touch.by = party.step, party.who

    def _commit(self, s: Line, party: Party) -> None:
        party.groups.setdefault("cp_async", []).append([t for group in party.groups.pop("open", []) for t in group])

    # --- shared memory

    def _access(self, s: Line, party: Party) -> None:
        """What a statement reads and writes; an engine's reads or writes go on."""
        if s.number not in self.touched:
            self.touched[s.number] = self._touched_by(s)
        touches, is_sent = [], s.kind in ("tma_load", "send")
        for name, brackets, is_write in self.touched[s.number]:
            if is_sent and is_write and not party.alone and self.arrays[name].get("kind") != "wgmma":
                raise Lost  # by every thread
            ctas = s.get("ctas", [s.get("cta")] if "cta" in s.has else ()) if is_sent and is_write else ()
            for cta in map(party.known, ctas) if ctas else (party.cta,):
                one = Touch(party, is_write, s.kind in ENGINES and (is_write or s.kind != "cp_async"))
                touches.append(one)
                if is_sent and is_write:
                    one.by = (*self._cell(s.get("on"), party)[:2], cta)
                    one.done = len(self._phases(one.by)[3]) + 1
                for cell in self._cells(name, brackets, party, cta):
                    self._touch(cell, one)
                if is_sent and is_write:
                    parts = len(ctas) if s.kind == "tma_load" and ctas else 1
                    self._arrived(one.by, None, -self._bytes(s, name) // parts)
        if s.kind in ("cp_async", "wgmma", "tma_store"):
            party.groups.setdefault("open" if s.kind == "cp_async" else s.kind, []).append(touches)

    def _touched_by(self, s: Line) -> list[tuple[str, Any, bool]]:
        """The arrays that a statement names, with brackets, and whether it writes them."""
        found = [(a.name, a.brackets, a.is_write) for a in s.accesses]
        to = s.text.partition(" += " if s.kind == "wgmma" else " <- ")
        written = WORD.findall(to[0]) if to[1] else ()
        whole = {*WORD.findall(s.text)} - {name for name, _, _ in found} if s.kind != "shared" else ()
        found += [(name, (), name in written) for name in sorted(whole)]
        # of mbarriers `wait` and `arrive` speak
        return [one for one in found if one[0] in self.arrays and self.arrays[one[0]].kind != "mbarrier"]

    def _bytes(self, s: Line, name: str) -> int:
        array = self.arrays[name]
        sizes, shape = (math.prod(constant(e) or 0 for e in of) for of in (s.get("size", ()), array.get("shape")))
        return bytes_of(array) // array.get("ring", 1) * sizes // (shape if s.get("size") else 1)

    def _touch(self, cell: Any, touch: Touch) -> None:
        touches, is_own = self.cells.setdefault(cell, []), self.arrays[cell[0]].kind == "reg"
        touch.cells.append(cell)
        for other in touches if touch.is_write else [t for t in touches if t.is_write]:
            is_one = (other.by, other.done) == (touch.by, touch.done)
            is_free = (
                (is_one or not other.is_of_engine and not touch.is_of_engine) and other.is_write and touch.is_write
            )
            is_free = is_free or is_own and (other.done is not None or not other.is_of_engine)
            if not is_free and not other.is_over(touch.party):
                self.faults.add(cell[0])
        # an earlier touch of the same threads is over for whoever knows that the later one is
        like = None if touch.is_of_engine else (touch.by, touch.is_write, False)
        over = [t for t in touches if touch.is_write and t.is_over(touch.party)]
        over += [t for t in touches if (t.by, t.is_write, t.is_of_engine) == like]
        self.cells[cell] = [t for t in touches if t not in over] + [touch]
        if not touch.is_of_engine and touch.done is None:
            touch.party.open.append((cell, touch))

    def _cells(self, name: str, brackets: Any, party: Party, cta: int) -> list[Any]:
        array = self.arrays[name]
        if array.get("cluster"):
            raise Lost
        ring, slots, found = array.get("ring", 1), self.slots.setdefault(name, set()), None
        if brackets and ring > 1:
            found = "warp" if brackets[0][0] == {("warp.index",): 1} else value(brackets[0][0], party.names)
        slots.add(found == "warp")
        if len(slots) > 1:
            raise Lost  # a slot that is a warp's and another's
        owner = party if array.kind == "reg" else cta
        return [(name, n, owner) for n in (range(ring) if found is None else (found,))]

    def _cell(self, place: str, party: Party) -> Any:
        name, _, slot = place.partition("[")
        return name, party.known(read(slot[:-1])) if slot else 0, party.cta


def order(kernel: Kernel, text: Text, points: Points) -> Iterator[Obligation]:
    """That a run has a turn of each loop that orders anything, and that what kernels use in order is so used."""
    runs = runs_of(kernel, text)
    for s in statements(kernel.body):
        if s.kind == "for" and any(inner.kind in ORDERING for inner in statements(s.body)):
            yield Obligation(s.number, "turns in a run", shows=any(s.number in run.turned for run in runs))
        if s.kind in ("shared", "mbarrier") or s.kind == "reg" and s.get("kind", "").startswith("wgmma"):
            is_used_so = bool(runs) and not any(s.get("name") in run.faults for run in runs)
            yield Obligation(s.number, "used in order", shows=is_used_so)


def runs_of(kernel: Kernel, text: Text) -> list[Run]:
    """Runs at some of the sizes that the kernel is for; none where one of them cannot tell, or where sizes are symbols
    and no run has turned every ring of mbarriers that a loop uses."""
    symbols, body = text.symbols(), [*statements(kernel.body)]
    used = WORD.findall(" ".join(o.text for s in body if s.kind == "for" for o in statements(s.body)))
    rings = [s for s in body if s.kind == "mbarrier" and s.get("name") in used and symbols]
    guards = [half for s in kernel.body if s.kind == "assume" for half in s.get("guard")]
    draws = [dict.fromkeys(symbols, size) for size in (SIZES if symbols else SIZES[:1])]
    draws += [{**draws[-1], symbol: SIZES[0]} for symbol in symbols if len(symbols) > 1]
    try:
        runs = [Run(kernel, sizes) for sizes in draws if all(holds(guards, sizes))]
    except Lost:
        return []
    return runs if all(any(run.has_turned(ring) for run in runs) for ring in rings) else []
