"""The verifier of gpu text: what a CTA sends to the others of its cluster, by the copy engine (`send`), and a cluster's
barrier in two halves.

barrier cluster arrive                          this CTA's mbarriers are set up
...
fence async_proxy                               of those who wrote what is sent
barrier cta
barrier cluster wait                            the others' are
%part = send parts <- sums[32*c, 0] size [32, 68] to c on joined
wait joined phase 0 for %part
barrier cluster arrive                          nobody reads of another any more
...
barrier cluster wait                            so that this CTA may leave
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ...kit.diag import Diag, Label
from ...kit.phrase import Phrase
from ..body import Read
from ..expr import Expr
from . import nodes
from .nodes import Kernel, Statement
from .walk import Visit, reads_in, statements

CHUNK = 16  # bytes: what the copy engine moves is made of such, and begins on one
BLOCK = 64, 16  # rows and columns of an accumulator that threads send together


def check_sends(kernel: Kernel, walked: list[Visit], module: Any) -> Iterator[Diag]:
    """What is sent is in a row, and is whole before the engine reads it; a CTA leaves when its own has been read; as
    many bytes are expected as land. The halves of a barrier come in turn. That the other has begun is for `mbarriers`
    to see."""
    yield from _check_halves(kernel)
    sends = [v for v in walked if isinstance(v.statement, nodes.Send)]
    for v in sends:
        held = isinstance(v.arrays[v.statement.source.name], nodes.Reg)
        yield from (_check_held if held else _check_place)(kernel, v, v.statement)
    yield from _check_reads(kernel, walked)
    yield from _check_bytes(kernel, sends)
    yield from _Walk(kernel).faults()


def _check_halves(kernel: Kernel) -> Iterator[Diag]:
    last: nodes.Barrier | None = None
    for s in statements(kernel.body):
        if not isinstance(s, nodes.Barrier) or s.scope != "cluster":
            continue
        is_open = last is not None and last.half == "arrive"
        if is_open != (s.half == "wait"):
            why = (
                Phrase("after a first half that has no second")
                if is_open
                else Phrase("as a second half that has no first before it")
            )
            yield Diag(
                "E1609",
                kernel.name,
                {"what": Phrase("a barrier"), "why": why},
                s.span,
                _label(last, Phrase("the barrier before")),
            )
        last = s
    if last is not None and last.half == "arrive":
        yield Diag(
            "E1609",
            kernel.name,
            {"what": Phrase("a barrier"), "why": Phrase("as a first half that has no second after it")},
            last.span,
        )


def _check_place(kernel: Kernel, v: Visit, s: nodes.Send) -> Iterator[Diag]:
    """Both places hold the rows, one behind another, in whole chunks."""
    for place in (s.source, s.to):
        array = v.arrays[place.name]
        shape = tuple(e.evaluate({}) for e in array.type.shape)
        index = place.index or (Expr.of(0),) * len(shape)
        if len(s.size) != len(shape):
            yield Diag(
                "E1607",
                kernel.name,
                {"name": place.name, "given": len(s.size), "wanted": len(shape), "what": "sizes"},
                s.span,
            )
            return
        size = array.type.dtype.bytes
        whole = next((n for n in range(len(shape)) if s.size[n:] == shape[n:]), len(shape))  # of these axes all
        is_row = math.prod(s.size[: max(0, whole - 1)]) == 1
        starts = [size * math.prod(shape[n + 1 :]) * e for n, e in enumerate(index)]
        is_whole = size * math.prod(s.size) % CHUNK == 0 and all(
            c % CHUNK == 0 for start in starts for c, _ in start.terms
        )
        if array.swizzle or not is_row or not is_whole:
            yield Diag(
                "E1613",
                kernel.name,
                {
                    "place": str(place),
                    "fault": Phrase(
                        "is not sent: rows of {size} are not contiguous in chunks of {chunk} B",
                        size=list(s.size),
                        chunk=CHUNK,
                    ),  # noqa: E501
                },
                s.span,
            )
        for axis, (e, count, extent) in enumerate(zip(index, s.size, shape)):
            if not v.inside.is_below(e + count - 1, Expr.of(extent)):  # where it begins is looked at as of any place
                yield Diag(
                    "E1614",
                    kernel.name,
                    {"place": str(place), "index": str(e + count - 1), "axis": axis, "size": str(extent)},
                    s.span,
                )


def _check_held(kernel: Kernel, v: Visit, s: nodes.Send) -> Iterator[Diag]:
    """Whole blocks of rows and pieces of columns of an accumulator go to a matrix that is laid out as it is, and both
    places hold them."""
    arrays = [v.arrays[place.name] for place in (s.source, s.to)]
    corners = [place.index or (Expr.of(0),) * len(s.size) for place in (s.source, s.to)]
    fault = ""
    if arrays[1].kind != "wgmma" or arrays[0].type.dtype != arrays[1].type.dtype:
        fault = Phrase(
            "is not sent: {to} is not laid out as {source} is, `{dtype} ... wgmma`",
            to=s.to.name,
            source=s.source.name,
            dtype=arrays[0].type.dtype,
        )
    elif (
        len(s.size) != 2
        or s.size[0] != BLOCK[0]
        or s.size[1] % BLOCK[1]
        or any(c % size for corner in corners for e, size in zip(corner, BLOCK) for c, _ in e.terms)
    ):
        fault = Phrase(
            "is not sent: {size} from there on is not {block} rows and pieces of {block2} columns",
            size=list(s.size),
            block=BLOCK[0],
            block2=BLOCK[1],
        )
    if fault:
        yield Diag("E1613", kernel.name, {"place": str(s.source), "fault": fault}, s.span)
        return
    for place, array, corner in zip((s.source, s.to), arrays, corners):
        for axis, (e, count, extent) in enumerate(zip(corner, s.size, array.type.shape)):
            if not v.inside.is_at_least(e, Expr.of(0)) or not v.inside.is_below(e + count - 1, extent):
                yield Diag(
                    "E1614",
                    kernel.name,
                    {"place": str(place), "index": str(e + count - 1), "axis": axis, "size": str(extent)},
                    s.span,
                )


def _check_reads(kernel: Kernel, walked: list[Visit]) -> Iterator[Diag]:
    """What threads have sent to threads of their number is read element by element, by those."""
    for v in walked:
        for node in reads_in(v.statement):
            array = v.arrays.get(node.tensor) if isinstance(node, Read) else None
            if (
                isinstance(array, nodes.Shared)
                and array.kind
                and not any(isinstance(around, nodes.Each) for around in v.path)
            ):
                yield Diag(
                    "E1613",
                    kernel.name,
                    {
                        "place": node.tensor,
                        "fault": Phrase("is read outside `each`: a thread has its own elements of it"),
                    },
                    v.statement.span,
                )


def _check_bytes(kernel: Kernel, sends: list[Visit]) -> Iterator[Diag]:
    """Every CTA sends what every other does, so that what one sends in all is what lands in one."""
    for name in dict.fromkeys(v.statement.on.name for v in sends):
        own = [v for v in sends if v.statement.on.name == name]
        expected = sum(
            a.expect for a in statements(kernel.body) if isinstance(a, nodes.Arrive) and a.barrier.name == name
        )
        landing = sum(_bytes(v) for v in own)
        if expected != landing:
            yield Diag(
                "E1618",
                kernel.name,
                {"barrier": str(own[0].statement.on), "expected": expected, "landing": landing},
                own[0].statement.span,
            )


def _bytes(v: Visit) -> int:
    """What a statement sends in all; nothing where its loops have no number."""
    total = math.prod(v.statement.size) * v.arrays[v.statement.source.name].type.dtype.bytes
    for loop in v.path:
        if isinstance(loop, nodes.For):
            count = (loop.high - loop.low).constant
            total *= count if count is not None and loop.step.constant == 1 else 0
    return total


class _Walk:
    """The kernel's statements in order, roles too: what has been fenced, met and waited for."""

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self.shared = {s.name for s in statements(kernel.body) if isinstance(s, nodes.Shared)}
        self.unfenced: dict[str, Statement] = {}  # arrays written, and no fence behind it
        self.unmet: dict[str, Statement] = {}  # and no barrier of the CTA behind that
        self.has_arrived = self.is_read = False  # behind the wait for what was sent
        self.sent: dict[str, nodes.Send] = {}

    def faults(self) -> Iterator[Diag]:
        for s in statements(self.kernel.body):
            if isinstance(s, nodes.Store) and s.to.name in self.shared:
                self.unfenced[s.to.name] = self.unmet[s.to.name] = s
            elif isinstance(s, nodes.Fence) and s.what == "async_proxy":
                self.unfenced.clear()
            elif isinstance(s, nodes.Barrier) and s.scope == "cta":
                self.unmet = dict(self.unfenced)
            elif isinstance(s, nodes.Send):
                yield from self._sent(s)
            elif isinstance(s, nodes.Wait) and any(t in self.sent for t in s.tokens):
                self.is_read = self.has_arrived = False
            if isinstance(s, nodes.Barrier) and s.scope == "cluster":
                self.is_read |= s.half != "arrive" and (self.has_arrived or not s.half)
                self.has_arrived = s.half == "arrive"
        if self.sent and not self.is_read:
            first = next(iter(self.sent.values()))
            yield self._fault(
                first,
                first.source,
                Phrase(
                    "may still be sent when its CTA leaves: there is no `barrier cluster` after the wait for what is "
                    "sent"
                ),
                None,
            )

    def _sent(self, s: nodes.Send) -> Iterator[Diag]:
        if s.source.name not in self.shared:  # what leaves registers is gone
            return
        if s.source.name in self.unmet:
            yield self._fault(
                s,
                s.source,
                Phrase("is sent before a fence and a barrier of those who write it"),
                self.unmet[s.source.name],
            )
        self.sent[s.token] = s
        self.is_read = False

    def _fault(self, s: Statement, place: Any, fault: str, other: Statement | None) -> Diag:
        return Diag(
            "E1613", self.kernel.name, {"place": str(place), "fault": fault}, s.span, _label(other, Phrase("by this"))
        )


def _label(s: Statement | None, words: str) -> tuple[Label, ...]:
    return (Label(s.span, words),) if s is not None and s.span else ()
