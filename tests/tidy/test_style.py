"""Style by tools: ruff's format and lint with pyproject's settings, over the whole repository."""

from __future__ import annotations

import subprocess
import sys

import pytest

from .sources import ROOT


@pytest.mark.parametrize("verb", [("format", "--check"), ("check", "--no-fix")], ids=lambda v: v[0])
def test_ruff_has_nothing_to_say(verb: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *verb, "--no-cache", "."], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
