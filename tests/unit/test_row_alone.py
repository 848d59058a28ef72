"""Rows of 128 KiB that one CTA of 1024 threads keeps, where a cluster of two did: 32 elements of a thread in the 64
registers that such a CTA leaves it."""

from __future__ import annotations

import pytest

from tests.bench.memory_ops import Case, longest_of
from tinyir.lower import lower_to


@pytest.mark.parametrize("op", ["softmax", "rmsnorm", "layernorm"])
def test_one_cta_keeps_a_long_row_and_no_limit_is_told_twice(op: str) -> None:
    chosen, planned = longest_of(Case(op, "fp32", (2048, 32768)), "h200")
    assert (chosen.algo, chosen.threads, chosen.cluster, chosen.tile) == ("row_resident", (1024,), None, (1, 32768))
    assert chosen.estimate is not None and (chosen.estimate.regs, chosen.estimate.occupancy) == (64, 1)
    (kernel,) = lower_to("gpu", planned, "sm90").kernels
    assert kernel.regs == 0  # a CTA of 1024 threads says it


def test_rows_of_half_the_bytes_stay_with_two_ctas() -> None:
    """One CTA alone waits for its loads when it folds, and for them again before the next."""
    chosen, _ = longest_of(Case("softmax", "fp16", (2048, 32768)), "h200")
    assert chosen.threads == (512,)
