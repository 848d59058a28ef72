"""Timing a program on a GPU: medians over many runs, each from a cold L2 cache.

Before every timed run a buffer of four times the L2 cache is written on the same stream, so that no run finds the data
of the one before, and so that the host is always ahead of the device: the events then time the device alone. A program
of several kernels is captured in a CUDA graph and replayed; one kernel has nothing to gain from it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ..kit.phrase import Phrase
from ..kit.records import dataclass
from .cuda import CudaDevice, driver_module
from .graph import Graph

WARM_SECONDS = 0.3  # clocks and caches of code settle
BUDGET_SECONDS = 1.0
LEAST, MOST = 20, 2000  # runs


@dataclass(frozen=True, slots=True)
class Timing:
    """What was measured: seconds of the median and of the 10th and 90th percentile, over `runs` runs. `flops` and
    `bytes` are the program's own counts, None where it does not state them."""

    median: float
    p10: float
    p90: float
    runs: int
    flops: int | None
    bytes: int | None
    way: str

    @property
    def tflops(self) -> float | None:
        """Arithmetic in TFLOP/s at the median."""
        return None if self.flops is None else self.flops / self.median / 1e12

    @property
    def gbs(self) -> float | None:
        """Compulsory traffic in GB/s (1e9 bytes) at the median."""
        return None if self.bytes is None else self.bytes / self.median / 1e9

    def share_of(self, peak_tflops: float, peak_gbs: float) -> float | None:
        """The fraction of the device's limit: the least time that arithmetic at `peak_tflops` and traffic at `peak_gbs`
        need, over the median."""
        if self.flops is None or self.bytes is None:
            return None
        return max(self.flops / peak_tflops / 1e12, self.bytes / peak_gbs / 1e9) / self.median

    def __str__(self) -> str:
        rates = [f"{self.tflops:.1f} TFLOP/s"] * (self.tflops is not None) + [f"{self.gbs:.1f} GB/s"] * (
            self.gbs is not None
        )
        spread = f"p10 {self.p10 * 1e6:.2f} p90 {self.p90 * 1e6:.2f}"
        return "  ".join([f"median {self.median * 1e6:.2f} us ({spread}, {self.runs} runs, {self.way})", *rates])


def measure(
    device: CudaDevice,
    launches: int,
    enqueue: Callable[[], None],
    flops: int | None,
    moved: int | None,
    seconds: float = BUDGET_SECONDS,
    warm_seconds: float = WARM_SECONDS,
) -> Timing:
    """Time `enqueue`, which queues a whole program of `launches` kernels on `device.stream`, in runs that take about
    `seconds` together after `warm_seconds` of others. Raises Refused (E1730)."""
    driver = driver_module()
    flush_bytes = 4 * device.l2_bytes
    with (
        device.room(flush_bytes) as flush,
        device.refusing(Phrase("the program")),
        Graph(device.stream.handle, enqueue) if launches > 1 else _Plain(enqueue) as program,
    ):
        _warm(device, program.run, warm_seconds)
        start, end = driver.Event(), driver.Event()
        estimate = _seconds_of(device, program.run, flush, flush_bytes, [(start, end)])[0]
        runs = int(min(MOST, max(LEAST, seconds / max(estimate, 1e-6))))
        events = [(driver.Event(), driver.Event()) for _ in range(runs)]
        taken = sorted(_seconds_of(device, program.run, flush, flush_bytes, events))
    return Timing(
        _quantile(taken, 0.5),
        _quantile(taken, 0.1),
        _quantile(taken, 0.9),
        runs,
        flops,
        moved,
        f"cold L2, {program.way}",
    )


class _Plain:
    way = "launched"

    def __init__(self, enqueue: Callable[[], None]):
        self.run = enqueue

    def __enter__(self) -> _Plain:
        return self

    def __exit__(self, *_: Any) -> None:
        pass


def _warm(device: CudaDevice, run: Callable[[], None], seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        run()
        device.stream.synchronize()


def _seconds_of(
    device: CudaDevice, run: Callable[[], None], flush: Any, flush_bytes: int, events: list[tuple[Any, Any]]
) -> list[float]:
    driver = driver_module()
    for start, end in events:
        driver.memset_d8_async(flush, 0, flush_bytes, device.stream)
        start.record(device.stream)
        run()
        end.record(device.stream)
    device.stream.synchronize()
    return [end.time_since(start) / 1e3 for start, end in events]


def _quantile(ordered: list[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
