"""ConvNeXt (Liu et al. 2022), tiny: patches, then blocks of a 7x7 depthwise convolution and a perceptron with its
channels innermost."""

from __future__ import annotations

from .network import Network, RandomModel


def convnext(
    batch: int | str = 1,
    layers: tuple[int, ...] = (3, 3, 9, 3),
    width: int = 96,
    size: int = 224,
    classes: int = 1000,
    dtype: str = "fp32",
) -> RandomModel:
    """Images [batch, 3, size, size] -> logits [batch, classes]. `layers` counts the blocks of each stage, `width` is
    the first stage's."""
    net = Network("convnext", dtype)
    x = net.conv(net.input("image", [batch, 3, size, size]), "stem", width, 4, 4, has_bias=True)
    x = _normed(net, x, "stem.norm")
    for stage, count in enumerate(layers):
        if stage:
            x = net.conv(_normed(net, x, f"s{stage}.norm"), f"s{stage}.half", width << stage, 2, 2, has_bias=True)
        for block in range(count):
            x = _block(net, x, f"s{stage}.b{block}")
    return net.model(net.linear(net.layer_norm(net.means(x, "pool"), "norm"), "logits", classes))


def _normed(net: Network, x: str, name: str) -> str:
    """Each pixel over its channels."""
    return net.turned(net.layer_norm(net.turned(x, f"{name}.last", True), name), f"{name}.first", False)


def _block(net: Network, x: str, name: str) -> str:
    channels = net.shape(x)[1]
    y = net.conv(x, f"{name}.deep", channels, 7, 1, 3, has_bias=True, groups=channels)
    y = net.layer_norm(net.turned(y, f"{name}.last", True), f"{name}.norm")
    y = net.linear(
        net.elementwise("gelu", f"{name}.gelu", net.linear(y, f"{name}.up", 4 * channels)), f"{name}.down", channels
    )
    y = net.elementwise("mul", f"{name}.scaled", y, net.param(f"{name}.scale", [channels], 0.1, 1.0))
    return net.elementwise("add", f"{name}.out", net.turned(y, f"{name}.first", False), x)
