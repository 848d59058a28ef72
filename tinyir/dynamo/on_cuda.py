"""A program on tensors of a GPU, queued on torch's current stream; outputs are torch's own memory."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from ..kit.records import dataclass
from ..runtime.abi import ALIGNMENT
from ..runtime.cuda import CudaDevice
from ..runtime.device import Buffer
from ..runtime.program import Program, chosen_of, shared_of
from ..runtime.queued import Held, Queued, lent
from .binding import numbers_from, sizes_from, symbols_of
from .piece import Piece
from .plans import Planned, Plans
from .results import Answer
from .weights import Weights, picker

MOST_SIZES = 8  # sets of sizes that are kept
MOST_WEIGHTS = 128  # sets of weights: of the layers that share a graph, and large models have a hundred


class _Shared:
    """One GPU for all programs of a process: what is queued on it is queued by one thread at a time. In a `with` block
    a thread is alone on the device, whose context, which is torch's too, is that of the thread."""

    def __init__(self, ordinal: int):
        import torch

        self.device = CudaDevice(ordinal)
        self._lock = threading.RLock()
        self._threads = threading.local()
        self._threads.is_ready = True  # the device is of this thread
        self._is_one_of_several = torch.cuda.device_count() > 1
        self._left: list[Any] = []  # the choices of a GPU to go back to, one a block

    def __enter__(self) -> _Shared:
        self._lock.acquire()
        try:
            if self._is_one_of_several:
                self._choose()
            if not hasattr(self._threads, "is_ready"):
                self.device.enter()
                self._threads.is_ready = True
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(self, *fault: Any) -> None:
        try:
            if self._is_one_of_several:
                self._left.pop().__exit__(*fault)
        finally:
            self._lock.release()

    def _choose(self) -> None:
        """Make this GPU the current one, as torch does: the driver has one context at a time."""
        import torch

        chosen = torch.cuda.device(self.device.ordinal)
        chosen.__enter__()
        self._left.append(chosen)


_SHARED: dict[int, _Shared] = {}


def shared(ordinal: int) -> _Shared:
    """The GPU of that number."""
    if ordinal not in _SHARED:
        import torch

        with torch.cuda.device(torch.cuda.current_device()):  # the device makes its own context that of this thread
            _SHARED[ordinal] = _Shared(ordinal)
    return _SHARED[ordinal]


@dataclass(slots=True)
class _Sized:
    queued: Queued
    forms: tuple[tuple[tuple[int, ...], tuple[int, ...], Any], ...]  # of the outputs: shape, strides and dtype
    lengths: tuple[int, ...]
    answers: tuple[Answer, ...]
    read: tuple[int, ...]  # the weights that something is computed of once, by their numbers


class OnCuda:
    """Called with torch's tensors, gives torch's tensors; nothing waits for the GPU. Weights stay where they are: the
    program reads torch's memory. What was computed of them once is computed anew when one of them was written to. Sets
    of weights that take turns are kept side by side."""

    def __init__(self, piece: Piece, jobs: int | None, plans: int):
        self._piece = piece
        self._names = {n.name: i for i, n in enumerate(piece.placeholders)}
        self._index = piece.device.index or 0
        self._shared = shared(self._index)
        self._device = self._shared.device
        with self._shared:
            self._device.jobs = jobs
            first = Planned(piece.sizes, piece.text, piece.module, self._load(piece.text, piece.module))
        self._plans = Plans(first, plans, piece.planned, self._load, self._allow)
        self._inputs = [(self._names[n], piece.orders.get(n)) for n in piece.inputs]
        self._numbers = numbers_from(piece) if piece.numbers else lambda _: ()
        self._held = {n: self._names[n] for n in piece.weights if n not in piece.constants}
        constants = {n: piece.constants[n] for n in piece.weights if n in piece.constants}
        self._constants = {n: _in_rows(c.cuda(self._index)) for n, c in constants.items()}
        made = {r.name: r for r in piece.results if r.name}
        self._made = [made[n] for n in piece.outputs]
        self._gives_made = piece.is_list and [r.name for r in piece.results if not r.strides] == [*piece.outputs]
        self._symbols = symbols_of(piece)
        self._sizes = sizes_from(piece.placeholders, self._symbols) if self._symbols else lambda _: ()
        self._sized: OrderedDict[tuple[int, ...], _Sized] = OrderedDict()
        self._weights_of = picker([*self._held.values()])
        self._now = Weights([], (), ())  # those of the last call
        self._kept: OrderedDict[tuple[int, ...], Weights] = OrderedDict({(): self._now})  # by their places

    def __call__(self, *arguments: Any) -> Any:
        """One run. Raises Refused (E1719, E1730)."""
        import torch

        with self._shared:
            sizes = self._sizes(arguments)
            weights = self._weights(arguments)
            found = self._sized.get(sizes) or self._of_sizes(sizes, arguments)
            held = weights.held.get(sizes) or self._hold(weights, sizes, found, arguments)
            device = self._piece.device
            given = [
                taken(arguments[n] if order is None else arguments[n].permute(order), device)
                for n, order in self._inputs
            ]
            given += [torch.full((), n, dtype=torch.int64, device=device) for n in self._numbers(arguments)]
            given += [torch.empty(n, dtype=torch.bool, device=device) for n in found.lengths]
            made = [torch.empty_strided(*form, dtype=dtype, device=device) for *form, dtype in found.forms]
            found.queued.run(tuple([t.data_ptr() for t in (*given, *made)]), stream_of(self._index), held)
        return made if self._gives_made else self._answer(arguments, made, found)

    def close(self) -> None:
        """Give memory and kernels back, once all runs are over."""
        codes = {id(p.code): p.code for p in self._plans.every}
        self._plans.every.clear()
        if not codes:
            return
        with self._shared:
            self._device.wait_for_all()
            for found in self._sized.values():
                found.queued.release()
            self._sized.clear()
            self._kept.clear()
            for code in codes.values():
                self._device.unload(code)

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # noqa: BLE001 (at the end of the process the driver may be gone, and all with it)
            pass

    def _answer(self, arguments: Sequence[Any], made: Sequence[Any], sized: _Sized) -> Any:
        named = dict(zip(self._piece.outputs, made))
        found = [answer(arguments, named) for answer in sized.answers]
        return found if self._piece.is_list else found[0]

    def _weights(self, arguments: Sequence[Any]) -> Weights:
        """The weights of a call. What was computed of one that was written to since is computed anew."""
        places = [t.data_ptr() for t in self._weights_of(arguments)]
        weights = self._now
        if places != weights.places or weights.gone:
            weights = self._now = self._weights_at(places, arguments)
        if weights.have_changed(arguments):
            weights.copy(arguments)
            self._wait()
            for sizes, held in weights.held.items():
                self._sized[sizes].queued.make_once(held)
            weights.note(arguments)
        return weights

    def _weights_at(self, places: list[int], arguments: Sequence[Any]) -> Weights:
        key = tuple(places)
        found = self._kept.get(key)
        if found is None or found.gone:
            gone = [k for k, one in self._kept.items() if one.gone]
            gone += [*self._kept][: len(self._kept) - len(gone) + 1 - MOST_WEIGHTS]
            self._let_go([self._kept.pop(k) for k in dict.fromkeys(gone)])
            found = self._kept[key] = Weights(places, arguments, self._held.values())
        self._kept.move_to_end(key)
        return found

    def _let_go(self, every: Sequence[Weights]) -> None:
        if any(weights.held for weights in every):
            self._device.wait_for_all()
        for weights in every:
            for sizes, held in weights.held.items():
                self._sized[sizes].queued.let_go(held)

    def _hold(self, weights: Weights, sizes: tuple[int, ...], found: _Sized, arguments: Sequence[Any]) -> Held:
        """What a program has for a set of weights that it is new to."""
        self._wait()  # what is computed once is computed now, of weights that torch may still be writing
        held = found.queued.hold(weights.buffers(arguments, self._held))
        weights.add(sizes, held, found.read, arguments)
        return held

    def _of_sizes(self, sizes: tuple[int, ...], arguments: Sequence[Any]) -> _Sized:
        piece = self._piece
        bound = dict(zip(self._symbols, sizes))
        there = {name: arguments[n] for name, n in self._held.items()}
        kept = {n: lent(n, t.numel(), t.element_size()) for n, t in there.items()}
        kept |= {n: Buffer(n, t.data_ptr(), t.numel(), t.element_size(), -1) for n, t in self._constants.items()}
        forms = tuple((*r.form(bound), r.dtype) for r in self._made)
        lengths = tuple(bound[s] for s in piece.lengths.values())
        for name, (n, _) in zip(piece.inputs, self._inputs):
            kept[name] = lent(name, arguments[n].numel(), arguments[n].element_size())
        kept |= {name: lent(name, 1, 8) for name in piece.numbers}
        kept |= {name: lent(name, n, 1) for name, n in zip(piece.lengths, lengths)}
        for r, (shape, _, dtype) in zip(self._made, forms):
            kept[r.name] = lent(r.name, math.prod(shape), dtype.itemsize)
        own = {s: bound[s] for s in piece.model.symbols()}
        plans = self._plans.of(own)
        program = Program(self._device, plans.text, plans.module, own, kept, plans.code, lends_once=True)
        given = (*piece.inputs, *piece.numbers, *piece.lengths)
        queued = Queued(self._device, program, given, piece.outputs)
        read = tuple(self._names[n] for n in sorted(program.once_reads) if n in self._held)
        found = _Sized(queued, forms, lengths, tuple(r.answer(bound) for r in piece.results), read)
        self._sized[sizes] = found
        if len(self._sized) > MOST_SIZES:
            first, old = self._sized.popitem(last=False)
            self._device.wait_for_all()
            old.queued.release()
            for weights in self._kept.values():
                weights.held.pop(first, None)
        return found

    def _load(self, text: str, module: Any) -> Any:
        return self._device.load(text, shared_of(module.launches))

    def _allow(self, module: Any, sizes: Mapping[str, int]) -> None:
        chosen_of(module, sizes, self._device)

    def _wait(self) -> None:
        import torch

        torch.cuda.current_stream(self._index).synchronize()


def stream_of(ordinal: int) -> int:
    """The handle of torch's current stream on a GPU, asked as torch's own generated code asks: without an object."""
    import torch

    return torch._C._cuda_getCurrentRawStream(ordinal)


def taken(tensor: Any, device: Any) -> Any:
    """An input as a program reads it: contiguous, at a whole 16 bytes, on its GPU."""
    if tensor.is_cuda and tensor.is_contiguous() and not tensor.data_ptr() % ALIGNMENT:
        return tensor
    moved = tensor.to(device).contiguous()
    return moved.clone() if moved.data_ptr() % ALIGNMENT else moved


def _in_rows(tensor: Any) -> Any:
    """A constant with its axes in the order of memory."""
    order = sorted(range(tensor.dim()), key=lambda a: (-tensor.stride(a), a))
    return tensor.permute(order).contiguous()
