"""Archives of archives: the files of torch.export's programs, and what torch made of their inputs."""

from __future__ import annotations

import functools
import io
import json
import math
import tarfile
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

FLOAT = 7  # the schema's number of fp32


@functools.cache
def members_of(archives: Path) -> dict[str, bytes]:
    """The files in a tar file, by name."""
    with tarfile.open(archives) as tar:
        files = {member.name: tar.extractfile(member) for member in tar.getmembers()}
        return {name: file.read() for name, file in files.items() if file is not None}


def parameter(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """The numbers of a parameter in place of trained ones: they depend on its name alone, and on no library's
    generator. Matrices are scaled by their rows; scales of norms are near 1."""
    mixed = np.arange(math.prod(shape), dtype=np.uint32) * np.uint32(2654435761) + np.uint32(zlib.crc32(name.encode()))
    for shift, factor in ((15, 0x2C1B3C6D), (12, 0x297A2D39), (15, 1)):
        mixed = (mixed ^ (mixed >> np.uint32(shift))) * np.uint32(factor)
    even = mixed.astype(np.float64) / 2**31 - 1
    if len(shape) > 1:
        even *= (3 / math.prod(shape[1:])) ** 0.5
    else:
        even = even * 0.2 + name.endswith("weight")
    return even.reshape(shape).astype(np.float32)


def emptied(raw: bytes) -> bytes:
    """An archive with zeros in the place of its parameters, which takes next to no room."""
    return _changed(raw, lambda _, shape: np.zeros(shape, np.float32))


def filled(raw: bytes) -> bytes:
    """The archive with the numbers of `parameter`."""
    return _changed(raw, parameter)


def _changed(raw: bytes, numbers: Callable[[str, tuple[int, ...]], np.ndarray]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(raw)) as given, zipfile.ZipFile(made, "w") as out:
        config = next(n for n in given.namelist() if n.endswith("data/weights/model_weights_config.json"))
        names: dict[str, list[str]] = defaultdict(list)  # of a member: tied parameters share one
        shapes: dict[str, tuple[int, ...]] = {}
        for name, entry in json.loads(given.read(config))["config"].items():
            if entry["is_param"] and entry["tensor_meta"]["dtype"] == FLOAT:
                member = f"{config.rpartition('/')[0]}/{entry['path_name']}"
                names[member].append(name)
                shapes[member] = tuple(size["as_int"] for size in entry["tensor_meta"]["sizes"])
        for info in given.infolist():
            body = given.read(info)
            if info.filename in names:
                body = numbers(min(names[info.filename]), shapes[info.filename]).tobytes()
            out.writestr(zipfile.ZipInfo(info.filename), body)
    return made.getvalue()
