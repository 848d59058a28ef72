"""What docs/design.md and docs/extending.md name is there: each path, each module, each name of one."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

from .sources import ROOT, source_of

PACKAGE = ROOT / "tinyir"
PAGES = ("design", "extending")
FROM = (ROOT, PACKAGE, PACKAGE / "kernels", PACKAGE / "front")  # where a path of these pages begins
WORD = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+/?")
DOTTED = re.compile(r"[a-z_]\w*(?:\.\w+)+|[A-Z]\w*\.[a-z_]\w*")
FILES = (".py", ".toml", ".md", ".lark")
PLACEHOLDERS = {"X", "NAME", "torch"}  # for any language, for any case, and not ours
MADE = re.compile(r"^```\w+ (\S+)$", re.MULTILINE)  # a file that a worked example makes


def words_of(page: str) -> list[str]:
    """What a page has between backticks, but for what a call is given; its worked examples are other tests'."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    made = PLACEHOLDERS | {part for path in MADE.findall(text) for part in Path(path).with_suffix("").parts}
    return [
        w for w in (found.partition("(")[0] for found in WORD.findall(prose)) if not made & set(re.split("[./]", w))
    ]


@functools.cache
def members() -> dict[str, frozenset[str]]:
    """For each class of the package the names that its files bind or are asked for."""
    found: dict[str, frozenset[str]] = {}
    for file in PACKAGE.rglob("*.py"):
        source = source_of(file)
        names = source.bound | set(source.defined) | set(source.members)
        found |= {name: found.get(name, frozenset()) | names for name in source.defined if name[0].isupper()}
    return found


def is_there(word: str) -> bool:
    """Whether a path, a module or a name of a class or of a module exists."""
    if Path(word).suffix in FILES:
        return any((place / word).exists() for place in FROM) or "/" not in word and any(PACKAGE.rglob(word))
    if "/" in word:
        path, _, name = word.partition(".")
        files = [(place / path).with_suffix(".py") for place in FROM]
        return any(f.with_suffix("").exists() or f.exists() and _binds(f, name) for f in files)
    first, _, rest = word.partition(".")
    if first in members():
        return rest in members()[first]
    *parts, last = word.split(".")
    for start in (*FROM, PACKAGE / "ir"):
        for place in (start.joinpath(*parts, last), start.joinpath(*parts)):
            if place.is_dir() or place.with_suffix(".py").exists():
                file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
                return place.name == last or _binds(file, last)
    return False


def _binds(file: Path, name: str) -> bool:
    return not name or name in source_of(file).bound or name in source_of(file).defined


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_is_there(page: str) -> None:
    named = {w for w in words_of(page) if PATH.fullmatch(w) or DOTTED.fullmatch(w)}
    assert len(named) > 5
    assert sorted(w for w in named if not is_there(w)) == []


def test_the_map_has_every_room() -> None:
    text = (ROOT / "docs/design.md").read_text(encoding="utf-8").partition("    tinyir/\n")[2].partition("\n\n")[0]
    drawn = {line.split()[0].rstrip("/") for line in text.splitlines() if re.match(r" {6}\S", line)}
    rooms = {f.name for f in PACKAGE.iterdir() if f.is_dir() or f.suffix == ".py"}
    assert drawn == {name for name in rooms if not name.startswith("__")}
