"""Outputs against what they should be: floats within a tolerance, everything else exactly, NaN where NaN is due."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping

import numpy as np

from ..kit.diag import Diag

RTOL = ATOL = 1e-3


@dataclass(frozen=True, slots=True)
class Difference:
    """How far one output is from the expected one: `wrong` of `total` elements are beyond `atol + rtol*|expected|`; the largest
    difference is `largest` (absolute), and the element furthest beyond its tolerance is at `index`."""

    tensor: str
    total: int
    wrong: int
    largest: float
    index: tuple[int, ...]
    given: Any
    expected: Any

    def diag(self, rtol: float, atol: float) -> Diag | None:
        """E1731 when elements are wrong, else None."""
        if not self.wrong:
            return None
        worst = {"index": list(self.index), "given": self.given, "expected": self.expected}
        return Diag("E1731", self.tensor, {"tensor": self.tensor, "wrong": self.wrong, "total": self.total, "rtol": rtol, "atol": atol} | worst)


def compare(outputs: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], rtol: float = RTOL, atol: float = ATOL) -> tuple[Difference, ...]:
    """One Difference for each expected output."""
    return tuple(_compare(name, np.asarray(outputs[name]), np.asarray(wanted), rtol, atol) for name, wanted in expected.items())


def _compare(name: str, given: np.ndarray, expected: np.ndarray, rtol: float, atol: float) -> Difference:
    if expected.dtype.kind in "biu":
        beyond = (given != expected).astype(np.float64)
        largest = float(np.max(np.abs(given.astype(np.float64) - expected.astype(np.float64)), initial=0.0))
    else:
        left, right = given.astype(np.float64), expected.astype(np.float64)
        same = (left == right) | (np.isnan(left) & np.isnan(right))
        with np.errstate(invalid="ignore"):
            distance = np.where(same, 0.0, np.abs(left - right))
            beyond = np.where(same, 0.0, distance - (atol + rtol * np.abs(right)))
        beyond = np.where(np.isnan(beyond) | np.isinf(right) & ~same, np.inf, beyond)
        largest = float(np.max(np.where(np.isnan(distance), np.inf, distance), initial=0.0))
    if not beyond.size:
        return Difference(name, 0, 0, 0.0, (), None, None)
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(beyond)), beyond.shape))
    return Difference(name, beyond.size, int(np.count_nonzero(beyond > 0)), largest, index, given[index].item(), expected[index].item())
