"""Arrays in shared memory: what `declare` of a family counts is what its emission declares."""

from __future__ import annotations

from ...ir.gpu import nodes
from ..family import Array
from .fold import type_of


def shared(name: str, array: Array) -> nodes.Shared:
    """The statement that allocates an array, under a name of the kernel's own."""
    return nodes.Shared(name, type_of(array.dtype, *array.shape), array.slots, array.swizzle, array.cluster, array.kind)
