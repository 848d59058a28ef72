"""Integers of a dry run: one number, or an array of one for each thread."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ...expr import Bound, Expr
from ..nodes import Kernel

WARP = 32


def value(e: Expr, names: Mapping[str, Any]) -> Any:
    """An integer, one for each thread where they differ, or None where it is not known."""
    try:
        return e.evaluate(names)
    except (
        KeyError,
        TypeError,
        ZeroDivisionError,
        OverflowError,
    ):  # a name that is None, a number of more than 64 bits
        return None


def holds(guard: Iterable[Bound], names: Mapping[str, Any]) -> Any:
    """Whether a guard holds, for each thread where they differ; None where that is not known."""
    result: Any = True
    for bound in guard:
        middle = value(bound.expr, names)
        for e, compare in ((bound.lower, operator.le), (bound.upper, operator.gt), (bound.equals, operator.eq)):
            if e is None:
                continue
            side = value(e, names)
            if middle is None or side is None:
                return None
            result = result & compare(side, middle)
    return result


def places(kernel: Kernel, cluster: tuple[int, ...], rank: int, first: int, count: int) -> dict[str, Any]:
    """The places of `count` threads from `first` on, in the CTA of this rank of a cluster."""
    t = np.arange(first, first + count)
    names: dict[str, Any] = {"cluster.rank": rank}
    thread, cta = t, rank
    for axis, size, ctas, number in zip("xyz", (*kernel.block, 1, 1), (*kernel.cluster, 1, 1, 1), (*cluster, 0, 0, 0)):
        names[f"thread.{axis}"], thread = thread % size, thread // size
        names[f"cta.{axis}"], cta = number * ctas + cta % ctas, cta // ctas
    is_warpgroup = first // 128 == (first + count - 1) // 128
    return {
        **names,
        "thread.index": t,
        "warp.index": t // WARP,
        "lane": t % WARP,
        "warpgroup.index": first // 128 if is_warpgroup else t // 128,
        "warpgroup.thread": t % 128,
    }
