"""Who may import whom: the table of docs/design.md as a test. Anything absent is forbidden."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from .sources import ROOT, source_of

PACKAGE = ROOT / "tinyir"
ROOMS = {
    "kit": {"kit"},
    "target": {"kit", "target"},
    "ir": {"kit", "target", "ir"},
    "front": {"kit", "ir", "front"},
    "analysis": {"kit", "target", "ir", "analysis"},
    "kernels": {"kit", "target", "ir", "analysis", "kernels"},
    "lower": {"kit", "target", "ir", "analysis", "kernels", "lower"},
    "play": {"kit", "ir", "play"},
    "runtime": {"kit", "target", "ir", "runtime", "sim", "play"},
    "sim": {"kit", "target", "ir", "sim", "runtime"},
    "tune": {"kit", "ir", "lower", "play", "runtime", "tune"},
    "cmd": {"kit", "target", "ir", "front", "lower", "kernels", "analysis", "play", "runtime", "sim", "tune", "cmd"},
    "api": {"kit", "target", "ir", "front", "lower", "analysis", "runtime"},
    "__init__": {"api"},
    "__main__": {"cmd"},
}
PACKAGES = {
    "lark": {"kit"},
    "rich": {"kit"},
    "islpy": {"analysis", "ir", "kernels", "lower"},
    "numpy": {"ir", "kernels", "lower", "play", "runtime", "sim", "front", "analysis", "tune", "cmd"},
    "onnx": {"front"},
    "pycuda": {"runtime"},
    "cuda": {"runtime"},
    "ml_dtypes": {"ir", "play", "runtime", "front", "sim"},
    "safetensors": {"runtime", "front"},
}
LANGUAGES = ("tiny", "index", "poly", "region", "plan", "gpu", "manifest")
LOWERINGS = ("tiny", "index", "poly", "region", "plan", "gpu", "cu")


def modules() -> list[Path]:
    """Every module of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def imports_of(file: Path) -> list[tuple[str, bool]]:
    """(dotted name, is it at module level) of every import, relative ones made absolute."""
    return [(i.dotted, i.is_at_top) for i in source_of(file).imports]


@pytest.mark.parametrize("file", modules(), ids=lambda f: str(f.relative_to(ROOT)))
def test_a_room_imports_only_its_neighbours(file: Path) -> None:
    parts = file.relative_to(PACKAGE).parts
    room = parts[0] if len(parts) > 1 else file.stem  # what stands beside the rooms has a row of its own
    faults = []
    for name, _ in imports_of(file):
        words = name.split(".")
        if words[0] == "tinyir" and len(words) > 1 and words[1] in ROOMS and words[1] not in ROOMS[room]:
            faults.append(name)
        if words[0] in PACKAGES and room not in PACKAGES[words[0]]:
            faults.append(name)
    assert faults == []


@pytest.mark.parametrize("file", modules(), ids=lambda f: str(f.relative_to(ROOT)))
def test_heavy_packages_are_imported_where_they_are_used(file: Path) -> None:
    lazily = {"rich", "onnx", "pycuda", "cuda", "ml_dtypes", "safetensors", "lark"}
    assert [name for name, top in imports_of(file) if top and name.split(".")[0] in lazily] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_knows_only_the_languages_whose_text_it_contains(language: str) -> None:
    for file in sorted((PACKAGE / "ir").glob(f"{language}.py")) + sorted((PACKAGE / "ir" / language).glob("*.py")):
        later = LANGUAGES[LANGUAGES.index(language) + 1 :]
        names = {n.split(".")[2] for n, _ in imports_of(file) if n.startswith("tinyir.ir.") and len(n.split(".")) > 2}
        assert sorted(names & set(later)) == []


@pytest.mark.parametrize("lowering", LOWERINGS)
def test_a_lowering_knows_no_other_lowering(lowering: str) -> None:
    others = {f"tinyir.lower.{o}" for o in LOWERINGS if o != lowering}
    for file in sorted((PACKAGE / "lower").glob(f"{lowering}.py")) + sorted(
        (PACKAGE / "lower" / lowering).rglob("*.py")
    ):
        assert [n for n, _ in imports_of(file) if ".".join(n.split(".")[:3]) in others] == []


@functools.cache
def names_of(module: str) -> set[str] | frozenset[str] | None:
    """What can be imported from a module of this repository: its submodules and the names that it binds; None when it
    is none."""
    place = ROOT.joinpath(*module.split("."))
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    if not file.is_file():
        return {f.stem for f in place.glob("*")} if place.is_dir() else None
    return source_of(file).bound | ({f.stem for f in place.glob("*")} if place.is_dir() else set())


SCRIPTS = sorted(f for f in (ROOT / "tests").rglob("*.py"))


@pytest.mark.parametrize("file", [*modules(), *SCRIPTS], ids=lambda f: str(f.relative_to(ROOT)))
def test_what_is_imported_of_the_repository_is_there(file: Path) -> None:
    """Also inside functions, and in the scripts that only a machine with a GPU runs."""
    faults = []
    for found in source_of(file).imports:
        if found.name and found.module.split(".")[0] in ("tinyir", "tests"):
            known = names_of(found.module)
            faults += [f"{found.line}: {found.dotted}"] if known is None or found.name not in known | {"*"} else []
    assert faults == []


def test_modules_import_one_another_in_one_direction() -> None:
    """No circle of imports, not even of lazy ones; the package's own `__init__` stands above all and is left out."""
    known = {
        ".".join(f.with_suffix("").relative_to(ROOT).parts).removesuffix(".__init__"): f
        for f in modules()
        if f.parent != PACKAGE or f.stem != "__init__"
    }
    above: dict[str, set[str]] = {}
    for module, file in known.items():
        named = {n if n in known else n.rpartition(".")[0] for n, _ in imports_of(file)}
        above[module] = {n for n in named if n in known and n != module}
    while leaves := {m for m, below in above.items() if not below}:
        above = {m: below - leaves for m, below in above.items() if m not in leaves}
    assert above == {}
