"""Arithmetic on a number, or on a column of numbers: the same function counts one thing, or every row of a table at
once.

    least(tile, 64)                   min(tile, 64); of a column of tiles the smaller one in each row
    pick(tile > 64, 2, 1)             2 if tile > 64 else 1, likewise

`+`, `*`, `//`, `<` and `&` mean the same for both already. Numbers stay Python's own and need no NumPy; a column is an
array of int64 or float64, or of bool.
"""

from __future__ import annotations

import functools
import math
from typing import Any, TypeAlias

Number: TypeAlias = Any  # an int, a float or a bool, or a column of them
_PLAIN = frozenset((int, float, bool))  # which most are


def is_column(x: Number) -> bool:
    """Whether it is a column."""
    return x.__class__ not in _PLAIN and not isinstance(x, (int, float))


def _are_plain(numbers: tuple[Number, ...]) -> bool:
    for x in numbers:  # a loop: the numbers of each candidate come here
        if x.__class__ not in _PLAIN and not isinstance(x, (int, float)):
            return False
    return True


def pick(is_so: Number, yes: Number, no: Number) -> Number:
    """`yes` where it is so, else `no`."""
    if not is_column(is_so):
        return yes if is_so else no
    import numpy as np

    return np.where(is_so, yes, no)


def least(*numbers: Number) -> Number:
    """The smallest of them."""
    if _are_plain(numbers):
        return min(numbers)
    import numpy as np

    return functools.reduce(np.minimum, numbers)


def most(*numbers: Number) -> Number:
    """The greatest of them."""
    if _are_plain(numbers):
        return max(numbers)
    import numpy as np

    return functools.reduce(np.maximum, numbers)


def gcd(left: Number, right: Number) -> Number:
    """The greatest common divisor of two whole numbers."""
    if not is_column(left) and not is_column(right):
        return math.gcd(left, right)
    import numpy as np

    return np.gcd(left, right)


def power(base: Number, exponent: float) -> Number:
    """`base ** exponent`, with the same bits in a column as alone: NumPy's own powers differ from Python's in the last
    bit on some machines."""
    if not is_column(base):
        return base**exponent
    import numpy as np

    return np.array([x**exponent for x in base.tolist()])


def entry(values: Any, at: Number) -> Number:
    """The entry of a list of numbers at a place."""
    if not is_column(at):
        return values[at]
    import numpy as np

    return np.asarray(values)[at]


def at_row(column: Number, number: int) -> Number:
    """What a column has in a row, as a number of Python's; a number is the same in every row."""
    return column[number].item() if is_column(column) else column


def uniform(is_so: Number) -> bool:
    """What holds of every row or of none. Raises ValueError where rows differ."""
    if not is_column(is_so):
        return bool(is_so)
    if is_so.all() != is_so.any():
        raise ValueError(is_so)
    return bool(is_so.all())
