"""A scan of long rows in three kernels: what each chunk folds to, the scan of that, and the scan inside each chunk
after what came before it.

before: region y          for i0: C                %y = scan sum (i0) { X[i0] }                                    yield
                          Y[i0] = %y
after:  region y.part     for c0: C/4096           %y.part = reduce sum (k0: 4096) { X[4096*c0 + k0] }             yield
                          y.part[c0] = %y.part
        region y.before   for c0: C/4096           %y.before = scan sum exclusive (c0) { y.part[c0] }              yield
                          y.before[c0] = %y.before
        region y          for c0: C/4096, i0: 4096 %y.own = scan sum (i0) { X[4096*c0 + i0] }
                                                   %y = add(broadcast_in_dim(y.before[c0], dims=[0]), %y.own)      yield
                                                     Y[4096*c0 + i0] = %y

It is done where the cost model finds that it is faster: for long columns, of which neighbouring threads take
neighbouring ones; rows are read once instead (`kernels.scans.look_back`). What is computed of a scan has a region of
its own then, unless it is written as it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.accumulate import cast, fold_word, wide
from ...ir.body import Axis, Binary, Body, BroadcastInDim, Read, Reduce, Ref, Scan, Unary, substitute
from ...ir.expr import Bound, Expr
from ...ir.neighbours import is_multiple
from ...ir.region import Let, Region, Tensor, Yield
from ...ir.traits import axes_of, scans_of
from ...ir.types import TensorType
from ...kit.records import replace
from .inline import Tangled, is_fold, padded, written_out
from .parts import Names, Parts, Surroundings, free_name, numbered_name, region_of

LEAST = 1 << 15  # elements of a row that are worth three kernels
CHUNKS = (1024, 2048, 4096, 8192, 16384)  # elements of a row


def scan_in_steps(region: Region, around: Surroundings) -> tuple[Region, ...]:
    """The regions that a region becomes; itself alone where it scans nothing long, or is as fast alone."""
    size_of = {a.name: a.size for a in region.iters}
    if max((size_of[s.axis].evaluate(around.sizes) for s in scans_of(region)), default=0) < LEAST:
        return (region,)
    if around.time_of(region) <= around.least_of(region, 3):
        return (region,)
    parts = _one_by_one(region, around.names)
    taken = Names(
        around.names.memory | {t.name for p in parts for t in p.outputs}, around.names.regions | {p.name for p in parts}
    )
    found: list[Region] = []
    for part in parts:
        found += min([(part,), *_ways(part, taken)], key=lambda way: sum(map(around.time_of, way)))
    return tuple(found) if sum(map(around.time_of, found)) < around.time_of(region) else (region,)


def _one_by_one(region: Region, names: Names) -> tuple[Region, ...]:
    """The region in parts: each scan with the writes of it alone, then the rest."""
    home = {let.name: number for number, let in enumerate(v for v in region.lets if isinstance(v.expr, Scan))}
    written = [home.get(_scan_written(region, y), len(home)) for y in region.yields]
    if sum(is_fold(item.expr) for item in (*region.lets, *region.yields)) > len(home):
        return (region,)
    firsts = list(home)
    wanted = [(name, f"{name}.scan") for name in firsts][: max((len(home) - 1, *written))]
    return Parts(region, home, written, names).regions([*wanted, (region.name,)])


def _scan_written(region: Region, item: Yield) -> str:
    """The scan of which a write takes the value at its own point, as it is or cast; empty where it takes another."""
    body = item.expr
    while True:
        if isinstance(body, Unary) and body.op == "cast":
            body = body.x
        elif isinstance(body, Ref) and body.index is None and not is_fold(region.let(body.name).expr):
            body = region.let(body.name).expr
        else:
            return body.name if isinstance(body, Ref) and body.index is None else ""


def _ways(region: Region, names: Names) -> Iterator[tuple[Region, ...]]:
    """The region in three steps, by each chunk."""
    scans = [let for let in region.lets if isinstance(let.expr, Scan)]
    if len(scans) != 1 or any(_scan_written(region, y) != scans[0].name for y in region.yields):
        return
    for chunk in CHUNKS:
        try:
            yield _three_steps(region, scans[0], chunk, names)
        except Tangled:
            return


def _three_steps(region: Region, let: Let, chunk: int, names: Names) -> tuple[Region, Region, Region]:
    scan: Scan = let.expr
    axis = next(a for a in region.iters if a.name == scan.axis)
    number = numbered_name("c", {*(a.name for a in region.iters), *names.memory})
    across, inside = Axis(number, axis.size.ceildiv(chunk)), Axis(axis.name, Expr.of(chunk))
    place, kept = chunk * Expr.of(number) + axis.name, wide(scan.dtype)
    body = padded(substitute(written_out(region, scan.body), {axis.name: place}), scan.op, place, axis.size, chunk)
    present = tuple(across if a == axis else a for a in region.iters if a == axis or a.name in axes_of(body))
    index = tuple(Expr.of(a.name) for a in present)
    shape = TensorType(kept, tuple(a.size for a in present))
    part, before = (Tensor(free_name(f"{let.name}.{word}", names.memory), shape) for word in ("part", "before"))
    buffers = (part, before)

    def step(buffer: Tensor, value: Body) -> Region:
        whole = replace(region, iters=present, name=free_name(buffer.name, names.regions))
        return region_of(
            whole.name,
            whole,
            (Let(buffer.name, value, let.origin),),
            (Yield(buffer.name, index, Ref(buffer.name, kept), (), let.origin),),
            buffers,
        )

    inner = numbered_name("k", {*(a.name for a in region.iters), *names.memory})
    first = step(
        part, Reduce(scan.op, (Axis(inner, Expr.of(chunk)),), substitute(body, {axis.name: Expr.of(inner)}), kept)
    )
    second = step(before, Scan(scan.op, number, Read(part.name, index, kept), kept, scan.reverse, True))
    at = region.iters.index(axis)
    whole = replace(region, iters=(*region.iters[:at], across, inside, *region.iters[at + 1 :]))
    return (
        first,
        second,
        _in_chunks(
            whole,
            let,
            replace(scan, body=body, dtype=kept),
            Read(before.name, index, kept),
            (place, axis, chunk),
            buffers,
        ),
    )


def _in_chunks(
    whole: Region, let: Let, scan: Scan, before: Read, cut: tuple[Expr, Axis, int], buffers: tuple[Tensor, ...]
) -> Region:
    """The region that scans inside the chunks. `cut` is an element's place on the axis, the axis, and the chunk's
    length."""
    place, axis, chunk = cut
    present = {*axes_of(scan.body), scan.axis}
    names = tuple(a.name for a in whole.iters if a.name in present)
    dims = tuple(names.index(n) for e in before.index for n in e.names())
    own = Let(f"{let.name}.own", scan, let.origin)
    value = cast(
        Binary(
            fold_word(scan.op, scan.dtype),
            BroadcastInDim(before, dims, scan.dtype, names),
            Ref(own.name, scan.dtype),
            scan.dtype,
        ),
        let.expr.dtype,
    )
    guard = () if is_multiple(axis.size, chunk) else (Bound(place, upper=axis.size),)
    lets, yields = [own, Let(let.name, value, let.origin)], []
    for item in whole.yields:
        moved = tuple(e.substitute({axis.name: place}) for e in item.index)
        yields.append(
            replace(
                item,
                index=moved,
                expr=_casts_of(whole, item.expr, let.name),
                guard=(*(b.substitute({axis.name: place}) for b in item.guard), *guard),
            )
        )
    return region_of(whole.name, whole, tuple(lets), tuple(yields), buffers)


def _casts_of(region: Region, body: Body, scan: str) -> Body:
    """What is written of a scan, the casts of other values in their places."""
    if isinstance(body, Ref):
        return body if body.name == scan else _casts_of(region, region.let(body.name).expr, scan)
    return replace(body, x=_casts_of(region, body.x, scan))
