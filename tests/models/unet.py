"""A UNet of a diffusion model (Ho et al. 2020, Rombach et al. 2022) of one level: residual blocks behind group norms,
attention over the pixels of the halved image, and what the first block gave beside what comes back."""

from __future__ import annotations

from .network import Network, RandomModel


def unet(
    batch: int | str = 2, size: int = 64, width: int = 320, groups: int = 32, heads: int = 8, dtype: str = "fp32"
) -> RandomModel:
    """Latent images [batch, 4, size, size] -> [batch, 4, size, size]; `width` channels, twice as many halved."""
    net = Network("unet", dtype)
    x = net.conv(net.input("image", [batch, 4, size, size]), "in", width, 3, 1, 1, has_bias=True)
    beside = _residual(net, x, "down", width, groups)
    y = net.conv(beside, "half", width, 3, 2, 1, has_bias=True)
    y = attended(net, _residual(net, y, "middle", 2 * width, groups), "attended", groups, heads)
    y = net.op("Resize", "double", [y], [batch, 2 * width, size, size], scales=[2.0, 2.0], axes=[2, 3])
    y = net.conv(y, "up", width, 3, 1, 1, has_bias=True)
    y = _residual(net, net.joined([y, beside], "joined"), "last", width, groups)
    return net.model(net.conv(y, "out", 4, 3, 1, 1, has_bias=True))


def _residual(net: Network, x: str, name: str, channels: int, groups: int) -> str:
    y = x
    for part in ("first", "second"):
        y = net.elementwise("silu", f"{name}.{part}.silu", net.group_norm(y, f"{name}.{part}.norm", groups))
        y = net.conv(y, f"{name}.{part}", channels, 3, 1, 1, has_bias=True)
    if net.shape(x) != net.shape(y):
        x = net.conv(x, f"{name}.short", channels, 1, has_bias=True)
    return net.elementwise("add", f"{name}.out", y, x)


def attended(net: Network, x: str, name: str, groups: int, heads: int) -> str:
    n, c, h, w = net.shape(x)
    made = net.conv(net.group_norm(x, f"{name}.norm", groups), f"{name}.qkv", 3 * c, 1, has_bias=True)
    parts = []
    for part, q in zip("qkv", net.split(made, [f"{name}.{p}" for p in "qkv"], axis=1)):
        rows = net.op(
            "Reshape", f"{name}.{part}.rows", [q], [n, heads, c // heads, h * w], shape=[n, heads, c // heads, h * w]
        )
        parts.append(
            net.op("Transpose", f"{name}.{part}.heads", [rows], [n, heads, h * w, c // heads], perm=[0, 1, 3, 2])
        )
    y = net.op("Attention", f"{name}.attention", parts, [n, heads, h * w, c // heads])
    y = net.op("Transpose", f"{name}.back", [y], [n, heads, c // heads, h * w], perm=[0, 1, 3, 2])
    y = net.op("Reshape", f"{name}.image", [y], [n, c, h, w], shape=[n, c, h, w])
    return net.elementwise("add", f"{name}.out", net.conv(y, f"{name}.project", c, 1, has_bias=True), x)
