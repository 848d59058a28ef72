"""What an edit of CUDA text is checked for: the block on top by every command that reads it, the code by a run alone,
and every byte by a certificate."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ..commands import ROOT, run_line
from .stages import needs_host_compiler

CUDA = (ROOT / "samples" / "layernorm" / "layernorm.cu").read_text(encoding="utf-8")
OF_BLOCK = {  # what is edited, by what, and the code of whoever reads the block
    "a launch of a kernel that is not there": (r"^layernorm\(const", "norm(const", "E1631"),
    "a launch that passes less": (r"\[X, gamma, beta, Y\]", "[X, gamma, Y]", "E1631"),
    "a launch that passes more": (r"symbols \[R\]", "symbols [R, R]", "E1631"),
    "a kernel that takes more": (r", int R\)", ", int R, int S)", "E1631"),
    "a tensor that is not there": (r"\[X, gamma, beta, Y\]", "[X, gamma, beta, Z]", "E1632"),
    "a region that nothing computes": (r"launch layernorm :", "launch other of other :", "E1633"),
    "another dtype": (
        r"in  X           : fp16\[R, 768\]\n//   in  gamma",
        "in  X : fp32[R, 768]\n//   in  gamma",
        "E1402",
    ),
}
OF_RUNS = {  # what nobody reads, and the code of a run with `--check`
    "tensors in another order": (r"\[X, gamma, beta, Y\]", "[X, beta, gamma, Y]", "E1731"),
    "fewer CTAs": (r"grid \[floor\(\(R \+ 3\)/4\)\]", "grid [floor((R + 2)/4)]", "E1731"),
    "a region that says something else": (r"rsqrt\(add", "sqrt(add", "E1731"),
    "code that is not C++": (r"int i0 = 4", "int i0 = = 4", "E1721"),
    "a guard": (r"if \(i0 < R\) {", "if (i0 <= R) {", "E1722"),
    "an index": (r"thread_x \+ 32 \* u;", "thread_x + 31 * u;", "E1731"),
    "an operation": (r"1e-05f", "1e+05f", "E1731"),
}


def edited(pattern: str, new: str, tmp_path: Path) -> Path:
    text, count = re.subn(pattern, new, CUDA, count=1, flags=re.M)
    assert count == 1 and text != CUDA
    (tmp_path / "k.cu").write_text(text, encoding="utf-8")
    return tmp_path / "k.cu"


@pytest.mark.parametrize("what", OF_BLOCK)
def test_the_block_is_checked_wherever_it_is_read(what: str, tmp_path: Path) -> None:
    pattern, new, code = OF_BLOCK[what]
    file = edited(pattern, new, tmp_path)
    for line in (f"tiny-check {file}", f"tiny-run {file} --random 7 --device=cpu"):
        done = run_line(line)
        assert done.code == 1 and code.encode() in done.err, line


@needs_host_compiler
@pytest.mark.parametrize("what", OF_RUNS)
def test_the_code_is_checked_by_a_run_and_by_a_certificate(what: str, tmp_path: Path) -> None:
    pattern, new, code = OF_RUNS[what]
    file = edited(pattern, new, tmp_path)
    assert run_line(f"tiny-check {file}").code == 0
    done = run_line(f"tiny-run {file} --random 7 --size R=9 --check --device=sim")
    assert done.code != 0 and code.encode() in done.err
    (tmp_path / "whole.cu").write_text(CUDA, encoding="utf-8")
    (tmp_path / "k.cert").write_bytes(run_line(f"tiny-check --certify {tmp_path}/whole.cu").out)
    done = run_line(f"tiny-check --verify {tmp_path}/k.cert {file}")
    assert done.code == 1 and b"E1483" in done.err
