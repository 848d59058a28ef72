"""What torch's ops are made of, where torch takes no op apart that we have no translation of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def decompositions() -> dict[Any, Callable[..., Any]]:
    """By op: core ATen's, less those of ops that have a translation of their own, and ours."""
    import torch
    from torch._decomp import core_aten_decompositions

    from ..front.pt2 import is_check, is_translated

    def is_own(op: Any) -> bool:
        return is_translated(f"torch.ops.{op}") or is_check(f"torch.ops.{op}")

    found: dict[Any, Callable[..., Any]] = {
        op: how for op, how in dict(core_aten_decompositions()).items() if not is_own(op)
    }
    found[torch.ops.aten._transformer_encoder_layer_fwd.default] = encoder_layer
    found[torch.ops.aten._native_multi_head_attention.default] = multi_head_attention
    return found


def encoder_layer(
    x: Any, width: int, heads: int, qkv: Any, qkv_bias: Any, out: Any, out_bias: Any, is_gelu: bool,
    is_norm_first: bool, eps: float, norm: Any, norm_bias: Any, norm2: Any, norm2_bias: Any, up: Any, up_bias: Any,
    down: Any, down_bias: Any, mask: Any = None, mask_type: int | None = None,
) -> Any:  # fmt: skip
    """A layer of torch.nn.TransformerEncoder, which torch runs as one op outside of training."""
    from torch.nn import functional

    def normed(y: Any, weight: Any, bias: Any) -> Any:
        return functional.layer_norm(y, (width,), weight, bias, eps)

    def attended(y: Any) -> Any:
        return multi_head_attention(
            y, y, y, width, heads, qkv, qkv_bias, out, out_bias, mask, False, True, mask_type
        )[0]  # fmt: skip

    def fed(y: Any) -> Any:
        act = functional.gelu if is_gelu else functional.relu
        return functional.linear(act(functional.linear(y, up, up_bias)), down, down_bias)

    if is_norm_first:
        x = x + attended(normed(x, norm, norm_bias))
        return x + fed(normed(x, norm2, norm2_bias))
    x = normed(x + attended(x), norm, norm_bias)
    return normed(x + fed(x), norm2, norm2_bias)


def multi_head_attention(
    query: Any, key: Any, value: Any, width: int, heads: int, qkv: Any, qkv_bias: Any, out: Any, out_bias: Any,
    mask: Any = None, need_weights: bool = True, average_attn_weights: bool = True, mask_type: int | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """torch.nn.MultiheadAttention as torch runs it outside of training: the result, and the weights where they are
    asked for. What is true in a mask, or not 0, does not count; its kind is 0 for [S, S], 1 for [B, S] of keys, 2 for
    all axes."""
    import torch
    from torch.nn import functional

    batch, rows = query.shape[0], query.shape[1]
    parts = [functional.linear(x, w, b) for x, w, b in zip((query, key, value), qkv.chunk(3), qkv_bias.chunk(3))]
    q, k, v = (p.view(p.shape[0], p.shape[1], heads, width // heads).transpose(1, 2) for p in parts)
    if mask is not None:
        mask = mask[:, None, None, :] if mask_type == 1 else mask
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(mask.bool(), float("-inf"))
    if not need_weights:
        found = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        weights = None
    else:
        scores = q @ k.transpose(-1, -2) * (width // heads) ** -0.5
        weights = torch.softmax(scores if mask is None else scores + mask, -1)
        found = weights @ v
        weights = weights.mean(1) if average_attn_weights else weights
    return functional.linear(found.transpose(1, 2).reshape(batch, rows, width), out, out_bias), weights
