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

Of a row that does not begin or end with a whole vector the first or last neighbours are taken one by one
(`side_by_side`).
"""

from __future__ import annotations

from typing import Any

from ...ir.accumulate import cast, fold_word, start_of, wide
from ...ir.body import Binary, Read
from ...ir.expr import ZERO, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Place, Statement
from ...ir.plan import Plan
from ...ir.region import Region
from ...ir.runs import Run
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
    turn, number, parts, head, done = fresh.name("c"), fresh.name("n"), {}, [], {}
    skew = Expr.of(fresh.name("skew")) if run.start != ZERO else ZERO
    count, width, limits = run.covering(skew), run.width, limits_of(run)
    guard = () if divides(threads, count) else below(Expr.of(number), count)
    inner: list[Statement] = [
        nodes.Let(number, Expr.of(turn) + "thread.x"),
        nodes.Let(axis.name, width * Expr.of(number) - skew),
    ]

    def writer_of() -> tuple[Prefixes, SideBySide]:
        neighbours = SideBySide(region, fresh, run, Expr.of(axis.name), {axis.name: width * Expr.of(number) - run.skew})
        writer = Prefixes(region, fresh, done=done)
        writer.point[axis.name] = neighbours.place
        return writer, neighbours

    def where_inside(lines: list[Statement]) -> list[Statement]:
        return [nodes.If(guard, tuple(lines))] if guard else lines

    for scan in dict.fromkeys(scans_of(region)):
        writer, neighbours = writer_of()
        dtype, base, at = wide(scan.dtype), name_of(region, scan), (Expr.of(neighbours.turn),)
        mine, carry, own = (fresh.name(f"{base}.{word}") for word in ("acc", "carry", "own"))
        if threads > WARP:
            parts[dtype] = parts.get(dtype) or fresh.name("part")
        head += [
            nodes.Reg(mine, type_of(dtype, 1)),
            nodes.Reg(carry, type_of(dtype, 1), init=start_of(scan.op, scan.dtype)),
            nodes.Reg(own, type_of(dtype, width)),
        ]
        so_far = Read(mine, (ZERO,), dtype)
        lines, element = writer.element(scan)
        step = [
            nodes.Assign(Place(mine, (ZERO,)), Binary(fold_word(scan.op, dtype), so_far, element, dtype)),
            nodes.Assign(Place(own, at), so_far),
        ]
        inner.append(nodes.Assign(Place(mine, (ZERO,)), start_of(scan.op, scan.dtype)))
        inner += where_inside(neighbours.loop([*lines, *(reversed(step) if scan.exclusive else step)], limits))
        inner.append(nodes.BlockScan(scan.op, True, mine, carry, parts.get(dtype, "")))
        done[scan] = cast(Binary(fold_word(scan.op, dtype), so_far, Read(own, at, dtype), dtype), scan.dtype)
    writer, neighbours = writer_of()
    lines = writer.values(needed(region, (y.expr for y in region.yields)))
    for item in region.yields:
        body, before = writer.body(item.expr)
        lines += before
        neighbours.store(item, body, writer.point, region.iters, lines)
    inner += where_inside(neighbours.loop(lines, limits))
    rows = tuple(nodes.Let(name, e) for name, e in split(Expr.of("cta.x"), kernel.rows).items()) if kernel.rows else ()
    rows += (nodes.Let(str(skew), run.skew),) if skew != ZERO else ()
    arrays = tuple(shared(n, array) for n, array in zip(parts.values(), meeting_arrays(plan, region), strict=True))
    loop = nodes.For(turn, ZERO, count, tuple(inner), step=Expr.of(threads), unroll=turns_of(plan))
    return Kernel(
        plan.name, plan.regions, plan.arch, (extent_of(kernel.rows),), plan.threads, (*arrays, *rows, *head, loop)
    )


def thread_vector_kernel(plan: Plan, region: Region, kernel: Prefix, run: Run) -> Kernel:
    """The kernel of a plan of algo `scan_thread` that takes its rows in vectors: a thread has all of a row, so that it
    needs no other's sums."""
    threads, axis, fresh = plan.threads[0], kernel.row[0], Fresh(names_in(region))
    turn, width, count = Expr.of(fresh.name("c")), run.width, run.whole(ZERO)
    done: dict[Any, Any] = {}
    head: list[Statement] = []
    inner: list[Statement] = [nodes.Let(axis.name, width * turn)]

    def writer_of() -> tuple[Prefixes, SideBySide]:
        neighbours = SideBySide(region, fresh, run, Expr.of(axis.name), {axis.name: width * turn})
        writer = Prefixes(region, fresh, done=done)
        writer.point[axis.name] = neighbours.place
        return writer, neighbours

    for scan in dict.fromkeys(scans_of(region)):
        writer, neighbours = writer_of()
        dtype, base, at = wide(scan.dtype), name_of(region, scan), (Expr.of(neighbours.turn),)
        mine, own = (fresh.name(f"{base}.{word}") for word in ("acc", "own"))
        head += [
            nodes.Reg(mine, type_of(dtype, 1), init=start_of(scan.op, scan.dtype)),
            nodes.Reg(own, type_of(dtype, width)),
        ]
        so_far = Read(mine, (ZERO,), dtype)
        lines, element = writer.element(scan)
        step = [
            nodes.Assign(Place(mine, (ZERO,)), Binary(fold_word(scan.op, dtype), so_far, element, dtype)),
            nodes.Assign(Place(own, at), so_far),
        ]
        inner += neighbours.loop([*lines, *(reversed(step) if scan.exclusive else step)])
        done[scan] = cast(Read(own, at, dtype), scan.dtype)
    writer, neighbours = writer_of()
    lines = writer.values(needed(region, (y.expr for y in region.yields)))
    for item in region.yields:
        body, before = writer.body(item.expr)
        lines += before
        neighbours.store(item, body, writer.point, region.iters, lines)
    inner += neighbours.loop(lines)
    loop = nodes.For(str(turn), ZERO, count, tuple(inner), unroll=TURNS_AT_ONCE)
    total = extent_of(kernel.rows)
    return Kernel(
        plan.name,
        plan.regions,
        plan.arch,
        (total.ceildiv(threads),),
        plan.threads,
        numbered(
            kernel.rows,
            fresh,
            threads * Expr.of("cta.x") + "thread.x",
            "e",
            (*head, loop),
            not divides(threads, total),
        ),
    )


__all__ = ["scan_vector_kernel", "thread_vector_kernel"]
