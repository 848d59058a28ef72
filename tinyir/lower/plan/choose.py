"""The plans of a launch: what the family of a region proposes, less what the stop rules reject, by the cost model's
time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ...analysis.work import Work, work_of
from ...ir import plan, region
from ...ir.rules import product
from ...ir.traits import sizes_of, walks_apart
from ...kernels import FAMILIES, families_for, resources
from ...kernels.attention import streaming_of
from ...kernels.candidate import Candidate, Regions
from ...kernels.family import Problem
from ...kernels.problem import Contraction, Kernel, Map, kernel_of, kernels_of
from ...kernels.siblings import siblings_of
from ...kernels.windowed import windowed_of
from ...kit.diag import Diag, Refused, refuse
from ...kit.phrase import Listing, Phrase
from ...kit.records import replace
from ...target.arch import ARCHS
from ...target.device import Device, get_device
from .judge import Group, Judged, judged_of

DEVICE_OF = {"sm80": "a100", "sm90": "h100"}
WORTH = 0.8  # of the time of the plan that would be next, for one more plan of a launch
KEPT = 20  # candidates that a tuner may measure
CROWDED = Phrase("not among the {kept} cheapest", kept=KEPT)


def chosen(found: Judged, group: Regions) -> tuple[plan.Plan, ...]:
    """Of the candidates of a launch of these regions the cheapest plan; after one that assumes something, the cheapest
    of those that assume least and the cheapest that assumes nothing; and before these one that assumes the same of
    smaller multiples, where it is much faster. Raises Refused (E1520) where all are rejected."""
    kept, one = found.kept(), group[0]
    if not kept:
        reasons = Listing(dict.fromkeys(c.rejected for c in found))
        raise Refused([Diag("E1520", one.name, {"region": one.name, "what": reasons}, one.span)])
    chain = [kept[0]]
    if any(found.assumed(kept[0])):
        careful = sorted(kept, key=found.assumed)
        modest = next((at for at in careful if found.assumed(at)[0]), kept[0])
        narrower = found.narrower(kept)
        if narrower is not None and found.us(narrower) < WORTH * found.us(modest if modest != kept[0] else careful[0]):
            chain.append(narrower)
        for at in (modest, careful[0]):
            if found.assumed(chain[-1])[0] and found.assumed(at) < found.assumed(chain[-1]):
                chain.append(at)
    stack = resources.stack_of(group)
    return tuple(_with_stack(found[at], stack).plan for at in chain)


def candidates(
    module: region.Module,
    one: region.Region,
    arch: str = "sm90",
    device: str | None = None,
    others: Regions = (),
    fp32: str = "",
    atomics: str = "",
    invariant: bool = False,
) -> tuple[Candidate, ...]:
    """Every plan thought of for a region, or for it and the `others` of its launch: the ranked ones, the cheapest
    first, then the rejected ones with the reason."""
    card = card_of(arch, device, fp32, atomics, invariant)
    return ranked(of_launch(module, (one, *others), sizes_of(module.model), card), (one, *others))


def ranked(found: Judged, group: Regions) -> tuple[Candidate, ...]:
    """The candidates of a launch of these regions: those that a tuner may measure, the cheapest first, then the others
    with the reason. With what their threads keep in local memory."""
    kept, stack = found.kept(), resources.stack_of(group)
    several = [
        *(found[at] for at in kept[:KEPT]),
        *(replace(found[at], rejected=CROWDED) for at in kept[KEPT:]),
        *(found[at] for at in found.rejected()),
    ]
    return tuple(_with_stack(c, stack) for c in several)


def _with_stack(one: Candidate, stack: int) -> Candidate:
    """A candidate whose threads keep this number of bytes in local memory."""
    estimate = one.plan.estimate
    return replace(one, plan=replace(one.plan, estimate=replace(estimate, stack=stack))) if stack and estimate else one


def of_launch(module: region.Module, group: Regions, sizes: dict[str, int], card: Device) -> Judged:
    """The plans of the regions of a launch: those of siblings, those of a region with the one that it hands its rows,
    or of one alone. Raises Refused (E1520) when none can compute both of two."""
    one, *others = group
    reader = readers_of(module).get(one.name) if any(map(_is_handed_on, one.outputs)) else None
    if reader is not None:
        return _streamed(module, one, module.program.region(reader), sizes, card)
    return _of_siblings(module, group, sizes, card) if others else _of_one(module, one, sizes, card)


def _of_one(module: region.Module, one: region.Region, sizes: dict[str, int], card: Device) -> Judged:
    """The plans of one region: those of the families that hold it, or where none of them fits the card the plain one,
    which always does."""
    work = work_of(one, sizes)
    groups: list[list[Group]] = []
    for kernels in _worth(kernels_of(one, sizes), one):
        groups += [
            group for kernel in kernels for group in _all_of(Problem((one,), kernel, module.model), work, sizes, card)
        ]
        found = Judged(groups)
        if not math.isinf(found.least_us):
            return found
    plain = [
        judged_of(family, Problem((one,), kernel_of(one, family.kind), module.model), work, sizes, card)
        for family in FAMILIES
        if family.is_fallback
    ]
    return Judged([*groups, *plain])


def _all_of(
    problem: Problem, work: Work, sizes: dict[str, int], card: Device, names: tuple[str, ...] = ()
) -> list[list[Group]]:
    """Every plan that a family thinks of for a problem."""
    return [judged_of(family, problem, work, sizes, card, names) for family in families_for(problem.kernel)]


def _worth(kernels: tuple[Kernel, ...], one: region.Region) -> Iterator[tuple[Kernel, ...]]:
    """The kinds of kernel to propose plans of, each time those that are worth it where none of the plans before fits:
    the best, and beside a map that folds along what is side by side the rows of that. Windows compete with contractions
    alone: a map or a row that folds them reads each element for each of its windows."""
    row = kernel_of(one, "row") if kernels and isinstance(kernels[0], Map) and walks_apart(one) else None
    windows = windowed_of(one)
    best = (*kernels[:1], *((row,) if row is not None else ()))
    if windows is None or not windows.is_worth(is_alone=bool(kernels) and _is_whole(kernels[0])):
        yield best
    elif kernels and isinstance(kernels[0], Contraction):
        yield (*best, windows)
    else:
        yield (windows,)
        yield best


def _is_whole(kernel: Kernel) -> bool:
    """Whether it is one contraction, and not several side by side."""
    return isinstance(kernel, Contraction) and not kernel.batch


def _of_siblings(module: region.Module, group: Regions, sizes: dict[str, int], card: Device) -> Judged:
    """The plans of several contractions as one; templates make padded copies for one alone."""
    found, first = siblings_of(group), group[0]
    works = [work_of(one, sizes) for one in group]
    shared = sum(
        product(t.type.shape).evaluate(sizes) * t.type.dtype.bytes
        for t in first.inputs
        if all(t in one.inputs for one in group)
    )
    work = Work(sum(w.flops for w in works), sum(w.bytes for w in works) - (len(group) - 1) * shared)
    problem = Problem((first,), found.kernel, module.model)
    return Judged(_all_of(problem, work, sizes, card, tuple(one.name for one in group)))


def readers_of(module: region.Module) -> dict[str, str]:
    """For each region that hands a deferred buffer on, the region that reads it."""
    makers = {t.name: r.name for r in module.program.regions for t in r.outputs if _is_handed_on(t)}
    if not makers:
        return {}
    return {makers[t.name]: r.name for r in module.program.regions for t in r.inputs if t.name in makers}


def _is_handed_on(tensor: Any) -> bool:
    return bool(tensor.attrs) and tensor.attr("materialize") == "deferred"


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
) -> Judged:
    """The plans of two regions that share a kernel. Raises Refused (E1520) when none can compute both."""
    problem = problem_of_two(module, one, reader)
    works = [work_of(r, sizes) for r in (one, reader)]
    work = Work(sum(w.flops for w in works), sum(w.bytes for w in works))
    return Judged(_all_of(problem, work, sizes, card))


def card_of(arch: str, device: str | None, fp32: str = "", atomics: str = "", invariant: bool = False) -> Device:
    """The card to plan for, with what plans may make of fp32, of the order of atomics and of the size of a batch on it:
    the one named, else the architecture's own. Raises Refused (E1503) when they do not go together."""
    if arch not in ARCHS:
        raise refuse("E1503", arch, what=Phrase("arch"), given=arch, known=", ".join(ARCHS))
    card = replace(get_device(device or DEVICE_OF[arch]), fp32=fp32, atomics=atomics, is_invariant=invariant)
    if card.arch.name == arch:
        return card
    if not card.arch.has_tma:
        raise refuse(
            "E1503", card.name, what=Phrase("device for {arch}", arch=arch), given=card.name, known=DEVICE_OF[arch]
        )
    return replace(card, arch=ARCHS[arch])


def with_first(module: region.Module, shapes: str) -> region.Module:
    """The module with that shape set as the first, for which plans are ranked; as it is where none is named. Raises
    Refused (E1713)."""
    if not shapes:
        return module
    sets = module.model.shape_sets
    chosen = tuple(s for s in sets if s.name == shapes)
    if not chosen:
        raise refuse("E1713", shapes, given=shapes, known=", ".join(s.name for s in sets) or Phrase("none"))
    return replace(module, model=replace(module.model, shape_sets=(*chosen, *(s for s in sets if s.name != shapes))))
