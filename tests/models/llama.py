"""Llama (Touvron et al. 2023): RMS norms, rotary positions, heads that share keys and values, SwiGLU; embedded rows in,
hidden states out."""

from __future__ import annotations

from .network import Draw, Network, RandomModel


def llama(
    batch: int | str = 1,
    tokens: int = 512,
    layers: int = 4,
    hidden: int = 2048,
    heads: int = 32,
    shared: int = 8,
    inner: int = 5632,
    words: int = 32000,
    dtype: str = "fp32",
) -> RandomModel:
    """Ids [batch, tokens] -> logits [batch, tokens, words]; `shared` counts the heads of keys and values. The tables of
    the rotation are weights [tokens, depth of a head]."""
    net = Network("llama", dtype)
    ids = net.input("ids", [batch, tokens], "i64", Draw(below=words))
    x = net.embedding(net.param("words.table", [words, hidden], hidden**-0.5), ids, "words")
    turns = [net.param(f"turn.{part}", [tokens, hidden // heads], 1.0) for part in ("cos", "sin")]
    for layer in range(layers):
        x = _layer(net, x, f"l{layer}", heads, shared, inner, turns)
    return net.model(_projected(net, _normed(net, x, "norm"), "logits", words))


def _layer(net: Network, x: str, name: str, heads: int, shared: int, inner: int, turns: list[str]) -> str:
    b, s, hidden = net.shape(x)
    depth = hidden // heads
    y = _normed(net, x, f"{name}.norm1")
    q, k, v = (
        net.heads(_projected(net, y, f"{name}.{part}.linear", count * depth), f"{name}.{part}", count)
        for part, count in (("q", heads), ("k", shared), ("v", shared))
    )
    q, k = _rotated(net, q, f"{name}.q", turns), _rotated(net, k, f"{name}.k", turns)
    y = net.op("Attention", f"{name}.attention", [q, k, v], [b, heads, s, depth], causal=True)
    y = net.op("Transpose", f"{name}.back", [y], [b, s, heads, depth], perm=[0, 2, 1, 3])
    y = net.op("Reshape", f"{name}.joined", [y], [b, s, hidden], shape=[b, s, hidden])
    x = net.elementwise("add", f"{name}.attended", _projected(net, y, f"{name}.project", hidden), x)
    y = _normed(net, x, f"{name}.norm2")
    gate = net.elementwise("silu", f"{name}.silu", _projected(net, y, f"{name}.gate", inner))
    y = net.elementwise("mul", f"{name}.gated", gate, _projected(net, y, f"{name}.up", inner))
    return net.elementwise("add", f"{name}.out", _projected(net, y, f"{name}.down", hidden), x)


def _normed(net: Network, x: str, name: str) -> str:
    return net.op("RMSNorm", name, [x, net.param(f"{name}.scale", net.shape(x)[-1:], 0.1, 1.0)], net.shape(x))


def _projected(net: Network, x: str, name: str, size: int) -> str:
    """x [..., K] @ weight [K, size]."""
    *rows, k = net.shape(x)
    return net.op("GEMM", name, [x, net.param(f"{name}.weight", [k, size], k**-0.5)], [*rows, size])


def _rotated(net: Network, x: str, name: str, turns: list[str]) -> str:
    """x [B, H, S, D] times cosines, plus its halves swapped, the first of them negative, times sines."""
    *rows, depth = net.shape(x)
    low, high = (
        net.op("Slice", f"{name}.{part}", [x], [*rows, depth // 2], starts=[start], ends=[start + depth // 2], axes=[3])
        for part, start in (("low", 0), ("high", depth // 2))
    )
    swapped = net.op(
        "Concat", f"{name}.swapped", [net.elementwise("neg", f"{name}.negative", high), low], net.shape(x), axis=3
    )
    cos, sin = (
        net.elementwise("mul", f"{name}.{part}", given, turn)
        for part, given, turn in zip(("cos", "sin"), (x, swapped), turns)
    )
    return net.elementwise("add", f"{name}.turned", cos, sin)
