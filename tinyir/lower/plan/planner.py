"""The plans of launches. Those that are the same but for names have the same plans but for names, and are judged once:
a network's layers.

plan layer1 : ... cache [X0 -> smem at k0.o, W1 -> smem at k0.o]   →   plan layer2 : ... cache [X1 -> smem at k0.o, W2
  -> smem at k0.o]
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import replace

from ...ir.model import is_constant
from ...ir.once import is_made_once
from ...ir.plan import Plan
from ...ir.region import Module, Region
from ...ir.traits import sizes_of
from ...kernels.candidate import Candidate, Regions
from ...kernels.siblings import likeness_of, names_of
from ...target.device import Device
from .choose import chosen, least_us, of_launch, ranked, readers_of


class Planner:
    """The plans of launches on a card, and what they take; launches that are the same but for names are judged once."""

    def __init__(self, card: Device):
        self.card = card
        self._found: dict[Hashable, tuple[Regions, list[Candidate]]] = {}

    def us(self, module: Module, *group: Region) -> float:
        """Microseconds of the best plan of one region of the module, with the one that shares its kernel, or of
        siblings in one launch, at each run: none of what is made once. Infinite where no plan serves."""
        if all(is_made_once(module, one) for one in group):
            return 0.0
        return least_us(self._judged(module, group)[1])

    def plans(self, module: Module, *group: Region) -> tuple[Plan, ...]:
        """The plans of a launch, in its own names. Raises Refused (E1520 two regions that share a kernel which no
        family computes)."""
        first, found = self._judged(module, group)
        if first != group and math.isinf(least_us(found)):  # the reasons are told in the launch's own names
            first, found = group, of_launch(module, group, sizes_of(module.model), self.card)
        return tuple(_in_names_of(one, first, group) for one in chosen(ranked(found, first), group[0]))

    def _judged(self, module: Module, group: Regions) -> tuple[Regions, list[Candidate]]:
        """The regions that were judged, and their candidates."""
        sizes = sizes_of(module.model)
        if group[0].name in readers_of(module):
            return group, of_launch(module, group, sizes, self.card)
        names = [name for one in group for name in names_of(one)[0]]
        constants = {t.name for t in module.model.inputs if is_constant(t)}
        key = (
            *map(likeness_of, group),
            *map(names.index, names),
            *(name in constants for name in names),
            *sizes.items(),
        )  # who shares what is part of it
        if key not in self._found:
            self._found[key] = group, of_launch(module, group, sizes, self.card)
        return self._found[key]


def _in_names_of(made: Plan, first: Regions, group: Regions) -> Plan:
    """The plan that was made for the regions `first`, for others that are the same but for the names of tensors and
    values. Axes and symbols have the same names."""
    if first == group:
        return made
    regions = {old.name: new.name for old, new in zip(first, group)}
    tensors, values = (
        {a: b for old, new in zip(first, group) for a, b in zip(names_of(old)[kind], names_of(new)[kind])}
        for kind in (0, 1)
    )
    return replace(
        made,
        regions=tuple(regions[name] for name in made.regions),
        cluster=made.cluster
        and replace(made.cluster, multicast=tuple(tensors[name] for name in made.cluster.multicast)),
        epilogue=tuple(values[name] for name in made.epilogue),
        **{
            field: tuple(replace(item, tensor=tensors[item.tensor]) for item in getattr(made, field))
            for field in ("cache", "load", "store", "layout")
        },
    )


__all__ = ["Planner"]
