"""What users and readers of the code read has none of the turns of phrase that make prose read as a translation."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tinyir.kit.diag import catalogue
from tinyir.kit.phrase import phrases

from .sources import ROOT

BANNED = re.compile(
    r"(?<!there )\bis\s+no\b(?!\s+longer)|\bat\s+hand\b|\bmend(?:s|ed|ing)?\b|\bin\s+front\b(?!-)|\bstands?\b|\bstood\b"
    r"|\blies?\b|\bso\s+many\b|\ba\s+(?:tile|thread|warp|cluster)\s+an?\s+\w+|\ban?\s+\w+\s+an?\s+(?:CTA|warp|row)\b",
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
FOLDERS = sorted(
    folder for room in (ROOT / "tinyir", ROOT / "tests") for folder in (room, *room.rglob("*")) if folder.is_dir()
)
MARKS = {".py": "#", ".lark": "//", ".toml": "#", ".h": "//", ".hpp": "//", ".cpp": "//"}  # where a comment begins
SPEAK_OF_THEM = [Path(__file__)]


def banned_in(text: str) -> list[str]:
    """The banned turns of phrase in a text, each with what is around it."""
    return [text[max(0, m.start() - 30) : m.end() + 30] for m in BANNED.finditer(text)]


def _docstrings(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield ast.get_docstring(node) or ""


def _comments(file: Path, source: str) -> Iterator[str]:
    """The comments of a file; those of neighbouring lines are one."""
    mark = MARKS[file.suffix]
    if file.suffix == ".py":
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        found = [(t.start[0], t.string) for t in tokens if t.type == tokenize.COMMENT]
    else:
        lines = enumerate(source.splitlines(), start=1)
        found = [(n, line[line.index(mark) :]) for n, line in lines if re.search(rf"(?:^|\s){mark}", line)]
    text, last = "", 0
    for line, comment in found:
        text += ("\n\n" if line > last + 1 else " ") + comment.lstrip(mark)
        last = line
    yield from text.split("\n\n")


def prose_of(file: Path) -> list[str]:
    """What a file says to who reads its code: comments and docstrings."""
    source = file.read_text(encoding="utf-8")
    return [*_comments(file, source), *(_docstrings(source) if file.suffix == ".py" else ())]


@pytest.mark.parametrize("page", PAGES, ids=lambda f: str(f.relative_to(ROOT)))
def test_pages(page: Path) -> None:
    assert banned_in(page.read_text(encoding="utf-8")) == []


def test_messages() -> None:
    told = [s for e in catalogue().values() for s in (e["kind"], e["why"]["en"], e.get("suggestion", {}).get("en", ""))]
    assert banned_in(" | ".join(told)) == []
    assert banned_in(" | ".join(phrases())) == []


@pytest.mark.parametrize("file", COMMANDS, ids=lambda f: f.name)
def test_help(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    words = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    assert banned_in("\n".join(words)) == []


@pytest.mark.parametrize("folder", [*FOLDERS, ROOT / "grammars"], ids=lambda f: str(f.relative_to(ROOT)))
def test_comments_and_docstrings(folder: Path) -> None:
    files = sorted(f for f in folder.iterdir() if f.suffix in MARKS and f not in SPEAK_OF_THEM)
    assert [(f.name, found) for f in files for text in prose_of(f) for found in banned_in(text)] == []


def test_what_is_read_of_a_file(tmp_path: Path) -> None:
    source = 'def f():\n    """It stands\n    here."""\n    x = "it lies"  # at\n    # hand\n    return x\n'
    (tmp_path / "a.py").write_text(source, encoding="utf-8")
    (tmp_path / "a.lark").write_text('// so\n// many\nrule: "lies" // what "stands" for\n', encoding="utf-8")
    assert [len(banned_in(text)) for text in prose_of(tmp_path / "a.py")] == [0, 1, 0, 1]
    assert sum(len(banned_in(text)) for text in prose_of(tmp_path / "a.lark")) == 2
