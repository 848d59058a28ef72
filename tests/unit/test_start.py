"""What a filter imports when it starts: seven of them make a pipe, and each lives for half a second."""

from __future__ import annotations

import json
import sys

import pytest

from ..commands import ROOT, run_line

SAMPLE = ROOT / "samples" / "gemm_bias_relu" / "gemm_bias_relu"
NEVER = {"lark", "dataclasses", "inspect", "rich", "difflib", "onnx", "pycuda", "unittest", "asyncio"}
ISL = {"tiny-poly", "tiny-region", "tiny-gpu"}  # whose text or whose proof it makes
NUMPY = {"tiny-plan", "tiny-gpu"}  # candidates are columns, and a dry run counts whole warps at once
BY_NUMPY = {"inspect", "numpy"}
MOST = {  # modules of tinyir, a tenth more than there were
    "tiny-front": 68,
    "tiny-index": 48,
    "tiny-poly": 68,
    "tiny-region": 160,
    "tiny-plan": 212,
    "tiny-gpu": 224,
    "tiny-cu": 131,
}
READS = dict(zip(MOST, ("json", "tiny", "index", "poly", "region", "plan", "gpu")))
SCRIPT = (
    "import sys, json; from tinyir.__main__ import main; "
    "sys.argv = ['tinyir', {command!r}, {file!r}, '-o', '/dev/null']; main(); print(json.dumps(sorted(sys.modules)))"
)


def modules_of(command: str, file: str) -> set[str]:
    """What is imported when a filter has read a file."""
    return set(json.loads(run_line(f'{sys.executable} -c "{SCRIPT.format(command=command, file=file)}"').out))


@pytest.mark.parametrize("command", MOST)
def test_a_filter_imports_what_it_needs(command: str) -> None:
    file = f"{SAMPLE}.{READS[command]}"
    if command != "tiny-front":  # as in a pipe, where the filter before has checked the text
        before = list(MOST)[list(MOST).index(command) - 1]
        run_line(f"{before} {SAMPLE}.{READS[before]} -o /dev/null")
    found = modules_of(command, file)
    if "lark" in found or command == "tiny-index":  # what it made or asked once it has kept
        found = modules_of(command, file)
    assert found & NEVER <= (BY_NUMPY if command in NUMPY else set())
    assert ("islpy" in found) == (command in ISL)
    assert ("numpy" in found) == (command in NUMPY)
    assert sum(name.startswith("tinyir") for name in found) <= MOST[command]


def test_no_garbage_is_looked_for_at_the_end() -> None:
    script = (
        "import sys, atexit, gc; "
        "atexit.register(lambda: print(gc.get_freeze_count() > 0, gc.isenabled())); "  # runs last
        "from tinyir.__main__ import main; "
        f"sys.argv = ['tinyir', 'tiny-front', '{SAMPLE}.json', '-o', '/dev/null']; main()"
    )
    assert run_line(f'{sys.executable} -c "{script}"').out.split() == [b"True", b"False"]
