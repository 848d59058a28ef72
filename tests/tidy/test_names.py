"""What the scripts of the tests take from modules of the project is there: measurements, the farm and the scripts for a
GPU are not run with the suite, and a name that a change took away would be found too late."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("bench", "faults", "fuzz", "gpu", "models")
SCRIPTS = sorted(f for folder in FOLDERS for f in (ROOT / "tests" / folder).rglob("*.py"))
OWN = ("tinyir", "tests")


def module_of(name: str) -> ModuleType | None:
    """The module of the project with this name, or None; what it imports of others may be absent here."""
    try:
        return importlib.import_module(name)
    except ImportError as fault:
        if (fault.name or name).split(".")[0] in OWN and fault.name != name:
            raise
        return None


def missing_in(file: Path) -> Iterator[tuple[int, str]]:
    """The line and the name of what is taken from a module of the project that has no such name."""
    package = file.relative_to(ROOT).with_suffix("").parts[:-1]
    tree = ast.parse(file.read_text(encoding="utf-8"))
    modules: dict[str, ModuleType] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        above = package[: len(package) - node.level + 1] if node.level else ()
        name = ".".join((*above, *filter(None, [node.module])))
        if name.split(".")[0] not in OWN:
            continue
        source = module_of(name)
        for alias in node.names if source is not None else ():
            found = getattr(source, alias.name, None) or module_of(f"{name}.{alias.name}")
            if found is None and not hasattr(source, alias.name):
                yield node.lineno, f"{name}.{alias.name}"
            if isinstance(found, ModuleType):
                modules[alias.asname or alias.name] = found
    others = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    others |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}  # names of other things somewhere
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id not in others:
            source = modules.get(node.value.id)
            if source is not None and not hasattr(source, node.attr):
                yield node.lineno, f"{source.__name__}.{node.attr}"


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda f: str(f.relative_to(ROOT)))
def test_what_a_script_takes_is_there(file: Path) -> None:
    assert list(missing_in(file)) == []


def test_a_name_that_is_gone_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "script.py"
    file.write_text(
        "from tinyir.ir import gone\nfrom tinyir.ir import plan\nfrom tinyir.ir.plan import lost\nplan.hidden()\n"
    )
    monkeypatch.setattr("tests.tidy.test_names.ROOT", tmp_path)
    names = ["tinyir.ir.gone", "tinyir.ir.plan.lost", "tinyir.ir.plan.hidden"]
    assert list(missing_in(file)) == [(at, name) for at, name in zip((1, 3, 4), names)]
