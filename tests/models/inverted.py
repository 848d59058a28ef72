"""Networks of inverted bottlenecks (Sandler et al. 2018), whose middle is depthwise: EfficientNet-B0 (Tan and Le 2019)
and MobileNetV3-Large (Howard et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass

from .network import Network, RandomModel


@dataclass(frozen=True)
class Bottleneck:
    """`inner` channels in the middle, under windows of kernel x kernel, then `made`; `squeezed` channels in the gate of
    the middle, none with 0."""

    kernel: int
    inner: int
    made: int
    squeezed: int
    stride: int
    fn: str


def efficientnet(batch: int | str = 1, size: int = 224, depth: int = 7, dtype: str = "fp32") -> RandomModel:
    """Images [batch, 3, size, size] -> logits [batch, 1000]; `depth` stages of the seven."""
    net = Network("efficientnet", dtype)
    x = net.normed(net.input("image", [batch, 3, size, size]), "stem", 32, 3, 2, 1, fn="silu")
    # kernel, channels in the middle for each before it, channels made, stride, how many
    stages = (
        (3, 1, 16, 1, 1),
        (3, 6, 24, 2, 2),
        (5, 6, 40, 2, 2),
        (3, 6, 80, 2, 3),
        (5, 6, 112, 1, 3),
        (5, 6, 192, 2, 4),
        (3, 6, 320, 1, 1),
    )
    for stage, (kernel, wider, made, stride, count) in enumerate(stages[:depth]):
        for number in range(count):
            channels = net.shape(x)[1]
            block = Bottleneck(kernel, wider * channels, made, channels // 4, 1 if number else stride, "silu")
            x = _bottleneck(net, x, f"s{stage}.b{number}", block, "sigmoid")
    x = net.means(net.normed(x, "head", 1280, 1, fn="silu"), "pool")
    return net.model(net.linear(x, "logits", 1000))


def mobilenet(batch: int | str = 1, size: int = 224, depth: int = 15, dtype: str = "fp32") -> RandomModel:
    """Images [batch, 3, size, size] -> logits [batch, 1000]; `depth` bottlenecks of the fifteen."""
    net = Network("mobilenet", dtype)
    x = net.normed(net.input("image", [batch, 3, size, size]), "stem", 16, 3, 2, 1, fn="hard_swish")
    blocks = (
        Bottleneck(3, 16, 16, 0, 1, "relu"),
        Bottleneck(3, 64, 24, 0, 2, "relu"),
        Bottleneck(3, 72, 24, 0, 1, "relu"),
        Bottleneck(5, 72, 40, 24, 2, "relu"),
        Bottleneck(5, 120, 40, 32, 1, "relu"),
        Bottleneck(5, 120, 40, 32, 1, "relu"),
        Bottleneck(3, 240, 80, 0, 2, "hard_swish"),
        Bottleneck(3, 200, 80, 0, 1, "hard_swish"),
        Bottleneck(3, 184, 80, 0, 1, "hard_swish"),
        Bottleneck(3, 184, 80, 0, 1, "hard_swish"),
        Bottleneck(3, 480, 112, 120, 1, "hard_swish"),
        Bottleneck(3, 672, 112, 168, 1, "hard_swish"),
        Bottleneck(5, 672, 160, 168, 2, "hard_swish"),
        Bottleneck(5, 960, 160, 240, 1, "hard_swish"),
        Bottleneck(5, 960, 160, 240, 1, "hard_swish"),
    )
    for number, block in enumerate(blocks[:depth]):
        x = _bottleneck(net, x, f"b{number}", block, "hard_sigmoid")
    x = net.means(net.normed(x, "head", 960, 1, fn="hard_swish"), "pool")
    x = net.elementwise("hard_swish", "wide.swish", net.linear(x, "wide", 1280))
    return net.model(net.linear(x, "logits", 1000))


def _bottleneck(net: Network, x: str, name: str, block: Bottleneck, gate: str) -> str:
    channels = net.shape(x)[1]
    y = x if block.inner == channels else net.normed(x, f"{name}.up", block.inner, 1, fn=block.fn)
    pad = block.kernel // 2
    y = net.normed(y, f"{name}.middle", block.inner, block.kernel, block.stride, pad, groups=block.inner, fn=block.fn)
    if block.squeezed:
        y = _gated(net, y, f"{name}.gate", block, gate)
    y = net.normed(y, f"{name}.down", block.made, 1, fn="")
    return net.elementwise("add", f"{name}.out", y, x) if net.shape(x) == net.shape(y) else y


def _gated(net: Network, x: str, name: str, block: Bottleneck, gate: str) -> str:
    """x times a number a channel, made of the means of all channels."""
    n, c, *_ = net.shape(x)
    means = net.op("Pool", f"{name}.means", [x], [n, c, 1, 1], mode="average")
    y = net.conv(means, f"{name}.squeeze", block.squeezed, 1, has_bias=True)
    y = net.elementwise("silu" if gate == "sigmoid" else "relu", f"{name}.fn", y)
    y = net.conv(y, f"{name}.spread", c, 1, has_bias=True)
    how = {} if gate == "sigmoid" else {"alpha": 1 / 6, "beta": 0.5}
    return net.elementwise("mul", f"{name}.out", x, net.elementwise(gate, f"{name}.share", y, **how))
