"""`tests/gpu/sanitize.py` runs every family under every tool, several in a process, and alone where a tool has told
something of one of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ..commands import ROOT

TOOL = """#!/bin/sh
case "$*" in
  *initcheck*softmax*) echo "========= Uninitialized __global__ memory read of size 4 bytes"
    echo "=========     at softmax+0x10 in kernel.cu:90"; exit 3;;
  *initcheck*embedding*) echo "========= Uninitialized __global__ memory read of size 16 bytes"
    echo "=========     at copy_16(void *, const void *)+0x10 in kernel.cu:13"; exit 3;;
  *racecheck*embedding*) echo "========= RACECHECK SUMMARY: 1 hazard displayed"; exit 3;;
esac
echo "========= ERROR SUMMARY: 0 errors"
"""


def test_each_tool_is_run_on_each_family_and_its_word_is_told(tmp_path: Path) -> None:
    tool = tmp_path / "compute-sanitizer"
    tool.write_text(TOOL)
    tool.chmod(0o755)
    names = ["sample softmax", "sample embedding"]
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "gpu" / "sanitize.py"), "--jobs", "3", *names],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout.splitlines()
    assert done.returncode == 1
    both, (softmax, embedding) = ", ".join(names), names
    alone = {"initcheck": [softmax, embedding], "racecheck": [softmax, embedding]}  # as not both are clean
    expected = {tool: alone.get(tool, [both]) for tool in ("memcheck", "racecheck", "synccheck", "initcheck")}
    lines = [(line.split()[0], line.split(maxsplit=1)[1].split(": ")[0]) for line in said if " sample " in line]
    assert sorted(lines) == sorted((tool, one) for tool, found in expected.items() for one in found)
    assert said[-1].endswith("; 2 not") and "racecheck 1 clean" in said[-1] and "initcheck 1 clean" in said[-1]
    assert "memcheck 2 clean" in said[-1]
    faulty = sorted((line.split()[0], line.split(maxsplit=1)[1].split(": ")[0]) for line in said if "exit 3" in line)
    assert faulty == [("initcheck", softmax), ("racecheck", embedding)]
