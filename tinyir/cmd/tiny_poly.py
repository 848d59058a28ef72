"""tiny-poly: index text in, poly text out."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence

from .stage import stage_filter, stage_parser


def parser() -> ArgumentParser:
    """The options of the command."""
    return stage_parser(
        "tiny-poly",
        "isl sets and relations of every block, and the contractions found from the maps alone.",
        ("tiny-poly m.index -o m.poly", "from a file to a file"),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the filter; the exit code."""
    return stage_filter(argv, parser())
