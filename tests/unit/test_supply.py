"""What is installed is what the locks say, the audit says when it has asked nothing, and nothing opens a socket."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from types import ModuleType
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ..commands import ROOT, run_in_shell

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCKS = {name: [*PROJECT["dependencies"], *PROJECT["optional-dependencies"].get(name, ())] for name in ("test", "docs")}
LOCKS["runtime"] = PROJECT["dependencies"]
LOCKED = re.compile(r"^([\w.-]+)==([^\s;\\]+)[^\n]*\\\n((?: +--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE)
NETWORK = {"socket", "socketserver", "ssl", "http", "urllib", "ftplib", "smtplib", "telnetlib", "requests", "httpx"}


def locked(name: str) -> dict[str, list[str]]:
    """The versions of each package of a lock."""
    found: dict[str, list[str]] = {}
    for package, version, _ in LOCKED.findall((ROOT / "supply" / f"{name}.txt").read_text(encoding="utf-8")):
        found.setdefault(canonicalize_name(package), []).append(version)
    return found


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_has_what_is_required(name: str) -> None:
    versions = locked(name)
    for wanted in map(Requirement, LOCKS[name]):
        assert any(wanted.specifier.contains(v) for v in versions.get(canonicalize_name(wanted.name), ())), wanted


@pytest.mark.parametrize("name", LOCKS)
def test_every_line_of_a_lock_has_a_hash(name: str) -> None:
    text = (ROOT / "supply" / f"{name}.txt").read_text(encoding="utf-8")
    stated = [line for line in text.splitlines() if "==" in line and not line.startswith((" ", "#"))]
    assert stated and len(LOCKED.findall(text)) == len(stated)


# --- the audit

OLD = {"name": "jinja2", "version": "2.4.1", "vulns": [{"id": "CVE-1", "fix_versions": ["2.8"]}]}
NEW = {"name": "numpy", "version": "2.4.6", "vulns": []}


@pytest.fixture
def audit(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit", ROOT / "supply" / "audit.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answering(*answers: Any) -> Any:
    """A pip-audit that gives these packages, one answer after another; None for a database that is not reached."""
    left = list(answers)

    def run(command: list[str], **_: Any) -> Any:
        packages = left.pop(0)
        said = "" if packages is None else json.dumps({"dependencies": packages})
        return subprocess.CompletedProcess(command, 1, said, "ConnectionError: no route" if packages is None else "")

    return run


@pytest.mark.parametrize(
    ("answers", "code", "said"),
    [
        ([[OLD], [NEW]], 0, "a.txt: nothing is known against its packages"),
        ([[OLD], [OLD, NEW]], 1, "a.txt: jinja2 2.4.1: CVE-1, corrected in 2.8"),
        ([None], 0, "NOTHING WAS AUDITED: the database of vulnerabilities cannot be reached"),
        ([[{**OLD, "vulns": []}]], 0, "NOTHING WAS AUDITED: what answers has no vulnerabilities"),
        ([[OLD], None], 0, "a.txt: NOT AUDITED"),
    ],
)
def test_the_audit_says_what_it_has_asked(
    audit: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answers: list[Any],
    code: int,
    said: str,
) -> None:
    monkeypatch.setattr(audit.subprocess, "run", answering(*answers))
    assert audit.main(["a.txt"]) == code
    assert said in capsys.readouterr().out


# --- no network


def test_no_module_asks_for_a_network() -> None:
    for file in sorted((ROOT / "tinyir").rglob("*.py")):
        nodes = [*ast.walk(ast.parse(file.read_text(encoding="utf-8")))]
        found = {alias.name.split(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        found |= {(n.module or "").split(".")[0] for n in nodes if isinstance(n, ast.ImportFrom) and not n.level}
        assert not found & NETWORK, file


SAMPLE = ROOT / "samples" / "softmax" / "softmax"
LINES = (
    f"tinyc {SAMPLE}.json --emit=cu -o /dev/null",
    f"tiny-check {SAMPLE}.gpu",
    f"tiny-play {SAMPLE}.tiny --random 1 --size R=4 --size C=6",
    f"tiny-run {SAMPLE}.cu --random 1 --size R=4 --size C=6 --device=cpu",
    f"tiny-view {SAMPLE}.json -o /dev/null",
    f"tiny-dot {SAMPLE}.region",
    "tiny-explain E1001",
)
SCRIPT = """
import sys
def forbid(event, arguments):
    if event.startswith("socket."):
        raise AssertionError(f"{event} {arguments}")
sys.addaudithook(forbid)
from tests.commands import pipe_of, run_here
for line in sys.argv[1:]:
    done = run_here(pipe_of(line))
    assert done.code == 0, (line, done.err.decode())
print("no socket")
"""


def test_no_command_opens_a_socket() -> None:
    lines = " ".join(f"'{line}'" for line in LINES)
    done = run_in_shell(f"{sys.executable} -c '{SCRIPT.replace(chr(39), chr(34))}' {lines}")
    assert done.out.splitlines()[-1:] == [b"no socket"], done.err.decode()
