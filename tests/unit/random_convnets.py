"""Random small networks of convolutions, pools, norms, gates and joins, in both orders of dims: what families meet that
no network of a list has side by side."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.models.network import Network, RandomModel

FNS = ("relu", "silu", "gelu", "hard_swish", "")
Layer = Callable[[Network, str, str, random.Random], str]


def _point(net: Network, x: str, name: str, draw: random.Random) -> str:
    return net.conv(x, name, _some(draw), 1, has_bias=draw.random() < 0.5)


def _window(net: Network, x: str, name: str, draw: random.Random) -> str:
    return net.conv(x, name, _some(draw), 3, draw.choice([1, 2]), 1, has_bias=draw.random() < 0.5)


def _depthwise(net: Network, x: str, name: str, draw: random.Random) -> str:
    kernel, channels = draw.choice([3, 5, 7]), net.shape(x)[1]
    return net.conv(x, name, channels, kernel, draw.choice([1, 1, 2]), kernel // 2, True, channels)


def _grouped(net: Network, x: str, name: str, draw: random.Random) -> str:
    """Of two, or of four channels each where the channels are."""
    channels = net.shape(x)[1]
    groups = channels // 4 if channels % 4 == 0 and draw.random() < 0.5 else 2 - channels % 2
    return net.conv(x, name, groups * draw.choice([2, 4, 8]), 3, 1, 1, groups=groups)


def _norm(net: Network, x: str, name: str, draw: random.Random) -> str:
    kind = draw.choice(["batch", "group", "layer"])
    if kind == "batch":
        return net.batch_norm(x, name)
    if kind == "group":
        return net.group_norm(x, name, 2 - net.shape(x)[1] % 2)
    return net.turned(net.layer_norm(net.turned(x, f"{name}.last", True), name), f"{name}.first", False)


def _gate(net: Network, x: str, name: str, draw: random.Random) -> str:
    """x times a number a channel, made of the means of all channels."""
    n, c, *_ = net.shape(x)
    means = net.op("Pool", f"{name}.means", [x], [n, c, 1, 1], mode="average")
    share = net.elementwise("sigmoid", f"{name}.share", net.conv(means, f"{name}.made", c, 1, has_bias=True))
    return net.elementwise("mul", name, x, share)


def _pool(net: Network, x: str, name: str, draw: random.Random) -> str:
    return net.pool(x, name, *draw.choice([("max", 3, 1, 1), ("max", 2, 2), ("average", 2, 2), ("average", 3, 1)]))


def _beside(net: Network, x: str, name: str, draw: random.Random) -> str:
    return net.joined([x, net.conv(x, f"{name}.made", _some(draw), 1)], name)


def _residual(net: Network, x: str, name: str, draw: random.Random) -> str:
    return net.elementwise("add", name, x, net.conv(x, f"{name}.made", net.shape(x)[1], 3, 1, 1))


LAYERS: tuple[Layer, ...] = (
    _point, _window, _depthwise, _depthwise, _grouped, _norm, _gate, _pool, _beside, _residual
)  # fmt: skip


def _some(draw: random.Random) -> int:
    return draw.choice([5, 8, 12, 16, 24, 40, 64])


def drawn(seed: int, is_small: bool = False) -> RandomModel:
    """A network of two to seven layers, for a card or for a simulation; in half of them the image has its channels
    last, and what a layer gives may leave too."""
    draw = random.Random(seed)
    net = Network(f"net{seed}", draw.choice(["fp16", "fp16", "fp32"]))
    sizes = draw.choice([(7, 7), (9, 6), (8, 8), (12, 5)] if is_small else [(28, 28), (31, 17), (56, 56), (14, 40)])
    batch, channels = (draw.choice(some) for some in ([1, 2, 3] if is_small else [1, 4, 16], [3, 5, 8, 16, 32]))
    if draw.random() < 0.5:
        x = net.turned(net.input("x", [batch, *sizes, channels]), "first", False)
    else:
        x = net.input("x", [batch, channels, *sizes])
    left = []
    for number in range(draw.randint(2, 4 if is_small else 7)):
        layer = draw.choice(LAYERS) if min(net.shape(x)[2:]) > 3 else _point
        x = layer(net, x, f"y{number}", draw)
        fn = draw.choice(FNS)
        x = net.elementwise(fn, f"a{number}", x) if fn else x
        left += [x] if draw.random() < 0.15 else []
    if draw.random() < 0.5:
        x = net.turned(x, "last", True)
    return net.model(*dict.fromkeys([*left, x]))
