"""Arrays by name: .npz, .npy and .safetensors files in, .npz out, and random arrays for a signature.

Nothing is ever unpickled. bf16 and fp8 arrays are those of ml_dtypes, imported only when one is met; a .npz keeps them
as raw bytes, which `play.arrays.adopt` sees as the dtype of the signature again.
"""

from __future__ import annotations

import io
import json
import math
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from ..ir.evaluate import FROM_ML_DTYPES, convert, sizes_of
from ..ir.model import Model, Tensor
from ..ir.types import DTYPES, DType
from ..kit.diag import Diag, Refused, refuse, refuse_all
from ..kit.files import size_of, write_whole
from ..kit.phrase import Phrase, why_of
from ..play.arrays import numpy_dtype

SAFETENSORS = {
    "F64": "fp64",
    "F32": "fp32",
    "F16": "fp16",
    "BF16": "bf16",
    "F8_E4M3": "fp8e4m3",
    "F8_E5M2": "fp8e5m2",
    "I64": "i64",
    "I32": "i32",
    "I16": "i16",
    "I8": "i8",
    "U64": "u64",
    "U32": "u32",
    "U16": "u16",
    "U8": "u8",
    "BOOL": "bool",
}
MAX_HEADER = 100 << 20  # bytes; the format's own bound
ARCHIVES = (".npz", ".safetensors")
MOST_UNPACKED, MOST_RATIO = 1 << 30, 100  # bytes, and times the archive's own: beyond both it is refused
# What reading a damaged file of arrays raises.
FAULTS = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    EOFError,
    MemoryError,
    OverflowError,
    RecursionError,
    RuntimeError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


def read_arrays(sources: Iterable[str]) -> dict[str, np.ndarray]:
    """The arrays of files, by name. A source is `FILE` or, for one .npy file, `NAME=FILE` (else the file's stem is the
    name). Raises Refused for all sources at once: E0008 unreadable, E1710 damaged, E1711 another kind of file, E1712 a
    name given twice."""
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
    refuse_all(faults)
    return arrays


def write_arrays(path: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a .npz file, all or nothing, the same bytes for the same arrays; of dtypes that NumPy has not as raw bytes,
    which `play.arrays.adopt` sees as they were. Raises Refused (E0009)."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            held = np.ascontiguousarray(array).reshape(array.shape)
            if array.dtype.name in FROM_ML_DTYPES:  # one of them is written as `<f1` otherwise, which nothing reads
                held = held.view(f"V{array.dtype.itemsize}")
            np.lib.format.write_array(member, held, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue())
    write_whole(Path(path), whole.getvalue())


def random_arrays(
    model: Model, sizes: Mapping[str, int], seed: int, positive: Collection[str] = ()
) -> dict[str, np.ndarray]:
    """An array for every input: standard normal floats, integers of -8..8 (unsigned: 0..16), coin-toss bools. Weights
    (role param, two axes or more) have the deviation of Glorot and Bengio (2010), so that what a network makes of its
    data neither grows nor fades from layer to layer; floats named in `positive` are 0.5..1.5. Each tensor's numbers
    depend on `seed` and its name alone."""
    found = {}
    for t in model.inputs:
        draw = np.random.default_rng([seed, zlib.crc32(t.name.encode())])
        shape = sizes_of(t.type.shape, sizes)
        if t.name in positive and t.type.dtype.is_float:
            found[t.name] = convert(draw.random(shape) + 0.5, t.type.dtype)
        else:
            found[t.name] = _random(t, shape, draw)
    return found


def sizes_for(model: Model, shape_set: str | None = None, sizes: Mapping[str, int] | None = None) -> dict[str, int]:
    """A size for every symbol: `sizes`, else those of the shape set (default: the first). Raises Refused: E1713 no such
    shape set, E1705 a symbol without a size, E1714 a size for what is not a symbol, E1706 outside the symbol's
    range."""
    given = dict(sizes or {})
    known = [s.name for s in model.shape_sets]
    if shape_set is not None and shape_set not in known:
        raise refuse("E1713", shape_set, given=shape_set, known=", ".join(known) or Phrase("none"))
    chosen = next((s for s in model.shape_sets if shape_set in (None, s.name)), None)
    total = (dict(chosen.sizes) if chosen else {}) | given
    symbols = model.symbols()
    faults = [
        Diag("E1714", name, {"symbol": name, "known": ", ".join(symbols) or Phrase("none")})
        for name in given
        if name not in symbols
    ]
    for symbol in symbols:
        bounds = model.range_of(symbol)
        if symbol not in total:
            faults.append(Diag("E1705", symbol, {"symbol": symbol}))
        elif not bounds.low <= total[symbol] <= bounds.high:
            facts = {
                "symbol": symbol,
                "size": total[symbol],
                "low": bounds.low,
                "high": bounds.high,
                "tensor": Phrase("the sizes asked for"),
            }
            faults.append(Diag("E1706", symbol, facts))
    refuse_all(faults)
    return {symbol: total[symbol] for symbol in symbols}


def _random(tensor: Tensor, shape: tuple[int, ...], draw: np.random.Generator) -> np.ndarray:
    dtype = tensor.type.dtype
    if dtype.kind == "b":
        return draw.integers(0, 2, shape).astype(bool)
    if dtype.is_integer:
        low = -8 if dtype.kind == "i" else 0
        return draw.integers(low, low + 17, shape).astype(numpy_dtype(dtype))
    numbers = draw.standard_normal(shape, dtype=np.float64 if dtype.bits == 64 else np.float32)
    return convert(numbers * _deviation(shape) if tensor.attr("role") == "param" else numbers, dtype)


def _deviation(shape: tuple[int, ...]) -> float:
    """Of weights: by the mean of how many elements they take and give, in either order; 1 where they have one axis."""
    if len(shape) < 2 or 0 in shape:
        return 1.0
    return math.sqrt(2 / ((shape[0] + shape[1]) * math.prod(shape[2:])))


def _split(source: str) -> tuple[str | None, Path]:
    name, sign, path = source.partition("=")
    return (name, Path(path)) if sign and not Path(source).exists() else (None, Path(source))


def _read(name: str | None, path: Path) -> dict[str, np.ndarray]:
    if path.suffix not in (*ARCHIVES, ".npy") or (name is not None and path.suffix != ".npy"):
        raise refuse("E1711", str(path), file=str(path), known=".npz, .npy, .safetensors")
    try:
        with path.open("rb") as file:
            if path.suffix == ".npy":
                return {name or path.stem: _read_npy(file)}
            archive = archive_of(file, path.suffix)
            return {key: archive.read(key) for key in archive.names}
    except OSError as fault:
        raise refuse("E0008", str(path), file=str(path), reason=why_of(fault)) from None
    except FAULTS as fault:
        raise refuse(
            "E1710", str(path), file=str(path), reason=str(fault).split("\n", 1)[0][:200] or type(fault).__name__
        ) from None


def _read_npy(file: BinaryIO) -> np.ndarray:
    _npy_shape(file, size_of(file))
    file.seek(0)
    return np.lib.format.read_array(file, allow_pickle=False)


def _npy_shape(file: Any, size: int) -> tuple[int, ...]:
    """The shape that the header of a .npy states. Raises ValueError where the `size` bytes are not what it says."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(
            Phrase(
                "it is of version {version}.{version2}, which is not known here",
                version=version[0],
                version2=version[1],
            )
        )
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(file)
    if dtype.hasobject:
        raise ValueError(Phrase("it holds pickled objects, which are never read"))
    stated = math.prod(shape) * dtype.itemsize
    if file.tell() + stated != size:
        raise ValueError(
            Phrase("its header states {stated} bytes, and there are {size}", stated=stated, size=size - file.tell())
        )
    return shape


class Archive(Protocol):
    """Arrays in one file: what they are is known before they are read."""

    names: tuple[str, ...]

    def shape_of(self, key: str) -> tuple[int, ...]:
        """The shape of one array. Raises one of FAULTS."""

    def read(self, key: str) -> np.ndarray:
        """One array. Raises one of FAULTS."""


def archive_of(file: BinaryIO, suffix: str) -> Archive:
    """The archive in an open file, .npz or .safetensors. Raises one of FAULTS."""
    return _Npz(file) if suffix == ".npz" else _SafeTensors(file)


class _Npz:
    """A zip file of .npy members."""

    def __init__(self, file: BinaryIO):
        self._zip = zipfile.ZipFile(file)
        self._members = {item.filename.removesuffix(".npy"): item for item in self._zip.infolist()}
        self.names = tuple(self._members)
        packed, unpacked = size_of(file), sum(item.file_size for item in self._zip.infolist())
        if unpacked > MOST_UNPACKED and unpacked > MOST_RATIO * packed:
            raise ValueError(Phrase("its {packed} bytes would unpack to {unpacked}", packed=packed, unpacked=unpacked))

    def shape_of(self, key: str) -> tuple[int, ...]:
        with self._zip.open(self._members[key]) as member:
            return _npy_shape(member, self._members[key].file_size)

    def read(self, key: str) -> np.ndarray:
        self.shape_of(key)
        with self._zip.open(self._members[key]) as member:
            return np.lib.format.read_array(member, allow_pickle=False)


class _SafeTensors:
    """The format: 8 bytes length (little endian), a JSON header of {name: {dtype, shape, data_offsets}}, then the raw
    bytes. Read here, since the safetensors package gives NumPy neither bf16 nor fp8, and opens paths alone."""

    def __init__(self, file: BinaryIO):
        self._file = file
        length, whole = int.from_bytes(file.read(8), "little"), size_of(file)
        if whole < 8 or length > min(whole - 8, MAX_HEADER):
            raise ValueError(Phrase("the header is cut off"))
        header = json.loads(file.read(length))
        if not isinstance(header, dict):
            raise ValueError(Phrase("the header is not a JSON object"))
        self._start, self._size = 8 + length, whole - 8 - length
        self._entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        self.names = tuple(self._entries)

    def shape_of(self, key: str) -> tuple[int, ...]:
        return self._entry(key)[1]

    def read(self, key: str) -> np.ndarray:
        dtype, shape, start, end = self._entry(key)
        self._file.seek(self._start + start)
        return np.frombuffer(self._file.read(end - start), dtype=numpy_dtype(dtype)).reshape(shape)

    def _entry(self, key: str) -> tuple[DType, tuple[int, ...], int, int]:
        entry = self._entries[key]
        if entry["dtype"] not in SAFETENSORS:
            raise ValueError(
                Phrase("{key} is of dtype {entry}, which no tensor here has", key=key, entry=entry["dtype"])
            )
        dtype: DType = DTYPES[SAFETENSORS[entry["dtype"]]]
        start, end = entry["data_offsets"]
        shape = tuple(entry["shape"])
        is_whole = all(type(n) is int and n >= 0 for n in (*shape, start, end))
        if not (is_whole and start <= end <= self._size and end - start == math.prod(shape) * dtype.bytes):
            raise ValueError(Phrase("the bytes of {key} do not match its shape {shape}", key=key, shape=list(shape)))
        return dtype, shape, start, end
