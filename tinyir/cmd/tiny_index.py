"""tiny-index: tiny text in, index text out."""

from __future__ import annotations

from collections.abc import Sequence

from .stage import stage_filter


def main(argv: Sequence[str] | None = None) -> int:
    """Run the filter; the exit code."""
    return stage_filter(
        argv, "tiny-index", "Where each element comes from: axes, domains and access maps of every value."
    )
