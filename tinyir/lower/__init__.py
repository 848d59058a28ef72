"""What a filter does: one file a filter, from the language before it to its own."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ..ir import pipeline
from ..kit.diag import Diag


def lowering_of(stage: str) -> ModuleType:
    """The module that makes text of `stage`, with its `lower`; imported when asked for."""
    return importlib.import_module(f".{stage}", __package__)


def lower_to(stage: str, module: Any, arch: str, card: str | None = None) -> Any:
    """The module of `stage` from the module of the stage before it, planned for `arch` (sm80 or sm90) and for `card`
    (default: the architecture's own). Raises Refused."""
    lowering = lowering_of(stage)
    return lowering.lower(module, arch=arch, device=card) if stage == "plan" else lowering.lower(module)


@dataclass(frozen=True, slots=True)
class Language:
    """The verbs of a stage as the pipeline speaks them: where a text contains plans, `check` asks the families too."""

    parse: Callable[[str], Any]
    show: Callable[[Any], str]
    check: Callable[[Any], list[Diag]]
    STAGE: str
    Module: type


def language_of(stage: str) -> Language:
    """The language of a stage (`tiny` ... `cu`); imported when asked for."""
    spoken = pipeline.language_of(stage)
    if stage not in ("plan", "gpu"):
        return Language(spoken.parse, spoken.show, spoken.check, spoken.STAGE, spoken.Module)

    def check(module: Any) -> list[Diag]:
        from ..kernels.check import check as check_plans

        return [*spoken.check(module), *check_plans(module if stage == "plan" else module.plans)]

    return Language(spoken.parse, spoken.show, check, spoken.STAGE, spoken.Module)
