"""Every committed text of a stage is canonical: show(parse(text)) == text, parse(show(module)) == module, and it holds
its invariants."""

from __future__ import annotations

from pathlib import Path

import pytest

from tinyir.ir.pipeline import STAGES
from tinyir.lower import language_of

from .cases import GOLDEN, ROOT, SAMPLES, difference


def texts() -> list[Path]:
    """Every committed IR text outside the case files."""
    return sorted(f for folder in (SAMPLES, GOLDEN / "design") for stage in STAGES for f in folder.rglob(f"*.{stage}"))


@pytest.mark.parametrize("file", texts(), ids=lambda f: f.name)
def test_round_trip(file: Path) -> None:
    language = language_of(file.suffix[1:])
    text = file.read_text(encoding="utf-8")
    module = language.parse(text)
    assert language.show(module) == text, difference(str(file.relative_to(ROOT)), text, language.show(module))
    assert language.parse(language.show(module)) == module
    assert [d for d in language.check(module) if d.is_error] == []


def test_every_language_has_a_design_example() -> None:
    found = {f.suffix[1:] for f in texts() if f.parent.name == "design"}
    assert {"index", "region", "plan", "gpu"} <= found
