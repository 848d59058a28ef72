"""The verifier of gpu text: what is kept of the rows of a matrix in registers, and matrices that are operands there.

A row of a warpgroup's matrix is held by four threads. `rows` has one number for each row, alike in the four;
`row_parts` has four, and the row's own is their fold. So a part may be multiplied by a number of its row, and set, and
folded by `row_reduce`; anything else would make of four parts what the row's number never was.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...kit.diag import Diag
from ...kit.phrase import Phrase
from ..body import Binary, Body, Literal, Read, walk
from ..expr import Expr
from . import nodes
from .memory import ROW_KINDS
from .nodes import Kernel
from .walk import Visit, bodies_in

ROWS = 64  # of a warpgroup's product
OPERAND_BYTES = (2, 4)
DEPTH_BYTES = 32  # along the sum, of one product


def check_rows(kernel: Kernel, walked: list[Visit], module: Any) -> Iterator[Diag]:
    """E1602 for rows that are not those of a product, for parts that are no numbers of a row, and for operands that do
    not meet."""
    for v in walked:
        for name, fault in _faults(v):
            yield Diag("E1602", kernel.name, {"name": name, "fault": fault}, v.statement.span)


def _faults(v: Visit) -> Iterator[tuple[str, str]]:
    s = v.statement
    if isinstance(s, nodes.Reg) and s.kind in ROW_KINDS:
        if [e.constant for e in s.type.shape] != [ROWS] or s.type.dtype.name != "fp32" or s.ring > 1:
            yield s.name, Phrase("is not fp32 of the {rows} rows of a product", rows=ROWS)
    if isinstance(s, nodes.Reg) and s.kind == "wgmma_a" and s.type.dtype.bytes not in OPERAND_BYTES:
        yield s.name, Phrase("is an operand of {dtype}, and not of 2 or 4 bytes", dtype=s.type.dtype)
    if isinstance(s, nodes.Each) and (of := v.arrays.get(s.of)) is not None:
        wanted = 1 if of.kind in ROW_KINDS else 2
        if len(s.names) != wanted or wanted == 1 and (s.at or s.size):
            yield (
                s.of,
                Phrase(
                    "is walked by {count} coordinates, or from a corner, where it has {wanted}",
                    count=len(s.names),
                    wanted=wanted,
                ),
            )
    if isinstance(s, nodes.Assign) and _kind(v, s.to.name) in (*ROW_KINDS, "wgmma_a"):
        yield from _misplaced(s, v)
    if isinstance(s, nodes.RowReduce) and (of := v.arrays.get(s.source)) is not None:
        if of.kind == "row_parts" and _kind(v, s.to) != "rows" or of.type.shape[0] != Expr.of(ROWS):
            yield (
                s.source,
                Phrase(
                    "is not folded into {to}: parts of rows are folded into rows, of {rows} at a time",
                    to=s.to,
                    rows=ROWS,
                ),
            )
    if isinstance(s, nodes.Wgmma) and _kind(v, s.a.name) == "wgmma_a":
        yield from _unmet(s, v)
    for body in bodies_in(s):
        for node in _parts_read(body, v):
            if not (isinstance(s, nodes.Assign) and _is_scaled(s, body, node, v)):
                yield node.tensor, Phrase("has parts of rows, which are folded before they are numbers of a row")


def _kind(v: Visit, name: str) -> str:
    return getattr(v.arrays.get(name), "kind", "")


def _parts_read(body: Body, v: Visit) -> list[Read]:
    return [n for n in walk(body) if isinstance(n, Read) and _kind(v, n.tensor) == "row_parts"]


def _is_scaled(s: nodes.Assign, body: Body, part: Read, v: Visit) -> bool:
    """Whether a part becomes itself times a number of its row."""
    if not isinstance(body, Binary) or body.op != "mul" or (s.to.name, s.to.index) != (part.tensor, part.index):
        return False
    sides = (body.left, body.right)
    others = [side for side in sides if side != part]
    return len(others) == 1 and not _parts_read(others[0], v)


def _misplaced(s: nodes.Assign, v: Visit) -> Iterator[tuple[str, str]]:
    """What is written at another element than that of the `each` around it, or to parts of rows other than 0."""
    around = next((p for p in reversed(v.path) if isinstance(p, nodes.Each)), None)
    if around is None:
        yield s.to.name, Phrase("is written outside `each`, where a thread has no current element")
        return
    kind, names = _kind(v, s.to.name), tuple(map(Expr.of, around.names))
    if kind in ROW_KINDS and s.to.index != names[:1]:
        yield (
            s.to.name,
            Phrase("is written at another row than that of `each {around}`", around=", ".join(around.names)),
        )
    if kind == "wgmma_a" and (len(names) != 2 or s.to.index != names or around.at):
        yield (
            s.to.name,
            Phrase("is written at another element than that of `each {around}`", around=", ".join(around.names)),
        )
    if kind == "row_parts" and not isinstance(s.value, Literal) and not _parts_read(s.value, v):
        yield s.to.name, Phrase("has parts of rows, and is set to a number of each row, four of which would be folded")
    if kind == "row_parts" and isinstance(s.value, Literal) and s.value.value != 0:
        yield (
            s.to.name,
            Phrase("has parts of rows, and starts at {value}, four of which would be folded", value=s.value.value),
        )


def _unmet(s: nodes.Wgmma, v: Visit) -> Iterator[tuple[str, str]]:
    """A left operand in registers that has not the rows of the accumulator, the columns of the sum, or the right one's
    numbers."""
    a, b, acc = (v.arrays.get(name) for name in (s.a.name, s.b.name, s.acc))
    if not isinstance(b, nodes.Shared) or not isinstance(acc, nodes.Reg):
        return
    rows, columns = (e.constant for e in a.type.shape)
    depth = DEPTH_BYTES // a.type.dtype.bytes * s.steps
    if rows != acc.type.shape[0].constant or columns != depth or a.type.dtype != b.type.dtype:
        yield (
            s.a.name,
            Phrase("is not a left operand of {depth} elements along the sum beside {b}", depth=depth, b=s.b.name),
        )


__all__ = ["check_rows"]
