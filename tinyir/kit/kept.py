"""The user's cache: what can be made again, kept under a name as long as it is whole.

A file appears whole or not at all, and its content is checked before it is used, with its name, by a sha256: one that a
crash, a full disk or another tool has damaged, or that has changed places with another, counts as absent and is made
again. A cache that cannot be written or read is not used, nor is one that is another user's or that anybody may write
to: what is kept is also code.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from hashlib import sha256
from pathlib import Path

from .files import write_atomically

_SEAL = re.compile(rb"\n# sha256 ([0-9a-f]{64})\n\Z")
FORMAT = "2"  # what a seal covers
_UNFINISHED = "unfinished"  # where files are written before they get their names
_ABANDONED_SECONDS = 3600  # after which nobody finishes them


def cache_dir() -> Path | None:
    """Where tinyir keeps what it can make again: in `$XDG_CACHE_HOME/tinyir`, else in `~/.cache/tinyir`, a folder for
    each form of the files, so that versions leave each other's alone. None where neither is an absolute path, as for a
    user without a home."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "tinyir" / FORMAT if os.path.isabs(base) else None


def place_of(name: str) -> Path | None:
    """The file of a name, whose folder exists then; None where no cache is used. Raises OSError."""
    root = cache_dir()
    if root is None:
        return None
    root.parent.parent.mkdir(parents=True, exist_ok=True)
    for folder in (root.parent, root):
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.stat()
        if found.st_mode & stat.S_IWOTH or found.st_uid != os.geteuid():
            return None
    place = root / name
    place.parent.mkdir(exist_ok=True)
    return place


def put(name: str, content: bytes) -> Path | None:
    """Write a file of the cache, whole or not at all; None where that cannot be done, which is not an error: the cache
    is a favour."""
    try:
        place, unfinished = place_of(name), place_of(f"{_UNFINISHED}/file")
        if place is None or unfinished is None:
            return None
        _sweep(unfinished.parent)
        write_atomically(place, [content], unfinished.parent)
        return place
    except OSError:
        return None


def keep(name: str, content: bytes) -> Path | None:
    """Keep `content` under a name, a path with slashes inside the cache, and give its file; None as `put`."""
    return put(name, sealed(content, name))


def kept(name: str) -> bytes | None:
    """What `keep` kept under a name; None where there is nothing, or it is damaged."""
    try:
        place = place_of(name)
        return None if place is None else unsealed(place.read_bytes(), name)
    except OSError:
        return None


def sealed(content: bytes, name: str = "") -> bytes:
    """`content` with the sha256 of its name and itself in a comment on the last line."""
    return content + f"\n# sha256 {_digest(content, name)}\n".encode()


def unsealed(raw: bytes, name: str = "") -> bytes | None:
    """What was sealed under that name; None where that is damaged."""
    size = size_unsealed(raw, name)
    return None if size is None else raw[:size]


def size_unsealed(raw: bytes, name: str = "") -> int | None:
    """How many bytes were sealed under that name, of which there need be no copy; None where they are damaged."""
    seal = _SEAL.search(raw, max(0, len(raw) - 80))
    is_whole = seal is not None and _digest(memoryview(raw)[: seal.start()], name).encode() == seal[1]
    return seal.start() if is_whole else None


def _digest(content: bytes | memoryview, name: str) -> str:
    found = sha256(f"{name}\0".encode() if name else b"")
    found.update(content)
    return found.hexdigest()


def _sweep(folder: Path) -> None:
    """Remove what writers left that were killed long ago."""
    oldest = time.time() - _ABANDONED_SECONDS
    for entry in os.scandir(folder):
        with contextlib.suppress(OSError):  # another process sweeps too
            if entry.stat().st_mtime < oldest:
                os.unlink(entry.path)
