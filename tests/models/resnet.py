"""ResNet-50 (He et al. 2015), with the stride in the 3x3 convolution as in torchvision."""

from __future__ import annotations

from .network import Network, RandomModel


def resnet50(
    batch: int | str = 1,
    layers: tuple[int, ...] = (3, 4, 6, 3),
    width: int = 64,
    size: int = 224,
    classes: int = 1000,
    dtype: str = "fp32",
) -> RandomModel:
    """Images [batch, 3, size, size] -> logits [batch, classes]. `layers` counts the blocks of each stage, `width` is
    the first stage's."""
    net = Network("resnet50", dtype)
    x = net.input("image", [batch, 3, size, size])
    x = _normed(net, x, "stem", width, 7, 2, 3)
    n, c, h, w = net.shape(x)
    x = net.op(
        "Pool",
        "stem.pool",
        [x],
        [n, c, (h - 1) // 2 + 1, (w - 1) // 2 + 1],
        mode="max",
        kernel=[3],
        stride=[2],
        pad=[1],
    )
    for stage, count in enumerate(layers):
        for block in range(count):
            stride = 2 if block == 0 and stage else 1
            x = _bottleneck(net, x, f"s{stage}.b{block}", width << stage, stride)
    x = net.op("Pool", "pool", [x], [*net.shape(x)[:2], 1, 1], mode="average")
    x = net.op("Flatten", "flat", [x], net.shape(x)[:2])
    weight = net.param("fc.weight", [classes, net.shape(x)[1]], net.shape(x)[1] ** -0.5)
    return net.model(
        net.op("GEMM", "logits", [x, weight, net.param("fc.bias", [classes])], [batch, classes], transB=True)
    )


def _normed(
    net: Network, x: str, name: str, channels: int, kernel: int, stride: int = 1, pad: int = 0, is_active: bool = True
) -> str:
    y = net.batch_norm(net.conv(x, f"{name}.conv", channels, kernel, stride, pad), f"{name}.bn")
    return net.elementwise("relu", f"{name}.relu", y) if is_active else y


def _bottleneck(net: Network, x: str, name: str, width: int, stride: int) -> str:
    y = _normed(net, x, f"{name}.reduce", width, 1)
    y = _normed(net, y, f"{name}.middle", width, 3, stride, 1)
    y = _normed(net, y, f"{name}.expand", 4 * width, 1, is_active=False)
    if net.shape(x) != net.shape(y):
        x = _normed(net, x, f"{name}.short", 4 * width, 1, stride, is_active=False)
    return net.elementwise("relu", f"{name}.out", net.elementwise("add", f"{name}.add", y, x))
