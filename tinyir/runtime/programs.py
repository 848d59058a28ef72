"""Programs that were compiled before: what `tinyir.compile` made of a text is kept in the user's cache, in the form in
which a program is saved, so that the same model starts again without a stage and without a compiler.

A program is known by its text, the card that it is planned for, and the code that made it. Arrays that were given with
it, and the folder of its weights, are no part of it. The least recently used ones go.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ..kit.diag import Refused
from ..kit.held import code
from ..kit.kept import cache_dir
from ..kit.records import replace
from .cache import key_of
from .saved import Saved, read_program, write_program

MOST = 64  # programs that are kept: a few megabytes each


def name_of(parts: Iterable[str]) -> str:
    """The name of what this code makes of `parts`: a text, and what it is made for."""
    return key_of((code(), *parts))


def find(name: str) -> Saved | None:
    """The program of that name; None where none is kept, or where it is damaged."""
    path = _path(name)
    try:
        os.utime(path)
        return read_program(path)
    except (OSError, Refused):
        return None


def keep(name: str, program: Saved) -> None:
    """Keep a program. A folder that cannot be written is not an error: programs are made anew then."""
    path = _path(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_program(path, replace(program, folder=None, params={}))
        kept = sorted(path.parent.glob("*.tinyir"), key=lambda file: file.stat().st_mtime)
        for old in kept[: len(kept) - MOST]:
            old.unlink(missing_ok=True)
    except (OSError, Refused):
        pass


def _path(name: str) -> Path:
    return cache_dir() / "programs" / f"{name}.tinyir"


__all__ = ["MOST", "find", "keep", "name_of"]
