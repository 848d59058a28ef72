"""What is said of the kernels that a program becomes: a remark for each rewrite."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from ...ir import region
from ...ir.traits import sizes_of
from ...kernels import families_for, family_of
from ...kernels.candidate import Candidate, Regions
from ...kernels.parts.boxes import WGMMA_FACTORS, misfit
from ...kernels.problem import Contraction, kernels_of, why_none
from ...kernels.siblings import Siblings, siblings_of
from ...kit.diag import Diag
from ...kit.phrase import Listing, Phrase
from .choose import CROWDED, candidates, card_of, of_launch, problem_of_two, readers_of, with_first
from .kernels_for import Step, launches, steps, why_apart
from .planner import Planner


def verdicts(
    module: region.Module,
    arch: str = "sm90",
    device: str | None = None,
    fp32: str = "",
    atomics: str = "",
    invariant: bool = False,
    shapes: str = "",
) -> list[Diag]:
    """For each region that is several kernels a remark by the rewrite that made them, R3470 for a prologue that is one;
    R3469 for siblings that are one launch; R3474 for bytes that no tensor core of the card multiplies; R3475 for plain
    kernels; R3476 for two regions whose kernel is not of the fastest family; R3477 for buffers whose dims are in
    another order; R3478 for constants that are turned; R3480 for two whose columns are walked in chunks, R3481 for two
    that read pages in place, R3483 for two of which data say where the columns of a block of rows begin and end; R3484
    for products that take in others, or what turns their columns; R3485 for two whose scores meet what is written anew;
    R3486 for maps that do both halves of a row at once."""
    module = with_first(module, shapes)
    planner = Planner(card_of(arch, device, fp32, atomics, invariant))
    done = list(steps(module, planner, is_told=True))
    whole = done[-1].after
    groups = [
        group for group in launches(whole, planner) if len(group) > 1 and isinstance(siblings_of(group), Siblings)
    ]
    said = [
        Diag("R3469", group[0].name, {"regions": ", ".join(r.name for r in group)}, group[0].span) for group in groups
    ]
    *before, sums = ([Diag(step.code, *what) for what in TOLD.get(step.code, _several)(step)] for step in done)
    said += [
        d
        for d in chain.from_iterable(before)
        if d.code != "R3467" or not any(set(d.facts["parts"].split(", ")) <= {r.name for r in g} for g in groups)
    ]
    said += _without_unit(module, arch, device, fp32)
    return said + _plain(whole, planner) + _slower(whole, planner) + sums


# What a remark on a step says: the region, its facts and its span
Said = Iterator[tuple[Any, ...]]


def _several(step: Step) -> Said:
    """Each region that a rewrite makes several of; of siblings why they are not one launch."""
    for name, several in step.done.items():
        if len(several) > 1:
            facts = {"region": name, "parts": _named(several)}
            if step.code == "R3467":
                found = siblings_of(several)
                facts["reason"] = found if isinstance(found, str) else Phrase("a launch for each takes less")
            yield name, facts, several[0].span


def _together(step: Step) -> Said:
    """Products with those that they take in."""
    for before, one in step.done:
        facts = {"region": one.name, "parts": Listing([n for n in one.parts if n != one.name], " and ")}
        yield one.name, facts, before.program.region(one.name).span


def _turned(step: Step) -> Said:
    """Buffers in other orders."""
    for one in step.done:
        yield next(iter(one.orders)), {"buffers": ", ".join(one.orders), **_times(one)}


def _halved(step: Step) -> Said:
    """Maps that do both halves of a row at once."""
    for name, (one,) in step.done.items():
        if one is not step.before.program.region(name):
            yield name, {"region": name}, one.span


def _pages(step: Step) -> Said:
    """Copies of pages that are not made."""
    for name, copies in step.done.items():
        yield name, {"region": name, "copies": ", ".join(copies)}, step.after.program.region(name).span


def _bounded(step: Step) -> Said:
    """Kernels that find which columns a block of rows sees."""
    for name, (rows, columns, _) in step.done.items():
        facts = {"parts": _named((rows, columns)), "region": name, "rows": rows.lets[0].expr.axes[0].size}
        yield name, facts, step.after.program.region(name).span


def _widened(step: Step) -> Said:
    """Kernels that write anew what scores meet."""
    for name, (*masks, _) in step.done.items():
        yield name, {"region": name, "parts": _named(masks)}, step.after.program.region(name).span


def _split(step: Step) -> Said:
    """Columns that are walked in chunks."""
    for name, (first, second, last) in step.done.items():
        facts = {"regions": Listing((name, last.name), " and "), "parts": first.iters[0].size, "last": last.name}
        yield name, facts, second.span


def _constants(step: Step) -> Said:
    """Constants that are turned."""
    for one in step.done:
        facts = {"region": one.region.name, "parts": _named(one.parts[:-1]), **_times(one)}
        yield one.region.name, facts, one.region.span


def _apart(step: Step) -> Said:
    """Prologues that are kernels of their own."""
    for one in step.done:
        times = {"fused_us": round(one.fused, 2), "apart_us": round(one.apart, 2)}
        yield one.region.name, {"region": one.region.name, "parts": _named(one.parts), **times}, one.region.span


TOLD: dict[str, Callable[[Step], Said]] = {  # of steps that do other than make one region several
    "R3484": _together,
    "R3477": _turned,
    "R3486": _halved,
    "R3481": _pages,
    "R3483": _bounded,
    "R3485": _widened,
    "R3480": _split,
    "R3478": _constants,
    "R3470": _apart,
}


def _named(parts: Iterable[region.Region]) -> str:
    return ", ".join(p.name for p in parts)


def _times(one: Any) -> dict[str, float]:
    """What something takes as it was and as it is."""
    return {"before_us": round(one.before, 2), "after_us": round(one.after, 2)}


def why_not_shared(module: region.Module, group: Regions, planner: Planner) -> list[Diag]:
    """What forbids the launch of regions that must share a kernel: those of them that it lacks, since they are no
    siblings, or that only a plain kernel computes it; nothing where it is as demanded."""
    names = {r.name for r in group}
    demanded = {name for one in group for name in one.must_fuse}
    wanted = tuple(r for r in module.program.regions if r.name in demanded) if demanded else ()
    if not wanted:
        return []
    facts = {"values": ", ".join(r.name for r in wanted), "rule": planner.card.name}
    if not {r.name for r in wanted} <= names:
        if group[0] is not wanted[0]:
            return []  # told of the first of them
        return [Diag("E1424", group[0].name, {**facts, "shows": why_apart(wanted, module)}, group[0].span)]
    found = of_launch(module, group, sizes_of(module.model), planner.card)
    if all(c.rejected or family_of(c.plan).is_fallback for c in found):
        reason = "" if len(group) > 1 else why_none(group[0])
        shows = reason or Listing(dict.fromkeys(c.rejected for c in found if c.rejected))
        return [Diag("E1424" if reason else "E1423", group[0].name, {**facts, "shows": shows}, group[0].span)]
    return []


def _plain(module: region.Module, planner: Planner) -> list[Diag]:
    """A remark for each kernel that is a plain one, with what no other family holds, or why none of their plans is
    taken."""
    said = []
    for group in launches(module, planner):
        one = group[0]
        if family_of(planner.plans(module, *group)[0]).is_fallback:
            found = candidates(module, one, planner.card.arch.name, planner.card.name)
            reason = why_none(one) or Listing(dict.fromkeys(c.rejected for c in found if c.rejected))
            said.append(Diag("R3475", one.name, {"region": one.name, "what": reason}, one.span))
    return said


def _slower(module: region.Module, planner: Planner) -> list[Diag]:
    """A remark for each kernel of two regions that a family listed earlier does not compute, with the reason."""
    said, card, readers = [], planner.card, readers_of(module)
    for group in launches(module, planner):
        one = group[0]
        if one.name not in readers:
            continue
        taken = family_of(planner.plans(module, *group)[0])
        problem = problem_of_two(module, *group)
        families = families_for(problem.kernel)
        found = candidates(
            module, one, card.arch.name, card.name, group[1:], card.fp32, card.atomics, card.is_invariant
        )
        for family in families[: families.index(taken)]:
            facts = {
                "regions": Listing((r.name for r in group), " and "),
                "algo": taken.name,
                "faster": family.name,
                "what": family.why_none(problem, card)
                or _why_not(tuple(c for c in found if family_of(c.plan) is family)),
            }
            said.append(Diag("R3476", one.name, facts, one.span))
    return said


def _why_not(found: tuple[Candidate, ...]) -> str:
    """Why none of a family's plans is the cheapest of a launch: the stop rules that they break, or their time."""
    fitting = [c.cost.microseconds for c in found if c.rejected in ("", CROWDED)]
    if fitting:
        time = round(min(fitting), 2)
        return Phrase("{time} us by the cost model", time=time)
    return Listing(dict.fromkeys(c.rejected for c in found))


def _without_unit(module: region.Module, arch: str, device: str | None, fp32: str) -> list[Diag]:
    """A remark for each product of bytes on a card whose tensor cores take none."""
    said = []
    for one in () if card_of(arch, device, fp32).arch.has_tma else module.program.regions:
        kernel = next(iter(kernels_of(one, sizes_of(module.model))), None)
        if (
            isinstance(kernel, Contraction)
            and kernel.lhs.dtype.bytes == 1
            and not misfit(one, kernel, WGMMA_FACTORS[""])
        ):
            dtypes = Listing(dict.fromkeys(r.dtype.name for r in (kernel.lhs, kernel.rhs)), " and ")
            algo, _ = candidates(module, one, arch, device, fp32=fp32)[0].plan.headline
            said.append(
                Diag("R3474", one.name, {"region": one.name, "arch": arch, "dtypes": dtypes, "algo": algo}, one.span)
            )
    return said
