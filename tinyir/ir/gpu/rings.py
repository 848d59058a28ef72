"""The verifier of gpu text: what roles hand to one another through rings of tiles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...kit.diag import Diag, Label
from ...kit.groups import sets_of
from ...kit.phrase import Phrase
from ..expr import ONE
from . import nodes
from .nodes import Kernel, Statement
from .walk import Visit, places_in, statements


def check_rings(kernel: Kernel, walked: list[Visit], module: Any) -> Iterator[Diag]:
    """A TMA load into a ring waits for its slot's readers first; what a barrier expects is what lands on it."""
    roles = [s for s in kernel.body if isinstance(s, nodes.Role)]
    arrivals = sets_of(
        (s.barrier.name, number)
        for number, role in enumerate(roles)
        for s in statements(role.body)
        if isinstance(s, nodes.Arrive)
    )
    for number, role in enumerate(roles):
        yield from _check_drained(kernel, role)
        yield from _check_begun(kernel, role)
        told = {barrier for barrier, numbers in arrivals.items() if numbers - {number}}
        yield from _check_refilled(kernel, role, told)
    yield from _check_landing(kernel)


def _fault(kernel: Kernel, s: Statement, place: Any, fault: str, labels: tuple[Label, ...] = ()) -> Diag:
    return Diag("E1613", kernel.name, {"place": str(place), "fault": fault}, s.span, labels)


def _check_drained(kernel: Kernel, role: nodes.Role) -> Iterator[Diag]:
    """A CTA that others of its cluster fill lives until they have: it drains the barrier that its fills wait for."""
    inside = list(statements(role.body))
    load = next((s for s in inside if isinstance(s, nodes.TmaLoad) and s.multicast), None)
    waited = {s.barrier.name for s in inside if isinstance(s, nodes.Wait)}
    if load is not None and not any(isinstance(s, nodes.Drain) and s.barrier in waited for s in inside):
        words = Phrase("is filled by other CTAs of the cluster, and there is no `drain` before the kernel's end")
        yield _fault(kernel, load, load.to, words)


def _check_refilled(kernel: Kernel, role: nodes.Role, told: set[str]) -> Iterator[Diag]:
    """A slot is filled behind a wait for a barrier at which another role arrives."""
    for block in _blocks(role.body):
        freed: set[str] = set()
        for s in block:
            if isinstance(s, nodes.Wait) and s.barrier.name in told:
                freed |= _freed_by(str(s.barrier.slot), role, block)
            if isinstance(s, nodes.TmaLoad) and s.to.slot is not None and str(s.to.slot) not in freed:
                yield _fault(kernel, s, s.to, Phrase("is refilled without waiting for its readers"))


def _check_landing(kernel: Kernel) -> Iterator[Diag]:
    """The bytes that a barrier expects land on it; what CTAs send one another is counted in `sends`."""
    every = list(statements(kernel.body))
    shared = {s.name: s for s in every if isinstance(s, nodes.Shared)}
    sent = {s.on.name for s in every if isinstance(s, nodes.Send)}
    for block in _blocks(kernel.body):
        loads = [s for s in block if isinstance(s, nodes.TmaLoad)]
        for s in block:
            if isinstance(s, nodes.Arrive) and s.expect and s.barrier.name not in sent:
                landing = sum(_bytes(shared[load.to.name]) for load in loads if load.on == s.barrier)
                if landing != s.expect:
                    facts = {"barrier": str(s.barrier), "expected": s.expect, "landing": landing}
                    yield Diag("E1618", kernel.name, facts, s.span)


def _check_begun(kernel: Kernel, role: nodes.Role) -> Iterator[Diag]:
    """A role that fills a ring goes on behind the slots that were filled before the roles."""
    early = [
        s for s in statements(s for s in kernel.body if not isinstance(s, nodes.Role)) if isinstance(s, nodes.TmaLoad)
    ]
    cursors = {f"{s.name}.slot": s for s in statements(role.body) if isinstance(s, nodes.Cursor)}
    for s in statements(role.body):
        cursor = cursors.get(str(s.to.slot)) if isinstance(s, nodes.TmaLoad) else None
        if cursor is None:
            continue
        begun = sorted(str(e.to.slot) for e in early if e.to.name == s.to.name)
        if begun != sorted(map(str, range(cursor.at))):
            fault = Phrase(
                "begins at slot {at} in role {role}, where {begun} of {to} is filled before",
                at=cursor.at,
                role=role.name,
                begun=", ".join(begun) or Phrase("none"),
                to=s.to.name,
            )
            yield _fault(kernel, cursor, s.to, fault, _of(role))


def _freed_by(slot: str, role: nodes.Role, block: tuple[Statement, ...]) -> set[str]:
    """The slots that are free when a barrier's `slot` has completed its phase: that one, and those of other cursors of
    the ring that go the same way behind it, since the slots of a ring are emptied in their order."""
    cursors = {f"{s.name}.slot": s for s in statements(role.body) if isinstance(s, nodes.Cursor)}
    advanced = [s.cursor for s in block if isinstance(s, nodes.Advance) and s.by == ONE]
    waited = cursors.get(slot)
    found = {slot}
    for name, filled in cursors.items():
        if waited is None or filled.ring != waited.ring or advanced.count(filled.name) != advanced.count(waited.name):
            continue
        # the step whose slot is to be empty, from the first that is filled on
        emptied = waited.at - (waited.ring if waited.phase else 0)
        if advanced.count(waited.name) and filled.at - filled.ring < emptied < filled.at:
            found.add(name)
    return found


def check_handed_over(kernel: Kernel, walked: list[Visit], module: Any) -> Iterator[Diag]:
    """What the threads of one role write to shared memory is read in another behind a wait for a barrier at which the
    first arrives, all of them having written it for the other's unit."""
    roles = [s for s in kernel.body if isinstance(s, nodes.Role)]
    for writer in roles:
        inside = list(statements(writer.body))
        written = {s.to.name for s in inside if isinstance(s, nodes.Split)}
        told = {s.barrier.name for s in inside if isinstance(s, nodes.Arrive) and not s.expect}
        yield from _check_told(kernel, writer, told)
        for reader in roles:
            if reader is not writer:
                yield from _check_read(kernel, writer, reader, written, told)


def _check_told(kernel: Kernel, writer: nodes.Role, told: set[str]) -> Iterator[Diag]:
    """A writer arrives behind a fence and a barrier of its threads."""
    for block in _blocks(writer.body):
        unmet: dict[type, Statement] = {}
        for s in block:
            if isinstance(s, nodes.Split):
                unmet = {nodes.Fence: s, nodes.Barrier: s}
            elif not isinstance(s, nodes.Fence) or s.what == "async_proxy":
                unmet.pop(type(s), None)
            if isinstance(s, nodes.Arrive) and s.barrier.name in told and unmet:
                made = next(iter(unmet.values()))
                words = Phrase("is told of before a fence and a barrier of those who write it")
                yield _fault(kernel, made, made.to, words, _of(writer))


def _check_read(
    kernel: Kernel, writer: nodes.Role, reader: nodes.Role, written: set[str], told: set[str]
) -> Iterator[Diag]:
    """A reader waits first."""
    for block in _blocks(reader.body):
        waited = False
        for s in block:
            waited |= isinstance(s, nodes.Wait) and s.barrier.name in told
            for word, place in places_in(s):
                if word in ("source", "a", "b") and place.name in written and not waited:
                    words = Phrase("is read without waiting for role {writer}, which writes it", writer=writer.name)
                    yield _fault(kernel, s, place, words, _of(writer))


def _bytes(tile: nodes.Shared) -> int:
    return tile.bytes // tile.ring


def _blocks(body: tuple[Statement, ...]) -> Iterator[tuple[Statement, ...]]:
    yield body
    for s in body:
        for inner in (getattr(s, "body", ()), getattr(s, "otherwise", ())):
            if inner:
                yield from _blocks(inner)


def _of(role: Statement) -> tuple[Label, ...]:
    return (Label(role.span, Phrase("this role")),) if role.span else ()
