"""Launches that are the same but for names have the same plans but for names.

    plan layer1 : ... cache [X0 -> smem at k0.o, W1 -> smem at k0.o]   →   plan layer2 : ... cache [X1 -> smem at k0.o, W2 -> smem at k0.o]
"""

from __future__ import annotations

from dataclasses import replace

from ...ir.plan import Plan
from ...ir.siblings import names_of
from .candidate import Regions


def in_names_of(made: Plan, first: Regions, group: Regions) -> Plan:
    """The plan that was made for the regions `first`, for others that are the same but for the names of tensors and values. Axes and symbols have the same names."""
    if first == group:
        return made
    regions = {old.name: new.name for old, new in zip(first, group)}
    tensors, values = ({a: b for old, new in zip(first, group) for a, b in zip(names_of(old)[kind], names_of(new)[kind])} for kind in (0, 1))
    return replace(
        made,
        regions=tuple(regions[name] for name in made.regions),
        cluster=made.cluster and replace(made.cluster, multicast=tuple(tensors[name] for name in made.cluster.multicast)),
        epilogue=tuple(values[name] for name in made.epilogue),
        **{field: tuple(replace(item, tensor=tensors[item.tensor]) for item in getattr(made, field)) for field in ("cache", "load", "store", "layout")},
    )


__all__ = ["in_names_of"]
