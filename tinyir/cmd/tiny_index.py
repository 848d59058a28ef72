"""tiny-index: tiny text in, index text out."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence

from .stage import stage_filter, stage_parser


def parser() -> ArgumentParser:
    """The options of the command."""
    return stage_parser(
        "tiny-index",
        "Where each element comes from: axes, domains and access maps of every value.",
        ("tiny-index m.tiny -o m.index", "from a file to a file"),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the filter; the exit code."""
    return stage_filter(argv, parser())
