"""The transpose of a convolution: each element of what it reads is spread over a window of what it makes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...ir.expr import ONE, ZERO, Expr
from ...kit.diag import refuse
from ..builder import Builder, Operand, Ref
from .contraction import acc_dtype, tensor
from .table import Attr, Attrs, front_op
from .windows import (
    CONV,
    MOST_AXES,
    Pairs,
    check_channels,
    pads_of,
    per_axis,
    room_for,
    spatial,
    window_sum,
    with_bias,
    with_pads,
)


@front_op(
    "ConvTranspose",
    inputs=(2, 3),
    attrs=[*CONV, Attr("output_padding", "ints", None, low=0), Attr("output_shape", "ints", None, low=1)],
)
def conv_transpose(b: Builder, operands: tuple[Operand, ...], attrs: Attrs) -> Ref:
    """The transpose of Conv's map: weights [C, Co/groups, *K]. `output_padding` is put after each axis; `output_shape`
    settles the padding instead. Along an axis whose window is a multiple of the stride, as many results as the stride
    has are made of each place, by taps of their own; else x is spread apart by `stride`. It is padded by
    what the window reaches less `pad`, and convolved with the mirrored window."""
    x, w = (tensor(o, "ConvTranspose", i) for i, o in enumerate(operands[:2]))
    lead, sizes, axis = spatial(x, "ConvTranspose", attrs.layout)
    if w.rank != x.rank:
        raise refuse("E1012", op="ConvTranspose", tensor=w.called, given=w.type, wanted=x.rank)
    rank, groups, kernel = len(sizes), attrs.groups, w.shape[2:]
    stride, dilation = (per_axis(attrs[a], rank, a) for a in ("stride", "dilation"))
    more = per_axis(attrs.output_padding, rank, "output_padding") if attrs.output_padding is not None else (0,) * rank
    check_channels(x, axis, w.shape[0], w, 0)
    pads = _transposed_pads(attrs, sizes, kernel, stride, dilation, more)
    phases = _phases(kernel, stride, dilation)
    first = 1 if lead == 1 else 2
    for a, s in enumerate(stride):
        if s > 1 and phases[a] == 1:
            x = apart(b, x, first + a, s)
    taps = [k // p for k, p in zip(kernel, phases)]
    reach = [(t - 1) * d for t, d in zip(taps, dilation)]
    ends = [(ZERO - low, extra - high) for (low, high), extra in zip(pads, more)]
    cut = [(low, high - extra) for (low, high), extra in zip(pads, more)]
    made = [(n - 1) * s + k - low - high for n, s, k, (low, high) in zip(sizes, stride, kernel, cut)]
    halves = _halves(phases, cut, made) if groups == 1 and rank <= MOST_AXES else None
    if halves is not None:
        found = _phase_sum(b, x, w, lead, dilation, phases, halves, cut, acc_dtype(b, x, w, attrs.acc_dtype))
        return with_bias(b, found, operands, lead)
    whole = [(_whole(low, p), _whole(high, p)) for p, (low, high) in zip(phases, ends)]
    padded = with_pads(b, x, [(r + low, r + high) for r, (low, high) in zip(reach, whole)], lead)
    if w.shape[0] // groups * groups != w.shape[0]:
        raise refuse("E1018", axis=0, size=w.shape[0], groups=groups)
    merged = _mirrored(b, w, groups, taps, phases)
    acc = acc_dtype(b, x, w, attrs.acc_dtype)
    found = window_sum(b, padded, merged, lead, (1,) * rank, dilation, groups, acc)
    if any(p > 1 for p in phases):
        found = _side_by_side(b, found, lead, w.shape[1] * groups, [Expr.of(p) for p in phases])
        rest = [(e[0] - p * n[0], e[1] - p * n[1]) for p, e, n in zip(phases, ends, whole)]
        found = with_pads(b, found, rest, lead)
    return with_bias(b, found, operands, lead)


def _phases(kernel: Sequence[Expr], stride: Sequence[int], dilation: Sequence[int]) -> list[int]:
    """How many results each place of an axis has a window of its own for: those between it and the next one, where
    they all have as many taps; else 1.

    out[2*i + q] = x[i]*w[q] + x[i - 1]*w[q + 2]        for q in 0..2, 4 taps by steps of 2
    """
    return [
        s if d == 1 and k.constant is not None and k.constant % s == 0 else 1
        for k, s, d in zip(kernel, stride, dilation)
    ]


def _halves(phases: Sequence[int], pads: Pairs, out: Sequence[Expr]) -> list[int] | None:
    """How many windows, one place apart, the results between a place and the next one have: 1 where the padding cuts
    whole steps from the first results, 2 where it cuts half a step more, so that the second half reads one place
    later. None where an axis has neither, a part of a step at its end or nothing, and where none has phases."""
    found = []
    for p, (low, _), size in zip(phases, pads, out):
        rest = low.constant % p if low.constant is not None else -1
        is_whole = all(c % p == 0 for c, _ in size.terms) and (size.constant is None or size.constant > 0)
        if p > 1 and (rest not in (0, p / 2) or not is_whole):
            return None
        found.append(2 if p > 1 and rest else 1)
    return found if any(p > 1 for p in phases) else None


def _phase_sum(
    b: Builder,
    x: Ref,
    w: Ref,
    lead: int,
    dilation: Sequence[int],
    phases: Sequence[int],
    halves: Sequence[int],
    pads: Pairs,
    acc: object,
) -> Ref:
    """The sums of a transposed convolution by phases: what is made between places are axes beside them, a `half` of
    which reads one place later than that before. Weights are [C, Co, *K].

    out[2*i + h] = x[i + h - 1]*w[3 - h] + x[i + h]*w[1 - h]        4 taps by steps of 2, of which half a one is cut
    """
    rank = len(phases)
    outer, inner, late, own = "opqrst"[:rank], "uvwxyz"[:rank], "ABCDEF"[:rank], "GHIJKL"[:rank]
    sizes = x.shape[1:-1] if lead == 1 else x.shape[2:]
    taps = [k // p for k, p in zip(w.shape[2:], phases)]
    counts, ends = [], []
    for a, (size, t, d, p, h, (low, high), k) in enumerate(
        zip(sizes, taps, dilation, phases, halves, pads, w.shape[2:])
    ):
        made = ((size - 1) * p + (k - 1) * d + 1 - low - high) // p
        before, reach = (t - 1) * d - low // p, (t - 1) * d + h
        room_for(a + (1 if lead == 1 else 2), made + reach - 1, reach)
        counts.append(made)
        ends.append((before, made + reach - 1 - size - before))
    padded = with_pads(b, x, ends, lead)
    shape = [x.shape[0], x.shape[-1] if lead == 1 else x.shape[1], *map(Expr.of, halves), *counts, *taps]
    axes = [Expr.of(f"i{n}") for n in range(len(shape))]
    at = [axes[2 + a] + axes[2 + rank + a] + axes[2 + 2 * rank + a] * dilation[a] for a in range(rank)]
    seen = b.view(padded, shape, [axes[0], *at, axes[1]] if lead == 1 else [axes[0], axes[1], *at], part="window")
    dims = [Expr.of(n) for t, p, h in zip(taps, phases, halves) for n in (t, h, p // h)]
    mirrored = b.flip(b.reshape(w, [*w.shape[:2], *dims]), [n for a in range(rank) for n in (2 + 3 * a, 3 + 3 * a)])
    of_taps = "".join(map("".join, zip(inner, late, own)))
    places = f"{late}{outer}{own}m" if lead == 1 else f"{own}m{late}{outer}"
    out = f"n{places}"
    found = b.contract(seen, f"nc{late}{outer}{inner}", mirrored, f"cm{of_taps}", out, acc, ("v", "w"))
    between = "".join(map("".join, zip(outer, late, own)))
    order = f"n{between}m" if lead == 1 else f"nm{between}"
    turned = b.permute(found, [out.index(letter) for letter in order])
    joined = [n * p for n, p in zip(counts, phases)]
    return b.reshape(turned, [x.shape[0], *joined, w.shape[1]] if lead == 1 else [x.shape[0], w.shape[1], *joined])


def _whole(end: Expr, phase: int) -> Expr:
    """How many places more an image has at an end so that there are at least as many results more."""
    return end if phase == 1 else end.ceildiv(phase)


def _mirrored(b: Builder, w: Ref, groups: int, taps: Sequence[Expr], phases: Sequence[int]) -> Ref:
    """Weights [C, Co/groups, *K] as those of a convolution, from the last tap back: [Co*phases, C/groups, *taps]."""
    dims = [n for t, p in zip(taps, phases) for n in ((t, Expr.of(p)) if p > 1 else (t,))]
    at = [3 + a + sum(p > 1 for p in phases[:a]) for a in range(len(taps))]
    cut = b.reshape(w, [*w.shape[:2], *dims]) if len(dims) > len(taps) else w
    mirrored = b.flip(cut, [n - 1 for n in at])
    each = w.shape[0] // groups
    parted = b.reshape(mirrored, [Expr.of(groups), each, w.shape[1], *dims])
    turned = b.permute(parted, [0, 2, *(n for n in range(3, parted.rank) if n not in at), 1, *at])
    return b.reshape(turned, [w.shape[1] * groups * math.prod(phases), each, *taps])


def _side_by_side(b: Builder, x: Ref, lead: int, made: Expr, phases: Sequence[Expr]) -> Ref:
    """Channels [made, *phases] of [N, C, *S] as `made` of images in which the phases of a place are neighbours."""
    rank = len(phases)
    sizes = x.shape[1:-1] if lead == 1 else x.shape[2:]
    own = [made, *phases]
    seen = b.reshape(x, [x.shape[0], *sizes, *own] if lead == 1 else [x.shape[0], *own, *sizes])
    first, channel = (1, rank + 1) if lead == 1 else (rank + 2, 1)
    places = [n for a in range(rank) for n in (first + a, channel + 1 + a)]
    turned = b.permute(seen, [0, *places, channel] if lead == 1 else [0, channel, *places])
    joined = [size * p for size, p in zip(sizes, phases)]
    return b.reshape(turned, [x.shape[0], *joined, made] if lead == 1 else [x.shape[0], made, *joined])


def _transposed_pads(
    attrs: Attrs,
    sizes: Sequence[Expr],
    kernel: Sequence[Expr],
    stride: Sequence[int],
    dilation: Sequence[int],
    more: Sequence[int],
) -> Pairs:
    if attrs.output_shape is None and attrs.auto_pad in ("explicit", "valid"):
        return pads_of(attrs, sizes, kernel, stride, dilation)
    if attrs.output_shape is not None and len(attrs.output_shape) != len(sizes):
        raise refuse("E1101", what="output_shape", given=len(attrs.output_shape), rank=len(sizes))
    found = []
    for axis, (size, k, s, d, extra) in enumerate(zip(sizes, kernel, stride, dilation, more)):
        wanted = Expr.of(attrs.output_shape[axis]) if attrs.output_shape is not None else size * s
        total = (size - 1) * s + extra + (k - 1) * d + 1 - wanted
        if total.constant is None:
            raise refuse(
                "E1015", mode="output_shape" if attrs.output_shape is not None else attrs.auto_pad, axis=axis + 2
            )
        small = total.constant // 2
        pair = (Expr.of(small), Expr.of(total.constant - small))
        found.append(pair if attrs.auto_pad == "same_upper" else pair[::-1])
    return found


def apart(b: Builder, x: Ref, axis: int, step: int) -> Ref:
    """`step - 1` zeros between the elements along `axis`."""
    size = x.shape[axis]
    if step == 1 or size == ZERO:
        return x
    split = b.reshape(x, [*x.shape[: axis + 1], ONE, *x.shape[axis + 1 :]])
    padded = b.pad(split, [(0, step - 1) if a == axis + 1 else (0, 0) for a in range(split.rank)])
    joined = b.reshape(padded, [*x.shape[:axis], size * step, *x.shape[axis + 1 :]])
    return b.pad(joined, [(0, 1 - step) if a == axis else (0, 0) for a in range(x.rank)])
