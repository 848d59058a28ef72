"""No input brings a command down: mutated texts and models end with 0, 1 or 2, in time and within memory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from .fuzz import GOOD, Run, model_runs, place_of, text_runs

LIMIT = 60  # seconds of CPU: a run that ends at all ends within a few, on any machine


def ended_badly(runs: Iterable[Run]) -> list[str]:
    return [
        f"run {number}: {' '.join(line)}: {place_of(ending)}"
        for number, line, _, ending in runs
        if ending.code not in GOOD
    ]


def test_mutated_texts_over_all_commands() -> None:
    assert ended_badly(text_runs(range(230), LIMIT)) == []


def test_mutated_models(tmp_path: Path) -> None:
    assert ended_badly(model_runs(range(70), tmp_path, LIMIT)) == []


@pytest.mark.slow
def test_ten_thousand_mutated_texts() -> None:
    assert ended_badly(text_runs(range(230, 10_000), LIMIT)) == []


@pytest.mark.slow
def test_two_thousand_mutated_models(tmp_path: Path) -> None:
    assert ended_badly(model_runs(range(70, 2_000), tmp_path, LIMIT)) == []
