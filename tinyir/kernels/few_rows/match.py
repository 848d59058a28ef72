"""Which products have few rows, and a large factor that is contiguous along the sum: what each of its reads is for the
elements that a thread takes."""

from __future__ import annotations

import functools

from ...analysis.traffic import FEW_ROWS
from ...ir.body import Axis, Binary, Body, Index, Literal, Read, Reduce, Select, Ternary, Unary, walk
from ...ir.expr import Expr
from ...ir.neighbours import is_multiple
from ...ir.region import Region
from ...ir.runs import offset_of
from ...ir.traits import axes_of, folds_of, scans_of
from ...kit.records import dataclass
from ..alternatives.inline import Tangled, written_out
from ..problem import Contraction, Kernel, Row

MOST_ROWS = 16  # of a large factor that is in memory, as other families fetch it
FACTORS = ("fp16", "bf16")
PIECES = (32, 16, 8)  # elements along the sum that a thread takes of a column
ACCESS_BYTES = 16
INSIDE = (Read, Literal, Index, Unary, Binary, Ternary, Select)
CHUNK = "chunk"  # the number of a piece, as the sum is written for `layout_of`
PLACE = "place"  # an element in it


@dataclass(frozen=True, slots=True)
class Product:
    """`value = sum over sum of rows * columns`: `small` is read, `large` computed of what is read. `left` is None of a
    row alone."""

    value: str
    small: Read
    large: Body
    left: Axis | None
    right: Axis
    sum: Axis

    @property
    def rows(self) -> int:
        """Rows."""
        return 1 if self.left is None else self.left.size.constant


@functools.lru_cache(maxsize=4096)
def product_of(region: Region, kernel: Kernel) -> Product | None:
    """The product that a region is, or None."""
    found = _of_contraction(kernel) if isinstance(kernel, Contraction) else _of_row(region, kernel)
    if found is None or scans_of(region) or len(folds_of(region)) != 1:
        return None
    if not 0 < found.rows <= (MOST_ROWS if isinstance(found.large, Read) else FEW_ROWS):
        return None
    names = [(a.name if a is not None else "") for a in (found.left, found.right, found.sum)]
    small, large = axes_of(found.small), axes_of(found.large)
    is_apart = names[1] not in small and not {names[0]} & large and {names[1], names[2]} <= large
    is_plain = all(isinstance(n, INSIDE) and not isinstance(n, Select) for n in walk(found.large))
    dtypes = {found.small.dtype.name, found.large.dtype.name}
    return found if is_apart and is_plain and len(dtypes) == 1 and dtypes <= set(FACTORS) else None


def _of_contraction(kernel: Contraction) -> Product | None:
    small, large = kernel.factors
    is_few = len(kernel.left) == 1 and kernel.left[0].size.constant is not None
    if kernel.batch or not is_few or len(kernel.right) != 1 or len(kernel.sum) != 1 or kernel.dtype.name != "fp32":
        return None
    if not isinstance(small, Read) or not kernel.is_alone:
        return None
    return Product(kernel.value, small, large, kernel.left[0], kernel.right[0], kernel.sum[0])


def _of_row(region: Region, kernel: Row) -> Product | None:
    lets = [let for let in region.lets if isinstance(let.expr, Reduce)]
    if len(lets) != 1 or len(kernel.rows) != 1 or len(kernel.row) != 1:
        return None
    fold: Reduce = lets[0].expr
    axis = fold.axes[0] if fold.axes[0].size is not None else kernel.row[0]
    written = {n for y in region.yields for e in y.index for n in e.names()}
    if fold.op != "sum" or fold.dtype.name != "fp32" or axis.name in written:
        return None
    try:
        body = written_out(region, fold.body)
    except Tangled:
        return None
    if not isinstance(body, Binary) or body.op != "mul" or body.dtype.name != "fp32":
        return None
    column = kernel.rows[0].name
    small, large = sorted((body.left, body.right), key=lambda side: column in axes_of(side))
    if not isinstance(small, Read) or column in axes_of(small):
        return None
    return Product(lets[0].name, small, large, None, kernel.rows[0], axis)


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a read's elements are for a piece of a column: `shared` elements of the sum share each of its elements, and
    whether columns have different ones."""

    shared: int
    is_of_column: bool


@functools.lru_cache(maxsize=4096)
def layout_of(region: Region, product: Product, read: Read, piece: int) -> Placed | None:
    """Where a read's elements are for pieces of `piece` of the sum; None where they do not begin on whole accesses."""
    tensor = region.tensor(read.tensor)
    if tensor is None or not read.index:
        return None
    along = piece * Expr.of(CHUNK) + PLACE
    offset = offset_of(tensor.type.shape, read.index).substitute({product.sum.name: along})
    first = offset.substitute({PLACE: 0})
    apart = [(offset.substitute({PLACE: n}) - first).constant for n in range(piece)]
    shared = next((n for n in range(1, piece) if apart[n] != 0), piece)
    if piece % shared or apart != [n // shared for n in range(piece)] or not is_multiple(first, piece // shared):
        return None
    return Placed(shared, product.right.name in axes_of(read))


def reads_of(product: Product) -> tuple[Read, ...]:
    """The reads of the large factor, each once."""
    return tuple(dict.fromkeys(n for n in walk(product.large) if isinstance(n, Read)))


@functools.lru_cache(maxsize=4096)
def pieces_of(region: Region, kernel: Kernel) -> tuple[int, ...]:
    """Elements along the sum that a thread may take of a column at once, the most first: the large factor's main read
    is one access of 16 bytes at most, and pieces of four threads fill the sum."""
    product = product_of(region, kernel)
    if product is None:
        return ()
    found = []
    for piece in PIECES:
        every = [layout_of(region, product, read, piece) for read in reads_of(product)]
        small = layout_of(region, product, product.small, piece)
        if None in every or small is None or small.shared != 1 or not is_multiple(product.sum.size, 4 * piece):
            continue
        most = max(
            piece // placed.shared * read.dtype.bytes
            for read, placed in zip(reads_of(product), every)
            if placed is not None
        )
        if most <= ACCESS_BYTES:
            found.append(piece)
    return tuple(found)


__all__ = ["CHUNK", "PLACE", "Placed", "Product", "layout_of", "pieces_of", "product_of", "reads_of"]
