"""A fault that the code names where it raises it has every fact that its sentences use: one that lacks a fact ends the
command with a fault of our own, where the user's should be told."""

from __future__ import annotations

import ast
import string
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "tinyir").rglob("*.py"))
CATALOGUE = tomllib.loads((ROOT / "tinyir" / "explain" / "catalogue.toml").read_text(encoding="utf-8"))
OWN = {"at"}  # parameters of `refuse` that are facts too


def used_by(code: str) -> set[str]:
    """The facts that the sentences of a code use, in English."""
    entry = CATALOGUE[code]
    texts = [entry[part]["en"] for part in ("why", "suggestion") if part in entry]
    return {
        name.partition("[")[0].partition(".")[0]
        for text in texts
        for _, name, _, _ in string.Formatter().parse(text)
        if name
    }


def calls_in(file: Path) -> Iterator[tuple[int, str, set[str]]]:
    """The line, the code and the facts of each `refuse("E...", name=...)` whose facts are all written there."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or getattr(node.func, "id", "") != "refuse" or not node.args:
            continue
        code = node.args[0]
        if isinstance(code, ast.Constant) and isinstance(code.value, str) and all(k.arg for k in node.keywords):
            yield node.lineno, code.value, {k.arg for k in node.keywords if k.arg is not None}


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_a_fault_has_the_facts_of_its_sentences(file: Path) -> None:
    lacking = [(line, code, sorted(used_by(code) - facts - OWN)) for line, code, facts in calls_in(file)]
    assert [each for each in lacking if each[2]] == []


def test_there_are_such_calls() -> None:
    assert sum(1 for file in FILES for _ in calls_in(file)) > 300
