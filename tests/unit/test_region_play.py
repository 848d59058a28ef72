"""Playback of region text against NumPy in fp64."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tinyir.ir import region
from tinyir.ir.evaluate import convert, widened
from tinyir.ir.types import DTYPES
from tinyir.play import body
from tinyir.play import region as player

ROOT = Path(__file__).resolve().parents[2]
DESIGN = ROOT / "tests/golden/design"


def read(path: Path) -> region.Module:
    return region.parse(path.read_text(encoding="utf-8"))


def normal(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


PRODUCT = """\
tinyir 1.0 region

model m
  in  x : {0}[40, 6]
  in  w : {0}[40, 6]
  out y : {0}[40]

program m

region r
  in  x : {0}[40, 6]
  in  w : {0}[40, 6]
  out y : {0}[40]
  for i0: 40
    %y = reduce sum (k0: 6) : {0} {{ mul(x[i0, k0], w[i0, k0]) }}
  yield y[i0] = %y
"""


@pytest.mark.parametrize("is_in_pieces", [False, True])
@pytest.mark.parametrize("name", [d.name for d in DTYPES.values() if d.is_float])
def test_products_are_rounded_before_they_are_added(
    name: str, is_in_pieces: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As tiny text says it; the sum of 16 and 8 bits once, however it is parted."""
    if is_in_pieces:
        monkeypatch.setattr(body, "MOST_POINTS", 50)
    draw, dtype = np.random.default_rng(0), DTYPES[name]
    x, w = (convert(draw.integers(-9, 10, (40, 6)) / 4, dtype) for _ in range(2))
    product = convert(widened(x) * widened(w), dtype)
    wanted = convert(widened(product).sum(1), dtype)
    found = player.play(region.parse(PRODUCT.format(name)), {"x": x, "w": w})["y"]
    assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("m, n, k", [(3, 4, 5), (100, 37, 61), (1, 1, 1), (7, 5, 0), (0, 5, 3)])
def test_gemm(m: int, n: int, k: int) -> None:
    a, b, bias = normal((m, k), 0), normal((k, n), 1), normal((n,), 2)
    found = player.play(read(ROOT / "samples/gemm_bias_relu/gemm_bias_relu.region"), {"A": a, "B": b, "bias": bias})[
        "C2"
    ]
    wanted = np.maximum(a.astype(np.float64) @ b.astype(np.float64) + bias, 0)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


def test_padded_strided_convolution() -> None:
    x, w = normal((2, 5, 9, 10), 0), normal((7, 5, 3, 3), 1)
    found = player.play(read(DESIGN / "conv_pad_stride.region"), {"X": x, "Wt": w})["Y"]
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))[:, :, ::2, ::2]
    np.testing.assert_allclose(
        found, np.einsum("nchwij,ocij->nohw", windows, w.astype(np.float64)), rtol=2e-3, atol=1e-2
    )


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    s = np.einsum("bhid,bhjd->bhij", q.astype(np.float64), k.astype(np.float64)) * 0.125
    s = np.where(np.tril(np.ones(s.shape[-2:])) > 0, s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("bhij,bhjd->bhid", p / p.sum(-1, keepdims=True), v.astype(np.float64))


@pytest.mark.parametrize("most_points", [body.MOST_POINTS, 700])
def test_attention_whole_and_in_blocks(most_points: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(player, "MOST_POINTS", most_points)
    monkeypatch.setattr(body, "MOST_POINTS", most_points)
    q, k, v = (normal((2, 3, 20, 64), s) for s in range(3))
    found = player.play(read(DESIGN / "attention_causal.region"), {"Q": q, "K": k, "V": v})["O"]
    np.testing.assert_allclose(found, attention(q, k, v), rtol=2e-3, atol=2e-3)


def test_layernorm_with_two_outputs() -> None:
    x, gamma, beta = normal((20, 33), 0), normal((33,), 1), normal((33,), 2)
    found = player.play(read(DESIGN / "layernorm.region"), {"X": x, "gamma": gamma, "beta": beta})
    wide = x.astype(np.float64)
    rstd = 1 / np.sqrt(wide.var(1) + 1e-5)
    np.testing.assert_allclose(found["Rstd"], rstd, rtol=1e-5)
    np.testing.assert_allclose(
        found["Y"], (wide - wide.mean(1, keepdims=True)) * rstd[:, None] * gamma + beta, rtol=2e-3, atol=2e-3
    )


def play_lines(lines: str, arrays: dict[str, np.ndarray], signature: str, iters: str) -> np.ndarray:
    text = f"tinyir 1.0 region\n\nmodel m\n{signature}\nprogram m\n\nregion r\n{signature}  for {iters}\n{lines}"
    module = region.parse(text)
    assert region.check(module) == []
    return player.play(module, arrays)["Y"]


VECTOR = "  in  X           : fp32[N]\n  in  I           : i32[K]\n  out Y           : fp32[{}]\n"


def test_gather_counts_from_the_end_and_gives_0_outside() -> None:
    found = play_lines(
        "  yield Y[i0] = gather (k0: N = I[i0]) { X[k0] }\n",
        {"X": np.arange(1, 6, dtype=np.float32), "I": np.array([0, -1, 5, -5, -6], np.int32)},
        VECTOR.format("K"),
        "i0: K",
    )
    assert found.tolist() == [1, 5, 0, 1, 0]


@pytest.mark.parametrize("op, wanted", [("sum", [13, 0, 9]), ("update", [11, 0, 9]), ("max", [11, 0, 9])])
def test_scatter_folds_in_order_and_drops_what_lies_outside(op: str, wanted: list[int]) -> None:
    line = f"  yield Y[i0] = scatter {op} i0 (k0: K) {{ index(10*k0 + 1) : fp32 at I[k0] }} onto X[i0]\n"
    x = np.array([1, 0, 9], np.float32)
    found = play_lines(line, {"X": x, "I": np.array([0, 0, 3], np.int32)}, VECTOR.format("N"), "i0: N")
    assert found.tolist() == wanted


@pytest.mark.parametrize(
    "flags, wanted",
    [("", [1, 3, 6]), (" reverse", [6, 5, 3]), (" exclusive", [0, 1, 3]), (" reverse exclusive", [5, 3, 0])],
)
def test_scan(flags: str, wanted: list[int]) -> None:
    found = play_lines(
        f"  yield Y[i0] = scan sum{flags} (i0) : fp32 {{ X[i0] }}\n",
        {"X": np.array([1, 2, 3], np.float32), "I": np.zeros(1, np.int32)},
        VECTOR.format("N"),
        "i0: N",
    )
    assert found.tolist() == wanted


def test_nan_goes_through_max_and_a_guard_keeps_it_out() -> None:
    line = (
        "    %top           = reduce max (k0: N) : fp32 { X[k0] where k0 < N - 1 else -inf }\n  yield Y[i0] = "
        "broadcast_in_dim(%top, dims=[])\n"
    )
    x = np.array([1, 3, 2, np.nan], np.float32)
    arrays = {"X": x, "I": np.zeros(2, np.int32)}
    assert play_lines(line, arrays, VECTOR.format("K"), "i0: K").tolist() == [3, 3]
    assert np.isnan(
        play_lines(line.replace(" where k0 < N - 1 else -inf", ""), arrays, VECTOR.format("K"), "i0: K")
    ).all()
