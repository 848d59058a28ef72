"""GPT-2 small (Radford et al. 2019): pre-norm decoder layers with causal attention, logits over the tied table."""

from __future__ import annotations

from .network import Draw, Network, RandomModel


def gpt2(
    batch: int | str = 1,
    tokens: int = 128,
    layers: int = 12,
    hidden: int = 768,
    heads: int = 12,
    words: int = 50257,
    positions: int = 1024,
    dtype: str = "fp32",
) -> RandomModel:
    """Ids [batch, tokens] -> logits [batch, tokens, words]."""
    net = Network("gpt2", dtype)
    ids = net.input("ids", [batch, tokens], "i64", Draw(below=words))
    table = net.param("words.table", [words, hidden], hidden**-0.5)
    places = net.param("positions.table", [positions, hidden], hidden**-0.5)
    cut = net.op("Slice", "positions", [places], [tokens, hidden], starts=[0], ends=[tokens], axes=[0])
    x = net.elementwise("add", "embedded", net.embedding(table, ids, "words"), cut)
    for layer in range(layers):
        x = _layer(net, x, f"l{layer}", heads)
    x = net.layer_norm(x, "norm")
    return net.model(net.op("GEMM", "logits", [x, table], [batch, tokens, words], transB=True))


def _layer(net: Network, x: str, name: str, heads: int) -> str:
    hidden = net.shape(x)[-1]
    joint = net.linear(net.layer_norm(x, f"{name}.norm1"), f"{name}.qkv", 3 * hidden)
    q, k, v = net.split(joint, [f"{name}.{part}.part" for part in ("q", "k", "v")])
    y = net.linear(net.attention(q, k, v, name, heads, is_causal=True), f"{name}.project", hidden)
    x = net.elementwise("add", f"{name}.attended", y, x)
    y = net.linear(net.layer_norm(x, f"{name}.norm2"), f"{name}.up", 4 * hidden)
    y = net.linear(net.elementwise("gelu", f"{name}.gelu", y, approximate="tanh"), f"{name}.down", hidden)
    return net.elementwise("add", f"{name}.out", y, x)
