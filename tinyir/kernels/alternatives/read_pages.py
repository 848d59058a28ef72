"""A cache of keys or values in pages read in place, where a family of kernels follows the table of its pages: the copy
that a gather makes is not made.

before: region g  for i0: B, i1: N, i2: 64, i3: D   yield G[i0, i1, i2, i3] = gather (k0: P = table[i0, i1])
                                                      { K[k0, i2, i3] }
        region s  ... mul(Q[i0, k0], G[i0, floor(i1/64), i1 - 64*floor(i1/64), k0])
after:  region s  ... mul(Q[i0, k0], gather (k1: P = table[i0, floor(i1/64)]) { K[k1, i1 - 64*floor(i1/64), k0] })
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...analysis.regions import analyse
from ...ir.body import Axis, Body, BroadcastInDim, Gather, Read, Reduce, Ref, Scan, Scatter, rebuild, substitute, walk
from ...ir.expr import Expr
from ...ir.region import Region
from ...ir.traits import bodies_of
from ...kit.records import replace
from ..parts.point import axes_made_by
from .parts import numbered_name


def copies_of_pages(regions: Iterable[Region]) -> dict[str, Region]:
    """The regions that do nothing but copy what a table names, by what they write."""
    found = {}
    for one in regions:
        if len(one.yields) != 1 or one.yields[0].guard or one.must_fuse:
            continue
        item = one.yields[0]
        names = [e.name or "" for e in item.index if e.constant != 0]
        if _gather_of(one) is not None and sorted(names) == sorted(a.name for a in one.iters):
            found[item.output] = one
    return found


def _gather_of(one: Region) -> Gather | None:
    body = one.yields[0].expr
    while isinstance(body, Ref) and body.index is None:
        body = one.let(body.name).expr
    if not isinstance(body, Gather) or not isinstance(body.body, Read):
        return None
    return None if any(isinstance(n, (Reduce, Scan, Scatter, BroadcastInDim, Ref)) for n in walk(body)) else body


def with_pages(region: Region, copies: Mapping[str, Region]) -> Region:
    """The region with what copies hold read in place."""
    taken = {a.name for b in bodies_of(region) for n in walk(b) for a in axes_made_by(n)}
    taken |= {a.name for a in region.iters}
    taken |= {n for t in (*region.inputs, *region.outputs) for e in t.type.shape for n in e.names()}
    known = {t.name: t for t in region.inputs}

    def put(body: Body) -> Body:
        if not isinstance(body, Read) or body.tensor not in copies:
            return rebuild(body, put)
        one = copies[body.tensor]
        gather, item = _gather_of(one), one.yields[0]
        known.update((t.name, t) for t in one.inputs)
        point = {w.name: r for w, r in zip(item.index, body.index) if w.name is not None}
        name = numbered_name("k", taken)
        taken.add(name)
        inner = substitute(gather.body, point | {gather.axis.name: Expr.of(name)})
        return Gather(Axis(name, gather.axis.size), substitute(gather.at, point), inner, gather.dtype)

    changed = replace(
        region,
        lets=tuple(replace(let, expr=put(let.expr)) for let in region.lets),
        yields=tuple(replace(y, expr=put(y.expr)) for y in region.yields),
    )
    read = dict.fromkeys(n.tensor for body in bodies_of(changed) for n in walk(body) if isinstance(n, Read))
    changed = replace(changed, inputs=tuple(known[name] for name in read))
    return replace(changed, analysis=analyse(changed))
