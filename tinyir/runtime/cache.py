"""Built files that are kept: cubins and shared objects, named by the sha256 of all that went into them.

Writers may race and may be killed: a file appears whole or not at all. A cache folder that cannot be written is replaced by a folder that
lasts as long as the program.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Callable, Iterable

from ..kit.text import cache_dir


def key_of(parts: Iterable[str | bytes]) -> str:
    """The name of what is built from `parts`, in order."""
    digest = sha256()
    for part in parts:
        raw = part.encode("utf-8") if isinstance(part, str) else part
        digest.update(len(raw).to_bytes(8, "little"))
        digest.update(raw)
    return digest.hexdigest()[:40]


def built(folder: str, key: str, suffix: str, build: Callable[[Path], None]) -> Path:
    """The file of `key`, by `build(path to write)` when it is not kept yet. What `build` raises passes through, and nothing is kept."""
    kept = _folder(folder) / f"{key}{suffix}"
    if kept.exists():
        return kept
    descriptor, name = tempfile.mkstemp(dir=kept.parent, prefix=".", suffix=suffix)
    os.close(descriptor)
    try:
        build(Path(name))
        os.replace(name, kept)
    finally:
        Path(name).unlink(missing_ok=True)
    return kept


@functools.cache
def _folder(name: str) -> Path:
    folder = cache_dir() / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    except OSError:
        pass
    lasting = Path(tempfile.mkdtemp(prefix="tinyir-"))
    atexit.register(shutil.rmtree, lasting, ignore_errors=True)
    return lasting
