"""What a timing says; the timing itself needs a GPU (tests/gpu)."""

from __future__ import annotations

import pytest

from tinyir.runtime.bench import Timing, _quantile


def test_rates_and_share_follow_from_the_median() -> None:
    timing = Timing(1e-3, 0.9e-3, 1.2e-3, 100, 2 * 10**12, 3 * 10**9, "cold L2, launched")
    assert timing.tflops == pytest.approx(2000) and timing.gbs == pytest.approx(3000)
    assert timing.share_of(4000, 3350) == pytest.approx(3000 / 3350)
    assert timing.share_of(2500, 33500) == pytest.approx(0.8)
    assert (
        str(timing)
        == "median 1000.00 us (p10 900.00 p90 1200.00, 100 runs, cold L2, launched)  2000.0 TFLOP/s  3000.0 GB/s"
    )


def test_unknown_counts_give_no_rates() -> None:
    timing = Timing(1e-3, 1e-3, 1e-3, 20, None, None, "cold L2, launched")
    assert timing.tflops is None and timing.gbs is None and timing.share_of(1, 1) is None


def test_quantiles_interpolate() -> None:
    assert _quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.5
    assert _quantile([7.0], 0.9) == 7.0
