"""The scalar types that memory and arithmetic know: names, bits, and their spelling in NumPy and in CUDA."""

from __future__ import annotations

import math

from ..kit.records import dataclass, field


@dataclass(frozen=True, slots=True)
class DType:
    """A scalar type. `kind` is f (float), i (signed), u (unsigned) or b (bool); `digits` counts a float's significand
    bits, the hidden one included; `numpy` is the NumPy or ml_dtypes name; `cuda` is the spelling in the emitted
    CUDA; `bytes` are those of one element in memory."""

    name: str
    kind: str
    bits: int
    digits: int
    numpy: str
    cuda: str
    bytes: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bytes", self.bits // 8 or 1)

    @property
    def is_float(self) -> bool:
        """Floating point."""
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        """Signed or unsigned integer; bool is neither."""
        return self.kind in "iu"

    @property
    def lowest(self) -> float | int:
        """The neutral element of MAX: -inf for floats that have it, the smallest value otherwise."""
        if self.kind == "f":
            return -448.0 if self.name == "fp8e4m3" else -math.inf
        return -(1 << (self.bits - 1)) if self.kind == "i" else 0

    @property
    def highest(self) -> float | int:
        """The neutral element of MIN: inf for floats that have it, the largest value otherwise."""
        if self.kind == "f":
            return 448.0 if self.name == "fp8e4m3" else math.inf
        return (1 << (self.bits - (self.kind == "i"))) - 1 if self.kind != "b" else 1

    def __str__(self) -> str:
        return self.name


DTYPES: dict[str, DType] = {
    d.name: d
    for d in (
        DType("fp64", "f", 64, 53, "float64", "double"),
        DType("fp32", "f", 32, 24, "float32", "float"),
        DType("fp16", "f", 16, 11, "float16", "fp16"),
        DType("bf16", "f", 16, 8, "bfloat16", "bf16"),
        DType("fp8e4m3", "f", 8, 4, "float8_e4m3fn", "fp8e4m3"),
        DType("fp8e5m2", "f", 8, 3, "float8_e5m2", "fp8e5m2"),
        DType("i64", "i", 64, 0, "int64", "long long"),
        DType("i32", "i", 32, 0, "int32", "int"),
        DType("i16", "i", 16, 0, "int16", "short"),
        DType("i8", "i", 8, 0, "int8", "signed char"),
        DType("u64", "u", 64, 0, "uint64", "unsigned long long"),
        DType("u32", "u", 32, 0, "uint32", "unsigned int"),
        DType("u16", "u", 16, 0, "uint16", "unsigned short"),
        DType("u8", "u", 8, 0, "uint8", "unsigned char"),
        DType("bool", "b", 8, 0, "bool", "bool"),
    )
}
SMALL_FLOATS = tuple(d.name for d in DTYPES.values() if d.is_float and d.bits < 32)  # registers have them as fp32
