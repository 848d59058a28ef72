"""Sibling contractions of one region, each a region of its own: no template keeps the accumulators of several. Those
that are the same but for their tensors are one launch all the same (`kernels.siblings`).

before: region q    %q = reduce sum (k0: K) { mul(X[i0, k0], Wq[k0, i1]) }, %k = reduce sum (k0: K) { mul(X[i0, k0],
                    Wk[k0, i1]) }
after:  region q    %q = reduce sum (k0: K) { mul(X[i0, k0], Wq[k0, i1]) }
        region k    %k = reduce sum (k0: K) { mul(X[i0, k0], Wk[k0, i1]) }

Two whose columns take turns in one operand are one product (`problem.Pair`), and stay one where that takes no longer.

What needs the results of several goes with the last of them, and reads those of the others from buffers. Where a part
would be no plain contraction the region stays as it is.
"""

from __future__ import annotations

from ...ir.body import Reduce, Ref, walk
from ...ir.region import Region
from ..problem import Contraction, kernel_of, kernels_of
from .parts import Parts, Surroundings, refs_of


def split_siblings(region: Region, around: Surroundings) -> tuple[Region, ...]:
    """The regions that a region becomes: one for each contraction, or itself."""
    folds = {let.name: number for number, let in enumerate(v for v in region.lets if isinstance(v.expr, Reduce))}
    needs: dict[str, frozenset[str]] = {}
    for let in region.lets:
        needs[let.name] = frozenset((let.name,) if let.name in folds else ()).union(
            *(needs[r] for r in refs_of(let.expr))
        )
    if len(folds) < 2 or not _are_siblings(region, len(folds)) or any(len(needs[f]) > 1 for f in folds):
        return (region,)
    home = {name: max(map(folds.__getitem__, found)) for name, found in needs.items() if found}
    written = [max((home.get(r, 0) for r in refs_of(y.expr)), default=0) for y in region.yields]
    origins = [region.let(f).origin for f in folds]
    wanted = [
        (region.name,),
        *((origin.name if origin is not None else f, f) for f, origin in list(zip(folds, origins))[1:]),
    ]
    parts = Parts(region, home, written, around.names).regions(wanted)
    if not all(isinstance(next(iter(kernels_of(p)), None), Contraction) for p in parts):
        return (region,)
    is_pair = isinstance(kernel_of(region, "contraction"), Contraction) and kernel_of(region, "contraction").is_alone
    return (region,) if is_pair and around.time_of(region) <= sum(map(around.time_of, parts)) else parts


def _are_siblings(region: Region, folds: int) -> bool:
    """Whether every fold of a region is a value, and no value is read at another point."""
    nodes = [n for item in (*region.lets, *region.yields) for n in walk(item.expr)]
    return sum(isinstance(n, Reduce) for n in nodes) == folds and not any(
        isinstance(n, Ref) and n.index is not None for n in nodes
    )
