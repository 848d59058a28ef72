"""Which kernels a program becomes: regions that are several, prologues that are one, long sums that are two, siblings that share a launch."""

from __future__ import annotations

import math
from typing import Callable, Container, Hashable

from ...analysis.device import Device
from ...analysis.traffic import fills_card
from ...analysis.work import work_of
from ...ir import plan, region
from ...ir.kernels import extent_of, sizes_of
from ...ir.model import is_constant
from ...ir.siblings import likeness_of, names_of, siblings_in
from .alike import in_names_of
from .candidate import Candidate, Regions
from .choose import card_of, chosen, least_us, of_launch, ranked, readers_of
from .fold_in_steps import fold_in_steps
from .materialize_prologues import Materialized, materialize_prologues
from .part_region import part_region
from .parts import Names, Surroundings, with_parts
from .scan_in_steps import scan_in_steps
from .split_siblings import split_siblings
from .sum_in_steps import sum_in_steps

MOST_SIBLINGS = 8  # of one launch: each has parameters of its own
Rewrite = Callable[[region.Region, Surroundings], tuple[region.Region, ...]]
REWRITES: dict[str, Rewrite] = {  # of one region into several, each a kernel, in this order; by the remark that says so
    "R3467": split_siblings,
    "R3468": part_region,
    "R3471": fold_in_steps,
    "R3472": scan_in_steps,
}


def kernels_for(module: region.Module, times: Times) -> tuple[region.Module, tuple[Materialized, ...]]:
    """The module with a region for each kernel, and which prologues became kernels of their own."""
    module, apart = materialize_prologues(in_parts(module, times), times.of)
    return with_parts(module, sums_by(module, times)), apart


class Times:
    """What launches take on a card, and their plans; launches that are the same but for names are judged once."""

    def __init__(self, card: Device):
        self.card = card
        self._found: dict[Hashable, tuple[Regions, list[Candidate]]] = {}

    def of(self, module: region.Module, *group: region.Region) -> float:
        """Microseconds of the best plan of one region of the module, with the one that shares its kernel, or of siblings in one launch; infinite where no plan serves."""
        return least_us(self._judged(module, group)[1])

    def plans(self, module: region.Module, *group: region.Region) -> tuple[plan.Plan, ...]:
        """The plans of a launch, in its own names. Raises Refused (E1520 no family covers a region)."""
        first, found = self._judged(module, group)
        if first != group and math.isinf(least_us(found)):  # the reasons are told in the launch's own names
            first, found = group, of_launch(module, group, sizes_of(module.model), self.card)
        return tuple(in_names_of(one, first, group) for one in chosen(ranked(found, first), group[0]))

    def _judged(self, module: region.Module, group: Regions) -> tuple[Regions, list[Candidate]]:
        """The regions that were judged, and their candidates."""
        sizes = sizes_of(module.model)
        if group[0].name in readers_of(module):
            return group, of_launch(module, group, sizes, self.card)
        names = [name for one in group for name in names_of(one)[0]]
        constants = {t.name for t in module.model.inputs if is_constant(t)}
        key = (*map(likeness_of, group), *map(names.index, names), *(name in constants for name in names), *sizes.items())  # who shares what is part of it
        if key not in self._found:
            self._found[key] = group, of_launch(module, group, sizes, self.card)
        return self._found[key]


def in_parts(module: region.Module, times: Times | None = None) -> region.Module:
    """The module with each region that is several kernels as a region for each; without `times` for an H100."""
    times = times or Times(card_of("sm90", None))
    for rewrite in REWRITES.values():
        module = with_parts(module, parts_by(rewrite, module, times))
    return module


def launches(module: region.Module, times: Times) -> tuple[Regions, ...]:
    """The regions of each kernel: those that a deferred buffer joins, siblings of which one alone would leave much of the card idle, else one."""
    joined = readers_of(module)
    siblings = {one.name: group for group in _siblings(module, times) for one in group}
    found: dict[Regions, None] = {}
    for one in module.program.regions:
        if one.name in joined.values():
            continue  # planned with the region that hands it its rows
        reader = module.program.region(joined[one.name]) if one.name in joined else None
        found[siblings.get(one.name, (one,) if reader is None else (one, reader))] = None
    return tuple(found)


def _siblings(module: region.Module, times: Times) -> tuple[Regions, ...]:
    """Those that share a launch: it takes less than one launch for each."""
    sizes = sizes_of(module.model)

    def is_small(one: region.Region) -> bool:
        return not fills_card(extent_of(one.iters).evaluate(sizes))

    def pays(group: Regions) -> bool:
        return times.of(module, *group) <= sum(times.of(module, one) for one in group)

    groups = (group[at : at + MOST_SIBLINGS] for group in siblings_in(module.program.regions) if all(map(is_small, group)) for at in range(0, len(group), MOST_SIBLINGS))
    return tuple(group for group in groups if len(group) > 1 and pays(group))


def sums_by(module: region.Module, times: Times) -> dict[str, Regions]:
    """The regions that each region becomes when long sums are cut; siblings fill the card together."""
    return parts_by(sum_in_steps, module, times, {one.name for group in _siblings(module, times) for one in group})


def parts_by(rewrite: Rewrite, module: region.Module, times: Times, kept: Container[str] = ()) -> dict[str, Regions]:
    """The regions that each region becomes, by its name; what shares a kernel with another, or is among the `kept`, stays as it is."""
    names, joined, found = Names.of(module), readers_of(module), {}
    card, sizes = times.card, sizes_of(module.model)

    def least_of(one: region.Region, launches: int) -> float:
        return launches * card.start_us + work_of(one, sizes).bytes / card.dram_bytes_per_us

    surroundings = Surroundings(names, lambda one: times.of(module, one), sizes, least_of)
    for one in module.program.regions:
        is_kept = one.name in joined or one.name in joined.values() or one.name in kept
        found[one.name] = (one,) if is_kept else rewrite(one, surroundings)
        names.taken_by(found[one.name])
    return found


__all__ = ["REWRITES", "Times", "in_parts", "kernels_for", "launches", "parts_by", "sums_by"]
