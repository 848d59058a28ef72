"""Attention: two contractions with a softmax between them (seed 001 section 3.5.3)."""

from __future__ import annotations

import math

from ...ir.expr import ZERO, Bound, Expr
from ...kit.diag import refuse
from ...kit.phrase import Phrase
from ..builder import Builder, Operand, Ref, accumulator
from . import functions
from .contraction import tensor
from .normalization import softmax
from .reduction import keep
from .table import Attr, Attrs, front_op


@front_op(
    "Attention",
    inputs=(3, 4),
    attrs=[
        Attr("scale", "float", None),
        Attr("causal", "flag", False),
        Attr("offset", "dim", 0),
        Attr("window", "int", None, low=1),
        Attr("softcap", "float", 0.0, low=0),
        Attr("acc_dtype", "dtype", None),
    ],
)
def attention(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """softmax(scale * Q K' + mask) V for Q [B, H, S, D], K [B, Hk, T, D], V [B, Hk, T, E]; H is a multiple of Hk
    (grouped queries). The fourth operand broadcasts to [B, H, S, T]: bool says which keys count, a number is added.
    `causal`: query s sees the keys t <= s + offset; `window`: of these only the last `window`. `scale` is 1/sqrt(D)
    unless stated; `softcap` c puts c*tanh(./c) around the scores. A query that sees no key gives 0."""
    q, k, v = (tensor(o, "Attention", i) for i, o in enumerate(operands[:3]))
    for ref in (q, k, v):
        if ref.rank != 4:
            raise refuse("E1012", op="Attention", tensor=ref.called, given=ref.type, wanted=4)
    heads, kv_heads = q.shape[1], k.shape[1]
    acc = attrs.acc_dtype or accumulator(q.dtype, k.dtype)
    each = Expr.of(1) if heads == kv_heads else ZERO if kv_heads == ZERO else heads // kv_heads
    if each * kv_heads != heads:
        raise refuse("E1018", axis=1, size=heads, groups=kv_heads)
    is_grouped = heads != kv_heads
    if is_grouped:
        q = b.reshape(q, [q.shape[0], kv_heads, each, *q.shape[2:]])
    left, out = ("bhgsd", "bhgst") if is_grouped else ("bhsd", "bhst")
    scores = b.contract(q, left, k, "bhtd", out, acc, ("q", "k"))
    scores = b.emit("MUL", scores, b.const(_scale(q, attrs.scale), acc, scores.shape), part="scaled")
    if attrs.softcap:
        capped = b.emit("TANH", b.emit("MUL", scores, b.const(1 / attrs.softcap, acc, scores.shape)))
        scores = b.emit("MUL", capped, b.const(attrs.softcap, acc, scores.shape), part="capped")
    scores, may_be_empty = _masked(b, scores, operands[3] if len(operands) == 4 else None, attrs, is_grouped)
    weights = b.cast(
        _softmax(b, scores) if may_be_empty else softmax(b, scores, scores.rank - 1), v.dtype, part="weights"
    )
    found = b.cast(
        b.contract(weights, out, v, "bhte", out[:-1] + "e", accumulator(v.dtype), ("p", "v")), operands[0].dtype
    )
    return b.reshape(found, [found.shape[0], heads, found.shape[-2], found.shape[-1]]) if is_grouped else found


def _scale(q: Ref, stated: float | None) -> float:
    if stated is not None:
        return stated
    depth = q.shape[-1].constant
    if depth is None:
        raise refuse("E1015", mode=Phrase("the default scale"), axis=3)
    return 1 / math.sqrt(depth) if depth else 1.0


def _masked(b: Builder, scores: Ref, mask: Operand | None, attrs: Attrs, is_grouped: bool) -> tuple[Ref, bool]:
    """The scores with -inf where a key does not count, and whether a query may see none."""
    acc, rank = scores.dtype, scores.rank
    may_be_empty = False
    if mask is not None:
        ref = tensor(mask, "Attention", 3)
        if is_grouped and ref.rank == 4:
            size = ref.shape[1]
            ref = b.reshape(
                ref, [ref.shape[0], *(scores.shape[1:3] if size != Expr.of(1) else (size, size)), *ref.shape[2:]]
            )
        ref = b.expand(ref, b.broadcast_shape(scores, ref))
        if ref.dtype.kind == "b":
            scores = b.emit("WHERE", ref, scores, b.const(-math.inf, acc, scores.shape), part="masked")
        else:
            scores = b.emit("ADD", scores, b.cast(ref, acc), part="biased")
        may_be_empty = True
    offset = Expr.of(attrs.offset)
    distance = Expr.of(f"i{rank - 2}") + offset - Expr.of(f"i{rank - 1}")
    if attrs.causal or attrs.window is not None:
        bound = Bound(
            distance, ZERO if attrs.causal else None, Expr.of(attrs.window) if attrs.window is not None else None
        )
        scores = b.valid(scores, [bound], -math.inf, part="causal" if attrs.causal else "near")
        may_be_empty |= attrs.window is not None or offset.constant is None or offset.constant < 0
    return scores, may_be_empty


def _softmax(b: Builder, scores: Ref) -> Ref:
    """Softmax along the last axis; 0 in a row of -inf."""
    axis, acc = scores.rank - 1, scores.dtype
    top = b.reduce(scores, "MAX", [axis])
    base = b.emit("WHERE", functions.isinf(b, top, positive=False), b.const(0, acc, top.shape), top)
    raised = functions.exp(b, b.emit("SUB", scores, keep(b, base, scores, (axis,))))
    total = b.reduce(raised, "SUM", [axis])
    is_empty = b.emit("CMPEQ", total, b.const(0, acc, total.shape))
    return b.emit(
        "FDIV", raised, keep(b, b.emit("WHERE", is_empty, b.const(1, acc, total.shape), total), scores, (axis,))
    )
