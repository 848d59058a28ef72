"""region → plan: for each region the cheapest of the plans that its analysis allows (seed 001 sections 8 and 11; spec
section 10).

    region gemm ... %gemm = reduce sum (k0: K) ...   →   plan gemm : sm90 contraction, algo synchronous, tile [128, 128,
                                                     16], ...

What the region asks for decides the family (`kernels.problem`); the family proposes plans, the stop rules reject some,
the cost model ranks the rest at the first shape set. The order is total, so the same region gives the same plan on
every machine.
"""

from __future__ import annotations

from ...ir import plan, region
from ...kernels.candidate import Candidate
from ...kit.diag import collecting, refuse_all
from ...kit.records import replace
from .choose import CROWDED, candidates, card_of, with_first
from .kernels_for import in_parts, kernels_for, launches
from .planner import Planner
from .table import table_of
from .verdicts import verdicts, why_not_shared


def lower(
    module: region.Module,
    arch: str = "sm90",
    device: str | None = None,
    fp32: str = "",
    atomics: str = "",
    invariant: bool = False,
    shapes: str = "",
) -> plan.Module:
    """The module with a plan for every kernel, and after one that assumes something of the sizes those that assume
    less. `fp32` "tf32" lets tensor cores round fp32 factors to 11 bits, `atomics` "unordered" lets updates be folded in
    any order; with `invariant` no plan depends on the size of a batch (`judge.batches_of`). `shapes` is the shape set
    to rank for (default: the first). Raises Refused (E1503 unknown device or arch, E1520 two regions that share a
    kernel which no family computes; E1423, E1424 a region, or siblings, that must be one kernel and that only several
    or a plain one can compute; E1713 no such shape set)."""
    stated = module.model
    module = with_first(module, shapes)
    planner = Planner(card_of(arch, device, fp32, atomics, invariant))
    module = kernels_for(module, planner)
    plans, faults = [], []
    for group in launches(module, planner):
        faults += why_not_shared(module, group, planner)
        if faults:
            continue
        with collecting(faults):
            plans.extend(planner.plans(module, *group))
    refuse_all(faults)
    return plan.Module(replace(module, model=stated), tuple(plans))


def explain(
    module: region.Module,
    arch: str = "sm90",
    device: str | None = None,
    is_whole: bool = False,
    fp32: str = "",
    atomics: str = "",
    invariant: bool = False,
    shapes: str = "",
) -> str:
    """The table of candidates of every region as plain text; `is_whole`: with a row for each rejected one."""
    module = with_first(module, shapes)
    planner = Planner(card_of(arch, device, fp32, atomics, invariant))
    module = kernels_for(module, planner)
    found = (
        (
            " with ".join(r.name for r in group),
            candidates(module, group[0], arch, device, group[1:], fp32, atomics, invariant),
        )
        for group in launches(module, planner)
    )
    return "\n".join(table_of(name, several, planner.card, is_whole) for name, several in found)


__all__ = ["CROWDED", "Candidate", "candidates", "card_of", "explain", "in_parts", "lower", "verdicts"]
