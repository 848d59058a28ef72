"""Folds of bools: a sum is an or, a product an and, in every family that folds and at every stage."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fuzz.trial import faults_of
from tinyir.ir import tiny
from tinyir.ir.ops import UPDATES

from .stages import needs_host_compiler

FOLDS = [word for word in UPDATES if word != "UPDATE"]


def text_of() -> str:
    """Every fold along every axis and along all, forwards and back, at places and in a scan."""
    outputs, lines = [], []

    def add(name: str, shape: str, line: str) -> None:
        outputs.append((name, shape))
        lines.append(f"  %{name} = {line} : bool{shape}")

    for op in FOLDS:
        stated = f"op={op}, dtype=bool"
        add(f"{op}.rows", "[5]", f"REDUCE(x) {{{stated}, axes=[1]}}")
        add(f"{op}.columns", "[64]", f"REDUCE(x) {{{stated}, axes=[0]}}")
        add(f"{op}.all", "[]", f"REDUCE(x) {{{stated}, axes=[0, 1]}}")
        add(f"{op}.line", "[]", f"REDUCE(long) {{{stated}, axes=[0]}}")
        add(f"{op}.scan", "[5, 64]", f"SCAN(x) {{{stated}, axis=1}}")
        add(f"{op}.back", "[5, 64]", f"SCAN(x) {{{stated}, axis=0, reverse=true, exclusive=true}}")
        add(f"{op}.run", "[3000]", f"SCAN(long) {{{stated}, axis=0}}")
        add(f"{op}.placed", "[5, 64]", f"SCATTER(x, at, some) {{axis=0, op={op}}}")
    head = "tinyir 1.0 tiny\n\nmodel folds\n  in  x : bool[5, 64]\n  in  long : bool[3000]\n  in  at : i64[3]\n"
    head += "  in  some : bool[3, 64]\n" + "".join(f"  out {name} : bool{shape}\n" for name, shape in outputs)
    return head + "\n" + "\n".join(lines) + "\n\noutputs: " + ", ".join(f"%{name}" for name, _ in outputs) + "\n"


@needs_host_compiler
@pytest.mark.parametrize("arch", ["sm80", "sm90"])
def test_folds_of_bools(arch: str) -> None:
    draw = np.random.default_rng(0)
    arrays = {"x": draw.random((5, 64)) < 0.5, "long": draw.random(3000) < 0.001, "at": np.array([0, 4, 0])}
    arrays["some"] = draw.random((3, 64)) < 0.5
    assert [str(fault) for fault in faults_of(tiny.parse(text_of()), arrays, arch)] == []
