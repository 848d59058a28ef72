"""Which products have few rows, and a large factor that is contiguous along the sum, or is computed of what is
contiguous along its columns: what each of its reads is for the elements that a thread takes."""

from __future__ import annotations

import functools

from ...analysis.traffic import FEW_ROWS
from ...ir.body import Axis, Binary, Body, Index, Literal, Read, Reduce, Select, Ternary, Unary, walk
from ...ir.expr import Expr
from ...ir.neighbours import is_multiple
from ...ir.plan import Plan, Vectorize
from ...ir.region import Region
from ...ir.runs import offset_of
from ...ir.traits import axes_of, folds_of, scans_of
from ...kit.phrase import Phrase
from ...kit.records import dataclass
from ..alternatives.inline import Tangled, written_out
from ..family import Problem
from ..problem import Contraction, Kernel, Row

MOST_ROWS = 16  # of a large factor that is in memory, as other families fetch it
FACTORS = ("fp16", "bf16")
PIECES = (32, 16, 8)  # elements along the sum that a thread takes of a column
SIDES = (8, 4)  # columns that a thread has side by side
ACCESS_BYTES, WORD_BYTES = 16, 4
INSIDE = (Read, Literal, Index, Unary, Binary, Ternary, Select)
CHUNK = "chunk"  # the number of a piece, as the sum is written for `layout_of`
PLACE = "place"  # an element in it
COLUMNS = "columns"  # the number of a thread's columns that are side by side
COLUMN = "column"  # one of them


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


def beyond(problem: Problem) -> str:
    """Why a region is none of these, in words; empty where it is one."""
    if patches_of(problem.region, problem.kernel):
        return ""
    return Phrase("a region that does not multiply few rows by a factor along the sum")


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
class Patch:
    """What a thread takes at once: `piece` elements along the sum, of columns that are apart, or of `side` columns side
    by side."""

    piece: int
    side: int = 0


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a read's elements are for a patch: `shared` elements of the sum share each of its elements, and whether
    columns have different ones. `beside`: it is contiguous along the columns, as many of which share an element."""

    shared: int
    is_of_column: bool
    beside: int = 0


def vectorize_of(product: Product, patch: Patch) -> tuple[Vectorize, ...]:
    """How a plan says it."""
    return (Vectorize(product.right.name, patch.side) if patch.side else Vectorize(product.sum.name, patch.piece),)


def patch_of(plan: Plan, product: Product) -> Patch:
    """What a thread of a plan takes at once; of no element where the plan says nothing that it can be."""
    by = plan.vectorize[0] if plan.vectorize else None
    if by is None or by.axis != product.right.name:
        return Patch(plan.widest)
    return Patch(plan.tile[-1] // (4 * plan.threads[-1]), by.width)


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


@functools.lru_cache(maxsize=4096)
def placed_in(region: Region, product: Product, read: Read, patch: Patch) -> Placed | None:
    """Where a read's elements are for a patch; None where they do not begin on whole accesses."""
    names = {product.sum.name, product.right.name}
    if not patch.side or product.right.name not in axes_of(read):
        return layout_of(region, product, read, patch.piece)
    tensor = region.tensor(read.tensor)
    if tensor is None or any(names <= set(e.names()) for e in read.index):
        return None  # an index of both axes: what is beside an element depends on where it is along the sum
    point = {
        product.sum.name: patch.piece * Expr.of(CHUNK) + PLACE,
        product.right.name: patch.side * Expr.of(COLUMNS) + COLUMN,
    }
    offset = offset_of(tensor.type.shape, read.index).substitute(point)
    rows = [offset.substitute({PLACE: n, COLUMN: 0}) for n in range(patch.piece)]
    apart = [(offset.substitute({PLACE: 0, COLUMN: n}) - rows[0]).constant for n in range(patch.side)]
    beside = next((n for n in range(1, patch.side) if apart[n] != 0), patch.side)
    shared = next((n for n in range(1, patch.piece) if rows[n] != rows[0]), patch.piece)
    is_in_order = apart == [n // beside for n in range(patch.side)] and not patch.side % beside
    is_in_rows = not patch.piece % shared and all(rows[n] == rows[n - n % shared] for n in range(patch.piece))
    if not is_in_order or not is_in_rows or not all(is_multiple(row, patch.side // beside) for row in rows[::shared]):
        return None
    return Placed(shared, True, beside)


def accesses_of(placed: Placed, patch: Patch, columns: int) -> tuple[int, int]:
    """Accesses of a thread that has `columns`, and elements of each."""
    if placed.beside:
        return patch.piece // placed.shared, patch.side // placed.beside
    return columns if placed.is_of_column else 1, patch.piece // placed.shared


def reads_of(product: Product) -> tuple[Read, ...]:
    """The reads of the large factor, each once."""
    return tuple(dict.fromkeys(n for n in walk(product.large) if isinstance(n, Read)))


@functools.lru_cache(maxsize=4096)
def pieces_of(region: Region, kernel: Kernel) -> tuple[int, ...]:
    """Elements along the sum that a thread may take of a column at once, the most first: the large factor's main read
    is one access of 16 bytes at most, and pieces of four threads fill the sum. Less than a word is taken only where no
    piece has one: what is packed is computed in pairs of words."""
    product = product_of(region, kernel)
    if product is None:
        return ()
    found: dict[int, int] = {}
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
            found[piece] = most
    return tuple(piece for piece, most in found.items() if most >= min(WORD_BYTES, max(found.values())))


@functools.lru_cache(maxsize=4096)
def patches_of(region: Region, kernel: Kernel) -> tuple[Patch, ...]:
    """What a thread may take at once: pieces of columns that are apart, then patches of columns side by side of what is
    computed, where an access has 16 bytes at most."""
    found = [Patch(piece) for piece in pieces_of(region, kernel)]
    product = product_of(region, kernel)
    if product is None or isinstance(product.large, Read):
        return tuple(found)
    for side in SIDES:
        for piece in PIECES:
            patch = Patch(piece, side)
            small = layout_of(region, product, product.small, piece)
            if small is None or small.shared != 1 or not is_multiple(product.sum.size, 4 * piece):
                continue
            every = [(read, placed_in(region, product, read, patch)) for read in reads_of(product)]
            if all(p is not None and accesses_of(p, patch, side)[1] * r.dtype.bytes <= ACCESS_BYTES for r, p in every):
                found.append(patch)
    return tuple(found)
