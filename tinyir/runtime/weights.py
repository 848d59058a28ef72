"""Weights that a text points at: arrays of the files that the signature names."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ..ir.model import Model, Tensor
from ..kit.diag import Diag, refuse_all
from ..kit.files import FileFault, opened_under, read_range
from ..kit.phrase import Phrase
from ..play.arrays import adopt, numpy_dtype
from .arrays import ARCHIVES, FAULTS, Archive, archive_of


def read_weights(model: Model, folder: Path, given: Iterable[str] = ()) -> dict[str, np.ndarray]:
    """The arrays of the inputs that are in files, by name, except those in `given`. Files are looked for under
    `folder`: by `key` in an archive (.npz, .safetensors; default: the tensor's name), else `bytes` raw little-endian
    bytes from `offset` on. What a file says of itself must fit the tensor's type before anything of its size is read.
    Raises Refused with every fault (E1741)."""
    found: dict[str, np.ndarray] = {}
    faults: list[Diag] = []
    missing: dict[tuple[str, str], list[str]] = {}  # the tensors that one fault of a file keeps away
    for tensor in model.inputs:
        if tensor.attr("file") is None or tensor.name in given:
            continue
        try:
            found[tensor.name] = _read(tensor, folder)
        except FileFault as fault:
            missing.setdefault((tensor.attr("file"), str(fault)), []).append(tensor.name)
    for (file, reason), names in missing.items():
        told = (
            names[0] if len(names) == 1 else Phrase("{names} (and {count} more)", names=names[0], count=len(names) - 1)
        )
        faults.append(Diag("E1741", names[0], {"tensor": told, "file": file, "folder": str(folder), "reason": reason}))
    refuse_all(faults)
    return found


def _read(tensor: Tensor, folder: Path) -> np.ndarray:
    """The array of one tensor. Raises FileFault."""
    name, dtype = tensor.attr("file"), tensor.type.dtype
    shape = tuple(d.constant for d in tensor.type.shape)
    if Path(name).suffix in ARCHIVES:
        with opened_under(folder, name) as file:
            try:
                return adopt(
                    _member(archive_of(file, Path(name).suffix), tensor.attr("key") or tensor.name, tensor), dtype
                )
            except (OSError, *FAULTS) as fault:
                raise FileFault(str(fault).split("\n", 1)[0][:200] or type(fault).__name__) from None
    size = tensor.attr("bytes")
    if None in shape or size != math.prod(shape) * dtype.bytes:
        raise FileFault(Phrase("{size} bytes are stated for {type}", size=size, type=tensor.type))
    raw = read_range(folder, name, tensor.attr("offset") or 0, size)
    if tensor.attr("sha256") is not None:
        from hashlib import sha256

        if sha256(raw).hexdigest() != tensor.attr("sha256"):
            raise FileFault(Phrase("its bytes are not those that the text was made with"))
    return np.frombuffer(raw, numpy_dtype(dtype)).reshape(shape)


def _member(archive: Archive, key: str, tensor: Tensor) -> np.ndarray:
    """The array `key`, read only when its shape is the tensor's. Raises ValueError and what the archive raises."""
    if key not in archive.names:
        raise ValueError(Phrase("there is no array {key} in it", key=key))
    shape = archive.shape_of(key)
    if len(shape) != tensor.type.rank or any(d.constant not in (None, n) for d, n in zip(tensor.type.shape, shape)):
        raise ValueError(
            Phrase("{key} is of shape {shape} in it, not {type}", key=key, shape=list(shape), type=tensor.type)
        )
    return archive.read(key)
