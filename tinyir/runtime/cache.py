"""Built files that are kept: cubins and shared objects, named by the sha256 of all that went into them.

Writers may race and may be killed: a file appears whole or not at all. A file's name also holds the sha256 of its
content, which is checked before it is used: what is damaged is made again, never loaded. A cache folder that cannot be
written is replaced by a folder that lasts as long as the program.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path

from ..kit.kept import cache_dir, read_sealed, write_sealed


def key_of(parts: Iterable[str | bytes]) -> str:
    """The name of what is built from `parts`, in order."""
    digest = sha256()
    for part in parts:
        raw = part.encode("utf-8") if isinstance(part, str) else part
        digest.update(len(raw).to_bytes(8, "little"))
        digest.update(raw)
    return digest.hexdigest()[:40]


def built(folder: str, key: str, suffix: str, build: Callable[[Path], object]) -> Path:
    """The file of `key`, by `build(path to write)` when it is not kept yet, whole. What `build` raises passes through,
    and nothing is kept."""
    place = _folder(folder)
    index = place / f"{key}{suffix}.sha256"  # says which content the key has: of racing writers either will do
    stated = read_sealed(index)
    if stated is not None:
        kept = place / f"{key}-{stated.decode()[:16]}{suffix}"
        if _hash_of(kept) == stated.decode():
            return kept
    descriptor, name = tempfile.mkstemp(dir=place, prefix=".", suffix=suffix)
    os.close(descriptor)
    try:
        build(Path(name))
        found = _hash_of(Path(name)) or ""
        kept = place / f"{key}-{found[:16]}{suffix}"
        os.replace(name, kept)
    finally:
        Path(name).unlink(missing_ok=True)
    write_sealed(index, found.encode())
    return kept


def _hash_of(path: Path) -> str | None:
    """The sha256 of a file's content; None when it cannot be read."""
    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


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
