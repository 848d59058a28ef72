"""Outputs against what they should be: floats within a tolerance, everything else exactly, NaN where NaN is due.

Two right orders of summation may round to neighbouring values, so the relative tolerance is at least the distance of
neighbours in the output's dtype: that is below 1e-3 for fp16 and wider types, 2^-7 for bf16, 2^-3 and 2^-2 for fp8.
Where elements are further away and values are rounded on the way, what those roundings can do is added, element by
element (`play.roundings`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..ir.types import DTYPES
from ..kit.diag import Diag
from ..kit.records import dataclass, replace

RTOL = ATOL = 1e-3


@dataclass(frozen=True, slots=True)
class Difference:
    """How far one output is from the expected one: `wrong` of `total` elements are beyond `atol + rtol*|expected|`; the
    largest difference is `largest` (absolute), and the element furthest beyond its tolerance is at `index`. `rounded`
    elements are within it because of roundings on the way."""

    tensor: str
    rtol: float
    atol: float
    total: int
    wrong: int
    largest: float
    index: tuple[int, ...]
    given: Any
    expected: Any
    rounded: int = 0

    def __str__(self) -> str:
        agree = f"{self.total} elements agree" if not self.wrong else f"{self.wrong} of {self.total} elements differ"
        nearly = f"; {self.rounded} by what roundings on the way do" if self.rounded else ""
        return (
            f"{self.tensor}: {agree} (rtol {self.rtol:g}, atol {self.atol:g}; largest difference {self.largest:.3g}"
            f"{nearly})"
        )

    def diag(self) -> Diag | None:
        """E1731 when elements are wrong, else None."""
        if not self.wrong:
            return None
        worst = {"index": list(self.index), "given": self.given, "expected": self.expected}
        counts = {"tensor": self.tensor, "wrong": self.wrong, "total": self.total, "rtol": self.rtol, "atol": self.atol}
        return Diag("E1731", self.tensor, counts | worst)


def compare(
    outputs: Mapping[str, np.ndarray],
    expected: Mapping[str, np.ndarray],
    rtol: float = RTOL,
    atol: float = ATOL,
    spread: Callable[[], Mapping[str, np.ndarray]] | None = None,
) -> tuple[Difference, ...]:
    """One Difference for each expected output. `spread` tells how far roundings on the way may move each element of
    outputs that are floats; it is asked where elements are wrong without."""
    found = {
        name: _compare(name, np.asarray(outputs[name]), np.asarray(wanted), rtol, atol)
        for name, wanted in expected.items()
    }
    wrong = [name for name, one in found.items() if one.wrong and expected[name].dtype.kind not in "biu"]
    room = spread() if wrong and spread is not None else {}
    for name in room.keys() & set(wrong):
        again = _compare(name, np.asarray(outputs[name]), np.asarray(expected[name]), rtol, atol, room[name])
        found[name] = replace(again, rounded=found[name].wrong - again.wrong)
    return tuple(found.values())


def _spacing(dtype: np.dtype) -> float:
    """The largest distance of two neighbours, relative to them; 0 for what is not a float."""
    found = next((d for d in DTYPES.values() if d.numpy == dtype.name and d.is_float), None)
    return 2.0 ** (1 - found.digits) if found else 0.0


def _compare(
    name: str, given: np.ndarray, expected: np.ndarray, rtol: float, atol: float, room: np.ndarray | float = 0.0
) -> Difference:
    rtol = max(rtol, _spacing(expected.dtype))
    if expected.dtype.kind in "biu":
        beyond = (given != expected).astype(np.float64)
        largest = float(np.max(np.abs(given.astype(np.float64) - expected.astype(np.float64)), initial=0.0))
    else:
        left, right = given.astype(np.float64), expected.astype(np.float64)
        same = (left == right) | (np.isnan(left) & np.isnan(right))
        with np.errstate(all="ignore"):
            distance = np.where(same, 0.0, np.abs(left - right))
            beyond = np.where(same, 0.0, distance - (atol + rtol * np.abs(right) + room))
        beyond = np.where(np.isnan(beyond) | np.isinf(right) & ~same, np.inf, beyond)
        largest = float(np.max(np.where(np.isnan(distance), np.inf, distance), initial=0.0))
    if not beyond.size:
        return Difference(name, rtol, atol, 0, 0, 0.0, (), None, None)
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(beyond)), beyond.shape))
    return Difference(
        name,
        rtol,
        atol,
        beyond.size,
        int(np.count_nonzero(beyond > 0)),
        largest,
        index,
        given[index].item(),
        expected[index].item(),
    )
