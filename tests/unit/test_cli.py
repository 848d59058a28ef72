"""kit.cli: the contract of every executable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tinyir.__main__ import COMMANDS, main

from ..commands import ROOT, Done, run_in_shell, run_line

TINY = ROOT / "samples" / "gemm_bias_relu" / "gemm_bias_relu.tiny"
# which read no text from stdin, or arrays before it
NO_STDIN = ("tiny-explain", "tiny-run", "tiny-play", "tiny-view", "tiny-lsp")


def call(line: str, text: bytes = b"") -> Done:
    return run_in_shell(line, text, seconds=60)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_and_version(command: str) -> None:
    assert call(f"{command} --help").out.startswith(f"usage: {command}".encode())
    assert run_line(f"{command} --version").out.split()[0] == command.encode()
    assert run_line(f"{command} --no-such-option").code == 2


@pytest.mark.parametrize("command", [c for c in COMMANDS if c not in NO_STDIN])
@pytest.mark.parametrize("text, code", [(b"", "E0001"), (b" \n\n", "E0001"), (bytes(range(256)), "E0007")])
def test_no_input_and_no_text(command: str, text: bytes, code: str) -> None:
    done = run_line(f"{command} --diag=json", text)
    assert (done.code, done.out) == (1, b"")
    assert [d["code"] for d in json.loads(done.err)["diagnostics"]] == [code]


def test_closed_pipe_is_quiet() -> None:
    done = call(f"set -o pipefail; tiny-opt {TINY} | head -1")
    assert (done.out, done.err) == (b"tinyir 1.0 tiny\n", b"")


def test_file_and_output(tmp_path: Path) -> None:
    target = tmp_path / "out.tiny"
    assert call(f"tiny-opt {TINY} -o {target}").out == b""
    assert target.read_bytes() == TINY.read_bytes()
    assert call(f"tiny-opt {tmp_path}/none").code == 1
    assert call(f"tiny-opt {TINY} -o {tmp_path}/no/such/folder").code == 1


def test_refused_output_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "out.tiny"
    target.write_text("kept")
    assert call(f"tiny-opt -o {target}", b"tinyir 1.0 tiny\nnonsense\n").code == 1
    assert target.read_text() == "kept" and list(tmp_path.iterdir()) == [target]


def test_our_fault_is_short_and_keeps_the_input(tmp_path: Path) -> None:
    line = (
        "TMPDIR=%s python3 -c \"import sys; from tinyir.kit import cli; a = cli.parser_of('tiny-x', 's', "
        "'text').parse_args([]); sys.exit(cli.run('tiny-x', a, lambda s: s.read('text') and 1 // 0))\""
    )
    done = call(f"PYTHONPATH={ROOT} {line % tmp_path}", b"the input")
    assert done.code == 70 and b"Traceback" not in done.err and b"ZeroDivisionError" in done.err
    (kept,) = tmp_path.iterdir()
    assert "the input" in kept.read_text() and "Traceback" in kept.read_text()


def test_japanese_from_the_locale() -> None:
    assert "エラー".encode() in call("LC_ALL=ja_JP.UTF-8 tiny-check", b"nonsense\n").err
    assert b"error" in call("LC_ALL=ja_JP.UTF-8 tiny-check --lang=en", b"nonsense\n").err


def test_an_interrupt_while_a_command_is_imported_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt(name)

    monkeypatch.setattr("tinyir.__main__.command_of", interrupted)
    monkeypatch.setattr("sys.argv", ["tinyir", "tinyc", "model.json"])
    assert main() == 130
