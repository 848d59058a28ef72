"""Arrays in shared memory: what `declare` of a family counts is what its emission declares, and how far apart rows
are that are written along one axis and read along the other."""

from __future__ import annotations

from ...ir.gpu import nodes
from ..family import Array
from .fold import type_of


def shared(name: str, array: Array) -> nodes.Shared:
    """The statement that allocates an array, under a name of the kernel's own."""
    return nodes.Shared(name, type_of(array.dtype, *array.shape), array.slots, array.swizzle, array.cluster, array.kind)


def pitch_of(side: int, size: int) -> int:
    """Elements of `size` bytes from a row of a tile of `side` columns to the next: an odd number of words, so that a
    column is in different banks."""
    return side + max(1, 4 // size)
