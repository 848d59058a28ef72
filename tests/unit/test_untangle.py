"""Clusters that were joined although a path leads out of them and back in: they are taken apart, and the program gives
what it gave."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np

from tinyir.analysis.regions import analyse
from tinyir.ir import region
from tinyir.lower import lower_to
from tinyir.lower.region import graph as graphs
from tinyir.lower.region.cluster import joined
from tinyir.lower.region.fuse import Partition, partition
from tinyir.lower.region.program import assemble
from tinyir.lower.region.untangle import untangle
from tinyir.play import tiny as play_tiny
from tinyir.play.region import play

from .graphs import random_graph


def tangled(found: Partition) -> bool:
    """Joins two clusters with another on the way from one to the other, where there are such; whether it did."""
    for first, last in permutations(found.in_order(), 2):
        if first.is_memory or last.is_memory or not found.cycle(first, last):
            continue
        whole = joined(first, last, found.graph, found.order, is_sibling=True)
        if not isinstance(whole, str):
            found.replace(first, last, whole)
            return True
    return False


def test_a_circle_is_taken_apart() -> None:
    count = 0
    for seed in range(120):
        module, arrays = random_graph(seed)
        wanted = play_tiny.play(module, arrays)
        for stage in ("index", "poly"):
            module = lower_to(stage, module, "sm90")
        found = partition(graphs.build(module))
        if not tangled(found):
            continue
        count += 1
        untangle(found, {})
        program = assemble(found.graph, found, {})
        whole = region.Module(
            module.index.tiny.model,
            region.Program(program.name, program.buffers, tuple(map(analysed, program.regions))),
        )
        assert [(d.code, d.at) for d in region.check(whole) if d.is_error] == []
        for name, array in play(whole, arrays).items():
            np.testing.assert_allclose(array, wanted[name], rtol=1e-4, atol=1e-4)
    assert count > 8


def analysed(one: region.Region) -> region.Region:
    return replace(one, analysis=analyse(one))
