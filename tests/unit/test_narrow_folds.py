"""Folds and scans of narrow dtypes: computed in a wider one and rounded once, and over no element what the narrow one
has. In every family that folds, at every stage."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.fuzz.trial import faults_of
from tinyir.ir import manifest, tiny
from tinyir.ir.evaluate import convert
from tinyir.ir.types import DTYPES

from .emitted import assert_as_played, lowered, planned, region_text
from .fold_programs import folds_of, program
from .stages import needs_host_compiler

NARROW = ("i8", "u8", "i16", "fp16", "bf16", "fp8e4m3", "fp8e5m2")
SHAPES = {"x": "[5, 64]", "long": "[3000]", "none": "[5, 0]", "image": "[1, 2, 6, 6]"}
WINDOW = "VIEW(image) {{index_map=[i0, i1, i2 + i4, i3 + i5]}} : {0}[1, 2, 4, 4, 3, 3]"


def text_of(name: str) -> str:
    """Folds along rows, columns, lines, windows and nothing; scans both ways, the first element of which folds none."""
    ops = ("SUM", "MAX", "MIN")
    outputs = [made for op in ops for made in folds_of(op, name, is_exclusive=True)]
    for op in ops:
        stated = f"op={op}, dtype={name}"
        outputs.append((f"{op}.none", "[5]", f"REDUCE(none) {{{stated}, axes=[1]}}"))
        outputs.append((f"{op}.windows", "[1, 2, 4, 4]", f"REDUCE(%window) {{{stated}, axes=[4, 5]}}"))
    inputs = {tensor: f"{name}{shape}" for tensor, shape in SHAPES.items()}
    return program(inputs, outputs, name, [f"  %window = {WINDOW.format(name)}"])


@needs_host_compiler
@pytest.mark.parametrize("name", NARROW)
def test_folds_of_narrow_dtypes(name: str) -> None:
    draw, dtype = np.random.default_rng(0), DTYPES[name]
    low = 0 if dtype.kind == "u" else -2
    arrays = {
        tensor: convert(draw.integers(low, 3, [int(n) for n in shape[1:-1].split(",")]), dtype)
        for tensor, shape in SHAPES.items()
    }
    assert [str(fault) for fault in faults_of(tiny.parse(text_of(name)), arrays)] == []


@needs_host_compiler
@pytest.mark.parametrize("name", ("fp16", "bf16", "fp8e4m3", "fp8e5m2"))
def test_what_is_picked_of_rounded_numbers_is_rounded_already(name: str) -> None:
    """A literal has more digits than the dtype, and is rounded where it is picked."""
    dtype = DTYPES[name]
    for pick, is_literal in (("max(X[i0], 0.1)", True), ("max(X[i0], 0.0)", False), ("abs(X[i0])", False)):
        body = f"for i0: 64\nyield Y[i0] = add(X[i0], {pick})"
        _, code = lowered(planned(region_text(f"in X : {name}[64]\nout Y : {name}[64]", body)))
        assert bool(re.search(rf"{name}_of_float\((max_nan|absolute)", manifest.show(code))) == is_literal
        arrays = {"X": convert(np.random.default_rng(1).standard_normal(64), dtype)}
        assert_as_played(code, arrays, rtol=0, of=pick)
