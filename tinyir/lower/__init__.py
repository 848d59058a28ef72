"""What a filter does: one file a filter, from the language before it to its own."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any


def lowering_of(stage: str) -> ModuleType:
    """The module that makes text of `stage`, with its `lower`; imported when asked for."""
    return importlib.import_module(f".{stage}", __package__)


def lower_to(stage: str, module: Any, arch: str, card: str | None = None) -> Any:
    """The module of `stage` from the module of the stage before it, planned for `arch` (sm80 or sm90) and for `card`
    (default: the architecture's own). Raises Refused."""
    lowering = lowering_of(stage)
    return lowering.lower(module, arch=arch, device=card) if stage == "plan" else lowering.lower(module)
