"""How far roundings on the way move the outputs.

Two right orders of a sum give numbers that differ in their last digits; where such a number is rounded to fewer digits,
one may become the neighbour of the other, and what is computed of it differs by as much as that neighbour does. The
program is played several times, each value that is rounded to fewer digits becoming itself or one of its neighbours by
chance. An element of an output moves by a sum of many such small moves: it is FAR times their root mean square away
once in 16,000 times, even if each rounding were by chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..ir.region import Module
from ..ir.types import DType
from .arrays import convert
from .region import play

TIMES = 8  # that the program is played
FAR = 4


def spread_of(
    module: Module, arrays: Mapping[str, Any], symbols: Mapping[str, int] | None = None
) -> dict[str, np.ndarray]:
    """Of each element of each output that is a float how far roundings may move it. Raises Refused as `play` does."""
    base = play(module, arrays, symbols)
    floats = {t.name for t in module.model.outputs if t.type.dtype.is_float}
    squares = {name: np.zeros(base[name].shape) for name in floats}
    for seed in range(TIMES):
        draw = np.random.default_rng(seed)
        moved = play(
            module, arrays, symbols, rounded=lambda found, dtype, draw=draw: _to_neighbours(found, dtype, draw)
        )
        for name, total in squares.items():
            with np.errstate(invalid="ignore"):
                away = moved[name].astype(np.float64) - base[name].astype(np.float64)
            total += np.where(np.isfinite(away), away, 0.0) ** 2
    return {name: FAR * np.sqrt(total / TIMES) for name, total in squares.items()}


def _to_neighbours(found: np.ndarray, dtype: DType, draw: np.random.Generator) -> np.ndarray:
    """The numbers, or those of the dtype beside them."""
    wide = found.astype(np.float64)
    with np.errstate(invalid="ignore"):
        unit = np.ldexp(1.0, np.frexp(wide)[1] - dtype.digits)
        return convert(np.where(np.isfinite(wide), wide + draw.integers(-1, 2, wide.shape) * unit, wide), dtype)


__all__ = ["spread_of"]
