"""What is said of the kernels that a program becomes: a remark for each rewrite."""

from __future__ import annotations

from ...ir import region
from ...ir.traits import sizes_of
from ...kernels import families_for, family_of
from ...kernels.alternatives.halve_maps import halve_maps
from ...kernels.alternatives.materialize_prologues import materialize_prologues
from ...kernels.alternatives.parts import with_parts
from ...kernels.alternatives.split_siblings import split_siblings
from ...kernels.alternatives.sum_in_steps import sum_in_steps
from ...kernels.alternatives.turn_constants import turn_constants
from ...kernels.candidate import Candidate, Regions
from ...kernels.parts.boxes import WGMMA_FACTORS, misfit
from ...kernels.problem import Contraction, kernels_of, why_none
from ...kernels.siblings import Siblings, siblings_of
from ...kit.diag import Diag
from ...kit.phrase import Listing, Phrase
from .choose import CROWDED, candidates, card_of, of_launch, problem_of_two, readers_of, with_first
from .kernels_for import (
    IN_STEPS,
    REWRITES,
    Rewrite,
    columns_bounded,
    columns_split,
    in_orders,
    kernels_for,
    launches,
    masks_widened,
    needed_only,
    pages_read,
    parts_by,
    products_together,
    sums_by,
    why_apart,
)
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
    for products that take in others, or what turns their columns; R3485 for two whose masks are numbers of 16 bits;
    R3486 for maps that do both halves of a row at once."""
    module = needed_only(with_first(module, shapes))
    planner = Planner(card_of(arch, device, fp32, atomics, invariant))
    whole, apart = kernels_for(module, planner)
    groups = [
        group for group in launches(whole, planner) if len(group) > 1 and isinstance(siblings_of(group), Siblings)
    ]
    said = [
        Diag("R3469", group[0].name, {"regions": ", ".join(r.name for r in group)}, group[0].span) for group in groups
    ]
    for code, rewrite in REWRITES.items():
        several = parts_by(rewrite, module, planner)
        said += [
            v
            for v in _several(code, rewrite, several)
            if not (
                rewrite is split_siblings
                and any(set(v.facts["parts"].split(", ")) <= {r.name for r in g} for g in groups)
            )
        ]
        module = with_parts(module, several)
    module, together = products_together(module, planner)
    for before, one in together:
        facts = {"region": one.name, "parts": Listing([n for n in one.parts if n != one.name], " and ")}
        said.append(Diag("R3484", one.name, facts, before.program.region(one.name).span))
    module, turned = in_orders(module, planner)
    for one in turned:
        facts = {
            "buffers": ", ".join(one.orders),
            "before_us": round(one.before, 2),
            "after_us": round(one.after, 2),
        }
        said.append(Diag("R3477", next(iter(one.orders)), facts))
    for code, rewrite in IN_STEPS.items():
        several = parts_by(rewrite, module, planner)
        said += _several(code, rewrite, several)
        module = with_parts(module, several)
    halved = parts_by(halve_maps, module, planner)
    said += [
        Diag("R3486", name, {"region": name}, one.span)
        for name, (one,) in halved.items()
        if one is not module.program.region(name)
    ]
    module = with_parts(module, halved)
    module, read = pages_read(module, planner)
    for name, copies in read.items():
        facts = {"region": name, "copies": ", ".join(copies)}
        said.append(Diag("R3481", name, facts, module.program.region(name).span))
    module, bounded = columns_bounded(module, planner)
    for name, (rows, columns, _) in bounded.items():
        facts = {"parts": f"{rows.name}, {columns.name}", "region": name, "rows": rows.lets[0].expr.axes[0].size}
        said.append(Diag("R3483", name, facts, module.program.region(name).span))
    module, widened = masks_widened(module, planner)
    for name, (*masks, _) in widened.items():
        facts = {"region": name, "parts": ", ".join(one.name for one in masks)}
        said.append(Diag("R3485", name, facts, module.program.region(name).span))
    module, split = columns_split(module, planner)
    for name, (first, second, last) in split.items():
        facts = {"regions": Listing((name, last.name), " and "), "parts": first.iters[0].size, "last": last.name}
        said.append(Diag("R3480", name, facts, second.span))
    module, constants = turn_constants(module, planner.us)
    for one in constants:
        facts = {
            "region": one.region.name,
            "parts": ", ".join(p.name for p in one.parts[:-1]),
            "before_us": round(one.before, 2),
            "after_us": round(one.after, 2),
        }
        said.append(Diag("R3478", one.region.name, facts, one.region.span))
    for one in apart:
        facts = {
            "region": one.region.name,
            "parts": ", ".join(p.name for p in one.parts),
            "fused_us": round(one.fused, 2),
            "apart_us": round(one.apart, 2),
        }
        said.append(Diag("R3470", one.region.name, facts, one.region.span))
    said += _without_unit(module, arch, device, fp32)
    said += _plain(whole, planner)
    said += _slower(whole, planner)
    module, _ = materialize_prologues(module, planner.us, planner.card.arch.has_tma, planner.least_us)
    return said + _several("R3473", sum_in_steps, sums_by(module, planner))


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


def _several(code: str, rewrite: Rewrite, parts: dict[str, Regions]) -> list[Diag]:
    """A remark for each region that a rewrite makes several of."""
    return [
        Diag(
            code,
            name,
            {"region": name, "parts": ", ".join(p.name for p in several), **_reason(rewrite, several)},
            several[0].span,
        )
        for name, several in parts.items()
        if len(several) > 1
    ]


def _reason(rewrite: Rewrite, parts: Regions) -> dict[str, str]:
    """Why contractions are not one launch."""
    if rewrite is not split_siblings:
        return {}
    found = siblings_of(parts)
    return {"reason": found if isinstance(found, str) else Phrase("a launch for each takes less")}


__all__ = ["verdicts", "why_not_shared"]
