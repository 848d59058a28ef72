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
    x = net.normed(x, "stem", width, 7, 2, 3)
    x = net.pool(x, "stem.pool", "max", 3, 2, 1)
    for stage, count in enumerate(layers):
        for block in range(count):
            stride = 2 if block == 0 and stage else 1
            x = _bottleneck(net, x, f"s{stage}.b{block}", width << stage, stride)
    x = net.means(x, "pool")
    weight = net.param("fc.weight", [classes, net.shape(x)[1]], net.shape(x)[1] ** -0.5)
    return net.model(
        net.op("GEMM", "logits", [x, weight, net.param("fc.bias", [classes])], [batch, classes], transB=True)
    )


def _bottleneck(net: Network, x: str, name: str, width: int, stride: int) -> str:
    y = net.normed(x, f"{name}.reduce", width, 1)
    y = net.normed(y, f"{name}.middle", width, 3, stride, 1)
    y = net.normed(y, f"{name}.expand", 4 * width, 1, fn="")
    if net.shape(x) != net.shape(y):
        x = net.normed(x, f"{name}.short", 4 * width, 1, stride, fn="")
    return net.elementwise("relu", f"{name}.out", net.elementwise("add", f"{name}.add", y, x))
