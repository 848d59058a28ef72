"""Work on constants of the model alone: it is done when they are uploaded, not at each run.

region w.packed   yield w.packed[i0, i1, i2] = w[i0, i2, i1]        of w : fp16[64, 64, 9] {storage=const_pool}
"""

from __future__ import annotations

from .body import Random, Scatter, walk
from .in_place import owner_of
from .model import is_constant
from .region import Module, Region
from .traits import bodies_of


def is_made_once(module: Module, region: Region) -> bool:
    """Whether a region reads constants of the model and nothing else, or nothing at all at sizes that are numbers, and
    writes buffers that nothing else writes. A state is written at each run, whatever with."""
    constants = {t.name for t in module.model.inputs if is_constant(t)}
    others = {t.name for t in module.model.outputs}
    others |= {t.name for t in module.program.buffers if t.attr("materialize") == "deferred"}
    own = {t.name for t in region.outputs}
    return (
        (bool(region.inputs) or all(a.size is not None and a.size.constant is not None for a in region.iters))
        and {t.name for t in region.inputs} <= constants
        and not own & others
        and not {owner_of(module, name) for name in own} & module.model.states().keys()
        and not any(own & {t.name for t in r.outputs} for r in module.program.regions if r.name != region.name)
        and not any(isinstance(n, (Random, Scatter)) for body in bodies_of(region) for n in walk(body))
    )


__all__ = ["is_made_once"]
