"""The scan templates (cumulative sums, products, maxima along one axis).

    scan_block     each CTA has a row, the threads side by side along it; what they folded is carried to the next turn
        for c in 0..C step 256
          let i1 = c + thread.x
          y.acc[0] = the neutral element
          if i1 < C
            y.acc[0] = X[i0, i1]
          block_scan sum y.acc after y.carry via part
          if i1 < C
            the values at this point, and the stores
                   short rows are shared by a few lanes each, threads [lanes, rows]
        y.acc[0] = X[i0, 4*n], ...
        warp_reduce sum exclusive y.acc width 4
    scan_thread    one thread for each row, element after element

Neighbours that are known to be side by side are taken in vectors (`scan_vector`). A reversed scan counts the axis from
its end; of scans that need one another each is done before the next is begun.
"""

from __future__ import annotations

from ...ir.accumulate import cast, fold_word, start_of, wide
from ...ir.body import Binary, Read, Ref, Scan
from ...ir.expr import ZERO, Expr
from ...ir.gpu import nodes
from ...ir.gpu.nodes import Kernel, Place, Statement
from ...ir.plan import Plan
from ...ir.region import Region
from ...ir.runs import row_run
from ...ir.traits import extent_of, scans_of
from ...ir.types import DType
from ..family import Problem
from ..parts.arrays import shared
from ..parts.fold import type_of
from ..parts.point import Fresh, below, divides, names_in, split
from ..parts.prefixes import Prefixes, name_of
from ..problem import Prefix
from .declare import meeting_arrays, turns_of
from .vector import lanes_vector_kernel, run_of_lanes, scan_vector_kernel, thread_vector_kernel

WARP = 32


def block_kernel(plan: Plan, problem: Problem) -> Kernel:
    """The kernel of a plan of algo `scan_block`."""
    region, kernel = problem.region, problem.kernel
    width = plan.width_of(kernel.row[0].name)
    if len(plan.threads) == 2:
        return lanes_vector_kernel(plan, region, kernel, run_of_lanes(region, kernel, width))
    if width == 1:
        return _block_kernel(plan, region, kernel)
    return scan_vector_kernel(plan, region, kernel, row_run(region, kernel, width))


def thread_kernel(plan: Plan, problem: Problem) -> Kernel:
    """The kernel of a plan of algo `scan_thread`."""
    region, kernel = problem.region, problem.kernel
    width = plan.width_of(kernel.row[0].name)
    if width == 1:
        return _thread_kernel(plan, region, kernel)
    return thread_vector_kernel(plan, region, kernel, row_run(region, kernel, width))


def _register(name: str, dtype: DType, scan: Scan, is_full: bool) -> nodes.Reg:
    return nodes.Reg(name, type_of(dtype, 1), init=start_of(scan.op, scan.dtype) if is_full else None)


def _axis(kernel: Prefix, number: Expr) -> nodes.Let:
    """The scanned axis at the element with this number in the order of the scan."""
    axis = kernel.row[0]
    return nodes.Let(axis.name, axis.size - 1 - number if kernel.reverse else number)


def _block_kernel(plan: Plan, region: Region, kernel: Prefix) -> Kernel:
    threads, axis, fresh = plan.threads[0], kernel.row[0], Fresh(names_in(region))
    turn, parts, head, done = fresh.name("c"), {}, [], {}
    number = Expr.of(turn) + "thread.x"
    inner: list[Statement] = [_axis(kernel, number)]
    guard = () if divides(threads, axis.size) else below(number, axis.size)

    def where_inside(lines: list[Statement]) -> list[Statement]:
        return [nodes.If(guard, tuple(lines))] if guard else lines

    whole = Prefixes(region, fresh, done=done)

    def writer() -> Prefixes:
        """One for all where all is in one block, whose values are computed once; else one for each block under the
        guard."""
        return Prefixes(region, fresh, done=done) if guard else whole

    for scan in dict.fromkeys(scans_of(region)):
        dtype, base = wide(scan.dtype), name_of(region, scan)
        mine, carry = fresh.name(f"{base}.acc"), fresh.name(f"{base}.carry")
        if threads > WARP:
            parts[dtype] = parts.get(dtype) or fresh.name("part")
        head += [_register(mine, dtype, scan, False), _register(carry, dtype, scan, True)]
        before, element = writer().element(scan)
        if guard:
            inner.append(nodes.Assign(Place(mine, (ZERO,)), start_of(scan.op, scan.dtype)))
        inner += where_inside([*before, nodes.Assign(Place(mine, (ZERO,)), element)])
        inner.append(nodes.BlockScan(scan.op, scan.exclusive, mine, carry, parts.get(dtype, "")))
        done[scan] = cast(Read(mine, (ZERO,), dtype), scan.dtype)
    inner += where_inside(writer().at_point(region.yields))
    rows = tuple(nodes.Let(name, e) for name, e in split(Expr.of("cta.x"), kernel.rows).items()) if kernel.rows else ()
    arrays = tuple(shared(n, array) for n, array in zip(parts.values(), meeting_arrays(plan, region), strict=True))
    loop = nodes.For(turn, ZERO, axis.size, tuple(inner), step=Expr.of(threads), unroll=turns_of(plan))
    return Kernel(
        plan.name, plan.regions, plan.arch, (extent_of(kernel.rows),), plan.threads, (*arrays, *rows, *head, loop)
    )


def _thread_kernel(plan: Plan, region: Region, kernel: Prefix) -> Kernel:
    threads, axis, fresh = plan.threads[0], kernel.row[0], Fresh(names_in(region))
    total, head, writer = extent_of(kernel.rows), [], Prefixes(region, fresh)
    turn = fresh.name("c") if kernel.reverse else axis.name
    inner: list[Statement] = [_axis(kernel, Expr.of(turn))] if kernel.reverse else []
    for scan in dict.fromkeys(scans_of(region)):
        dtype, base = wide(scan.dtype), name_of(region, scan)
        register = fresh.name(f"{base}.acc")
        so_far = Read(register, (ZERO,), dtype)
        head.append(_register(register, dtype, scan, True))
        before, element = writer.element(scan)
        inner += before
        writer.done[scan] = cast(so_far, scan.dtype)
        if scan.exclusive:
            held = fresh.name(f"{base}.before")
            inner.append(nodes.Value(held, so_far))
            writer.done[scan] = cast(Ref(held, dtype), scan.dtype)
        inner.append(nodes.Assign(Place(register, (ZERO,)), Binary(fold_word(scan.op, dtype), so_far, element, dtype)))
    inner += writer.at_point(region.yields)
    one = len(kernel.rows) == 1
    line = kernel.rows[0].name if one else fresh.name("e")
    number = nodes.Let(line, threads * Expr.of("cta.x") + "thread.x")
    rows = () if one else tuple(nodes.Let(name, e) for name, e in split(Expr.of(line), kernel.rows).items())[::-1]
    body: tuple[Statement, ...] = (*rows, *head, nodes.For(turn, ZERO, axis.size, tuple(inner)))
    guard = () if divides(threads, total) else below(Expr.of(line), total)
    return Kernel(
        plan.name,
        plan.regions,
        plan.arch,
        (total.ceildiv(threads),),
        plan.threads,
        (number, *((nodes.If(guard, body),) if guard else body)),
    )
