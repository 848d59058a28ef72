"""What takes no sum: tokens, barriers, and what a card has."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from .polynomials import WORD, Poly, constant, read
from .stores import STORES, stored, stored_by
from .text import NAME, Kernel, Line, Obligation, Points, Text, bytes_each, bytes_of, integers, statements

SHARED_BYTES = {"sm80": 163 * 1024, "sm90": 227 * 1024}  # CUDA programming guide, compute capabilities 8.0 and 9.0
REGISTERS, REGISTERS_OF_A_THREAD, THREADS, NAMED_BARRIERS = 65536, 255, 1024, 16
UNITS = {"warps": 32, "warpgroups": 128}  # threads
WARPS, LANES = 2, 3  # what differs between warps, and between lanes of one; 1: between warpgroups alone
MET = frozenset("barrier block_reduce block_scan warp_reduce store_rows ticket publish look_back".split())
DEFINING = frozenset("let least most for order each choose".split())
WAITS = {"cp_async": "cp_async", "wgmma": "wgmma", "tma_store": "tma_store", "tma_load": "", "send": ""}


def rules(kernel: Kernel, text: Text, points: Points) -> Iterator[Obligation]:
    """The obligations of a kernel that are not bounds, each with whether its rule shows it."""
    body = list(statements(kernel.body))
    size_of_arrays = sum(-(-bytes_of(s) // 128) * 128 for s in body if s.kind == "shared")
    size_of_arrays += sum(8 * s.get("ring", 1) for s in body if s.kind == "mbarrier")
    roles = [s for s in body if s.kind == "role"]
    size = {r.number: _threads(r) for r in roles}
    registers = max(kernel.regs * kernel.threads, sum(size[r.number] * r.get("regs", 0) for r in roles))
    fits = registers <= REGISTERS and max([kernel.regs, *(r.get("regs", 0) for r in roles)]) <= REGISTERS_OF_A_THREAD
    yield Obligation(kernel.number, "shared memory", shows=size_of_arrays <= SHARED_BYTES.get(kernel.arch, 0))
    yield Obligation(kernel.number, "registers", shows=fits)
    yield Obligation(kernel.number, "threads", shows=1 <= kernel.threads <= THREADS)
    for line, called, passed in text.launches:
        if called == kernel.name:
            alike = all(text.tensors.get(own) == text.tensors.get(given) for own, given, _ in passed)
            alike = alike and all(_stays_inside(own, integers(place), body, text) for own, _, place in passed if place)
            yield Obligation(line, "tensors of its shapes", shows=alike)
    yield from _tokens(body)
    yield from _barriers(kernel.body, None, _levels(kernel), 0)
    for s in body:
        if s.get("drawn"):
            yield Obligation(s.number, "each drawn number has one turn", shows=_is_drawn_once(s, kernel, text))
    read = {m for s in body for a in s.accesses if not a.is_write for m in _memories(a.name, body, text)}
    shared, counts = {s.get("name") for s in body if s.kind == "shared"}, stored(kernel.body)
    for called in dict.fromkeys(stored_by(s) for s in body if s.kind in STORES and stored_by(s) not in shared):
        memories = _memories(called, body, text)
        beside = [other for other in counts if _memories(other, body, text) & memories]
        ways = [points.get(s.number) for s in body if s.kind in STORES and stored_by(s) == called]
        picked = next((s.get("of") for s in body if s.kind == "pick" and s.get("name") == called), (called,))
        is_one = beside == [called] and counts[called] == 1 and len(memories) == len(picked)
        is_one = is_one and all(way == ways[0] for way in ways)
        yield Obligation(kernel.number, f"one store {called}", shows=is_one)
        yield Obligation(kernel.number, f"not read {called}", shows=not memories & read)
    named = [(role, s) for role in roles for s in statements(role.body) if s.kind == "barrier" and s.get("threads")]
    for role, s in named:
        number, owners = s.get("scope"), {r.number for r, o in named if o.get("scope") == s.get("scope")}
        is_own = owners == {role.number} and number.isdigit() and 0 < int(number) < NAMED_BARRIERS
        yield Obligation(s.number, "barrier of its role", shows=is_own and s.get("threads") == size[role.number])


def _is_drawn_once(s: Line, kernel: Kernel, text: Text) -> bool:
    """Whether one thread draws the numbers of a loop, behind those that CTAs begin with, and hands them to every warp
    of the other roles that have the loop; and whether the counter begins as 0."""
    found = [(r, o) for r in kernel.body for o in statements(r.body) if o.get("drawn") and o.get("via") == s.get("via")]
    ends = [tuple(o.get(word) for word in ("low", "high", "step", "full", "empty")) for _, o in found]
    walks = [s.get("low"), s.get("step")] == [read("cta.x"), *kernel.grid] and not kernel.cluster
    drawing, taking = ([(r, o) for r, o in found if bool(o.get("of")) == draws] for draws in (True, False))
    is_alike = all(e == ends[0] for e in ends) and len({r.number for r, _ in found}) == len(found)
    if not (walks and is_alike and taking):
        return False
    named = [s.get(word) for word in ("via", "full", "empty")]
    made = {o.get("name"): o for o in statements(kernel.body) if o.kind in ("shared", "mbarrier")}
    if len(drawing) != 1 or not all(name in made for name in named) or any(r.kind != "role" for r, _ in found):
        return False
    (drawer, loop), (ring, full, empty) = drawing[0], (made[name] for name in named)
    is_one = _threads(drawer) == UNITS["warpgroups"] and any(
        loop in o.body and o.text == "if warpgroup.thread = 0" for o in drawer.body
    )
    counts = [full.get("count"), empty.get("count") * UNITS["warps"]] == [1, sum(_threads(r) for r, _ in taking)]
    slots = {o.get("ring", 1) for o in (ring, full, empty)}
    others = (o for o in statements(kernel.body) if o not in (ring, full, empty, *(o for _, o in found)))
    is_alone = not any({*named, loop.get("of")} & set(re.findall(NAME, o.text)) for o in others)
    fits = len(slots) == 1 < max(slots) and bytes_of(ring) == 4 * max(slots)
    is_taken = all(o in r.body for r, o in taking)
    return is_one and is_taken and counts and fits and is_alone and _begins_as_zero(loop.get("of"), kernel, text)


def _threads(role: Line) -> int:
    return (role.get("last") - role.get("first")) * UNITS[role.get("unit")]


def _begins_as_zero(called: str, kernel: Kernel, text: Text) -> bool:
    """Whether an earlier kernel of each run alone writes a counter, a 0 into its one element, by one thread."""
    before = text.kernels[: [k.name for k in text.kernels].index(kernel.name)]
    stores = [o for k in text.kernels for o in statements(k.body) if o.kind in STORES and stored_by(o) == called]
    early = [o for k in before if not k.is_once for o in statements(k.body) if o.text == f"store {called}[0] = 0 : u32"]
    dtype, sides = text.tensors.get(called, ("", ()))
    return dtype == "u32" and [constant(side) for side in sides] == [1] and len(early) == 1 and stores == early


def _stays_inside(called: str, place: Sequence[Poly], body: Sequence[Line], text: Text) -> bool:
    """Whether a tensor that is passed from a place on is read by its own name alone, along axes that it is moved along
    at whole numbers that stay inside; and whether the place is a multiple of 16 bytes away."""
    dtype, shape = text.tensors.get(called, ("", ()))
    sides, by = [constant(e) or 0 for e in shape], [constant(e) or 0 for e in place] + [0] * len(shape)
    before = sum(n * math.prod(sides[axis + 1 :]) for axis, n in enumerate(by[: len(sides)])) * bytes_each(dtype)
    reads = [a for s in body for a in s.accesses if a.name == called]
    at = [(constant(e), n, side) for a in reads for e, n, side in zip(a.brackets[0], by, sides) if n]
    is_read = all(not a.is_write and len(a.brackets) == 1 for a in reads)
    is_named = any(s.kind in ("tensor_map", "pick") and called in re.findall(NAME, s.text) for s in body)
    is_inside = all(n is not None and 0 <= n + more < side for n, more, side in at)
    return is_read and not is_named and is_inside and all(sides) and len(place) <= len(sides) and before % 16 == 0


def _memories(called: str, body: Sequence[Line], text: Text) -> set[str]:
    """The tensors in whose memory the places of a name are: of a map, and of all that may be picked."""
    for s in body:
        if s.kind == "pick" and s.get("name") == called:
            return {memory for one in s.get("of") for memory in _memories(one, body, text)}
        if s.kind == "tensor_map" and s.get("name") == called:
            called = s.get("of")
            break
    for _ in text.alias:
        called = text.alias.get(called, called)
    return {called}


def _tokens(body: Sequence[Line]) -> Iterator[Obligation]:
    """A token is made by one statement, committed if it is a cp_async's, and waited for where it lands."""
    makers = [s for s in body if s.kind in WAITS]
    committed = {t for s in body if s.kind == "commit" for t in s.get("tokens")}
    for maker in makers:
        waits = [s for s in body if s.kind in ("wait", "wait_group") and maker.token in s.get("tokens", ())]
        is_once = sum(m.token == maker.token for m in makers) == 1
        on = maker.get("on", "").partition("[")[0]
        lands = all(
            s.get("on").partition("[")[0] == on if s.kind == "wait" else s.get("engine") == WAITS[maker.kind]
            for s in waits
        )
        is_closed = maker.kind != "cp_async" or maker.token in committed
        yield Obligation(maker.number, f"token {maker.token}", shows=bool(is_once and waits and lands and is_closed))


def _levels(kernel: Kernel) -> dict[str, int]:
    """How finely the names of a thread's place tell threads apart."""
    found = dict.fromkeys(("thread.x", "thread.index", "lane", "warpgroup.thread"), LANES)
    found |= dict.fromkeys(("thread.y", "thread.z"), LANES if kernel.block[0] % 32 else WARPS)
    return found | {"warp.index": WARPS, "warpgroup.index": 1}


def _barriers(body: Sequence[Line], role: Line | None, levels: dict[str, int], deepest: int) -> Iterator[Obligation]:
    """All threads that meet at a barrier come to it: nothing around it differs between them. `deepest`: how finely what
    is around tells threads apart."""
    levels = dict(levels)
    for s in body:
        own = max((levels.get(found.group(), 0) for found in WORD.finditer(s.text)), default=0)
        if s.kind in MET:
            yield Obligation(s.number, "barrier reached by all", shows=_is_reached(s, role, deepest))
        for called in (s.get("name"), *s.get("names", ())) if s.kind in DEFINING else ():
            levels[called] = LANES if s.kind == "each" or s.kind == "choose" and s.accesses else own
        inner = max(deepest, LANES if s.kind == "each" else own if s.kind in ("if", "for") else 0)
        yield from _barriers(s.body, s if s.kind == "role" else role, levels, inner)
        yield from _barriers(s.otherwise, role, levels, inner)


def _is_reached(s: Line, role: Line | None, deepest: int) -> bool:
    scope = s.get("scope", "")
    if s.kind == "warp_reduce" or scope == "warp":
        return deepest < LANES
    if s.kind == "store_rows" or scope == "warpgroup":
        return deepest < WARPS
    return deepest < 1 and (role is None or bool(s.get("threads")) or s.get("half") == "wait")
