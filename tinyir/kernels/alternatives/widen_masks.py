"""Attention under a mask that is a tensor of truth values. A kernel before writes it as numbers of 16 bits, which the
kernel of attention reads in pairs, or fetches in tiles, while its products run; a truth value is a byte, which threads
read one by one where the copy engine brings no tile of them.

before: region s        for i0: B, i1: H, i2: S, i3: S    ... where(M[i0, 0, i2, i3], %x, -inf)
after:  region s.mask   for i0: B, i2: S, i3: S           yield s.mask[i0, i2, i3] = cast(M[i0, 0, i2, i3]) : fp16
        region s        for i0: B, i1: H, i2: S, i3: S    ... where(cmpne(s.mask[i0, i2, i3], 0), %x, -inf)

The numbers are 0 and 1, so that nothing rounds. It pays where several heads read one mask.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.accumulate import literal
from ...ir.body import Binary, Body, Read, Unary, rebuild
from ...ir.expr import Expr
from ...ir.region import Let, Region, Tensor, Yield
from ...ir.traits import axes_of
from ...ir.types import DTYPES, TensorType
from ...kit.records import replace
from ..attention import streaming_of
from ..attention.ahead import MOST, reads_ahead, reads_beside
from .parts import Names, free_name, region_of

NUMBER, TRUTH = DTYPES["fp16"], DTYPES["bool"]


def ways(pair: tuple[Region, Region], names: Names) -> Iterator[tuple[Region, ...]]:
    """The first of two regions of attention with its masks as numbers, after the regions that write these; none where
    no mask has the scores' rows and columns."""
    kernel = streaming_of(*pair)
    if isinstance(kernel, str):
        return
    region, row = pair[0], kernel.row.name
    reads = [r for r in reads_beside(kernel) if r.dtype == TRUTH and row in axes_of(r)]
    if not reads or len(reads) + len(reads_ahead(kernel)) > MOST:
        return
    parts, numbers, taken = list[Region](), dict[Read, Read](), set(names.memory)
    for read in reads:
        axes = tuple(a for a in region.iters if a.name in axes_of(read))
        index = tuple(Expr.of(a.name) for a in axes)
        kind = TensorType(NUMBER, tuple(a.size for a in axes))
        mask = Tensor(free_name(f"{region.name}.mask", taken), kind)
        taken.add(mask.name)
        numbers[read] = Read(mask.name, index, NUMBER)
        written = Yield(mask.name, index, Unary("cast", read, NUMBER), origin=region.yields[0].origin)
        part = region_of(region.name, region, (), (written,), (mask,))
        parts.append(replace(part, name=free_name(mask.name, names.regions | {p.name for p in parts})))

    def put(body: Body) -> Body:
        if isinstance(body, Read) and body in numbers:
            return Binary("cmpne", numbers[body], literal(0, NUMBER), TRUTH)
        return rebuild(body, put)

    lets = tuple(Let(let.name, put(let.expr), let.origin) for let in region.lets)
    tensors = tuple(t for part in parts for t in part.outputs)
    yield (*parts, region_of(region.name, region, lets, region.yields, tensors))
