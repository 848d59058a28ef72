"""CUDA graphs: launches that are queued once and replayed with one call of the driver."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .driver import RELAXED, DriverFault, KernelNode, call, made_by


class Graph:
    """What `enqueue` queues on the stream of this handle, captured and not run. Where it is an iterator that queues a
    kernel at each step, the kernels may be given other arguments later (`change`). Raises DriverFault, and what
    `enqueue` raises."""

    way = "CUDA graph"

    def __init__(self, stream: int, enqueue: Callable[[], Iterable[None] | None]):
        self._stream = stream
        self._nodes: list[int] = []
        self._graph = 0
        call("cuStreamBeginCapture_v2", stream, RELAXED)
        try:
            for _ in enqueue() or ():
                self._nodes.append(self._last_node())
        except BaseException:
            self._abandon()
            raise
        graph = self._end()
        try:
            self._replay = made_by("cuGraphInstantiateWithFlags", graph, 0)
            if self._nodes:
                self._graph, graph = graph, 0  # whose nodes are those that are changed
        finally:
            if graph:
                call("cuGraphDestroy", graph)

    def run(self, stream: int | None = None) -> None:
        """Queue one replay on a stream (default: that of the capture)."""
        call("cuGraphLaunch", self._replay, self._stream if stream is None else stream)

    def change(
        self, number: int, function: int, grid: Sequence[int], block: Sequence[int], shared: int, at: int
    ) -> None:
        """Let the kernel at this step be launched otherwise from the next replay on: the function, and where the
        pointers to its arguments are."""
        sides = (*grid, 1, 1)[:3], (*block, 1, 1)[:3]
        node = KernelNode(function, *sides[0], *sides[1], shared, at, None, None, None)
        call("cuGraphExecKernelNodeSetParams_v2", self._replay, self._nodes[number], ctypes.addressof(node))

    @property
    def is_kept(self) -> bool:
        """Whether it has not been given back."""
        return bool(self._replay)

    def release(self) -> None:
        """Give the graph back; nothing when that is done."""
        replay, self._replay = self._replay, 0
        if replay:
            call("cuGraphExecDestroy", replay)
        graph, self._graph = self._graph, 0
        if graph:
            call("cuGraphDestroy", graph)

    def _last_node(self) -> int:
        """The node that the stream's next one will follow."""
        status, number, graph = ctypes.c_int(), ctypes.c_uint64(), ctypes.c_void_p()
        nodes, edges, count = ctypes.POINTER(ctypes.c_void_p)(), ctypes.c_void_p(), ctypes.c_size_t()
        found = (status, number, graph, nodes, edges, count)
        call("cuStreamGetCaptureInfo_v3", self._stream, *map(ctypes.byref, found))
        return nodes[0]

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
