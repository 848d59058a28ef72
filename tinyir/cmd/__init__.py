"""One file an executable: its words, its options, and which rooms it joins. `bin/` and the installed scripts call
`main` here."""

from __future__ import annotations

import importlib
from types import ModuleType

COMMANDS = (
    "tiny-import",
    "tiny-front",
    "tiny-index",
    "tiny-poly",
    "tiny-region",
    "tiny-plan",
    "tiny-tune",
    "tiny-gpu",
    "tiny-cu",
    "tiny-run",
    "tinyc",
    "tiny-opt",
    "tiny-check",
    "tiny-play",
    "tiny-explain",
    "tiny-dot",
    "tiny-view",
    "tiny-lsp",
)


def command_of(name: str) -> ModuleType:
    """The module of a command, with its `parser` and its `main`; imported when asked for."""
    return importlib.import_module(f".{name.replace('-', '_')}", __package__)
