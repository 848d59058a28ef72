"""tiny-gpu: plan text in, gpu text out."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence

from .stage import stage_filter, stage_parser


def parser() -> ArgumentParser:
    """The options of the command."""
    return stage_parser(
        "tiny-gpu",
        "What each thread does, in order; tokens say what waits for what.",
        ("tiny-gpu m.plan -o m.gpu", "the kernels of an edited plan, which is checked first"),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the filter; the exit code."""
    return stage_filter(argv, parser())
