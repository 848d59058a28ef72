"""A contraction of a long sum and few tiles in two steps: each part of the sum is a product of its own, and a second
kernel adds the parts, always in the same order, and does what follows the sum.

before: region y          for i0: 512, i1: 49            %s = reduce sum (k0: 4608) { mul(W[i0, k0], X[k0, i1]) }
                          yield Y[i0, i1] = relu(%s)
after:  region s.part     for c0: 16, i0: 512, i1: 49    %s.part = reduce sum (k0: 288) { mul(W[i0, 288*c0 + k0],
                          X[288*c0 + k0, i1]) } yield s.part[c0, i0, i1] = %s.part
        region y          for i0: 512, i1: 49            %s = reduce sum (c0: 16) { s.part[c0, i0, i1] }
                          yield Y[i0, i1] = relu(%s)

The parts divide one axis of the sum evenly. It is done where the cost model finds that it is faster: where the tiles do
not fill the card, and the sum is worth a second launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...analysis.traffic import fills_card
from ...ir.body import Reduce
from ...ir.region import Region
from ...ir.traits import extent_of
from ..problem import Contraction, kernels_of
from .fold_in_steps import two_steps
from .inline import Tangled
from .parts import Names, Surroundings

LEAST_SUM = 512  # products of a sum that are worth a second kernel
LEAST_PART = 64  # products of a part
PARTS = (2, 4, 8, 16, 32)


def sum_in_steps(region: Region, around: Surroundings) -> tuple[Region, ...]:
    """The regions that a region becomes; itself alone where it is not a contraction, or is as fast alone."""
    sizes = around.sizes
    kernel = next(iter(kernels_of(region, sizes)), None)
    if (
        not isinstance(kernel, Contraction)
        or kernel.pair is not None
        or extent_of(kernel.sum).evaluate(sizes) < LEAST_SUM
        or fills_card(extent_of(region.iters).evaluate(sizes))
    ):
        return (region,)
    alone = around.time_of(region)
    if alone <= around.least_of(region, 2):
        return (region,)
    best = min(
        _ways(region, kernel, around.names, sizes), key=lambda way: sum(map(around.time_of, way)), default=(region,)
    )
    return best if sum(map(around.time_of, best)) < alone else (region,)


def _ways(region: Region, kernel: Contraction, names: Names, sizes: Mapping[str, int]) -> Iterator[tuple[Region, ...]]:
    """The region in two steps, by each number of parts that divides the longest axis of the sum."""
    fold = region.let(kernel.value)
    lengths = [axis.size.evaluate(sizes) for axis in kernel.sum]
    cut = lengths.index(max(lengths))
    if not isinstance(fold.expr, Reduce) or any(kernel.sum[cut].size.names()):
        return
    for parts in PARTS:
        if lengths[cut] % parts == 0 and extent_of(kernel.sum).evaluate(sizes) >= parts * LEAST_PART:
            try:
                yield two_steps(region, (fold,), cut, lengths[cut] // parts, names, is_outermost=True)
            except Tangled:
                return
