"""Attention whose scores meet a tensor that the copy engine brings in no tiles: a mask of truth values, or a tensor
whose rows are not whole 16 bytes. A kernel before writes it so that it can: truth values as numbers of 16 bits, and
rows up to whole 16 bytes.

before: region s        for i0: B, i1: H, i2: S, i3: S    ... where(M[i0, 0, i2, i3], %x, -inf)
after:  region s.mask   for i0: B, i2: S, i3: S           yield s.mask[i0, i2, i3] = cast(M[i0, 0, i2, i3]) : fp16
        region s        for i0: B, i1: H, i2: S, i3: S    ... where(cmpne(s.mask[i0, i2, i3], 0), %x, -inf)

and where S is 100    for i0: B, i2: S, i3: 104
                          yield s.mask[i0, i2, i3] = select(i3 < 100, cast(M[i0, 0, i2, i3]), 0)

The numbers are 0 and 1, so that nothing rounds; else the dtype stays. It pays where several heads read one tensor, or
where threads would read element by element.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...ir.accumulate import literal
from ...ir.body import Axis, Binary, Body, Read, Select, Unary, rebuild
from ...ir.expr import Bound, Expr
from ...ir.region import Let, Region, Tensor, Yield
from ...ir.traits import axes_of
from ...ir.types import DTYPES, TensorType
from ...kit.records import replace
from ..attention import streaming_of
from ..attention.ahead import MOST, reads_ahead, reads_beside
from ..parts.boxes import STRIDE_BYTES
from .parts import Names, free_name, region_of

NUMBER, TRUTH = DTYPES["fp16"], DTYPES["bool"]
WRITTEN = ("fp16", "bf16", "fp32")  # dtypes whose rows may be written anew


def ways(pair: tuple[Region, Region], names: Names, sizes: Mapping[str, int]) -> Iterator[tuple[Region, ...]]:
    """The first of two regions of attention with what its scores meet written anew, after the regions that write it;
    none where nothing that has the scores' rows and columns gains by it at these sizes."""
    kernel = streaming_of(*pair)
    if isinstance(kernel, str):
        return
    region, (row, column) = pair[0], (kernel.row.name, kernel.column)
    shapes = {t.name: t.type.shape for t in region.inputs}
    reads = [
        r
        for r in reads_beside(kernel)
        if row in axes_of(r)
        and (
            r.dtype == TRUTH
            or r.dtype.name in WRITTEN
            and shapes[r.tensor][-1].evaluate(sizes) * r.dtype.bytes % STRIDE_BYTES
        )
    ]
    if not reads or len({*reads, *reads_ahead(kernel)}) > MOST:
        return
    parts, anew, taken = list[Region](), dict[Read, Read](), set(names.memory)
    for read in reads:
        dtype = NUMBER if read.dtype == TRUTH else read.dtype
        value: Body = read if dtype == read.dtype else Unary("cast", read, dtype)
        axes = [a for a in region.iters if a.name in axes_of(read) and a != column]
        step, wide = STRIDE_BYTES // dtype.bytes, column
        if column.size.evaluate(sizes) % step:
            wide = Axis(column.name, step * column.size.ceildiv(step))
            inside = (Bound(Expr.of(column.name), upper=column.size),)
            value = Select(inside, value, literal(0, dtype), dtype)
        index = tuple(Expr.of(a.name) for a in (*axes, wide))
        kind = TensorType(dtype, tuple(a.size for a in (*axes, wide)))
        tensor = Tensor(free_name(f"{region.name}.{'mask' if read.dtype == TRUTH else 'met'}", taken), kind)
        taken.add(tensor.name)
        anew[read] = Read(tensor.name, index, dtype)
        written = Yield(tensor.name, index, value, origin=region.yields[0].origin)
        whole = replace(region, iters=(*axes, wide))
        part = region_of(region.name, whole, (), (written,), (tensor,))
        parts.append(replace(part, name=free_name(tensor.name, names.regions | {p.name for p in parts})))

    def put(body: Body) -> Body:
        if isinstance(body, Read) and body in anew:
            return anew[body] if body.dtype != TRUTH else Binary("cmpne", anew[body], literal(0, NUMBER), TRUTH)
        return rebuild(body, put)

    lets = tuple(Let(let.name, put(let.expr), let.origin) for let in region.lets)
    tensors = tuple(t for part in parts for t in part.outputs)
    yield (*parts, region_of(region.name, region, lets, region.yields, tensors))
