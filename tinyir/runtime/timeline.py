"""One run as it happens: copies to and from the card, launches there, what the host queues and waits for; as a Chrome
trace."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ..kit.records import dataclass
from .cuda import driver_module
from .profile import head_start
from .program import Program

HOST, CARD = "host", "GPU"
ZERO_ROUNDS = 20  # events that the host waits for, to find one time for both


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that took time. `kind` is copy, queue, wait or launch; `track` is where it ran; microseconds from the
    beginning. A launch has its arithmetic operations and compulsory bytes."""

    name: str
    kind: str
    track: str
    start: float
    microseconds: float
    flops: int = 0
    bytes: int = 0


def timeline(program: Program, inputs: Mapping[str, np.ndarray]) -> tuple[Moment, ...]:
    """A run of a program on a `cuda.CudaDevice` that has run before, each launch between two events. The launches are
    queued behind a write of memory, so that the card never waits for the host. Host and card have one time, as exact as
    `_zero_of_both` can say. Raises Refused (E1730)."""
    driver = driver_module()
    device, stream = program.device, program.device.stream
    marks = [driver.Event() for _ in range(len(program.launches) + 1)]
    with head_start(program) as queue, device.refusing(program.model.name):
        zero, begin = _zero_of_both(driver, stream)
        clock = _Clock(begin)
        for name, array in inputs.items():
            clock.took(f"{name} to the GPU", "copy", lambda: program.upload({name: array}), array.nbytes)  # noqa: B023
        clock.took("launches", "queue", lambda: queue(marks))
        clock.took("the last launch", "wait", stream.synchronize)
        found = clock.took("outputs from the GPU", "copy", program.outputs)
    clock.moments[-1] = _with_bytes(clock.moments[-1], sum(a.nbytes for a in found.values()))
    queued = next(m.start for m in clock.moments if m.kind == "queue")
    starts = [mark.time_since(zero) * 1e3 for mark in marks]
    launches = (
        Moment(
            made.name,
            "launch",
            CARD,
            start,
            end - start,
            made.flops.evaluate(program.sizes),
            made.bytes.evaluate(program.sizes),
        )
        for made, start, end in zip(program.made, starts, starts[1:])
    )
    host_ahead = Moment("a write that lets the host queue", "queue", CARD, queued, max(0.0, starts[0] - queued))
    return (*clock.moments, host_ahead, *launches)


def _with_bytes(moment: Moment, count: int) -> Moment:
    from ..kit.records import replace

    return replace(moment, bytes=count)


def _zero_of_both(driver: Any, stream: Any) -> tuple[Any, float]:
    """An event of the card, and the host's time (`time.perf_counter`) at which it was reached. Of several it is the one
    that took the host the shortest time, from its record to the end of the wait; the error is at most half of that."""
    found = []
    for _ in range(ZERO_ROUNDS):
        event, start = driver.Event(), time.perf_counter()
        event.record(stream)
        stream.synchronize()
        end = time.perf_counter()
        found.append((end - start, event, (start + end) / 2))
    _, event, begin = min(found, key=lambda met: met[0])
    return event, begin


class _Clock:
    """The host's moments since `begin`, a time of `time.perf_counter`."""

    def __init__(self, begin: float) -> None:
        self.begin = begin
        self.moments: list[Moment] = []

    def took(self, name: str, kind: str, work: Callable[[], Any], count: int = 0) -> Any:
        """`work()`, its time kept."""
        start = time.perf_counter()
        found = work()
        end = time.perf_counter()
        self.moments.append(Moment(name, kind, HOST, (start - self.begin) * 1e6, (end - start) * 1e6, bytes=count))
        return found


def trace_of(moments: Iterable[Moment]) -> str:
    """The moments as a Chrome trace, which chrome://tracing and Perfetto show, and `tiny-view --measured` reads."""
    events: list[dict[str, Any]] = [
        {"name": "thread_name", "ph": "M", "pid": 1, "tid": number, "args": {"name": track}}
        for number, track in enumerate((HOST, CARD))
    ]
    events += [
        {
            "name": m.name,
            "cat": m.kind,
            "ph": "X",
            "pid": 1,
            "tid": (HOST, CARD).index(m.track),
            "ts": round(m.start, 3),
            "dur": round(m.microseconds, 3),
            "args": {k: v for k, v in (("operations", m.flops), ("bytes", m.bytes)) if v},
        }
        for m in moments
    ]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}) + "\n"
