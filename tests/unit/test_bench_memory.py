"""The bench of memory-bound kernels: its cases, that each compiles, and what its table says."""

from __future__ import annotations

import argparse

import pytest

from tests.bench import memory_asked
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


def test_each_ask_says_its_figures_and_what_is_under_it() -> None:
    def row(op: str, shape: list[int], us: float, **others: object) -> dict[str, object]:
        found = {"op": op, "dtype": "fp16", "shape": shape, "us": us, "odd": False, "bytes": 100_000_000}
        return {**found, "ratio": 1.2, "share": 0.93, **others}

    said = memory_asked.table(
        [
            row("cast", [8192, 8192], 10.0),
            row("cast", [4096, 1024], 10.0, ratio=0.9, bytes=1000),
            row("cast", [8192, 8192], 20.0, odd=True),
            row("softmax", [1, 1 << 24], 10.0, share=0.62),
            row("row_sum", [256, 1024], 10.0, ratio=0.98, bytes=1000),
            row("row_sum", [1000, 7], 10.0),
            row("row_sum", [1000, 8], 8.0),
            row("row_sum", [1000, 1], 8.0, share=0.7),
            row("gather", [32768, 1024], 1.0, share=0.86),
            {"op": "cast", "dtype": "fp16", "shape": [8192, 8192], "odd": False, "bytes": 1, "fault": "E1611"},
        ]
    )
    lines = {line.split(" | ")[0].strip("| "): line for line in said.splitlines()}
    assert "| 1.15 | 1.090 of 3 | no |" in lines["all cases, mean"]
    assert "1.04, least 0.900, 1 of 2 | no | cast fp16 4096x1024 0.900 |" in lines["cast beside torch.compile"]
    assert "| 0.92 | 0.93, least 0.930, 1 of 1 | yes |" in lines["cast from 64 MB on beside a copy"]
    assert "| no | cast fp16 8192x8192 0.500 |" in lines["a base off by one, 8192 columns"]
    assert "| 0.60 | 0.62, least 0.620, 1 of 1 | yes |" in lines["one row of 2^24 beside a copy"]
    assert "softmax from 64 MB on beside a copy" not in lines
    assert "| 0.80, least 0.800, 1 of 1 | yes |" in lines["7 columns beside 8"]
    assert "| no | row_sum fp16 1000x1 0.700 |" in lines["one column beside a copy"]
    assert "| yes |" in lines["gather from 64 MB on beside a copy"]
    assert "row_sum fp16 256x1024" not in lines["under 4 MB beside torch.compile"]
