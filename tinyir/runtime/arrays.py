"""Arrays by name: .npz, .npy and .safetensors files in, .npz out, and random arrays for a signature.

Nothing is ever unpickled. bf16 and fp8 arrays are those of ml_dtypes, imported only when one is met; a .npz keeps them as raw bytes,
which `play.arrays.adopt` sees as the dtype of the signature again.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any, Iterable, Mapping

import numpy as np

from ..ir.model import Model, Tensor
from ..ir.types import DTYPES, DType
from ..kit.cli import write_whole
from ..kit.diag import Diag, Refused, refuse
from ..play.arrays import convert, numpy_dtype, sizes_of

SAFETENSORS = {
    "F64": "fp64", "F32": "fp32", "F16": "fp16", "BF16": "bf16", "F8_E4M3": "fp8e4m3", "F8_E5M2": "fp8e5m2", "I64": "i64", "I32": "i32",
    "I16": "i16", "I8": "i8", "U64": "u64", "U32": "u32", "U16": "u16", "U8": "u8", "BOOL": "bool",
}  # fmt: skip
MAX_HEADER = 100 << 20  # bytes; the format's own bound


def read_arrays(sources: Iterable[str]) -> dict[str, np.ndarray]:
    """The arrays of files, by name. A source is `FILE` or, for one .npy file, `NAME=FILE` (else the file's stem is the name).
    Raises Refused for all sources at once: E1710 unreadable or damaged, E1711 another kind of file, E1712 a name given twice."""
    arrays: dict[str, np.ndarray] = {}
    faults: list[Diag] = []
    for source in sources:
        name, path = _split(source)
        try:
            found = _read(name, path)
        except Refused as fault:
            faults += fault.diags
            continue
        faults += [Diag("E1712", again, {"tensor": again, "file": str(path)}) for again in found if again in arrays]
        arrays |= found
    if faults:
        raise Refused(faults)
    return arrays


def write_arrays(path: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a .npz file, all or nothing, the same bytes for the same arrays. Raises Refused (E0009)."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.ascontiguousarray(array).reshape(array.shape), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue())
    write_whole(Path(path), whole.getvalue())


def random_arrays(model: Model, sizes: Mapping[str, int], seed: int) -> dict[str, np.ndarray]:
    """An array for every input: standard normal floats, integers of -8..8 (unsigned: 0..16), coin-toss bools. Each tensor's numbers depend
    on `seed` and its name alone."""
    return {t.name: _random(t, sizes_of(t.type.shape, sizes), np.random.default_rng([seed, zlib.crc32(t.name.encode())])) for t in model.inputs}


def sizes_for(model: Model, shape_set: str | None = None, sizes: Mapping[str, int] | None = None) -> dict[str, int]:
    """A size for every symbol: `sizes`, else those of the shape set (default: the first). Raises Refused: E1713 no such shape set, E1705 a
    symbol without a size, E1714 a size for what is no symbol, E1706 outside the symbol's range."""
    given = dict(sizes or {})
    known = [s.name for s in model.shape_sets]
    if shape_set is not None and shape_set not in known:
        raise refuse("E1713", shape_set, given=shape_set, known=", ".join(known) or "none")
    chosen = next((s for s in model.shape_sets if shape_set in (None, s.name)), None)
    total = (dict(chosen.sizes) if chosen else {}) | given
    symbols = model.symbols()
    faults = [Diag("E1714", name, {"symbol": name, "known": ", ".join(symbols) or "none"}) for name in given if name not in symbols]
    for symbol in symbols:
        bounds = model.range_of(symbol)
        if symbol not in total:
            faults.append(Diag("E1705", symbol, {"symbol": symbol}))
        elif not bounds.low <= total[symbol] <= bounds.high:
            facts = {"symbol": symbol, "size": total[symbol], "low": bounds.low, "high": bounds.high, "tensor": "the sizes asked for"}
            faults.append(Diag("E1706", symbol, facts))
    if faults:
        raise Refused(faults)
    return {symbol: total[symbol] for symbol in symbols}


def _random(tensor: Tensor, shape: tuple[int, ...], draw: np.random.Generator) -> np.ndarray:
    dtype = tensor.type.dtype
    if dtype.kind == "b":
        return draw.integers(0, 2, shape).astype(bool)
    if dtype.is_integer:
        low = -8 if dtype.kind == "i" else 0
        return draw.integers(low, low + 17, shape).astype(numpy_dtype(dtype))
    return convert(draw.standard_normal(shape, dtype=np.float64 if dtype.bits == 64 else np.float32), dtype)


def _split(source: str) -> tuple[str | None, Path]:
    name, sign, path = source.partition("=")
    return (name, Path(path)) if sign and not Path(source).exists() else (None, Path(source))


def _read(name: str | None, path: Path) -> dict[str, np.ndarray]:
    readers = {".npz": _read_npz, ".npy": _read_npy, ".safetensors": _read_safetensors}
    reader = readers.get(path.suffix)
    if reader is None or (name is not None and path.suffix != ".npy"):
        raise refuse("E1711", str(path), file=str(path), known=", ".join(readers))
    try:
        return reader(path, name)
    except OSError as fault:
        raise refuse("E1710", str(path), file=str(path), reason=fault.strerror or str(fault)) from None
    except (ValueError, KeyError, TypeError, EOFError, MemoryError, OverflowError, zipfile.BadZipFile, zlib.error, NotImplementedError) as fault:
        raise refuse("E1710", str(path), file=str(path), reason=str(fault).split("\n", 1)[0][:200] or type(fault).__name__) from None


def _read_npz(path: Path, _: str | None) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as archive:
        if not hasattr(archive, "files"):
            raise ValueError("it is one array, not an archive of arrays")
        return {name: archive[name] for name in archive.files}


def _read_npy(path: Path, name: str | None) -> dict[str, np.ndarray]:
    array = np.load(path, allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise ValueError("it is an archive, not one array")
    return {name or path.stem: array}


def _read_safetensors(path: Path, _: str | None) -> dict[str, np.ndarray]:
    """The format: 8 bytes length (little endian), a JSON header of {name: {dtype, shape, data_offsets}}, then the raw bytes."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    if len(raw) < 8 or length > min(len(raw) - 8, MAX_HEADER):
        raise ValueError("the header is cut off")
    header = json.loads(raw[8 : 8 + length])
    if not isinstance(header, dict):
        raise ValueError("the header is not a JSON object")
    body = memoryview(raw)[8 + length :]
    return {name: _tensor_of(name, entry, body) for name, entry in header.items() if name != "__metadata__"}


def _tensor_of(name: str, entry: Any, body: memoryview) -> np.ndarray:
    if entry["dtype"] not in SAFETENSORS:
        raise ValueError(f"{name} is of dtype {entry['dtype']}, which no tensor here has")
    dtype: DType = DTYPES[SAFETENSORS[entry["dtype"]]]
    start, end = entry["data_offsets"]
    shape = tuple(entry["shape"])
    count = 1
    for size in shape:
        count *= size
    if not (all(isinstance(n, int) and n >= 0 for n in (*shape, start, end)) and start <= end <= len(body) and end - start == count * dtype.bytes):
        raise ValueError(f"the bytes of {name} do not match its shape {list(shape)}")
    return np.frombuffer(body[start:end], dtype=numpy_dtype(dtype)).reshape(shape)
