"""Batch-invariant programs on a GPU: a row has the same bits in a batch of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyir
from tinyir.runtime.cuda import find_fault

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(find_fault() is not None, reason=f"no GPU: {find_fault()}")]


def layers(dtype: str, layout: str) -> dict[str, Any]:
    """softmax(relu(x @ w1) @ w2), planned for few rows."""
    shapes = {"x": ["M", 1024], "w1": [1024, 2048], "w2": [2048, 1000], "y": ["M", 1000]}
    inputs = [{"tensor": "x"}, *({"tensor": w, "role": "param", "storage": "const_pool"} for w in ("w1", "w2"))]
    return {
        "name": "layers",
        "signature": {"inputs": inputs, "outputs": [{"tensor": "y"}]},
        "tensors": {
            n: {"dtype": dtype, "shape": s, **({"layout": layout} if n == "x" else {})} for n, s in shapes.items()
        },
        "graph": [
            {"op": "MatMul", "inputs": ["x", "w1"], "outputs": ["h"]},
            {"op": "Elementwise", "fn": "relu", "inputs": ["h"], "outputs": ["r"]},
            {"op": "MatMul", "inputs": ["r", "w2"], "outputs": ["s"]},
            {"op": "Softmax", "inputs": ["s"], "outputs": ["y"], "attrs": {"axis": -1}},
        ],
        "shape_sets": {"usual": {"M": 64}},
    }


@pytest.mark.parametrize("layout", ["row_major", "col_major"])
@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
def test_a_row_has_the_same_bits_in_every_batch(dtype: str, layout: str) -> None:
    kind = {"fp16": np.float16, "fp32": np.float32}[dtype]
    draw = np.random.default_rng(0)
    weights = {
        n: (draw.standard_normal(s) * 0.03).astype(kind) for n, s in (("w1", (1024, 2048)), ("w2", (2048, 1000)))
    }
    x = draw.standard_normal((700, 1024)).astype(kind)
    with tinyir.compile(layers(dtype, layout), device="cuda", params=weights, invariant=True) as program:
        whole = program(x)["y"]
        for rows in (1, 2, 7, 8, 64, 65, 128, 333):
            assert program(x[:rows])["y"].tobytes() == whole[:rows].tobytes(), rows
