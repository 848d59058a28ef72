"""Files that a model names are opened only where that can do no harm; files that we write appear whole or not at all.

A text or an ONNX file comes from anywhere, and what it says of its weights is not trusted: the file must be a regular
one inside the model's folder once links are resolved, and as large as what is to be read from it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from .diag import Refused, refuse
from .phrase import Phrase, why_of

# what a disk is short of while a file is written
NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}


class FileFault(Exception):
    """A file that a model names cannot be read; `args[0]` says why, in the words of a message."""


@contextlib.contextmanager
def opened_under(folder: Path, name: str) -> Iterator[BinaryIO]:
    """The regular file `name` (a relative path with slashes) inside `folder`, open for reading. Raises FileFault; a
    device or a pipe is never waited for."""
    place = PurePosixPath(name)
    if "\0" in name or not place.parts:
        raise FileFault(Phrase("that is not a name of a file"))
    if place.is_absolute() or ".." in place.parts:
        raise FileFault(Phrase("it is not under that folder"))
    try:
        root = folder.resolve()
        path = (root / place).resolve(strict=True)
        if not path.is_relative_to(root):
            raise FileFault(Phrase("a link leads out of that folder"))
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise FileFault(Phrase("it is not a regular file"))
    except (OSError, ValueError, RuntimeError) as fault:  # RuntimeError: a circle of links
        raise FileFault(why_of(fault)) from None
    with os.fdopen(descriptor, "rb") as file:
        yield file


def size_of(file: BinaryIO) -> int:
    """The bytes of an open file."""
    return os.fstat(file.fileno()).st_size


def read_range(folder: Path, name: str, offset: int, size: int) -> bytes:
    """`size` bytes from `offset` on of the file `name` inside `folder`. Raises FileFault before anything is read when
    there are not as many."""
    with opened_under(folder, name) as file:
        if offset < 0 or size < 0 or offset + size > size_of(file):
            raise FileFault(
                Phrase(
                    "it has {size_of} bytes, and {size} from byte {offset} on were to be read",
                    size_of=size_of(file),
                    size=size,
                    offset=offset,
                )
            )
        try:
            file.seek(offset)
            found = file.read(size)
        except OSError as fault:
            raise FileFault(why_of(fault)) from None
    if len(found) != size:
        raise FileFault(Phrase("it is too short"))
    return found


def write_atomically(path: Path, parts: Iterable[bytes], beside: Path | None = None) -> None:
    """Write the parts one after another as a file that no reader ever sees half of. Until it is whole it has another
    name, in the folder `beside` (default: that of `path`; of the same file system). Raises OSError."""
    unfinished = (beside or path.parent) / f".tinyir-{os.urandom(8).hex()}"
    try:
        with open(unfinished, "xb") as out:
            out.writelines(parts)
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


def write_whole(path: Path, *parts: bytes) -> None:
    """Write a file that the user asked for, all or nothing. Raises Refused (E0009)."""
    try:
        if path.exists() and not path.is_file():  # /dev/stdout, a fifo: there is nothing to replace
            path.write_bytes(b"".join(parts))
        else:
            write_atomically(path, parts)
    except (OSError, ValueError) as fault:
        raise unwritable(str(path), fault) from None


def make_folder(path: Path) -> None:
    """Make a folder that the user asked for, unless it exists. Raises Refused (E0009)."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as fault:
        raise unwritable(str(path), fault) from None


def unwritable(file: str | None, fault: OSError | ValueError) -> Refused:
    """E0009: a file cannot be written, and why; without a name it is one that nobody asked for."""
    file = file or Phrase("a temporary file")
    return refuse("E0009", at=file, file=file, reason=why_of(fault))
