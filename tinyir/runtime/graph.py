"""CUDA graphs: launches that are queued once and replayed with one call of the driver."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from .driver import RELAXED, DriverFault, call, made_by


class Graph:
    """What `enqueue` queues on the stream of this handle, captured and not run. Raises DriverFault, and what `enqueue`
    raises."""

    way = "CUDA graph"

    def __init__(self, stream: int, enqueue: Callable[[], None]):
        self._stream = stream
        call("cuStreamBeginCapture_v2", stream, RELAXED)
        try:
            enqueue()
        except BaseException:
            self._abandon()
            raise
        graph = self._end()
        try:
            self._replay = made_by("cuGraphInstantiateWithFlags", graph, 0)
        finally:
            call("cuGraphDestroy", graph)

    def run(self, stream: int | None = None) -> None:
        """Queue one replay on a stream (default: that of the capture)."""
        call("cuGraphLaunch", self._replay, self._stream if stream is None else stream)

    @property
    def is_kept(self) -> bool:
        """Whether it has not been given back."""
        return bool(self._replay)

    def release(self) -> None:
        """Give the graph back; nothing when that is done."""
        replay, self._replay = self._replay, 0
        if replay:
            call("cuGraphExecDestroy", replay)

    def _end(self) -> int:
        graph = ctypes.c_void_p()
        call("cuStreamEndCapture", self._stream, ctypes.byref(graph))
        return graph.value or 0

    def _abandon(self) -> None:
        """End the capture, which a fault has spoilt: the driver refuses, and the stream is free again."""
        try:
            graph = self._end()
            if graph:
                call("cuGraphDestroy", graph)
        except DriverFault:
            pass

    def __enter__(self) -> Graph:
        return self

    def __exit__(self, *_: Any) -> None:
        self.release()
