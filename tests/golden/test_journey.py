"""Each stage of each sample prints the committed text from the committed text before it: a broken stage is one failing
diff, not seven."""

from __future__ import annotations

from pathlib import Path

import pytest

from tinyir.ir.pipeline import FILTERS, STAGES

from .cases import ROOT, difference
from .journey import printed, samples, source_of, text_of


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("sample", samples(), ids=lambda s: s.name)
def test_stage(sample: Path, stage: str) -> None:
    wanted, given = text_of(sample, stage).read_text(encoding="utf-8"), printed(sample, stage)
    before = source_of(sample) if stage == STAGES[0] else text_of(sample, STAGES[STAGES.index(stage) - 1])
    name = next(f for f, _, writes in FILTERS if writes == stage)
    line = f"bin/{name} < {before.relative_to(ROOT)} | diff {text_of(sample, stage).relative_to(ROOT)} -"
    assert wanted == given, (
        difference(text_of(sample, stage).name, wanted, given) + f"\nrun it:   {line}\nbless it: make bless"
    )
