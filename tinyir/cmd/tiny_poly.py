"""tiny-poly: index text in, poly text out."""

from __future__ import annotations

from collections.abc import Sequence

from .stage import stage_filter


def main(argv: Sequence[str] | None = None) -> int:
    """Run the filter; the exit code."""
    return stage_filter(
        argv, "tiny-poly", "isl sets and relations of every block, and the contractions found from the maps alone."
    )
