"""A compiled program in one file: CUDA text, the module that it carries, cubins, and arrays that no file holds.

    tinyir program 2
    {"text": 31744, "nodes": 9121, "arch": "sm_90a", "cubins": [[["gemm"], 54936]], "folder": "../model", ...}
    the bytes of each, one behind the other
    # sha256 ...

Weights that are in files stay there: the program says in which folder, seen from its own. Nothing in it is code of the
host.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..ir import manifest
from ..ir.packed import LAYOUT, packed, unpacked
from ..kit.diag import Refused, refuse
from ..kit.files import write_atomically
from ..kit.groups import lists_of
from ..kit.kept import sealed, size_unsealed
from ..kit.phrase import Phrase, why_of
from ..kit.records import dataclass, field, replace
from ..play.arrays import adopt, check_arrays, numpy_dtype
from .abi import native

FORMAT = 2
_MAGIC = b"tinyir program "


@dataclass(frozen=True, slots=True)
class Saved:
    """A program: its CUDA text and what it carries; cubins by entry, made for `arch` (none: it is compiled where it is
    loaded); the folder of the files that the text points at, and arrays of inputs that are in none. `sets` are the
    sizes that it was planned for; `others` are the same model planned for others."""

    text: str
    module: manifest.Module
    arch: str = ""
    cubins: Mapping[str, bytes] = field(default_factory=dict)
    folder: Path | None = None
    params: Mapping[str, np.ndarray] = field(default_factory=dict)
    sets: tuple[Mapping[str, int], ...] = ()
    others: tuple[Saved, ...] = ()


def content_of(program: Saved, place: Path) -> bytes:
    """What is in a file of the folder `place`, without its seal. Raises Refused (E1702 to E1706)."""
    others = [content_of(replace(other, params={}, folder=None), place) for other in program.others]
    entries = lists_of((image, name) for name, image in program.cubins.items())
    module = replace(program.module, source="")
    nodes = json.dumps(packed(module), separators=(",", ":")).encode()
    text = program.text.encode()
    params = _admitted(program)
    folder = program.folder
    head = {
        "text": len(text),
        "source": len(program.module.source.encode()),
        "nodes": len(nodes),
        "layout": LAYOUT,
        "arch": program.arch,
        "cubins": [[names, len(image)] for image, names in entries.items()],
        "params": [[name, list(array.shape), array.nbytes] for name, array in params.items()],
        "folder": None if folder is None else _relative(folder, place),
        "sets": [dict(one) for one in program.sets],
        "others": [len(other) for other in others],
    }
    arrays = (array.reshape(-1).view(np.uint8).tobytes() for array in params.values())
    return b"".join((_MAGIC, f"{FORMAT}\n{json.dumps(head)}\n".encode(), text, nodes, *entries, *arrays, *others))


def write_program(path: Path, program: Saved) -> None:
    """Write a program, whole or not at all. Raises Refused (E1742 it cannot be written, E1702 to E1706 arrays that are
    none of its inputs)."""
    content = content_of(program, path.parent)
    try:
        write_atomically(path, [sealed(content)])
    except OSError as fault:
        raise refuse("E1742", str(path), file=str(path), reason=why_of(fault)) from None


def _admitted(program: Saved) -> dict[str, np.ndarray]:
    """The arrays as they are kept: contiguous, of the signature's dtypes, in this machine's byte order."""
    if program.module.region is None or not program.params:
        return {}
    model = program.module.region.model
    own = tuple(t for t in model.inputs if t.name in program.params)
    given = {name: native(array) for name, array in program.params.items()}
    check_arrays(replace(model, inputs=own, outputs=()), given)
    return {t.name: np.ascontiguousarray(adopt(given[t.name], t.type.dtype)).reshape(given[t.name].shape) for t in own}


def read_program(path: Path) -> Saved:
    """A program that was written. Raises Refused (E1743 one that cannot be read, or is damaged; E1744 one of another
    format)."""
    try:
        raw = path.read_bytes()
    except OSError as fault:
        raise _unreadable(path, why_of(fault)) from None
    _must_be_of_this_format(raw, path)
    size = size_unsealed(raw)
    if size is None:
        raise _unreadable(path, Phrase("it is damaged: its bytes are not those that were written"))
    return program_of(raw, path, size)


def program_of(content: bytes, path: Path, size: int | None = None) -> Saved:
    """The program that `content_of` gave, read from a file, of which these are the first `size` bytes (default: all).
    Its arrays are in those bytes. Raises Refused (E1743, E1744)."""
    _must_be_of_this_format(content, path)
    try:
        return _program_of(content, path.parent, len(content) if size is None else size)
    except (ValueError, KeyError, TypeError, IndexError):
        raise _unreadable(path, Phrase("what it says of itself does not fit together")) from None


def _must_be_of_this_format(raw: bytes, path: Path) -> None:
    if not raw.startswith(_MAGIC):
        raise _unreadable(path, Phrase("it does not begin as one"))
    given = raw[len(_MAGIC) : raw.find(b"\n")].decode("ascii", "replace")
    if given != str(FORMAT):
        raise refuse("E1744", str(path), file=str(path), given=given[:20], version=FORMAT)


def _program_of(content: bytes, place: Path, whole: int) -> Saved:
    start = content.index(b"\n") + 1
    end = content.index(b"\n", start)
    head: dict[str, Any] = json.loads(content[start:end])
    parts = _Parts(content, end + 1, whole)
    raw = bytes(parts.take(head["text"]))
    text, nodes = raw.decode(), bytes(parts.take(head["nodes"]))
    if head["layout"] == LAYOUT:
        source = raw[len(raw) - head["source"] :].decode()
        module = replace(unpacked(json.loads(nodes)), source=source)
    else:  # of a tinyir whose modules have other fields: the text says the same, and takes longer to read
        module = manifest.parse(text)
    cubins = {name: image for names, size in head["cubins"] for image in (bytes(parts.take(size)),) for name in names}
    types = {t.name: t.type for t in module.region.model.inputs} if module.region is not None else {}
    params = {}
    for name, shape, size in head["params"]:
        dtype = numpy_dtype(types[name].dtype)
        if size != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"{name}: {size} B")
        params[name] = np.frombuffer(parts.take(size), dtype).reshape(shape)
    folder = None if head["folder"] is None else place / head["folder"]
    others = tuple(_program_of(bytes(parts.take(size)), place, size) for size in head["others"])
    sets = tuple({str(symbol): int(size) for symbol, size in one.items()} for one in head["sets"])
    return Saved(text, module, str(head["arch"]), cubins, folder, params, sets, others)


class _Parts:
    """Bytes that are taken one piece after the other, where they are."""

    def __init__(self, content: bytes, at: int, end: int):
        self._content, self._at = memoryview(content)[:end], at

    def take(self, size: int) -> memoryview:
        """The next piece. Raises ValueError where there are not as many."""
        if not 0 <= size <= len(self._content) - self._at:
            raise ValueError("too short")
        self._at += size
        return self._content[self._at - size : self._at]


def _relative(folder: Path, place: Path) -> str:
    """The folder seen from a place; by its whole path on another drive."""
    try:
        return os.path.relpath(folder, place)
    except ValueError:
        return str(folder.resolve())


def _unreadable(path: Path, reason: str) -> Refused:
    return refuse("E1743", str(path), file=str(path), reason=reason)
