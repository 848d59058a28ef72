"""Taste as tests: docstrings, names, sizes, words that do not belong, and the four verbs at every border."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tinyir.ir.pipeline import FILTERS, STAGES, language_of

from .sources import ROOT, source_of

PACKAGE = ROOT / "tinyir"
MODULES = sorted(PACKAGE.rglob("*.py"))
MOST_LINES = 500
MOST_STATEMENTS = 71_588  # of the whole package; only a commit that says why raises it
EMPTY_WORDS = {"util", "utils", "helper", "helpers", "common", "misc", "manager", "data", "info", "handle", "process"}


@pytest.mark.parametrize("file", MODULES, ids=lambda f: str(f.relative_to(ROOT)))
def test_public_names_have_docstrings(file: Path) -> None:
    assert source_of(file).undocumented == ()
    assert not source_of(file).is_undocumented, "a module begins by saying what it is"


@pytest.mark.parametrize("file", MODULES, ids=lambda f: str(f.relative_to(ROOT)))
def test_names_say_something(file: Path) -> None:
    names = [file.stem, *source_of(file).defined]
    assert [n for n in names if EMPTY_WORDS & set(re.sub(r"([a-z])([A-Z])", r"\1_\2", n).lower().split("_"))] == []


@pytest.mark.parametrize("file", MODULES, ids=lambda f: str(f.relative_to(ROOT)))
def test_files_stay_readable(file: Path) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= MOST_LINES, "more than one subject lives here"


def test_the_package_gets_no_larger() -> None:
    """Statements, not lines: what a line packs counts as well. New code takes the place of code that it makes
    unneeded."""
    assert sum(source_of(file).statements for file in MODULES) <= MOST_STATEMENTS


@pytest.mark.parametrize("file", MODULES, ids=lambda f: str(f.relative_to(ROOT)))
def test_names_are_listed_only_where_a_package_passes_them_on(file: Path) -> None:
    """A module's public names are those that begin with no underscore; `__all__` says which imported ones are too."""
    source = source_of(file)
    assert not source.listed or source.listed & {i.name for i in source.imports} or file.parent == PACKAGE


@pytest.mark.parametrize("file", MODULES, ids=lambda f: str(f.relative_to(ROOT)))
def test_no_input_is_ever_executed(file: Path) -> None:
    called, imported = source_of(file).called, {i.module for i in source_of(file).imports if not i.name}
    # `kit.records` writes `__init__` of the names of fields, as the standard library's dataclasses do
    own = {"exec"} if file.name == "records.py" else set()
    assert called & {"eval", "exec", "__import__"} == own
    assert imported & {"pickle", "marshal", "shelve"} == set()
    assert "shell=True" not in file.read_text(encoding="utf-8")


def test_what_is_defined_is_used() -> None:
    """By name: an import, an attribute or a string somewhere. pytest finds tests, what they are given, and what makes
    it; the class of a made-up library in a test has members that it is asked for by name of the library."""
    files = [file for room in ("tinyir", "tests", "docs", "supply") for file in (ROOT / room).rglob("*.py")]
    sources = {file: source_of(file) for file in files}
    imported = {i.dotted for source in sources.values() for i in source.imports}
    named = frozenset().union(*(source.attributes | source.strings for source in sources.values()))
    found = []
    for file, source in sources.items():
        at = file.relative_to(ROOT).with_suffix("")
        module = ".".join(at.parts).removesuffix(".__init__")
        is_ours = at.parts[0] == "tinyir"
        found += [
            f"{at}: {name}"
            for name in (*source.idle, *(source.members if is_ours else ()))
            if name not in named and f"{module}.{name}" not in imported
            if is_ours or not name.startswith(("test_", "pytest"))
        ]
    assert found == []


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
    assert [
        f
        for f in files
        if f != own and (ROOT / f).is_file() and places.search((ROOT / f).read_text(encoding="utf-8", errors="ignore"))
    ] == []
