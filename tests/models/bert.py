"""BERT-base (Devlin et al. 2018): embeddings, post-norm encoder layers, pooler."""

from __future__ import annotations

from .network import Draw, Network, RandomModel


def bert(
    batch: int | str = 1,
    tokens: int = 128,
    layers: int = 12,
    hidden: int = 768,
    heads: int = 12,
    words: int = 30522,
    positions: int = 512,
    dtype: str = "fp32",
) -> RandomModel:
    """Ids and segments [batch, tokens], a mask of the keys that count -> hidden states [batch, tokens, hidden], pooled
    [batch, hidden]."""
    net = Network("bert", dtype)
    ids = net.input("ids", [batch, tokens], "i64", Draw(below=words))
    segments = net.input("segments", [batch, tokens], "i64", Draw(below=2))
    seen = net.input("seen", [batch, tokens], "bool", Draw(below=2))
    mask = net.op("Reshape", "mask", [seen], [batch, 1, 1, tokens], "bool", shape=[batch, 1, 1, tokens])
    x = net.embedding(net.param("words.table", [words, hidden], 1.0), ids, "words")
    x = net.elementwise(
        "add",
        "words.segments",
        x,
        net.embedding(net.param("segments.table", [2, hidden], 1.0), segments, "segments.rows"),
    )
    places = net.param("positions.table", [positions, hidden], 1.0)
    cut = net.op("Slice", "positions", [places], [tokens, hidden], starts=[0], ends=[tokens], axes=[0])
    x = net.layer_norm(net.elementwise("add", "words.positions", x, cut), "embedded")
    for layer in range(layers):
        x = _layer(net, x, mask, f"l{layer}", heads)
    first = net.op("Slice", "pooler.first", [x], [batch, 1, hidden], starts=[0], ends=[1], axes=[1])
    first = net.op("Reshape", "pooler.row", [first], [batch, hidden], shape=[batch, hidden])
    return net.model(x, net.elementwise("tanh", "pooled", net.linear(first, "pooler", hidden)))


def _layer(net: Network, x: str, mask: str, name: str, heads: int) -> str:
    hidden = net.shape(x)[-1]
    q, k, v = (net.linear(x, f"{name}.{part}.linear", hidden) for part in ("q", "k", "v"))
    y = net.linear(net.attention(q, k, v, name, heads, mask), f"{name}.project", hidden)
    x = net.layer_norm(net.elementwise("add", f"{name}.attended", y, x), f"{name}.norm1")
    y = net.elementwise("gelu", f"{name}.gelu", net.linear(x, f"{name}.up", 4 * hidden))
    y = net.linear(y, f"{name}.down", hidden)
    return net.layer_norm(net.elementwise("add", f"{name}.fed", y, x), f"{name}.norm2")
