"""Golden cases: drop in `NAME.case` and it is a test.

Its first lines, `# $ command`, are what is run, with bin/ on the path; the rest of the file is the command's stdin.
Beside it are NAME.out, NAME.err and NAME.code: what it printed and how it ended. An empty stream and the exit code 0
have no file. `make bless` writes them; `git diff` is the review.
"""

from __future__ import annotations

import difflib
import shlex
from pathlib import Path

from ..commands import ROOT, run_line

GOLDEN = ROOT / "tests" / "golden"
SAMPLES = ROOT / "samples"
STREAMS = (".out", ".err", ".code")


def cases() -> list[Path]:
    """Every case file, sorted."""
    return sorted(GOLDEN.rglob("*.case"))


def run_case(case: Path) -> dict[str, str]:
    """What the case's command prints: `{".out": ..., ".err": ..., ".code": ...}`, empty streams and code 0 left out."""
    command, body = split_case(case)
    done = run_line(command, body.encode())
    code = f"{done.code}\n" if done.code else ""
    streams = {".out": done.out.decode(), ".err": done.err.decode().replace(str(ROOT), "."), ".code": code}
    return {suffix: text for suffix, text in streams.items() if text}


def split_case(case: Path) -> tuple[str, str]:
    """The command and the stdin of a case file."""
    lines = case.read_text(encoding="utf-8").splitlines(keepends=True)
    commands = []
    while lines and lines[0].startswith("# $ "):
        commands.append(lines.pop(0)[4:].strip())
    assert commands, f"{case} has no `# $ command` line"
    return "\n".join(commands), "".join(lines)


def expected(case: Path) -> dict[str, str]:
    """The committed streams of a case."""
    files = {suffix: case.with_suffix(suffix) for suffix in STREAMS}
    return {suffix: file.read_text(encoding="utf-8") for suffix, file in files.items() if file.exists()}


def bless_case(case: Path) -> None:
    """Write the streams as they are now."""
    given = run_case(case)
    for suffix in STREAMS:
        file = case.with_suffix(suffix)
        if suffix in given:
            file.write_text(given[suffix], encoding="utf-8")
        else:
            file.unlink(missing_ok=True)


def difference(name: str, wanted: str, given: str) -> str:
    """A unified diff, or an empty string."""
    return "".join(
        difflib.unified_diff(wanted.splitlines(True), given.splitlines(True), f"{name} (committed)", f"{name} (now)")
    )


def reproduce(case: Path) -> str:
    """The shell line that runs a case by hand."""
    command, _ = split_case(case)
    file = shlex.quote(str(case.relative_to(ROOT)))
    return f"grep -v '^# \\$ ' {file} | PATH=bin:$PATH bash -c {shlex.quote(command)}"
