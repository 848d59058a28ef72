"""A program on tensors of the host: played back, which is slow, and what tests use."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..play.region import play
from ..runtime.external import on_host
from .binding import sizes_from, symbols_of
from .piece import Piece


class OnCpu:
    """Called with torch's tensors, gives torch's tensors."""

    def __init__(self, piece: Piece):
        self._piece = piece
        self._names = {n.name: i for i, n in enumerate(piece.placeholders)}
        self._sizes = sizes_from(piece.placeholders, symbols_of(piece))

    def __call__(self, *arguments: Any) -> Any:
        """One run."""
        piece = self._piece
        given = {}
        for name in piece.inputs:
            given[name] = on_host(name, arguments[self._names[name]].detach().contiguous())
        for name in piece.weights:
            tensor = piece.constants[name] if name in piece.constants else arguments[self._names[name]]
            given[name] = in_memory(on_host_any(name, tensor))
        made = play(piece.module.region, given)
        sizes = dict(zip(symbols_of(piece), self._sizes(arguments)))
        return [self._given(r, made, arguments, sizes) for r in piece.results][slice(None) if piece.is_list else 0]

    def _given(self, r: Any, made: Any, arguments: Any, sizes: Any) -> Any:
        if r.name:
            return to_torch(made[r.name], r.dtype)
        return arguments[r.given] if r.given >= 0 else None if r.size is None else r.size.evaluate(sizes)


def on_host_any(name: str, tensor: Any) -> np.ndarray:
    """A tensor of any dense order, as NumPy sees it."""
    return on_host(name, tensor.detach())


def in_memory(array: np.ndarray) -> np.ndarray:
    """An array with the axes in the order that memory has them."""
    order = sorted(range(array.ndim), key=lambda a: (-array.strides[a], a))
    return np.ascontiguousarray(array.transpose(order))


def to_torch(array: np.ndarray, dtype: Any) -> Any:
    """A tensor of the array's elements; bf16 and fp8, which NumPy's protocols do not know, by their bits."""
    import torch

    whole = np.ascontiguousarray(array).reshape(array.shape)
    if whole.dtype.isbuiltin == 1:
        return torch.from_numpy(whole)
    bits = whole.view(f"u{whole.dtype.itemsize}")
    return torch.from_numpy(bits.copy()).view(dtype)


__all__ = ["OnCpu", "to_torch"]
