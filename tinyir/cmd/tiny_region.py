"""tiny-region: poly text in, region text out."""

from __future__ import annotations

from typing import Sequence

from .stage import stage_filter


def main(argv: Sequence[str] | None = None) -> int:
    """Run the filter; the exit code."""
    return stage_filter(argv, "tiny-region", "What shares a kernel: one region, one kernel.")
