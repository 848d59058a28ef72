"""What a warp-specialised contraction asks of a plan: the layout of what TMA moves is one that TMA can move."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.plan import Plan
from ...ir.plan.verify import fault_of
from ...kit.diag import Diag
from ...kit.phrase import Phrase
from ...target.arch import ARCHS
from ..family import Problem
from ..parts.boxes import WGMMA_FACTORS, View, copied, operand_needs
from ..parts.pairs import left_view, results_of
from ..parts.tile_reads import blocks_of, reads_of
from ..parts.windows import operand_views
from ..problem import Contraction
from .declare import as_multiplied, box_of, ending_arrays, ends_held, operand_array, shares_of
from .fetched import product_fault


def legal(plan: Plan, problem: Problem) -> Iterator[Diag]:
    """E1611 for a product that tensor cores do not compute, E1513 for outputs that registers do not hold together,
    E1523 for what TMA cannot move."""
    kernel, region = problem.kernel, problem.region
    if fault := product_fault(region, kernel, WGMMA_FACTORS[plan.math]):
        yield fault_of(plan, "E1611", "algo", what=fault, region=region.name)
    held, most = ending_arrays(plan, region, kernel) if ends_held(plan) else 0, ARCHS[plan.arch].registers_per_thread
    if held > most:
        yield fault_of(plan, "E1513", "tile", field="accumulators", given=held, most=most)
    for side, (rows, box) in enumerate(_boxes(plan, kernel)):
        if not box or rows % box:
            fault = Phrase("{rows} rows of its tile are not whole boxes, which are shared", rows=rows)
            tensor = (kernel.lhs, kernel.rhs)[side ^ plan.swap_ab].tensor
            yield fault_of(plan, "E1523", "cluster", tensor=tensor, fault=fault)
    moved = [
        ("load", r.tensor, view)
        for r, view in zip((kernel.lhs, kernel.rhs), operand_views(region, kernel))
        if plan.load_of(r.tensor).by in ("tma", "windows")
    ]
    of_results, results = results_of(plan, kernel)
    moved += [("load", read.tensor, view) for read, view in reads_of(of_results, region, results)]
    for one in blocks_of(of_results, region, results):
        fault = Phrase("{name} begins again in a tile", name=one.read.tensor)
        moved.append(("load", one.read.tensor, one.view if one.fits(plan.tile[0]) else fault))
    moved += [
        ("store", y.output, left_view(region, kernel, y)[0])
        for y in region.yields
        if plan.store_of(y.output).by == "tma"
    ]
    views = []
    for word, name, view in moved:
        if isinstance(view, View):
            views.append(copied(view, region, plan.layout_of(name)))
        else:
            yield fault_of(plan, "E1523", word, tensor=name, fault=view)
    for need in operand_needs(kernel, problem.model, views, plan.least_sum):
        if need not in plan.assume:
            yield fault_of(plan, "E1523", "load", tensor=plan.name, fault=Phrase("nothing assumes {need}", need=need))


def _boxes(plan: Plan, kernel: Contraction) -> Iterator[tuple[int, int]]:
    """Of each operand, as it is multiplied, the rows of its tile and of a box."""
    plan, kernel = as_multiplied(plan, kernel)
    for side in (0, 1):
        array = operand_array(plan, kernel, side)
        yield array.shape[0], box_of(array, shares_of(plan, kernel, side))[0]
