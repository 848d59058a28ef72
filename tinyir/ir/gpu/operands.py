"""The verifier of gpu text: products whose operands meet, and whose shape says what is computed.

Of an operand in shared memory a product reads a box, from the corner that is said or from the tile's own: the rows or
columns of its sum, by what its steps take along the sum. The box is inside the tile, and of the dtype that is
multiplied; so is what `ldmatrix` takes to registers, and a piece whose elements `each` walks is inside its matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...kit.diag import Diag
from ...kit.phrase import Phrase
from ..expr import ZERO
from . import nodes
from .nodes import Kernel, Place
from .walk import Visit

OPERAND_BYTES = (2, 4)
DEPTH_BYTES = 32  # along the sum, of one product of a warpgroup
STEP = 16  # elements along the sum, of a warp's operands
Fault = tuple[str, str]  # a name, and what does not meet
Box = tuple[Place, Any, tuple[int, ...]]  # a place, what is declared under its name, the sides of what is read there


def check_operands(kernel: Kernel, walked: list[Visit], module: Any) -> Iterator[Diag]:
    """E1602 for operands that do not meet, E1614 for those that reach over the end of their tile."""
    for v in walked:
        found = _FAULTS.get(type(v.statement))
        for name, fault in found(v.statement, v) if found is not None else ():
            yield Diag("E1602", kernel.name, {"name": name, "fault": fault}, v.statement.span)
        boxes = _BOXES.get(type(v.statement))
        for place, array, sides in boxes(v.statement, v) if boxes is not None else ():
            yield from _outside(kernel, v, place, array, sides)


def _outside(kernel: Kernel, v: Visit, place: Place, array: Any, sides: tuple[int, ...]) -> Iterator[Diag]:
    corner = place.index or (ZERO,) * len(sides)
    for axis, (e, side, size) in enumerate(zip(corner, sides, array.type.shape)):
        if not v.inside.is_one_of(e, size, side - 1):
            facts = {"place": str(place), "index": str(e + side - 1), "axis": axis, "size": str(size)}
            yield Diag("E1614", kernel.name, facts, v.statement.span)


def _sizes(array: Any) -> list[int]:
    return [e.constant or 0 for e in array.type.shape]


def _arrays(v: Visit, *names: str) -> list[Any]:
    return [v.arrays.get(name) for name in names]


# --- registers


def _of_piece(s: nodes.Each, v: Visit) -> Iterator[Box]:
    """The piece whose elements are walked."""
    if s.at:
        yield Place(s.of, s.at), v.arrays[s.of], s.size


def _of_registers(s: nodes.Reg, v: Visit) -> Iterator[Fault]:
    if s.kind == "wgmma_a" and s.type.dtype.bytes not in OPERAND_BYTES:
        yield s.name, Phrase("is an operand of {dtype}, and not of 2 or 4 bytes", dtype=s.type.dtype)


def _of_ldmatrix(s: nodes.Ldmatrix, v: Visit) -> Iterator[Fault]:
    """What is taken as it is; its words in two halves, one like the other."""
    tile, to, low = _arrays(v, s.source.name, s.to.name, s.low.name if s.low else "")
    if tile.type.dtype != to.type.dtype:
        yield s.to.name, Phrase("is {dtype}, and {other} is written to it", dtype=to.type.dtype, other=tile.type.dtype)
    if low is not None and low.type != to.type:
        yield s.low.name, Phrase("is not like {to}, which has the other parts of its words", to=s.to.name)


def _of_loaded(s: nodes.Ldmatrix, v: Visit) -> Iterator[Box]:
    tile, to = _arrays(v, s.source.name, s.to.name)
    rows, columns = _sizes(to)
    yield s.source, tile, (columns, rows) if s.is_transposed else (rows, columns)


# --- products of a warp


def _of_mma(s: nodes.Mma, v: Visit) -> Iterator[Fault]:
    """Operands of a warp's product that have not its rows, its columns, or the same elements along the sum."""
    a, b, acc = _arrays(v, s.a.name, s.b.name, s.acc)
    (rows, deep), (depth, columns) = _sizes(a), _sizes(b)
    row, column = [e.constant for e in s.a.index] if len(s.a.index) == 2 else (0, 0)
    is_whole = row == 0 and column is not None and column % STEP == 0 and 0 <= column <= deep - depth
    if not is_whole or depth != STEP or deep != depth and not s.a.index:
        yield (
            s.a.name,
            Phrase("is not a left operand of {depth} elements along the sum beside {b}", depth=depth, b=s.b.name),
        )
    if [rows, columns] != _sizes(acc) or a.type.dtype != b.type.dtype:
        left, right = s.a.name, s.b.name
        yield (
            s.acc,
            Phrase(
                "is not {left} times {right}, [{rows}, {columns}]", left=left, right=right, rows=rows, columns=columns
            ),
        )


# --- products of a warpgroup


def _of_wgmma(s: nodes.Wgmma, v: Visit) -> Iterator[Fault]:
    a, b, acc = _arrays(v, s.a.name, s.b.name, s.acc)
    columns, bytes_ = _sizes(acc)[-1], b.type.dtype.bytes
    if f"n{columns}k" not in s.shape:
        yield s.acc, Phrase("has {columns} columns, and not those of {shape}", columns=columns, shape=s.shape)
    if not s.shape.endswith(f"k{DEPTH_BYTES // bytes_}"):
        what = Phrase("is {dtype}, and {shape} takes others along the sum", dtype=b.type.dtype, shape=s.shape)
        yield s.b.name, what
    if a.type.dtype != b.type.dtype and not (a.type.dtype.bytes == bytes_ == 1):
        what = Phrase("is {dtype}, and is multiplied by {other}", dtype=a.type.dtype, other=b.type.dtype)
        yield s.a.name, what
    if isinstance(a, nodes.Reg) and s.a_transposed:
        yield s.a.name, Phrase("is in registers, where nothing is transposed")
    if getattr(a, "kind", "") == "wgmma_a":
        depth = DEPTH_BYTES // a.type.dtype.bytes * s.steps
        if _sizes(a) != [_sizes(acc)[0], depth]:
            yield (
                s.a.name,
                Phrase("is not a left operand of {depth} elements along the sum beside {b}", depth=depth, b=s.b.name),
            )


def _of_factors(s: nodes.Wgmma, v: Visit) -> Iterator[Box]:
    a, b, acc = _arrays(v, s.a.name, s.b.name, s.acc)
    (rows, columns), depth = _sizes(acc), DEPTH_BYTES // b.type.dtype.bytes * s.steps
    if isinstance(a, nodes.Shared):
        yield s.a, a, (depth, rows) if s.a_transposed else (rows, depth)
    yield s.b, b, (columns, depth) if s.b_transposed else (depth, columns)


_FAULTS: dict[type, Callable[[Any, Visit], Iterator[Fault]]] = {
    nodes.Reg: _of_registers,
    nodes.Ldmatrix: _of_ldmatrix,
    nodes.Mma: _of_mma,
    nodes.Wgmma: _of_wgmma,
}
_BOXES: dict[type, Callable[[Any, Visit], Iterator[Box]]] = {
    nodes.Each: _of_piece,
    nodes.Ldmatrix: _of_loaded,
    nodes.Wgmma: _of_factors,
}
