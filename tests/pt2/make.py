"""Small archives of torch.export with torch's own results, which `test_pt2` imports and plays.

    python tests/pt2/make.py [--out tests/pt2/archives.tar.xz] [--only NAME,...]     needs torch 2.11 or later, no GPU

Each program of `PROGRAMS` is exported as it is and, where that changes it, decomposed to core ATen. The archives are
written by torch.export.save, without sample inputs and source traces; `NAME.npz` holds inputs `i0`, `i1`, ... and
outputs `o0`, ....
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

try:
    from .making import Files, Wrapped, archives_of, distinct, normal, outputs_of, packed, whole, write
except ImportError:
    from making import Files, Wrapped, archives_of, distinct, normal, outputs_of, packed, whole, write

Program = tuple[Callable[..., Any] | nn.Module, tuple[Any, ...]]


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 10), nn.Linear(10, 3, bias=False)
        self.norm = nn.LayerNorm(10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(F.gelu(self.norm(self.first(x))))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 6)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.table.weight
        self.register_buffer("places", torch.arange(5), persistent=False)
        self.scale = torch.tensor([0.5, 2.0, 1.0, 3.0, -1.0, 0.25])

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.table(ids + self.places) * self.scale)


class Strided(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(7, 5).t())
        self.image = nn.Parameter(torch.randn(4, 3, 3, 3).to(memory_format=torch.channels_last))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x @ self.weight, F.conv2d(y, self.image)


def head(x: torch.Tensor, count: int) -> torch.Tensor:
    batch, length, width = x.shape
    return x.view(batch, length, count, width // count).transpose(1, 2)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(head(q, 2), head(k, 2), head(v, 2)).transpose(1, 2).flatten(2)


U = "abs neg sign sqrt rsqrt reciprocal exp exp2 expm1 log log1p log2 log10 sin cos tan asin acos atan sinh".split()
U += "cosh tanh asinh atanh erf floor ceil trunc round relu sigmoid square isnan isinf isfinite logical_not".split()
UF = "silu mish gelu hardtanh relu6 hardsigmoid hardswish softplus logsigmoid elu selu celu leaky_relu softsign".split()
UF += ["tanhshrink"]
B = "add sub mul div maximum minimum fmod remainder pow atan2 eq ne lt le gt ge floor_divide".split()


def programs() -> dict[str, Program]:
    """The programs by name."""
    found: dict[str, Program] = {}
    x, y = normal(3, 4), normal(3, 4)
    unit = torch.rand(3, 4) * 0.8 + 0.1
    for name in U:
        found[f"unary_{name}"] = getattr(torch, name), (unit,)
    found["unary_acosh"] = torch.acosh, (unit + 1,)
    found["unary_abs_integers"] = lambda a: (a.abs(), a.neg(), a.sign(), a.float().exp()), (whole(5),)
    found["unary_of_integers"] = lambda a: (a.sqrt(), a.sigmoid(), a.bitwise_not()), (whole(5, low=1),)
    for name in UF:
        found[f"unary_{name}"] = getattr(F, name), (3 * x,)
    found["gelu_tanh"] = lambda a: F.gelu(a, approximate="tanh"), (x,)
    found["softplus_beta"] = lambda a: F.softplus(a, beta=2.0, threshold=1.0), (x,)
    for name in B:
        found[f"binary_{name}"] = getattr(torch, name), (x.abs() + 0.1, y.abs() + 0.1)
    found["binary_scalars"] = lambda a: (a + 2, a - 1.5, a * 3, a / 4, 2 - a, a**2, a**3.0, a > 0, a == 1), (x,)
    found["binary_integers"] = (
        lambda a, b: (a + b, a - 2 * b, a * b, a / b, a // b, a % b, torch.fmod(a, b), a & b, a | b, a ^ b),
        (whole(6), whole(6, low=1)),
    )
    found["binary_promotion"] = (
        lambda a, b, c: (a + b, a * 1.5, b + c, c + c, a == b, torch.tensor(2) * b, b > c),
        (whole(4), normal(4, dtype=torch.float16), torch.tensor([True, False, True, True])),
    )
    found["binary_bf16"] = (
        lambda a, b: (a + b, a * b.float(), (a / 3).to(torch.float16)),
        (
            normal(4, dtype=torch.bfloat16),
            normal(4, dtype=torch.bfloat16),
        ),
    )
    found["binary_broadcast"] = lambda a, b: a[:, None] * b + a[0], (x, normal(4))
    found["binary_shifts"] = lambda a, b: (a << b, a >> b), (whole(5, low=0), whole(5, low=0, high=4))
    found["binary_modes"] = (
        lambda a, b: (torch.div(a, b, rounding_mode="floor"), torch.div(a, b, rounding_mode="trunc")),
        (7 * x, y),
    )
    found["binary_integer_modes"] = (
        lambda a, b: (torch.div(a, b, rounding_mode="floor"), torch.div(a, b, rounding_mode="trunc")),
        (whole(6), whole(6, low=1)),
    )
    found["alpha"] = lambda a, b: (torch.add(a, b, alpha=2), torch.sub(a, b, alpha=0.5)), (x, y)
    found["logical"] = (
        lambda a, b: ((a > 0) & (b > 0), torch.logical_or(a > 0, b), torch.logical_xor(a > 0, b > 0)),
        (
            x,
            y,
        ),
    )
    found["clamp"] = lambda a: (a.clamp(-0.5, 0.5), a.clamp(min=0.1), a.clamp(max=0.1), a.clamp_min(0.2)), (x,)
    found["clamp_integers"] = lambda a: (a.clamp(-2, 3), a.clamp(min=1)), (whole(9),)
    found["clamp_tensors"] = lambda a, b: (a.clamp(min=b), a.clamp(max=b)), (x, y)
    found["where"] = (
        lambda a, b: (torch.where(a > 0, a, b), torch.where(a > 0, a, 0.0), torch.where(a > 0, 1, 2)),
        (
            x,
            y,
        ),
    )
    found["masked_fill"] = lambda a, b: a.masked_fill(b > 0, float("-inf")), (x, y)
    found["casts"] = lambda a: (a.to(torch.int32), a.half(), a.double(), a.bool(), a.to(torch.bfloat16)), (3 * x,)
    found["lerp"] = lambda a, b: (torch.lerp(a, b, 0.3), torch.addcmul(a, a, b, value=2)), (x, y)
    found["prelu"] = nn.PReLU(4), (normal(2, 4, 3),)
    # --- movement
    z = normal(2, 3, 4)
    found["views"] = lambda a: (a.view(6, 4), a.reshape(-1), a.flatten(1), a.unflatten(2, (2, 2)), a[:, None]), (z,)
    found["squeezes"] = lambda a: (a.squeeze(), a.squeeze(1), a.unsqueeze(-1)), (normal(2, 1, 4, 1),)
    found["permutes"] = lambda a: (a.permute(2, 0, 1), a.transpose(0, 2), a.mT, a[0].t(), a.movedim(0, 2)), (z,)
    found["expands"] = (
        lambda a: (a.expand(2, 3, 4), a.repeat(2, 1, 3), a.repeat_interleave(2, dim=1)),
        (normal(1, 3, 4),),
    )
    found["slices"] = lambda a: (a[:, 1:], a[..., ::2], a[:, -2:], a[1, 2], a[:, :, -1], a.narrow(1, 1, 2)), (z,)
    found["cats"] = (
        lambda a, b: (torch.cat([a, b], 1), torch.stack([a, a], 2), torch.cat([a, b.half()], 1)),
        (
            z,
            normal(2, 2, 4),
        ),
    )
    found["splits"] = lambda a: (*a.split(2, 2), *a.split([1, 2], 1), *a.chunk(2, 2), *a.unbind(0)), (z,)
    found["splits_in_part"] = lambda a: (a.split(2, 1)[1], a.chunk(3, 2)[0], a.unbind(1)[2]), (z,)
    found["flips"] = lambda a: (a.flip(0, 2), a.roll(1, 2), a.roll((1, -1), (0, 1)), a.roll(5)), (z,)
    found["pads"] = (
        lambda a: (
            F.pad(a, (1, 2)),
            F.pad(a, (0, 1, 2, 0), value=3.0),
            F.pad(a, (1, 1), mode="reflect"),
            F.pad(a, (2, 1), mode="replicate"),
            F.pad(a, (-1, 0, 1, -1)),
        ),
        (z,),
    )
    found["pads_of_images"] = (
        lambda a: (
            F.pad(a, (1, 2, 1, 1), mode="reflect"),
            F.pad(a, (1, 2, 1, 1), mode="replicate"),
        ),
        (normal(1, 2, 4, 5),),
    )
    found["triangles"] = lambda a: (a.tril(), a.triu(1), a.tril(-1)), (normal(2, 4, 5),)
    found["shuffles"] = lambda a: (F.pixel_shuffle(a, 2), F.pixel_unshuffle(a, 2)), (normal(1, 8, 4, 4),)
    found["strided"] = Strided(), (normal(2, 5), normal(1, 3, 5, 5))
    found["placed"] = (
        lambda a, b: (torch.bucketize(a, b), torch.searchsorted(b, a, right=True), torch.histc(a, 7, -2, 2), a.diff(),
                      a.diagonal(1) * 2, a.reshape_as(a.t()), torch.cdist(a, a * 2), torch.linalg.vector_norm(a, 3, 1)),
        (normal(3, 4), torch.tensor([-1.0, 0.0, 0.0, 1.0])),
    )  # fmt: skip
    found["folded_windows"] = lambda a: F.fold(a, (5, 6), (2, 3), padding=1, stride=2), (normal(2, 12, 9),)
    found["as_strided"] = lambda a: (a.as_strided((2, 3), (1, 2)), a.as_strided((3, 4), (4, 1))), (normal(3, 4),)

    def written(a: torch.Tensor, b: torch.Tensor) -> Any:
        c = a.clone()
        c[:, 1:3] = b
        c[0] = 7
        c[:, -1] += 1
        return c

    found["written"] = written, (normal(3, 4), normal(3, 2))

    def put(a: torch.Tensor, at: torch.Tensor, b: torch.Tensor) -> Any:
        c = a.clone()
        c[at] = b
        return c, a.index_add(0, at, b), a.index_copy(0, at, b), a.index_put((at,), b, accumulate=True)

    found["put"] = put, (normal(5, 3), torch.tensor([3, 0]), normal(2, 3))
    # --- creation
    found["created"] = (
        lambda a: (
            torch.zeros(2, 3) + a,
            torch.ones_like(a),
            torch.full((2,), 3),
            torch.arange(5),
            torch.arange(2, 9, 3),
            torch.arange(0.5, 3, 0.5),
            torch.linspace(0, 1, 5),
            torch.eye(3),
            a.new_full((2,), 1.5),
            torch.tensor(2.5) * a,
        ),
        (normal(2, 3),),
    )
    found["folded"] = (
        lambda a: a[:, (torch.arange(4) + 3).remainder(4)] + (torch.arange(3)[:, None] >= torch.arange(4)[None]),
        (normal(3, 4),),
    )
    # --- reductions
    found["sums"] = lambda a: (a.sum(), a.sum(1), a.sum((0, 2), keepdim=True), a.mean(-1), a.mean(), a.prod(1)), (z,)
    found["sums_of_integers"] = lambda a: (a.sum(), a.sum(0), (a > 0).sum(1), a.prod(1)), (whole(3, 4),)
    found["extremes"] = (
        lambda a: (
            a.amax(1),
            a.amin((0, 1)),
            a.max(),
            a.max(1).values,
            *a.min(2, keepdim=True),
            a.argmax(),
            a.argmin(1),
        ),
        (distinct(2, 3, 4),),
    )
    found["anys"] = lambda a: ((a > 0).any(), (a > 0).any(1), (a > -1).all(), (a > 0).all(2)), (z,)
    found["variances"] = (
        lambda a: (
            a.var(1),
            a.std(-1),
            a.var((0, 1), correction=0),
            *torch.var_mean(a, 1),
            a.std(1, keepdim=True),
        ),
        (z,),
    )
    found["norms"] = lambda a: (a.norm(dim=1), torch.linalg.vector_norm(a, ord=1, dim=2), F.normalize(a, dim=1)), (z,)
    found["scans"] = lambda a, b: (a.cumsum(1), a.cumprod(2), b.cumsum(0)), (z, whole(4))
    found["orders"] = (
        lambda a: (*a.topk(2), *a.topk(2, dim=0, largest=False), *a.sort(1), a.argsort(descending=True)),
        (distinct(4, 5),),
    )
    # --- contractions
    a, b = normal(3, 5), normal(5, 4)
    found["mm"] = (
        lambda p, q: (p @ q, torch.mm(p, q), p.mv(q[:, 0]), p[0].dot(q[:, 1]), torch.outer(p[0], q[0])),
        (a, b),
    )
    found["bmm"] = (
        lambda p, q: (torch.bmm(p, q), p @ q[0], torch.matmul(p[:, None], q)),
        (
            normal(2, 3, 5),
            normal(2, 5, 4),
        ),
    )
    found["addmm"] = (
        lambda c, p, q: (
            torch.addmm(c, p, q),
            torch.addmm(c, p, q, alpha=2, beta=0.5),
            torch.addmm(c[0], p, q),
        ),
        (normal(3, 4), a, b),
    )
    found["baddbmm"] = (
        lambda c, p, q: torch.baddbmm(c, p, q, alpha=0.5),
        (
            normal(2, 3, 4),
            normal(2, 3, 5),
            normal(2, 5, 4),
        ),
    )
    found["einsum"] = lambda p, q: torch.einsum("bik, bkj -> bji", p, q), (normal(2, 3, 5), normal(2, 5, 4))
    found["linear"] = Mlp(), (normal(2, 3, 6),)
    found["linear_fp16"] = Mlp().half(), (normal(2, 3, 6, dtype=torch.float16),)
    # --- normalisations
    found["softmaxes"] = lambda p: (p.softmax(1), p.log_softmax(-1), F.softmax(p, 0, dtype=torch.float64)), (z,)
    image = normal(2, 6, 5, 4)
    found["batch_norm"] = nn.BatchNorm2d(6).eval(), (image,)
    found["batch_norm_plain"] = nn.BatchNorm2d(6, affine=False).eval(), (image,)
    found["layer_norm"] = nn.LayerNorm((5, 4)), (image,)
    found["layer_norm_plain"] = lambda p: F.layer_norm(p, (4,)), (image,)
    found["group_norm"] = nn.GroupNorm(3, 6), (image,)
    found["group_norm_plain"] = lambda p: F.group_norm(p, 2), (image,)
    found["instance_norm"] = nn.InstanceNorm2d(6, affine=True), (image,)
    found["rms_norm"] = nn.RMSNorm(4), (image,)
    found["rms_norm_plain"] = lambda p: F.rms_norm(p, (4,)), (image,)
    # --- windows
    found["conv1d"] = nn.Conv1d(6, 8, 3, padding=1, stride=2), (normal(2, 6, 9),)
    found["conv2d"] = (
        nn.Conv2d(6, 9, (3, 2), padding=(1, 0), stride=(1, 2), dilation=(2, 1), groups=3),
        (normal(2, 6, 9, 8),),
    )
    found["conv3d"] = nn.Conv3d(2, 3, 2, bias=False), (normal(1, 2, 4, 5, 4),)
    found["conv_same"] = nn.Conv2d(2, 3, (4, 3), padding="same"), (normal(1, 2, 6, 6),)
    found["conv_alone"] = nn.Conv2d(2, 3, 3), (normal(2, 6, 6),)
    found["conv_transpose1d"] = nn.ConvTranspose1d(4, 3, 4, stride=2, padding=1), (normal(2, 4, 5),)
    found["conv_transpose2d"] = (
        nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
        (normal(1, 4, 5, 4),),
    )
    found["max_pools"] = (
        lambda p: (F.max_pool2d(p, 3, 2, 1), F.max_pool2d(p, 2), F.max_pool1d(p[0], 2, dilation=2)),
        (distinct(2, 3, 8, 7),),
    )
    found["max_pool_places"] = lambda p: F.max_pool2d(p, 3, 2, 1, return_indices=True), (distinct(2, 3, 8, 7),)
    found["avg_pools"] = (
        lambda p: (
            F.avg_pool2d(p, 3, 2, 1),
            F.avg_pool2d(p, 2, count_include_pad=False, padding=1),
            F.avg_pool1d(p[0], 3, 1),
            F.avg_pool2d(p, 3, 2, ceil_mode=True),
        ),
        (normal(2, 3, 8, 7),),
    )
    found["adaptive_pools"] = (
        lambda p: (
            F.adaptive_avg_pool2d(p, 1),
            F.adaptive_avg_pool2d(p, (4, 2)),
            F.adaptive_avg_pool2d(p, (3, 5)),
            F.adaptive_max_pool2d(p, 1),
        ),
        (normal(2, 3, 8, 6),),
    )
    found["nearest"] = (
        lambda p: (F.interpolate(p, scale_factor=2), F.interpolate(p, size=(7, 9))),
        (normal(1, 2, 4, 5),),
    )
    found["nearest_exact"] = lambda p: F.interpolate(p, size=(7, 9), mode="nearest-exact"), (normal(1, 2, 4, 5),)
    found["bilinear"] = (
        lambda p: (
            F.interpolate(p, scale_factor=2, mode="bilinear"),
            F.interpolate(p, size=(7, 3), mode="bilinear"),
            F.interpolate(p, size=(7, 9), mode="bilinear", align_corners=True),
        ),
        (normal(1, 2, 4, 5),),
    )
    found["bicubic"] = lambda p: F.interpolate(p, size=(9, 11), mode="bicubic"), (normal(1, 2, 4, 5),)
    found["linear_upsample"] = lambda p: F.interpolate(p, scale_factor=3, mode="linear"), (normal(1, 2, 5),)
    found["unfolds"] = lambda p: (F.unfold(p, (2, 3), padding=1, stride=2), p.unfold(2, 3, 2)), (normal(1, 2, 6, 7),)
    # --- indexing
    at = torch.tensor([[2, 0], [1, 3]])
    t = normal(4, 5, 3)
    found["gathers"] = (
        lambda p, i: (p[i], p[:, i], p.index_select(1, i[0]), p[i, i], p[:, i, i[0] % 3], F.embedding(i, p[0])),
        (
            t,
            at,
        ),
    )
    found["indexed_apart"] = lambda p, i: (p[i[0], :, i[1] % 3], p[-i - 1]), (t, at)
    found["gather"] = lambda p, i: torch.gather(p, 1, i), (normal(3, 5), torch.tensor([[1, 4], [0, 2]]))
    found["scatters"] = (
        lambda p, i, q: (
            p.scatter(1, i, q),
            p.scatter(1, i, 2.5),
            p.scatter_add(1, i, q),
            p.scatter_reduce(1, i, q, "amax"),
        ),
        (normal(3, 5), torch.tensor([[1, 4], [0, 2], [3, 1]]), normal(3, 2)),
    )
    found["one_hot"] = lambda i: F.one_hot(i, 6).float(), (at,)
    found["tied"] = Tied(), (torch.tensor([[1, 2, 3, 4, 5], [0, 5, 2, 3, 1]]),)
    # --- attention
    q, k, v = (normal(2, n, 16) for n in (5, 7, 7))
    found["attention"] = attention, (q, k, v)
    found["attention_causal"] = lambda p: F.scaled_dot_product_attention(p, p, p, is_causal=True), (normal(1, 2, 6, 8),)
    found["attention_masked"] = (
        lambda p, m: F.scaled_dot_product_attention(p, p, p, attn_mask=m > -0.5, scale=0.3),
        (
            normal(1, 2, 6, 8),
            torch.rand(6, 6) - 0.4 + torch.eye(6),
        ),
    )
    found["attention_bias"] = (
        lambda p, m: F.scaled_dot_product_attention(p, p, p, attn_mask=m),
        (
            normal(3, 6, 8),
            normal(6, 6),
        ),
    )
    found["attention_grouped"] = (
        lambda p, s: F.scaled_dot_product_attention(p, s, s, enable_gqa=True),
        (
            normal(1, 4, 6, 8),
            normal(1, 2, 6, 8),
        ),
    )
    found["multihead"] = nn.MultiheadAttention(16, 4, batch_first=True).eval(), (normal(2, 5, 16),) * 3
    found["encoder"] = (
        nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True).eval(),
        (normal(2, 5, 16),),
    )
    found["lstm"] = nn.LSTM(4, 5, batch_first=True), (normal(2, 3, 4),)
    found["gru"] = nn.GRU(4, 5), (normal(3, 2, 4),)
    return found | complex_programs() | gathering_programs()


def complex_programs() -> dict[str, Program]:
    """Programs with complex tensors between their nodes."""
    a, b = normal(4, 6), normal(4, 6) + 3

    def rotary(x: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
        turned = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * torch.polar(torch.ones_like(angle), angle)
        return torch.view_as_real(turned).flatten(-2)

    def arithmetic(a: torch.Tensor, b: torch.Tensor) -> Any:
        x, y = torch.complex(a, b), torch.complex(b, a + 1)
        quotients = (x / y).abs(), (a / y).real, (x / b).imag, (1 / y).imag, x.reciprocal().real
        return (*quotients, torch.view_as_real(x * y + x - 2 * y), (x * 2.5 + 1).real, (x * b).imag, (b * x).imag,
                x.exp().real, (x @ y.mT).imag, (x * y.conj()).imag, x.angle(), a.angle(), a.conj())  # fmt: skip

    def moved(a: torch.Tensor, b: torch.Tensor) -> Any:
        x, y = torch.complex(a, b), torch.complex(b, a)
        parts = torch.cat([x, y]), x[:, 1:4], x.mT.reshape(8, 3), torch.where(a > 0, x, y), x.sum(0), x.to(a.dtype)
        return tuple(p.imag if p.is_complex() else p for p in (*parts, *x.split(2, 1), F.pad(x, (1, 0)), a + 0 * x))

    def transforms(a: torch.Tensor) -> Any:
        fft = torch.fft
        return (fft.irfft2(fft.rfft2(a) * 2, s=a.shape[-2:]), fft.fft(a).abs(), fft.ifftn(fft.fftn(a) * (1 + a)).imag,
                fft.ifft(a, norm="ortho").real, fft.rfft(a, dim=1, norm="forward").imag,
                torch.stft(a.flatten(), 16, 4, window=torch.hann_window(16), return_complex=True).abs())  # fmt: skip

    class Weighed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(6, 4, dtype=torch.complex64).t())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.view_as_real(x * self.weight)

    return {
        "complex_rotary": (rotary, (normal(2, 3, 8), normal(3, 4))),
        "complex_arithmetic": (arithmetic, (a, b)),
        "complex_moved": (moved, (a, b)),
        "complex_transforms": (transforms, (normal(3, 6, 9),)),
        "complex_weight": (Weighed(), (a,)),
    }


class Bags(nn.Module):
    """Tables whose rows are summed, averaged, or their greatest, in bags of any length and of the same."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(9, 4, mode=mode, padding_idx=p)
                                    for mode in ("sum", "mean", "max") for p in (None, 3))  # fmt: skip
        self.ended = nn.EmbeddingBag(9, 4, mode="sum", include_last_offset=True)

    def forward(
        self, ids: torch.Tensor, offsets: torch.Tensor, rows: torch.Tensor, weights: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        found = [table(ids, offsets) for table in self.tables] + [table(rows) for table in self.tables]
        ends = torch.cat([offsets, torch.tensor([12])])
        return (*found, self.ended(ids, ends), self.tables[0](ids, offsets, weights))


def gathering_programs() -> dict[str, Program]:
    """Programs that reduce at places and sample at places, both data."""
    ids = torch.tensor([1, 3, 8, 0, 3, 3, 5, 2, 7, 7, 3, 4])
    at, x = torch.tensor([[0, 2, 2], [4, 2, 0]]), normal(5, 3)

    def reduced(x: torch.Tensor, at: torch.Tensor, y: torch.Tensor, n: torch.Tensor) -> Any:
        words = ("sum", "prod", "mean", "amax", "amin")
        found = [x.scatter_reduce(0, at, y, word, include_self=own) for word in words for own in (True, False)]
        return *found, n.scatter_reduce(0, at[0], n[:3], "amax", include_self=False)

    def masked(x: torch.Tensor, mask: torch.Tensor, row: torch.Tensor) -> Any:
        y, z = x.clone(), x.clone()
        y[mask] = 7.0
        z[mask[:, 0]] = row
        return y, z, x.index_put((mask,), torch.tensor(1.5), accumulate=True)

    def sampled(x: torch.Tensor, grid: torch.Tensor, solid: torch.Tensor, places: torch.Tensor) -> Any:
        modes = [(mode, padding) for mode in ("bilinear", "nearest", "bicubic")
                 for padding in ("zeros", "border", "reflection")]  # fmt: skip
        found = [F.grid_sample(x, grid, mode, padding, align_corners=True) for mode, padding in modes]
        found += [F.grid_sample(x, grid, mode, padding, align_corners=False) for mode, padding in modes]
        return *found, F.grid_sample(solid, places, align_corners=False)

    pairs = lambda x: (x[torch.tril_indices(5, 3, -1)[0]], torch.triu_indices(3, 4) * 2)  # noqa: E731
    return {
        "bags": (Bags(), (ids, torch.tensor([0, 3, 3, 4]), ids.view(4, 3), normal(12))),
        "scatter_reduced": (reduced, (x, at, normal(2, 3), whole(6))),
        "masked_put": (masked, (x, x > 0.2, normal(3))),
        "grid_sampled": (sampled, (normal(2, 3, 5, 4), torch.rand(2, 4, 3, 2) * 2.6 - 1.3, normal(1, 2, 3, 4, 5),
                                   torch.rand(1, 2, 3, 2, 3) * 2.4 - 1.2)),
        "triangle_places": (pairs, (x,)),
    }  # fmt: skip


def dynamic_programs() -> dict[str, tuple[Any, tuple[Any, ...], Any]]:
    """Programs with open sizes, and which these are."""
    batch, length = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("length", min=2, max=512)

    def causal(p: torch.Tensor) -> torch.Tensor:
        n = p.shape[1]
        mask = torch.arange(n)[:, None] >= torch.arange(n)[None]
        return (p @ p.transpose(1, 2)).masked_fill(~mask, float("-inf")).softmax(-1) @ p

    return {
        "open_mlp": (Mlp(), (normal(3, 4, 6),), ({0: batch},)),
        "open_attention": (Wrapped(causal), (normal(2, 5, 8),), ({0: batch, 1: length},)),
        "open_conv": (nn.Conv2d(3, 4, 3, padding=1), (normal(2, 3, 8, 8),), ({0: batch},)),
        "open_flat": (Wrapped(lambda p: p.reshape(p.shape[0] * 2, -1).sum(1)), (normal(3, 4, 6),), ({0: batch},)),
        "open_cat": (Wrapped(lambda p: torch.cat([p, p[:, :1]], 1) * p.shape[1]), (normal(2, 5),), ({1: length},)),
    }


def made_of(module: nn.Module, inputs: tuple[Any, ...], dynamic: Any) -> Files:
    """A program with its inputs and results; its norms have running means and variances other than 0 and 1."""
    module = module.eval()
    for own in module.buffers():
        if own.dtype.is_floating_point and own.ndim:
            own.data.copy_(torch.rand_like(own) + 0.5)
    shapes = None if dynamic is None else {"inputs": dynamic} if isinstance(module, Wrapped) else dynamic
    archives = archives_of(torch.export.export(module, inputs, dynamic_shapes=shapes))
    arrays = {f"i{n}": outputs_of(v)[0] for n, v in enumerate(inputs)}
    arrays |= {f"o{n}": v for n, v in enumerate(outputs_of(module(*inputs)))}
    return {"npz": packed(arrays), **archives}


def every_program() -> Iterator[tuple[str, Callable[[], Files]]]:
    """All of them, in the order in which they are made."""
    given: dict[str, tuple[Any, tuple[Any, ...], Any]] = {
        name: (f if isinstance(f, nn.Module) else Wrapped(f), inputs, None) for name, (f, inputs) in programs().items()
    }
    for name, item in (given | dynamic_programs()).items():
        yield name, lambda item=item: made_of(*item)


if __name__ == "__main__":
    write(__doc__, "archives.tar.xz", every_program)
