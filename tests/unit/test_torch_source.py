"""The torch text of a network says what our own graph says: run with NumPy in the place of torch, it gives what
playback gives."""

from __future__ import annotations

import types
from math import erf, sqrt
from typing import Any

import numpy as np
import pytest

from tests import models
from tests.models import RandomModel
from tests.models.torch_source import source_of, variables_of
from tinyir.front.json import read
from tinyir.play import tiny as play_tiny

SMALL = [
    models.resnet50(layers=(1, 1), width=4, size=32, classes=5),
    models.bert(layers=1, tokens=8, hidden=32, heads=2, words=50, positions=16),
    models.gpt2(layers=1, tokens=8, hidden=32, heads=2, words=50, positions=16),
    models.vit(size=32, hidden=32, heads=2, classes=5),
    models.llama(layers=1, tokens=8, hidden=32, heads=4, shared=2, inner=48, words=50),
    models.whisper(layers=1, tokens=6, hidden=32, heads=2, bands=5),
    models.convnext(layers=(1, 1), width=8, size=32, classes=5),
    models.densenet(layers=(2, 2), grown=4, size=32, classes=5),
    models.efficientnet(size=32, depth=3),
    models.mobilenet(size=32, depth=5),
    models.unet(size=8, width=16, groups=4, heads=2),
]


class Tensor(np.ndarray):
    """The methods that the text calls."""

    def chunk(self, parts: int, axis: int) -> list[Any]:
        return np.split(self, parts, axis)

    def expand(self, shape: list[int]) -> Any:
        return np.broadcast_to(self, shape, subok=True)

    def flatten(self, axis: int) -> Any:
        return self.reshape(*self.shape[:axis], -1)

    def permute(self, axes: list[int]) -> Any:
        return self.transpose(axes)

    def mean(self, axes: tuple[int, ...], keepdim: bool) -> Any:
        return np.mean(np.asarray(self), axes, keepdims=keepdim).view(Tensor)


def windows(x: np.ndarray, kernel: tuple[int, int], stride: int, pad: int, fill: float) -> np.ndarray:
    filled = np.pad(np.asarray(x), ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=fill)
    return np.lib.stride_tricks.sliding_window_view(filled, kernel, (2, 3))[:, :, ::stride, ::stride]


def conv2d(x: Any, w: Any, bias: Any = None, stride: int = 1, padding: int = 0, groups: int = 1) -> Any:
    pairs = zip(np.split(windows(x, w.shape[2:], stride, padding, 0), groups, 1), np.split(np.asarray(w), groups))
    found = np.concatenate([np.einsum("nchwij,ocij->nohw", seen, taps) for seen, taps in pairs], 1)
    return (found if bias is None else found + bias[:, None, None]).view(Tensor)


def conv1d(x: Any, w: Any, bias: Any = None, stride: int = 1, padding: int = 0, groups: int = 1) -> Any:
    assert groups == 1
    filled = np.pad(np.asarray(x), ((0, 0), (0, 0), (padding, padding)))
    found = np.einsum(
        "nctj,ocj->not", np.lib.stride_tricks.sliding_window_view(filled, w.shape[2], 2)[:, :, ::stride], w
    )
    return (found if bias is None else found + bias[:, None]).view(Tensor)


def scaled_dot_product_attention(
    q: Any, k: Any, v: Any, attn_mask: Any = None, is_causal: bool = False, enable_gqa: bool = False
) -> Any:
    if enable_gqa:
        k, v = (np.repeat(part, q.shape[1] // part.shape[1], axis=1).view(Tensor) for part in (k, v))
    scores = q @ k.mT / sqrt(q.shape[-1])
    seen = np.tril(np.ones(scores.shape[-2:], bool)) if is_causal else True if attn_mask is None else attn_mask
    raised = np.exp(np.where(seen, scores, -np.inf) - np.max(scores, -1, keepdims=True))
    return (raised / raised.sum(-1, keepdims=True)).view(Tensor) @ v


def gelu(x: Any, approximate: str) -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + np.vectorize(erf)(x / sqrt(2))).view(Tensor)


def layer_norm(x: Any, shape: tuple[int, ...], scale: Any, shift: Any) -> Any:
    x = np.asarray(x)
    return ((x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + shift).view(Tensor)


def batch_norm(x: Any, mean: Any, variance: Any, scale: Any, shift: Any) -> Any:
    return (x - mean[:, None, None]) / np.sqrt(variance[:, None, None] + 1e-5) * scale[:, None, None] + shift[
        :, None, None
    ]


def group_norm(x: Any, groups: int, scale: Any, shift: Any) -> Any:
    n, c, *space = x.shape
    rows = np.asarray(x).reshape(n, groups, -1)
    normed = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
    return (normed.reshape(x.shape) * scale[:, None, None] + shift[:, None, None]).view(Tensor)


def interpolate(x: Any, scale_factor: float, mode: str) -> Any:
    assert mode == "nearest"
    return x.repeat(int(scale_factor), 2).repeat(int(scale_factor), 3)


class Module:
    def register_parameter(self, name: str, value: Any) -> None:
        setattr(self, name, value)


def rms_norm(x: Any, shape: tuple[int, ...], scale: Any, eps: float) -> Any:
    x = np.asarray(x)
    return (x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * scale).view(Tensor)


F = types.SimpleNamespace(
    conv1d=conv1d,
    conv2d=conv2d,
    rms_norm=rms_norm,
    silu=lambda x: x / (1 + np.exp(-x)),
    hardswish=lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    hardsigmoid=lambda x: np.clip(x / 6 + 0.5, 0, 1),
    group_norm=group_norm,
    interpolate=interpolate,
    gelu=gelu,
    layer_norm=layer_norm,
    batch_norm=batch_norm,
    scaled_dot_product_attention=scaled_dot_product_attention,
    linear=lambda x, w, bias=0: x @ w.mT + bias,
    embedding=lambda ids, table: table[ids],
    max_pool2d=lambda x, kernel, stride, pad: (
        windows(x, (kernel, kernel), stride, pad, -np.inf).max((-1, -2)).view(Tensor)
    ),
    avg_pool2d=lambda x, kernel, stride, pad: windows(x, (kernel, kernel), stride, pad, 0).mean((-1, -2)).view(Tensor),
)
torch = types.SimpleNamespace(
    nn=types.SimpleNamespace(Module=Module, Parameter=lambda value, requires_grad: value),
    relu=lambda x: np.maximum(x, 0),
    add=np.add,
    tanh=np.tanh,
    sigmoid=lambda x: 1 / (1 + np.exp(-x)),
    mul=np.multiply,
    neg=np.negative,
    cat=lambda parts, axis: np.concatenate(parts, axis).view(Tensor),
)


@pytest.mark.parametrize("model", SMALL, ids=lambda m: m.name)
def test_the_text_gives_what_playback_gives(model: RandomModel) -> None:
    arrays = model.arrays(1)
    names = variables_of(model)
    scope = {"torch": torch, "F": F}
    exec(compile(source_of(model), model.name, "exec"), scope)
    network = scope["Network"]({names[n].removeprefix("self."): arrays[n].view(Tensor) for n in model.weights})
    found = network.forward(**{names[n]: a.view(Tensor) for n, a in arrays.items() if n not in model.weights})
    for (name, wanted), given in zip(play_tiny.play(read(model.text), arrays).items(), found, strict=True):
        np.testing.assert_allclose(np.asarray(given, np.float64), wanted, rtol=1e-3, atol=1e-4, err_msg=name)
