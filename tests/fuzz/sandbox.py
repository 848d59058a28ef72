"""Work in a forked child, with memory and CPU time bounded: one run of one command through the same `main` as the
executable's, or anything else that may not end."""

from __future__ import annotations

import gc
import importlib
import io
import os
import resource
import select
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

MEMORY = 2 << 30  # bytes, beside what the process that forks has
ANY = 1 << 50  # as much as the machine has


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended: its exit code, or minus the signal that ended it; the CPU seconds that it took, what it said on
    stderr, and what it printed."""

    code: int
    seconds: float
    said: str
    printed: bytes


def warm(command: str, arguments: Sequence[str], text: bytes) -> int:
    """The exit code of a run in this process, which imports what the command needs and reads its grammars: the children
    then need not."""
    streams = sys.stdin, sys.stdout, sys.stderr
    try:
        return _called(command, arguments, text)
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
        gc.enable()


def _called(command: str, arguments: Sequence[str], text: bytes) -> int:
    sys.stdin = io.TextIOWrapper(io.BytesIO(text))
    sys.stdout = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    sys.stderr = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace", write_through=True)
    try:
        return importlib.import_module(f"tinyir.cmd.{command.replace('-', '_')}").main(list(arguments)) or 0
    except SystemExit as ended:
        return int(ended.code or 0)


def run(command: str, arguments: Sequence[str], text: bytes, seconds: int = 20, folder: str | None = None) -> Ending:
    """`command arguments < text`, in `folder`."""

    def work() -> tuple[int, bytes, bytes]:
        if folder is not None:
            os.chdir(folder)
        code = _called(command, arguments, text)
        return code, sys.stderr.buffer.getvalue(), sys.stdout.buffer.getvalue()

    return forked(work, seconds)


def codes_of(runs: Sequence[tuple[Sequence[str], bytes]], seconds: int) -> list[int]:
    """The exit codes of command lines on texts, one after another in one child; none where it is ended before."""
    return list(
        forked(lambda: (0, b"", bytes(_called(line[0], line[1:], text) for line, text in runs)), seconds).printed
    )


def forked(work: Callable[[], tuple[int, bytes, bytes]], seconds: int, memory: int = MEMORY) -> Ending:
    """How `work` ends in a child: it gives an exit code, what is said, and what is printed. A child that takes longer
    than `seconds` of CPU is ended by a signal, and so is one that waits for ever: after a hundred times as long by the
    clock, since the machine may be busy."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _child(work, seconds, memory, writer)
    os.close(writer)
    said = bytearray()
    while select.select([reader], [], [], 100 * seconds)[0] and (part := os.read(reader, 1 << 16)):
        said += part
    else:
        if not said.endswith(b"\n.\n"):
            os.kill(child, signal.SIGKILL)
    os.close(reader)
    _, status, used = os.wait4(child, 0)
    told, _, printed = bytes(said).removesuffix(b"\n.\n").partition(b"\0\0\0")
    return Ending(
        os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, told.decode("utf-8", "replace"), printed
    )


def _inherited() -> int:
    """Bytes of data that the child begins with: those of a process that has run many tests."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmData"))


def _child(work: Callable[[], tuple[int, bytes, bytes]], seconds: int, memory: int, writer: int) -> None:
    code, said, printed = 99, b"", b""
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        most = memory + _inherited()
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        code, said, printed = work()
    except BaseException as fault:  # noqa: BLE001 - a child tells and ends, whatever happens
        said = f"not by the contract: {type(fault).__name__}: {fault}".encode("utf-8", "replace")
    finally:
        with os.fdopen(writer, "wb") as out:
            out.write(said[-20000:].replace(b"\0", b"?") + b"\0\0\0" + printed + b"\n.\n")
        os._exit(code)
