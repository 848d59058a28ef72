"""How a text of any stage is played: tiny by its ops, index and poly by the book, every later one by the regions that
it carries; or in simulation, by the CUDA that it becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..ir.pipeline import STAGES
from ..kit.diag import refuse
from ..kit.phrase import Phrase

if TYPE_CHECKING:
    import numpy as np

    from ..ir.model import Model
    from ..play.tiny import Watch

# What is played of a module of each stage.
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "tiny": lambda m: m,
    "index": lambda m: m,
    "poly": lambda m: m.index,
    "region": lambda m: m,
    "plan": lambda m: m.program,
    "gpu": lambda m: m.plans.program,
    "cu": lambda m: m.region,
}


def model_of(stage: str, module: Any) -> Model:
    """The signature that a module of a stage carries."""
    program = PROGRAMS[stage](module)
    return program.tiny.model if stage in ("index", "poly") else program.model


def play(
    stage: str,
    module: Any,
    arrays: Mapping[str, Any],
    watch: Watch | None = None,
    sizes: Mapping[str, int] | None = None,
) -> dict[str, np.ndarray]:
    """The outputs by name; `watch` is told the values on the way, `sizes` are those of symbols that no array settles.
    Raises Refused (E17xx, E1403)."""
    if stage == "tiny":
        from ..play.tiny import play as player
    elif stage in ("index", "poly"):
        from ..play.book import play as player
    else:
        from ..play.region import play as player
    return player(PROGRAMS[stage](module), arrays, sizes, watch)


def simulate(
    stage: str, module: Any, arrays: Mapping[str, Any], arch: str, sizes: Mapping[str, int] | None = None
) -> dict[str, np.ndarray]:
    """The outputs by name, of the CUDA that the module becomes. Raises Refused (E17xx, E1480 a text before region, and
    what lowering refuses)."""
    from ..ir import manifest
    from ..lower import lower_to
    from ..runtime.run import run

    if STAGES.index(stage) < STAGES.index("region"):
        raise refuse("E1480", what=Phrase("simulation"), stage=stage)
    for later in STAGES[STAGES.index(stage) + 1 :]:
        module = lower_to(later, module, arch)
    return run(manifest.show(module), arrays, device="sim", symbols=sizes)[0]
