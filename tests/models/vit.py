"""Vision transformer (Dosovitskiy et al. 2020), ViT-B/16: patches by a convolution, a class token, pre-norm encoder
blocks."""

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
    image = net.input("image", [batch, 3, size, size])
    x = net.conv(image, "patches", hidden, patch, patch, has_bias=True)
    count = (size // patch) ** 2
    x = net.op("Reshape", "patches.flat", [x], [batch, hidden, count], shape=[batch, hidden, count])
    x = net.op("Transpose", "patches.rows", [x], [batch, count, hidden], perm=[0, 2, 1])
    first = net.op(
        "Expand", "class.rows", [net.param("class.token", [1, 1, hidden])], [batch, 1, hidden], shape=[batch, 1, hidden]
    )
    x = net.op("Concat", "tokens", [first, x], [batch, count + 1, hidden], axis=1)
    x = net.elementwise("add", "embedded", x, net.param("positions", [1, count + 1, hidden]))
    for layer in range(layers):
        x = _block(net, x, f"l{layer}", heads)
    first = net.op(
        "Slice", "class.last", [net.layer_norm(x, "norm")], [batch, 1, hidden], starts=[0], ends=[1], axes=[1]
    )
    return net.model(
        net.linear(net.op("Reshape", "class.row", [first], [batch, hidden], shape=[batch, hidden]), "logits", classes)
    )


def _block(net: Network, x: str, name: str, heads: int) -> str:
    hidden = net.shape(x)[-1]
    normed = net.layer_norm(x, f"{name}.norm1")
    q, k, v = (net.linear(normed, f"{name}.{part}.linear", hidden) for part in ("q", "k", "v"))
    x = net.elementwise(
        "add", f"{name}.attended", net.linear(net.attention(q, k, v, name, heads), f"{name}.project", hidden), x
    )
    y = net.elementwise(
        "gelu", f"{name}.gelu", net.linear(net.layer_norm(x, f"{name}.norm2"), f"{name}.up", 4 * hidden)
    )
    return net.elementwise("add", f"{name}.out", net.linear(y, f"{name}.down", hidden), x)
