"""Attention as one op: programs that were not decomposed, or on a GPU to its kernels."""

from __future__ import annotations

from typing import Any

from ....ir.expr import Expr
from ....kit.phrase import Phrase
from ...program.terms import Term
from ..call import Call
from ..table import aten


@aten("scaled_dot_product_attention.default", "_scaled_dot_product_attention_math.default")
@aten(
    "_scaled_dot_product_flash_attention.default",
    "_scaled_dot_product_efficient_attention.default",
    "_scaled_dot_product_cudnn_attention.default",
    "_scaled_dot_product_flash_attention_for_cpu.default",
)
def attention(call: Call) -> Any:
    """softmax(scale * Q K' + mask) V over the last two axes; heads of K and V may serve several of Q."""
    q, k, v = (call.tensor(key) for key in ("query", "key", "value"))
    if call.get("dropout_p", 0.0):
        raise call.fault(Phrase("it trains, and draws its mask from a generator of its own"))
    if any(call.wants(i) for i in range(1, len(call.types))):
        raise call.fault(Phrase("its log-sum-exp or the state of its generator is read"))
    mask = call.optional("attn_mask") if "attn_mask" in call.args else call.optional("attn_bias")
    given = [_of_four(call, x) for x in (q, k, v)]
    operands = [*given, *([] if mask is None else [_of_four(call, mask)])]
    found = call.op("Attention", *operands, scale=call.get("scale"), causal=bool(call.get("is_causal", False)))
    return call.reshape(found, call.shape)


def _of_four(call: Call, x: Term) -> Term:
    """Axes before the last three merged, or axes of size 1 before them."""
    if x.rank > 4:
        batch = Expr.of(1)
        for size in x.shape[:-3]:
            batch = batch * size
        return call.reshape(x, [batch, *x.shape[-3:]])
    return call.reshape(x, [*[1] * (4 - x.rank), *x.shape])
