"""The cost of a plain kernel."""

from __future__ import annotations

from ...ir.body import Reduce, Scan, walk
from ...ir.plan import Plan
from ...ir.rules import product
from ...ir.traits import bodies_of
from ..family import Clocks, Conditions, Problem
from ..parts.waiting import LINE_LOSS, MAP_ISSUE


def plain_clocks(plan: Plan, problem: Problem, at: Conditions) -> Clocks:
    """One thread for each result, which walks along all that it folds, one load behind another; neighbouring threads
    share nothing that they read."""
    region, sizes, device = problem.region, at.sizes, at.device
    size_of = {a.name: a.size for a in region.iters}
    results = sum(product(t.type.shape).evaluate(sizes) for t in region.outputs)
    folds = [
        [a.size if a.size is not None else size_of[a.name] for a in n.axes]
        for body in bodies_of(region)
        for n in walk(body)
        if isinstance(n, Reduce)
    ]
    folds += [[size_of[n.axis]] for body in bodies_of(region) for n in walk(body) if isinstance(n, Scan)]
    walked = 1 + sum(product(tuple(extents)).evaluate(sizes) for extents in folds)
    waves = -(-results // (device.sms * plan.tile[0]))
    issue = waves * plan.tile[0] * walked * MAP_ISSUE / device.arch.warp / device.arch.schedulers
    return Clocks(
        {
            "compute": issue / device.clock_ghz / 1e3,
            "memory": at.work.bytes * LINE_LOSS / device.dram_bytes_per_us,
            "latency": waves * walked * device.dram_latency_ns / 1e3,
        }
    )
