"""region → plan: for each region the cheapest of the plans that its analysis allows (seed 001 sections 8 and 11; spec section 10).

    region gemm ... %gemm = reduce sum (k0: K) ...   →   plan gemm : sm90 contraction, algo synchronous, tile [128, 128, 16], ...

What the region asks for decides the family (`ir.kernels`); the family proposes plans, the stop rules reject some, the cost model ranks
the rest at the first shape set. The order is total, so the same region gives the same plan on every machine.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Callable

from ...analysis.cost import cost_of
from ...analysis.device import Device, get_device
from ...analysis.work import Work, work_of
from ...ir import plan, region, resources
from ...ir.arch import ARCHS
from ...ir.kernels import FAMILY, Contraction, Kernel, Prefix, Row, kernels_of, sizes_of, why_none
from ...ir.streaming import Streaming, streaming_of
from ...kit.diag import Diag, Refused, refuse
from .candidate import Candidate, Proposal
from .contraction import propose_contraction
from .flat import propose_flat
from .multistage import propose_multistage
from .part_region import part_region
from .parts import Names, with_parts
from .row import propose_row
from .scan import propose_scan
from .split_siblings import split_siblings
from .streaming import propose_streaming
from .table import table_of
from .warp_specialized import propose_warp_specialized

DEVICE_OF = {"sm80": "a100", "sm90": "h100"}
KEPT = 20  # candidates that a tuner may measure
CROWDED = f"not among the {KEPT} cheapest"
SMEM_SHARE = 0.8
Rewrite = Callable[[region.Region, Names], tuple[region.Region, ...]]
REWRITES: tuple[Rewrite, ...] = (split_siblings, part_region)  # of one region into several, each a kernel; in this order


def lower(module: region.Module, arch: str = "sm90", device: str | None = None) -> plan.Module:
    """The module with a plan for every kernel, and after one that assumes something of the sizes those that assume less. Raises Refused (E1503
    unknown device or arch, E1520 no family covers a region)."""
    module = in_parts(module)
    plans, faults = [], []
    joined = _joined(module)
    for one in module.program.regions:
        if one.name in joined.values():
            continue  # planned with the region that hands it its rows
        try:
            plans.extend(choose_plans(module, one, arch, device))
        except Refused as fault:
            faults.extend(fault.diags)
    if faults:
        raise Refused(faults)
    return plan.Module(module, tuple(plans))


def in_parts(module: region.Module) -> region.Module:
    """The module with each region that is several kernels as a region for each."""
    for rewrite in REWRITES:
        module = with_parts(module, _parts_by(rewrite, module))
    return module


def verdicts(module: region.Module) -> list[Diag]:
    """For each region that is several kernels, a remark by the rewrite that made them."""
    said = []
    for code, rewrite in zip(("R3467", "R3468"), REWRITES):
        several = _parts_by(rewrite, module)
        said += [Diag(code, name, {"region": name, "parts": ", ".join(p.name for p in found)}, found[0].span) for name, found in several.items() if len(found) > 1]
        module = with_parts(module, several)
    return said


def _parts_by(rewrite: Rewrite, module: region.Module) -> dict[str, tuple[region.Region, ...]]:
    """The regions that each region becomes, by its name; what shares a kernel with another stays as it is."""
    names, joined, found = Names.of(module), _joined(module), {}
    for one in module.program.regions:
        is_joined = one.name in joined or one.name in joined.values()
        found[one.name] = (one,) if is_joined else rewrite(one, names)
        names.taken_by(found[one.name])
    return found


def choose_plans(module: region.Module, one: region.Region, arch: str = "sm90", device: str | None = None) -> tuple[plan.Plan, ...]:
    """The cheapest candidate of one region; after one that assumes something, the cheapest of those that assume least and the cheapest that
    assumes nothing; estimates filled in."""
    found = candidates(module, one, arch, device)
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


def candidates(module: region.Module, one: region.Region, arch: str = "sm90", device: str | None = None) -> tuple[Candidate, ...]:
    """Every plan thought of for a region: the ranked ones first, the cheapest in front, then the rejected ones with the reason."""
    card = card_of(arch, device)
    sizes = sizes_of(module.model)
    reader = _joined(module).get(one.name)
    if reader is not None:
        return _ranked(_streamed(module, one, module.program.region(reader), sizes, card))
    kernels = kernels_of(one, sizes)
    if not kernels:
        raise Refused([Diag("E1520", one.name, {"region": one.name, "what": why_none(one)}, one.span)])
    kernel = kernels[0]
    work = work_of(one, sizes)
    found = [_judged(proposal, one, kernel, work, sizes, card) for proposal in _propose(kernel, module, one, card)]
    return _ranked(found)


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


def card_of(arch: str, device: str | None) -> Device:
    """The card to plan for: the one named, else the architecture's own. Raises Refused (E1503) when they do not go together."""
    if arch not in ARCHS:
        raise refuse("E1503", arch, what="arch", given=arch, known=", ".join(ARCHS))
    card = get_device(device or DEVICE_OF[arch])
    if card.arch.name == arch:
        return card
    if not card.arch.has_tma:
        raise refuse("E1503", card.name, what=f"device for {arch}", given=card.name, known=DEVICE_OF[arch])
    return replace(card, arch=ARCHS[arch])


def explain(module: region.Module, arch: str = "sm90", device: str | None = None, is_whole: bool = False) -> str:
    """The table of candidates of every region as plain text; `is_whole`: with a row for each rejected one."""
    card, module = card_of(arch, device), in_parts(module)
    readers = _joined(module)
    alone = [one for one in module.program.regions if one.name not in readers.values()]
    named = {one.name: f"{one.name} with {readers[one.name]}" if one.name in readers else one.name for one in alone}
    return "\n".join(table_of(named[one.name], candidates(module, one, arch, device), card, is_whole) for one in alone)


def _propose(kernel: Kernel, module: region.Module, one: region.Region, card: Device) -> tuple[Proposal, ...]:
    if isinstance(kernel, Contraction):
        on_tensor_cores = (*propose_warp_specialized(kernel, module.model, one, card), *propose_multistage(kernel, module.model, one, card))
        return (*on_tensor_cores, *propose_contraction(kernel, one, card))
    if isinstance(kernel, Prefix):
        return propose_scan(kernel, one, card)
    return propose_row(kernel, module.model, one, card) if isinstance(kernel, Row) else propose_flat(kernel, one, card)


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
    if resources.accumulators_of(proposed, kernel) + resources.ADDRESSING // 2 > arch.registers_per_thread:
        return f"over {arch.registers_per_thread} registers a thread"
    if ctas == 0:
        return f"{regs} registers a thread do not fit an SM"
    if not arch.has_tma and smem > SMEM_SHARE * arch.smem_per_cta:
        return f"{smem} B of shared memory, over 80 %"
    if not arch.has_tma and ctas == 1:
        return "one CTA an SM"
    return ""


def _rank(candidate: Candidate) -> tuple:
    p = candidate.plan
    return (round(candidate.cost.microseconds, 6), -candidate.cost.occupancy, p.tile, p.threads, p.micro, p.cluster.shape if p.cluster else (), p.order.width if p.order else 0, p.parts, len(p.layout))


__all__ = ["Candidate", "FAMILY", "candidates", "card_of", "choose_plans", "explain", "lower", "verdicts"]
