"""`python -m tests.fuzz.mutants` as it is run, on a few; and what is said to mean the same does."""

from __future__ import annotations

import re
import shutil

import pytest

from tests.unit.families import family
from tinyir.sim.host import COMPILERS

from . import harmless, mutants

needs_host_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")


@needs_host_compiler
def test_a_few_mutants_of_each_level_are_tried_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    count = len(mutants.LEVELS)
    mutants.main(["--count", str(count), "--jobs", "1"])
    said = capsys.readouterr().out
    assert "not by the contract" not in said
    counted = [int(number) for number in re.findall(r"^ *(\d+) (?:gpu|plan|cu) ", said, re.MULTILINE)]
    assert 0 < sum(counted) <= count
    assert re.search(r"^\d+ of \d+ faults found, [\d.]+ %$", said, re.MULTILINE)


@pytest.mark.parametrize(
    "case, before, after, is_same",
    [
        ("hopper cut", "col + 3 < N", "col + 3 < N + 1", True),  # columns come in fours, and N is a multiple of four
        ("hopper cut", "col + 3 < N", "col + 3 < N + 4", False),
        ("hopper cut", "row < M", "row < M + 1", False),
        ("hopper bytes in turn", "for k in 0..steps step 2", "for k in 1..steps step 2", True),  # steps are even
        ("hopper bytes in turn", "for k in 0..steps step 2", "for k in 2..steps step 2", False),
        ("hopper bytes in turn", "let m0 = 64*tm", "let m0 = 65*tm", False),
        ("hopper windows of points", "let n0 = 64*tn", "let n0 = 65*tn", True),  # there is one tile of columns
        ("hopper padded in pieces", "if warpgroup.thread < 64", "if warpgroup.thread < 65", True),  # nobody reads it
    ],
)
def test_what_means_the_same_is_proven(case: str, before: str, after: str, is_same: bool) -> None:
    right = family(case).kernels
    assert before in right
    assert harmless.is_same(right, right.replace(before, after, 1)) is is_same


def test_what_is_listed_is_a_line_of_a_case() -> None:
    """A reason whose line is gone goes too."""
    for level, its_case, _, before, _, _ in harmless.LISTED:
        cases = [family(case) for case in mutants.CASES if its_case in case]
        texts = ((one.text if level == "cu" else one.kernels).split("\n") for one in cases)
        assert any(harmless.is_line(before, lines, at) for lines in texts for at in range(len(lines))), before


@pytest.mark.parametrize(
    "case, rule, before, after, are",
    [  # a line that is there more than once, and of which times no result can show that it is another
        ("flash of a chunk", "lanes in a fold", "lanes = 2; lanes > 0; lanes /= 2) top", "lanes = 2; lanes > 1;", [1]),
        ("flash by a warp", "fence lost", "  wgmma_fence();", "  ;", [2, 4]),
    ],
)
def test_what_is_listed_may_be_a_line_where_it_is(
    case: str, rule: str, before: str, after: str, are: list[int]
) -> None:
    right = family(case).text
    places = [found.start() for found in re.finditer(re.escape(before), right)]
    texts = [right[:at] + after + right[at + len(before) :] for at in places]
    assert [n for n, text in enumerate(texts) if harmless.reason_of("cu", case, rule, right, text)] == are
