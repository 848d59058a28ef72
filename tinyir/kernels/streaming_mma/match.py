"""What the form for warps needs of two regions beside what the rule asks: factors of 16 bits, whatever they are made
of, and a weight that is one exponential."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ...ir.body import Axis, Body, Gather, Read, walk
from ...ir.expr import Expr
from ...ir.neighbours import ACCESS_BYTES, is_multiple
from ...ir.region import Region, Tensor
from ...ir.runs import offset_of
from ...kit.phrase import Phrase
from ...kit.records import dataclass
from ...target.ampere import COPIES
from ..attention import Streaming, two_regions
from ..attention.score import outgrown, weight_dtype

DTYPES = ("fp16", "bf16")  # of factors
STEP = 16  # columns of a left operand that one product takes


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor's tile: `along` counts its rows, `across` its columns; `there` names axes of its region as the first
    region does. `width`: neighbours along its columns that one asynchronous copy moves; 0 where each element is
    computed, or is by itself."""

    word: str
    region: Region
    body: Body
    along: Axis
    across: tuple[Axis, ...]
    there: tuple[tuple[str, str], ...]
    width: int

    @property
    def tensors(self) -> tuple[str, ...]:
        """What it reads, each once."""
        return tuple(dict.fromkeys(n.tensor for n in walk(self.body) if isinstance(n, Read)))


def two_regions_of_warps(regions: tuple[Region, ...]) -> Streaming | str:
    """The regions of a plan as one streaming kernel that this family computes, or why they are none."""
    kernel = two_regions(regions)
    if isinstance(kernel, str):
        return kernel
    return fault_of(kernel) or kernel


@functools.lru_cache(maxsize=256)
def fault_of(kernel: Streaming) -> str:
    """Why the family does not compute a kernel, in words; empty where it does."""
    query, key, value = (factor.body.dtype for factor in factors_of(kernel))
    handed = weight_dtype(kernel)
    for fault, is_there in (
        (Phrase("scores in {dtype}", dtype=kernel.dtype), kernel.dtype.name != "fp32"),
        (Phrase("a factor of {dtype}", dtype=query), query.name not in DTYPES),
        (
            Phrase(
                "factors of {dtype} and {dtype2}, and of {handed} and {dtype3}",
                dtype=query,
                dtype2=key,
                handed=handed,
                dtype3=value,
            ),
            query != key or handed != value,
        ),
        (Phrase("a factor of {dtype}", dtype=value), value.name not in DTYPES),
        (Phrase("other folds of a row"), bool(kernel.folds)),
        (outgrown(kernel), bool(outgrown(kernel))),
        (Phrase("a {what} of {count} axes", what="width", count=len(kernel.width)), len(kernel.width) != 1),
        (
            Phrase("a factor at a place that data choose"),
            any(isinstance(n, Gather) for f in bodies_of(kernel) for n in walk(f)),
        ),
    ):
        if is_there:
            return fault
    return ""


def bodies_of(kernel: Streaming) -> tuple[Body, Body, Body]:
    """The three factors."""
    return kernel.query, kernel.key, kernel.value


@functools.lru_cache(maxsize=256)
def factors_of(kernel: Streaming) -> tuple[Factor, Factor, Factor]:
    """The query, the key and the value."""
    there = tuple((n, m) for n, m in kernel.meets if m != kernel.column.name)
    column = next(n for n, m in kernel.meets if m == kernel.column.name)
    return (
        _factor("q", kernel.first, kernel.query, kernel.row, kernel.depth, ()),
        _factor("k", kernel.first, kernel.key, kernel.column, kernel.depth, ()),
        _factor("v", kernel.second, kernel.value, Axis(column, kernel.column.size), kernel.width, there),
    )


def _factor(
    word: str, region: Region, body: Body, along: Axis, across: tuple[Axis, ...], there: tuple[tuple[str, str], ...]
) -> Factor:
    return Factor(word, region, body, along, across, there, _width(region, body, across))


def _width(region: Region, body: Body, across: tuple[Axis, ...]) -> int:
    """The most neighbours that a copy moves: each at a multiple of itself."""
    if not isinstance(body, Read):
        return 0
    tensor = next(t for t in region.inputs if t.name == body.tensor)
    return _side_by_side(tensor, body.index, across)


def _side_by_side(tensor: Tensor, index: Sequence[Expr], across: tuple[Axis, ...]) -> int:
    """The most neighbours along some axes that one access has, each access at a multiple of itself."""
    inner, shape = across[-1], tensor.type.shape
    rest = offset_of(shape, index) - inner.name
    names = {a.name for a in across}
    if inner.name in rest.names() or len(across) > 1 and any(n in names for e in index[:-1] for n in e.names()):
        return 0
    sizes = (size // tensor.type.dtype.bytes for size in COPIES if size <= ACCESS_BYTES)
    return next((w for w in sizes if all(is_multiple(size, w) for size in (rest, inner.size, shape[-1]))), 0)


@functools.lru_cache(maxsize=256)
def leaving_together(kernel: Streaming) -> int:
    """Neighbours of the output that leave at once, through the query's tile, which has room for them; 0 where elements
    leave one by one."""
    (item, *others), query = kernel.second.yields, factors_of(kernel)[0].body.dtype
    tensor = next(t for t in kernel.second.outputs if t.name == item.output)
    (deep, wide), width = kernel.sizes, kernel.width[0]
    is_split = any(width.name in bound.expr.names() for bound in item.guard)
    if others or is_split or wide > deep or tensor.type.dtype != query:
        return 0
    return _side_by_side(tensor, item.index, (width,))
