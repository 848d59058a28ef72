"""What does not go together in a gpu statement: dims and a tensor's elements, boxes and tiles, windows and the copy
engine."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ...kit.phrase import Phrase
from ...target.hopper import HELD
from ..expr import Expr
from ..rules import product
from . import nodes
from .sends import BLOCK
from .walk import Visit, tensor_of


def misfits(s: Any, v: Visit, tensors: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Dims that are not a tensor's elements, and boxes that do not make up a tile, each with its name."""
    name = s.tensor if isinstance(s, nodes.TensorMap) else s.to.name if isinstance(s, nodes.StoreRows) else ""
    tensor = tensors.get(tensor_of(name, v))
    if tensor is not None and s.dims and product(s.dims) != product(tensor.type.shape):
        yield name, Phrase("does not have the elements of {s}", s=" x ".join(map(str, s.dims)))
    if isinstance(s, nodes.TensorMap) and s.windows and tensor is not None:
        for fault in s.windows.faults(tensor.type.shape, s.box):
            yield name, fault
    if isinstance(s, nodes.TmaStore) and getattr(v.arrays.get(s.to.name), "windows", None):
        yield s.to.name, Phrase("is a map of windows, to which nothing is stored")
    if isinstance(s, nodes.StoreRows) and tensor is None:
        yield name, Phrase("is not a tensor")
    if isinstance(s, nodes.Shared) and s.kind:
        is_whole = s.type.rank == 2 and all(
            e.constant and e.constant % side == 0 for e, side in zip(s.type.shape, BLOCK)
        )
        if not is_whole or s.swizzle or s.cluster or s.type.dtype.name != "fp32":
            yield (
                s.name,
                Phrase(
                    "is not as registers hold a sum: fp32, blocks of {block} rows, columns by {block2}, no swizzle, no "
                    "cluster",
                    block=BLOCK[0],
                    block2=BLOCK[1],
                ),
            )
    if isinstance(s, nodes.StoreRows) and (
        len(s.sides) != 2 or s.sides[1] != len(s.box) - 1 or len(s.box) != len(s.to.index)
    ):
        yield name, Phrase("is written in boxes that do not have rows along its last dim")
    held = v.arrays.get(s.source.name) if isinstance(s, nodes.StoreRows) else None
    if isinstance(held, nodes.Reg) and (
        [e.constant for e in held.type.shape] != [s.box[n].constant for n in s.sides]
        or held.type.shape[0].constant != BLOCK[0]
        or held.ring > 1
    ):
        yield s.source.name, Phrase("is not the matrix of {block} rows that its box holds", block=BLOCK[0])
    if isinstance(held, nodes.Reg) and tensor is not None and tensor.type.dtype.name not in HELD:
        yield (
            name,
            Phrase(
                "is {dtype}, which is not stored from registers; {held} are",
                dtype=tensor.type.dtype,
                held=", ".join(HELD),
            ),
        )
    moved = (
        (s.to, s.source) if isinstance(s, nodes.TmaLoad) else (s.source, s.to) if isinstance(s, nodes.TmaStore) else ()
    )
    tile, mapped = (v.arrays.get(place.name) for place in moved) if moved else (None, None)
    if isinstance(tile, nodes.Shared) and isinstance(mapped, nodes.TensorMap):
        sides = [e.constant for e in mapped.box if e.constant != 1]
        if len(sides) > len(tile.type.shape) and None not in sides and isinstance(s, nodes.TmaLoad):
            *rows, columns = sides  # the points of several dims as the rows of one tile, all in one box
            sides = [math.prod(rows), columns] if tile.type.shape[0] == Expr.of(math.prod(rows)) else sides
        shape = [e.constant for e in tile.type.shape][-len(sides) :]
        if len(sides) != len(shape) or any(
            not side or not size or size % side or isinstance(s, nodes.TmaStore) and size != side
            for size, side in zip(shape, sides)
        ):
            yield moved[0].name, Phrase("is not made of boxes of {mapped}", mapped=mapped.name)


__all__ = ["misfits"]
