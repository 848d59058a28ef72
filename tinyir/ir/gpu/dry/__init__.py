"""A dry run of a kernel: one cluster's threads go through it at sizes that its loops turn a few times for, and every
slot of shared memory is watched.

What is looked at, with a code each:

    E1621   a wait or a barrier that does not end, or may be missed
    E1622   a slot that is read before it is filled
    E1623   a slot that is written before all that use it are done
    E1624   a store of the copy engine that may still read shared memory when its CTA leaves
    E1625   a slot that an engine fills and nobody reads
    E1626   a product of registers that threads have touched with no fence since
    E1627   a sum that is forgotten before anybody reads it
    E1628   a slot that an engine reads before those who wrote it have told of it by a fence, and met

What threads write and read between barriers, and the groups of cp.async, are for `ir.gpu.order` and `ir.gpu.replay`.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from ....kit.diag import Diag
from ...model import Range, Shapes
from .. import nodes
from ..nodes import Kernel
from ..walk import statements
from .memory import Found
from .run import GROUPED, Run
from .sizes import sizes_to_run
from .steps import is_uneven, steps_of
from .threads import Unknown

WATCHED = (*GROUPED, nodes.Shared, nodes.Barrier)


def check_dry_runs(module: Any) -> Iterator[Diag]:
    """The first fault of each kernel that has something to order. A kernel that was once seen to have none is not run
    again."""
    model = module.plans.program.model
    ranges = tuple(map(model.range_of, model.symbols()))
    for kernel in module.kernels:
        if any(isinstance(s, WATCHED) for s in statements(kernel.body)):
            asked = kernel, ranges, model.shape_sets
            if not _is_faultless(*asked):
                yield from _faults(*asked)


@functools.lru_cache(maxsize=1024)
def _is_faultless(kernel: Kernel, ranges: tuple[Range, ...], sets: tuple[Shapes, ...]) -> bool:
    return next(_faults(kernel, ranges, sets), None) is None


def _faults(kernel: Kernel, ranges: tuple[Range, ...], sets: tuple[Shapes, ...]) -> Iterator[Diag]:
    steps = steps_of(kernel)
    for sizes, is_last in itertools.product(sizes_to_run(kernel, steps, ranges, sets), (False, True)):
        try:
            if not is_last:
                Run(kernel, steps, sizes).whole()
            elif is_uneven(steps):
                Run(kernel, steps, sizes, _last_cluster(kernel, sizes)).whole()
        except Found as found:
            yield found.diag
            return
        except (Unknown, ZeroDivisionError):  # a grid over an axis of no element
            pass


def _last_cluster(kernel: Kernel, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(
        max(0, ctas.evaluate(sizes) // size - 1) for ctas, size in zip(kernel.grid, (*kernel.cluster, 1, 1, 1))
    )
