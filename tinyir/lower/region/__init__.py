"""poly -> region: cuts the program into regions, one a kernel, and writes each in its normal form (seed 001 sections 6 and 7)."""

from __future__ import annotations

from dataclasses import replace

from ...analysis.regions import analyse
from ...ir import poly, region
from ...kit.diag import Diag
from . import graph as graphs
from .fuse import Partition, partition
from .hoist_invariant import hoist_invariant
from .join_siblings import join_siblings
from .merge_reduces import merge_reduces
from .program import assemble
from .share_values import share_values
from .stream import stream_rows
from .verdicts import remarks_on

PASSES = (  # rewrites of one region, in this order: what is shared is seen before it is hoisted
    share_values,
    hoist_invariant,
)


def lower(module: poly.Module) -> region.Module:
    """The program of regions, each with its analysis."""
    found, streams, _ = cut(module)
    program = assemble(found.graph, found, streams)
    regions = []
    for one in program.regions:
        for rewrite in PASSES:
            one = rewrite(one)
        regions.append(replace(one, analysis=analyse(one)))
    return region.Module(module.index.tiny.model, replace(program, regions=tuple(regions)))


def verdicts(module: poly.Module) -> list[Diag]:
    """A remark on each edge of the program: fused or not, by which rule, with its witness (R3401, R3402), and on folds merged (R3403)."""
    found, _, merged = cut(module)
    return remarks_on(found, merged, module)


def cut(module: poly.Module) -> tuple[Partition, dict[int, int], tuple[tuple[str, str], ...]]:
    """The clusters that become regions, with the verdict on each edge; which cluster is streamed into which; which folds were merged."""
    graph, merged = merge_reduces(graphs.build(module))
    found = partition(graph)
    streams = stream_rows(found)
    join_siblings(found)
    return found, streams, merged


__all__ = ["PASSES", "cut", "lower", "verdicts"]
