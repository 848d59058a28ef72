"""A pipe of filters in this process ends as it does in bash, so that most tests may do without processes."""

from __future__ import annotations

import gc
import os

import pytest

from ..commands import ROOT, pipe_of, run_here, run_in_shell, run_line

TINY = (ROOT / "samples" / "gemm_bias_relu" / "gemm_bias_relu.tiny").read_bytes()


@pytest.mark.parametrize(("line", "given"), [
    ("tiny-index | tiny-poly --remarks=text", TINY),
    ("tiny-index | tiny-poly", TINY.replace(b"MUL", b"MULL")),
    ("tiny-index no/such/file.tiny | tiny-check --diag=json", b""),
    ("tiny-check --no-such-option", TINY),
])  # fmt: skip
def test_it_ends_as_in_bash(line: str, given: bytes) -> None:
    commands = pipe_of(line)
    assert commands is not None
    assert run_here(commands, given) == run_in_shell(line, given)


@pytest.mark.parametrize(
    "line",
    [
        "tiny-index 'a'",
        "tiny-index | sed p",
        "tiny-index > out",
        "set -o pipefail; tiny-index",
        "FEW=1 tiny-index",
        "tiny-index $HOME",
        "cat",
    ],
)
def test_what_needs_a_shell_gets_one(line: str) -> None:
    assert pipe_of(line) is None


def test_a_command_leaves_the_process_as_it_was() -> None:
    before = (os.getcwd(), dict(os.environ), gc.isenabled())
    assert run_line("tiny-check", b"tinyir 1.0 tiny\nnonsense\n").code == 1
    assert (os.getcwd(), dict(os.environ), gc.isenabled()) == before
