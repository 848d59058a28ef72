"""Ops of the front ends against NumPy: front-end JSON in, played back on arrays, compared with NumPy in fp64."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyir import front
from tinyir.front.ops import ELEMENTWISE
from tinyir.ir import tiny
from tinyir.ir.types import DTYPES
from tinyir.kit.diag import Refused
from tinyir.play.tiny import play

NAMES = {d.numpy: d.name for d in DTYPES.values()}


def run(
    op: str,
    arrays: dict[str, np.ndarray],
    /,
    *operands: Any,
    outputs: int = 1,
    fn: str | None = None,
    out: Any = None,
    symbolic: bool = False,
    **attrs: Any,
) -> Any:
    """One op on arrays. `operands` are array names or numbers (default: all arrays); `out` declares the output's dtype
    and shape."""
    tensors: dict[str, Any] = {
        n: {"dtype": NAMES[a.dtype.name], "shape": [f"d{s}" if symbolic else s for s in a.shape]}
        for n, a in arrays.items()
    }
    names = [f"o{i}" for i in range(outputs)]
    node = {
        "op": op,
        "name": "op",
        "inputs": list(operands or arrays),
        "outputs": names,
        "attrs": attrs,
        **({"fn": fn} if fn else {}),
    }
    found: dict[str, Any] = {
        "signature": {"inputs": [{"tensor": n} for n in arrays], "outputs": [{"tensor": n} for n in names]},
        "tensors": tensors,
        "graph": [node],
    }
    if out is not None:
        tensors["o0"] = {"dtype": out[0], "shape": list(out[1])}
    else:
        for name, value in zip(names, result_types(found)):
            tensors[name] = {
                "dtype": value.dtype.name,
                "shape": [d.constant if d.constant is not None else str(d) for d in value.shape],
            }
    module = front.read(json.dumps(found))
    assert [d for d in tiny.check(module) if d.is_error] == []
    assert tiny.parse(tiny.show(module)) == module
    results = play(module, arrays)
    for name in names:
        assert results[name].dtype.name in NAMES
    return results["o0"] if outputs == 1 else [results[n] for n in names]


def result_types(found: dict[str, Any]) -> list[Any]:
    """The types that the op gives, found by declaring shapes that cannot be right and reading what is said to be."""
    guess = json.loads(json.dumps(found))
    for entry in guess["signature"]["outputs"]:
        guess["tensors"][entry["tensor"]] = {"dtype": "fp32", "shape": ["no", "such", "shape"]}
    with pytest.raises(Refused) as caught:
        front.read(json.dumps(guess))
    if {d.code for d in caught.value.diags} != {"E1306"}:
        raise caught.value
    return [d.facts["inferred"] for d in caught.value.diags]


def close(given: np.ndarray, wanted: Any, tolerance: float = 1e-5) -> None:
    wanted = np.asarray(wanted)
    assert given.shape == wanted.shape
    np.testing.assert_allclose(given.astype(np.float64), wanted.astype(np.float64), rtol=tolerance, atol=tolerance)


RNG = np.random.default_rng(2)


def floats(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


# --- contractions


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("trans_a", "trans_b"), [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("size", [(3, 5, 7), (1, 1, 1), (2, 3, 0), (0, 3, 2), (17, 33, 65)])
def test_gemm(dtype: Any, trans_a: bool, trans_b: bool, size: tuple[int, int, int]) -> None:
    m, n, k = size
    a, b, c = floats(m, k, dtype=dtype), floats(k, n, dtype=dtype), floats(n, dtype=dtype)
    given = run(
        "GEMM",
        {"A": a.T.copy() if trans_a else a, "B": b.T.copy() if trans_b else b, "C": c},
        transA=trans_a,
        transB=trans_b,
        alpha=0.5,
        beta=-2,
    )
    assert given.dtype == (np.float64 if dtype is np.float64 else np.float32)
    close(given, 0.5 * (a.astype(np.float64) @ b.astype(np.float64)) - 2 * c.astype(np.float64), 1e-4)


def test_gemm_is_batched_and_keeps_integers_exact() -> None:
    a, b = RNG.integers(-128, 128, (4, 1, 3, 50)).astype(np.int8), RNG.integers(-128, 128, (2, 50, 6)).astype(np.int8)
    given = run("GEMM", {"A": a, "B": b}, beta=0)
    assert given.dtype == np.int32
    assert (given == a.astype(np.int64) @ b.astype(np.int64)).all()


def test_gemm_rounds_only_its_sum() -> None:
    a, b = np.full((1, 4096), 0.1, np.float16), np.full((4096, 1), 0.1, np.float16)
    close(run("GEMM", {"A": a, "B": b}, out=("fp16", (1, 1))), a.astype(np.float64) @ b.astype(np.float64), 1e-3)


def test_gemm_refuses_a_product_that_its_third_operand_would_grow() -> None:
    with pytest.raises(Refused) as caught:
        run("GEMM", {"A": floats(2, 3), "B": floats(3, 4), "C": floats(3, 2, 4)})
    assert caught.value.diags[0].code == "E1001"
    with pytest.raises(Refused) as caught:
        run("GEMM", {"A": floats(2, 3), "B": floats(1, 4)})
    assert caught.value.diags[0].code == "E1304"


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((4,), (4,)),
        ((4,), (4, 3)),
        ((2, 4), (4,)),
        ((2, 4), (4, 3)),
        ((5, 2, 4), (4, 3)),
        ((2, 4), (5, 4, 3)),
        ((5, 2, 4), (5, 4, 3)),
        ((1, 6, 2, 4), (5, 1, 4, 3)),
        ((4,), (5, 4, 3)),
        ((5, 2, 4), (4,)),
        ((0, 4), (4, 2)),
        ((2, 0), (0, 2)),
        ((3, 0, 2, 4), (4, 2)),
    ],
)
def test_matmul_of_every_rank(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = floats(*left), floats(*right)
    close(run("MatMul", {"A": a, "B": b}), np.matmul(a.astype(np.float64), b.astype(np.float64)))


def test_symbolic_sizes_are_bound_by_the_arrays() -> None:
    a, b = floats(3, 5), floats(5, 2)
    close(run("MatMul", {"A": a, "B": b}, symbolic=True), a @ b)


# --- elementwise: every fn, fp32 and fp16, against NumPy

EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -3.25, 1e-6, -1e-6, 20.0, -20.0, 1e-3, math.inf, -math.inf, math.nan]


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(0, x)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


_erf = np.vectorize(math.erf, otypes=[np.float64])
UNARY: dict[str, tuple[Callable[[np.ndarray], np.ndarray], dict[str, Any]]] = {
    "neg": (np.negative, {}),
    "abs": (np.abs, {}),
    "sign": (np.sign, {}),
    "reciprocal": (np.reciprocal, {}),
    "sqrt": (np.sqrt, {}),
    "rsqrt": (lambda x: 1 / np.sqrt(x), {}),
    "exp2": (np.exp2, {}),
    "log2": (np.log2, {}),
    "sin": (np.sin, {}),
    "tanh": (np.tanh, {}),
    "erf": (_erf, {}),
    "floor": (np.floor, {}),
    "ceil": (np.ceil, {}),
    "trunc": (np.trunc, {}),
    "round": (np.rint, {}),
    "relu": (lambda x: np.maximum(x, 0), {}),
    "identity": (lambda x: x, {}),
    "exp": (np.exp, {}),
    "expm1": (np.expm1, {}),
    "log": (np.log, {}),
    "log1p": (np.log1p, {}),
    "log10": (np.log10, {}),
    "cos": (np.cos, {}),
    "tan": (np.tan, {}),
    "asin": (np.arcsin, {}),
    "acos": (np.arccos, {}),
    "atan": (np.arctan, {}),
    "sinh": (np.sinh, {}),
    "cosh": (np.cosh, {}),
    "asinh": (np.arcsinh, {}),
    "acosh": (np.arccosh, {}),
    "atanh": (np.arctanh, {}),
    "sigmoid": (_sigmoid, {}),
    "silu": (lambda x: x * _sigmoid(1.5 * x), {"alpha": 1.5}),
    "softplus": (_softplus, {}),
    "softsign": (lambda x: x / (1 + np.abs(x)), {}),
    "mish": (lambda x: x * np.tanh(_softplus(x)), {}),
    "gelu": (lambda x: x / 2 * (1 + _erf(x / np.sqrt(2))), {}),
    "elu": (lambda x: np.where(x < 0, 2 * np.expm1(x), x), {"alpha": 2}),
    "selu": (lambda x: 1.0507009873554805 * np.where(x < 0, 1.6732632423543772 * np.expm1(x), x), {}),
    "celu": (lambda x: np.where(x < 0, 2 * np.expm1(x / 2), x), {"alpha": 2.0}),
    "leaky_relu": (lambda x: np.where(x < 0, 0.1 * x, x), {"alpha": 0.1}),
    "thresholded_relu": (lambda x: np.where(x > 0.7, x, 0), {"alpha": 0.7}),
    "shrink": (lambda x: np.where(x < -1.5, x + 0.25, np.where(x > 1.5, x - 0.25, 0)), {"lambd": 1.5, "bias": 0.25}),
    "hard_sigmoid": (lambda x: np.clip(0.2 * x + 0.5, 0, 1), {}),
    "hard_swish": (lambda x: x * np.clip(x / 6 + 0.5, 0, 1), {}),
    "square": (np.square, {}),
    "isnan": (np.isnan, {}),
    "isinf": (np.isposinf, {"negative": False}),
    "clip": (lambda x: np.clip(x, -1, 1.5), {"min": -1, "max": 1.5}),
    "cast": (lambda x: x.astype(np.float64), {"to": "fp64"}),
}
BINARY: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
    "pow": np.power,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "atan2": np.arctan2,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "rem": np.fmod,
    "prelu": lambda x, s: np.where(x < 0, x * s, x),
    "mean": lambda x, y: (x + y) / 2,
}
REST = {"bitcast", "not", "and", "or", "xor", "shift_left", "shift_right", "where"}


def test_every_fn_is_tested() -> None:
    assert set(UNARY) | set(BINARY) | REST == set(ELEMENTWISE)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
@pytest.mark.parametrize("fn", UNARY)
def test_unary(fn: str, dtype: Any) -> None:
    meaning, attrs = UNARY[fn]
    x = np.concatenate([np.array(EDGES), RNG.standard_normal(100) * 3, RNG.uniform(-1, 1, 100)]).astype(dtype)
    with np.errstate(all="ignore"):
        wanted = meaning(x.astype(np.float64))
    given = run("Elementwise", {"x": x}, fn=fn, **attrs)
    tolerance = 2e-3 if dtype is np.float16 else 3e-6
    if dtype is np.float16 and given.dtype == np.float16:
        wanted = np.where(np.abs(wanted) >= 65520, np.copysign(np.inf, wanted), wanted)
    np.testing.assert_array_equal(np.isnan(given.astype(np.float64)), np.isnan(wanted))
    if fn not in ("tan", "sinh", "cosh", "exp"):
        np.testing.assert_allclose(given.astype(np.float64), wanted.astype(np.float64), rtol=tolerance, atol=tolerance)
    else:  # the argument's own rounding shows: 1 ulp of x is |x| ulps of the result, and more at a pole
        np.testing.assert_allclose(
            given.astype(np.float64), wanted.astype(np.float64), rtol=max(tolerance, 2e-5), atol=max(tolerance, 2e-5)
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
@pytest.mark.parametrize("fn", BINARY)
def test_binary(fn: str, dtype: Any) -> None:
    if dtype is np.int32 and fn in ("div", "pow", "atan2", "mean"):
        pytest.skip("has no meaning, or another one, for integers")
    x, y = (RNG.standard_normal(shape) * 3 for shape in ((5, 1, 7), (4, 1)))
    y = np.where(np.abs(y) < 0.5, 1.0, y) * (1 if dtype is not np.int32 else 4)
    if fn == "pow":
        x, y = np.abs(x), y / 4
    x, y = x.astype(dtype), y.astype(dtype)
    if dtype is np.int32:
        y[y == 0] = 3
    wide = np.int64 if dtype is np.int32 else np.float64
    given = run("Elementwise", {"x": x, "y": y}, fn=fn)
    wanted = BINARY[fn](x.astype(wide), y.astype(wide))
    if fn in ("mod", "rem", "floordiv") and dtype is np.float16:
        wanted = BINARY[fn](x.astype(np.float32), y.astype(np.float32)).astype(np.float16)
    close(given, wanted, 2e-3 if dtype is np.float16 else 1e-5)


def test_signs_of_zero_and_both_infinities_of_atan2() -> None:
    y, x = (
        np.array([0.0, 1, -1, math.inf, -math.inf, 0, 1, -1], np.float32),
        np.array([0.0, 0, 0, math.inf, -math.inf, -1, -0.0, -0.0], np.float32),
    )
    close(run("Elementwise", {"y": y, "x": x}, fn="atan2"), np.arctan2(y, x))


def test_nan_wins_in_max_min_relu_and_clip() -> None:
    a, b = np.array([np.nan, 1, np.nan, 0], np.float32), np.array([1, np.nan, np.nan, 0], np.float32)
    for fn in ("max", "min"):
        for operands in (("a", "b"), ("b", "a")):
            np.testing.assert_array_equal(
                run("Elementwise", {"a": a, "b": b}, *operands, fn=fn), [np.nan, np.nan, np.nan, 0]
            )
    np.testing.assert_array_equal(
        run("Elementwise", {"x": np.array([np.nan, -1, 0], np.float32)}, fn="relu"), [np.nan, 0, 0]
    )
    np.testing.assert_array_equal(run("Clip", {"x": np.array([np.nan, 7], np.float32)}, min=0, max=1), [np.nan, 1])


def test_integers_divide_as_spec_says() -> None:
    x, y = np.array([-7, 7, -7, 7, 5], np.int32), np.array([2, -2, -2, 2, 0], np.int32)
    assert run("Elementwise", {"x": x, "y": y}, fn="div").tolist() == [-3, -3, 3, 3, 0]
    assert run("Elementwise", {"x": x, "y": y}, fn="floordiv").tolist() == [-4, -4, 3, 3, 0]
    assert run("Elementwise", {"x": x, "y": y}, fn="mod").tolist() == [1, -1, -1, 1, 0]
    assert run("Elementwise", {"x": x, "y": y}, fn="rem").tolist() == [-1, 1, -1, 1, 0]
    assert run(
        "Elementwise", {"x": np.array([1, -1, 2, -1], np.int32), "y": np.array([-3, -3, -1, -2], np.int32)}, fn="pow"
    ).tolist() == [1, -1, 0, 1]


def test_logic_shifts_and_choice() -> None:
    p, q = np.array([True, True, False]), np.array([[True], [False]])
    for fn, meaning in (("and", np.logical_and), ("or", np.logical_or), ("xor", np.logical_xor)):
        assert (run("Elementwise", {"p": p, "q": q}, fn=fn) == meaning(p, q)).all()
    assert (run("Elementwise", {"p": p}, fn="not") == ~p).all()
    n = np.array([1, 5, 200], np.uint8)
    assert run("Elementwise", {"n": n}, "n", 2, fn="shift_left").tolist() == [4, 20, 32]
    assert run("Elementwise", {"n": n}, "n", 2, fn="shift_right").tolist() == [0, 1, 50]
    x = floats(2, 3)
    np.testing.assert_array_equal(run("Where", {"p": p, "x": x}, "p", "x", -1.5), np.where(p, x, np.float32(-1.5)))
    np.testing.assert_array_equal(run("Elementwise", {"q": q}, "q", 1, 0, fn="where"), np.where(q, 1, 0))


def test_operands_are_promoted_and_literals_are_not_in_the_way() -> None:
    half, whole = np.array([0.5, 2], np.float16), np.array([3, 4], np.int8)
    assert run("Elementwise", {"h": half, "w": whole}, fn="add").dtype == np.float16
    assert run("Elementwise", {"h": half, "s": floats(2)}, fn="add").dtype == np.float32
    assert run("Elementwise", {"w": whole}, "w", 300, fn="add").tolist() == [303, 304]
    assert run("Elementwise", {"w": whole}, "w", 0.5, fn="add").tolist() == [3.5, 4.5]
    assert run("Elementwise", {"w": whole}, "w", fn="clip", min="-inf", max=3.5).tolist() == [3, 3]
    with pytest.raises(Refused) as caught:
        run("Elementwise", {"w": whole}, fn="exp")
    assert caught.value.diags[0].code == "E1002"


def test_far_limits_of_a_clip_are_the_ends_of_the_dtype() -> None:
    """Exporters write the ends of fp32 where no limit is meant, whatever the dtype."""
    half = np.array([-np.inf, -3, 0.5, 65504, np.inf, np.nan], np.float16)
    equal = lambda given, wanted: np.testing.assert_array_equal(given, np.asarray(wanted, np.float16))  # noqa: E731
    equal(run("Clip", {"h": half}, min=-3.4028234663852886e38, max=3.4028234663852886e38), half)
    equal(run("Clip", {"h": half}, min=-3.4028234663852886e38, max=1.0), [-np.inf, -3, 0.5, 1, 1, np.nan])
    assert run("Clip", {"w": np.array([-5, 5], np.int8)}, min=-1e39, max=2.5).tolist() == [-5, 2]


def test_casts_saturate_drop_the_fraction_and_wrap() -> None:
    x = np.array([1.9, -1.9, 1e30, -1e30, np.nan, np.inf], np.float32)
    assert run("Cast", {"x": x}, to="i8").tolist() == [1, -1, 127, -128, 0, 127]
    assert run("Cast", {"x": x}, to="u8").tolist() == [1, 0, 255, 0, 0, 255]
    assert run("Cast", {"x": x}, to="i64").tolist() == [1, -1, 2**63 - 1, -(2**63), 0, 2**63 - 1]
    assert run("Cast", {"x": x}, to="bool").tolist() == [True] * 6
    assert run("Cast", {"x": np.array([300, -1], np.int32)}, to="u8").tolist() == [44, 255]
    assert run(
        "Cast", {"x": np.array([65519.9, 65520, 1 + 2**-11, 1 + 3 * 2**-11], np.float32)}, to="fp16"
    ).tolist() == [65504, math.inf, 1, 1 + 2**-9]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_broadcasting_is_numpys(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(0, 4), max_size=4))
    sides = []
    for name in "xy":
        kept = shape[data.draw(st.integers(0, len(shape))) :]
        sides.append((name, [1 if data.draw(st.booleans()) else d for d in kept]))
    arrays = {n: RNG.integers(-5, 6, s).astype(np.int32) for n, s in sides}
    np.testing.assert_array_equal(run("Elementwise", arrays, fn="sub"), arrays["x"] - arrays["y"])
