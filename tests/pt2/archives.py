"""Archives of archives: the files of torch.export's programs, and what torch made of their inputs."""

from __future__ import annotations

import functools
import tarfile
from pathlib import Path


@functools.cache
def members_of(archives: Path) -> dict[str, bytes]:
    """The files in a tar file, by name."""
    with tarfile.open(archives) as tar:
        files = {member.name: tar.extractfile(member) for member in tar.getmembers()}
        return {name: file.read() for name, file in files.items() if file is not None}


__all__ = ["members_of"]
