"""The journey of each sample: NAME.json and its text at every stage, each the golden output of one stage and the input
of the next."""

from __future__ import annotations

from pathlib import Path

from tinyir import front
from tinyir.ir.pipeline import STAGES
from tinyir.lower import language_of, lower_to

from .cases import SAMPLES


def samples() -> list[Path]:
    """The folder of every sample."""
    return sorted(p.parent for p in SAMPLES.glob("*/*.json"))


def source_of(sample: Path) -> Path:
    """The model that a sample's journey begins with."""
    return sample / f"{sample.name}.json"


def text_of(sample: Path, stage: str) -> Path:
    """The committed text of a stage."""
    return sample / f"{sample.name}.{stage}"


def printed(sample: Path, stage: str) -> str:
    """The text of `stage` as the code prints it from the committed text of the stage before."""
    if stage == STAGES[0]:
        module = front.read(source_of(sample).read_text(encoding="utf-8"), str(source_of(sample)))
    else:
        before = STAGES[STAGES.index(stage) - 1]
        module = lower_to(stage, language_of(before).parse(text_of(sample, before).read_text(encoding="utf-8")), "sm90")
    return language_of(stage).show(module)


def bless(sample: Path) -> None:
    """Rewrite a sample's texts in order, each from the one before."""
    for stage in STAGES:
        text_of(sample, stage).write_text(printed(sample, stage), encoding="utf-8")
