"""The same text from every process: whatever the seed of its hashes, and whichever Python it is of those that are
here. `test_journey` compares with what other machines have printed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from .cases import ROOT
from .texts import sources

QUICK = ("attention_causal", "conv3x3_silu")
# others with the packages that tinyir needs, beside the Python that runs the tests
PYTHONS = [found for minor in (11, 12, 13, 14) if (found := shutil.which(f"python3.{minor}"))]


def printed(python: str, seed: int, *names: str) -> str:
    """What a process of its own prints of these models, or of all."""
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT)}
    command = [python, "-m", "tests.golden.texts", *names]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_two_seeds_print_the_same() -> None:
    first, second = (printed(sys.executable, seed, *QUICK) for seed in (0, 1))
    assert first == second and len(first.splitlines()) == 7 * len(QUICK)


@pytest.mark.slow
def test_every_text_is_the_same_from_every_python() -> None:
    wanted = printed(sys.executable, 0)
    assert len(wanted.splitlines()) == 7 * len(sources())
    pythons = [sys.executable, *(python for python in PYTHONS if _has_what_is_needed(python))]
    for seed, python in enumerate(pythons, 2):
        assert printed(python, seed) == wanted, python


def _has_what_is_needed(python: str) -> bool:
    asked = [python, "-c", "import lark, islpy, numpy, ml_dtypes, rich, shtab"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0
