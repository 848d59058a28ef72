"""poly -> region: cuts the program into regions, one a kernel, and writes each in its normal form (seed 001 sections 6
and 7)."""

from __future__ import annotations

import functools
from dataclasses import replace

from ...analysis.regions import analyse
from ...ir import poly, region
from ...kernels import can_hold
from ...kit.diag import Diag
from . import graph as graphs
from .distribute import distribute, rounding
from .fuse import Partition, partition
from .fuse_prologues import fuse_prologues
from .join_siblings import join_siblings
from .merge_equal import merge_equal
from .merge_reduces import merge_reduces
from .normalise import PASSES
from .program import assemble
from .stream import stream_rows
from .untangle import untangle
from .verdicts import remarks_on, rewrites_on

# rewrites of the whole program, before it is cut: one of two equal values may be all that a fold folds
GRAPH_PASSES = (
    merge_equal,
    merge_reduces,
)


def lower(module: poly.Module, is_distributed: bool = False) -> region.Module:
    """The program of regions, each with its analysis. `is_distributed` asks for factors out of sums of floats, which
    rounds elsewhere."""
    program = _settled(module, is_distributed)[1]
    regions = tuple(replace(one, analysis=analyse(one)) for one in program.regions)
    return region.Module(module.index.tiny.model, replace(program, regions=regions))


def _settled(module: poly.Module, is_distributed: bool) -> tuple[frozenset[str], region.Program]:
    """The values that are not streamed although they could be joined, since no kernel can share their regions, and the
    program in normal form."""
    apart: frozenset[str] = frozenset()
    while True:
        found, streams, _ = cut(module, apart)
        program = assemble(found.graph, found, streams)
        for rewrite in passes(is_distributed):
            program = replace(program, regions=tuple(map(rewrite, program.regions)))
        whole = not_streamed(program) - apart
        if not whole:
            return apart, program
        apart |= whole


def warnings(module: poly.Module, is_distributed: bool = False) -> list[Diag]:
    """A warning for each region of which a factor leaves a sum of floats, which was asked for and rounds otherwise
    (W2103)."""
    if not is_distributed:
        return []
    found, streams, _ = cut(module, _settled(module, is_distributed)[0])
    said = []
    for one in assemble(found.graph, found, streams).regions:
        for rewrite in PASSES[: PASSES.index(distribute)]:
            one = rewrite(one)
        said += rounding(distribute(one), distribute(one, is_asked=True))
    return said


def not_streamed(program: region.Program) -> frozenset[str]:
    """The deferred buffers whose two regions no kernel can share; their rows must be whole in memory."""
    makers = {t.name: r for r in program.regions for t in r.outputs if t.attr("materialize") == "deferred"}
    pairs = [(makers[t.name], r, t.name) for r in program.regions for t in r.inputs if t.name in makers]
    return frozenset(name for first, second, name in pairs if not can_hold((first, second)))


def passes(is_distributed: bool = False) -> tuple:
    """The rewrites of one region."""
    return tuple(functools.partial(p, is_asked=True) if p is distribute and is_distributed else p for p in PASSES)


def verdicts(module: poly.Module, is_distributed: bool = False) -> list[Diag]:
    """A remark on each edge of the program: fused or not, by which rule, with what shows it (R3401, R3402), on values
    and folds that became one (R3403, R3461), and on each rewrite of a region that did something (R3462 to R3466)."""
    found, streams, merged = cut(module, _settled(module, is_distributed)[0])
    said = remarks_on(found, merged, module)
    for one in assemble(found.graph, found, streams).regions:
        for rewrite, name in zip(passes(is_distributed), (p.__name__ for p in PASSES)):
            before, one = one, rewrite(one)
            said += rewrites_on(name, before, one)
    return said


def cut(
    module: poly.Module, apart: frozenset[str] = frozenset()
) -> tuple[Partition, dict[int, int], dict[str, tuple[tuple[str, str], ...]]]:
    """The clusters that become regions, with the verdict on each edge; which cluster is streamed into which; what each
    rewrite of the program merged, by its name. What is `apart` is not streamed."""
    graph = graphs.build(module)
    merged = {}
    for rewrite in GRAPH_PASSES:
        graph, merged[rewrite.__name__] = rewrite(graph)
    found = partition(graph)
    streams = stream_rows(found, apart)
    joined = {*streams, *streams.values()}
    join_siblings(found, joined)
    fuse_prologues(found, joined)
    untangle(found, streams)
    return found, streams, merged


__all__ = ["GRAPH_PASSES", "PASSES", "cut", "lower", "passes", "verdicts", "warnings"]
