"""Work on constants of the model alone: it is done when they are uploaded, not at each run.

region w.packed   yield w.packed[i0, i1, i2] = w[i0, i2, i1]        of w : fp16[64, 64, 9] {storage=const_pool}
"""

from __future__ import annotations

from ..kit.groups import sets_of
from .body import Random, Scatter
from .in_place import owner_of
from .region import Module, Region
from .traits import nodes_of


class Once:
    """Which regions of a module read constants of the model and nothing else, or nothing at all at sizes that are
    numbers, and write buffers that nothing else writes: no states. What all of its regions have in common is found
    once."""

    def __init__(self, module: Module):
        self._module, self._states = module, module.model.states().keys()
        self._constants = module.model.constants()
        self._others = {t.name for t in module.model.outputs}
        self._others |= {t.name for t in module.program.buffers if t.attr("materialize") == "deferred"}
        self._writers = sets_of(
            (tensor.name, region.name) for region in module.program.regions for tensor in region.outputs
        )

    def holds(self, region: Region) -> bool:
        """Whether the region, of the module or beside it, is one of them."""
        return (
            (bool(region.inputs) or all(a.size is not None and a.size.constant is not None for a in region.iters))
            and all(t.name in self._constants for t in region.inputs)
            and not any(
                t.name in self._others or self._writers.get(t.name, set()) - {region.name} for t in region.outputs
            )
            and not (self._states and {owner_of(self._module, t.name) for t in region.outputs} & self._states)
            and not any(isinstance(n, (Random, Scatter)) for n in nodes_of(region))
        )
