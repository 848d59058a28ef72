"""How far apart the rows of a tile are that is written along one axis and read along the other."""

from __future__ import annotations


def pitch_of(side: int, size: int) -> int:
    """Elements of `size` bytes from a row of a tile of `side` columns to the next: an odd number of words, so that a
    column is in different banks."""
    return side + max(1, 4 // size)
