"""Who may import whom: the table of docs/design.md as a test. Anything absent is forbidden."""

from __future__ import annotations

import functools
import re
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
    "lower": {"kit", "target", "ir", "analysis", "kernels", "play", "lower"},
    "play": {"kit", "ir", "play"},
    "runtime": {"kit", "target", "ir", "runtime", "sim", "play"},
    "sim": {"kit", "target", "ir", "sim", "runtime"},
    "tune": {"kit", "ir", "lower", "play", "runtime", "tune"},
    "host": {"kit", "ir", "lower", "play", "runtime", "host"},
    "certificate": {"kit", "ir", "certificate"},
    "verifier": {"verifier"},
    "reference": {"kit", "ir", "front", "kernels", "reference"},
    "lsp": {"kit", "ir", "front", "lower", "reference", "lsp"},
    "view": {"kit", "target", "ir", "analysis", "kernels", "runtime", "view"},
    "cmd": {
        *("kit", "target", "ir", "front", "lower", "kernels", "analysis", "play", "runtime", "sim", "tune"),
        *("reference", "view", "lsp", "host", "certificate", "verifier", "cmd"),
    },
    "dynamo": {"kit", "ir", "front", "play", "runtime", "api", "dynamo"},
    "api": {"kit", "target", "ir", "front", "lower", "analysis", "runtime", "view"},
    "__init__": {"api"},
    "__main__": {"cmd", "kit"},
}
PACKAGES = {
    "lark": {"kit"},
    "rich": {"kit"},
    "shtab": {"kit"},
    "pygls": {"lsp"},
    "lsprotocol": {"lsp"},
    "pygments": {"reference"},
    "islpy": {"analysis", "ir", "kernels", "lower"},
    "torch": {"dynamo"},
    "functorch": {"dynamo"},
    "numpy": {
        "kit",
        "dynamo",
        "host",
        "ir",
        "kernels",
        "lower",
        "play",
        "runtime",
        "sim",
        "front",
        "analysis",
        "tune",
        "cmd",
    },
    "onnx": {"front"},
    "pycuda": {"runtime"},
    "cuda": {"runtime"},
    "ml_dtypes": {"ir", "play", "runtime", "front", "sim"},
    "safetensors": {"runtime", "front"},
}
LANGUAGES = ("tiny", "index", "poly", "region", "plan", "gpu", "manifest")
CONTAINS = {  # the languages whose text a language's text contains
    "tiny": set(),
    "index": {"tiny"},
    "poly": {"tiny", "index"},
    "region": set(),
    "plan": {"region"},
    "gpu": {"region", "plan"},
    "manifest": {"region"},
}
LOWERINGS = ("tiny", "index", "poly", "region", "plan", "gpu", "cu")
KERNELS = PACKAGE / "kernels"
FAMILIES = tuple(sorted(f.parent.name for f in KERNELS.glob("*/__init__.py") if "cases_of" in source_of(f).bound))


def modules() -> list[Path]:
    """Every module of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def imports_of(file: Path) -> list[tuple[str, bool]]:
    """(dotted name, is it at module level) of every import, relative ones made absolute."""
    return [(i.dotted, i.is_at_top) for i in source_of(file).imports]


def test_the_design_has_the_same_table() -> None:
    page = (
        (ROOT / "docs/design.md")
        .read_text(encoding="utf-8")
        .partition("## Who may import whom")[2]
        .partition("\n## ")[0]
    )
    rows = {
        room: re.split("[:;]", said)[0] for room, said in re.findall(r"^\| (\w+) \| ([^|]*) \|", page, re.MULTILINE)
    }
    del rows["room"]
    found = {room: set(said.split(", ")) - {"nothing"} for room, said in rows.items()}
    assert found == {room: known - {room} for room, known in ROOMS.items() if not room.startswith("__")}


@pytest.mark.parametrize("file", modules(), ids=lambda f: str(f.relative_to(ROOT)))
def test_a_room_imports_only_its_neighbours(file: Path) -> None:
    parts = file.relative_to(PACKAGE).parts
    room = parts[0] if len(parts) > 1 else file.stem  # what is beside the rooms has a row of its own
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
    lazily = {"torch", "functorch", "rich", "shtab", "onnx", "pycuda", "cuda", "ml_dtypes", "safetensors", "lark"}
    assert [name for name, top in imports_of(file) if top and name.split(".")[0] in lazily] == []


def unit_of(file: Path, room: Path) -> str:
    """The module or the package right below a room that a file is of."""
    return file.relative_to(room).parts[0].removesuffix(".py")


def units_below(room: Path) -> dict[str, set[str]]:
    """For each module or package right below a room, the others there that it imports, over any number of steps."""
    prefix, found = f"tinyir.{room.name}.", {}
    for file in sorted(room.rglob("*.py")):
        named = {name.split(".")[2] for name, _ in imports_of(file) if name.startswith(prefix)}
        found.setdefault(unit_of(file, room), set()).update(named)
    for through in found:  # one more unit may be passed at each turn
        for names in found.values():
            names |= found[through] if through in names else set()
    return found


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_knows_only_the_languages_whose_text_it_contains(language: str) -> None:
    """Not even through the modules of `ir` that belong to no language."""
    assert units_below(PACKAGE / "ir")[language] & set(LANGUAGES) - {language} <= CONTAINS[language]


def test_languages_know_no_family() -> None:
    """The plan language knows what a field is, gpu text what a statement is; neither names a family's folder or asks
    for an algo. `headline`, what tables print of a plan, is the one reader of the field."""
    from tinyir.kernels import FAMILIES as families

    algos = {family.algo for family in families}
    asked = {f.name: algos & source_of(f).compared for f in modules() if "kernels" not in f.parts}
    assert {name: words for name, words in asked.items() if words} == {"render.py": {"plain"}}  # a form of messages
    assert [
        str(f.relative_to(ROOT)) for f in modules() if "kernels" not in f.parts and "algo" in source_of(f).attributes
    ] == ["tinyir/ir/plan/fields.py"]


@pytest.mark.parametrize("file", modules(), ids=lambda f: str(f.relative_to(ROOT)))
def test_no_family_is_imported_but_by_the_list_of_them(file: Path) -> None:
    own = unit_of(file, KERNELS) if KERNELS in file.parents else ""
    named = {name.split(".")[2] for name, _ in imports_of(file) if name.startswith("tinyir.kernels.")}
    assert named & set(FAMILIES) - {own} <= (set(FAMILIES) if file == KERNELS / "__init__.py" else set())


def test_the_list_of_families_has_every_folder() -> None:
    listed = {i.name for i in source_of(KERNELS / "__init__.py").imports}
    assert set(FAMILIES) <= listed


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
    """No circle of imports, not even of lazy ones; the package's own `__init__` is above all and is left out."""
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
