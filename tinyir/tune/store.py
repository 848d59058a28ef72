"""The plans that won, kept in the user's cache, and the log of every trial.

A winner is a plan text of its region alone, readable and complete, under the sha256 of the region, the sizes, the card
and the compiler. It appears whole or not at all, whoever else writes or is killed; what cannot be read, or no longer
holds, counts as absent. One that is whole and does not hold was kept by another version of the plan language: who
asks for winners is told so.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..ir import plan, region
from ..kit.diag import Refused, refuse
from ..kit.kept import cache_dir, read_sealed, write_sealed
from ..kit.phrase import why_of
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
    kept = read_sealed(_place(program, device, compiler))
    return () if kept is None else _plans_of(kept) or ()


def is_outdated(program: region.Module, device: str, compiler: str) -> bool:
    """Whether the plans kept for a region alone are whole, and are none that this version obeys."""
    kept = read_sealed(_place(program, device, compiler))
    return kept is not None and _plans_of(kept) is None


def _plans_of(kept: bytes) -> tuple[plan.Plan, ...] | None:
    try:
        module = plan.parse(kept.decode("utf-8"))
    except (UnicodeDecodeError, Refused):
        return None
    return None if any(d.is_error for d in language_of("plan").check(module)) else module.plans


def keep_winner(program: region.Module, device: str, compiler: str, plans: tuple[plan.Plan, ...]) -> None:
    """Keep the plans, the fastest first. A cache that cannot be written is not an error."""
    write_sealed(_place(program, device, compiler), plan.show(plan.Module(program, plans)).encode("utf-8"))


def append_log(path: Path, rows: Iterable[Sequence[object]]) -> None:
    """Append rows under `LOG_COLUMNS` to a CSV file, in one write under a lock, so that writers beside us never mix
    lines. Raises Refused (E0009)."""
    import fcntl

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8", newline="") as out:
            fcntl.flock(out, fcntl.LOCK_EX)
            head = "" if os.fstat(out.fileno()).st_size else ",".join(LOG_COLUMNS) + "\n"
            out.write(head + text.getvalue())
    except OSError as fault:
        raise refuse("E0009", at=str(path), file=str(path), reason=why_of(fault)) from None


def _place(program: region.Module, device: str, compiler: str) -> Path:
    return cache_dir() / FOLDER / f"{key_of([region.show(program), device, compiler])}.plan"
