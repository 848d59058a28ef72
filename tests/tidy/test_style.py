"""Style by tools, with pyproject's settings: ruff's format and lint over the whole repository, pyright over the public
API and over a program that uses it."""

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


def test_the_public_api_is_typed() -> None:
    """What a user's type checker says: `consumer.py` is checked in strict mode, where nothing may be unknown."""
    done = subprocess.run([sys.executable, "-m", "basedpyright"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
