"""The plans of launches. Those that are the same but for names have the same plans but for names, and are judged once:
a network's layers.

plan layer1 : ... cache [X0 -> smem at k0.o, W1 -> smem at k0.o]   →   plan layer2 : ... cache [X1 -> smem at k0.o, W2
  -> smem at k0.o]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable

from ...analysis.work import bytes_of
from ...ir.moved import moved_form_of
from ...ir.once import Once
from ...ir.plan import Plan
from ...ir.plan.fields import renamed
from ...ir.region import Module, Region
from ...ir.traits import sizes_of
from ...kernels.alternatives.parts import Surroundings
from ...kernels.candidate import Regions
from ...kernels.siblings import names_of
from ...kit.records import dataclass
from ...kit.work import count
from ...target.device import Device
from .choose import chosen, of_launch, readers_of
from .judge import Judged


@dataclass(frozen=True, slots=True)
class _Known:
    """What every question about a module's launches asks first: who reads a deferred buffer, the constants, the
    symbols' values, and what is made once."""

    module: Module
    readers: dict[str, str]
    constants: frozenset[str]
    sizes: dict[str, int]
    once: Once

    @classmethod
    def of(cls, module: Module) -> _Known:
        constants = module.model.constants()
        return cls(module, readers_of(module), constants, sizes_of(module.model), Once(module))


class Planner:
    """The plans of launches on a card, and what they take; launches that are the same but for names are judged once."""

    def __init__(self, card: Device):
        self.card = card
        self._found: dict[Hashable, tuple[Regions, Judged]] = {}
        self._chosen: dict[Regions, tuple[Plan, ...]] = {}  # by the regions that were judged
        self._last: _Known | None = None
        self._whole: set[Hashable] = set()  # what a rewrite leaves as it is

    def us(self, module: Module, *group: Region) -> float:
        """Microseconds of the best plan of one region of the module, with the one that shares its kernel, or of
        siblings in one launch, at each run: none of what is made once. Infinite where no plan serves."""
        if all(map(self._known(module).once.holds, group)):
            return 0.0
        return self._judged(module, group)[1].least_us

    def least_us(self, module: Module, one: Region) -> float:
        """Microseconds below which no plan of a region is, of a contraction that reads all of its factors: those of the
        best plan where it was judged, else the quickest start, and memory's time for its bytes. No plan is made for
        it."""
        known = self._known(module)
        if known.once.holds(one):
            return 0.0
        judged = self._found.get(_likeness(_whole((one,), known), known))
        if judged is not None:
            return judged[1].least_us
        card = self.card
        start = min(card.start_us, *(of["start_us"] for of in (card.tensor, card.mma, card.gemv) if of))
        return start + bytes_of(one, known.sizes).evaluate(known.sizes) / card.dram_bytes_per_us

    def plans(self, module: Module, *group: Region) -> tuple[Plan, ...]:
        """The plans of a launch, in its own names. Raises Refused (E1520 two regions that share a kernel which no
        family computes)."""
        known = self._known(module)
        group = _whole(group, known)
        first, found = self._judged(module, group)
        if math.isinf(found.least_us):  # the reasons are told in the launch's own names
            return chosen(found if first == group else of_launch(module, group, known.sizes, self.card), group)
        if first not in self._chosen:
            count("launches planned")
            self._chosen[first] = chosen(found, first)
        return tuple(_in_names_of(one, first, group) for one in self._chosen[first])

    def _judged(self, module: Module, group: Regions) -> tuple[Regions, Judged]:
        """The regions that were judged, and their candidates."""
        known = self._known(module)
        group = _whole(group, known)
        key = _likeness(group, known)
        if key not in self._found:
            count("launches judged")
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
    """What launches have in common that are the same but for names, and for where they begin to read: who shares what,
    and what is a constant, is part of it."""
    form = moved_form_of(*group).form
    return form.shape, *(name in known.constants for name in form.tensors), *known.sizes.items()


def _whole(group: Regions, known: _Known) -> Regions:
    """The regions of a launch, with the one that reads what the first hands on."""
    reader = known.readers.get(group[0].name)
    return group if reader is None else (group[0], known.module.program.region(reader))


def _in_names_of(made: Plan, first: Regions, group: Regions) -> Plan:
    """The plan that was made for the regions `first`, for others that are the same but for the names of tensors and
    values. Axes and symbols have the same names. Two regions may compute values of one name."""
    if first == group:
        return made
    regions = {old.name: new.name for old, new in zip(first, group)}
    pairs = [(names_of(old), names_of(new)) for old, new in zip(first, group)]
    tensors = {a: b for old, new in pairs for a, b in zip(old[0], new[0])}
    values = [dict(zip(old[1], new[1])) for old, new in pairs]
    return renamed(made, tuple(regions[name] for name in made.regions), tensors, values[0], values[-1])
