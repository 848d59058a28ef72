"""Integers of 64 bits that need 32: the place of a table's entry that rows and columns give.

    min(max(sub(index(i3) : i64, index(i2) : i64), -128), 128)   →   the same of i32, within -128..128

A multiply-add and a comparison of 64 bits are several instructions, which attention would do for each score.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.body import Binary, Body, Index, Literal, Unary
from ...ir.expr import Expr
from ...ir.intervals import INT_MAX, Interval
from ...ir.types import DTYPES

I32 = DTYPES["i32"]
MINUS = Interval(-1, -1)


def narrow(body: Body, interval: Callable[[Expr], Interval]) -> tuple[Body, Interval] | None:
    """An integer expression in 32 bits with its range, where no part of it leaves them; else None."""
    found = _narrow(body, interval) if body.dtype.is_integer else None
    return found if found is not None and found[1].fits(INT_MAX) else None


def _narrow(body: Body, interval: Callable[[Expr], Interval]) -> tuple[Body, Interval] | None:
    if isinstance(body, Index):
        return Index(body.expr, I32), interval(body.expr)
    if isinstance(body, Literal):
        return Literal(body.value, I32), Interval(int(body.value), int(body.value))
    if isinstance(body, Unary) and body.op == "cast" and body.x.dtype.is_integer and body.x.dtype.kind != "b":
        return narrow(body.x, interval)
    if not isinstance(body, Binary) or body.op not in RANGES:
        return None
    left, right = narrow(body.left, interval), narrow(body.right, interval)
    if left is None or right is None:
        return None
    range_ = RANGES[body.op](left[1], right[1])
    return (Binary(body.op, left[0], right[0], I32), range_) if range_ is not None else None


def _min(left: Interval, right: Interval) -> Interval:
    return Interval(min(left.low, right.low), min(left.high, right.high))


def _max(left: Interval, right: Interval) -> Interval:
    return Interval(max(left.low, right.low), max(left.high, right.high))


def _mod(left: Interval, right: Interval) -> Interval | None:
    """Of natural numbers by a number."""
    return Interval(0, min(left.high, right.low - 1)) if left.low >= 0 and right.low == right.high > 0 else None


def _shr(left: Interval, right: Interval) -> Interval | None:
    """Of natural numbers by a number of bits."""
    is_known = left.low >= 0 and right.low == right.high and 0 <= right.low < 31
    return Interval(left.low >> right.low, left.high >> right.low) if is_known else None


RANGES: dict[str, Callable[[Interval, Interval], Interval | None]] = {
    "add": lambda left, right: left + right,
    "sub": lambda left, right: left + MINUS * right,
    "mul": lambda left, right: left * right,
    "min": _min,
    "max": _max,
    "mod": _mod,
    "shr": _shr,
}
