"""What the tables of asks have in common: `FILE.json ...` of stored results, and a line for each ask."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Row = dict[str, Any]
HEAD = ("| case | asked | measured | holds |", "| --- | --- | --- | --- |")


def line(what: str, asked: str, figures: str, holds: bool) -> str:
    """A row of the table."""
    return f"| {what} | {asked} | {figures} | {'yes' if holds else 'no'} |"


def told(text: str, lines: Callable[[list[Row]], Iterable[str]]) -> int:
    """Print the table of the rows of all files that are given; the exit code. `text` says what is asked."""
    parser = argparse.ArgumentParser(description=text.split("\n", 1)[0])
    parser.add_argument("files", nargs="+", type=Path)
    rows: list[Row] = []
    for file in parser.parse_args().files:
        found = json.loads(file.read_text(encoding="utf-8"))
        rows += found if isinstance(found, list) else found["rows"]
    print("\n".join([*HEAD, *lines(rows)]))
    return 0
