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
from ...kernels import FAMILIES, families_for, resources
from ...kernels.attention import streaming_of
from ...kernels.candidate import Candidate, Regions
from ...kernels.cost import cost_of
from ...kernels.family import Family, Needs, Problem, Proposal
from ...kernels.problem import Kernel, Map, kernel_of, kernels_of
from ...kernels.siblings import siblings_of
from ...kit.diag import Diag, Refused, refuse
from ...kit.phrase import Listing, Phrase
from ...target.arch import ARCHS
from ...target.device import Device, get_device

DEVICE_OF = {"sm80": "a100", "sm90": "h100"}
KEPT = 20  # candidates that a tuner may measure
CROWDED = Phrase("not among the {kept} cheapest", kept=KEPT)
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
                    {"region": one.name, "what": Listing(dict.fromkeys(c.rejected for c in found))},
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
    work = work_of(one, sizes)
    found = [
        candidate
        for kernel in _worth(kernels_of(one, sizes), one)
        for candidate in _all_of(Problem((one,), kernel, module.model), work, sizes, card)
    ]
    for family in FAMILIES if all(c.rejected for c in found) else ():
        if family.is_fallback:
            problem = Problem((one,), kernel_of(one, family.kind), module.model)
            found += [_judged(family, proposal, problem, work, sizes, card) for proposal in family.space(problem, card)]
    return found


def _all_of(problem: Problem, work: Work, sizes: dict[str, int], card: Device) -> list[Candidate]:
    """Every plan that a family thinks of for a problem."""
    return [
        _judged(family, proposal, problem, work, sizes, card)
        for family in families_for(problem.kernel)
        for proposal in family.space(problem, card)
    ]


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
    problem = Problem((first,), found.kernel, module.model)
    return [
        _judged(family, replace(p, plan=replace(p.plan, regions=names)), problem, work, sizes, card)
        for family in families_for(found.kernel)
        for p in family.space(problem, card)
        if not p.plan.layout
    ]


def readers_of(module: region.Module) -> dict[str, str]:
    """For each region that hands a deferred buffer on, the region that reads it."""
    makers = {t.name: r.name for r in module.program.regions for t in r.outputs if t.attr("materialize") == "deferred"}
    return {makers[t.name]: r.name for r in module.program.regions for t in r.inputs if t.name in makers}


def problem_of_two(module: region.Module, one: region.Region, reader: region.Region) -> Problem:
    """What two regions that share a kernel compute. Raises Refused (E1520) when no kernel computes both."""
    kernel = streaming_of(one, reader)
    if isinstance(kernel, str):
        raise Refused(
            [
                Diag(
                    "E1520",
                    one.name,
                    {"region": Phrase("{name} with {reader}", name=one.name, reader=reader.name), "what": kernel},
                    one.span,
                )
            ]
        )
    return Problem((one, reader), kernel, module.model)


def _streamed(
    module: region.Module, one: region.Region, reader: region.Region, sizes: dict[str, int], card: Device
) -> list[Candidate]:
    """The plans of two regions that share a kernel. Raises Refused (E1520) when none can compute both."""
    problem = problem_of_two(module, one, reader)
    works = [work_of(r, sizes) for r in (one, reader)]
    work = Work(sum(w.flops for w in works), sum(w.bytes for w in works))
    return _all_of(problem, work, sizes, card)


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
        raise refuse("E1503", arch, what=Phrase("arch"), given=arch, known=", ".join(ARCHS))
    card = replace(get_device(device or DEVICE_OF[arch]), fp32=fp32, atomics=atomics)
    if card.arch.name == arch:
        return card
    if not card.arch.has_tma:
        raise refuse(
            "E1503", card.name, what=Phrase("device for {arch}", arch=arch), given=card.name, known=DEVICE_OF[arch]
        )
    return replace(card, arch=ARCHS[arch])


def _judged(
    family: Family, proposal: Proposal, problem: Problem, work: Work, sizes: dict[str, int], card: Device
) -> Candidate:
    needs = family.declare(proposal.plan, problem)
    taken = resources.taken_by(proposal.plan, needs)
    stop = proposal.stop or _stop(family, proposal.plan, needs, card, taken.occupancy)
    if stop and not taken.occupancy:
        return Candidate(proposal.plan, None, stop)
    cost = cost_of(family, proposal.plan, problem, work, sizes, card, taken)
    return Candidate(replace(proposal.plan, estimate=cost.estimate()), cost, stop)


def _stop(family: Family, proposed: plan.Plan, needs: Needs, card: Device, ctas: int) -> str:
    """The stop rule that a plan breaks which needs so much, with so many CTAs on an SM, in words; empty when it breaks
    none. Two of them hold for sm80 alone, and not for families whose CTA fills an SM, as Hopper's best
    kernels do."""
    arch, smem = card.arch, needs.smem
    if smem > arch.smem_per_cta:
        return Phrase("{smem} B of shared memory", smem=smem)
    if smem > arch.static_smem and family.has_static_smem:
        return Phrase(
            "{smem} B of shared memory, {static_smem} at most without asking", smem=smem, static_smem=arch.static_smem
        )
    most = proposed.regs.consumer if proposed.regs else arch.registers_per_thread
    if needs.accumulators + needs.leaving + resources.ADDRESSING // 2 > most:
        return Phrase("over {most} registers a thread", most=most)
    if ctas == 0:
        return Phrase("{registers} registers a thread do not fit an SM", registers=needs.registers)
    if arch.has_tma or family.fills_sm:
        return ""
    if smem > SMEM_SHARE * arch.smem_per_cta:
        return Phrase("{smem} B of shared memory, over 80 %", smem=smem)
    if ctas == 1:
        return Phrase("one CTA per SM")
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


__all__ = [
    "CROWDED",
    "KEPT",
    "candidates",
    "card_of",
    "chosen",
    "least_us",
    "of_launch",
    "problem_of_two",
    "ranked",
    "readers_of",
]
