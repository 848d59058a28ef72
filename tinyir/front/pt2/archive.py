"""The zip that torch.export.save writes: its model, and where the elements of its tensors are."""

from __future__ import annotations

import io
import json
import math
import zipfile
from typing import Any

import numpy as np

from ...ir.types import DTYPES, DType
from ...kit.diag import refuse
from ...kit.phrase import Phrase
from ...kit.records import dataclass
from ..program.terms import MAX_KNOWN, array_dtype

MODEL = "models/model.json"
SCHEMA = 8  # the major version of the schema that is read
MOST_JSON = 1 << 29  # bytes of a JSON member
LOCAL_HEADER = 30  # bytes of a member's header before its name
SMALL_FLOATS, SMALL_INTEGERS = 4, 1024  # elements of a weight that is written into the text itself
CONFIGS = ("data/weights/model_weights_config.json", "data/constants/model_constants_config.json")

# ScalarType of the schema by number.
SCALARS: dict[int, str] = {
    1: "u8",
    2: "i8",
    3: "i16",
    4: "i32",
    5: "i64",
    6: "fp16",
    7: "fp32",
    8: "fp64",
    12: "bool",
    13: "bf16",
    28: "u16",
    29: "fp8e4m3",
    30: "fp8e5m2",
}
# The same by what torch calls a dtype.
SCALAR_NUMBERS = {
    "uint8": 1,
    "int8": 2,
    "int16": 3,
    "int32": 4,
    "int64": 5,
    "float16": 6,
    "float32": 7,
    "float64": 8,
    "bool": 12,
    "bfloat16": 13,
    "uint16": 28,
    "float8_e4m3fn": 29,
    "float8_e5m2": 30,
}
# Complex ScalarTypes: two numbers each, the real part and the imaginary one.
PAIRS = {9: "fp16", 10: "fp32", 11: "fp64"}
PAIR_NUMBERS = {"complex32": 9, "complex64": 10, "complex128": 11}
NAMES = {0: "unknown", 31: "float8_e4m3fnuz", 32: "float8_e5m2fnuz", **{n: word for word, n in PAIR_NUMBERS.items()}}


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor whose elements are in the archive. `strides` are in elements; `start` is the first element in the
    member. `is_pickled`: the member is a pickle, which is never read. One that `is_complex` has a last axis more, of
    its two parts."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    start: int
    member: str
    is_pickled: bool
    is_complex: bool = False

    def order(self) -> list[int] | None:
        """The axes as memory has them, the slowest first; None where the elements are not one contiguous piece."""
        axes = sorted(range(len(self.shape)), key=lambda a: (-self.strides[a], a))
        step = 1
        for axis in reversed(axes):
            if self.shape[axis] != 1 and self.strides[axis] != step:
                return None
            step *= self.shape[axis]
        return axes


def is_small(tensor: Stored) -> bool:
    """Whether a constant takes as little room in a text as a word about it."""
    return math.prod(tensor.shape) <= (SMALL_FLOATS if tensor.dtype.is_float else SMALL_INTEGERS)


class Archive:
    """An archive's bytes. `file` is its path as texts shall spell it, empty for one that came through a pipe. Raises
    Refused (E0141, E0142)."""

    def __init__(self, raw: bytes, file: str):
        self.raw, self.file = raw, file
        try:
            self.members = {i.filename: i for i in zipfile.ZipFile(io.BytesIO(raw)).infolist()}
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as fault:
            raise unreadable(str(fault)) from None
        found = sorted(n for n in self.members if n.endswith("/" + MODEL))
        if not found:
            old = any(n.endswith("serialized_exported_program.json") for n in self.members)
            raise unreadable(
                Phrase("its weights are pickled; save it with torch 2.8 or newer")
                if old
                else Phrase("it has no {model}", model=MODEL)
            )
        self.root = found[0].removesuffix(MODEL)
        self.model: dict[str, Any] = self._json(MODEL)
        self._check_version()
        self.tensors: dict[str, Stored] = {}
        for config in CONFIGS:
            if self.root + config in self.members:
                folder = config.rpartition("/")[0]
                with following(Phrase("{config} is not as the schema has it", config=config)):
                    for name, entry in self._json(config)["config"].items():
                        self._add(name, entry, folder)

    def _check_version(self) -> None:
        with following(Phrase("it states no version")):
            version = self.model["schema_version"]
            given = f"{int(version['major'])}.{int(version['minor'])}"
            order = self.members.get(self.root + "byteorder")
            if int(version["major"]) != SCHEMA:
                raise refuse("E0142", given=given, known=f"{SCHEMA}.x")
            if order is not None and self._bytes("byteorder").strip() != b"little":
                raise unreadable(Phrase("its bytes are not in little-endian order"))

    def _add(self, name: str, entry: Any, folder: str) -> None:
        meta = entry.get("tensor_meta")
        if meta is None:  # an object that is not a tensor
            return
        shape, strides = (tuple(_whole(s) for s in meta[key]) for key in ("sizes", "strides"))
        start, is_complex = _whole(meta["storage_offset"]), meta["dtype"] in PAIRS
        if is_complex:
            shape, strides, start = (*shape, 2), (*(2 * s for s in strides), 1), 2 * start
        self.tensors[name] = Stored(
            name,
            dtype_of(meta["dtype"], name),
            shape,
            strides,
            start,
            f"{folder}/{entry['path_name']}",
            bool(entry["use_pickle"]),
            is_complex,
        )

    def _bytes(self, member: str) -> bytes:
        """A member's bytes, as the directory says where they are. Raises Refused (E0141)."""
        info = self.members.get(self.root + member)
        if info is None:
            raise unreadable(Phrase("it has no {member}", member=member))
        if info.compress_type != zipfile.ZIP_STORED:
            if info.file_size > MOST_JSON:
                raise unreadable(Phrase("{member} is too long", member=member))
            try:
                return zipfile.ZipFile(io.BytesIO(self.raw)).read(info)
            except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError, OSError) as fault:
                raise unreadable(str(fault)) from None
        start = self._start(info)
        found = self.raw[start : start + info.file_size]
        if len(found) != info.file_size:
            raise unreadable(Phrase("{member} is cut short", member=member))
        return found

    def _start(self, info: zipfile.ZipInfo) -> int:
        """Where a member's bytes begin in the file: behind a header whose name and extra field are as long as it
        says."""
        at = info.header_offset
        name, extra = (int.from_bytes(self.raw[at + i : at + i + 2], "little") for i in (26, 28))
        return at + LOCAL_HEADER + name + extra

    def _json(self, member: str) -> dict[str, Any]:
        text = self._bytes(member)
        if len(text) > MOST_JSON:
            raise unreadable(Phrase("{member} is too long", member=member))
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as fault:
            raise unreadable(f"{member}: {str(fault)[:120]}") from None
        if not isinstance(found, dict):
            raise unreadable(Phrase("{member} is not a JSON object", member=member))
        return found

    def is_written(self, tensor: Stored) -> bool:
        """Whether a weight is written into the text itself: a small one."""
        return is_small(tensor)

    def place(self, tensor: Stored) -> dict[str, Any]:
        """The attributes file, offset, bytes and sha256 of a tensor; nothing for one whose elements are to be read.
        Raises Refused (E0127)."""
        info = self._checked(tensor)
        size = math.prod(tensor.shape) * tensor.dtype.bytes
        if not self.file or info.compress_type != zipfile.ZIP_STORED:
            if math.prod(tensor.shape) > MAX_KNOWN:
                reason = (
                    Phrase("the model came through a pipe")
                    if not self.file
                    else Phrase("its member of the archive is compressed")
                )
                raise refuse("E0127", tensor.name, tensor=tensor.name, reason=reason)
            return {}
        from hashlib import sha256

        start = self._start(info) + tensor.start * tensor.dtype.bytes
        return {
            "file": self.file,
            "offset": start,
            "bytes": size,
            "sha256": sha256(memoryview(self.raw)[start : start + size]).hexdigest(),
        }

    def array(self, tensor: Stored) -> np.ndarray:
        """The elements of a tensor. Raises Refused (E0127)."""
        self._checked(tensor)
        first, size = tensor.start * tensor.dtype.bytes, math.prod(tensor.shape) * tensor.dtype.bytes
        found = np.frombuffer(self._bytes(tensor.member)[first : first + size], array_dtype(tensor.dtype))
        return found.reshape(tensor.shape)

    def _checked(self, tensor: Stored) -> zipfile.ZipInfo:
        """The member of a contiguous tensor, which must hold it all."""
        info = self.members.get(self.root + tensor.member)
        reason = ""
        if tensor.is_pickled:
            reason = Phrase("it is pickled")
        elif info is None:
            reason = Phrase("the archive has no {member}", member=tensor.member)
        elif tensor.order() is None:
            reason = Phrase(
                "its strides are [{tensor}]: not one contiguous piece", tensor=", ".join(map(str, tensor.strides))
            )
        elif (tensor.start + math.prod(tensor.shape)) * tensor.dtype.bytes > info.file_size:
            reason = Phrase("{member} has {file_size} bytes, too few", member=tensor.member, file_size=info.file_size)
        elif info.compress_type == zipfile.ZIP_STORED and self._start(info) + info.file_size > len(self.raw):
            reason = Phrase("{member} is cut short", member=tensor.member)
        if reason or info is None:
            raise refuse("E0127", tensor.name, tensor=tensor.name, reason=reason)
        return info


class following:
    """A stretch of code that follows the schema: what is missing or of another kind there refuses the archive
    (E0141)."""

    def __init__(self, fault: str):
        self.fault = fault

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: Any) -> None:
        if kind is not None and issubclass(
            kind, (KeyError, TypeError, ValueError, AttributeError, IndexError, StopIteration, OverflowError)
        ):
            raise unreadable(f"{self.fault}: {kind.__name__} {str(fault)[:80]}".rstrip()) from None


def unreadable(reason: str) -> Exception:
    """The exception that refuses an archive (E0141)."""
    return refuse("E0141", reason=reason)


def dtype_of(number: Any, at: str) -> DType:
    """The dtype of a ScalarType, of a complex one that of its parts. Raises Refused (E0126)."""
    word = SCALARS.get(number) or PAIRS.get(number)
    if word is None:
        raise refuse("E0126", at, type=NAMES.get(number, f"number {number}"))
    return DTYPES[word]


def _whole(size: Any) -> int:
    found = size["as_int"]
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found < 1 << 62:
        raise ValueError(Phrase("{found} is not a size", found=found))
    return found
