"""Attention, with its caches, masks and windows."""

from __future__ import annotations

import math
from typing import Any

from ....ir.expr import Expr
from ....ir.types import DTYPES
from ....kit.phrase import Phrase
from ...program.terms import Term, known
from ..node import Node
from ..table import onnx_op
from .elementwise import plain


@onnx_op("Attention")
def attention(node: Node) -> Any:
    """softmax(scale * Q K' + bias) V. What only debugging asks for, the scores themselves, is computed by the body that
    the standard gives."""
    from ..constants import function_of

    q, k, v = (plain(node, i) for i in range(3))
    ranks = {node.input(i).rank for i in range(3)}
    if (
        ranks not in ({3}, {4})
        or any(node.has(i) and node.input(i).rank != 4 for i in (4, 5))
        or node.has(4) != node.has(5)
    ):
        raise node.fault(
            Phrase("its operands do not all have three axes, or all four; or one of the caches is missing")
        )
    if node.wants(3) or node.attr("softmax_precision", 1) == 11:
        body = function_of(node, "")
        if body is None:
            raise node.fault(Phrase("the standard gives it no body"))
        return node.translator.call(node, body)
    is_flat = q.rank == 3
    if is_flat:
        q, k, v = (
            _heads(node, x, node.attr(key)) for x, key in ((q, "q_num_heads"), (k, "kv_num_heads"), (v, "kv_num_heads"))
        )
    past = Expr.of(0)
    if node.has(4):
        past = node.input(4).shape[2]
        k, v = (
            node.op("Concat", node.input(i), x, axis=2, part=part) for i, x, part in ((4, k, "keys"), (5, v, "values"))
        )
    mask, is_causal, attrs = _mask(node, q, k, past)
    operands = [q, k, v] if mask is None else [q, k, v, mask]
    scale = node.attr("scale")
    found = node.op("Attention", *operands, scale=scale, causal=is_causal, softcap=node.attr("softcap", 0.0), **attrs)
    if is_flat:
        found = node.reshape(
            node.transpose(found, [0, 2, 1, 3]), [found.shape[0], found.shape[2], found.shape[1] * found.shape[3]]
        )
    return found, k, v


def _heads(node: Node, x: Term, heads: int | None) -> Term:
    """[B, S, H*D] as [B, H, S, D]."""
    if not heads:
        raise node.fault(Phrase("its operands have three axes, and the number of heads is not stated"))
    batch, length, width = x.shape
    return node.transpose(node.reshape(x, [batch, length, heads, width // heads]), [0, 2, 1, 3])


def _mask(node: Node, q: Term, k: Term, past: Expr) -> tuple[Term | None, bool, dict[str, Any]]:
    """The mask operand, whether the op itself masks what comes later, and its further attributes."""
    total, rows = k.shape[2], q.shape[2]
    left, right = node.attr("left_window_size", -1), node.attr("right_window_size", -1)
    is_causal = bool(node.attr("is_causal", 0))
    mask = _whole(node, plain(node, 3), total) if node.has(3) else None
    attrs: dict[str, Any] = {"offset": past, "window": left + 1 if left >= 0 else None}
    if not node.has(6) and (right < 0 or is_causal):
        return mask, is_causal, attrs if is_causal or left >= 0 else {}
    i64 = DTYPES["i64"]
    key = node.op("Iota", shape=[1, 1, 1, total], axis=3, part="key")
    place = node.op("Iota", shape=[1, 1, rows, 1], axis=2, part="place")
    if node.has(6):
        valid = node.reshape(node.cast(node.input(6), i64), [-1, 1, 1, 1])
        allowed = node.fn("less", key, valid, part="valid")
        place = node.fn("add", place, node.fn("sub", valid, known(rows, i64)), part="place")
    else:
        allowed = None
        place = node.fn("add", place, known(past, i64), part="place")
    if is_causal:
        right = 0 if right < 0 else min(right, 0)
    for limit, order in ((right, 1), (left, -1)):
        if limit >= 0:
            edge = node.fn("add", place, known(order * limit, i64), part="edge")
            near = node.fn("less_equal", *((key, edge) if order > 0 else (edge, key)), part="near")
            allowed = near if allowed is None else node.fn("and", allowed, near)
    if mask is None:
        return allowed, False, {}
    if mask.dtype.kind == "b":
        return node.fn("and", mask, allowed), False, {}
    return node.fn("where", allowed, mask, known(-math.inf, mask.dtype)), False, {}


def _whole(node: Node, mask: Term, total: Expr) -> Term:
    """The mask with four axes; keys beyond its end do not count."""
    if mask.rank < 4:
        mask = node.reshape(mask, [1] * (4 - mask.rank) + list(mask.shape))
    have = mask.shape[3]
    if have == total or have.constant == 1:
        return mask
    value = False if mask.dtype.kind == "b" else -math.inf
    return node.op("Pad", mask, pads=[0, total - have], axes=[3], value=value)
