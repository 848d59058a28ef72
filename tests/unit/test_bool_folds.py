"""Folds of bools: a sum is an or, a product an and, in every family that folds and at every stage."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fuzz.trial import faults_of
from tinyir.ir import tiny
from tinyir.ir.ops import UPDATES

from .fold_programs import folds_of, program
from .stages import needs_host_compiler

FOLDS = [word for word in UPDATES if word != "UPDATE"]


INPUTS = {"x": "bool[5, 64]", "long": "bool[3000]", "at": "i64[3]", "some": "bool[3, 64]"}


def text_of() -> str:
    """Every fold along every axis and along all, forwards and back, at places and in a scan."""
    outputs = [made for op in FOLDS for made in folds_of(op, "bool", is_exclusive=False)]
    for op in FOLDS:
        outputs.append((f"{op}.all", "[]", f"REDUCE(x) {{op={op}, dtype=bool, axes=[0, 1]}}"))
        outputs.append((f"{op}.placed", "[5, 64]", f"SCATTER(x, at, some) {{axis=0, op={op}}}"))
    return program(INPUTS, outputs, "bool")


@needs_host_compiler
@pytest.mark.parametrize("arch", ["sm80", "sm90"])
def test_folds_of_bools(arch: str) -> None:
    draw = np.random.default_rng(0)
    arrays = {"x": draw.random((5, 64)) < 0.5, "long": draw.random(3000) < 0.001, "at": np.array([0, 4, 0])}
    arrays["some"] = draw.random((3, 64)) < 0.5
    assert [str(fault) for fault in faults_of(tiny.parse(text_of()), arrays, arch)] == []
