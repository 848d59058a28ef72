"""region → plan: for each region the cheapest of the plans that its analysis allows (seed 001 sections 8 and 11; spec section 10).

    region gemm ... %gemm = reduce sum (k0: K) ...   →   plan gemm : sm90 contraction, algo synchronous, tile [128, 128, 16], ...

What the region asks for decides the family (`ir.kernels`); the family proposes plans, the stop rules reject some, the cost model ranks
the rest at the first shape set. The order is total, so the same region gives the same plan on every machine.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Callable, Container, Hashable, Iterable

from ...analysis.cost import cost_of
from ...analysis.device import Device, get_device
from ...analysis.traffic import fills_card
from ...analysis.work import Work, work_of
from ...ir import plan, region, resources
from ...ir.arch import ARCHS
from ...ir.boxes import WGMMA_FACTORS, misfit
from ...ir.kernels import FAMILY, Contraction, Kernel, Map, Prefix, Row, extent_of, kernel_of, kernels_of, sizes_of, walks_apart, why_none
from ...ir.rules import product
from ...ir.siblings import Siblings, likeness_of, siblings_in, siblings_of
from ...ir.streaming import Streaming, streaming_of
from ...kit.diag import Diag, Refused, refuse
from .candidate import Candidate, Proposal
from .contraction import propose_contraction
from .flat import propose_flat
from .fold_in_steps import fold_in_steps
from .gemv import propose_gemv
from .materialize_prologues import Materialized, materialize_prologues
from .multistage import propose_multistage
from .part_region import part_region
from .parts import Names, Surroundings, with_parts
from .row import propose_row
from .scan import propose_scan
from .scan_in_steps import scan_in_steps
from .scatter import propose_scatter
from .split_siblings import split_siblings
from .streaming import propose_streaming
from .sum_in_steps import sum_in_steps
from .table import table_of
from .warp_specialized import propose_warp_specialized

DEVICE_OF = {"sm80": "a100", "sm90": "h100"}
MOST_SIBLINGS = 8  # of one launch: each has parameters of its own
KEPT = 20  # candidates that a tuner may measure
CROWDED = f"not among the {KEPT} cheapest"
SMEM_SHARE = 0.8
Rewrite = Callable[[region.Region, Surroundings], tuple[region.Region, ...]]
REWRITES: dict[str, Rewrite] = {  # of one region into several, each a kernel, in this order; by the remark that says so
    "R3467": split_siblings,
    "R3468": part_region,
    "R3471": fold_in_steps,
    "R3472": scan_in_steps,
}
Regions = tuple[region.Region, ...]


def lower(module: region.Module, arch: str = "sm90", device: str | None = None, fp32: str = "", atomics: str = "") -> plan.Module:
    """The module with a plan for every kernel, and after one that assumes something of the sizes those that assume less. `fp32` "tf32" lets tensor
    cores round fp32 factors to 11 bits, `atomics` "unordered" lets updates be folded in any order. Raises Refused (E1503 unknown device or arch, E1520 no family covers a region)."""
    module, _ = kernels_for(module, arch, device, fp32)
    plans, faults = [], []
    for one, *others in launches(module, arch, device, fp32):
        try:
            plans.extend(choose_plans(module, one, arch, device, tuple(others), fp32, atomics))
        except Refused as fault:
            faults.extend(fault.diags)
    if faults:
        raise Refused(faults)
    return plan.Module(module, tuple(plans))


def kernels_for(module: region.Module, arch: str = "sm90", device: str | None = None, fp32: str = "") -> tuple[region.Module, tuple[Materialized, ...]]:
    """The module with a region for each kernel, and which prologues became kernels of their own."""
    times = _Times(card_of(arch, device, fp32))
    module, apart = materialize_prologues(in_parts(module, times), times.of)
    return with_parts(module, _sums_by(module, times)), apart


class _Times:
    """Microseconds of regions' best plans on a card; those that are the same but for names are planned once."""

    def __init__(self, card: Device):
        self.card = card
        self._found: dict[Hashable, float] = {}

    def of(self, module: region.Module, *group: region.Region) -> float:
        """Those of one region of the module, with the one that shares its kernel, or of siblings in one launch; infinite where no plan serves."""
        sizes = sizes_of(module.model)
        if group[0].name in _joined(module):
            return _least(_of_all(module, group, sizes, self.card))
        key = (*map(likeness_of, group), *sizes.items())
        if key not in self._found:
            self._found[key] = _least(_of_all(module, group, sizes, self.card))
        return self._found[key]


def in_parts(module: region.Module, times: _Times | None = None) -> region.Module:
    """The module with each region that is several kernels as a region for each; without `times` for an H100."""
    times = times or _Times(card_of("sm90", None))
    for rewrite in REWRITES.values():
        module = with_parts(module, _parts_by(rewrite, module, times))
    return module


def launches(module: region.Module, arch: str = "sm90", device: str | None = None, fp32: str = "") -> tuple[Regions, ...]:
    """The regions of each kernel: those that a deferred buffer joins, siblings of which one alone would leave much of the card idle, else one."""
    joined = _joined(module)
    siblings = {one.name: group for group in _siblings(module, _Times(card_of(arch, device, fp32))) for one in group}
    found: dict[Regions, None] = {}
    for one in module.program.regions:
        if one.name in joined.values():
            continue  # planned with the region that hands it its rows
        reader = module.program.region(joined[one.name]) if one.name in joined else None
        found[siblings.get(one.name, (one,) if reader is None else (one, reader))] = None
    return tuple(found)


def _siblings(module: region.Module, times: _Times) -> tuple[Regions, ...]:
    """Those that share a launch: it takes less than one launch for each."""
    sizes = sizes_of(module.model)

    def is_small(one: region.Region) -> bool:
        return not fills_card(extent_of(one.iters).evaluate(sizes))

    def pays(group: Regions) -> bool:
        return times.of(module, *group) <= sum(times.of(module, one) for one in group)

    groups = (group[at : at + MOST_SIBLINGS] for group in siblings_in(module.program.regions) if all(map(is_small, group)) for at in range(0, len(group), MOST_SIBLINGS))
    return tuple(group for group in groups if len(group) > 1 and pays(group))


def _least(found: Iterable[Candidate]) -> float:
    """Microseconds of the cheapest; infinite where all are rejected."""
    return min((c.cost.microseconds for c in found if not c.rejected), default=math.inf)


def _of_siblings(module: region.Module, group: Regions, sizes: dict[str, int], card: Device) -> list[Candidate]:
    """The plans of several contractions as one; templates make padded copies for one alone."""
    found, first = siblings_of(group), group[0]
    works = [work_of(one, sizes) for one in group]
    shared = sum(product(t.type.shape).evaluate(sizes) * t.type.dtype.bytes for t in first.inputs if all(t in one.inputs for one in group))
    work = Work(sum(w.flops for w in works), sum(w.bytes for w in works) - (len(group) - 1) * shared)
    names = tuple(one.name for one in group)
    proposals = (replace(p, plan=replace(p.plan, regions=names)) for p in _propose(found.kernel, module, first, card) if not p.plan.layout)
    return [_judged(proposal, first, found.kernel, work, sizes, card) for proposal in proposals]


def verdicts(module: region.Module, arch: str = "sm90", device: str | None = None, fp32: str = "") -> list[Diag]:
    """For each region that is several kernels a remark by the rewrite that made them, R3470 for a prologue that is one; R3469 for siblings that
    are one launch; R3474 for bytes that no tensor core of the card multiplies."""
    whole, apart = kernels_for(module, arch, device, fp32)
    groups = [group for group in launches(whole, arch, device, fp32) if len(group) > 1 and isinstance(siblings_of(group), Siblings)]
    said = [Diag("R3469", group[0].name, {"regions": ", ".join(r.name for r in group)}, group[0].span) for group in groups]
    times = _Times(card_of(arch, device, fp32))
    for code, rewrite in REWRITES.items():
        several = _parts_by(rewrite, module, times)
        said += [v for v in _several(code, rewrite, several) if not (rewrite is split_siblings and any(set(v.facts["parts"].split(", ")) <= {r.name for r in g} for g in groups))]
        module = with_parts(module, several)
    for one in apart:
        facts = {"region": one.region.name, "parts": ", ".join(p.name for p in one.parts), "fused_us": round(one.fused, 2), "apart_us": round(one.apart, 2)}
        said.append(Diag("R3470", one.region.name, facts, one.region.span))
    said += _without_unit(module, arch, device, fp32)
    return said + _several("R3473", sum_in_steps, _sums_by(materialize_prologues(module, times.of)[0], times))


def _without_unit(module: region.Module, arch: str, device: str | None, fp32: str) -> list[Diag]:
    """A remark for each product of bytes on a card whose tensor cores take none."""
    said = []
    for one in () if card_of(arch, device, fp32).arch.has_tma else module.program.regions:
        kernel = next(iter(kernels_of(one, sizes_of(module.model))), None)
        if isinstance(kernel, Contraction) and kernel.lhs.dtype.bytes == 1 and not misfit(one, kernel, WGMMA_FACTORS[""]):
            dtypes = " and ".join(dict.fromkeys(r.dtype.name for r in (kernel.lhs, kernel.rhs)))
            algo = candidates(module, one, arch, device, fp32=fp32)[0].plan.algo
            said.append(Diag("R3474", one.name, {"region": one.name, "arch": arch, "dtypes": dtypes, "algo": algo}, one.span))
    return said


def _several(code: str, rewrite: Rewrite, parts: dict[str, Regions]) -> list[Diag]:
    """A remark for each region that a rewrite makes several of."""
    return [
        Diag(code, name, {"region": name, "parts": ", ".join(p.name for p in several), **_reason(rewrite, several)}, several[0].span)
        for name, several in parts.items() if len(several) > 1
    ]  # fmt: skip


def _reason(rewrite: Rewrite, parts: Regions) -> dict[str, str]:
    """Why contractions are no one launch."""
    if rewrite is not split_siblings:
        return {}
    found = siblings_of(parts)
    return {"reason": found if isinstance(found, str) else "a launch for each takes less"}


def _sums_by(module: region.Module, times: _Times) -> dict[str, Regions]:
    """The regions that each region becomes when long sums are cut; siblings fill the card together."""
    return _parts_by(sum_in_steps, module, times, {one.name for group in _siblings(module, times) for one in group})


def _parts_by(rewrite: Rewrite, module: region.Module, times: _Times, kept: Container[str] = ()) -> dict[str, Regions]:
    """The regions that each region becomes, by its name; what shares a kernel with another, or is among the `kept`, stays as it is."""
    names, joined, found = Names.of(module), _joined(module), {}
    card, sizes = times.card, sizes_of(module.model)

    def least_of(one: region.Region, launches: int) -> float:
        return launches * card.start_us + work_of(one, sizes).bytes / card.dram_bytes_per_us

    surroundings = Surroundings(names, lambda one: times.of(module, one), sizes, least_of)
    for one in module.program.regions:
        is_kept = one.name in joined or one.name in joined.values() or one.name in kept
        found[one.name] = (one,) if is_kept else rewrite(one, surroundings)
        names.taken_by(found[one.name])
    return found


def choose_plans(module: region.Module, one: region.Region, arch: str = "sm90", device: str | None = None, others: Regions = (), fp32: str = "", atomics: str = "") -> tuple[plan.Plan, ...]:
    """The cheapest candidate of one region, or of it and its siblings `others`; after one that assumes something, the cheapest of those that assume least and the cheapest that
    assumes nothing; estimates filled in."""
    found = candidates(module, one, arch, device, others, fp32, atomics)
    best = found[0]
    if best.rejected:
        raise Refused([Diag("E1520", one.name, {"region": one.name, "what": ", ".join(dict.fromkeys(c.rejected for c in found))}, one.span)])
    others = sorted((c for c in found if c.cost is not None and c.rejected in ("", CROWDED)), key=lambda c: (_assumed(c.plan), _rank(c)))
    modest = next((c.plan for c in others if c.plan.assume), best.plan)
    general = next((c.plan for c in others if not c.plan.assume), best.plan)
    chain = [best.plan]
    for one in (modest, general):
        if chain[-1].assume and _assumed(one) < _assumed(chain[-1]):
            chain.append(one)
    return tuple(chain)


def _assumed(one: plan.Plan) -> tuple[int, int]:
    """How much a plan assumes: the number of its guards, and how many elements they ask for."""
    return len(one.assume), sum(b.lower.constant or 0 for b in one.assume if b.lower is not None)


def candidates(module: region.Module, one: region.Region, arch: str = "sm90", device: str | None = None, others: Regions = (), fp32: str = "", atomics: str = "") -> tuple[Candidate, ...]:
    """Every plan thought of for a region, or for it and the `others` of its launch: the ranked ones first, the cheapest in front, then the
    rejected ones with the reason."""
    found = _ranked(_of_all(module, (one, *others), sizes_of(module.model), card_of(arch, device, fp32, atomics)))
    stack = resources.stack_of((one, *others))
    return tuple(replace(c, plan=replace(c.plan, estimate=c.plan.estimate and replace(c.plan.estimate, stack=stack))) for c in found) if stack else found


def _of_all(module: region.Module, group: Regions, sizes: dict[str, int], card: Device) -> list[Candidate]:
    """The plans of the regions of a launch: those of siblings, those of a region with the one that it hands its rows, or of one alone."""
    one, *others = group
    reader = _joined(module).get(one.name)
    if reader is not None:
        return _streamed(module, one, module.program.region(reader), sizes, card)
    return _of_siblings(module, group, sizes, card) if others else _of_one(module, one, sizes, card)


def _of_one(module: region.Module, one: region.Region, sizes: dict[str, int], card: Device) -> list[Candidate]:
    """The plans of one region. Raises Refused (E1520) when no family covers it."""
    kernels = kernels_of(one, sizes)
    if not kernels:
        raise Refused([Diag("E1520", one.name, {"region": one.name, "what": why_none(one)}, one.span)])
    work = work_of(one, sizes)
    return [_judged(proposal, one, kernel, work, sizes, card) for kernel in _worth(kernels, one) for proposal in _propose(kernel, module, one, card)]


def _worth(kernels: tuple[Kernel, ...], one: region.Region) -> tuple[Kernel, ...]:
    """The kinds of kernel to propose plans of: the best, and beside a map that folds along what lies side by side the rows of that."""
    row = kernel_of(one, "row") if isinstance(kernels[0], Map) and walks_apart(one) else None
    return (kernels[0],) if row is None else (kernels[0], row)


def _joined(module: region.Module) -> dict[str, str]:
    """For each region that hands a deferred buffer on, the region that reads it."""
    makers = {t.name: r.name for r in module.program.regions for t in r.outputs if t.attr("materialize") == "deferred"}
    return {makers[t.name]: r.name for r in module.program.regions for t in r.inputs if t.name in makers}


def _streamed(module: region.Module, one: region.Region, reader: region.Region, sizes: dict[str, int], card: Device) -> list[Candidate]:
    """The plans of two regions that share a kernel. Raises Refused (E1520) when none can compute both."""
    kernel = streaming_of(one, reader)
    if not isinstance(kernel, Streaming):
        raise Refused([Diag("E1520", one.name, {"region": f"{one.name} with {reader.name}", "what": kernel}, one.span)])
    works = [work_of(r, sizes) for r in (one, reader)]
    work = Work(sum(w.flops for w in works), sum(w.bytes for w in works))
    return [_judged(proposal, one, kernel, work, sizes, card) for proposal in propose_streaming(kernel, one, reader, card)]


def _ranked(found: list[Candidate]) -> tuple[Candidate, ...]:
    """The candidates that a tuner may measure, the cheapest first, then the others with the reason."""
    ranked = sorted((c for c in found if not c.rejected), key=_rank)
    return (*ranked[:KEPT], *(replace(c, rejected=CROWDED) for c in ranked[KEPT:]), *(c for c in found if c.rejected))


def card_of(arch: str, device: str | None, fp32: str = "", atomics: str = "") -> Device:
    """The card to plan for, with what plans may make of fp32 and of the order of atomics on it: the one named, else the architecture's own. Raises Refused (E1503) when they do not go together."""
    if arch not in ARCHS:
        raise refuse("E1503", arch, what="arch", given=arch, known=", ".join(ARCHS))
    card = replace(get_device(device or DEVICE_OF[arch]), fp32=fp32, atomics=atomics)
    if card.arch.name == arch:
        return card
    if not card.arch.has_tma:
        raise refuse("E1503", card.name, what=f"device for {arch}", given=card.name, known=DEVICE_OF[arch])
    return replace(card, arch=ARCHS[arch])


def explain(module: region.Module, arch: str = "sm90", device: str | None = None, is_whole: bool = False, fp32: str = "", atomics: str = "") -> str:
    """The table of candidates of every region as plain text; `is_whole`: with a row for each rejected one."""
    card, (module, _) = card_of(arch, device), kernels_for(module, arch, device, fp32)
    together = launches(module, arch, device, fp32)
    return "\n".join(table_of(" with ".join(r.name for r in group), candidates(module, group[0], arch, device, group[1:], fp32, atomics), card, is_whole) for group in together)


def _propose(kernel: Kernel, module: region.Module, one: region.Region, card: Device) -> tuple[Proposal, ...]:
    if isinstance(kernel, Contraction):
        on_tensor_cores = (*propose_warp_specialized(kernel, module.model, one, card), *propose_multistage(kernel, module.model, one, card))
        return (*on_tensor_cores, *propose_gemv(kernel, module.model, one, card), *propose_contraction(kernel, one, card))
    if isinstance(kernel, Prefix):
        return propose_scan(kernel, one, card)
    return propose_row(kernel, module.model, one, card) if isinstance(kernel, Row) else (*propose_flat(kernel, one, card), *propose_scatter(kernel, one, card))


def _judged(proposal: Proposal, one: region.Region, kernel: Kernel, work: Work, sizes: dict[str, int], card: Device) -> Candidate:
    stop = proposal.stop or _stop(proposal.plan, one, kernel, card)
    if stop and not resources.occupancy_of(proposal.plan, resources.smem_of(proposal.plan, one, kernel), resources.registers_of(proposal.plan, kernel)):
        return Candidate(proposal.plan, None, stop)
    cost = cost_of(proposal.plan, one, kernel, work, sizes, card)
    return Candidate(replace(proposal.plan, estimate=cost.estimate()), cost, stop)


def _stop(proposed: plan.Plan, one: region.Region, kernel: Kernel, card: Device) -> str:
    """The stop rule that a plan breaks, in words; empty when it breaks none. Two of them hold for sm80 alone: Hopper's best kernels fill
    an SM with one CTA."""
    arch = card.arch
    smem, regs = resources.smem_of(proposed, one, kernel), resources.registers_of(proposed, kernel)
    ctas = resources.occupancy_of(proposed, smem, regs)
    if smem > arch.smem_per_cta:
        return f"{smem} B of shared memory"
    if smem > arch.static_smem and proposed.algo == "synchronous":
        return f"{smem} B of shared memory, {arch.static_smem} at most without asking"
    most = proposed.regs.consumer if proposed.regs else arch.registers_per_thread
    if resources.accumulators_of(proposed, kernel) + resources.leaving_of(proposed, one) + resources.ADDRESSING // 2 > most:
        return f"over {most} registers a thread"
    if ctas == 0:
        return f"{regs} registers a thread do not fit an SM"
    if not arch.has_tma and smem > SMEM_SHARE * arch.smem_per_cta:
        return f"{smem} B of shared memory, over 80 %"
    if not arch.has_tma and ctas == 1:
        return "one CTA an SM"
    return ""


def _rank(candidate: Candidate) -> tuple:
    """The order of candidates: by time, then the better occupied, then the wider accesses, then the smaller."""
    p = candidate.plan
    made_of = (p.cluster.shape if p.cluster else (), p.order.width if p.order else 0, p.parts, len(p.layout))
    return (round(candidate.cost.microseconds, 6), -candidate.cost.occupancy, -p.widest, p.tile, p.threads, p.micro, *made_of)


__all__ = ["Candidate", "FAMILY", "candidates", "card_of", "choose_plans", "explain", "kernels_for", "launches", "lower", "verdicts"]
