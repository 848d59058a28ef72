"""The element types of ONNX."""

from __future__ import annotations

from ...ir.types import DTYPES, DType
from ...kit.diag import refuse

# TensorProto.DataType by number: the dtype that holds it here and, where that is wider than what ONNX means, the form
# its elements have.
ELEMENTS: dict[int, tuple[str, str]] = {
    1: ("fp32", ""),
    2: ("u8", ""),
    3: ("i8", ""),
    4: ("u16", ""),
    5: ("i16", ""),
    6: ("i32", ""),
    7: ("i64", ""),
    9: ("bool", ""),
    10: ("fp16", ""),
    11: ("fp64", ""),
    12: ("u32", ""),
    13: ("u64", ""),
    16: ("bf16", ""),
    17: ("fp8e4m3", ""),
    19: ("fp8e5m2", ""),
    18: ("u8", "fp8e4m3fnuz"),
    20: ("u8", "fp8e5m2fnuz"),
    21: ("u8", "u4"),
    22: ("i8", "i4"),
    23: ("u8", "fp4e2m1"),
    24: ("u8", "fp8e8m0"),
    25: ("u8", "u2"),
    26: ("i8", "i2"),
}


def element_of(number: int, at: str) -> tuple[DType, str]:
    """The dtype and form of an ONNX element type. Raises Refused (E0126)."""
    if number not in ELEMENTS:
        from onnx import TensorProto

        names = {v: k for k, v in TensorProto.DataType.items()}
        raise refuse("E0126", at, type=names.get(number, number))
    name, form = ELEMENTS[number]
    return DTYPES[name], form
