"""Weights that a text points at: arrays of the files that the signature names."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Iterable

import numpy as np

from ..ir.model import Model, Tensor
from ..kit.diag import Diag, Refused, refuse
from ..play.arrays import adopt, numpy_dtype
from .arrays import read_arrays

ARCHIVES = (".npz", ".safetensors")


def read_weights(model: Model, folder: Path, given: Iterable[str] = ()) -> dict[str, np.ndarray]:
    """The arrays of the inputs that lie in files, by name, except those in `given`. Files are looked for under `folder`: by `key` in an archive
    (.npz, .safetensors; default: the tensor's name), else `bytes` raw little-endian bytes from `offset` on. Raises Refused with every fault
    (E1741)."""
    found: dict[str, np.ndarray] = {}
    faults: list[Diag] = []
    missing: dict[tuple[str, str], list[str]] = {}  # the tensors that one fault of a file keeps away
    archives: dict[str, dict[str, np.ndarray]] = {}
    for tensor in model.inputs:
        if tensor.attr("file") is None or tensor.name in given:
            continue
        try:
            found[tensor.name] = _read(tensor, folder, archives)
        except OSError as fault:
            missing.setdefault((tensor.attr("file"), fault.strerror or str(fault)), []).append(tensor.name)
        except Refused as fault:
            faults += fault.diags
    for (file, reason), names in missing.items():
        told = names[0] if len(names) == 1 else f"{names[0]} (and {len(names) - 1} more)"
        faults.append(Diag("E1741", names[0], {"tensor": told, "file": file, "folder": str(folder), "reason": reason}))
    if faults:
        raise Refused(faults)
    return found


def _read(tensor: Tensor, folder: Path, archives: dict[str, dict[str, np.ndarray]]) -> np.ndarray:
    name = tensor.attr("file")
    place = PurePosixPath(name)

    def fault(reason: str) -> Refused:
        return refuse("E1741", tensor.name, tensor=tensor.name, file=name, folder=str(folder), reason=reason)

    if place.is_absolute() or ".." in place.parts:
        raise fault("it is not under that folder")
    path = folder / place
    dtype = tensor.type.dtype
    if path.suffix in ARCHIVES:
        if name not in archives:
            archives[name] = read_arrays([str(path)])
        key = tensor.attr("key") or tensor.name
        if key not in archives[name]:
            raise fault(f"there is no array {key} in it")
        return adopt(archives[name][key], dtype)
    shape = tuple(d.constant for d in tensor.type.shape)
    size = tensor.attr("bytes")
    if None in shape or size != int(np.prod(shape, dtype=np.int64)) * dtype.bytes:
        raise fault(f"{size} bytes are stated for {tensor.type}")
    with path.open("rb") as file:
        file.seek(tensor.attr("offset") or 0)
        raw = file.read(size)
    if len(raw) != size:
        raise fault("it is too short")
    if tensor.attr("sha256") is not None:
        from hashlib import sha256

        if sha256(raw).hexdigest() != tensor.attr("sha256"):
            raise fault("its bytes are not those that the text was made with")
    return np.frombuffer(raw, numpy_dtype(dtype)).reshape(shape)
