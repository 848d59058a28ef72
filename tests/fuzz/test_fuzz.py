"""No input brings a command down, and no program is refused or computed wrongly: a small share of what `make fuzz`
tries, always the same one, and what it has found once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tinyir.sim.host import COMPILERS

from . import cases, programs, runs, sandbox

needs_host_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
QUICK = {"texts": 230, "onnx": 70, "pt2": 30, "programs": 50}
ALL = {"texts": 10_000, "onnx": 2_000, "pt2": 1_000, "programs": 1_000}


def ended_badly(stream: str, numbers: range, folder: Path) -> list[str]:
    run, _ = runs.STREAMS[stream]
    return [str(find) for find in run(numbers, folder) if find is not None]


@needs_host_compiler
@pytest.mark.parametrize("stream", runs.STREAMS)
def test_nothing_ends_badly(stream: str, tmp_path: Path) -> None:
    assert ended_badly(stream, range(QUICK[stream]), tmp_path) == []


@needs_host_compiler
@pytest.mark.slow
@pytest.mark.parametrize("stream", runs.STREAMS)
def test_nothing_of_thousands_ends_badly(stream: str, tmp_path: Path) -> None:
    assert ended_badly(stream, range(QUICK[stream], ALL[stream]), tmp_path) == []


@pytest.mark.parametrize("number", [598714862171, 601000002553])
def test_programs_are_of_sizes_that_they_take(number: int) -> None:
    """Pieces that are cut from symbolic axes narrow ranges, those of dropped steps do not."""
    ranges = runs.program_of(number).module.model.ranges
    assert all(one.low <= programs.SIZES[one.symbol] <= one.high for one in ranges)


def test_a_text_that_ends_badly_is_found_among_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent, right = os.getpid(), sandbox._called

    def called(command: str, arguments: Sequence[str], text: bytes) -> int:
        code = right("tiny-check", (), b"")
        return 70 if os.getpid() != parent and b"reduce" in text else code

    monkeypatch.setattr(sandbox, "_called", called)
    together = [find is not None for find in runs.texts(range(60), tmp_path)]
    monkeypatch.setattr(runs, "BESIDE", 1)
    assert together == [find is not None for find in runs.texts(range(60), tmp_path)]
    assert 0 < sum(together) < len(together)


@needs_host_compiler
@pytest.mark.parametrize("folder", sorted(p.name for p in cases.FINDS.glob("*")))
def test_what_was_found_once_stays_right(folder: str) -> None:
    assert cases.repeat(cases.FINDS / folder) == ""
