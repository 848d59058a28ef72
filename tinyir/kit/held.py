"""What holds: a text that a filter has checked and printed need not be checked again by the next filter of a pipe, nor
a module by the next stage of one process.

A text is known by its sha256 together with the code that checked it, so that an edit of either is checked anew. The
marks are lines of one file of the user's cache; where it cannot be written or read, each filter checks for itself.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from .diag import Diag
from .kept import place_of, put

Check = Callable[[Any], list[Diag]]

_NAME = "held"
MOST_BYTES = 1 << 16  # of marks; beyond it the older half goes


def mark(text: str) -> None:
    """Remember that a text holds: its check found nothing to say, and it states what its program means."""
    try:
        path = place_of(_NAME)
        if path is None:
            return
        if path.exists() and path.stat().st_size > MOST_BYTES:
            found = path.read_bytes()[-MOST_BYTES // 2 :]
            put(_NAME, found[found.find(b"\n") + 1 :])
        with open(path, "ab", buffering=0) as marks:
            marks.write(f"{_key(text)}\n".encode())  # in one call: of writers at a time each adds its line
    except OSError:
        pass


def is_marked(text: str) -> bool:
    """Whether this text was marked, by this very code."""
    try:
        path = place_of(_NAME)
        marks = path.read_bytes() if path is not None else b""
    except OSError:
        return False
    return _key(text).encode() in marks.split(b"\n")


def once(check: Check) -> Check:
    """A check that is not asked again of the module that it has just been asked of: a stage's module is part of the
    next one's, and several checks rest on one. The object counts, not what is equal to it."""
    last: list[Any] = []

    @functools.wraps(check)
    def asked(module: Any) -> list[Diag]:
        if not last or last[0] is not module:
            last[:] = [module, check(module)]
        return list(last[1])

    return asked


def _key(text: str) -> str:
    return sha256(f"{code()}\n{text}".encode()).hexdigest()


@functools.cache
def code() -> str:
    """The code of this package, by the sizes and times of its files."""
    root = Path(__file__).resolve().parent.parent
    found = sha256()
    for folder in (root, root.parent / "grammars"):
        for path, size, time in sorted(_files(str(folder))):
            found.update(f"{path} {size} {time}\n".encode())
    return found.hexdigest()


def _files(folder: str) -> list[tuple[str, int, int]]:
    found = []
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return []
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            found += _files(entry.path) if entry.name != "__pycache__" else []
        elif entry.name.endswith((".py", ".lark", ".toml")):
            status = entry.stat()
            found.append((entry.path, status.st_size, status.st_mtime_ns))
    return found
