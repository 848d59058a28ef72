"""Playback of the ops beyond the affine core: GATHER, SCATTER, SCAN, RANDOM (spec sections 5 and 16)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir.types import DType


def in_range(index: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices with the negative ones counted from the end, and which of them are within 0..size."""
    wide = (
        index.astype(np.int64) if index.dtype != np.uint64 else np.minimum(index, np.uint64(1 << 62)).astype(np.int64)
    )
    counted = np.where(wide < 0, wide + size, wide)
    is_inside = (0 <= counted) & (counted < size)
    return np.where(is_inside, counted, 0), is_inside


def gather(source: np.ndarray, index: np.ndarray, axis: int) -> np.ndarray:
    """`source` read along `axis` at `index`, whose axes take its place; an index out of range reads 0."""
    axis %= source.ndim
    where, is_inside = in_range(index, source.shape[axis])
    shape = source.shape[:axis] + index.shape + source.shape[axis + 1 :]
    if source.shape[axis] == 0:
        return np.zeros(shape, source.dtype)
    found = np.take(source, where, axis)
    if not is_inside.all():
        mask = is_inside.reshape((1,) * axis + index.shape + (1,) * (source.ndim - axis - 1))
        found = np.where(mask, found, np.zeros((), source.dtype))
    return found


def scatter(source: np.ndarray, index: np.ndarray, update: np.ndarray, axis: int, op: str) -> np.ndarray:
    """A copy of `source` with `update` (shaped as GATHER's result) put at `index` along `axis`: UPDATE (the last one
    stays), SUM, PROD, MAX or MIN. An update out of range is dropped."""
    axis %= source.ndim
    where, is_inside = in_range(index, source.shape[axis])
    found = np.moveaxis(source.copy(), axis, 0)
    rows = np.moveaxis(update, list(range(axis, axis + index.ndim)), list(range(index.ndim)))
    rows = np.broadcast_to(rows, index.shape + found.shape[1:])[is_inside]
    places = where[is_inside]
    fold = {"SUM": np.add, "PROD": np.multiply, "MAX": np.maximum, "MIN": np.minimum}.get(op)
    if fold is not None:
        fold.at(found, places, rows)
    else:
        for place, row in zip(places, rows):
            found[place] = row
    return np.moveaxis(found, 0, axis)


def scan(source: np.ndarray, op: str, axis: int, neutral: Any, reverse: bool, exclusive: bool) -> np.ndarray:
    """The running fold along `axis`, from the end when `reverse`; `exclusive` leaves the element itself out. It starts
    from the neutral element, as a fold does: the sum of -0.0 is 0.0."""
    line = np.moveaxis(source, axis, 0)
    line = line[::-1] if reverse else line
    fold = {"SUM": np.add, "PROD": np.multiply, "MAX": np.maximum, "MIN": np.minimum}[op]
    start = np.asarray(neutral, source.dtype)
    found = fold(fold.accumulate(line, 0, dtype=source.dtype), start) if line.shape[0] else line.copy()
    if exclusive and found.shape[0]:
        found = np.concatenate([np.full_like(found[:1], start), found[:-1]])
    found = found[::-1] if reverse else found
    return np.moveaxis(found, 0, axis)


_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)


def philox(counter: np.ndarray, key: int) -> np.ndarray:
    """Philox 4x32-10 (Salmon et al., SC 2011): four 32-bit words, shape [4, n], for each 64-bit counter and a 64-bit
    key."""
    words = [counter & _LOW, counter >> np.uint64(32), np.zeros_like(counter), np.zeros_like(counter)]
    low, high = key & 0xFFFFFFFF, key >> 32 & 0xFFFFFFFF
    for _ in range(10):
        first, second = words[0] * _MULTIPLIERS[0], words[2] * _MULTIPLIERS[1]
        words = [
            (second >> np.uint64(32)) ^ words[1] ^ np.uint64(low),
            second & _LOW,
            (first >> np.uint64(32)) ^ words[3] ^ np.uint64(high),
            first & _LOW,
        ]
        low, high = (low + _KEY_STEPS[0]) & 0xFFFFFFFF, (high + _KEY_STEPS[1]) & 0xFFFFFFFF
    return np.stack(words)


def random(seed: int, offset: int, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """RANDOM: element e of the row-major order is word e mod 4 of Philox block offset + e/4. Floats are uniform in [0,
    1) with 24 random bits, integers take the low bits of the word, a bool its lowest."""
    return random_at(seed, offset, np.arange(math.prod(shape), dtype=np.int64), dtype).reshape(shape)


def random_at(seed: int, offset: int, elements: np.ndarray, dtype: DType) -> np.ndarray:
    """The elements of RANDOM at row-major places, in any order."""
    shape = elements.shape
    blocks, where = np.unique(elements.reshape(-1).astype(np.uint64) // np.uint64(4), return_inverse=True)
    drawn = philox(blocks + np.uint64(offset & ((1 << 64) - 1)), seed & ((1 << 64) - 1))
    words = drawn[elements.reshape(-1) % 4, where.reshape(-1)]
    if dtype.is_float:
        return ((words >> np.uint64(8)).astype(np.float64) * 2.0**-24).reshape(shape)
    kept = words & np.uint64((1 << (1 if dtype.kind == "b" else min(dtype.bits, 32))) - 1)
    return kept.astype(np.dtype(f"u{dtype.bytes}")).view(np.dtype(dtype.numpy)).reshape(shape)
