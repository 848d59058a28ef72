"""Every drop-in case prints what is committed beside it, and no committed output is without a case."""

from __future__ import annotations

from pathlib import Path

import pytest

from .cases import GOLDEN, STREAMS, cases, difference, expected, reproduce, run_case


@pytest.mark.parametrize("case", cases(), ids=lambda c: str(c.relative_to(GOLDEN).with_suffix("")))
def test_case(case: Path) -> None:
    wanted, given = expected(case), run_case(case)
    diffs = [difference(case.with_suffix(s).name, wanted.get(s, ""), given.get(s, "")) for s in STREAMS]
    assert wanted == given, "".join(diffs) + f"\nrun it:   {reproduce(case)}\nbless it: make bless"


@pytest.mark.parametrize("case", cases(), ids=lambda c: c.stem)
def test_refused_input_prints_nothing_on_stdout(case: Path) -> None:
    streams = expected(case)
    if streams.get(".code", "") in ("1\n", "70\n"):
        assert ".out" not in streams, "half a program must not reach the next filter"
        assert streams.get(".err"), "an error without words"
    assert "Traceback" not in streams.get(".err", "")


def test_no_orphans() -> None:
    files = [f for s in STREAMS for f in GOLDEN.rglob(f"*{s}")]
    assert [str(f) for f in files if not f.with_suffix(".case").exists()] == []
