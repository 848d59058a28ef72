# pyright: strict
"""A program that uses the public API, as a user's type checker sees it; `test_style` runs pyright over it."""

from __future__ import annotations

import numpy as np

import tinyir

MODEL = "graph<N=1> main(x: f32[N]) -> (y: f32[N]) { return x * 2 }"


def doubled(x: np.ndarray[tuple[int], np.dtype[np.float32]]) -> list[str]:
    """Compile, ask, call and close."""
    try:
        with tinyir.compile(MODEL, device="cpu", shapes={"x": "N"}, jobs=2) as made:
            made.save("kept.tinyir")
        with tinyir.load("kept.tinyir", device="cpu", weights=".", seed=1) as program:
            results = program(x)
            kinds: dict[str, str] = program.inputs | program.outputs
            return [*kinds, *results, program.device, program.text]
    except tinyir.Refused as fault:
        return [d.code for d in fault.diags]
