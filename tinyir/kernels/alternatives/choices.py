"""Expressions that are written out at other axes: choices that the ranges of axes decide."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.body import Binary, Body, Select, Ternary, counted, rebuild
from ...ir.expr import Bound, Expr
from ...ir.intervals import Interval, interval_of


def decided(body: Body, ranges: Mapping[str, Interval]) -> Body:
    """The expression without choices that the ranges of axes decide."""
    body = rebuild(body, lambda inner: decided(inner, ranges))
    if isinstance(body, Select):
        known = [_holds(b, ranges) for b in body.guard]
        if all(known):
            return body.then
        return body.other if False in known else body
    if isinstance(body, Ternary) and body.op == "where" and isinstance(body.first, Binary):
        truth = _compared(body.first, ranges)
        return body if truth is None else body.second if truth else body.third
    return body


def _holds(bound: Bound, ranges: Mapping[str, Interval]) -> bool | None:
    """Whether a guard holds at every point, or at none."""
    if bound.equals is not None:
        return None
    above = bound.lower is None or _is_below(bound.lower - bound.expr - 1, ranges)
    below = bound.upper is None or _is_below(bound.expr - bound.upper, ranges)
    if above is False or below is False:
        return False
    return True if above and below else None


def _is_below(e: Expr, ranges: Mapping[str, Interval]) -> bool | None:
    """Whether an expression is below 0 at every point, or at none."""
    found = interval_of(e, ranges)
    if found.high is not None and found.high < 0:
        return True
    return False if found.low is not None and found.low >= 0 else None


def _compared(body: Binary, ranges: Mapping[str, Interval]) -> bool | None:
    """What a comparison of counted places gives at every point."""
    left, right = counted(body.left), counted(body.right)
    return _is_below(left - right, ranges) if body.op == "cmplt" and left is not None and right is not None else None
