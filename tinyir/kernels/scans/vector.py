"""Scans in vectors. In a block each thread folds neighbours of its own before the threads' totals are scanned; where a
thread has a row of its own, there are no totals.

    for c in 0..64 step 32                            the number of a vector
      let n = c + thread.x
      let i1 = 4*n                                    its first element
      y.acc[0] = the neutral element
      if n < 64
        for v in 0..4 unroll
          y.acc[0] = add(y.acc[0], X.v[v])
          y.own[v] = y.acc[0]
      block_scan sum exclusive y.acc after y.carry via part
      if n < 64
        the values at i1 + v, of which the scan is add(y.acc[0], y.own[v]), and the stores

A short row is shared by a few lanes of a warp, one vector each; they fold the totals of the lanes before without the
others of the CTA.

Of a row that does not begin or end with a whole vector the first or last neighbours are taken one by one
(`side_by_side`).
"""

from __future__ import annotations

from typing import Any

from ...ir.accumulate import cast, fold_word, start_of, wide
from ...ir.body import Binary, Read, Scan
from ...ir.expr import ZERO, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Place, Statement
from ...ir.plan import Plan
from ...ir.region import Region
from ...ir.runs import Run, row_run
from ...ir.traits import extent_of, scans_of
from ..parts.arrays import shared
from ..parts.fold import type_of
from ..parts.point import Fresh, below, divides, names_in, needed, numbered, split
from ..parts.prefixes import Prefixes, limits_of, name_of
from ..parts.scan_clocks import TURNS_AT_ONCE
from ..parts.side_by_side import SideBySide
from ..problem import Prefix
from .declare import meeting_arrays, turns_of

WARP = 32


def scan_vector_kernel(plan: Plan, region: Region, kernel: Prefix, run: Run) -> Kernel:
    """The kernel of a plan of algo `scan_block` that takes its rows in vectors."""
    threads, axis, fresh = plan.threads[0], kernel.row[0], Fresh(names_in(region))
    turn, number, parts, head = fresh.name("c"), fresh.name("n"), {}, []
    skew = Expr.of(fresh.name("skew")) if run.start != ZERO else ZERO
    count, width, limits = run.covering(skew), run.width, limits_of(run)
    guard = () if divides(threads, count) else below(Expr.of(number), count)
    inner: list[Statement] = [
        nodes.Let(number, Expr.of(turn) + "thread.x"),
        nodes.Let(axis.name, width * Expr.of(number) - skew),
    ]
    vectors = _Vectors(region, fresh, run, axis.name, width * Expr.of(number) - run.skew)

    def where_inside(lines: list[Statement]) -> list[Statement]:
        return [nodes.If(guard, tuple(lines))] if guard else lines

    for scan in dict.fromkeys(scans_of(region)):
        writer, neighbours = vectors.writer()
        dtype, base = wide(scan.dtype), name_of(region, scan)
        mine, carry, own = (fresh.name(f"{base}.{word}") for word in ("acc", "carry", "own"))
        if threads > WARP:
            parts[dtype] = parts.get(dtype) or fresh.name("part")
        head += [
            nodes.Reg(mine, type_of(dtype, 1)),
            nodes.Reg(carry, type_of(dtype, 1), init=start_of(scan.op, scan.dtype)),
            nodes.Reg(own, type_of(dtype, width)),
        ]
        inner.append(nodes.Assign(Place(mine, (ZERO,)), start_of(scan.op, scan.dtype)))
        so_far, own_part, lines = vectors.folded(writer, neighbours, scan, mine, own)
        inner += where_inside(neighbours.loop(lines, limits))
        inner.append(nodes.BlockScan(scan.op, True, mine, carry, parts.get(dtype, "")))
        vectors.done[scan] = cast(Binary(fold_word(scan.op, dtype), so_far, own_part, dtype), scan.dtype)
    neighbours, lines = vectors.stores()
    inner += where_inside(neighbours.loop(lines, limits))
    rows = tuple(nodes.Let(name, e) for name, e in split(Expr.of("cta.x"), kernel.rows).items()) if kernel.rows else ()
    rows += (nodes.Let(str(skew), run.skew),) if skew != ZERO else ()
    arrays = tuple(shared(n, array) for n, array in zip(parts.values(), meeting_arrays(plan, region), strict=True))
    loop = nodes.For(turn, ZERO, count, tuple(inner), step=Expr.of(threads), unroll=turns_of(plan))
    body = (*arrays, *rows, *head, loop)
    return Kernel(plan.name, plan.regions, plan.arch, (extent_of(kernel.rows),), plan.threads, body)


def lanes_vector_kernel(plan: Plan, region: Region, kernel: Prefix, run: Run) -> Kernel:
    """The kernel of a plan of algo `scan_block` whose rows are shared by a few lanes of a warp each: a row is one
    vector of each lane, so that nothing is carried, and a CTA has several."""
    (lanes, rows), axis, fresh = plan.threads, kernel.row[0], Fresh(names_in(region))
    number, total = Expr.of(fresh.name("n")), extent_of(kernel.rows)
    row = Expr.of(kernel.rows[0].name if len(kernel.rows) == 1 else fresh.name("row"))
    skew = Expr.of(fresh.name("skew")) if run.start != ZERO else ZERO
    count, limits = run.covering(skew), limits_of(run)
    lets: list[Statement] = [
        nodes.Let(str(row), rows * Expr.of("cta.x") + "thread.y"),
        *(nodes.Let(n, e) for n, e in (split(row, kernel.rows) if len(kernel.rows) > 1 else {}).items()),
        *((nodes.Let(str(skew), run.skew),) if skew != ZERO else ()),
        nodes.Let(str(number), Expr.of("thread.x")),
        nodes.Let(axis.name, run.width * number - skew),
    ]
    guard = (
        *(() if divides(rows, total) else below(row, total)),
        *(() if divides(lanes, count) else below(number, count)),
    )
    vectors, body = _Vectors(region, fresh, run, axis.name, run.width * number - run.skew), []

    def where_inside(lines: list[Statement]) -> list[Statement]:
        return [nodes.If(guard, tuple(lines))] if guard else lines

    for scan in dict.fromkeys(scans_of(region)):
        writer, neighbours = vectors.writer()
        dtype, base = wide(scan.dtype), name_of(region, scan)
        mine, own = (fresh.name(f"{base}.{word}") for word in ("acc", "own"))
        body += [
            nodes.Reg(mine, type_of(dtype, 1), init=start_of(scan.op, scan.dtype)),
            nodes.Reg(own, type_of(dtype, run.width)),
        ]
        so_far, own_part, lines = vectors.folded(writer, neighbours, scan, mine, own)
        body += where_inside(neighbours.loop(lines, limits))
        body.append(nodes.WarpReduce(scan.op, mine, lanes, is_exclusive=True))
        vectors.done[scan] = cast(Binary(fold_word(scan.op, dtype), so_far, own_part, dtype), scan.dtype)
    neighbours, lines = vectors.stores()
    body += where_inside(neighbours.loop(lines, limits))
    return Kernel(plan.name, plan.regions, plan.arch, (total.ceildiv(rows),), plan.threads, (*lets, *body))


def thread_vector_kernel(plan: Plan, region: Region, kernel: Prefix, run: Run) -> Kernel:
    """The kernel of a plan of algo `scan_thread` that takes its rows in vectors: a thread has all of a row, so that it
    needs no other's sums."""
    threads, axis, fresh = plan.threads[0], kernel.row[0], Fresh(names_in(region))
    turn, width, count = Expr.of(fresh.name("c")), run.width, run.whole(ZERO)
    head: list[Statement] = []
    inner: list[Statement] = [nodes.Let(axis.name, width * turn)]
    vectors = _Vectors(region, fresh, run, axis.name, width * turn)
    for scan in dict.fromkeys(scans_of(region)):
        writer, neighbours = vectors.writer()
        dtype, base = wide(scan.dtype), name_of(region, scan)
        mine, own = (fresh.name(f"{base}.{word}") for word in ("acc", "own"))
        head += [
            nodes.Reg(mine, type_of(dtype, 1), init=start_of(scan.op, scan.dtype)),
            nodes.Reg(own, type_of(dtype, width)),
        ]
        _, own_part, lines = vectors.folded(writer, neighbours, scan, mine, own)
        inner += neighbours.loop(lines)
        vectors.done[scan] = cast(own_part, scan.dtype)
    neighbours, lines = vectors.stores()
    inner += neighbours.loop(lines)
    loop = nodes.For(str(turn), ZERO, count, tuple(inner), unroll=TURNS_AT_ONCE)
    total = extent_of(kernel.rows)
    number, is_guarded = threads * Expr.of("cta.x") + "thread.x", not divides(threads, total)
    body = numbered(kernel.rows, fresh, number, "e", (*head, loop), is_guarded)
    return Kernel(plan.name, plan.regions, plan.arch, (total.ceildiv(threads),), plan.threads, body)


def is_of_lanes(plan: Plan, run: Run, kernel: Prefix) -> bool:
    """Whether the lanes of a warp that share a row have a vector of it each, and the CTA as many rows as the tile."""
    lanes, rows = plan.threads
    return (
        WARP % lanes == 0
        and 0 < lanes_of(run) <= lanes
        and bool(kernel.rows)
        and plan.tile == (rows, lanes * run.width)
    )


def lanes_of(run: Run) -> int:
    """The lanes of a warp that have a vector each of a row, wherever it begins; 0 where one takes it all, or a warp is
    too few."""
    size = run.extent.constant
    count = 0 if size is None else -(-(size + (run.width - 1 if run.start != ZERO else 0)) // run.width)
    return 1 << (count - 1).bit_length() if 1 < count <= WARP else 0


def run_of_lanes(region: Region, kernel: Prefix, width: int) -> Run | None:
    """The run of a row that lanes share: in vectors, or one by one."""
    return row_run(region, kernel, width) if width > 1 else None if kernel.reverse else Run(kernel.row, 1)


class _Vectors:
    """The vectors of a row: `first` is the place of one's first element along `axis`, `done` what scans are."""

    def __init__(self, region: Region, fresh: Fresh, run: Run, axis: str, first: Expr):
        self.region, self.fresh, self.run, self.axis, self.first = region, fresh, run, axis, first
        self.done: dict[Any, Any] = {}

    def writer(self) -> tuple[Prefixes, SideBySide]:
        """What writes the values of one element, and its neighbours."""
        neighbours = SideBySide(self.region, self.fresh, self.run, Expr.of(self.axis), {self.axis: self.first})
        writer = Prefixes(self.region, self.fresh, done=self.done)
        writer.point[self.axis] = neighbours.place
        return writer, neighbours

    def folded(
        self, writer: Prefixes, neighbours: SideBySide, scan: Scan, mine: str, own: str
    ) -> tuple[Read, Read, list[Statement]]:
        """What an element is folded into, what it is of its own, and the statements that fold it."""
        dtype, at = wide(scan.dtype), (Expr.of(neighbours.turn),)
        so_far = Read(mine, (ZERO,), dtype)
        lines, element = writer.element(scan)
        step = [
            nodes.Assign(Place(mine, (ZERO,)), Binary(fold_word(scan.op, dtype), so_far, element, dtype)),
            nodes.Assign(Place(own, at), so_far),
        ]
        return so_far, Read(own, at, dtype), [*lines, *(reversed(step) if scan.exclusive else step)]

    def stores(self) -> tuple[SideBySide, list[Statement]]:
        """The values of an element behind its scans, and its stores."""
        writer, neighbours = self.writer()
        lines = writer.values(needed(self.region, (y.expr for y in self.region.yields)))
        for item in self.region.yields:
            body, before = writer.body(item.expr)
            lines += before
            neighbours.store(item, body, writer.point, self.region.iters, lines)
        return neighbours, lines


__all__ = [
    "is_of_lanes",
    "lanes_of",
    "lanes_vector_kernel",
    "run_of_lanes",
    "scan_vector_kernel",
    "thread_vector_kernel",
]
