"""The verifier of gpu text: what roles hand to one another through rings of tiles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...kit.diag import Diag, Label
from ...kit.phrase import Phrase
from ..expr import ONE
from . import nodes
from .nodes import Kernel, Statement
from .walk import Visit, places_in, statements


def check_rings(kernel: Kernel, walked: list[Visit], module: Any) -> Iterator[Diag]:
    """A TMA load into a ring waits for its slot's readers first; what a barrier expects is what lands on it."""
    arrivals: dict[str, set[int]] = {}
    roles = [s for s in kernel.body if isinstance(s, nodes.Role)]
    for number, role in enumerate(roles):
        for s in statements(role.body):
            if isinstance(s, nodes.Arrive):
                arrivals.setdefault(s.barrier.name, set()).add(number)
    shared = {s.name: s for s in statements(kernel.body) if isinstance(s, nodes.Shared)}
    sent = {s.on.name for s in statements(kernel.body) if isinstance(s, nodes.Send)}  # `sends` counts what lands there
    for number, role in enumerate(roles):
        shared_load = next((s for s in statements(role.body) if isinstance(s, nodes.TmaLoad) and s.multicast), None)
        if shared_load is not None and not any(isinstance(s, nodes.Drain) for s in statements(role.body)):
            yield Diag(
                "E1613",
                kernel.name,
                {
                    "place": str(shared_load.to),
                    "fault": Phrase(
                        "is filled by other CTAs of the cluster, and there is no `drain` before the kernel's end"
                    ),
                },
                shared_load.span,
            )
        yield from _check_begun(kernel, role)
        for block in _blocks(role.body):
            freed: set[str] = set()
            for s in block:
                if isinstance(s, nodes.Wait) and arrivals.get(s.barrier.name, set()) - {number}:
                    freed |= _freed_by(str(s.barrier.slot), role, block)
                if isinstance(s, nodes.TmaLoad) and s.to.slot is not None and str(s.to.slot) not in freed:
                    yield Diag(
                        "E1613",
                        kernel.name,
                        {"place": str(s.to), "fault": Phrase("is refilled without waiting for its readers")},
                        s.span,
                    )
    for block in _blocks(kernel.body):
        for s in block:
            if isinstance(s, nodes.Arrive) and s.expect and s.barrier.name not in sent:
                landing = sum(
                    _bytes(shared[t.to.name]) for t in block if isinstance(t, nodes.TmaLoad) and t.on == s.barrier
                )
                if landing != s.expect:
                    yield Diag(
                        "E1618",
                        kernel.name,
                        {"barrier": str(s.barrier), "expected": s.expect, "landing": landing},
                        s.span,
                    )


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
            yield Diag("E1613", kernel.name, {"place": str(s.to), "fault": fault}, cursor.span, _of(role))


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
        for block in _blocks(writer.body):
            unmet: dict[type, Statement] = {}
            for s in block:
                if isinstance(s, nodes.Split):
                    unmet = {nodes.Fence: s, nodes.Barrier: s}
                elif not isinstance(s, nodes.Fence) or s.what == "async_proxy":
                    unmet.pop(type(s), None)
                if isinstance(s, nodes.Arrive) and s.barrier.name in told and unmet:
                    made = next(iter(unmet.values()))
                    yield Diag(
                        "E1613",
                        kernel.name,
                        {
                            "place": str(made.to),
                            "fault": Phrase("is told of before a fence and a barrier of those who write it"),
                        },
                        made.span,
                        _of(writer),
                    )
        for block in (b for role in roles if role is not writer for b in _blocks(role.body)):
            waited = False
            for s in block:
                waited |= isinstance(s, nodes.Wait) and s.barrier.name in told
                for place in (
                    p for word, p in places_in(s) if word in ("source", "a", "b") and p.name in written and not waited
                ):
                    yield Diag(
                        "E1613",
                        kernel.name,
                        {
                            "place": str(place),
                            "fault": Phrase(
                                "is read without waiting for role {writer}, which writes it", writer=writer.name
                            ),
                        },
                        s.span,
                        _of(writer),
                    )


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


__all__ = ["check_handed_over", "check_rings"]
