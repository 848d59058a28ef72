"""The encoder of Whisper (Radford et al. 2022), base: two 1-D convolutions, a table of positions, pre-norm layers."""

from __future__ import annotations

from .network import Network, RandomModel


def whisper(
    batch: int | str = 1,
    tokens: int = 1500,
    layers: int = 6,
    hidden: int = 512,
    heads: int = 8,
    bands: int = 80,
    dtype: str = "fp32",
) -> RandomModel:
    """Spectra [batch, bands, 2 tokens] -> hidden states [batch, tokens, hidden]."""
    net = Network("whisper", dtype)
    x = net.input("spectra", [batch, bands, 2 * tokens])
    x = net.elementwise("gelu", "conv1.gelu", net.conv(x, "conv1", hidden, 3, 1, 1, has_bias=True))
    x = net.elementwise("gelu", "conv2.gelu", net.conv(x, "conv2", hidden, 3, 2, 1, has_bias=True))
    x = net.op("Transpose", "turned", [x], [batch, tokens, hidden], perm=[0, 2, 1])
    x = net.elementwise("add", "embedded", x, net.param("positions", [tokens, hidden]))
    for layer in range(layers):
        x = _layer(net, x, f"l{layer}", heads)
    return net.model(net.layer_norm(x, "norm"))


def _layer(net: Network, x: str, name: str, heads: int) -> str:
    hidden = net.shape(x)[-1]
    normed = net.layer_norm(x, f"{name}.norm1")
    q, k, v = (net.linear(normed, f"{name}.{part}.linear", hidden) for part in ("q", "k", "v"))
    y = net.linear(net.attention(q, k, v, name, heads), f"{name}.project", hidden)
    x = net.elementwise("add", f"{name}.attended", y, x)
    y = net.linear(net.layer_norm(x, f"{name}.norm2"), f"{name}.up", 4 * hidden)
    return net.elementwise(
        "add", f"{name}.out", net.linear(net.elementwise("gelu", f"{name}.gelu", y), f"{name}.down", hidden), x
    )
