"""What the README shows is what the code prints: every block marked with a stage stands in the sample's committed text of that stage."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tinyir.ir.pipeline import FILTERS, STAGES

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, re.M | re.S)


@pytest.mark.parametrize("stage, block", BLOCKS, ids=[s for s, _ in BLOCKS])
def test_a_block_is_part_of_the_sample(stage: str, block: str) -> None:
    assert stage in STAGES
    assert block in (ROOT / "samples" / "gemm_bias_relu" / f"gemm_bias_relu.{stage}").read_text(encoding="utf-8")


def test_every_filter_and_stage_is_introduced() -> None:
    assert {s for s, _ in BLOCKS} == set(STAGES)
    assert [name for name, _, _ in FILTERS if f"**{name}**" not in README] == []
