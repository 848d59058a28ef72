"""Where the time of a program goes: the launches of whole runs, each between two events of its own.

The launches run in their order, so that each finds the caches as it does in a real run. A write of memory is queued
before each run that lasts longer than the host needs to queue the launches: the device never waits for the host, and
the events time it alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from ..kit.records import dataclass
from .cuda import driver_module
from .program import Program
from .replay import one_of

ROUNDS, WARM_ROUNDS = 20, 3
HOST_SECONDS = 20e-6  # to queue a launch and an event, at most
WRITE_BYTES_PER_SECOND = 2e12  # of the fastest memory that a card has; a slower one only waits longer


@dataclass(frozen=True, slots=True)
class LaunchTime:
    """One launch: seconds of its median; arithmetic operations and compulsory bytes as the text states them (0 where it
    serves another)."""

    name: str
    seconds: float
    flops: int
    bytes: int

    def least(self, peak_tflops: float, peak_gbs: float) -> float:
        """Seconds that a device of this peak needs at least."""
        return max(self.flops / peak_tflops / 1e12, self.bytes / peak_gbs / 1e9)


def profile(program: Program) -> tuple[LaunchTime, ...]:
    """The launches of a program on a `cuda.CudaDevice`, its inputs there already, in their order. Raises Refused
    (E1730)."""
    driver = driver_module()
    device, launches = program.device, program.launches
    events = [[driver.Event() for _ in range(len(launches) + 1)] for _ in range(WARM_ROUNDS + ROUNDS)]
    with head_start(program) as queue, device.refusing(one_of(b.kernel for b in launches)):
        for marks in events:
            queue(marks)
            device.stream.synchronize()
    taken = [[end.time_since(start) / 1e3 for start, end in zip(marks, marks[1:])] for marks in events[WARM_ROUNDS:]]
    medians = [sorted(column)[len(column) // 2] for column in zip(*taken)]
    return tuple(
        LaunchTime(made.name, seconds, made.flops.evaluate(program.sizes), made.bytes.evaluate(program.sizes))
        for made, seconds in zip(program.made, medians)
    )


@contextlib.contextmanager
def head_start(program: Program) -> Iterator[Callable[[list[Any]], None]]:
    """What queues a run, a mark before its first launch and after each, behind a write of memory that lasts until the
    host has queued all."""
    driver, device = driver_module(), program.device
    size = int(HOST_SECONDS * (len(program.launches) + 1) * WRITE_BYTES_PER_SECOND)
    piece = min(size, device.l2_bytes * 4)
    with device.room(piece) as written:

        def queue(marks: list[Any]) -> None:
            for _ in range(0, size, piece):
                driver.memset_d8_async(written, 0, piece, device.stream)
            marks[0].record(device.stream)
            for mark, b in zip(marks[1:], program.launches):
                device.enqueue(b.code, b.kernel, b.grid, b.block, b.shared, b.arguments)
                mark.record(device.stream)

        yield queue


def table_of(times: tuple[LaunchTime, ...], peak_tflops: float | None = None, peak_gbs: float | None = None) -> str:
    """A line a launch, the slowest first, with its share of the whole and its rates; with the peaks of the card also
    its place in the roofline: operations a byte, its share of the limit, and what sets that limit."""
    total = sum(t.seconds for t in times)
    width = max([len(t.name) for t in times] + [6])
    is_rated = peak_tflops is not None and peak_gbs is not None
    head = "    op/B  limit  by" if is_rated else ""
    lines = [f"{'launch':<{width}}       us  share  TFLOP/s    GB/s{head}"]
    for t in sorted(times, key=lambda t: -t.seconds):
        share = f"{t.seconds / total if total else 0:>6.1%}"
        line = f"{t.name:<{width}} {t.seconds * 1e6:>8.2f} {share}"
        if t.seconds and t.bytes:
            line += f" {t.flops / t.seconds / 1e12:>8.2f} {t.bytes / t.seconds / 1e9:>7.0f}"
            if is_rated:
                by = "compute" if t.flops / peak_tflops / 1e12 > t.bytes / peak_gbs / 1e9 else "memory"
                line += f" {t.flops / t.bytes:>7.1f}  {t.least(peak_tflops, peak_gbs) / t.seconds:>5.1%}  {by}"
        lines.append(line)
    lines.append(f"{'all':<{width}} {total * 1e6:>8.2f}")
    if is_rated:
        ridge = peak_tflops / peak_gbs * 1e3
        lines.append(
            f"limit: {peak_gbs:.0f} GB/s below {ridge:.0f} operations a byte (op/B), {peak_tflops:.0f} TFLOP/s above"
        )
    return "\n".join(lines) + "\n"
