"""The bench of attention: what it counts, and that each form it measures is one kernel on tensor cores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.bench.attention import Case, cases, model_of, odd_cases, tables
from tests.bench.attention_forms import written
from tinyir.front.json import read
from tinyir.lower import lower_to
from tinyir.lower import plan as to_plan

FORMS = {case.form: case for case in cases()}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_one_kernel_on_tensor_cores(form: str) -> None:
    case = FORMS[form]
    module: Any = written(case) if case.extra else read(model_of(case))
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    plans = to_plan.lower(module, "sm90", "h200").plans
    (first, *others) = (p for p in plans if len(p.regions) == 2)
    assert first.algo in ("streaming_softmax", "streaming_mma") and {p.regions for p in others} <= {first.regions}
    before = {p.algo for p in plans if len(p.regions) == 1}  # a table's positions, the ends of documents
    assert before <= {"flat", "row_resident"}


def test_each_odd_size_is_measured_beside_the_one_rounded_up() -> None:
    found = odd_cases()
    odd = [case for case in found if case != case.rounded]
    assert len(odd) == 2 * (4 * 2 + 3) and {case.rounded for case in odd} <= set(found)


def test_cases_have_names_of_their_own() -> None:
    assert len({case.name for case in cases()}) == len(cases())


@pytest.mark.parametrize("is_causal, window", [(False, 0), (True, 0), (True, 3), (True, 50)])
def test_a_masked_score_counts_no_operation(is_causal: bool, window: int) -> None:
    case = Case("fp16", 2, 3, 3, 7, 5, is_causal, window)
    seen = [
        (row, column)
        for row in range(7)
        for column in range(7)
        if not is_causal or column <= row and (not window or row - column < window)
    ]
    assert case.flops == 2 * 2 * 2 * 3 * 5 * len(seen)


def test_tables_hold_what_was_measured_and_leave_out_what_was_not() -> None:
    case = Case("fp16", 16, 32, 32, 1024, 64)
    rows = [
        {"case": fields, "us": {"ours": 2.0, "cudnn": 3.0}, "tflops": {"ours": 431.0}, "ratio": {"cudnn": 1.5}}
        for fields in ({n: getattr(c, n) for n in Case.__slots__} for c in (case, replace(case, softcap=5.0)))
    ]
    text = tables(rows)
    assert "| fp16, 64, full |  | 431, 1.50 |  |  |  |  | 1.500, 1.500 |  |" in text
    assert "| fp16, 16 x 32 x 1024 x 64, full soft-cap 5 | 2.0 us, 431 | 3.0 us, 1.50 |  |  |" in text
