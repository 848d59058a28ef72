"""Archives of ops that are made of others, with torch's own results, which `test_pt2` imports and plays.

    python tests/pt2/make_composed.py [--out tests/pt2/composed.tar.xz] [--only NAME,...]    needs torch 2.11 or later

As `make.py`. What is of floats is there in fp32, fp16 and bf16, each a third of the outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import functional as F

try:
    from .making import Files, Wrapped, archive_of, archives_of, distinct, normal, outputs_of, packed, whole, write
except ImportError:
    from making import Files, Wrapped, archive_of, archives_of, distinct, normal, outputs_of, packed, whole, write

NAN, INF = math.nan, math.inf
Program = tuple[Callable[..., Any], tuple[Any, ...]]
aten = torch.ops.aten


def of_floats(run: Callable[..., Any]) -> Callable[..., Any]:
    """The same in three dtypes."""

    def runs(*given: Any) -> Any:
        found = []
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            found += run(*(x.to(dtype) if x.is_floating_point() else x for x in given))
        return found

    return runs


def unlike(*shape: int) -> torch.Tensor:
    """Numbers that stay apart when they are rounded."""
    return distinct(*shape) / 4


def programs() -> dict[str, Program]:
    """The programs by name."""
    found: dict[str, Program] = {}
    x, y, z = normal(3, 4), normal(3, 4), normal(2, 3, 4)
    odd = torch.tensor([[0.0, -0.0, NAN, INF], [-INF, 1.0, -2.5, 0.5]])
    other = torch.tensor([[0.0, 1.0, 0.0, INF], [2.0, NAN, -INF, 0.5]])
    shares = torch.rand(3, 4) * 0.8 + 0.1
    found["of_numbers"] = (
        of_floats(
            lambda a, b: (
                torch.fmax(a, b),
                torch.fmin(a, b),
                a.nan_to_num(),
                a.isposinf(),
                a.nan_to_num(1.0, 2.0, -3.0),
                a.isneginf(),
                torch.isreal(a),
                torch.nansum(a[0]),
                a.nanmean(1),
                torch.isclose(a, b),
                torch.isclose(a, a, equal_nan=True),
                torch.heaviside(a, b),
            )
        ),
        (odd, other),
    )
    found["logs"] = (
        of_floats(
            lambda a, b, p: (
                torch.logaddexp(a, b),
                torch.logaddexp2(a, b),
                torch.xlogy(a, p),
                torch.special.entr(p),
                torch.logit(p),
                torch.logit(p, 0.2),
                torch.special.xlog1py(a, p),
                torch.sinc(a),
                torch.special.expit(a),
                torch.xlogy(a, 2.0),
                torch.hypot(a, b),
            )
        ),
        (x, y, shares),
    )
    found["odd_logs"] = (
        of_floats(
            lambda a, b: (
                torch.logaddexp(a, b),
                torch.xlogy(b, a.abs()),
                torch.special.entr(a),
                torch.sinc(a.nan_to_num()),
                torch.hypot(b, b),
            )
        ),
        (odd, other),
    )
    found["pieces"] = (
        of_floats(
            lambda a, b: (
                torch.frac(a),
                F.glu(a),
                F.glu(a, 0),
                F.hardshrink(a, 0.3),
                torch.deg2rad(a),
                F.softshrink(a, 0.3),
                F.threshold(a, 0.1, -2.0),
                torch.addcdiv(a, b, b.abs() + 1, value=0.5),
                torch.rad2deg(a),
                torch.ldexp(a, torch.tensor(3)),
                torch.rsub(a, b),
                torch.clip(a, b, None),
                F.hardshrink(a / 0),
            )
        ),
        (normal(4, 4), normal(4, 4)),
    )
    found["rounded"] = (
        lambda a: (
            a.round(decimals=2),
            (100 * a).round(decimals=-1),
            a.float_power(2),
            a.view(torch.int32),
            torch.float_power(2, a),
        ),
        (x,),
    )
    found["other_names"] = (
        lambda a, b: (
            torch.absolute(a),
            torch.subtract(a, b, alpha=2),
            torch.multiply(a, b),
            a.ravel(),
            torch.divide(a, b, rounding_mode="floor"),
            torch.greater(a, b),
            torch.less_equal(a, 0.1),
            torch.negative(a),
            torch.not_equal(a, b),
            torch.fix(3 * a),
            torch.arctan(a),
            torch.max(a, b),
            torch.min(a, b),
            a.swapdims(0, 1),
            torch.moveaxis(a, 0, 1),
            torch.true_divide(a, 3),
            torch.special.softmax(a, 1),
            a.clip(-0.5, 0.5),
            a.adjoint(),
            torch.unsafe_chunk(a, 2)[0],
            torch.unsafe_split(a, 2)[1],
            aten.transpose_copy.int(a, 0, 1),
        ),
        (x, y),
    )
    found["written_by_other_names"] = lambda a, b: (a.clone().subtract_(b), a.clone().clip_(-0.1, 0.1)), (x, y)
    found["among"] = (
        lambda a, b: (
            torch.isin(a, b),
            torch.isin(a, b, invert=True),
            torch.isin(a, 3),
            torch.bucketize(2, b),
            torch.searchsorted(b, 3),
            5 % a.abs().clamp(1),
            5 & a,
        ),
        (whole(3, 4), torch.tensor([-3, 0, 1, 2, 7])),
    )
    # --- reductions
    found["counts"] = (
        lambda a, b: (
            a.count_nonzero(),
            a.count_nonzero(1),
            b.count_nonzero((0, -1)),
            *torch.aminmax(a),
            *torch.aminmax(b, dim=1, keepdim=True),
        ),
        (whole(3, 4, low=0, high=2), z),
    )
    found["sums_of_powers"] = (
        of_floats(
            lambda a: (
                a.logsumexp(1),
                a.logsumexp((0, -1), keepdim=True),
                (10 * a).logsumexp(-1),
                *torch.std_mean(a, 1),
                *torch.var_mean(a),
                *torch.std_mean(a, (0, 1), correction=0),
            )
        ),
        (z,),
    )
    found["odd_sums_of_powers"] = (
        lambda a: (
            a.logsumexp(0),
            a[:1, 2:].logsumexp(1),
            a.new_zeros(2, 0).logsumexp(1),
            torch.full((2, 2), -INF).logsumexp(0) + a[1, 1],
        ),
        (odd,),
    )
    found["more_norms"] = (
        of_floats(
            lambda a, b: (
                a.norm(),
                a.norm(3),
                torch.linalg.norm(a, dim=1),
                torch.linalg.norm(a),
                torch.linalg.norm(a[0], "fro"),
                torch.linalg.norm(a[0], 1),
                torch.linalg.matrix_norm(a, INF),
                torch.dist(a, b, 2),
                torch.linalg.matrix_norm(a, -1, keepdim=True),
                F.pairwise_distance(a, b),
                F.cosine_similarity(a, b, 1),
                F.pairwise_distance(a, b, p=1.0, keepdim=True),
                F.cosine_similarity(a, b[:, :1], -1),
            )
        ),
        (z, normal(2, 3, 4)),
    )
    # --- orders
    numbers = unlike(3, 5)
    gaps = unlike(3, 5)
    gaps[0, 2] = gaps[2, :2] = NAN
    found["medians"] = (
        of_floats(
            lambda a: (
                a.median(),
                *a.median(1),
                *a.median(0, keepdim=True),
                *a.kthvalue(2),
                *a.kthvalue(3, 0, keepdim=True),
                a.msort(),
                a.nanmedian(),
                *a[0, 0].median(0),
            )
        ),
        (numbers,),
    )
    found["medians_of_integers"] = (
        lambda a: (a.median(), *a.median(1), *a.kthvalue(4, -1), a.msort()),
        (torch.randperm(15).reshape(3, 5),),
    )
    found["medians_with_gaps"] = (
        lambda a: (a.median(), *a.median(1), a.nanmedian(), *a.nanmedian(1), a.nanmedian(0)[0]),
        (gaps,),
    )
    found["quantiles"] = (
        lambda a, q: (
            a.quantile(0.3),
            a.quantile(q, 1),
            a.quantile(q, 0, keepdim=True),
            a.quantile(q, 1, interpolation="lower"),
            a.quantile(q, 1, interpolation="nearest"),
            a.quantile(0.4, 1, interpolation="midpoint"),
        ),
        (numbers, torch.tensor([0.0, 0.25, 0.6, 1.0])),
    )
    found["quantiles_with_gaps"] = (
        lambda a, q: (a.quantile(q, 1), a.nanquantile(q, 1), a.nanquantile(0.5)),
        (gaps, torch.tensor([0.25, 0.6])),
    )
    same = torch.tensor([[1.0, 3, 2, 3, 0], [NAN, 1, 2, NAN, 3], [-1, -1, 0, 0, -2]])
    found["running_extremes"] = of_floats(lambda a: (*a.cummax(1), *a.cummin(1), *a.cummax(0), *a.cummin(-2))), (same,)
    found["running_extremes_of_integers"] = lambda a: (*a.cummax(0), *a.cummin(1), (a > 0).cummax(1)[0]), (whole(4, 5),)
    found["areas"] = (
        of_floats(
            lambda a, p: (
                torch.trapezoid(a),
                torch.trapz(a, dx=0.5, dim=1),
                torch.trapezoid(a, p),
                torch.trapezoid(a, a * a, dim=0),
            )
        ),
        (z, torch.tensor([0.0, 1, 3, 4])),
    )
    # --- matrices
    found["diagonals"] = (
        lambda a, b, c: (
            torch.trace(a),
            torch.trace(c),
            torch.diag(a),
            torch.diag(a, -1),
            torch.diag(b, 2),
            torch.diag_embed(a),
            torch.diag_embed(a, -1, 0, 2),
            torch.diag_embed(a, 1, 2, 0),
            torch.diagflat(a, 1),
            torch.linalg.diagonal(a, offset=1),
            torch.block_diag(a, b, c[:2] * 0.5),
        ),
        (normal(3, 4), normal(3), whole(4, 3)),
    )
    found["products"] = (
        lambda a, b, c: (
            torch.inner(a, b),
            torch.kron(a, b[0]),
            torch.tensordot(a, c, ([1], [2])),
            torch.tensordot(c, c, 2 * [[0, 2]]),
            torch.linalg.vecdot(a, b),
            torch.linalg.cross(a[:, :3], b[:, :3]),
            torch.cross(c.mT, c.mT + 1),
            torch.linalg.matrix_power(c[:, :2, :2], 3),
            torch.vdot(a[0], b[0]),
            torch.linalg.matmul(a, b.mT),
            torch.ger(a[0], b[1]),
            torch.linalg.matrix_power(c[:, :2, :2], 0),
            torch.addr(c[0, :, :3], a[:3, 0], b[:, 1]),
            torch.addbmm(c[0, :, :3], c, c.mT),
        ),
        (x, y, z),
    )
    # --- places
    found["stacks"] = (
        lambda a, b, c: (
            torch.hstack([a, b]),
            torch.vstack([a, b]),
            torch.dstack([a, b]),
            torch.hstack([c, c]),
            torch.column_stack([c, a.t()]),
            torch.atleast_3d(a),
            torch.atleast_2d(c),
            *torch.atleast_1d(c[0], c),
            torch.vstack([c, c]),
            torch.atleast_3d(c),
        ),
        (x, y, normal(4)),
    )
    found["parts"] = lambda a: (*a.hsplit(2), *a.vsplit([1]), *a[None].dsplit(2), *a.tensor_split([1, 3], 1)), (x,)
    found["spread"] = (
        lambda a, b: (
            *torch.meshgrid(a, b, indexing="ij"),
            *torch.meshgrid(a, b, indexing="xy"),
            *torch.broadcast_tensors(a[:, None], b),
            (a[:, None] + b).sum_to_size(1, 4),
            torch.ones(2, 3, 4).sum_to_size(3, 1),
        ),
        (normal(3), normal(4)),
    )
    found["turned"] = (
        lambda a: (
            a.fliplr(),
            a.flipud(),
            a.rot90(),
            a.rot90(2, (1, 2)),
            a.rot90(-1, (2, 0)),
            F.channel_shuffle(a.reshape(1, 6, 2, 2), 3),
            F.channel_shuffle(a[:, :2], 2),
        ),
        (normal(2, 4, 3),),
    )
    found["filled_places"] = (
        lambda a, at: (
            a.index_fill(1, at, 7.0),
            a.take(at),
            a.index_fill(0, at[:1], a[0, 0]),
            a.masked_scatter(a > 0, a + 10),
        ),
        (x, torch.tensor([2, 0])),
    )
    theta = normal(2, 2, 3)
    found["affine_grids"] = (
        lambda a, b: (
            F.affine_grid(a, [2, 3, 4, 5]),
            F.affine_grid(a, [2, 1, 3, 1], align_corners=True),
            F.affine_grid(b, [1, 1, 2, 3, 4]),
        ),
        (theta, normal(1, 3, 4)),
    )
    # --- losses
    classes = torch.tensor([1, 3, -100])
    for name, how in (("mean", "mean"), ("sum", "sum"), ("each", "none")):
        found[f"losses_{name}"] = (
            of_floats(
                lambda a, b, p, q, how=how: (
                    F.mse_loss(a, b, reduction=how),
                    F.l1_loss(a, b, reduction=how),
                    F.smooth_l1_loss(a, b, reduction=how, beta=0.5),
                    F.huber_loss(a, b, reduction=how, delta=0.7),
                    F.binary_cross_entropy(p, q, reduction=how),
                    F.binary_cross_entropy_with_logits(a, p, reduction=how, pos_weight=q[0]),
                )
            ),
            (x, y, shares, torch.rand(3, 4)),
        )
        found[f"divergences_{name}"] = (
            lambda a, b, p, how=how: (F.kl_div(a, p, reduction=how), F.kl_div(a, b, reduction=how, log_target=True)),
            (x, y, shares),
        )
        found[f"likelihoods_{name}"] = (
            lambda a, c, w, p, m, how=how: (
                F.cross_entropy(a, c, reduction=how),
                F.cross_entropy(a, c, w, reduction=how, label_smoothing=0.1),
                F.nll_loss(a, c, w, reduction=how),
                F.cross_entropy(a, p, reduction=how, label_smoothing=0.2),
                F.cross_entropy(m, c[None] % 3, reduction=how),
                F.nll_loss(m[..., None], c[None, :, None] % 3, reduction=how, ignore_index=0),
            ),
            (x, classes, torch.rand(4), shares, normal(1, 4, 3)),
        )
    # --- spectra
    found["transforms"] = (
        lambda a: (
            torch.view_as_real(torch.fft.fft(a)),
            torch.fft.rfft(a, 5).abs(),
            torch.fft.fft2(a).real,
            torch.fft.irfft(torch.fft.rfft(a, dim=1), 3, dim=1),
            torch.fft.ifft(torch.fft.fft(a, norm="ortho"), norm="ortho").real,
            torch.fft.fftn(a).imag,
            torch.fft.irfft2(torch.fft.rfft2(a)),
            torch.fft.fftshift(a),
            torch.fft.ifftshift(a, 1),
            torch.fft.ifftn(torch.fft.fftshift(torch.fft.fftn(a, dim=(0, 2)), 2), norm="forward").real,
            torch.fft.fftfreq(5) * a[0, 0, 0],
            torch.fft.irfftn(torch.fft.rfftn(a, (4, 6), norm="forward"), (4, 6), norm="forward"),
        ),
        (z,),
    )
    found["windows_of_spectra"] = (
        lambda a: tuple(
            a[:9] * w(n, periodic=p)
            for w in (
                torch.hann_window,
                torch.hamming_window,
                torch.blackman_window,
                torch.bartlett_window,
                torch.kaiser_window,
            )
            for n, p in ((9, True), (9, False))
        ),
        (normal(9),),
    )
    # --- what shares memory
    found["views_that_are_written_to"] = views_written, (x, normal(4), normal(3, 2))
    found["wholes_that_are_written_to"] = wholes_written, (x,)
    # --- modes of torch
    found["modes"] = Modes(), (x, normal(4, 5))
    found["short_transforms"] = (
        lambda a, w: (
            torch.stft(a, 8, 3, window=w, return_complex=True).abs(),
            torch.view_as_real(
                torch.stft(a[0], 10, 4, 8, w, center=False, normalized=True, onesided=False, return_complex=True)
            ),
        ),
        (normal(2, 30), torch.rand(8)),
    )
    # --- functions of probability, signs, and losses of labels
    points = torch.tensor([-INF, -9.5, -3.0, -0.5, -0.0, 0.0, 0.25, 1.0, 1.5, 2.0, 5.0, 12.0, INF, NAN])
    found["of_probability"] = (
        lambda a, p: (
            *(f(v) for v in (a, a.double()) for f in (torch.erfc, torch.special.erfcx, torch.special.ndtr)),
            *(f(v) for v in (a, a.double()) for f in (torch.special.log_ndtr, torch.lgamma, torch.digamma)),
            *(f(v) for v in (p, p.double(), a) for f in (torch.erfinv, torch.special.ndtri)),
        ),
        (points, torch.tensor([-1.0, -0.9999999, -0.3, 0.0, 1e-20, 1e-6, 0.1, 0.5, 0.75, 0.9999999, 1.0])),
    )
    edges = torch.tensor([-INF, -3.5, -1.0, -0.0, 0.0, 0.5, 2.0, INF, NAN])
    sides = edges[:, None].expand(9, 9).contiguous(), edges.expand(9, 9).contiguous()
    found["signs"] = (
        of_floats(
            lambda a, b: (
                a.nan_to_num().signbit(),
                torch.copysign(a, b.nan_to_num()),
                torch.copysign(a, -2.0),
                torch.atan2(a, b),
                a // b,
                a // -1.5,
                torch.div(a, b, rounding_mode="floor"),
                torch.nn.functional.rrelu(a),
            )
        ),
        sides,
    )
    found["no_floats"] = (
        lambda a, i, t: (
            torch.nextafter(*sides),
            i.signbit(),
            i.isinf(),
            i.isfinite(),
            t.isfinite(),
            t.square(),
            torch.copysign(i, -i),
            torch.addr(t[:, :2], t[0], t[1, :2]),
            torch.addr(t[:, :2], t[0], t[1, :2], beta=0),
            a * torch.logspace(0, 1, 4),
        ),
        (x, whole(3, 4), torch.rand(3, 3) > 0.5),
    )
    labels, classes = torch.tensor([1.0, -1.0, 1.0]), torch.tensor([3, 0, 2])
    found["losses_of_labels"] = (
        lambda a, b, s, w: tuple(
            loss
            for how in ("none", "mean", "sum")
            for loss in (
                F.cosine_embedding_loss(a, b, labels, 0.2, reduction=how),
                F.hinge_embedding_loss(a, labels[:, None], 0.7, reduction=how),
                F.margin_ranking_loss(a, b, labels[:, None], 0.1, reduction=how),
                F.soft_margin_loss(a, labels[:, None].expand(3, 4), reduction=how),
                F.multi_margin_loss(a, classes, reduction=how),
                F.multi_margin_loss(a, classes, 2, 0.5, w, reduction=how),
                F.poisson_nll_loss(a, s * 4, full=True, reduction=how),
                F.poisson_nll_loss(s, s * 4, log_input=False, reduction=how),
                F.triplet_margin_loss(a, b, s, swap=True, reduction=how),
            )
        ),
        (x, y, shares, torch.rand(4)),
    )
    # --- places, scans and pairs
    found["put_at_places"] = (
        lambda a, b, m, r: (
            *(a.index_reduce(0, torch.tensor([0, 2, 0]), b, word, include_self=own)
              for word in ("mean", "prod", "amax", "amin") for own in (True, False)),
            a.put(torch.tensor([1, -1]), b[0, :2]),
            a.put(torch.tensor([[1, 5], [1, 0]]), b[:2, :2], accumulate=True),
            torch.diagonal_scatter(a, b[0, :3]),
            torch.diagonal_scatter(b, a[0, :3], 1),
            torch.diagonal_scatter(b.t(), a[0, :2], -2),
            torch.diagonal_scatter(a.reshape(2, 2, 3), b[:2, :2], 1, 0, 2).abs(),
            a.index_put((m,), b[:2]),
            a.index_put((m,), b[:2] + 1, accumulate=True),
            torch.repeat_interleave(a, r, 0, output_size=5),
            torch.repeat_interleave(r, output_size=5),
            torch.searchsorted(r, r, sorter=r.argsort()),
            F.max_unpool2d(*F.max_pool2d(b[None, None], 2, stride=1, return_indices=True), 2, 1),
        ),
        (x, y, torch.tensor([True, False, True]), torch.tensor([2, 0, 3])),
    )  # fmt: skip
    found["so_far"] = (
        of_floats(
            lambda a, e, i: (
                a.logcumsumexp(1),
                e.logcumsumexp(0),
                torch.cumulative_trapezoid(a, dx=0.5),
                torch.cumulative_trapezoid(a, a.abs().cumsum(1)),
                *torch.mode(i.to(a.dtype), 1),
                *torch.mode(i, 0, keepdim=True),
                *(torch.renorm(a, p, axis, 1.0) for p, axis in ((2, 0), (1, 1), (INF, 0))),
            )
        ),
        (x, torch.tensor([-INF, -INF, 1.0, -300.0, 100.0, 2.0, INF, 3.0, NAN, 1.0]), whole(5, 7, low=0, high=3)),
    )
    found["pairs"] = (
        lambda a, b, c, w: (
            torch.linalg.multi_dot([a, b.t(), a]),
            torch.chain_matmul(a, b.t()),
            torch.vander(c),
            torch.linalg.vander(a, N=3),
            F.bilinear(a, b, w, c[:2]),
            *(F.pdist(a, p) for p in (2, 1)),
            torch.cartesian_prod(c, c[:2]),
            torch.cartesian_prod(c),
        ),
        (x, y, normal(3), normal(2, 4, 4)),
    )
    found["short_transforms_back"] = (
        lambda a, b, w: (
            torch.istft(torch.complex(a, b), 8, 2, 8, w),
            torch.istft(torch.complex(a[0], b[0]), 8, 2, 6, w[:6], normalized=True, length=14),
        ),
        (normal(2, 5, 9), normal(2, 5, 9), torch.rand(8) + 0.5),
    )
    found["smoothed_images"] = (
        lambda a, w, b: (
            *(F.interpolate(a, size, mode=mode, antialias=True)
              for mode in ("bilinear", "bicubic") for size in ((3, 5), (9, 4))),
            F.interpolate(a, scale_factor=0.6, mode="bilinear", antialias=True),
            F.avg_pool2d(a, 3, 2, 1, divisor_override=5),
            *F.adaptive_max_pool2d(a, (4, 3), return_indices=True),
            *F.adaptive_max_pool2d(a.round(), (1, 2), return_indices=True),
            F.adaptive_max_pool1d(a[0, 0], 3),
            torch.conv_tbc(a[0].permute(1, 2, 0), w, b, 1),
        ),
        (normal(2, 3, 6, 8), normal(3, 3, 4), normal(4)),
    )  # fmt: skip
    found["complex_sums"] = complex_sums, (normal(3, 4, 2), normal(3, 4, 2))
    found["casts_written"] = casts_written, (x, y)
    # --- recurrent cells
    cells = torch.nn.LSTMCell(4, 5), torch.nn.GRUCell(4, 5), torch.nn.RNNCell(4, 5, bias=False)
    found["cells"] = Cells(*cells), (x, normal(3, 5))
    return found


def views_written(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> Any:
    """To parts of parts, in steps, turned, and twice."""
    d = torch.zeros(3, 4)
    first, second = d[0], d.t()
    first.copy_(b)
    d[:, 1::2] = c
    d[-1, 2:].mul_(3)
    e = a.clone()
    e.unsqueeze(0).permute(2, 0, 1)[3, 0, 1:] += 5
    for row in e.unbind(0):
        row.sub_(row.mean())
    low, high = e.split([1, 3], 1)
    high[:, ::2].fill_(2)
    low.clamp_(min=0)
    f = a.exp()
    f.view(2, 6)[1, 1:5].zero_()
    f.narrow(0, 1, 2).movedim(0, 1)[0].add_(1)
    f.chunk(2, 1)[1][0].neg_()
    return d, first + 1, second * 2, e, high.sum(), f, f.flatten()


def complex_sums(a: torch.Tensor, b: torch.Tensor) -> Any:
    """Of complex tensors sums of products, squares, and what is filled like them."""
    c, d = (torch.view_as_complex(x) for x in (a, b))
    found = [torch.einsum("ij,kj->ik", c, d), torch.einsum("ij->ji", c), torch.einsum("ij,kj->ki", a[..., 0] * 1j, d)]
    found += [torch.exp(2j * a[..., 1] + 1), complex_written(c, d), c.square(), c**2, torch.zeros_like(c) + d]
    found += [torch.full_like(c, 2.0) * d, c.new_ones(3, 4) - d, c.masked_fill(a[..., 0] > 0, 1.5), c.diagonal()]
    return [torch.view_as_real(v) for v in (*found, c[0].expand_as(d), c.repeat_interleave(2, 1))]


def complex_written(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """To parts of a complex tensor."""
    c = torch.zeros_like(a)
    c[:, :2] = b[:, 1:3]
    c[1:, 3].mul_(a[1:, 0]).add_(2)
    return c


def casts_written(a: torch.Tensor, b: torch.Tensor) -> Any:
    """To a part of what a cast gave, which is its operand where the dtype is the same."""
    c = a + b
    same, other, copied = c.type_as(b), c.double(), c.to(b.dtype, copy=True)
    same[1:] += 1
    c.to(torch.float32)[0].zero_()
    return c, same * 2, other, copied


def wholes_written(a: torch.Tensor) -> Any:
    """A view that is read after its whole was written to."""
    d = a * 2
    row, turned, wide = d[1], d.t()[2:], d[:, :1].expand(3, 5)
    before = row.clone()
    d.relu_()
    after = row + 0
    turned[0].add_(1)
    return before, after, row * 1, turned, wide + 1, d


class Modes(torch.nn.Module):
    """Without gradients, without autocast, and with it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(4, 5), torch.nn.LayerNorm(5)

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            product = self.linear(x)
            found = self.norm(product), torch.softmax(product @ w.t(), -1), product + x[:, :1], x
            with torch.autocast("cpu", enabled=False):
                own = product.float() @ w.t()
        with torch.set_grad_enabled(not torch.is_grad_enabled()):
            angle = (x * 2).cos()
        return product, *found, own, angle * x, angle


class Cells(torch.nn.Module):
    """One step of each kind."""

    def __init__(self, *cells: torch.nn.Module):
        super().__init__()
        self.cells = torch.nn.ModuleList(cells)

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> Any:
        lstm, gru, plain = self.cells
        return *lstm(x, (state, state * 2)), gru(x, state), plain(x, state)


def made() -> Iterator[tuple[str, Callable[[], Files]]]:
    """The files of each program."""
    for name, (run, inputs) in programs().items():
        yield name, lambda run=run, inputs=inputs: files_of(run, inputs)


def files_of(run: Callable[..., Any], inputs: tuple[Any, ...]) -> Files:
    module = (run if isinstance(run, torch.nn.Module) else Wrapped(run)).eval()
    with torch.no_grad():
        program = torch.export.export(module, inputs)
        wanted = outputs_of(module(*inputs))
    try:
        archives = archives_of(program)
    except AssertionError:  # torch cannot decompose it
        archives = {"pt2": archive_of(program)}
    arrays = {f"i{n}": a for n, a in enumerate(outputs_of(inputs))} | {f"o{n}": a for n, a in enumerate(wanted)}
    return archives | {"npz": packed(arrays)}


if __name__ == "__main__":
    write(__doc__ or "", "composed.tar.xz", made)
