"""What the documents show is what the code prints: a marked block is a part of the committed text that its mark
names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.bench import tables
from tinyir.certificate import Draft
from tinyir.ir import gpu
from tinyir.ir.pipeline import FILTERS, STAGES

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LANGUAGES = (ROOT / "docs" / "languages.md").read_text(encoding="utf-8")
SAMPLE_BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, re.M | re.S)
MARKED_BLOCKS = re.findall(r"^```(\w+) (\w+)\n(.*?)^```", LANGUAGES, re.M | re.S)
DESIGN_BLOCKS = [block for block in MARKED_BLOCKS if block[0] in STAGES]
CERTIFICATE_BLOCKS = [(sample, block) for word, sample, block in MARKED_BLOCKS if word == "cert"]
REPORT_BLOCKS = [block for block in MARKED_BLOCKS if block[0] not in (*STAGES, "cert")]


@pytest.mark.parametrize("stage, block", SAMPLE_BLOCKS, ids=[s for s, _ in SAMPLE_BLOCKS])
def test_a_block_is_part_of_the_sample(stage: str, block: str) -> None:
    assert stage in STAGES
    assert block in (ROOT / "samples" / "gemm_bias_relu" / f"gemm_bias_relu.{stage}").read_text(encoding="utf-8")


@pytest.mark.parametrize("stage, design, block", DESIGN_BLOCKS, ids=[f"{d}.{s}" for s, d, _ in DESIGN_BLOCKS])
def test_a_block_is_part_of_the_design(stage: str, design: str, block: str) -> None:
    assert block in (ROOT / "tests" / "golden" / "design" / f"{design}.{stage}").read_text(encoding="utf-8")


@pytest.mark.parametrize("word, case, block", REPORT_BLOCKS, ids=[c for _, c, _ in REPORT_BLOCKS])
def test_a_block_is_part_of_a_report(word: str, case: str, block: str) -> None:
    assert word == "report"
    assert block in (ROOT / "tests" / "golden" / "check" / f"report_{case}.out").read_text(encoding="utf-8")


@pytest.mark.parametrize("sample, block", CERTIFICATE_BLOCKS, ids=[s for s, _ in CERTIFICATE_BLOCKS])
def test_a_block_is_part_of_a_certificate(sample: str, block: str) -> None:
    text = (ROOT / "samples" / sample / f"{sample}.gpu").read_text(encoding="utf-8")
    assert block in Draft(gpu.parse(text)).show("")


def test_every_filter_and_stage_is_introduced() -> None:
    assert {s for s, _ in SAMPLE_BLOCKS} == set(STAGES)
    assert [name for name, _, _ in FILTERS if f"**{name}**" not in README] == []


def test_every_design_is_shown() -> None:
    assert {f.stem for f in (ROOT / "tests" / "golden" / "design").iterdir()} == {d for _, d, _ in DESIGN_BLOCKS}


@pytest.mark.parametrize("path, text", tables.written().items(), ids=tables.DOCUMENTS)
def test_tables_are_made_of_the_results(path: str, text: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == text
    assert set(tables.MARKED.findall(text)), path
