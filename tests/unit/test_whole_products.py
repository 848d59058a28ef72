"""Products of narrow integers are summed as they are, whatever their signs: none wraps before it is added."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tinyir

from .stages import needs_host_compiler

NARROW = {"i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16}


def product(left: str, right: str) -> str:
    """A [3, 5] by [5, 4] in front-end JSON, summed in i32."""
    tensors = {
        "A": {"dtype": left, "shape": [3, 5]},
        "B": {"dtype": right, "shape": [5, 4]},
        "C": {"dtype": "i32", "shape": [3, 4]},
    }
    signature = {"inputs": [{"tensor": "A"}, {"tensor": "B"}], "outputs": [{"tensor": "C"}]}
    graph = [{"op": "MatMul", "inputs": ["A", "B"], "outputs": ["C"], "attrs": {"acc_dtype": "i32"}}]
    return json.dumps({"name": "m", "signature": signature, "tensors": tensors, "graph": graph})


def greatest(dtype: str, shape: tuple[int, int]) -> Any:
    """The greatest numbers of a dtype that a sum of five products leaves in 32 bits with one of 16."""
    return np.full(shape, min(np.iinfo(NARROW[dtype]).max, 20_000), NARROW[dtype])


@needs_host_compiler
@pytest.mark.parametrize("device", ["cpu", "sim"])
@pytest.mark.parametrize("left", NARROW)
@pytest.mark.parametrize("right", NARROW)
def test_no_product_wraps(left: str, right: str, device: str) -> None:
    a, b = greatest(left, (3, 5)), greatest(right, (5, 4))
    with tinyir.compile(product(left, right), device=device) as program:
        found = program(A=a, B=b)["C"]
    np.testing.assert_array_equal(found, a.astype(np.int64) @ b.astype(np.int64))
