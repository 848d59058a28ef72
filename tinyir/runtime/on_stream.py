"""A session's programs for arrays of the GPU, queued on streams of other libraries: nothing here waits for the GPU,
but the first run of a set of sizes.

What made the inputs is waited for by the stream itself: DLPack's producers are told it, and of
`__cuda_array_interface__` the stream that it names is followed. Results say the stream, so that whoever reads them can
follow it.
"""

from __future__ import annotations

import contextlib
import functools
import math
import weakref
from collections.abc import Mapping
from typing import Any

from ..ir.evaluate import sizes_of
from ..kit.diag import Diag, Refused, refuse, refuse_all
from ..kit.phrase import Phrase
from .cuda import CudaDevice
from .driver import DriverFault, call, follow
from .external import External, GpuArray, external_of
from .program import Program
from .queued import Queued, lent
from .session import Session

MOST_KEPT = 8  # programs, each for sizes that ask for other launches, or for states elsewhere
Shapes = dict[str, tuple[int, ...]]


def driver_stream(stream: Any) -> int:
    """The driver's handle of a stream: of a number, or of an object with `__cuda_stream__` (CUDA Python's protocol: a
    version and the handle). Raises TypeError for any other."""
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is None:
        raise TypeError(f"{type(stream).__name__} is not a stream: neither a handle nor an object with __cuda_stream__")
    return int((protocol() if callable(protocol) else protocol)[1])


def queued_for(session: Session, sizes: Mapping[str, int]) -> tuple[Queued, Shapes]:
    """The program of these sizes for memory of the caller's: its inputs, then its outputs but for the new values of
    states, in the signature's order; and the shapes of those outputs. Raises Refused (E1717, E1719)."""
    owner = session.owner_of(sizes)
    device = session._device
    assert isinstance(device, CudaDevice)
    model = session.model
    made = [t for t in model.outputs if model.state_of(t) is None]
    shapes = {t.name: sizes_of(t.type.shape, sizes) for t in (*session.inputs, *made)}
    given = {t.name: lent(t.name, math.prod(shapes[t.name]), t.type.dtype.bytes) for t in (*session.inputs, *made)}
    kept = {**session._pool, **session.states.buffers(), **given}
    program = Program(device, owner.text, owner.module, sizes, kept, owner._code)
    queued = Queued(device, program, [t.name for t in session.inputs], [t.name for t in made])
    return queued, {t.name: shapes[t.name] for t in made}


class OnStreams:
    """The runs of one session on streams, given by their handles. States stay in the session's memory: each run goes on
    from the value that the run before it leaves, on whatever stream that was. The session owns this, and is not owned
    by it."""

    def __init__(self, session: Session):
        self._session = session
        self._kept: list[tuple[tuple[Any, ...], Queued]] = []  # each of a text and places of states, the last used last
        self._shaped: tuple[tuple[int, ...] | None, Shapes] = (None, {})
        self._last: int | None = None  # the stream of the last run that nobody waited for

    def run(self, arrays: Mapping[str, Any], stream: int) -> dict[str, GpuArray]:
        """The outputs by name, once the stream has come to them; of states none. The memory of the inputs must stay
        until then. Raises Refused: E1701 to E1705 (the arrays), E1732 and E1733 (one that cannot be taken as it is),
        E17xx (the run)."""
        session = self._session
        session.refuse_weights(arrays)
        outside = self._outside(arrays, stream)
        sizes = session._sizes_of(dict(arrays), outside)
        faults = [d for t in session.inputs for d in outside[t.name].faults(t)]
        refuse_all(faults)
        queued, shapes = self._program_of(sizes), self._shapes_at(sizes)
        results = self._room_for(shapes, stream)
        with self._device.refusing(session.model.name):
            before = {one.stream for one in outside.values()} | {self._last}
            for other in sorted(s for s in before if s is not None and s != stream):
                follow(stream, other)
        self._last = stream
        given = [outside[t.name].address for t in session.inputs]
        queued.run((*given, *[r.address for r in results.values()]), stream)
        return results

    def wait(self) -> None:
        """Until the runs are over. Raises Refused (E1730)."""
        last, self._last = self._last, None
        if last is not None:
            with self._device.refusing(self._session.model.name):
                call("cuStreamSynchronize", last)

    def close(self) -> None:
        """Give graphs and memory back, once the runs are over."""
        with contextlib.suppress(Refused, DriverFault):  # after a fault the context is lost, and its memory with it
            self.wait()
            for _, queued in self._kept:
                queued.release()
        self._kept.clear()

    @property
    def _device(self) -> CudaDevice:
        device = self._session._device
        assert isinstance(device, CudaDevice)
        return device

    def _room_for(self, shapes: Shapes, stream: int) -> dict[str, GpuArray]:
        device, found = self._device, {}
        copy_out = functools.partial(device.copy_out, stream=stream, name=self._session.model.name)
        for tensor in (t for t in self._session.model.outputs if t.name in shapes):
            shape = shapes[tensor.name]
            buffer, memory = device.lend(tensor.name, math.prod(shape), tensor.type.dtype.bytes, stream)
            found[tensor.name] = GpuArray(buffer.address, tensor, shape, memory, copy_out, device.ordinal, stream)
        return found

    def _outside(self, arrays: Mapping[str, Any], stream: int) -> dict[str, External]:
        """What each array is on the GPU. Raises Refused (E1732)."""
        states = [name for name in arrays if name in self._session.states.types]
        if states:
            reason = Phrase("it is a state, which runs on a stream keep; it is set by program.states")
            raise refuse("E1732", states[0], tensor=states[0], reason=reason)
        found = {name: external_of(name, array, stream) for name, array in arrays.items()}
        here = [
            Diag("E1732", name, {"tensor": name, "reason": Phrase("it is on the host")})
            for name, one in found.items()
            if one is None
        ]
        refuse_all(here)
        return {name: one for name, one in found.items() if one is not None}

    def _program_of(self, sizes: Mapping[str, int]) -> Queued:
        """The program that takes these sizes, which is changed to them."""
        key = self._session.owner_of(sizes), *(b.address for b in self._session.states.buffers().values())
        for n in reversed(range(len(self._kept))):
            kept, queued = self._kept[n]
            if kept == key and self._takes(queued, sizes):
                self._kept.append(self._kept.pop(n))
                return queued
        self._kept.append((key, queued_for(self._session, sizes)[0]))
        if len(self._kept) > MOST_KEPT:
            self.wait()
            self._kept.pop(0)[1].release()
        return self._kept[-1][1]

    def _takes(self, queued: Queued, sizes: Mapping[str, int]) -> bool:
        try:
            return queued.resize(sizes)
        except Refused:
            self._kept = [one for one in self._kept if one[1] is not queued]
            queued.release()
            raise

    def _shapes_at(self, sizes: Mapping[str, int]) -> Shapes:
        """The shapes of the outputs that are not new values of states."""
        key = tuple(sizes.values())
        if self._shaped[0] != key:
            model = self._session.model
            found = {t.name: sizes_of(t.type.shape, sizes) for t in model.outputs if model.state_of(t) is None}
            self._shaped = key, found
        return self._shaped[1]


def runs_of(session: Session) -> OnStreams:
    """The runs of a session on streams."""
    if session.on_streams is None:
        session.on_streams = OnStreams(weakref.proxy(session))
    return session.on_streams
