"""The verifier of gpu text: what is kept of the rows of a matrix in registers, and matrices that are operands there.

A row of an accumulator is held by four threads. `rows` and `mma_rows` have one number for each row, alike in the four;
`row_parts` and `mma_row_parts` have four, and the row's own is their fold. So a part may be multiplied by a number of
its row, and set, and folded by `row_reduce`; anything else would make of four parts what the row's number never was.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...kit.diag import Diag
from ...kit.phrase import Phrase
from ..body import Binary, Body, Literal, Read, walk
from ..expr import Expr
from . import nodes
from .memory import OPERAND_KINDS, PART_KINDS, ROW_KINDS, WALKED_KINDS
from .nodes import Kernel
from .walk import Visit, bodies_in

COLUMNS = 8  # of which a thread has two, in each row of its own
ROWS = {"wgmma": 64, "mma": 16}  # of one product: a warpgroup's matrix has as many, a warp's a multiple


def check_rows(kernel: Kernel, walked: list[Visit], module: Any) -> Iterator[Diag]:
    """E1602 for rows that are not those of a product, for parts that are no numbers of a row, and for operands that do
    not meet."""
    for v in walked:
        for name, fault in _faults(v):
            yield Diag("E1602", kernel.name, {"name": name, "fault": fault}, v.statement.span)


def _faults(v: Visit) -> Iterator[tuple[str, str]]:
    s = v.statement
    if isinstance(s, nodes.Reg) and s.kind in ROW_KINDS:
        count = [e.constant for e in s.type.shape]
        if not _are_rows(count, ROW_KINDS[s.kind]) or s.type.dtype.name != "fp32" or s.ring > 1:
            rows = ROWS[ROW_KINDS[s.kind]]
            yield s.name, Phrase("is not fp32 of the {rows} rows of a product", rows=rows)
    if isinstance(s, nodes.Each) and (of := v.arrays.get(s.of)) is not None:
        wanted = 1 if of.kind in ROW_KINDS else 2
        if len(s.names) != wanted or (s.at or s.size) and {wanted, len(s.at), len(s.size)} != {2}:
            yield (
                s.of,
                Phrase(
                    "is walked by {count} coordinates, or from a corner, where it has {wanted}",
                    count=len(s.names),
                    wanted=wanted,
                ),
            )
    if isinstance(s, nodes.Assign) and _kind(v, s.to.name) in (*ROW_KINDS, *OPERAND_KINDS, *WALKED_KINDS):
        yield from _misplaced(s, v)
    if isinstance(s, nodes.RowReduce) and {s.source, s.to} <= v.arrays.keys():
        of, to = v.arrays[s.source], v.arrays[s.to]
        is_whole = of.kind not in PART_KINDS or to.kind not in PART_KINDS
        is_alike = ROW_KINDS.get(of.kind, of.kind) == ROW_KINDS.get(to.kind) and of.type.shape[0] == to.type.shape[0]
        if not is_whole or not is_alike:
            yield (
                s.source,
                Phrase("is not folded into {to}: parts are folded into rows, those of the same matrix", to=s.to),
            )
    yield from _of_another_matrix(s, v)
    yield from _elsewhere(s, v)
    for body in bodies_in(s):
        for node in _parts_read(body, v):
            if not (isinstance(s, nodes.Assign) and _is_scaled(s, body, node, v)):
                yield node.tensor, Phrase("has parts of rows, which are folded before they are numbers of a row")


def _are_rows(shape: list[int | None], matrix: str) -> bool:
    """Whether a shape is one of rows of such a matrix."""
    count = shape[0] if len(shape) == 1 else None
    return count == ROWS[matrix] if matrix == "wgmma" else bool(count) and count % ROWS[matrix] == 0


def _kind(v: Visit, name: str) -> str:
    return getattr(v.arrays.get(name), "kind", "")


def _parts_read(body: Body, v: Visit) -> list[Read]:
    return [n for n in walk(body) if isinstance(n, Read) and _kind(v, n.tensor) in PART_KINDS]


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
    is_made_of_another = kind in OPERAND_KINDS and _kind(v, around.of) not in WALKED_KINDS
    is_operand, is_at_home = kind in (*OPERAND_KINDS, *WALKED_KINDS), around.of == s.to.name or is_made_of_another
    if is_operand and (len(names) != 2 or s.to.index != names or around.at or not is_at_home):
        yield (
            s.to.name,
            Phrase("is written at another element than that of `each {around}`", around=", ".join(around.names)),
        )
    if is_operand and any(other.to.name == s.to.name for other in _behind(s, around.body)):
        yield s.to.name, Phrase("is written twice, and its elements are packed once")
    if kind in PART_KINDS and not isinstance(s.value, Literal) and not _parts_read(s.value, v):
        yield s.to.name, Phrase("has parts of rows, and is set to a number of each row, four of which would be folded")
    if kind in PART_KINDS and isinstance(s.value, Literal) and s.value.value != 0:
        yield (
            s.to.name,
            Phrase("has parts of rows, and starts at {value}, four of which would be folded", value=s.value.value),
        )


def _behind(s: nodes.Assign, body: tuple[nodes.Statement, ...]) -> list[nodes.Assign]:
    """The assignments of a block behind one of them."""
    all_of = [other for other in body if isinstance(other, nodes.Assign)]
    return all_of[1 + next((n for n, other in enumerate(all_of) if other is s), len(all_of)) :]


def _elsewhere(s: Any, v: Visit) -> Iterator[tuple[str, str]]:
    """Elements of the sum that `each` walks, from its corner on, which the thread of the current one does not hold: it
    has those of whole matrices of one product, and of whole groups of columns, away. It writes the current one."""
    around = next((p for p in reversed(v.path) if isinstance(p, nodes.Each)), None)
    kind = _kind(v, around.of) if around is not None else ""
    if around is None or kind not in ROWS or len(around.names) != 2:
        return
    corner = around.at or (Expr.of(0),) * 2
    current = tuple(start + name for start, name in zip(corner, around.names))
    read = [n.index for body in bodies_in(s) for n in walk(body) if isinstance(n, Read) and n.tensor == around.of]
    written = [s.to.index] if isinstance(s, nodes.Assign) and s.to.name == around.of else []
    for index, sides in (*((i, (ROWS[kind], COLUMNS)) for i in read), *((i, (0, 0)) for i in written)):
        away = (v.facts.plain(at) - v.facts.plain(here) for at, here in zip(index, current))
        if any(count % side if side else count for e, side in zip(away, sides) for count, _ in e.terms):
            what = Phrase(
                "is not at the current element of `each {around}`, which is [{current}]",
                around=", ".join(around.names),
                current=", ".join(map(str, current)),
            )
            yield around.of, what


def _of_another_matrix(s: Any, v: Visit) -> Iterator[tuple[str, str]]:
    """What is kept of the rows of another kind of matrix than that whose elements `each` walks, or of another count of
    rows, and operands that are made of such a one."""
    around = next((p for p in reversed(v.path) if isinstance(p, nodes.Each)), None)
    of = v.arrays.get(around.of) if around is not None else None
    if not isinstance(of, nodes.Reg):
        return
    names = [n.tensor for body in bodies_in(s) for n in walk(body) if isinstance(n, Read)]
    names += [s.to.name] if isinstance(s, nodes.Assign) else []
    for name in dict.fromkeys(names):
        kind, matrix = _kind(v, name), ROW_KINDS.get(of.kind, OPERAND_KINDS.get(of.kind, of.kind))
        if name == around.of and of.kind in WALKED_KINDS:
            continue
        wanted = ROW_KINDS.get(kind, OPERAND_KINDS.get(kind, matrix))
        has_rows = kind not in (*ROW_KINDS, *OPERAND_KINDS) or v.arrays[name].type.shape[0] == of.type.shape[0]
        if wanted != matrix or not has_rows:
            yield name, Phrase("has not the rows of {of}, which is of kind {kind}", of=around.of, kind=of.kind)
