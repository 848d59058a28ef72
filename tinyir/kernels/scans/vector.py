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
from ...ir.expr import ZERO, Bound, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Place, Statement
from ...ir.plan import Plan
from ...ir.region import Region
from ...ir.runs import Run, row_run
from ...ir.traits import extent_of, scans_of
from ...kit.records import dataclass, field, replace
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
    threads, fresh = plan.threads[0], Fresh(names_in(region))
    turn, number, parts, head = fresh.name("c"), Expr.of(fresh.name("n")), {}, []
    skew = Expr.of(fresh.name("skew")) if run.start != ZERO else ZERO
    count = run.covering(skew)
    guard = () if divides(threads, count) else below(number, count)
    vectors = _Vectors(region, fresh, run, run.width * number - run.skew, limits_of(run), guard)
    inner: list[Statement] = [
        nodes.Let(str(number), Expr.of(turn) + "thread.x"),
        vectors.let(run.width * number - skew),
    ]
    for scan in dict.fromkeys(scans_of(region)):
        dtype, carry = wide(scan.dtype), fresh.name(f"{name_of(region, scan)}.carry")
        if threads > WARP:
            parts[dtype] = parts.get(dtype) or fresh.name("part")
        (mine, own), lines = vectors.scanned(scan)
        start = start_of(scan.op, scan.dtype)
        head += [replace(mine, init=None), nodes.Reg(carry, type_of(dtype, 1), init=start), own]
        inner += [nodes.Assign(Place(mine.name, (ZERO,)), start), *lines]
        inner.append(nodes.BlockScan(scan.op, True, mine.name, carry, parts.get(dtype, "")))
    inner += vectors.stores()
    rows = tuple(nodes.Let(name, e) for name, e in split(Expr.of("cta.x"), kernel.rows).items()) if kernel.rows else ()
    rows += (nodes.Let(str(skew), run.skew),) if skew != ZERO else ()
    arrays = tuple(shared(n, array) for n, array in zip(parts.values(), meeting_arrays(plan, region), strict=True))
    loop = nodes.For(turn, ZERO, count, tuple(inner), step=Expr.of(threads), unroll=turns_of(plan))
    body = (*arrays, *rows, *head, loop)
    return Kernel(plan.name, plan.regions, plan.arch, (extent_of(kernel.rows),), plan.threads, body)


def lanes_vector_kernel(plan: Plan, region: Region, kernel: Prefix, run: Run) -> Kernel:
    """The kernel of a plan of algo `scan_block` whose rows are shared by a few lanes of a warp each: a row is one
    vector of each lane, so that nothing is carried, and a CTA has several."""
    (lanes, rows), fresh = plan.threads, Fresh(names_in(region))
    number, total = Expr.of(fresh.name("n")), extent_of(kernel.rows)
    row = Expr.of(kernel.rows[0].name if len(kernel.rows) == 1 else fresh.name("row"))
    skew = Expr.of(fresh.name("skew")) if run.start != ZERO else ZERO
    count = run.covering(skew)
    guard = (
        *(() if divides(rows, total) else below(row, total)),
        *(() if divides(lanes, count) else below(number, count)),
    )
    vectors = _Vectors(region, fresh, run, run.width * number - run.skew, limits_of(run), guard)
    body: list[Statement] = [
        nodes.Let(str(row), rows * Expr.of("cta.x") + "thread.y"),
        *(nodes.Let(n, e) for n, e in (split(row, kernel.rows) if len(kernel.rows) > 1 else {}).items()),
        *((nodes.Let(str(skew), run.skew),) if skew != ZERO else ()),
        nodes.Let(str(number), Expr.of("thread.x")),
        vectors.let(run.width * number - skew),
    ]
    for scan in dict.fromkeys(scans_of(region)):
        registers, lines = vectors.scanned(scan)
        body += [*registers, *lines, nodes.WarpReduce(scan.op, registers[0].name, lanes, is_exclusive=True)]
    body += vectors.stores()
    return Kernel(plan.name, plan.regions, plan.arch, (total.ceildiv(rows),), plan.threads, tuple(body))


def thread_vector_kernel(plan: Plan, region: Region, kernel: Prefix, run: Run) -> Kernel:
    """The kernel of a plan of algo `scan_thread` that takes its rows in vectors: a thread has all of a row, so that it
    needs no other's sums."""
    threads, fresh = plan.threads[0], Fresh(names_in(region))
    turn, count = Expr.of(fresh.name("c")), run.whole(ZERO)
    vectors = _Vectors(region, fresh, run, run.width * turn, is_alone=True)
    head: list[Statement] = []
    inner: list[Statement] = [vectors.let(run.width * turn)]
    for scan in dict.fromkeys(scans_of(region)):
        registers, lines = vectors.scanned(scan)
        head += registers
        inner += lines
    inner += vectors.stores()
    loop = nodes.For(str(turn), ZERO, count, tuple(inner), unroll=TURNS_AT_ONCE)
    total = extent_of(kernel.rows)
    number, is_guarded = threads * Expr.of("cta.x") + "thread.x", not divides(threads, total)
    body = numbered(kernel.rows, fresh, number, "e", (*head, loop), is_guarded)
    return Kernel(plan.name, plan.regions, plan.arch, (total.ceildiv(threads),), plan.threads, body)


def lanes_of(run: Run) -> int:
    """The lanes of a warp that have a vector each of a row, wherever it begins; 0 where one takes it all, or a warp is
    too few."""
    size = run.extent.constant
    count = 0 if size is None else -(-(size + (run.width - 1 if run.start != ZERO else 0)) // run.width)
    return 1 << (count - 1).bit_length() if 1 < count <= WARP else 0


def run_of_lanes(region: Region, kernel: Prefix, width: int) -> Run | None:
    """The run of a row that lanes share: in vectors, or one by one."""
    return row_run(region, kernel, width) if width > 1 else None if kernel.reverse else Run(kernel.row, 1)


@dataclass
class _Vectors:
    """The vectors of a row: `first` is the place of one's first element, `limits` which of its elements the row has,
    `guard` whether the thread has one. `done` is what scans are at an element: what its thread folded of the vector,
    after what others did unless the thread `is_alone`."""

    region: Region
    fresh: Fresh
    run: Run
    first: Expr
    limits: tuple[Bound, ...] = ()
    guard: tuple[Bound, ...] = ()
    is_alone: bool = False
    done: dict[Any, Any] = field(default_factory=dict)

    @property
    def axis(self) -> str:
        """The axis of the row."""
        return self.run.axes[0].name

    def let(self, place: Expr) -> Statement:
        """The axis at the first element."""
        return nodes.Let(self.axis, place)

    def scanned(self, scan: Scan) -> tuple[tuple[nodes.Reg, nodes.Reg], list[Statement]]:
        """Registers of what a thread folds, and of what that is at each element; and the statements that fold a
        vector."""
        writer, neighbours = self._writer()
        dtype, at = wide(scan.dtype), (Expr.of(neighbours.turn),)
        mine, own = (self.fresh.name(f"{name_of(self.region, scan)}.{word}") for word in ("acc", "own"))
        so_far, own_part = Read(mine, (ZERO,), dtype), Read(own, at, dtype)
        lines, element = writer.element(scan)
        step = [
            nodes.Assign(Place(mine, (ZERO,)), Binary(fold_word(scan.op, dtype), so_far, element, dtype)),
            nodes.Assign(Place(own, at), so_far),
        ]
        lines += reversed(step) if scan.exclusive else step
        whole = own_part if self.is_alone else Binary(fold_word(scan.op, dtype), so_far, own_part, dtype)
        self.done[scan] = cast(whole, scan.dtype)
        folded = nodes.Reg(mine, type_of(dtype, 1), init=start_of(scan.op, scan.dtype))
        return (folded, nodes.Reg(own, type_of(dtype, self.run.width))), self._over(neighbours, lines)

    def stores(self) -> list[Statement]:
        """The values of the elements behind their scans, and their stores."""
        writer, neighbours = self._writer()
        lines = writer.values(needed(self.region, (y.expr for y in self.region.yields)))
        for item in self.region.yields:
            body, before = writer.body(item.expr)
            lines += before
            neighbours.store(item, body, writer.point, self.region.iters, lines)
        return self._over(neighbours, lines)

    def _writer(self) -> tuple[Prefixes, SideBySide]:
        """What writes the values of one element, and its neighbours."""
        neighbours = SideBySide(self.region, self.fresh, self.run, Expr.of(self.axis), {self.axis: self.first})
        writer = Prefixes(self.region, self.fresh, done=self.done)
        writer.point[self.axis] = neighbours.place
        return writer, neighbours

    def _over(self, neighbours: SideBySide, lines: list[Statement]) -> list[Statement]:
        """The lines at each element of a vector, where there is one."""
        lines = neighbours.loop(lines, self.limits)
        return [nodes.If(self.guard, tuple(lines))] if self.guard else lines
