"""The plans of launches. Those that are the same but for names have the same plans but for names, and are judged once:
a network's layers.

plan layer1 : ... cache [X0 -> smem at k0.o, W1 -> smem at k0.o]   →   plan layer2 : ... cache [X1 -> smem at k0.o, W2
  -> smem at k0.o]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable

from ...ir.model import is_constant
from ...ir.once import is_made_once
from ...ir.plan import Plan
from ...ir.region import Module, Region
from ...ir.traits import sizes_of
from ...kernels.alternatives.parts import Surroundings
from ...kernels.candidate import Regions
from ...kernels.siblings import likeness_of, names_of
from ...kit.records import dataclass, replace
from ...target.device import Device
from .choose import chosen, of_launch, readers_of
from .judge import Judged


@dataclass(frozen=True, slots=True)
class _Known:
    """What every question about a module's launches asks first: who reads a deferred buffer, the constants, the
    symbols' values."""

    module: Module
    readers: dict[str, str]
    constants: frozenset[str]
    sizes: dict[str, int]

    @classmethod
    def of(cls, module: Module) -> _Known:
        constants = frozenset(t.name for t in module.model.inputs if is_constant(t))
        return cls(module, readers_of(module), constants, sizes_of(module.model))


class Planner:
    """The plans of launches on a card, and what they take; launches that are the same but for names are judged once."""

    def __init__(self, card: Device):
        self.card = card
        self._found: dict[Hashable, tuple[Regions, Judged]] = {}
        self._last: _Known | None = None
        self._whole: set[Hashable] = set()  # what a rewrite leaves as it is

    def us(self, module: Module, *group: Region) -> float:
        """Microseconds of the best plan of one region of the module, with the one that shares its kernel, or of
        siblings in one launch, at each run: none of what is made once. Infinite where no plan serves."""
        if all(is_made_once(module, one) for one in group):
            return 0.0
        return self._judged(module, group)[1].least_us

    def plans(self, module: Module, *group: Region) -> tuple[Plan, ...]:
        """The plans of a launch, in its own names. Raises Refused (E1520 two regions that share a kernel which no
        family computes)."""
        known = self._known(module)
        group = _whole(group, known)
        first, found = self._judged(module, group)
        if first != group and math.isinf(found.least_us):  # the reasons are told in the launch's own names
            first, found = group, of_launch(module, group, known.sizes, self.card)
        return tuple(_in_names_of(one, first, group) for one in chosen(found, group))

    def _judged(self, module: Module, group: Regions) -> tuple[Regions, Judged]:
        """The regions that were judged, and their candidates."""
        known = self._known(module)
        group = _whole(group, known)
        key = _likeness(group, known)
        if key not in self._found:
            self._found[key] = group, of_launch(module, group, known.sizes, self.card)
        return self._found[key]

    def parts_of(
        self, module: Module, one: Region, rewrite: Callable[..., Regions], surroundings: Surroundings
    ) -> Regions:
        """What a rewrite that asks for times makes of a region. Of one that is like another, which it left as it was,
        it is not asked again."""
        key = rewrite, bool(one.must_fuse), _likeness((one,), self._known(module))
        if key in self._whole:
            return (one,)
        parts = rewrite(one, surroundings)
        if parts == (one,):
            self._whole.add(key)
        return parts

    def _known(self, module: Module) -> _Known:
        if self._last is None or self._last.module is not module:
            self._last = _Known.of(module)
        return self._last


def _likeness(group: Regions, known: _Known) -> Hashable:
    """What launches have in common that are the same but for names: who shares what, and what is a constant, is part of
    it."""
    names = [name for one in group for name in names_of(one)[0]]
    return (
        *map(likeness_of, group),
        *map(names.index, names),
        *(name in known.constants for name in names),
        *known.sizes.items(),
    )


def _whole(group: Regions, known: _Known) -> Regions:
    """The regions of a launch, with the one that reads what the first hands on."""
    reader = known.readers.get(group[0].name)
    return group if reader is None else (group[0], known.module.program.region(reader))


def _in_names_of(made: Plan, first: Regions, group: Regions) -> Plan:
    """The plan that was made for the regions `first`, for others that are the same but for the names of tensors and
    values. Axes and symbols have the same names."""
    if first == group:
        return made
    regions = {old.name: new.name for old, new in zip(first, group)}
    pairs = [(names_of(old), names_of(new)) for old, new in zip(first, group)]
    tensors = {a: b for old, new in pairs for a, b in zip(old[0], new[0])}
    values = [dict(zip(old[1], new[1])) for old, new in pairs]  # of each region; two may compute the same one
    return replace(
        made,
        regions=tuple(regions[name] for name in made.regions),
        cluster=made.cluster
        and replace(made.cluster, multicast=tuple(tensors[name] for name in made.cluster.multicast)),
        epilogue=tuple(values[0][name] for name in made.epilogue),
        edge=tuple(
            replace(
                item,
                source={**values[0], **tensors}[item.source],
                target={**tensors, **values[-1]}[item.target],
            )
            for item in made.edge
        ),
        **{
            field: tuple(replace(item, tensor=tensors[item.tensor]) for item in getattr(made, field))
            for field in ("cache", "load", "store", "layout")
        },
    )


__all__ = ["Planner"]
