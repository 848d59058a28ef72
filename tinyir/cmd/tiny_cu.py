"""tiny-cu: gpu text in, cu text out."""

from __future__ import annotations

from collections.abc import Sequence

from .stage import stage_filter


def main(argv: Sequence[str] | None = None) -> int:
    """Run the filter; the exit code."""
    return stage_filter(
        argv, "tiny-cu", "The kernels as one self-contained CUDA file, its manifest in the comment on top."
    )
