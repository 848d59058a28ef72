"""A multi-layer perceptron whose widths come round again: many launches, few of which differ."""

from __future__ import annotations

from .network import Network, RandomModel


def mlp(
    layers: int, shapes: int = 20, rows: int = 64, least: int = 128, step: int = 64, dtype: str = "fp16"
) -> RandomModel:
    """x [rows, least] -> relu(x @ W + b), `layers` times; layer n goes from width n to width n + 1 of
    `shapes`, the last of which is followed by the first."""
    net = Network("mlp", dtype)
    widths = [least + step * at for at in range(shapes)]
    x = net.input("x", [rows, widths[0]])
    for layer in range(layers):
        x = net.elementwise("relu", f"h{layer}", net.linear(x, f"l{layer}", widths[(layer + 1) % shapes]))
    return net.model(x)
