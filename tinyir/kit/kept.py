"""The user's cache: what can be made again, kept as long as it is whole.

A file appears whole or not at all, and its content is checked by its sha256 before it is used: one that a crash, a full
disk or another tool has damaged counts as absent and is made again.
"""

from __future__ import annotations

import os
import re
from hashlib import sha256
from pathlib import Path

_SEAL = re.compile(rb"\n# sha256 ([0-9a-f]{64})\n\Z")


def cache_dir() -> Path:
    """Where tinyir keeps what it can make again: `$XDG_CACHE_HOME/tinyir`, else `~/.cache/tinyir`."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "tinyir"


def write_atomically(path: Path, content: bytes) -> None:
    """Write a cache file so that no reader ever sees half of it. A folder that cannot be written is not an error: the
    cache is a favour."""
    import tempfile

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
        os.replace(name, path)
    except OSError:
        Path(name).unlink(missing_ok=True)


def sealed(content: bytes) -> bytes:
    """`content` with its sha256 in a comment on the last line."""
    return content + f"\n# sha256 {sha256(content).hexdigest()}\n".encode()


def unsealed(raw: bytes) -> bytes | None:
    """What was sealed; None where that is damaged."""
    seal = _SEAL.search(raw, max(0, len(raw) - 80))
    content = raw[: seal.start()] if seal else b""
    return content if seal and sha256(content).hexdigest().encode() == seal[1] else None


def write_sealed(path: Path, content: bytes) -> None:
    """Keep `content`, sealed. As `write_atomically` otherwise."""
    write_atomically(path, sealed(content))


def read_sealed(path: Path) -> bytes | None:
    """What `write_sealed` kept; None where there is nothing or it is damaged."""
    try:
        return unsealed(path.read_bytes())
    except OSError:
        return None
