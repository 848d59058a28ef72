"""Plans of a map: the output's elements in one line, some to each thread."""

from __future__ import annotations

from ...analysis.device import Device
from ...ir.kernels import Map
from ...ir.plan import Bind, Plan
from ...ir.region import Region
from ...ir.verify_plan import guarded_axes
from .candidate import Proposal, parts_of_axes

THREADS = (128, 256)
EACH = (1, 2, 4)


def propose_flat(kernel: Map, region: Region, card: Device) -> tuple[Proposal, ...]:
    """Each block size with one, two or four elements a thread, a block's width apart so that a warp's accesses stay together. A scalar
    takes one thread."""
    found = []
    for threads in THREADS if kernel.axes else (1,):
        for each in EACH if kernel.axes else (1,):
            tile = threads * each
            bind = (Bind(parts_of_axes(kernel.axes, "o"), "cta.x"), Bind(parts_of_axes(kernel.axes, "i"), "thread.x")) if kernel.axes else ()
            guarded = guarded_axes(kernel.axes, tile)
            found.append(Proposal(Plan((region.name,), card.arch.name, "map", "flat", (tile,), micro=(each,), threads=(threads,), bind=bind, predicate=guarded)))
    return tuple(found)
