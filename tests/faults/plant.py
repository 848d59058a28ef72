"""Faults of processes, files and disks, planted while the cache is used: how often the answer was right."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest import mock

from tinyir.kit.diag import Refused
from tinyir.kit.kept import cache_dir

from . import uses
from .uses import NUMBERS, USES

FORK = multiprocessing.get_context("fork")
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut in half": lambda raw: raw[: len(raw) // 2],
    "empty": lambda raw: b"",
    "one bit": lambda raw: bytes([raw[0] ^ 1]) + raw[1:],
    "one bit of the end": lambda raw: raw[:-2] + bytes([raw[-2] ^ 1]) + raw[-1:],
    "longer": lambda raw: raw + b"\0",
    "zeros": lambda raw: bytes(len(raw)),
}


@dataclass(slots=True)
class Outcome:
    """How often a fault was planted, and what became of what was asked for: it was right, or refused with E0009, or
    wrong, or a process ended otherwise."""

    planted: int = 0
    right: int = 0
    refused: int = 0
    wrong: int = 0
    crashed: int = 0

    def add(self, code: int | None) -> None:
        """The exit code of `_asked`."""
        name = {0: "right", 3: "refused", 4: "wrong"}.get(code if code is not None else -1, "crashed")
        setattr(self, name, getattr(self, name) + 1)


def _asked(ask: Callable[[], bool]) -> None:
    """In a process of its own: its exit code says what became of the question."""
    try:
        os._exit(0 if ask() else 4)
    except Refused as fault:
        os._exit(3 if [d.code for d in fault.diags] == ["E0009"] else 5)
    except BaseException:  # noqa: BLE001 - whatever it is, the parent counts it
        import traceback

        traceback.print_exc()
        os._exit(5)


def in_children(*asks: Callable[[], bool]) -> list[int | None]:
    """Each question in a process of its own, all at once; how each ended."""
    children = [FORK.Process(target=_asked, args=(ask,)) for ask in asks]
    for child in children:
        child.start()
    for child in children:
        child.join()
    return [child.exitcode for child in children]


def all_uses(seed: int) -> bool:
    """Every use of every number, in an order of the seed's."""
    asked = [(use, number) for use in USES.values() for number in range(NUMBERS)]
    random.Random(seed).shuffle(asked)
    return all(use(number) for use, number in asked)


def beside_each_other(processes: int, log: Path) -> Outcome:
    """As many processes as asked for begin at once with an empty cache, and write one log."""
    found = Outcome(processes)

    def ask(who: int) -> bool:
        for number in range(NUMBERS):
            uses.log_row(log, who, number)
        return all_uses(who)

    for code in in_children(*(lambda who=who: ask(who) for who in range(processes))):
        found.add(code)
    wanted = sorted(f"{who}:{number}" for who in range(processes) for number in range(NUMBERS))
    assert sorted(uses.rows_of(log)) == wanted, "a row is lost"
    return found


def killed(times: int, log: Path, seed: int = 1) -> Outcome:
    """Processes that use the cache and write a log, each killed at a random time; after each another one asks for
    everything. A row that a process has seen written must be there in the end."""
    drawn, found, seen = random.Random(seed), Outcome(times), set()
    for who in range(times):
        ours, theirs = FORK.Pipe(duplex=False)
        child = FORK.Process(target=_write_for_ever, args=(who, log, theirs))
        child.start()
        theirs.close()
        ours.recv()  # it has begun
        time.sleep(drawn.uniform(0, 0.03))
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        seen |= set(_received(ours))
        found.add(in_children(lambda who=who: all_uses(who))[0])
        uses.log_row(log, who, -1)
        seen.add(f"{who}:-1")
    lost = seen - set(uses.rows_of(log))
    assert not lost, f"rows are lost: {lost}"
    return found


def _write_for_ever(who: int, log: Path, told: Connection) -> None:
    told.send("begun")
    for number in range(1 << 30):
        for use in USES.values():
            use(1000 * who + number)
        uses.log_row(log, who, number)
        told.send(f"{who}:{number}")


def _received(ours: Connection) -> Iterator[str]:
    try:
        while True:
            yield ours.recv()
    except (EOFError, OSError):  # a message that was cut off is none
        return


def damaged() -> dict[str, Outcome]:
    """Every file of a full cache, damaged in every way, and all that is asked for afterwards."""
    found: dict[str, Outcome] = {}
    for how, change in DAMAGES.items():
        found[how] = _after(lambda files, change=change: [f.write_bytes(change(f.read_bytes())) for f in files])
    found["changed places"] = _after(_rotate)
    found["a folder in its place"] = _after(_make_folders)
    return found


def _after(damage: Callable[[list[Path]], Any]) -> Outcome:
    in_children(lambda: all_uses(1))
    files = sorted(f for f in _root().rglob("*") if f.is_file())
    damage(files)
    found = Outcome(len(files))
    for use in USES.values():
        for code in in_children(*(lambda use=use, number=number: use(number) for number in range(NUMBERS))):
            found.add(code)
    return found


def _rotate(files: list[Path]) -> None:
    """Each file of a kind gets the content of the next of its kind."""
    for kind in {(f.parent, f.suffix) for f in files}:
        same = [f for f in files if (f.parent, f.suffix) == kind]
        for file, content in zip(same, [f.read_bytes() for f in [*same[1:], *same[:1]]]):
            file.write_bytes(content)


def _make_folders(files: list[Path]) -> None:
    for file in files:
        file.unlink()
        file.mkdir()


def full_disk(log: Path) -> dict[str, Outcome]:
    """A disk on which a file can have a certain number of bytes and no more."""
    found = {}
    for most in (0, 1, 100, 5000):
        found[f"{most} B"] = outcome = Outcome(1 + len(USES) * NUMBERS)
        asks = [lambda use=use, n=n: use(n) for use in USES.values() for n in range(NUMBERS)]
        asks.append(lambda: uses.log_row(log, 0, 0) is None)
        before = log.read_bytes() if log.exists() else b""
        for ask in asks:
            outcome.add(in_children(lambda ask=ask, most=most: _limited(most, ask))[0])
        assert not log.exists() or log.read_bytes() == before, "half of a row is left"
    return found


def _limited(most: int, ask: Callable[[], bool]) -> bool:
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    return ask()


def homes(folder: Path) -> dict[str, dict[str, str]]:
    """Environments in which there is no cache; `folder` has `a file`."""
    return {
        "a folder that cannot be made": {"XDG_CACHE_HOME": "/proc/none", "HOME": "/proc/none"},
        "a file": {"XDG_CACHE_HOME": str(folder / "a file")},
        "a path that is not absolute": {"XDG_CACHE_HOME": "nowhere", "HOME": "nowhere"},
    }


def without_a_home(places: dict[str, dict[str, str]]) -> dict[str, Outcome]:
    """Homes that cannot be written, or are none; by what the environment says."""
    found = {}
    for name, environment in places.items():
        found[name] = outcome = Outcome(len(USES) * NUMBERS)
        with mock.patch.dict(os.environ, environment):
            for use in USES.values():
                for code in in_children(*(lambda use=use, n=n: use(n) for n in range(NUMBERS))):
                    outcome.add(code)
    return found


def _root() -> Path:
    root = cache_dir()
    assert root is not None
    return root
