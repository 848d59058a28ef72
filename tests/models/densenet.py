"""DenseNet (Huang et al. 2017), 121: each layer reads what all layers of its block before it gave."""

from __future__ import annotations

from .network import Network, RandomModel


def densenet(
    batch: int | str = 1,
    layers: tuple[int, ...] = (6, 12, 24, 16),
    grown: int = 32,
    size: int = 224,
    classes: int = 1000,
    dtype: str = "fp32",
) -> RandomModel:
    """Images [batch, 3, size, size] -> logits [batch, classes]. `layers` counts the layers of each block, each of which
    gives `grown` channels."""
    net = Network("densenet", dtype)
    x = net.normed(net.input("image", [batch, 3, size, size]), "stem", 2 * grown, 7, 2, 3)
    x = net.pool(x, "stem.pool", "max", 3, 2, 1)
    for block, count in enumerate(layers):
        if block:
            x = net.conv(_active(net, x, f"t{block}"), f"t{block}.conv", net.shape(x)[1] // 2, 1)
            x = net.pool(x, f"t{block}.pool", "average", 2, 2)
        parts = [x]
        for layer in range(count):
            parts.append(_layer(net, net.joined(parts, f"b{block}.l{layer}.in"), f"b{block}.l{layer}", grown))
        x = net.joined(parts, f"b{block}.out")
    return net.model(net.linear(net.means(_active(net, x, "norm"), "pool"), "logits", classes))


def _layer(net: Network, x: str, name: str, grown: int) -> str:
    y = net.normed(_active(net, x, name), f"{name}.reduce", 4 * grown, 1)
    return net.conv(y, f"{name}.middle", grown, 3, 1, 1)


def _active(net: Network, x: str, name: str) -> str:
    return net.elementwise("relu", f"{name}.relu", net.batch_norm(x, f"{name}.bn"))
