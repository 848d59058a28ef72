"""Programs that were compiled before: what `tinyir.compile` made of a text is kept in the user's cache, in the form in
which a program is saved, so that the same model starts again without a stage and without a compiler.

A program is known by its text, the card that it is planned for, and the code that made it. Arrays that were given with
it, and the folder of its weights, are no part of it. The least recently used ones go.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from ..kit.diag import Refused
from ..kit.held import code
from ..kit.kept import keep as keep_file
from ..kit.kept import kept, place_of
from ..kit.records import replace
from .cache import key_of
from .saved import Saved, content_of, program_of

MOST = 64  # programs that are kept: a few megabytes each


def name_of(parts: Iterable[str]) -> str:
    """The name of what this code makes of `parts`: a text, and what it is made for."""
    return key_of((code(), *parts))


def find(name: str) -> Saved | None:
    """The program of that name; None where none is kept, or where it is damaged."""
    content = kept(_file_of(name))
    if content is None:
        return None
    with contextlib.suppress(OSError):  # a cache that can only be read
        os.utime(place_of(_file_of(name)) or "")
    try:
        return program_of(content, Path())
    except Refused:
        return None


def keep(name: str, program: Saved) -> None:
    """Keep a program. A folder that cannot be written is not an error: programs are made anew then."""
    place = keep_file(_file_of(name), content_of(replace(program, folder=None, params={}), Path()))
    with contextlib.suppress(OSError):  # another process removes the same one
        programs = sorted(place.parent.glob("*.tinyir"), key=lambda file: file.stat().st_mtime) if place else []
        for old in programs[: len(programs) - MOST]:
            old.unlink(missing_ok=True)


def _file_of(name: str) -> str:
    return f"programs/{name}.tinyir"
