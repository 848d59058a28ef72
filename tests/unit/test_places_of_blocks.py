"""An edited block of poly text, or an analysis of a region, is told where the edit is, and at sizes that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tinyir.analysis.validate_blocks import validate_poly
from tinyir.analysis.validate_regions import validate_regions
from tinyir.ir import poly, region
from tinyir.kit.diag import Diag

FOLDER = Path(__file__).resolve().parents[2] / "samples" / "gemm_bias_relu"
EDITS = [
    ("poly", "0 <= i0 < M and", "0 <= i0 < M+1 and", "E1222", "domain"),
    ("poly", "-> A[i0, k0]", "-> A[i0 + 1, k0]", "E1222", "read"),
    ("poly", "contraction matmul", "contrction matmul", "E1210", "block"),
    ("poly", "-> A[i0, k0]", "-> A[i0]", "E1211", "read"),
    ("poly", "left [i0]", "left [i0, i0]", "E1212", "axes"),
    ("poly", ": true {", ": untrue {", "E1213", "edge"),
    ("region", "parallel [i0, i1]", "parallel [i0]", "E1413", "parallel"),
]


def faults_of(stage: str, text: str) -> list[Diag]:
    """What the checks and the validation of a stage say of a text."""
    if stage == "region":
        return validate_regions(region.parse(text))
    module = poly.parse(text)
    return [d for d in poly.check(module) if d.is_error] or validate_poly(module)


@pytest.mark.parametrize("stage,old,new,code,word", EDITS, ids=[f"{e[3]} {e[4]}" for e in EDITS])
def test_the_edited_line_is_drawn(stage: str, old: str, new: str, code: str, word: str) -> None:
    text = (FOLDER / f"gemm_bias_relu.{stage}").read_text(encoding="utf-8")
    edited = text.replace(old, new, 1)
    assert edited != text
    diag = faults_of(stage, edited)[0]
    assert diag.code == code and diag.span is not None
    at = text.index(old)
    line = edited.splitlines()[diag.span.line - 1]
    assert diag.span.line == text.count("\n", 0, at) + 1 and line.split()[0] == word


def test_the_point_is_at_sizes_that_the_symbols_have() -> None:
    text = (
        (FOLDER / "gemm_bias_relu.poly").read_text(encoding="utf-8").replace("shapes", "  sym M in 3..2048\nshapes", 1)
    )
    (diag, *_) = faults_of("poly", text.replace("0 <= i0 < M and", "0 <= i0 < M+1 and", 1))
    assert int(re.search(r"M=(\d+), ", diag.why())[1]) >= 3
