"""poly -> region: cuts the program into regions, one a kernel, and writes each in its normal form (seed 001 sections 6 and 7)."""

from __future__ import annotations

from dataclasses import replace

from ...analysis.regions import analyse
from ...ir import poly, region
from . import graph as graphs
from .fuse import Partition, partition
from .hoist_invariant import hoist_invariant
from .join_siblings import join_siblings
from .merge_reduces import merge_reduces
from .program import assemble
from .share_values import share_values
from .stream import stream_rows

PASSES = (  # rewrites of one region, in this order: what is shared is seen before it is hoisted
    share_values,
    hoist_invariant,
)


def lower(module: poly.Module) -> region.Module:
    """The program of regions, each with its analysis."""
    found, streams = cut(module)
    program = assemble(found.graph, found, streams)
    regions = []
    for one in program.regions:
        for rewrite in PASSES:
            one = rewrite(one)
        regions.append(replace(one, analysis=analyse(one)))
    return region.Module(module.index.tiny.model, replace(program, regions=tuple(regions)))


def cut(module: poly.Module) -> tuple[Partition, dict[int, int]]:
    """The clusters that become regions, with the verdict on each edge, and which cluster is streamed into which."""
    graph, _ = merge_reduces(graphs.build(module))
    found = partition(graph)
    streams = stream_rows(found)
    join_siblings(found)
    return found, streams


__all__ = ["PASSES", "cut", "lower"]
