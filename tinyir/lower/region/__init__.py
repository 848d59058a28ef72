"""poly -> region: cuts the program into regions, one a kernel, and writes each in its normal form (seed 001 sections 6 and 7)."""

from __future__ import annotations

from dataclasses import replace

from ...analysis.regions import analyse
from ...ir import poly, region
from . import graph as graphs
from .fuse import partition
from .program import assemble


def lower(module: poly.Module) -> region.Module:
    """The program of regions."""
    graph = graphs.build(module)
    program = assemble(graph, partition(graph))
    analysed = tuple(replace(r, analysis=analyse(r)) for r in program.regions)
    return region.Module(module.index.tiny.model, replace(program, regions=analysed))


__all__ = ["lower"]
