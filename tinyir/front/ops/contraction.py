"""Sums of products: GEMM and MatMul (seed 001 section 2.2, seed 000 section 5.1)."""

from __future__ import annotations

from ...ir.expr import ONE
from ...ir.rules import broadcast_mismatch
from ...ir.types import DType, is_exact, promote
from ...kit.diag import refuse
from ...kit.phrase import Phrase
from ..builder import Builder, Operand, Ref, accumulator
from .table import Attr, Attrs, front_op

_BATCH = "abcdefghijlopqrstuvwxyz"  # letters for batch axes; m, n and k are taken


def acc_dtype(b: Builder, x: Ref, y: Ref, stated: DType | None) -> DType:
    """The dtype to accumulate in: the stated one, which must hold the operands exactly (E1011), or the usual one."""
    if stated is None:
        return accumulator(x.dtype, y.dtype)
    narrow = promote(x.dtype, y.dtype)
    if not is_exact(narrow, stated):
        raise refuse("E1011", acc=stated, operand=narrow)
    return stated


def tensor(operand: Operand, op: str, position: int) -> Ref:
    """The operand, which must be a tensor and no literal (E0109)."""
    if not isinstance(operand, Ref):
        raise refuse("E0109", op=op, position=position + 1)
    return operand


def matmul(b: Builder, x: Ref, y: Ref, acc: DType, left: str = "mk", right: str = "kn") -> Ref:
    """`x @ y` over the last two axes, whose letters say their order (`km` for a transposed left); batch axes
    broadcast, aligned at the right."""
    batch = _BATCH[: max(x.rank, y.rank) - 2]
    x_axes = batch[len(batch) - (x.rank - 2) :] + left
    y_axes = batch[len(batch) - (y.rank - 2) :] + right
    return b.contract(x, x_axes, y, y_axes, batch + "mn", acc)


@front_op(
    "GEMM",
    inputs=(2, 3),
    attrs=[
        Attr("transA", "flag", False),
        Attr("transB", "flag", False),
        Attr("alpha", "float", 1.0),
        Attr("beta", "float", 1.0),
        Attr("acc_dtype", "dtype", None),
    ],
)
def gemm(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """alpha * A' @ B' + beta * C, where ' transposes the last two axes if asked; axes before them are batch. C
    broadcasts to the product. The result has the dtype it was accumulated in."""
    x, y = (tensor(o, "GEMM", i) for i, o in enumerate(operands[:2]))
    for ref in (x, y):
        if ref.rank < 2:
            raise refuse("E1012", op="GEMM", tensor=ref.called, given=ref.type, wanted=Phrase("2 or more"))
    acc = acc_dtype(b, x, y, attrs.acc_dtype)
    found = matmul(b, x, y, acc, "km" if attrs.transA else "mk", "nk" if attrs.transB else "kn")
    if attrs.alpha != 1.0:
        found = _scaled(b, found, attrs.alpha)
    if len(operands) == 3 and attrs.beta != 0.0:
        added = operands[2]
        if isinstance(added, Ref):
            if added.rank > found.rank or any(
                d not in (ONE, f) for d, f in zip(reversed(added.shape), reversed(found.shape))
            ):
                raise broadcast_mismatch(found.type, added.type, "")
            added = b.cast(added, acc)
            if attrs.beta != 1.0:
                added = _scaled(b, added, attrs.beta)
        found = b.apply("ADD", found, added)
    return found


def _scaled(b: Builder, x: Ref, factor: float) -> Ref:
    if not x.dtype.is_float and factor != int(factor):
        raise refuse("E1002", fault=Phrase("a factor of {factor} does not fit {dtype}", factor=factor, dtype=x.dtype))
    return b.emit("MUL", x, b.const(factor, x.dtype, x.shape), part="scaled")


@front_op("MatMul", inputs=2, attrs=[Attr("acc_dtype", "dtype", None)])
def matmul_op(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """As NumPy's matmul: ranks 1 and up, a vector is a row on the left and a column on the right, batch
    axes broadcast."""
    x, y = (tensor(o, "MatMul", i) for i, o in enumerate(operands))
    for ref in (x, y):
        if ref.rank < 1:
            raise refuse("E1012", op="MatMul", tensor=ref.called, given=ref.type, wanted=Phrase("1 or more"))
    acc = acc_dtype(b, x, y, attrs.acc_dtype)
    batch = _BATCH[: max(x.rank, y.rank) - 2] if max(x.rank, y.rank) > 2 else ""
    x_axes = "k" if x.rank == 1 else batch[len(batch) - (x.rank - 2) :] + "mk"
    y_axes = "k" if y.rank == 1 else batch[len(batch) - (y.rank - 2) :] + "kn"
    out = batch + ("m" if x.rank > 1 else "") + ("n" if y.rank > 1 else "")
    return b.contract(x, x_axes, y, y_axes, out, acc)
