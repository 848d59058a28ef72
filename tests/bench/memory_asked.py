"""What is asked of memory-bound kernels beside what was measured: `python tests/bench/memory_asked.py FILE.json ...`.

Takes the results of `memory.py` (with `--odd`, and at small and odd shapes too) and the gathers of `families.py`, in
any order, and prints a line for each ask: what was measured, how many hold, and each that does not. Beside
torch.compile a figure is its time over ours, else a share of the speed of a copy or of aligned rows.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.measured import mean  # noqa: E402
from tests.bench.memory import LARGE, LEAST, SHAPES  # noqa: E402

Row = dict[str, Any]
MEAN = 1.15  # of torch.compile's speed, over all cases
SHARES = {"column_sum": 0.85, "transpose": 0.85, "cumsum": 0.80, "gather": 0.85}
SHARE = 0.92  # of the others
NORMS = ("softmax", "layernorm", "rmsnorm")
LONG, OF_LONG = [1, 1 << 24], 0.6
SMALL = 4e6  # bytes
ALIGNED = 0.75  # of the speed of aligned rows
ODD_COLUMNS = {127: 128, 7: 8}


def name_of(row: Row) -> str:
    """A case in words."""
    return f"{row['op']} {row['dtype']} {'x'.join(map(str, row['shape']))}"


def is_long(row: Row) -> bool:
    """Whether the row is read again from memory, for it does not fit the chip."""
    return row["op"] in NORMS and row["shape"] == LONG


def line(what: str, asked: float, rows: list[Row], figure: Callable[[Row], float]) -> Iterator[str]:
    """A row of the table: the figures' mean and least, and those under what is asked."""
    if rows:
        found = {name_of(row): figure(row) for row in rows}
        short = {name: x for name, x in sorted(found.items(), key=lambda item: item[1]) if x < asked}
        held = f"{len(found) - len(short)} of {len(found)}"
        figures = f"{mean(list(found.values())):.2f}, least {min(found.values()):.3f}, {held}"
        under = ", ".join(f"{name} {x:.3f}" for name, x in short.items())
        yield f"| {what} | {asked:.2f} | {figures} | {'no' if short else 'yes'} | {under} |"


def of_speeds(rows: list[Row]) -> Iterator[str]:
    """Every op beside torch.compile, all of them, and those of few bytes."""
    ratios = [row["ratio"] for row in rows]
    if ratios:
        found = mean(ratios)
        holds = "yes" if found >= MEAN else "no"
        yield f"| all cases, mean | {MEAN:.2f} | {found:.3f} of {len(ratios)} | {holds} |  |"
    for op in dict.fromkeys(row["op"] for row in rows):
        yield from line(f"{op} beside torch.compile", LEAST, [r for r in rows if r["op"] == op], lambda r: r["ratio"])


def of_shares(rows: list[Row]) -> Iterator[str]:
    """Every op of many bytes beside a copy, but those of which one row does not fit the chip (`of_long_rows`)."""
    large = [row for row in rows if row["bytes"] >= LARGE and not is_long(row)]
    for op in dict.fromkeys(row["op"] for row in large):
        mine = [row for row in large if row["op"] == op]
        yield from line(f"{op} from 64 MB on beside a copy", SHARES.get(op, SHARE), mine, lambda r: r["share"])


def of_long_rows(rows: list[Row]) -> Iterator[str]:
    """Softmax and norms of one long row."""
    yield from line("one row of 2^24 beside a copy", OF_LONG, list(filter(is_long, rows)), lambda row: row["share"])


def of_odd(rows: list[Row]) -> Iterator[str]:
    """Odd bases and odd columns beside aligned ones, by the bytes of each a microsecond; one column beside a copy."""
    speeds = {(row["odd"], row["op"], row["dtype"], *row["shape"]): row["bytes"] / row["us"] for row in rows}

    def beside(*key: Any) -> Callable[[Row], float]:
        return lambda row: row["bytes"] / row["us"] / speeds[(False, row["op"], row["dtype"], row["shape"][0], *key)]

    odd = [r for r in rows if r["odd"] and (False, r["op"], r["dtype"], *r["shape"]) in speeds and r["bytes"] >= LARGE]
    for columns in dict.fromkeys(row["shape"][1] for row in odd):
        mine = [row for row in odd if row["shape"][1] == columns]
        yield from line(f"a base off by one, {columns} columns", ALIGNED, mine, beside(columns))
    for columns, even in ODD_COLUMNS.items():
        mine = [row for row in rows if row["shape"][1] == columns]
        mine = [row for row in mine if (False, row["op"], row["dtype"], row["shape"][0], even) in speeds]
        yield from line(f"{columns} columns beside {even}", ALIGNED, mine, beside(even))
    one = [row for row in rows if row["shape"][1] == 1]
    yield from line("one column beside a copy", ALIGNED, one, lambda row: row["share"])


def table(rows: list[Row]) -> str:
    """All lines, in the order in which they are asked for."""
    gathers = [row for row in rows if row["op"] == "gather"]
    rows = [row for row in rows if "us" in row and row["op"] != "gather"]
    every = [row for row in rows if not row["odd"] and tuple(row["shape"]) in SHAPES]
    small = [row for row in rows if "ratio" in row and row["bytes"] < SMALL and row not in every]
    found = ["| case | asked | mean, least, held | holds | under it |", "| --- | --- | --- | --- | --- |"]
    found += [*of_speeds(every), *of_shares([*every, *gathers]), *of_long_rows(every)]
    found += [*line("under 4 MB beside torch.compile", LEAST, small, lambda row: row["ratio"]), *of_odd(rows)]
    return "\n".join(found)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("files", nargs="+", type=Path)
    files = parser.parse_args().files
    print(table([row for file in files for row in json.loads(file.read_text(encoding="utf-8"))["rows"]]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
