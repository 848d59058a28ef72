"""What a multistage contraction asks of a plan: what cp.async copies is contiguous and aligned."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.expr import Bound, show_guard
from ...ir.plan import Plan
from ...ir.plan.verify import fault_of
from ...ir.traits import extent_of
from ...kit.diag import Diag
from ...kit.phrase import Phrase
from ...target.ampere import COPIES
from ..family import Problem
from ..parts.boxes import MMA_FACTORS, View, misfit, multiple_of, view_of


def legal(plan: Plan, problem: Problem) -> Iterator[Diag]:
    """E1611 for a product that tensor cores do not compute, E1570 for what cp.async cannot copy, E1525 where
    nothing assumes that accesses of the output's columns are whole."""
    kernel, region = problem.kernel, problem.region
    if fault := misfit(region, kernel, MMA_FACTORS[plan.math], is_gathered=True):
        yield fault_of(plan, "E1611", "algo", what=fault, region=region.name)
    copied: set[Bound] = set()
    for read in (kernel.lhs, kernel.rhs):
        if plan.load_of(read.tensor).by != "cp_async":
            continue
        view = view_of(region, read.tensor, read.index, kernel)
        if not isinstance(view, View) and (read.dtype.bytes < COPIES[-1] or plan.is_padded(read.tensor)):
            yield fault_of(plan, "E1570", "load", tensor=read.tensor, fault=view)
        if not isinstance(view, View) or plan.is_padded(read.tensor):
            continue
        axis, size = view.dims[-1].axes[-1].name, view.dims[-1].size
        width = plan.width_of(axis)
        if width * read.dtype.bytes < COPIES[-1]:
            fault = Phrase(
                "vectorize says {width} B along {axis}, {copies} B is the least",
                width=width * read.dtype.bytes,
                axis=axis,
                copies=COPIES[-1],
            )
            yield fault_of(plan, "E1570", "load", tensor=read.tensor, fault=fault)
        for need in multiple_of(size, width):
            if need not in plan.assume:
                copied.add(need)
                yield fault_of(
                    plan, "E1570", "load", tensor=read.tensor, fault=Phrase("nothing assumes {need}", need=need)
                )
    (right, *others) = kernel.right
    for need in multiple_of(extent_of(kernel.right), 1 if others else plan.width_of(right.name)):
        if need not in plan.assume and need not in copied:
            given, told = show_guard(plan.assume) or "-", show_guard((need,))
            facts = {"given": given, "accepts": f"... and {told}", "help": Phrase("write one that it takes")}
            yield fault_of(plan, "E1525", "assume", algo=plan.algo, field="assume", **facts)
