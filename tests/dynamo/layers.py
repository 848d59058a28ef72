"""Modules as people write them, each with the arguments of some calls: what they compute."""

from __future__ import annotations

from typing import Any

import pytest

from .cases import DEVICE, Made, case, drawn, module

torch = pytest.importorskip("torch")


@case
def dtype_change() -> Made:
    return module(lambda s, x: (x.half(), x.int(), x.bool(), x.double(), x.bfloat16(), x.long(), x.to(torch.uint8))), [
        (drawn(3).abs() * 5,)
    ]


@case
def int_tensors() -> Made:
    return module(lambda s, x, y: (x + y, x // y, x % y, x / y, x & y, x << 1, -x, x.float().mean())), [
        (torch.arange(-5, 5, device=DEVICE), torch.tensor([3, -3, 2, 1, 7, -7, 1, 2, 3, 4], device=DEVICE))
    ]


@case
def batchnorm_train() -> Made:
    m = torch.nn.BatchNorm2d(3).to(DEVICE)
    m.train()
    return m, [(drawn(4, 3, 5, 5),), (drawn(4, 3, 5, 5),)]


@case
def dropout_train() -> Made:
    m = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.0)).to(DEVICE)
    m.train()
    return m, [(drawn(4, 4),)]


@case
def shared_weight() -> Made:
    l = torch.nn.Linear(4, 4)
    return module(lambda s, x: s.a(s.b(x)), a=l, b=l), [(drawn(3, 4),)]


@case
def creation() -> Made:
    return module(
        lambda s, x: (
            x
            + torch.arange(x.shape[0], device=x.device)
            + torch.ones_like(x)
            + torch.zeros(x.shape[0], device=x.device)
            + torch.full((3,), 2.0, device=x.device)
        )
    ), [(drawn(3),)]


@case
def complex_numbers() -> Made:
    return module(lambda s, x: torch.view_as_real(torch.complex(x, x) * 2)), [(drawn(3),)]


@case
def fft() -> Made:
    return module(lambda s, x: torch.fft.rfft(x * 2).abs() + 1), [(drawn(8),)]


@case
def sort_topk() -> Made:
    return module(lambda s, x: (*x.sort(-1), *x.topk(2), x.argmax(-1), x.max(-1)[0])), [(drawn(3, 8),)]


@case
def scatter_index_put() -> Made:
    def f(s, x, i):
        y = x.clone()
        y[i] = 7.0
        z = x.index_add(0, i, x[: i.shape[0]])
        return y, z, x[i], x.gather(1, (i[None] % 4).expand(5, 2))

    return module(f), [(drawn(5, 4), torch.tensor([1, 3], device=DEVICE))]


@case
def cumsum_where() -> Made:
    return module(lambda s, x: (x.cumsum(0), torch.where(x > 0, x, -x * 0.5), x.clamp(-1, 1))), [(drawn(5, 4),)]


@case
def channels_last() -> Made:
    return torch.nn.Conv2d(3, 8, 3).to(DEVICE).to(memory_format=torch.channels_last), [
        (drawn(2, 3, 8, 8).to(memory_format=torch.channels_last),)
    ]


@case
def rand_inside() -> Made:
    return module(lambda s, x: torch.rand_like(x) * 0 + x), [(drawn(5),)]


@case
def multihead_attention() -> Made:
    m = torch.nn.MultiheadAttention(16, 4, batch_first=True).to(DEVICE).eval()
    return module(lambda s, x: s.m(x, x, x), m=m), [(drawn(2, 5, 16),)]


@case
def encoder_layer() -> Made:
    m = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).to(DEVICE).eval()
    return m, [(drawn(2, 5, 16),)]


@case
def encoder_of_two_kinds() -> Made:
    def made(**how: Any) -> Any:
        return torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, **how)

    def forward(self: Any, x: Any, lengths: Any) -> Any:
        hidden = torch.arange(x.shape[1], device=x.device) >= lengths[:, None]
        return self.first(x, src_key_padding_mask=hidden), self.second(x)

    parts = {"first": made(norm_first=True, activation="gelu"), "second": made()}
    return module(forward, **parts).eval(), [(drawn(2, 5, 16), torch.tensor([5, 3], device=DEVICE))]


@case
def lstm() -> Made:
    return torch.nn.LSTM(4, 6, batch_first=True).to(DEVICE).eval(), [(drawn(2, 5, 4),)]


@case
def gru() -> Made:
    return torch.nn.GRU(4, 6, batch_first=True).to(DEVICE).eval(), [(drawn(2, 5, 4),)]


@case
def embedding_bag() -> Made:
    return torch.nn.EmbeddingBag(10, 4).to(DEVICE), [(torch.tensor([[1, 2], [3, 4]], device=DEVICE),)]


@case
def padding_modes() -> Made:
    return module(
        lambda s, x: (
            torch.nn.functional.pad(x, (1, 1, 1, 1), mode="reflect"),
            torch.nn.functional.interpolate(x, scale_factor=2, mode="bilinear"),
            torch.nn.functional.interpolate(x, size=(7, 5)),
        )
    ), [(drawn(1, 2, 4, 4),)]


@case
def norms() -> Made:
    return module(
        lambda s, x: (
            torch.nn.functional.group_norm(x, 2),
            torch.nn.functional.normalize(x, dim=1),
            x.norm(),
            x.std(),
            x.var(0),
            torch.linalg.vector_norm(x, dim=1),
            torch.logsumexp(x, 1),
        )
    ), [(drawn(3, 4, 5),)]


@case
def einsum() -> Made:
    return module(lambda s, x, y: torch.einsum("bij,bkj->bik", x, y)), [(drawn(2, 3, 4), drawn(2, 5, 4))]


@case
def amax_nan() -> Made:
    return module(lambda s, x: (x.amax(-1), x.relu(), x.isnan(), torch.nan_to_num(x), x.isinf())), [
        (torch.tensor([[1.0, float("nan")], [float("-inf"), float("inf")]], device=DEVICE),)
    ]


@case
def loss() -> Made:
    return module(lambda s, x, t: torch.nn.functional.cross_entropy(x, t)), [
        (drawn(3, 5), torch.tensor([1, 2, 4], device=DEVICE))
    ]


@case
def uint8_images() -> Made:
    return module(lambda s, x: x.permute(0, 3, 1, 2).float().div(255).sub(0.5)), [
        ((torch.rand(1, 4, 4, 3, device=DEVICE) * 255).to(torch.uint8),)
    ]


@case
def unbind_split() -> Made:
    return module(lambda s, x: (*x.unbind(0), *x.split([1, 2], 0), *x.chunk(2, 1), *torch.tensor_split(x, 3, 1))), [
        (drawn(3, 4),)
    ]


@case
def many_axes() -> Made:
    return module(lambda s, x: x.sum((1, 3, 5)) + 1), [(drawn(2, 3, 2, 3, 2, 3, 2),)]


@case
def dyn_reshape() -> Made:
    return module(lambda s, x: x.view(x.shape[0] * x.shape[1], -1) @ x.new_ones(4, 2)), [
        (drawn(2, 3, 4),),
        (drawn(5, 3, 4),),
        (drawn(6, 2, 4),),
        (drawn(1, 1, 4),),
    ]


@case
def dyn_attention() -> Made:
    return module(lambda s, q: torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)), [
        (drawn(1, 2, 5, 8),),
        (drawn(2, 2, 9, 8),),
        (drawn(3, 2, 11, 8),),
        (drawn(1, 2, 1, 8),),
    ]


@case
def dyn_slice() -> Made:
    return module(lambda s, x: x[:, : x.shape[1] // 2] + x[:, -(x.shape[1] // 2) :]), [
        (drawn(2, 8),),
        (drawn(2, 10),),
        (drawn(3, 7),),
    ]


@case
def dyn_mask() -> Made:
    return module(
        lambda s, x: torch.tril(torch.ones(x.shape[0], x.shape[0], device=x.device, dtype=torch.bool)).float() @ x
    ), [(drawn(3, 4),), (drawn(5, 4),), (drawn(6, 4),)]


@case
def two_symbols_equal() -> Made:
    return module(lambda s, x, y: x @ y), [
        (drawn(3, 4), drawn(4, 5)),
        (drawn(5, 6), drawn(6, 7)),
        (drawn(6, 6), drawn(6, 6)),
        (drawn(1, 9), drawn(9, 1)),
    ]


@case
def huge_ints() -> Made:
    return module(lambda s, x: (x + 2**40, x * 3, x == 2**53 + 1)), [
        (torch.tensor([2**53 + 1, -5, 2**62], device=DEVICE),)
    ]


@case
def bitwise() -> Made:
    return module(lambda s, x: (~x, x ^ 5, x | 2, x >> 1)), [(torch.arange(8, device=DEVICE, dtype=torch.int32),)]


@case
def fp64() -> Made:
    return module(lambda s, x: (x.exp() * 2, x @ x.t())), [(drawn(3, 4, dtype=torch.float64),)]


@case
def fp16() -> Made:
    return module(lambda s, x: (x.softmax(-1), x @ x.t(), x.sum())), [(drawn(3, 4).half(),)]


@case
def cache_and_mask() -> Made:
    def forward(self: Any, q: Any, cache: Any, mask: Any) -> Any:
        keys = torch.cat([cache, q], 2)
        return torch.nn.functional.scaled_dot_product_attention(q, keys, keys, attn_mask=mask), keys

    lengths = [(drawn(1, 2, 1, 8), drawn(1, 2, n, 8), drawn(1, 1, 1, n + 1)) for n in (5, 7, 9, 40)]
    return module(forward), lengths
