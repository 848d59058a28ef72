"""Filters called as commands: a pipe of them in this process, through the entry that `bin/` calls, or a line of bash in
processes of its own.

A process spends most of its time on its start. So a plain pipe of filters runs here, and what needs a shell (another
program, a redirection, quotes, an option of bash) runs in one.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from tinyir.__main__ import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = {"LC_ALL": "C.UTF-8", "COLUMNS": "120"}
PLAIN = re.compile(r"[\w./=,:|@%+ -]+")  # what a shell would give to the commands as it is


@dataclass(frozen=True, slots=True)
class Done:
    """How a line ended: the exit code of its last command, and what all of them printed."""

    code: int
    out: bytes
    err: bytes


def run_line(line: str, given: bytes = b"") -> Done:
    """Run a line from the repository's root with `given` on stdin: here where it is a plain pipe of filters, else in
    bash."""
    commands = pipe_of(line)
    return run_in_shell(line, given) if commands is None else run_here(commands, given)


def run_in_shell(line: str, given: bytes = b"", seconds: float = 120) -> Done:
    """The line in bash, with the filters of this checkout and this very Python on the path."""
    folders = (str(ROOT / "bin"), str(Path(sys.executable).parent), os.environ["PATH"])
    environment = {**os.environ, **ENVIRONMENT, "PATH": os.pathsep.join(folders)}
    done = subprocess.run(
        ["bash", "-c", line], input=given, capture_output=True, cwd=ROOT, env=environment, timeout=seconds
    )
    return Done(done.returncode, done.stdout, done.stderr)


def pipe_of(line: str) -> list[list[str]] | None:
    """The words of each command of a plain pipe of filters; None for any other line."""
    commands = [command.split() for command in line.split("|")]
    return commands if PLAIN.fullmatch(line) and all(words and words[0] in COMMANDS for words in commands) else None


def run_here(commands: Sequence[Sequence[str]], given: bytes = b"") -> Done:
    """The pipe in this process, each filter with the whole output of the one before. Python's warnings go to stderr, as
    in a process."""
    errors, code = b"", 0
    for name, *arguments in commands:
        main = importlib.import_module(f"tinyir.cmd.{name.replace('-', '_')}").main
        with _process(given) as (out, err):
            try:
                code = main(arguments)
            except SystemExit as end:  # argparse: usage, --help, --version
                code = end.code if isinstance(end.code, int) else 0
        given = out.getvalue()
        errors += err.getvalue()
    return Done(code, given, errors)


@contextlib.contextmanager
def _process(given: bytes) -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    """What a process has to itself: streams, environment, folder, warnings, and the collector, which a command turns
    off. Gives stdout and stderr."""
    out, err = io.BytesIO(), io.BytesIO()
    streams = {"stdin": _text(io.BytesIO(given)), "stdout": _text(out), "stderr": _text(err)}
    with (
        mock.patch.multiple(sys, **streams),
        mock.patch.dict(os.environ, ENVIRONMENT),
        contextlib.chdir(ROOT),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")
        warnings.showwarning = lambda message, category, *_: print(f"{category.__name__}: {message}", file=sys.stderr)
        try:
            yield out, err
        finally:
            gc.enable()
            for stream in (sys.stdout, sys.stderr):
                stream.detach()  # flushed, and its bytes stay open to be read


def _text(raw: Any) -> io.TextIOWrapper:
    return io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
