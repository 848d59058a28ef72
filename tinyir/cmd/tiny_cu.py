"""tiny-cu: gpu text in, cu text out."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence

from .stage import stage_filter, stage_parser


def parser() -> ArgumentParser:
    """The options of the command."""
    return stage_parser(
        "tiny-cu",
        "The kernels as one self-contained CUDA file, its manifest in the comment on top.",
        ("tiny-cu m.gpu -o k.cu", "one CUDA file, to run with tiny-run"),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the filter; the exit code."""
    return stage_filter(argv, parser())
