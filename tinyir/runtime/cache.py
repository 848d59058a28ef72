"""Built files that are kept in the user's cache, named by the sha256 of all that went into them.

Writers may race and may be killed: what is kept is whole, and is what was built under its name (`kit.kept`). What is
damaged is made again, never loaded. Files that a program loads by their path serve, where they cannot be kept, as long
as the program runs.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path

from ..kit.files import NO_ROOM, unwritable
from ..kit.kept import keep, kept, place_of, put


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
    and nothing is kept. Raises Refused (E0009 no room to build it)."""
    index = f"{folder}/{key}{suffix}.sha256"  # says which content the key has: of racing writers either will do
    stated = kept(index)
    if stated is not None:
        found = _file_with(f"{folder}/{key}-{stated.decode()[:16]}{suffix}", stated.decode())
        if found is not None:
            return found
    content = _content_of(suffix, build)
    digest = sha256(content).hexdigest()
    place = put(f"{folder}/{key}-{digest[:16]}{suffix}", content)
    if place is not None:
        keep(index, digest.encode())
        return place
    with writing():
        place = _lasting() / f"{key}{suffix}"
        place.write_bytes(content)
        return place


def _file_with(name: str, digest: str) -> Path | None:
    """The file of the cache with that name, if its content has that sha256."""
    try:
        place = place_of(name)
        return place if place is not None and sha256(place.read_bytes()).hexdigest() == digest else None
    except OSError:
        return None


def _content_of(suffix: str, build: Callable[[Path], object]) -> bytes:
    """What `build` writes. Raises Refused (E0009), and what `build` raises."""
    with scratch() as room:
        try:
            build(room / f"built{suffix}")
            return (room / f"built{suffix}").read_bytes()
        except OSError as fault:
            if fault.errno in NO_ROOM:
                raise unwritable(fault.filename, fault) from None
            raise


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder for the files of one step. Raises Refused (E0009)."""
    with writing():
        room = tempfile.TemporaryDirectory(prefix="tinyir-", ignore_cleanup_errors=True)
    with room as folder:
        yield Path(folder)


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """Where a file that only we ask for cannot be written, Refused (E0009)."""
    try:
        yield
    except OSError as fault:
        raise unwritable(fault.filename, fault) from None


@functools.cache
def _lasting() -> Path:
    """A folder that is removed when the program ends. Raises OSError."""
    lasting = Path(tempfile.mkdtemp(prefix="tinyir-"))
    atexit.register(shutil.rmtree, lasting, ignore_errors=True)
    return lasting
