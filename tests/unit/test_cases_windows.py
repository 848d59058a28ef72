"""Reports about other compilers, restated: SAME padding that forgot the dilation, transposed convolutions that forgot
output_padding."""

from __future__ import annotations

import numpy as np
import pytest

from tinyir.front.json import read

from .stages import Stages, graph, needs_host_compiler

# --- A12: the padding was computed from the kernel's size and not from what it reaches, (k - 1)*d + 1 (onnxruntime 20582)  # noqa: E501


def same(size: int, out: int, **attrs: object) -> Stages:
    return Stages(
        graph(
            {"x": ("fp32", [1, 1, size]), "w": ("fp32", [1, 1, 3])},
            {"y": ("fp32", [1, 1, out])},
            ("Conv", ["x", "w"], "y", attrs),
        )
    )


WEIGHTS = np.array([[[1, 10, 100]]], np.float32)


@pytest.mark.parametrize("is_simulated", [False, pytest.param(True, marks=[needs_host_compiler, pytest.mark.slow])])
def test_same_padding_with_dilation(is_simulated: bool) -> None:
    x = np.arange(1, 8, dtype=np.float32).reshape(1, 1, 7)
    wanted = np.array([[[310, 420, 531, 642, 753, 64, 75]]], np.float32)
    same(7, 7, auto_pad="same_upper", dilation=[2]).assert_gives({"x": x, "w": WEIGHTS}, {"y": wanted}, is_simulated)


@pytest.mark.parametrize("mode, wanted", [("same_upper", [321, 543, 65]), ("same_lower", [210, 432, 654])])
def test_same_padding_that_does_not_part_evenly(mode: str, wanted: list[int]) -> None:
    x = np.arange(1, 7, dtype=np.float32).reshape(1, 1, 6)
    same(6, 3, auto_pad=mode, stride=[2]).assert_gives({"x": x, "w": WEIGHTS}, {"y": np.array([[wanted]], np.float32)})


@pytest.mark.parametrize("size", [5, 6, 7, 8])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2, 3])
@pytest.mark.parametrize("mode", ["same_upper", "same_lower"])
def test_same_padding_is_the_padding_that_it_says(size: int, stride: int, dilation: int, mode: str) -> None:
    """The sisters: as many outputs as ceil(size/stride), and the values of a plain convolution of the padded row."""
    out = -(-size // stride)
    total = max(0, (out - 1) * stride + 2 * dilation + 1 - size)
    if stride == 1:
        total = 2 * dilation
    low = total // 2 if mode == "same_upper" else total - total // 2
    x = np.arange(1, size + 1, dtype=np.float32)
    row = np.pad(x, (low, total - low))
    wanted = [sum(WEIGHTS[0, 0, k] * row[o * stride + k * dilation] for k in range(3)) for o in range(out)]
    module = same(size, out, auto_pad=mode, stride=[stride], dilation=[dilation])
    module.assert_gives({"x": x.reshape(1, 1, size), "w": WEIGHTS}, {"y": np.array([[wanted]], np.float32)})


# --- A13: output_padding was ignored, so that the last row and column were missing (tvm 18601)


@pytest.mark.parametrize("is_simulated", [False, pytest.param(True, marks=[needs_host_compiler, pytest.mark.slow])])
def test_output_padding_adds_a_row_and_a_column(is_simulated: bool) -> None:
    text = graph(
        {"x": ("fp32", [1, 1, 2, 2]), "w": ("fp32", [1, 1, 3, 3])},
        {"y": ("fp32", [1, 1, 4, 4])},
        ("ConvTranspose", ["x", "w"], "y", {"stride": [2], "pad": [1], "output_padding": [1, 1]}),
    )
    wanted = np.array([[[[1, 3, 2, 2], [4, 10, 6, 6], [3, 7, 4, 4], [3, 7, 4, 4]]]], np.float32)
    arrays = {"x": np.array([[[[1, 2], [3, 4]]]], np.float32), "w": np.ones((1, 1, 3, 3), np.float32)}
    Stages(text).assert_gives(arrays, {"y": wanted}, is_simulated)


def test_the_shape_with_output_padding() -> None:
    attrs = {"stride": [2], "pad": [1], "output_padding": [1, 1]}
    module = read(
        graph(
            {"x": ("fp32", [1, 3, 28, 28]), "w": ("fp32", [3, 6, 3, 3])},
            {"y": ("fp32", [1, 6, 56, 56])},
            ("ConvTranspose", ["x", "w"], "y", attrs),
        )
    )
    assert str(module.type_of()["y"]) == "fp32[1, 6, 56, 56]"


@pytest.mark.parametrize(
    "stride, kernel, pad, more, dilation",
    [(2, 3, 0, 1, 1), (3, 2, 0, 2, 1), (3, 4, 1, 0, 1), (2, 3, 2, 1, 2), (1, 3, 1, 0, 1), (4, 3, 1, 3, 1)],
)
def test_transposed_convolutions_scatter_what_convolutions_gather(
    stride: int, kernel: int, pad: int, more: int, dilation: int
) -> None:
    """The sisters, in one dimension: y[s*i + d*k - pad] += x[i] * w[k]."""
    size = 5
    out = (size - 1) * stride + (kernel - 1) * dilation + 1 + more - 2 * pad
    x, w = np.arange(1, size + 1, dtype=np.float32), np.arange(1, kernel + 1, dtype=np.float32)
    wanted = np.zeros(out, np.float32)
    for i in range(size):
        for k in range(kernel):
            if 0 <= i * stride + k * dilation - pad < out:
                wanted[i * stride + k * dilation - pad] += x[i] * w[k]
    attrs = {"stride": [stride], "pad": [pad], "output_padding": [more], "dilation": [dilation]}
    text = graph(
        {"x": ("fp32", [1, 1, size]), "w": ("fp32", [1, 1, kernel])},
        {"y": ("fp32", [1, 1, out])},
        ("ConvTranspose", ["x", "w"], "y", attrs),
    )
    Stages(text).assert_gives({"x": x.reshape(1, 1, -1), "w": w.reshape(1, 1, -1)}, {"y": wanted.reshape(1, 1, -1)})
