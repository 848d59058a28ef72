"""Windows taken out and put back: Unfold reads each window of a tensor's last axes, Fold adds windows where they
overlap (seed 003)."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.expr import ZERO, Expr
from ...kit.diag import refuse
from ...kit.phrase import Phrase
from ..builder import Builder, Operand, Ref, accumulator
from .contraction import tensor
from .table import Attr, Attrs, front_op
from .transposed import apart
from .windows import room_for


def sliding(b: Builder, x: Ref, kernel: Sequence[Expr], stride: Sequence[Expr], dilation: Sequence[Expr]) -> Ref:
    """`x` of [*B, *S] as [*B, *O, *K]: element (o, k) of a window is at o*stride + k*dilation. Raises Refused
    (E1012, E1019)."""
    rank = len(kernel)
    if x.rank < rank:
        raise refuse(
            "E1012", op=Phrase("a window"), tensor=x.called, given=x.type, wanted=Phrase("{rank} or more", rank=rank)
        )
    lead = x.rank - rank
    out = [
        room_for(lead + a, size, (k - 1) * d + 1) // s + 1
        for a, (size, k, s, d) in enumerate(zip(x.shape[lead:], kernel, stride, dilation))
    ]
    axes = [Expr.of(f"i{a}") for a in range(x.rank + rank)]
    place = [axes[lead + a] * stride[a] + axes[lead + rank + a] * dilation[a] for a in range(rank)]
    return b.view(x, [*x.shape[:lead], *out, *kernel], [*axes[:lead], *place], part="window")


def each_axis(values: Sequence[Expr] | None, rank: int, what: str) -> tuple[Expr, ...]:
    """One size for each axis of a window: 1 for None, the one given for all. Raises Refused (E1101)."""
    if values is None:
        return (Expr.of(1),) * rank
    if len(values) not in (1, rank):
        raise refuse("E1101", what=what, given=len(values), rank=rank)
    return tuple(values) * (rank if len(values) == 1 else 1)


_WINDOW = [Attr("kernel", "dims", low=1), Attr("stride", "dims", None, low=1), Attr("dilation", "dims", None, low=1)]


@front_op("Unfold", inputs=1, attrs=_WINDOW)
def unfold(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """x of [*B, *S] as [*B, *K, *O]: what each place of the window sees at each of its positions."""
    x, rank = tensor(operands[0], "Unfold", 0), len(attrs.kernel)
    seen = sliding(b, x, attrs.kernel, *(each_axis(attrs[a], rank, a) for a in ("stride", "dilation")))
    lead = x.rank - rank
    return b.permute(seen, [*range(lead), *range(lead + rank, lead + 2 * rank), *range(lead, lead + rank)])


@front_op(
    "Fold",
    inputs=1,
    attrs=[Attr("size", "dims", low=0), Attr("stride", "ints", None, low=1), Attr("dilation", "ints", None, low=1)],
)
def fold(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """The transpose of Unfold: x of [*B, *K, *O] added up into [*B, *size], each element at the place that it was read
    from, in the dtype that sums accumulate in. A place that no window reaches is 0."""
    x, rank = tensor(operands[0], "Fold", 0), len(attrs.size)
    if x.rank < 2 * rank:
        raise refuse("E1012", op="Fold", tensor=x.called, given=x.type, wanted=Phrase("{rank} or more", rank=2 * rank))
    lead = x.rank - 2 * rank
    kernel, seen = x.shape[lead : lead + rank], x.shape[lead + rank :]
    stride, dilation = (
        each_axis(None if attrs[a] is None else [Expr.of(n) for n in attrs[a]], rank, a) for a in ("stride", "dilation")
    )
    for a in range(rank):
        count = room_for(a, attrs.size[a], (kernel[a] - 1) * dilation[a] + 1) // stride[a] + 1
        if count != seen[a]:
            raise refuse(
                "E1304",
                left=Phrase("windows along axis {a} = {count}", a=a, count=count),
                right=Phrase(
                    "{operand}[{axis}] = {size}",
                    operand=x.tensor or Phrase("the operand"),
                    axis=lead + rank + a,
                    size=seen[a],
                ),
            )
    for a in range(rank):
        x = apart(b, x, lead + rank + a, stride[a].constant)
    # one more window before and after along each axis, so that place s reads element k at s - k*dilation of what was
    # spread
    before = [(k - 1) * d for k, d in zip(kernel, dilation)]
    after = [attrs.size[a] - x.shape[lead + rank + a] for a in range(rank)]
    none = [(ZERO, ZERO)] * (lead + rank)
    wide = b.pad(x, [*none, *zip(before, after)])
    axes = [Expr.of(f"i{a}") for a in range(x.rank)]
    shape = [*x.shape[:lead], *attrs.size, *kernel]
    place, k = axes[lead : lead + rank], axes[lead + rank :]
    index = [*axes[:lead], *k, *(p + w - j * d for p, w, j, d in zip(place, before, k, dilation))]
    read = b.view(wide, shape, index, part="overlap")
    return b.reduce(read, "SUM", range(lead + rank, lead + 2 * rank), accumulator(x.dtype))
