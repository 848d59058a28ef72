"""What users read has none of the turns of phrase that make prose read as a translation."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tinyir.kit.diag import catalogue
from tinyir.kit.phrase import phrases

from .sources import ROOT

BANNED = re.compile(
    r"(?<!there )\bis no\b(?! longer)|\bat hand\b|\bmend(?:s|ed|ing)?\b|\bin front\b(?!-)|\bstands?\b|\blies?\b"
    r"|\bso many\b",
    re.IGNORECASE,
)
PAGES = sorted(
    [
        ROOT / "README.md",
        *(p for p in (ROOT / "docs").rglob("*.md") if "ja" not in p.parts),
        *(ROOT / "samples").rglob("*.md"),
        *(ROOT / "tinyir" / "explain").glob("*.md"),
    ]
)
COMMANDS = sorted([*(ROOT / "tinyir" / "cmd").glob("*.py"), ROOT / "tinyir" / "kit" / "cli.py"])


def banned_in(text: str) -> list[str]:
    """The banned turns of phrase in a text, each with what is around it."""
    return [text[max(0, m.start() - 30) : m.end() + 30] for m in BANNED.finditer(text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda f: str(f.relative_to(ROOT)))
def test_pages(page: Path) -> None:
    assert banned_in(page.read_text(encoding="utf-8")) == []


def test_messages() -> None:
    told = [s for e in catalogue().values() for s in (e["kind"], e["why"]["en"], e.get("suggestion", {}).get("en", ""))]
    assert banned_in("\n".join(told)) == []
    assert banned_in("\n".join(phrases())) == []


@pytest.mark.parametrize("file", COMMANDS, ids=lambda f: f.name)
def test_help(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    words = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    assert banned_in("\n".join(words)) == []
