"""A program on tensors of the host: played back, which is slow, and what tests use."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..play.region import play
from ..runtime.external import on_host
from .binding import numbers_from, sizes_from, symbols_of
from .graph import inverse
from .piece import Piece
from .results import Result


class OnCpu:
    """Called with torch's tensors, gives torch's tensors."""

    def __init__(self, piece: Piece):
        self._piece = piece
        self._names = {n.name: i for i, n in enumerate(piece.placeholders)}
        self._sizes = sizes_from(piece.placeholders, symbols_of(piece))
        self._numbers = numbers_from(piece)

    def __call__(self, *arguments: Any) -> Any:
        """One run."""
        piece = self._piece
        sizes = dict(zip(symbols_of(piece), self._sizes(arguments)))
        given: dict[str, Any] = {n: np.int64(x) for n, x in zip(piece.numbers, self._numbers(arguments))}
        given |= {n: np.broadcast_to(np.False_, (sizes[s],)) for n, s in piece.lengths.items()}
        for name in piece.inputs:
            tensor, order = arguments[self._names[name]].detach(), piece.orders.get(name)
            given[name] = on_host(name, (tensor if order is None else tensor.permute(order)).contiguous())
        for name in piece.weights:
            tensor = piece.constants[name] if name in piece.constants else arguments[self._names[name]]
            given[name] = in_memory(on_host_any(name, tensor))
        found = play(piece.module.region, given)
        made = {r.name: _as_torch(found[r.name], r) for r in piece.results if r.name}
        answers = [r.answer(sizes)(arguments, made) for r in piece.results]
        return answers if piece.is_list else answers[0]


def _as_torch(array: np.ndarray, r: Result) -> Any:
    stored = to_torch(array, r.dtype)
    return stored.permute(inverse(r.order)) if r.order else stored


def on_host_any(name: str, tensor: Any) -> np.ndarray:
    """A tensor of any dense order, as NumPy sees it."""
    return on_host(name, tensor.detach())


def in_memory(array: np.ndarray) -> np.ndarray:
    """An array with the axes in the order that memory has them."""
    order = sorted(range(array.ndim), key=lambda a: (-array.strides[a], a))
    found = array.transpose(order)
    return np.ascontiguousarray(found).reshape(found.shape)


def to_torch(array: np.ndarray, dtype: Any) -> Any:
    """A tensor of the array's elements; bf16 and fp8, which NumPy's protocols do not know, by their bits."""
    import torch

    whole = np.ascontiguousarray(array).reshape(array.shape)
    if not whole.size:  # whose strides NumPy counts otherwise
        return torch.empty(whole.shape, dtype=dtype)
    if whole.dtype.isbuiltin == 1:
        return torch.from_numpy(whole)
    bits = whole.view(f"u{whole.dtype.itemsize}")
    return torch.from_numpy(bits.copy()).view(dtype)
