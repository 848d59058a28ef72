"""How far roundings move what is computed.

Two right ways of computing a number differ in its last digits: sums have another order, factors another place, a
rounding is left out. What is computed of such a number differs by as much as that is worth: little mostly, much where
nearly equal numbers are subtracted, and wholly where it falls on the other side of a comparison or of a floor. So it is
played several times with numbers moved by chance by as much as roundings may move them (`Moves`). An element moves by
a sum of many such small moves: it is FAR times their root mean square away once in 16,000 times, even if each rounding
were by chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..ir.body import Binary, Body, Literal, Scan, Scatter, Unary
from ..ir.evaluate import compute_dtype, convert
from ..ir.region import Module
from ..ir.types import DType
from ..kit.records import replace
from .grid import Frame, Grid
from .region import play

TIMES = 8  # that it is played
FAR = 4
UNITS = 2  # in the last place, by which one op moves what it gives
INEXACT = frozenset("add sub mul fdiv recip sqrt rsqrt exp2 log2 sin tanh erf pow cast".split())


class Moves:
    """Moves the floats that ops give, by chance: what was rounded to 16 or 8 bits to itself or a neighbour, others by
    units in their last place, sums by what the order of their terms may change."""

    def __init__(self, seed: int):
        self.draw = np.random.default_rng(seed)
        self.beyond = (0.0, np.nan)[seed % 2]  # what a fold gives that overflows in some order

    def op(self, body: Body, unrounded: np.ndarray, found: np.ndarray) -> np.ndarray:
        """What an op gives, moved; `unrounded` is what was rounded to its dtype."""
        if not body.dtype.is_float or getattr(body, "op", "") not in INEXACT:
            return found
        if body.dtype.bits < 32 or getattr(body, "op", "") == "cast":
            return self.rounded(body.dtype, unrounded, found)
        return self._moved(found, np.abs(found), body.dtype)

    def rounded(self, dtype: DType, unrounded: np.ndarray, found: np.ndarray) -> np.ndarray:
        """What was rounded to a dtype, and has changed by that, as it is or as a neighbour."""
        if not dtype.is_float or unrounded.dtype == found.dtype:
            return found
        wide = found.astype(np.float64)
        with np.errstate(all="ignore"):
            unit = np.ldexp(1.0, np.frexp(wide)[1] - dtype.digits)
            is_rounded = np.isfinite(wide) & (wide != unrounded.astype(np.float64))
            return convert(wide + np.where(is_rounded, self.draw.integers(-1, 2, wide.shape) * unit, 0), dtype)

    def fold(self, body: Body, found: Grid, frame: Frame, played: Callable[[Body, Frame], Grid]) -> Grid:
        """What a fold gives before it is rounded, moved; `played` plays an expression."""
        if not body.dtype.is_float or getattr(body, "op", "") not in ("sum", "prod"):
            return found
        count = 1
        for name in (body.axis,) if isinstance(body, Scan) else [a.name for a in getattr(body, "axes", ())]:
            start, stop = frame.spans[name] if name in frame.spans else (0, 1)
            count *= max(1, stop - start)
        added = played(_sizes(body), replace(frame, moves=None))
        reach = np.broadcast_to(added.along(found.axes), found.array.shape)
        with np.errstate(all="ignore"):
            size = count * np.abs(found.array)  # as much as alike numbers move a sum that is added up one by one
            if getattr(body, "op", "") == "sum":
                size = size + math.sqrt(count) * reach
        moved = self._moved(found.array, size, body.dtype)
        return Grid(np.where(np.isfinite(reach), moved, self.beyond).astype(moved.dtype), found.axes)

    def _moved(self, found: np.ndarray, size: np.ndarray, dtype: DType) -> np.ndarray:
        """Numbers moved by units in the last place of `size`."""
        digits = np.finfo(compute_dtype(dtype)).nmant + 1
        with np.errstate(all="ignore"):
            by = UNITS * 2.0**-digits * size * self.draw.uniform(-1, 1, found.shape)
            return np.where(np.isfinite(found) & np.isfinite(by), found + by, found).astype(found.dtype)


def _sizes(fold: Body) -> Body:
    """How far a fold gets in the worst order: the sum of the magnitudes of what is added, the product of those over 1.
    Where that overflows, some order does."""
    if isinstance(fold, Scatter):
        return replace(fold, base=_magnitude(fold.base, fold.op), update=_magnitude(fold.update, fold.op))
    return replace(fold, body=_magnitude(fold.body, fold.op))  # pyright: ignore - it is a Reduce or a Scan


def _magnitude(body: Body, op: str) -> Body:
    if isinstance(body, Binary) and body.op == "mul":  # which stays a product, that need not be formed
        return replace(body, left=_magnitude(body.left, op), right=_magnitude(body.right, op))
    size = Unary("abs", body, body.dtype) if body.dtype.is_float else body
    return Binary("max", size, Literal(1.0, body.dtype), body.dtype) if op == "prod" and body.dtype.is_float else size


def spread_of(
    module: Module, arrays: Mapping[str, Any], symbols: Mapping[str, int] | None = None
) -> dict[str, np.ndarray]:
    """Of each element of each output that is a float how far roundings may move it. Raises Refused as `play` does."""
    base = play(module, arrays, symbols)
    floats = [t.name for t in module.model.outputs if t.type.dtype.is_float]
    moved = [play(module, arrays, symbols, moves=Moves(seed)) for seed in range(TIMES)]
    return {name: spread(base[name], [one[name] for one in moved]) for name in floats}


def spread(base: np.ndarray, moved: list[np.ndarray]) -> np.ndarray:
    """How far each element may move, of arrays that have moved by chance."""
    with np.errstate(all="ignore"):
        away = [one.astype(np.float64) - base.astype(np.float64) for one in moved]
        return FAR * np.sqrt(sum(np.where(np.isfinite(a), a, 0.0) ** 2 for a in away) / len(away))


def turned(base: np.ndarray, moved: list[np.ndarray]) -> np.ndarray:
    """Which elements become wholly other ones: integers that change, numbers that overflow or are none."""
    if base.dtype.kind in "biu":
        return np.any([one != base for one in moved], axis=0)
    return np.any([kind != k for one in moved for kind, k in zip(_kinds(one), _kinds(base))], axis=0)


def _kinds(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    wide = array.astype(np.float64)
    return np.isfinite(wide), np.isnan(wide)
