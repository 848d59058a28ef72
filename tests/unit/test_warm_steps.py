"""What compiling one kernel costs, in calls, where another of its kind was compiled before at other sizes: what is
worked out for a launch again, for each statement, or for the whole library of device functions, shows here."""

from __future__ import annotations

import pytest

from tests.bench.units import SAMPLES, WARM, compiled, with_sizes

from .effort import counted

LIMITS = {
    "one GEMM": 158,
    "one 3x3 convolution": 644,
    "one attention": 727,
}  # thousands of calls, a tenth more than counted


@pytest.mark.parametrize("name", WARM)
def test_a_warm_compilation_keeps_within_its_limit(name: str) -> None:
    sample, first, then = WARM[name]
    text = (SAMPLES / sample / f"{sample}.json").read_text(encoding="utf-8")
    compiled(with_sizes(text, first))
    calls, _ = counted(compiled, with_sizes(text, then))
    assert calls <= 1000 * LIMITS[name]
