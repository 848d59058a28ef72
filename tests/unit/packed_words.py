"""Models with weights of four bits in words of 32, as GPTQ and AWQ lay them out, in front-end JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

EACH, BITS, LOW = 8, 4, 15  # numbers in a word, and bits of each
LAYOUTS = ("gptq", "awq")


def model_of_words(layout: str, rows: int, columns: int, depth: int, block: int) -> str:
    """Y = A W in fp16: W[k, n] = (q[k, n] - z[k / block, n]) * S[k / block, n]. `gptq`: words of Q hold eight numbers
    along k, those of Z along n, the first in the low bits; `awq`: both hold eight along n, in the order 0 2 4 6 1 3 5
    7."""
    graph: list[dict[str, Any]] = []
    shapes = {
        "A": ("fp16", [rows, depth]),
        "Q": ("i32", [depth // EACH, columns] if layout == "gptq" else [depth, columns // EACH]),
        "Z": ("i32", [depth // block, columns // EACH]),
        "S": ("fp16", [depth // block, columns]),
        "Y": ("fp16", [rows, columns]),
    }

    def op(word: str, inputs: list[Any], name: str, **attrs: Any) -> str:
        named = {"op": word} if word[0].isupper() else {"op": "Elementwise", "fn": word}
        graph.append({**named, "name": name, "inputs": inputs, "outputs": [name], "attrs": attrs})
        return name

    def numbers(words: str, axis: int, name: str, shape: list[int]) -> str:
        """The numbers of words that hold eight along an axis."""
        op("Unsqueeze", [words], f"{name}.words", axes=[axis + 1])
        by = "by" if axis else op("Unsqueeze", ["by"], f"{name}.by", axes=[1])
        low = op("and", [op("shift_right", [f"{name}.words", by], f"{name}.apart"), LOW], f"{name}.low")
        return op("Reshape", [low], name, shape=shape)

    def of_blocks(values: str, name: str) -> str:
        """The same for all of a block."""
        op("Unsqueeze", [values], f"{name}.block", axes=[1])
        op("Expand", [f"{name}.block"], f"{name}.each", shape=[depth // block, block, columns])
        return op("Reshape", [f"{name}.each"], name, shape=[depth, columns])

    op("Iota", [], "place", shape=[EACH], axis=0, dtype="i32")
    if layout == "gptq":
        op("mul", ["place", BITS], "by")
    else:  # numbers 0 2 4 6 are in the low half, 1 3 5 7 in the upper one
        upper = op("mul", [op("mod", ["place", 2], "odd"), EACH * BITS // 2], "upper")
        op("add", [upper, op("mul", [op("shift_right", ["place", 1], "half"), BITS], "lower")], "by")
    q = numbers("Q", 0 if layout == "gptq" else 1, "q", [depth, columns])
    z = of_blocks(numbers("Z", 1, "z", [depth // block, columns]), "zeros")
    op("mul", [op("Cast", [op("sub", [q, z], "centred")], "wide", to="fp16"), of_blocks("S", "scales")], "W")
    op("MatMul", ["A", "W"], "Y")
    return json.dumps(
        {
            "name": layout,
            "signature": {"inputs": [{"tensor": n} for n in ("A", "Q", "Z", "S")], "outputs": [{"tensor": "Y"}]},
            "tensors": {n: {"dtype": d, "shape": s} for n, (d, s) in shapes.items()},
            "graph": graph,
        }
    )


def arrays_of_words(layout: str, rows: int, columns: int, depth: int, block: int) -> dict[str, np.ndarray]:
    """Random operands."""
    draws = np.random.default_rng([rows, columns, depth])
    words = (depth // EACH, columns) if layout == "gptq" else (depth, columns // EACH)
    return {
        "A": draws.standard_normal((rows, depth)).astype(np.float16),
        "Q": draws.integers(-(1 << 31), 1 << 31, words).astype(np.int32),
        "Z": draws.integers(-(1 << 31), 1 << 31, (depth // block, columns // EACH)).astype(np.int32),
        "S": draws.uniform(0.01, 0.1, (depth // block, columns)).astype(np.float16),
    }
