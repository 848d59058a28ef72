"""A plan in other names: that of one launch said of another, which is the same but for names."""

from __future__ import annotations

from collections.abc import Mapping

from ...kit.records import replace
from .fields import Plan


def renamed(
    one: Plan,
    regions: tuple[str, ...],
    tensors: Mapping[str, str],
    values: Mapping[str, str],
    reached: Mapping[str, str] | None = None,
) -> Plan:
    """The plan for the regions `regions`, with other names of tensors and values where the tables have some. Axes and
    symbols keep theirs. An edge leads from a tensor to a value of the last region, whose names `reached` gives
    (default: `values`)."""
    reached = values if reached is None else reached
    return replace(
        one,
        regions=regions,
        cluster=one.cluster
        and replace(one.cluster, multicast=tuple(tensors.get(name, name) for name in one.cluster.multicast)),
        epilogue=tuple(values.get(name, name) for name in one.epilogue),
        edge=tuple(
            replace(e, source=tensors.get(e.source, e.source), target=reached.get(e.target, e.target)) for e in one.edge
        ),
        **{
            field: tuple(replace(item, tensor=tensors.get(item.tensor, item.tensor)) for item in getattr(one, field))
            for field in ("cache", "load", "store", "layout")
        },
    )
