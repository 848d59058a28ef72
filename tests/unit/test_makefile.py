"""The Makefile sets up `.venv` where it is, and where it leads to when it is a link."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ..commands import ROOT


@pytest.mark.parametrize("is_link", [False, True])
def test_the_environment_is_set_up_where_it_is(tmp_path: Path, is_link: bool) -> None:
    for name in ("Makefile", "pyproject.toml", "supply/test.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "tinyir").mkdir()
    if is_link:
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / ".venv").symlink_to("elsewhere")
    command = ["make", "--no-print-directory", "-n", "setup"]  # `make test` runs this one, which would say where it is
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == f"python3 -m venv {tmp_path / 'elsewhere' if is_link else '.venv'}"
