"""The order of the languages: which filter reads what and writes what, and which module speaks a stage."""

from __future__ import annotations

import importlib
from types import ModuleType

FILTERS: tuple[tuple[str, str, str], ...] = (
    ("tiny-front", "json", "tiny"),
    ("tiny-index", "tiny", "index"),
    ("tiny-poly", "index", "poly"),
    ("tiny-region", "poly", "region"),
    ("tiny-plan", "region", "plan"),
    ("tiny-gpu", "plan", "gpu"),
    ("tiny-cu", "gpu", "cu"),
    ("tiny-run", "cu", ""),
)
STAGES: tuple[str, ...] = tuple(writes for _, _, writes in FILTERS if writes)


def language_of(stage: str) -> ModuleType:
    """The ir module of a stage, with its `parse`, `show` and `check`; imported when asked for."""
    return importlib.import_module(f".{'manifest' if stage == 'cu' else stage}", __package__)


def filters_between(given: str, wanted: str) -> list[str]:
    """The filters that lead from text of stage `given` to text of stage `wanted`; empty when there is no way
    forward."""
    if given not in STAGES or wanted not in STAGES or STAGES.index(given) >= STAGES.index(wanted):
        return []
    return [
        name
        for name, reads, writes in FILTERS
        if reads in STAGES
        and writes in STAGES
        and STAGES.index(given) <= STAGES.index(reads)
        and STAGES.index(writes) <= STAGES.index(wanted)
    ]
