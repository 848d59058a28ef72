"""Taste as tests: docstrings, names, sizes, words that do not belong, and the four verbs at every border."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from tinyir.ir.pipeline import FILTERS, STAGES, language_of

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tinyir"
MODULES = sorted(PACKAGE.rglob("*.py"))
MOST_LINES = 400
EMPTY_WORDS = {"util", "utils", "helper", "helpers", "common", "misc", "manager", "data", "info", "handle", "process"}


def _public(tree: ast.Module) -> list[ast.AST]:
    kinds = (ast.FunctionDef, ast.ClassDef)
    top = [n for n in tree.body if isinstance(n, kinds)]
    methods = [m for c in top if isinstance(c, ast.ClassDef) and not c.name.startswith("_") for m in c.body if isinstance(m, ast.FunctionDef)]
    return [n for n in top + methods if not n.name.startswith("_")]


@pytest.mark.parametrize("file", MODULES, ids=lambda f: str(f.relative_to(ROOT)))
def test_public_names_have_docstrings(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    missing = [n.name for n in _public(tree) if not ast.get_docstring(n)]
    assert missing == []
    assert ast.get_docstring(tree) or not tree.body, "a module begins by saying what it is"


@pytest.mark.parametrize("file", MODULES, ids=lambda f: str(f.relative_to(ROOT)))
def test_names_say_something(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    names = [file.stem, *(n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef)))]
    assert [n for n in names if EMPTY_WORDS & set(re.sub(r"([a-z])([A-Z])", r"\1_\2", n).lower().split("_"))] == []


@pytest.mark.parametrize("file", MODULES, ids=lambda f: str(f.relative_to(ROOT)))
def test_files_stay_readable(file: Path) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= MOST_LINES, "more than one subject lives here"
    assert [i for i, line in enumerate(lines, 1) if len(line) > 240] == []


@pytest.mark.parametrize("file", MODULES, ids=lambda f: str(f.relative_to(ROOT)))
def test_no_input_is_ever_executed(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    called = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    assert called & {"eval", "exec", "__import__"} == set()
    assert imported & {"pickle", "marshal", "shelve"} == set()
    assert "shell=True" not in file.read_text(encoding="utf-8")


@pytest.mark.parametrize("stage", STAGES)
def test_every_language_speaks_the_verbs(stage: str) -> None:
    language = language_of(stage)
    for verb in ("parse", "show", "check"):
        assert callable(getattr(language, verb)), f"{stage} has no {verb}"
    assert language.check.__doc__ and "1." in language.check.__doc__, "check lists its invariants"


@pytest.mark.parametrize("name", [name for name, _, _ in FILTERS])
def test_every_filter_has_a_shim_and_a_command(name: str) -> None:
    assert (ROOT / "bin" / name).stat().st_mode & 0o111
    assert (PACKAGE / "cmd" / f"{name.replace('-', '_')}.py").exists()


def test_no_tracked_text_speaks_of_the_place_where_it_was_written() -> None:
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    places = re.compile(r"(?<![\w.])/(?:work|root|farm)/|\.\./shared\b")
    own = "tests/tidy/test_taste.py"
    assert [f for f in files if f != own and (ROOT / f).is_file() and places.search((ROOT / f).read_text(encoding="utf-8", errors="ignore"))] == []
