"""The plans of a launch: what the family of a region proposes, less what the stop rules reject, by the cost model's
time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from ...analysis.work import Work, work_of
from ...ir import plan, region
from ...ir.rules import product
from ...ir.traits import sizes_of, walks_apart
from ...kernels import resources
from ...kernels.candidate import Candidate, Proposal, Regions
from ...kernels.cost import cost_of
from ...kernels.flash.space import propose_flash
from ...kernels.gemv.space import propose_gemv
from ...kernels.maps.space import propose_flat
from ...kernels.multistage.space import propose_multistage
from ...kernels.plain import propose_plain
from ...kernels.problem import Contraction, Kernel, Map, Plain, Prefix, Row, kernel_of, kernels_of
from ...kernels.rows.space import propose_row
from ...kernels.scans.space import propose_scan
from ...kernels.scatter_atomic.space import propose_scatter
from ...kernels.siblings import siblings_of
from ...kernels.streaming.match import Streaming, streaming_of
from ...kernels.streaming.space import propose_streaming
from ...kernels.synchronous.space import propose_contraction
from ...kernels.warp_specialized.space import propose_warp_specialized
from ...kit.diag import Diag, Refused, refuse
from ...target.arch import ARCHS
from ...target.device import Device, get_device

DEVICE_OF = {"sm80": "a100", "sm90": "h100"}
KEPT = 20  # candidates that a tuner may measure
CROWDED = f"not among the {KEPT} cheapest"
SMEM_SHARE = 0.8


def chosen(found: tuple[Candidate, ...], one: region.Region) -> tuple[plan.Plan, ...]:
    """Of the candidates of a region, or of it and what shares its launch, the cheapest; after one that assumes
    something, the cheapest of those that assume least and the cheapest that assumes nothing. Raises Refused (E1520)
    where all are rejected."""
    best = found[0]
    if best.rejected:
        raise Refused(
            [
                Diag(
                    "E1520",
                    one.name,
                    {"region": one.name, "what": ", ".join(dict.fromkeys(c.rejected for c in found))},
                    one.span,
                )
            ]
        )
    others = sorted(
        (c for c in found if c.cost is not None and c.rejected in ("", CROWDED)),
        key=lambda c: (_assumed(c.plan), _rank(c)),
    )
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


def candidates(
    module: region.Module,
    one: region.Region,
    arch: str = "sm90",
    device: str | None = None,
    others: Regions = (),
    fp32: str = "",
    atomics: str = "",
) -> tuple[Candidate, ...]:
    """Every plan thought of for a region, or for it and the `others` of its launch: the ranked ones first, the cheapest
    in front, then the rejected ones with the reason."""
    return ranked(
        of_launch(module, (one, *others), sizes_of(module.model), card_of(arch, device, fp32, atomics)), (one, *others)
    )


def ranked(judged: list[Candidate], group: Regions) -> tuple[Candidate, ...]:
    """The candidates of a launch of these regions, as `candidates` gives them, with what their threads keep in local
    memory."""
    found, stack = _ranked(judged), resources.stack_of(group)
    return (
        tuple(
            replace(c, plan=replace(c.plan, estimate=c.plan.estimate and replace(c.plan.estimate, stack=stack)))
            for c in found
        )
        if stack
        else found
    )


def of_launch(module: region.Module, group: Regions, sizes: dict[str, int], card: Device) -> list[Candidate]:
    """The plans of the regions of a launch: those of siblings, those of a region with the one that it hands its rows,
    or of one alone."""
    one, *others = group
    reader = readers_of(module).get(one.name)
    if reader is not None:
        return _streamed(module, one, module.program.region(reader), sizes, card)
    return _of_siblings(module, group, sizes, card) if others else _of_one(module, one, sizes, card)


def _of_one(module: region.Module, one: region.Region, sizes: dict[str, int], card: Device) -> list[Candidate]:
    """The plans of one region: those of the families that hold it, or where none of them fits the card the plain one,
    which always does."""
    kernels, work = kernels_of(one, sizes), work_of(one, sizes)
    found = [
        _judged(proposal, one, kernel, work, sizes, card)
        for kernel in _worth(kernels, one)
        for proposal in _propose(kernel, module, one, card)
    ]
    if all(c.rejected for c in found):
        found.append(_judged(Proposal(propose_plain(one, card.arch.name)), one, Plain(), work, sizes, card))
    return found


def _worth(kernels: tuple[Kernel, ...], one: region.Region) -> tuple[Kernel, ...]:
    """The kinds of kernel to propose plans of: the best, and beside a map that folds along what lies side by side the
    rows of that."""
    row = kernel_of(one, "row") if kernels and isinstance(kernels[0], Map) and walks_apart(one) else None
    return kernels[:1] if row is None else (kernels[0], row)


def _of_siblings(module: region.Module, group: Regions, sizes: dict[str, int], card: Device) -> list[Candidate]:
    """The plans of several contractions as one; templates make padded copies for one alone."""
    found, first = siblings_of(group), group[0]
    works = [work_of(one, sizes) for one in group]
    shared = sum(
        product(t.type.shape).evaluate(sizes) * t.type.dtype.bytes
        for t in first.inputs
        if all(t in one.inputs for one in group)
    )
    work = Work(sum(w.flops for w in works), sum(w.bytes for w in works) - (len(group) - 1) * shared)
    names = tuple(one.name for one in group)
    proposals = (
        replace(p, plan=replace(p.plan, regions=names))
        for p in _propose(found.kernel, module, first, card)
        if not p.plan.layout
    )
    return [_judged(proposal, first, found.kernel, work, sizes, card) for proposal in proposals]


def readers_of(module: region.Module) -> dict[str, str]:
    """For each region that hands a deferred buffer on, the region that reads it."""
    makers = {t.name: r.name for r in module.program.regions for t in r.outputs if t.attr("materialize") == "deferred"}
    return {makers[t.name]: r.name for r in module.program.regions for t in r.inputs if t.name in makers}


def _streamed(
    module: region.Module, one: region.Region, reader: region.Region, sizes: dict[str, int], card: Device
) -> list[Candidate]:
    """The plans of two regions that share a kernel. Raises Refused (E1520) when none can compute both."""
    kernel = streaming_of(one, reader)
    if not isinstance(kernel, Streaming):
        raise Refused([Diag("E1520", one.name, {"region": f"{one.name} with {reader.name}", "what": kernel}, one.span)])
    works = [work_of(r, sizes) for r in (one, reader)]
    work = Work(sum(w.flops for w in works), sum(w.bytes for w in works))
    proposals = (
        *propose_flash(kernel, one, reader, module.model, card),
        *propose_streaming(kernel, one, reader, card),
    )
    return [_judged(proposal, one, kernel, work, sizes, card) for proposal in proposals]


def least_us(found: Iterable[Candidate]) -> float:
    """Microseconds of the cheapest; infinite where all are rejected."""
    return min((c.cost.microseconds for c in found if not c.rejected), default=math.inf)


def _ranked(found: list[Candidate]) -> tuple[Candidate, ...]:
    """The candidates that a tuner may measure, the cheapest first, then the others with the reason."""
    ranked = sorted((c for c in found if not c.rejected), key=_rank)
    return (*ranked[:KEPT], *(replace(c, rejected=CROWDED) for c in ranked[KEPT:]), *(c for c in found if c.rejected))


def card_of(arch: str, device: str | None, fp32: str = "", atomics: str = "") -> Device:
    """The card to plan for, with what plans may make of fp32 and of the order of atomics on it: the one named, else the
    architecture's own. Raises Refused (E1503) when they do not go together."""
    if arch not in ARCHS:
        raise refuse("E1503", arch, what="arch", given=arch, known=", ".join(ARCHS))
    card = replace(get_device(device or DEVICE_OF[arch]), fp32=fp32, atomics=atomics)
    if card.arch.name == arch:
        return card
    if not card.arch.has_tma:
        raise refuse("E1503", card.name, what=f"device for {arch}", given=card.name, known=DEVICE_OF[arch])
    return replace(card, arch=ARCHS[arch])


def _propose(kernel: Kernel, module: region.Module, one: region.Region, card: Device) -> tuple[Proposal, ...]:
    if isinstance(kernel, Contraction):
        on_tensor_cores = (
            *propose_warp_specialized(kernel, module.model, one, card),
            *propose_multistage(kernel, module.model, one, card),
        )
        return (
            *on_tensor_cores,
            *propose_gemv(kernel, module.model, one, card),
            *propose_contraction(kernel, one, card),
        )
    if isinstance(kernel, Prefix):
        return propose_scan(kernel, one, card)
    return (
        propose_row(kernel, module.model, one, card)
        if isinstance(kernel, Row)
        else (*propose_flat(kernel, one, card), *propose_scatter(kernel, one, card))
    )


def _judged(
    proposal: Proposal, one: region.Region, kernel: Kernel, work: Work, sizes: dict[str, int], card: Device
) -> Candidate:
    taken = resources.taken_by(proposal.plan, one, kernel)
    stop = proposal.stop or _stop(proposal.plan, one, kernel, card, taken)
    if stop and not taken.occupancy:
        return Candidate(proposal.plan, None, stop)
    cost = cost_of(proposal.plan, one, kernel, work, sizes, card, taken)
    return Candidate(replace(proposal.plan, estimate=cost.estimate()), cost, stop)


def _stop(proposed: plan.Plan, one: region.Region, kernel: Kernel, card: Device, taken: resources.Taken) -> str:
    """The stop rule that a plan breaks which takes so much, in words; empty when it breaks none. Two of them hold for
    sm80 alone: Hopper's best kernels fill an SM with one CTA."""
    arch = card.arch
    smem, regs, ctas = taken.smem, taken.regs, taken.occupancy
    if smem > arch.smem_per_cta:
        return f"{smem} B of shared memory"
    if smem > arch.static_smem and proposed.algo == "synchronous":
        return f"{smem} B of shared memory, {arch.static_smem} at most without asking"
    most = proposed.regs.consumer if proposed.regs else arch.registers_per_thread
    if (
        resources.accumulators_of(proposed, kernel) + resources.leaving_of(proposed, one) + resources.ADDRESSING // 2
        > most
    ):
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
    return (
        round(candidate.cost.microseconds, 6),
        -candidate.cost.occupancy,
        -p.widest,
        p.tile,
        p.threads,
        p.micro,
        *made_of,
    )


__all__ = ["CROWDED", "KEPT", "candidates", "card_of", "chosen", "least_us", "of_launch", "ranked", "readers_of"]
