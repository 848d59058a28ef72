"""Masks whose ends the data give: a cache with room, of which each sequence has filled another length.

    where(cmplt(index(i3), lengths[i0]), x, -inf)           →   mask i3 < limit0, limit0 = lengths[i0] within 0..S
    where(cmplt(index(i3), ends[floor(i2/128)]), x, -inf)   →   the same, where tiles are parts of blocks of 128 rows

A comparison of integers whose difference is a number of rows and columns, and a number of data that is the same for all
of a tile, is a mask like any other with that number as a symbol. The kernel reads the number once for each tile, so
that blocks beyond it are not fetched. It is cut off where no row and no column of the tile would tell.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.body import Axis, Binary, Body, Gather, Index, Literal, Random, Read, Ternary, Unary, counted, walk
from ...ir.expr import ONE, ZERO, Bound, Expr, Floor
from ...ir.region import Region
from ...ir.traits import axes_of
from ...ir.types import DTYPES, PLACES, is_exact
from ...kit.records import dataclass
from .second import inlined
from .weights import No

I64 = DTYPES["i64"]
TILE_ROWS = 64  # of the smallest tile on tensor cores: others have some times as many


@dataclass(frozen=True, slots=True)
class Limit:
    """An integer of a tile that data give: `value` within 0..`most`, by a name that no text has. `rows`: it is that of
    a block of this number of rows, which has whole tiles; 0 where it is the same for all rows."""

    name: str
    value: Body
    most: Expr
    rows: int = 0


def limits_in(
    region: Region, condition: Body, row: Axis, column: Axis, taken: int
) -> tuple[tuple[Bound, ...], tuple[Limit, ...], Body | None]:
    """The masks that a condition on a score states, the limits that these name, counted from `taken` on, and what is
    left of the condition, None for nothing."""
    masks: list[Bound] = []
    limits: list[Limit] = []
    rest: list[Body] = []
    try:
        parts = list(_parts(inlined(region, condition)))
    except No:
        return (), (), condition
    for part in parts:
        found = _limit(part, row, column, taken + len(limits))
        if found is None:
            rest.append(part)
        else:
            masks.append(found[0])
            limits.append(found[1])
    if not limits:
        return (), (), condition
    left: Body | None = None
    for part in rest:
        left = part if left is None else Binary("and", left, part, DTYPES["bool"])
    return tuple(masks), tuple(limits), left


def _parts(condition: Body) -> Iterator[Body]:
    """What must hold together."""
    if isinstance(condition, Binary) and condition.op == "and":
        yield from _parts(condition.left)
        yield from _parts(condition.right)
    else:
        yield condition


def _limit(condition: Body, row: Axis, column: Axis, number: int) -> tuple[Bound, Limit] | None:
    """A condition as a mask with its limit: a*row + b*column + rest + data >= 1."""
    is_not = isinstance(condition, Unary) and condition.op == "not"
    compared = condition.x if is_not else condition
    if not isinstance(compared, Binary) or compared.op != "cmplt" or compared.left.dtype not in PLACES:
        return None
    low, high = (compared.right, compared.left) if is_not else (compared.left, compared.right)
    place, data = _linear(high)
    other, taken = _linear(low)
    place, data = place - other + is_not, [*data, *((-sign, body) for sign, body in taken)]  # not y < x: x <= y
    own = {row.name, column.name}
    if not data or any(column.name in axes_of(body) or _is_chosen(body) for _, body in data):
        return None
    rows = {size for _, body in data for size in _blocks(body, row.name)}
    if len(rows) > 1 or any(size % TILE_ROWS for size in rows):
        return None
    by = {axis.name: sum(c for c, m in place.terms if m == (axis.name,)) for axis in (row, column)}
    rest = place - sum((c * Expr.of(name) for name, c in by.items()), ZERO)
    if by[column.name] not in (1, -1) or own & set(rest.names()):
        return None
    most = rest + sum((max(by[a.name], 0) * (a.size - 1) for a in (row, column)), ZERO)
    wide = sum((abs(by[a.name]) * (a.size - 1) for a in (row, column)), ONE)
    name = f"limit{number}"
    value: Body = Index(most, I64)
    for sign, body in data:
        value = Binary(
            "add" if sign > 0 else "sub", value, Unary("cast", body, I64) if body.dtype != I64 else body, I64
        )
    value = Binary("min", Binary("max", value, Literal(0, I64), I64), Index(wide, I64), I64)
    return Bound(place + name - most, lower=ONE), Limit(name, value, wide, next(iter(rows), 0))


def _blocks(body: Body, row: str) -> Iterator[int]:
    """The rows of the blocks by whose number an expression is read, 1 where it is read by the row itself."""
    for node in (n for n in walk(body) if row in axes_of(n) and not isinstance(n, (Unary, Binary))):
        atoms = (a for e in node.index for _, m in e.terms for a in m) if isinstance(node, Read) else (row,)
        for atom in (a for a in atoms if row in ((a,) if isinstance(a, str) else (*a.num.names(), *a.den.names()))):
            is_block = isinstance(atom, Floor) and atom.num == Expr.of(row) and atom.den.constant is not None
            yield atom.den.constant if is_block else 1


def _is_chosen(body: Body) -> bool:
    return any(isinstance(n, (Gather, Random, Ternary)) for n in walk(body))


def _linear(body: Body) -> tuple[Expr, list[tuple[int, Body]]]:
    """An integer as an expression of axes and sizes, and data with their signs."""
    number = counted(body)
    if number is not None:
        return number, []
    if isinstance(body, Unary) and body.op == "cast" and body.x.dtype.is_integer and is_exact(body.x.dtype, body.dtype):
        return _linear(body.x)
    if isinstance(body, Unary) and body.op == "neg" and body.dtype in PLACES:
        place, data = _linear(body.x)
        return -1 * place, [(-sign, inner) for sign, inner in data]
    if isinstance(body, Binary) and body.op in ("add", "sub") and body.dtype in PLACES:
        (left, ours), (right, theirs) = _linear(body.left), _linear(body.right)
        if body.op == "add":
            return left + right, [*ours, *theirs]
        return left - right, [*ours, *((-sign, inner) for sign, inner in theirs)]
    return ZERO, [(1, body)]
