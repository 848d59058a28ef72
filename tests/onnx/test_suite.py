"""The ONNX backend suite: nothing wrong, nothing broken; a part of it in every run, the whole behind `slow`."""

from __future__ import annotations

import collections

import pytest

onnx = pytest.importorskip("onnx")

from . import suite  # noqa: E402
from .suite import CRASHED, FAILED, NEAR, PASSED, REFUSED  # noqa: E402

# What a refusal may say: ops, forms and types that are not supported, operands that are not known beforehand.
CODES = {"E0123", "E0124", "E0125", "E0126", "E0121"}


def _outcomes(cases: list[suite.Case]) -> tuple[collections.Counter[tuple[str, str]], list[str]]:
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    faults = []
    for case in cases:
        outcome, why = suite.run(case)
        counts[case.scope, outcome] += 1
        if outcome in (FAILED, CRASHED) or outcome == REFUSED and not set(why.split("  ")[0].split()) <= CODES:
            faults.append(f"{outcome} {case.name}: {why}")
    return counts, faults


def test_a_part_of_every_op() -> None:
    by_op: dict[tuple[str, str, bool], list[suite.Case]] = collections.defaultdict(list)
    for case in suite.all_cases():
        by_op[case.scope, case.op, "expanded" in case.name].append(case)
    counts, faults = _outcomes([c for group in by_op.values() for c in group[:2]])
    assert faults == []
    assert counts["in", REFUSED] == 0
    assert counts["in", PASSED] > 300


@pytest.mark.slow
def test_the_whole_suite() -> None:
    counts, faults = _outcomes(suite.all_cases())
    assert faults == []
    assert counts["in", PASSED] >= 1637
    assert counts["in", PASSED] + counts["in", NEAR] == 1650
    assert counts["stretch", PASSED] >= 213
