"""tiny-region: poly text in, region text out."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence

from .stage import stage_filter


def _options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--distribute",
        action="store_true",
        help="take common factors out of sums of floats too, which rounds elsewhere",
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the filter; the exit code."""
    return stage_filter(
        argv,
        "tiny-region",
        "What shares a kernel: one region, one kernel.",
        _options,
        lambda args: {"is_distributed": args.distribute},
    )
