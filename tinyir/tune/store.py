"""The plans that won, kept in the user's cache, and the log of every trial.

A winner is a plan text of its region alone, readable and complete, under the sha256 of the region, the sizes, the card
and the compiler. It appears whole or not at all, whoever else writes or is killed; what cannot be read, or no longer
holds, counts as absent. One that is whole and does not hold was kept by another version of the plan language: who
asks for winners is told so.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from io import FileIO
from pathlib import Path

from ..ir import plan, region
from ..kit.diag import Refused
from ..kit.files import unwritable
from ..kit.kept import keep, kept
from ..lower import language_of
from ..runtime.cache import key_of

FOLDER = "tuned"
LOG_COLUMNS = (
    "region",
    "device",
    "compiler",
    "sizes",
    "algo",
    "tile",
    "flops",
    "bytes",
    "occupancy",
    "estimate_us",
    "actual_us",
    "reason",
    "plan",
)


def load_winner(program: region.Module, device: str, compiler: str) -> tuple[plan.Plan, ...]:
    """The plans kept for a region alone (`alone.alone`) on a card with a compiler; empty when there are none, or none
    that holds."""
    found = kept(_name_of(program, device, compiler))
    return () if found is None else _plans_of(found) or ()


def is_outdated(program: region.Module, device: str, compiler: str) -> bool:
    """Whether the plans kept for a region alone are whole, and are none that this version obeys."""
    found = kept(_name_of(program, device, compiler))
    return found is not None and _plans_of(found) is None


def _plans_of(found: bytes) -> tuple[plan.Plan, ...] | None:
    try:
        module = plan.parse(found.decode("utf-8"))
    except (UnicodeDecodeError, Refused):
        return None
    return None if any(d.is_error for d in language_of("plan").check(module)) else module.plans


def keep_winner(program: region.Module, device: str, compiler: str, plans: tuple[plan.Plan, ...]) -> None:
    """Keep the plans, the fastest first. A cache that cannot be written is not an error."""
    keep(_name_of(program, device, compiler), plan.show(plan.Module(program, plans)).encode("utf-8"))


def append_log(path: Path, rows: Iterable[Sequence[object]]) -> None:
    """Append rows under `LOG_COLUMNS` to a CSV file, under a lock, so that writers beside us never mix lines. All rows
    are there afterwards, or none: a row that a killed writer left unfinished is cut off first. Raises Refused
    (E0009)."""
    import fcntl

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+", buffering=0) as log:
            fcntl.flock(log, fcntl.LOCK_EX)
            end = _end_of_rows(log) if log.seekable() else 0
            head = "" if end else ",".join(LOG_COLUMNS) + "\n"
            _append(log, end, (head + text.getvalue()).encode("utf-8"))
    except OSError as fault:
        raise unwritable(str(path), fault) from None


def _end_of_rows(log: FileIO) -> int:
    """Bytes of the log up to the end of its last whole row: a line that ends outside of quotes."""
    log.seek(0)
    end = at = quotes = 0
    for line in log.readall().splitlines(keepends=True):
        at += len(line)
        quotes += line.count(b'"')
        if quotes % 2 == 0 and line.endswith(b"\n"):
            end = at
    return end


def _append(log: FileIO, end: int, content: bytes) -> None:
    """Put all of `content` at the place `end` of the log, or nothing. Raises OSError."""
    try:
        if log.seekable():
            log.truncate(end)
        while content:
            content = content[log.write(content) :]
    except OSError:
        if log.seekable():
            log.truncate(end)
        raise


def _name_of(program: region.Module, device: str, compiler: str) -> str:
    return f"{FOLDER}/{key_of([region.show(program), device, compiler])}.plan"
