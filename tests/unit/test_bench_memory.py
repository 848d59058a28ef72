"""The bench of memory-bound kernels: its cases, that each compiles, and what its table says."""

from __future__ import annotations

import argparse

import pytest

from tests.bench.memory import cases, show_table
from tests.bench.memory_ops import OPS, Case, emitted, plans_of

EVERY = argparse.Namespace(only="", shapes="", dtypes="fp32,fp16", odd=False, behind=None)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("odd", (False, True), ids=("aligned", "odd"))
def test_each_op_compiles(op: str, odd: bool) -> None:
    case = Case(op, "fp16", (6, 4096), odd)
    text = emitted(case)
    assert plans_of(text)
    assert (f"{case.inputs[0]}.from" in text) == odd


def test_cases_have_names_of_their_own_and_the_bytes_of_their_tensors() -> None:
    every = cases(EVERY)
    assert len({case.name for case in every}) == len(every) > 200
    assert Case("cast", "fp32", (8192, 8192)).moved == 8192 * 8192 * 6
    assert Case("quantise", "fp16", (16, 32)).moved == 16 * 32 * 3 + 16 * 4
    assert Case("rotary", "fp16", (4093, 4093)) not in every


def test_a_table_says_the_ratio_the_share_and_what_does_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"op": "cast", "dtype": "fp16", "shape": [8192, 8192], "bytes": 402653184}
    good = {**row, "us": 100.0, "compile_us": 110.0, "eager_us": 150.0, "ratio": 1.1, "share": 0.95}
    bad = {**row, "dtype": "fp32", "compile_us": 50.0, "fault": "E1611 cast"}
    show_table([good, bad])
    said = capsys.readouterr().out
    assert "| cast | 8192x8192 | - (E1611 cast); 50.0 | 100.0; 1.10, 1.50; 95% |" in said
    assert "cast: 1.10x torch.compile, least 1.10 (fp16 8192x8192); from 64 MB on 95% of a copy, least 95%" in said
    assert "all: 1.10x over 1 cases, 1 do not run" in said
