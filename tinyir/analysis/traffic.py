"""What a fusion saves and costs, in seconds on a card of today: the fusion side of the cost model (seed 001 section 11).

Only the order of magnitude matters: a round trip through memory against the same work done again. The figures are those of an H100
(3.35 TB/s, 60 TFLOP/s of plain fp32, 3 us a launch); a card with other figures has much the same ratio.
"""

from __future__ import annotations

import math
from typing import Iterable, Mapping

from ..ir.expr import Expr
from ..ir.model import Model

BYTES_PER_SECOND = 3.35e12
OPS_PER_SECOND = 6.0e13
LOADS_PER_SECOND = 7.2e12  # of elements that are in the cache: a warp each SM and clock
LAUNCH_SECONDS = 3.0e-6
UNKNOWN_SIZE = 256  # of a symbol that no shape set gives
SLOW = frozenset(("FDIV", "RECIP", "SQRT", "RSQRT", "EXP2", "LOG2", "SIN", "TANH", "ERF", "POW", "MOD", "REM", "IDIV", "FLOORDIV"))
SLOW_OPS = 16  # plain ops that one of these is worth
TILE = 128  # rows or columns of a contraction that share one load of an operand


def typical_sizes(model: Model) -> dict[str, int]:
    """A size for every symbol: the first shape set's, else one within its range."""
    stated = dict(model.shape_sets[0].sizes) if model.shape_sets else {}
    return {s: stated.get(s, min(max(UNKNOWN_SIZE, model.range_of(s).low), model.range_of(s).high)) for s in model.symbols()}


def points_of(sizes: Iterable[Expr], typical: Mapping[str, int]) -> int:
    """How many points a space of these sizes has, typically; at least 1."""
    return max(1, math.prod(max(0, s.evaluate(typical)) for s in sizes))


def round_trip(elements: int, bytes_each: int) -> float:
    """Seconds to write a tensor and read it again, with the launch that a cut costs."""
    return 2 * elements * bytes_each / BYTES_PER_SECOND + LAUNCH_SECONDS


def recompute(ops_each: float, elements: int, times: float, loads_each: float = 0.0) -> float:
    """Seconds of computing `elements`, each of `ops_each` ops and `loads_each` loads that hit the cache, `times` over instead of once."""
    each = max(ops_each / OPS_PER_SECOND, loads_each / LOADS_PER_SECOND)
    return each * elements * max(0.0, times - 1)


__all__ = ["SLOW", "SLOW_OPS", "TILE", "points_of", "recompute", "round_trip", "typical_sizes"]
