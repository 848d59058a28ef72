"""tiny-gpu: plan text in, gpu text out."""

from __future__ import annotations

from collections.abc import Sequence

from .stage import stage_filter


def main(argv: Sequence[str] | None = None) -> int:
    """Run the filter; the exit code."""
    return stage_filter(argv, "tiny-gpu", "What each thread does, in order; tokens say what waits for what.")
