"""What does not go together in a gpu statement: dims and a tensor's elements, boxes and tiles, windows and the copy
engine, threads and what they fold."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...kit.phrase import Phrase
from ...target.hopper import HELD
from ..expr import Expr
from ..rules import product
from . import nodes
from .nodes import Kernel
from .sends import BLOCK
from .walk import Visit, tensor_of

# Of matrices that threads share what their rows and columns are multiples of, and those that are sums.
SIDES = {"wgmma": (64, 8), "wgmma_a": (64, 16), "mma": (16, 8), "mma_a": (16, 16), "mma_b": (16, 8)}
SUMS = ("wgmma", "mma")
WITHOUT = 16  # bytes of a tile's swizzle that its map has none for: pieces keep their places
Fault = tuple[str, str]  # a name, and what it is or has that does not go together


def misfits(s: Any, v: Visit, kernel: Kernel, tensors: Mapping[str, Any]) -> Iterator[Fault]:
    """What does not go together in one statement of a kernel."""
    found = _MISFITS.get(type(s))
    return found(s, v, kernel, tensors) if found is not None else iter(())


def _of_map(s: nodes.TensorMap, v: Visit, kernel: Kernel, tensors: Mapping[str, Any]) -> Iterator[Fault]:
    tensor = tensors.get(tensor_of(s.tensor, v))
    if tensor is None:
        return
    yield from _elements(s.tensor, s.dims, tensor)
    dtype = tensor.type.dtype
    if s.rounding and dtype.name != "fp32":
        yield s.tensor, Phrase("is {dtype}, of which nothing is rounded on the way", dtype=dtype)
    across = s.box[-1].constant
    if s.swizzle and across is not None and across * dtype.bytes != s.swizzle:
        yield s.name, Phrase("has boxes whose rows are not the {swizzle} B of its swizzle", swizzle=s.swizzle)
    if s.windows:
        for fault in s.windows.faults(tensor.type.shape, s.box):
            yield s.tensor, fault


def _elements(name: str, dims: Sequence[Expr], tensor: Any) -> Iterator[Fault]:
    """Dims under which a tensor is seen."""
    if dims and product(dims) != product(tensor.type.shape):
        yield name, Phrase("does not have the elements of {s}", s=" x ".join(map(str, dims)))


def _of_shared(s: nodes.Shared, v: Visit, kernel: Kernel, tensors: Mapping[str, Any]) -> Iterator[Fault]:
    count = math.prod(kernel.cluster) if kernel.cluster else 0
    if s.cluster and s.cluster != count:
        yield s.name, Phrase("has one in {given} CTAs, and the cluster is of {count}", given=s.cluster, count=count)
    row = s.type.shape[-1].constant if s.type.shape else None
    if s.swizzle and (s.type.rank != 2 or row is not None and row * s.type.dtype.bytes % s.swizzle):
        yield s.name, Phrase("does not have rows that the {swizzle} B of its swizzle divide", swizzle=s.swizzle)
    if not s.kind:
        return
    is_whole = s.type.rank == 2 and all(e.constant and e.constant % side == 0 for e, side in zip(s.type.shape, BLOCK))
    if not is_whole or s.swizzle or s.cluster or s.type.dtype.name != "fp32":
        rows, columns = BLOCK
        yield (
            s.name,
            Phrase(
                "is not as registers hold a sum: fp32, blocks of {block} rows, columns by {block2}, no swizzle, no "
                "cluster",
                block=rows,
                block2=columns,
            ),
        )


def _of_registers(s: nodes.Reg, v: Visit, kernel: Kernel, tensors: Mapping[str, Any]) -> Iterator[Fault]:
    """Matrices that threads share are made of whole ones of one product; sums are fp32, and there is one of a name."""
    if s.kind not in SIDES:
        return
    shape = [e.constant for e in s.type.shape]
    if len(shape) != 2 or any(size is not None and size % side for size, side in zip(shape, SIDES[s.kind])):
        rows, columns = SIDES[s.kind]
        yield (
            s.name,
            Phrase("does not have rows by {rows} and columns by {columns}", rows=rows, columns=columns),
        )
    if s.kind in SUMS and (s.type.dtype.name != "fp32" or s.ring > 1):
        yield s.name, Phrase("is a sum, which is fp32 and without a ring")


def _of_written(s: Any, v: Visit, kernel: Kernel, tensors: Mapping[str, Any]) -> Iterator[Fault]:
    """What is written is of the dtype of what it is written to; by stmatrix, inside `each` of a sum, to a tile."""
    held = v.arrays.get(s.to.name)
    if held is None or isinstance(held, nodes.Pick):
        held = tensors.get(tensor_of(s.to.name, v))
    dtype = getattr(getattr(held, "type", None), "dtype", s.value.dtype)
    if s.value.dtype != dtype:
        yield s.to.name, Phrase("is {dtype}, and {other} is written to it", dtype=dtype, other=s.value.dtype)
    if getattr(s, "by", ""):
        around = next((p for p in reversed(v.path) if isinstance(p, nodes.Each)), None)
        of = v.arrays.get(around.of) if around is not None else None
        if not isinstance(held, nodes.Shared) or not held.swizzle or getattr(of, "kind", "") != "wgmma":
            yield s.to.name, Phrase("is not a swizzled tile inside `each` of a sum, which alone is stored by stmatrix")


def _of_rows(s: nodes.StoreRows, v: Visit, kernel: Kernel, tensors: Mapping[str, Any]) -> Iterator[Fault]:
    name = s.to.name
    tensor = tensors.get(tensor_of(name, v))
    if tensor is None:
        yield name, Phrase("is not a tensor")
    else:
        yield from _elements(name, s.dims, tensor)
    if len(s.sides) != 2 or s.sides[1] != len(s.box) - 1 or len(s.box) != len(s.to.index):
        yield name, Phrase("is written in boxes that do not have rows along its last dim")
    held = v.arrays.get(s.source.name)
    if not isinstance(held, nodes.Reg):
        return
    shape = [e.constant for e in held.type.shape]
    if shape != [s.box[n].constant for n in s.sides] or shape[0] != BLOCK[0] or held.ring > 1:
        yield s.source.name, Phrase("is not the matrix of {block} rows that its box holds", block=BLOCK[0])
    if tensor is not None and tensor.type.dtype.name not in HELD:
        fault = Phrase(
            "is {dtype}, which is not stored from registers; {held} are",
            dtype=tensor.type.dtype,
            held=", ".join(HELD),
        )
        yield name, fault


def _of_load(s: nodes.TmaLoad, v: Visit, kernel: Kernel, tensors: Mapping[str, Any]) -> Iterator[Fault]:
    tile, box = v.arrays.get(s.to.name), v.arrays.get(s.source.name)
    if not isinstance(tile, nodes.Shared) or not isinstance(box, nodes.TensorMap):
        return
    if s.is_streamed and (s.multicast or box.windows):
        yield s.token, Phrase("is streamed, which neither windows nor what goes to several CTAs are")
    yield from _laid_out(s.to.name, tile, box, v, tensors)
    sides = _sides(box)
    if len(sides) > len(tile.type.shape) and None not in sides:
        *rows, columns = sides  # the points of several dims as the rows of one tile, all in one box
        sides = [math.prod(rows), columns] if tile.type.shape[0] == Expr.of(math.prod(rows)) else sides
    if not _goes_into(sides, tile, lambda size, side: size % side == 0):
        yield s.to.name, Phrase("is not made of boxes of {mapped}", mapped=box.name)


def _of_store(s: nodes.TmaStore, v: Visit, kernel: Kernel, tensors: Mapping[str, Any]) -> Iterator[Fault]:
    tile, box = v.arrays.get(s.source.name), v.arrays.get(s.to.name)
    if getattr(box, "windows", None):
        yield s.to.name, Phrase("is a map of windows, to which nothing is stored")
    if not isinstance(tile, nodes.Shared) or not isinstance(box, nodes.TensorMap):
        return
    yield from _laid_out(s.source.name, tile, box, v, tensors)
    if not _goes_into(_sides(box), tile, lambda size, side: size == side):
        yield s.source.name, Phrase("is not made of boxes of {mapped}", mapped=box.name)


def _laid_out(
    name: str, tile: nodes.Shared, box: nodes.TensorMap, v: Visit, tensors: Mapping[str, Any]
) -> Iterator[Fault]:
    """A tile is laid out as its map's boxes are, and of the dtype of its map's tensor: bytes are moved as they are."""
    if (0 if tile.swizzle == WITHOUT else tile.swizzle) != box.swizzle:
        yield (
            name,
            Phrase(
                "has swizzle {swizzle}, and {mapped} has {other}",
                swizzle=tile.swizzle,
                mapped=box.name,
                other=box.swizzle,
            ),
        )
    tensor = tensors.get(tensor_of(box.tensor, v))
    if tensor is not None and tensor.type.dtype != tile.type.dtype:
        yield (
            name,
            Phrase(
                "is {dtype}, and {other} is {dtype2}", dtype=tile.type.dtype, other=box.tensor, dtype2=tensor.type.dtype
            ),
        )


def _sides(box: nodes.TensorMap) -> list[int | None]:
    return [e.constant for e in box.box if e.constant != 1]


def _goes_into(sides: list[int | None], tile: nodes.Shared, fits: Callable[[int, int], bool]) -> bool:
    """Whether the sides of a box go into the last of a tile's, size by size."""
    shape = [e.constant for e in tile.type.shape][-len(sides) :]
    return len(sides) == len(shape) and all(side and size and fits(size, side) for size, side in zip(shape, sides))


def _of_fold(
    s: nodes.BlockReduce | nodes.BlockScan, v: Visit, kernel: Kernel, tensors: Mapping[str, Any]
) -> Iterator[Fault]:
    """Warps meet in shared memory, an element for each or, of a row of elements, as many."""
    if not s.via:
        if kernel.threads > 32:
            yield s.name, Phrase("is scanned over several warps, which takes `via` shared memory")
        return
    via, own = v.arrays.get(s.via), v.arrays.get(s.name)
    is_row = isinstance(s, nodes.BlockScan) and isinstance(own, nodes.Reg) and own.type.rank == 1
    count = (own.type.shape[0].constant if is_row else 1) * -(-kernel.threads // 32)
    if isinstance(via, nodes.Shared) and via.bytes // via.ring < count * via.type.dtype.bytes:
        yield s.via, Phrase("has fewer elements than the block has warps")


_MISFITS: dict[type, Callable[[Any, Visit, Kernel, Mapping[str, Any]], Iterator[Fault]]] = {
    nodes.TensorMap: _of_map,
    nodes.Shared: _of_shared,
    nodes.Reg: _of_registers,
    **dict.fromkeys((nodes.Assign, nodes.Store, nodes.Copy, nodes.CpAsync, nodes.Atomic), _of_written),
    nodes.StoreRows: _of_rows,
    nodes.TmaLoad: _of_load,
    nodes.TmaStore: _of_store,
    nodes.BlockReduce: _of_fold,
    nodes.BlockScan: _of_fold,
}
