"""The verifier of plan text: what is copied lies so that TMA, cp.async and wide accesses can move it."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.model import is_constant
from ...ir.plan.verify import fault_of
from ...kit.diag import Diag
from ...target.ampere import COPIES
from ..parts.boxes import View, copied, multiple_of, operand_needs, store_view, view_of
from ..problem import Contraction
from .case import Case


def check_boxes(case: Case) -> Iterator[Diag]:
    """E1523 for what TMA cannot move."""
    plan, kernel, region = case.plan, case.kernel, case.regions[0]
    for item in plan.layout:
        way = item.hint.replace("_", " ")
        if plan.is_copied(item.tensor) and plan.load_of(item.tensor).by not in ("tma", "cp_async"):
            yield fault_of(
                plan,
                "E1523",
                "layout",
                tensor=item.tensor,
                fault=f"{item.tensor} is {way}, and fetched neither by tma nor by cp_async",
            )
        if plan.is_kept(item.tensor) and not any(is_constant(t) for t in case.model.inputs if t.name == item.tensor):
            yield fault_of(
                plan,
                "E1523",
                "layout",
                tensor=item.tensor,
                fault=f"{item.tensor} is {way}, and no constant of the model (storage=const_pool)",
            )
    if not isinstance(kernel, Contraction) or plan.algo != "warp_specialized":
        return
    moved = [
        ("load", r.tensor, view_of(region, r.tensor, r.index, kernel))
        for r in (kernel.lhs, kernel.rhs)
        if plan.load_of(r.tensor).by == "tma"
    ]
    moved += [
        ("store", y.output, store_view(region, kernel, y)) for y in region.yields if plan.store_of(y.output).by == "tma"
    ]
    views = []
    for word, name, view in moved:
        if isinstance(view, View):
            views.append(copied(view, region, plan.layout_of(name)))
        else:
            yield fault_of(plan, "E1523", word, tensor=name, fault=view)
    for need in operand_needs(kernel, case.model, views, plan.least_sum):
        if need not in plan.assume:
            yield fault_of(plan, "E1523", "load", tensor=plan.name, fault=f"nothing assumes {need}")


def check_copies(case: Case) -> Iterator[Diag]:
    """E1570 for what cp.async cannot copy, or gemv read in its accesses."""
    plan, kernel, region = case.plan, case.kernel, case.regions[0]
    if not isinstance(kernel, Contraction) or plan.algo not in ("multistage", "gemv"):
        return
    word, is_gemv = ("vectorize", True) if plan.algo == "gemv" else ("load", False)
    for read in (kernel.rhs,) if is_gemv else (kernel.lhs, kernel.rhs):
        if not is_gemv and plan.load_of(read.tensor).by != "cp_async":
            continue
        view = view_of(region, read.tensor, read.index, kernel)
        if not isinstance(view, View) and (is_gemv or read.dtype.bytes < COPIES[-1] or plan.is_padded(read.tensor)):
            yield fault_of(plan, "E1570", word, tensor=read.tensor, fault=view)
        if not isinstance(view, View) or plan.is_padded(read.tensor):
            continue
        axis, size = view.dims[-1].axes[-1].name, view.dims[-1].size
        width = plan.width_of(axis)
        if not is_gemv and width * read.dtype.bytes < COPIES[-1]:
            yield fault_of(
                plan,
                "E1570",
                "load",
                tensor=read.tensor,
                fault=f"vectorize says {width * read.dtype.bytes} B along {axis}, {COPIES[-1]} B is the least",
            )
        for need in multiple_of(size, width):
            if need not in plan.assume:
                yield fault_of(plan, "E1570", word, tensor=read.tensor, fault=f"nothing assumes {need}")


__all__ = ["check_boxes", "check_copies"]
