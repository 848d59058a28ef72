"""What a fusion saves and costs, in seconds on a card of today: the fusion side of the cost model (seed 001 section
11).

Only the order of magnitude matters: a round trip through memory against the same work done again. The figures are those
of an H100 (3.35 TB/s, 60 TFLOP/s of plain fp32, 3 us a launch); a card with other figures has much the same ratio.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from ..ir.expr import Expr
from ..ir.model import Model
from ..ir.types import DType

BYTES_PER_SECOND = 3.35e12
OPS_PER_SECOND = 6.0e13
TENSOR_OPS_PER_SECOND = 6.0e14  # what a well-made kernel reaches on tensor cores with halves
LOADS_PER_SECOND = 7.2e12  # of elements that are in the cache: a warp each SM and clock
LAUNCH_SECONDS = 3.0e-6
UNKNOWN_SIZE = 256  # of a symbol that no shape set gives
HALVES = ("fp16", "bf16")
SLOW = frozenset(
    ("FDIV", "RECIP", "SQRT", "RSQRT", "EXP2", "LOG2", "SIN", "TANH", "ERF", "POW", "MOD", "REM", "IDIV", "FLOORDIV")
)
SLOW_OPS = 16  # plain ops that one of these is worth
TILE = 128  # rows or columns of a contraction that share one load of an operand
FEW_ROWS = 64  # of a product whose other factor tensor cores take as it is computed
CARD = 132  # tiles of a contraction that fill a card; one with fewer leaves room for its siblings


def typical_sizes(model: Model) -> dict[str, int]:
    """A size for every symbol: the first shape set's, else one within its range."""
    stated = dict(model.shape_sets[0].sizes) if model.shape_sets else {}
    return {
        s: stated.get(s, min(max(UNKNOWN_SIZE, model.range_of(s).low), model.range_of(s).high)) for s in model.symbols()
    }


def points_of(sizes: Iterable[Expr], typical: Mapping[str, int]) -> int:
    """How many points a space of these sizes has, typically; at least 1."""
    return max(1, math.prod(max(0, s.evaluate(typical)) for s in sizes))


def fills_card(results: int) -> bool:
    """Whether a contraction with this number of results has a tile for every part of a card."""
    return math.ceil(results / TILE**2) >= CARD


def transfer(count: float) -> float:
    """Seconds that these bytes take from or to memory."""
    return count / BYTES_PER_SECOND


def round_trip(elements: int, bytes_each: int) -> float:
    """Seconds to write a tensor and read it again, with the launch that a cut costs."""
    return transfer(2 * elements * bytes_each) + LAUNCH_SECONDS


def recompute(ops_each: float, elements: int, times: float, loads_each: float = 0.0) -> float:
    """Seconds of computing `elements`, each of `ops_each` ops and `loads_each` loads that hit the cache, `times` over
    instead of once."""
    each = max(ops_each / OPS_PER_SECOND, loads_each / LOADS_PER_SECOND)
    return each * elements * max(0.0, times - 1)


def without_tensor_cores(ops: float, moved: float, factors: Sequence[DType], total: DType) -> float:
    """Seconds that a contraction with these ops and bytes takes longer without tensor cores; 0 where they do not take
    such factors."""
    if len({f.name for f in factors}) > 1 or factors[0].name not in HALVES or total.name != "fp32":
        return 0.0
    slow, fast = (max(ops / each, transfer(moved)) for each in (OPS_PER_SECOND, TENSOR_OPS_PER_SECOND))
    return slow - fast
