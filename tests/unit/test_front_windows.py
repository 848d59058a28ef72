"""Windows, attention, indexing and einsum of the front ends against NumPy, written the slow and plain way."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .test_front_families import refused
from .test_front_ops import RNG, close, floats, run

equal = np.testing.assert_array_equal


def conv(x: np.ndarray, w: np.ndarray, stride: Any, pads: Any, dilation: Any, groups: int) -> np.ndarray:
    """Conv of [N, C, *S] in fp64, an output element at a time."""
    rank = w.ndim - 2
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *pads])
    out = [(s - (k - 1) * d - 1) // t + 1 for s, k, d, t in zip(x.shape[2:], w.shape[2:], dilation, stride)]
    y = np.zeros((x.shape[0], w.shape[0], *out))
    per = w.shape[0] // groups
    for place in itertools.product(*map(range, out)):
        window = tuple(
            slice(o * t, o * t + (k - 1) * d + 1, d) for o, t, k, d in zip(place, stride, w.shape[2:], dilation)
        )
        for g in range(groups):
            seen = x[(slice(None), slice(g * w.shape[1], (g + 1) * w.shape[1]), *window)]
            mine = slice(g * per, (g + 1) * per)
            y[(slice(None), mine, *place)] = np.tensordot(
                seen, w[mine].astype(np.float64), (range(1, rank + 2), range(1, rank + 2))
            )
    return y


def last(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


@pytest.mark.parametrize(
    ("shape", "weight", "attrs"),
    [
        ((2, 3, 9), (4, 3, 3), {}),
        ((1, 4, 7, 8), (6, 4, 3, 2), {"stride": [2, 1], "pad": [1, 0], "dilation": [1, 2]}),
        ((2, 4, 6, 5), (6, 2, 3, 3), {"groups": 2, "pad": [1, 2, 0, 1]}),
        ((1, 3, 5, 5), (3, 1, 3, 3), {"groups": 3, "pad": [1], "stride": [2]}),
        ((1, 2, 4, 5, 6), (3, 2, 2, 3, 1), {"pad": [1, 1, 0], "stride": [2, 1, 3]}),
        ((1, 1, 3, 3), (1, 1, 3, 3), {"pad": [0, 0, -1, 1]}),
    ],
)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_conv(shape: Any, weight: Any, attrs: Any, layout: str, dtype: Any) -> None:
    x, w, c = floats(*shape, dtype=dtype), floats(*weight, dtype=dtype), floats(weight[0], dtype=dtype)
    rank = len(shape) - 2
    pad = attrs.get("pad", [0])
    pads = (
        list(zip(pad[:rank], pad[rank:]))
        if len(pad) == 2 * rank > rank
        else [(p, p) for p in (pad * rank if len(pad) == 1 else pad)]
    )
    if any(p < 0 for pair in pads for p in pair):
        wide = np.pad(x, [(0, 0), (0, 0), *[tuple(max(p, 0) for p in pair) for pair in pads]])
        cut = [slice(max(-low, 0), -(-high) if high < 0 else None) for low, high in pads]
        x_seen, pads = wide[(slice(None), slice(None), *cut)], [(0, 0)] * rank
    else:
        x_seen = x
    one = lambda v: list(v) * rank if len(v) == 1 else list(v)  # noqa: E731
    wanted = conv(
        x_seen, w, one(attrs.get("stride", [1])), pads, one(attrs.get("dilation", [1])), attrs.get("groups", 1)
    ) + c.astype(np.float64).reshape(-1, *[1] * rank)
    given = run("Conv", {"x": last(x) if layout == "NHWC" else x, "w": w, "c": c}, layout=layout, **attrs)
    assert given.dtype == np.float32
    close(np.moveaxis(given, -1, 1) if layout == "NHWC" else given, wanted, 1e-4)


def test_conv_pads_to_the_same_size_with_dilation_and_stride() -> None:
    w = np.array([[[1, 10, 100]]], np.float32)
    x = np.arange(1, 8, dtype=np.float32).reshape(1, 1, 7)
    equal(run("Conv", {"x": x, "w": w}, dilation=[2], auto_pad="same_upper")[0, 0], [310, 420, 531, 642, 753, 64, 75])
    x = x[..., :6]
    equal(run("Conv", {"x": x, "w": w}, stride=[2], auto_pad="same_upper")[0, 0], [321, 543, 65])
    equal(run("Conv", {"x": x, "w": w}, stride=[2], auto_pad="same_lower")[0, 0], [210, 432, 654])
    equal(run("Conv", {"x": x, "w": w}, auto_pad="valid")[0, 0], [321, 432, 543, 654])


def test_conv_refuses_what_does_not_fit() -> None:
    x, w = floats(1, 4, 5, 5), floats(6, 2, 3, 3)
    assert refused("Conv", {"x": x, "w": w}) == "E1304"
    assert refused("Conv", {"x": x, "w": floats(5, 2, 3, 3)}, groups=2) == "E1018"
    assert refused("Conv", {"x": x, "w": w}, groups=2, pad=[1, 2, 3]) == "E1101"
    assert refused("Conv", {"x": x, "w": floats(6, 2, 7, 7)}, groups=2) == "E1019"
    assert refused("Conv", {"x": x, "w": floats(6, 4, 3)}) == "E1012"
    assert refused("Conv", {"x": x, "w": w, "c": floats(5)}, groups=2) == "E1304"
    assert refused("Conv", {"x": x, "w": w}, groups=0) == "E0107"


def test_conv_transpose_at_the_edges() -> None:
    x, w = np.array([[[[1, 2], [3, 4]]]], np.float32), np.ones((1, 1, 3, 3), np.float32)
    found = run("ConvTranspose", {"x": x, "w": w}, stride=[2], pad=[1], output_padding=[1, 1])
    equal(found[0, 0], [[1, 3, 2, 2], [4, 10, 6, 6], [3, 7, 4, 4], [3, 7, 4, 4]])
    found = run(
        "ConvTranspose", {"x": floats(1, 3, 28, 28), "w": floats(3, 6, 3, 3)}, stride=[2], pad=[1], output_padding=[1]
    )
    assert found.shape == (1, 6, 56, 56)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(0, 2),
    st.integers(0, 2),
    st.integers(0, 2),
    st.sampled_from([1, 2]),
)
def test_conv_transpose_is_the_transpose_of_conv(
    size: int, kernel: int, stride: int, low: int, high: int, extra: int, groups: int
) -> None:
    extra = min(extra, stride - 1)
    dilation = 2 if stride == 1 else 1
    out = (size - 1) * stride + (kernel - 1) * dilation + 1 - low - high + extra
    if out < 1 or out + low + high < (kernel - 1) * dilation + 1:
        return
    x, w = RNG.integers(-3, 4, (1, 2, size)).astype(np.float32), RNG.integers(-3, 4, (2, 3, kernel)).astype(np.float32)
    found = run(
        "ConvTranspose",
        {"x": x, "w": w},
        stride=[stride],
        dilation=[dilation],
        pad=[low, high],
        output_padding=[extra],
        groups=groups,
    )
    assert found.shape == (1, 3 * groups, out)
    y = RNG.integers(-3, 4, found.shape).astype(np.float32)
    back = conv(y, w, [stride], [(low, high)], [dilation], groups)[..., :size]  # <A'x, y> = <x, Ay>
    assert (found * y).sum() == (x * back).sum()


@pytest.mark.parametrize("kernel", [[2, 1], [2, 2]], ids=str)
def test_a_conv_transpose_with_less_than_nothing_is_refused(kernel: list[int]) -> None:
    """Alone, and beside an axis with a window for each result of a place."""
    x, w = floats(1, 2, 2, 2), floats(2, 1, *kernel)
    assert refused("ConvTranspose", {"x": x, "w": w}, stride=[1, 2], pad=[2, 0, 2, 0]) == "E1019"


def test_conv_transpose_to_a_stated_shape() -> None:
    x, w = floats(1, 1, 3), floats(1, 1, 3)
    full = np.convolve([x[0, 0, 0], 0, x[0, 0, 1], 0, x[0, 0, 2]], w[0, 0])
    close(run("ConvTranspose", {"x": x, "w": w}, stride=[2], output_shape=[6])[0, 0], full[1:])
    close(run("ConvTranspose", {"x": x, "w": w}, stride=[2], auto_pad="same_upper")[0, 0], full[:-1])


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_pools(layout: str) -> None:
    x = floats(2, 3, 6, 7)
    given = last(x) if layout == "NHWC" else x
    back = (lambda y: np.moveaxis(y, -1, 1)) if layout == "NHWC" else (lambda y: y)
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 1)), constant_values=-np.inf)
    seen = np.lib.stride_tricks.sliding_window_view(wide, (3, 2), (2, 3))[:, :, ::2, ::3]
    attrs = {"kernel": [3, 2], "stride": [2, 3], "pad": [1, 0, 1, 1], "layout": layout}
    equal(back(run("Pool", {"x": given}, mode="max", **attrs)), seen.max((-1, -2)))
    inside = np.where(np.isinf(seen), 0, seen)
    close(
        back(run("Pool", {"x": given}, mode="average", **attrs)), inside.sum((-1, -2)) / np.isfinite(seen).sum((-1, -2))
    )
    close(back(run("Pool", {"x": given}, mode="average", count_include_pad=True, **attrs)), inside.mean((-1, -2)))
    close(back(run("Pool", {"x": given}, mode="lp", **attrs)), np.sqrt((inside**2).sum((-1, -2))))
    close(back(run("Pool", {"x": given}, mode="average", layout=layout)), x.mean((2, 3), keepdims=True))
    equal(back(run("Pool", {"x": given}, mode="max", layout=layout)), x.max((2, 3), keepdims=True))


def test_pool_counts_partial_windows_and_tells_places() -> None:
    x = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)
    equal(run("Pool", {"x": x}, mode="max", kernel=[3], stride=[2], ceil_mode=True)[0, 0], [[11, 12], [15, 16]])
    equal(run("Pool", {"x": x}, mode="average", kernel=[3], stride=[2], ceil_mode=True)[0, 0], [[6, 7.5], [12, 13.5]])
    y, places = run(
        "Pool",
        {"x": np.concatenate([x, -x], 1)},
        outputs=2,
        mode="max",
        kernel=[2],
        stride=[1],
        dilation=[2],
        pad=[1, 0, 0, 1],
    )
    flat = np.concatenate([x, -x], 1).reshape(-1)
    equal(flat[places], y)
    _, columns = run("Pool", {"x": x}, outputs=2, mode="max", kernel=[2], stride=[2], column_major=True)
    equal(columns[0, 0], [[5, 13], [7, 15]])
    half = run("Pool", {"x": x.astype(np.float16)}, mode="average", kernel=[4])
    assert half.dtype == np.float16 and half == 8.5


# --- attention


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, bias: Any = 0.0, scale: float | None = None) -> np.ndarray:
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    k, v = (np.repeat(a, q.shape[1] // a.shape[1], 1) for a in (k, v))
    s = q @ np.swapaxes(k, -1, -2) * (scale or 1 / math.sqrt(q.shape[-1])) + bias
    top = s.max(-1, keepdims=True)
    e = np.exp(s - np.where(np.isinf(top), 0, top))
    total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1, total) @ v


@pytest.mark.parametrize("heads", [4, 2, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_attention(heads: int, dtype: Any) -> None:
    q, k, v = floats(2, 4, 5, 8, dtype=dtype), floats(2, heads, 7, 8, dtype=dtype), floats(2, heads, 7, 6, dtype=dtype)
    arrays = {"q": q, "k": k, "v": v}
    tolerance = 3e-3 if dtype is np.float16 else 1e-5
    s, t = np.arange(5)[:, None], np.arange(7)[None]
    given = run("Attention", arrays)
    assert given.dtype == dtype
    close(given, attend(q, k, v), tolerance)
    close(
        run("Attention", arrays, scale=0.3, causal=True), attend(q, k, v, np.where(t <= s, 0, -np.inf), 0.3), tolerance
    )
    close(
        run("Attention", arrays, causal=True, offset=2, window=3),
        attend(q, k, v, np.where((t <= s + 2) & (t > s - 1), 0, -np.inf)),
        tolerance,
    )
    close(
        run("Attention", arrays, causal=True, offset=-2), attend(q, k, v, np.where(t <= s - 2, 0, -np.inf)), tolerance
    )
    mask = RNG.random((2, 1, 5, 7)) < 0.5
    mask[0, 0, 1] = False
    close(run("Attention", {**arrays, "m": mask}), attend(q, k, v, np.where(mask, 0, -np.inf)), tolerance)
    bias = floats(4, 5, 7, dtype=dtype) if heads == 4 else floats(1, 4, 5, 7, dtype=dtype)
    close(run("Attention", {**arrays, "m": bias}), attend(q, k, v, bias.astype(np.float64)), tolerance)


def test_attention_refuses_heads_that_do_not_divide_and_caps_its_scores() -> None:
    q, k = floats(1, 4, 5, 8), floats(1, 3, 7, 8)
    assert refused("Attention", {"q": q, "k": k, "v": k}) == "E1018"
    assert refused("Attention", {"q": q, "k": floats(1, 4, 7, 9), "v": k}) == "E1304"
    k = floats(1, 4, 7, 8)
    s = np.tanh(q @ np.swapaxes(k, -1, -2) / math.sqrt(8) / 2) * 2
    e = np.exp(s)
    close(run("Attention", {"q": q, "k": k, "v": k}, softcap=2.0), e / e.sum(-1, keepdims=True) @ k)


# --- places that are values


def test_gathers() -> None:
    x, i = floats(3, 4, 5), np.array([[2, -1], [0, -3]])
    equal(run("Gather", {"x": x, "i": i}, axis=0), x[i])
    equal(run("Gather", {"x": x, "i": i}, axis=-2), np.take(x, i % 4, 1))
    equal(run("Gather", {"x": x}, "x", -2, axis=1), x[:, -2])
    equal(run("Embedding", {"x": x[0], "i": i}), x[0][i])
    i = RNG.integers(-4, 4, (2, 6, 5))
    equal(run("GatherElements", {"x": x, "i": i}, axis=1), np.take_along_axis(x[:2], i, 1))
    out = np.array([[[4, -5, 0, 9, -9]]])
    equal(run("GatherElements", {"x": x, "i": out}, axis=1), [[[0, 0, x[0, 0, 2], 0, 0]]])
    assert refused("Gather", {"x": x}, "x", 4, axis=1) == "E1020"
    assert refused("Gather", {"x": x}, "x", -5, axis=1) == "E1020"
    assert refused("Gather", {"x": x, "i": x}) == "E1002"


def test_scatters() -> None:
    x, u = floats(3, 4), floats(2, 4)
    i = np.array([[0, 1, 2, 0], [0, -1, 5, -4]])
    for name, fold in (
        ("add", np.add),
        ("mul", np.multiply),
        ("max", np.maximum),
        ("min", np.minimum),
        ("none", lambda a, b: b),
    ):
        wanted = x.copy()
        for r, c in np.ndindex(i.shape):
            if -3 <= i[r, c] < 3:
                wanted[i[r, c], c] = fold(wanted[i[r, c], c], u[r, c])
        close(run("Scatter", {"x": x, "i": i, "u": u}, axis=0, reduction=name), wanted)
    assert refused("Scatter", {"x": x, "i": i, "u": u[:1]}) == "E1304"


def test_one_hot() -> None:
    i = np.array([1, -1, 3, -4])
    equal(run("OneHot", {"i": i}, depth=3), [[0, 1, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]])
    equal(
        run("OneHot", {"i": i}, depth=3, axis=0, on=5, off=2, dtype="i32"),
        np.where(np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]]).T, 5, 2),
    )


# --- einsum


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("bij,bjk", [(5, 2, 3), (5, 3, 4)]),
        ("ij->ji", [(2, 3)]),
        ("ij->", [(2, 3)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("i,j->ij", [(2,), (3,)]),
        ("i,i", [(3,), (3,)]),
        ("...ij,...jk->...ik", [(4, 2, 3), (5, 1, 3, 2)]),
        ("bhwij,hkj->bhwik", [(2, 3, 2, 2, 4), (3, 5, 4)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
        ("ij,ij,ij->j", [(2, 3)] * 3),
        ("iji,k->jk", [(2, 3, 2), (4,)]),
        ("...ij->...ji", [(2, 3, 4)]),
        ("a,b,c->cab", [(2,), (3,), (4,)]),
        ("ij,k->i", [(2, 3), (4,)]),
    ],
)
def test_einsum(equation: str, shapes: Any) -> None:
    arrays = {name: floats(*s) for name, s in zip("xyz", shapes)}
    close(run("Einsum", arrays, equation=equation), np.einsum(equation, *arrays.values()))


@pytest.mark.parametrize(
    ("equation", "code"),
    [
        ("ij->k", "E1021"),
        ("ij,jk->ik", "E1021"),
        ("i-j", "E1021"),
        ("ij->ii", "E1021"),
        ("i->i", "E1012"),
        ("ii->i", "E1304"),
    ],
)
def test_einsum_refuses(equation: str, code: str) -> None:
    assert refused("Einsum", {"x": floats(2, 3)}, equation=equation) == code
