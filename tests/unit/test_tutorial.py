"""docs/tutorial.md and docs/messages.md, tried: their files are written, their commands run in order, and what these
print is what the pages show."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tinyir.sim.host import COMPILERS

from ..commands import ROOT, run_in_shell

BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = ("tutorial", "messages")


def page(name: str) -> str:
    """The text of a page."""
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def fits(shown: str, printed: str) -> bool:
    """Whether a text is what the page shows: `...` in a line is any text of that line, and alone any lines."""
    parts = [
        r"(?:.*\n)*?" if line == "...\n" else re.escape(line).replace(r"\.\.\.", ".*")
        for line in shown.splitlines(True)
    ]
    return re.fullmatch("".join(parts), printed) is not None


def run_page(name: str, folder: Path) -> None:
    """Write the files of a page and run its commands. What shows errors on the page of messages ends with a fault."""
    out, err = "", ""
    blocks = BLOCK.findall(page(name))
    for number, (kind, file, text) in enumerate(blocks):
        following = blocks[number + 1][0] if number + 1 < len(blocks) else ""
        if file:
            (folder / file).write_text(text, encoding="utf-8")
        elif kind == "sh":
            done = run_in_shell(f"cd {folder}\nset -e -o pipefail\n{text}", seconds=300)
            out, err = done.out.decode(), done.err.decode()
            is_fault = name == "messages" and following == "errors"
            assert done.code in ((1, 2) if is_fault else (0,)), (text, err)
            assert out == "" or following in ("output", "errors"), out
        elif kind == "output":
            assert fits(text, out), out
        else:
            assert kind == "errors" and fits(text, err), err


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
def test_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    run_page("tutorial", tmp_path)
    assert (tmp_path / "net.html").stat().st_size > 100_000


def test_messages_are_what_the_page_shows(tmp_path: Path) -> None:
    run_page("messages", tmp_path)


@pytest.mark.parametrize("name", PAGES)
def test_every_command_of_a_page_is_in_a_block_that_is_run(name: str) -> None:
    blocks = BLOCK.findall(page(name))
    assert {kind for kind, _, _ in blocks} <= {"json", "plan", "sh", "output", "errors"}
    assert sum(kind == "sh" for kind, _, _ in blocks) >= 8
    assert not re.findall(r"^    tiny\S* ", page(name), re.M)
