"""Vision transformers: ViT-B/16 (Dosovitskiy et al. 2020), patches by a convolution, a class token, pre-norm encoder
blocks; and CLIP's image encoder, ViT-B/32 (Radford et al. 2021), with a norm before the blocks, GELU by a sigmoid."""

from __future__ import annotations

from .network import Network, RandomModel


def vit(
    batch: int | str = 1,
    layers: int = 1,
    size: int = 224,
    patch: int = 16,
    hidden: int = 768,
    heads: int = 12,
    classes: int = 1000,
    dtype: str = "fp32",
) -> RandomModel:
    """Images [batch, 3, size, size] -> logits [batch, classes]; one block unless `layers` says more."""
    net = Network("vit", dtype)
    x = _tokens(net, batch, size, patch, hidden, has_bias=True)
    for layer in range(layers):
        x = _block(net, x, f"l{layer}", heads)
    return net.model(net.linear(_first(net, net.layer_norm(x, "norm")), "logits", classes))


def clip(
    batch: int | str = 1,
    layers: int = 12,
    size: int = 224,
    patch: int = 32,
    hidden: int = 768,
    heads: int = 12,
    shared: int = 512,
    dtype: str = "fp32",
) -> RandomModel:
    """Images [batch, 3, size, size] -> where they are in the space that texts share, [batch, shared]."""
    net = Network("clip", dtype)
    x = net.layer_norm(_tokens(net, batch, size, patch, hidden, has_bias=False), "norm.before")
    for layer in range(layers):
        x = _block(net, x, f"l{layer}", heads, gate=1.702)
    return net.model(net.linear(_first(net, net.layer_norm(x, "norm")), "projected", shared))


def _tokens(net: Network, batch: int | str, size: int, patch: int, hidden: int, has_bias: bool) -> str:
    """A token of the class and one of each patch, with what their places add."""
    image = net.input("image", [batch, 3, size, size])
    x = net.conv(image, "patches", hidden, patch, patch, has_bias=has_bias)
    count = (size // patch) ** 2
    x = net.op("Reshape", "patches.flat", [x], [batch, hidden, count], shape=[batch, hidden, count])
    x = net.op("Transpose", "patches.rows", [x], [batch, count, hidden], perm=[0, 2, 1])
    first = net.op(
        "Expand", "class.rows", [net.param("class.token", [1, 1, hidden])], [batch, 1, hidden], shape=[batch, 1, hidden]
    )
    x = net.op("Concat", "tokens", [first, x], [batch, count + 1, hidden], axis=1)
    return net.elementwise("add", "embedded", x, net.param("positions", [1, count + 1, hidden]))


def _first(net: Network, x: str) -> str:
    """The rows of the class."""
    batch, _, hidden = net.shape(x)
    first = net.op("Slice", "class.last", [x], [batch, 1, hidden], starts=[0], ends=[1], axes=[1])
    return net.op("Reshape", "class.row", [first], [batch, hidden], shape=[batch, hidden])


def _block(net: Network, x: str, name: str, heads: int, gate: float = 0.0) -> str:
    hidden = net.shape(x)[-1]
    normed = net.layer_norm(x, f"{name}.norm1")
    q, k, v = (net.linear(normed, f"{name}.{part}.linear", hidden) for part in ("q", "k", "v"))
    x = net.elementwise(
        "add", f"{name}.attended", net.linear(net.attention(q, k, v, name, heads), f"{name}.project", hidden), x
    )
    y = net.linear(net.layer_norm(x, f"{name}.norm2"), f"{name}.up", 4 * hidden)
    if gate:
        opened = net.elementwise("sigmoid", f"{name}.open", net.elementwise("mul", f"{name}.gate", y, gate))
        y = net.elementwise("mul", f"{name}.gelu", y, opened)
    else:
        y = net.elementwise("gelu", f"{name}.gelu", y)
    return net.elementwise("add", f"{name}.out", net.linear(y, f"{name}.down", hidden), x)
