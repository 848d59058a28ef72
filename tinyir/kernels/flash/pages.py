"""Keys and values that are in pages, whose numbers data give.

    gather (k1: P = table[i0, floor(i3/64)]) { K[k1, i1, i3 - 64*floor(i3/64), k0] }
        →   a box of rows of page p, p = table[i0, floor(n0/64)] below P, for a block that begins at column n0

Blocks of columns divide a page, so that each is in one. A block's number is read where it is fetched.
"""

from __future__ import annotations

from ...ir.body import Axis, Body, Gather, Read, Reduce, Scan, Scatter, substitute, walk
from ...ir.expr import Expr, Floor
from ...ir.traits import axes_of
from ...kit.phrase import Phrase
from ...kit.records import dataclass


@dataclass(frozen=True, slots=True)
class Page:
    """Where a block's page is named: the integer `at` at a `column`, below `extent`, for the dim `dim`. A page has
    `size` rows."""

    at: Body
    extent: Expr
    dim: int
    size: int
    column: str


def page_of(gather: Gather, row: Axis, here: dict[str, str]) -> tuple[Page, int] | Phrase:
    """The page of a factor that data choose, and the dim that its rows run along; or why it is none. `row` is the axis
    of the block's columns in the factor's own region, whose axes `here` renames."""
    read, name = gather.body, gather.axis.name
    if not isinstance(read, Read) or any(isinstance(n, (Gather, Reduce, Scan, Scatter)) for n in walk(gather.at)):
        return Phrase("a factor that is more than a read of what data choose")
    dims = [n for n, e in enumerate(read.index) if name in e.names()]
    rows = [n for n, e in enumerate(read.index) if row.name in e.names()]
    if len(dims) != 1 or read.index[dims[0]] != Expr.of(name) or len(rows) != 1 or rows[0] == len(read.index) - 1:
        return Phrase("pages that are not a dim of their own, beside that of their rows")
    place = read.index[rows[0]]
    for floor in (m[0] for _, m in place.terms if len(m) == 1 and isinstance(m[0], Floor)):
        size = floor.den.constant
        linear = sum(c for c, m in floor.num.terms if m == (row.name,))
        if size and linear == 1 and place == floor.num - size * (floor.num // size):
            break
    else:
        return Phrase("rows of a page that are not counted by a remainder")
    whole = floor.num // size
    places = [e for n in walk(gather.at) if isinstance(n, Read) for e in n.index if row.name in e.names()]
    if any(row.name in (e - whole).names() for e in places) or row.name in axes_of(gather.at) and not places:
        return Phrase("a page's number that is not read once for each page")
    if read.tensor in {n.tensor for n in walk(gather.at) if isinstance(n, Read)}:
        return Phrase("pages that name themselves")
    return Page(_renamed(gather.at, here), gather.axis.size, dims[0], size, here.get(row.name, row.name)), rows[0]


def _renamed(body: Body, here: dict[str, str]) -> Body:
    return substitute(body, {n: Expr.of(m) for n, m in here.items()})
