"""The graph DSL: the seed's programs, its functions against NumPy, its rules and faults, and back from tiny text."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyir import front
from tinyir.front.ops import FRONT_OPS
from tinyir.front.shorttypes import short
from tinyir.front.to_dsl import dsl_of
from tinyir.ir import tiny
from tinyir.ir.types import DTYPES
from tinyir.kit.diag import Refused
from tinyir.play.tiny import play

from ..golden.cases import GOLDEN, split_case
from .graphs import random_graph

NAMES = {d.numpy: short(d) for d in DTYPES.values()}


def type_of(array: np.ndarray) -> str:
    return f"{NAMES[array.dtype.name]}[{', '.join(map(str, array.shape))}]"


def read(text: str) -> tiny.Module:
    module = front.read(text)
    assert [d for d in tiny.check(module) if d.is_error] == []
    assert tiny.parse(tiny.show(module)) == module
    assert tiny.show(front.read(dsl_of(module))) == tiny.show(module)
    return module


def run(body: str, *wanted: Any, **arrays: np.ndarray) -> None:
    """A body on inputs, its results compared."""
    wanted = tuple(np.asarray(w) for w in wanted)
    params = ", ".join(f"{n}: {type_of(a)}" for n, a in arrays.items())
    results = ", ".join(f"o{i}: {type_of(w)}" for i, w in enumerate(wanted))
    body = body if "return" in body else f"return {body}"
    given = play(read(f"graph main({params}) -> ({results}) {{\n{body}\n}}\n"), arrays)
    for i, w in enumerate(wanted):
        assert given[f"o{i}"].dtype == w.dtype
        np.testing.assert_allclose(given[f"o{i}"].astype(np.float64), w.astype(np.float64), rtol=1e-5, atol=1e-6)


RNG = np.random.default_rng(6)


def floats(*shape: int) -> np.ndarray:
    """Odd eighths within 3 of zero: their sums of products are exact in fp32, in any order, and none is zero."""
    return (RNG.integers(-12, 12, shape) * 2 + 1).astype(np.float32) / 8


X, Y, Z, V, W = floats(3, 4), floats(3, 4), floats(4, 5), floats(4), floats(2, 3, 4)
I, J = np.array([[7, -7], [3, 5]], np.int32), np.array([[2, 2], [-4, 3]], np.int32)
B = np.array([True, False, True, True])
SCALAR = np.float32(2.5)
INDEX = np.array([[2, 0, 1, -1], [0, 0, 2, 1]], np.int64)
ONES = np.ones((2, 4), np.float32)
ADDED = X + np.stack([(INDEX % 3 == row).sum(0) for row in range(3)]).astype(np.float32)


@pytest.mark.parametrize(
    ("body", "wanted", "arrays"),
    [
        ("x + y * 2.0 - 1", X + Y * 2 - 1, {"x": X, "y": Y}),
        ("-x / (y * y + 1.5)", -X / (Y * Y + 1.5), {"x": X, "y": Y}),
        ("i / j", np.trunc(I / J).astype(np.int32), {"i": I, "j": J}),
        ("i % j", np.fmod(I, J), {"i": I, "j": J}),
        ("i & j | 1 ^ i", I & J | (1 ^ I), {"i": I, "j": J}),
        ("x < y", X < Y, {"x": X, "y": Y}),
        ("!(x >= y)", X < Y, {"x": X, "y": Y}),
        ("x * s", X * SCALAR, {"x": X, "s": SCALAR}),
        ("max(x, 0)", np.maximum(X, 0), {"x": X}),
        ("min(x, y)", np.minimum(X, Y), {"x": X, "y": Y}),
        ("x.max(1)", X.max(1), {"x": X}),
        ("where(x < y, x, 0.5)", np.where(X < Y, X, np.float32(0.5)), {"x": X, "y": Y}),
        ("x.recip().square()", (1 / X) ** 2, {"x": X}),
        (
            "x.exp2() + log2(abs(x)) + sin(x) + sqrt(abs(x))",
            np.exp2(X) + np.log2(abs(X)) + np.sin(X) + np.sqrt(abs(X)),
            {"x": X},
        ),
        ('gelu(x, approximate="tanh") * 0 + exp(x)', np.exp(X), {"x": X}),
        ("clip(x, min=-0.5, max=0.5)", X.clip(-0.5, 0.5), {"x": X}),
        ("cast(x, i32)", X.astype(np.int32), {"x": X}),
        ("x @ z", X @ Z, {"x": X, "z": Z}),
        ("matmul(x, z)", X @ Z, {"x": X, "z": Z}),
        ("x.matmul(v)", X @ V, {"x": X, "v": V}),
        ("w.batch_matmul(z)", W @ Z, {"w": W, "z": Z}),
        ("sum(w, 1)", W.sum(1), {"w": W}),
        ("w.sum()", W.sum(), {"w": W}),
        ("w.sum(axis=[0, 2], keepdims=true)", W.sum((0, 2), keepdims=True), {"w": W}),
        ("w.reduce_max(0) + w.reduce_mul(0)", W.max(0) + W.prod(0), {"w": W}),
        ("mean(w, dim=-1)", W.mean(-1), {"w": W}),
        ("argmax(w, 1)", W.argmax(1), {"w": W}),
        ("w.cumsum(1)", W.cumsum(1), {"w": W}),
        ("cumprod(w, 0)", W.cumprod(0), {"w": W}),
        ("w.cummax(2)", np.maximum.accumulate(W, 2), {"w": W}),
        ("w.permute([2, 0, 1])", W.transpose(2, 0, 1), {"w": W}),
        ("w.permute(2, 0, 1)", W.transpose(2, 0, 1), {"w": W}),
        ("transpose(x)", X.T, {"x": X}),
        ("x.unsqueeze(0).squeeze(0).unsqueeze(-1)", X[:, :, None], {"x": X}),
        ("v.unsqueeze(0).repeat(0, 3) + x", V + X, {"v": V, "x": X}),
        ("expand(v, [3, 4]) + x", V + X, {"v": V, "x": X}),
        ("x.flip(1)", X[:, ::-1], {"x": X}),
        ("x.tile([2, 1])", np.tile(X, (2, 1)), {"x": X}),
        ("w.reshape([6, -1])", W.reshape(6, 4), {"w": W}),
        ("w.reshape(4, 6)", W.reshape(4, 6), {"w": W}),
        ("x.pad([(1, 0), (0, 2)], -1.5)", np.pad(X, ((1, 0), (0, 2)), constant_values=-1.5), {"x": X}),
        ("x.slice([(1, 3), (0, 4, 2)])", X[1:3, ::2], {"x": X}),
        ("concat([x, y], 1)", np.concatenate([X, Y], 1), {"x": X, "y": Y}),
        ("x.gather(0, k)", np.take_along_axis(X, INDEX, 0), {"x": X, "k": INDEX}),
        ("x.scatter(0, k, u, reduction=add)", ADDED, {"x": X, "k": INDEX, "u": ONES}),
        ("take(v, k, axis=0)", V[INDEX], {"v": V, "k": INDEX}),
        ("softmax(x, 1)", np.exp(X) / np.exp(X).sum(1, keepdims=True), {"x": X}),
        (
            "one_hot(k, 4)",
            (np.arange(4) == np.where(INDEX < 0, INDEX + 4, INDEX)[..., None]).astype(np.float32),
            {"k": INDEX},
        ),
        ("view(x, [2, 4], [2 - 2*i0, i1])", X[::-2], {"x": X}),
        ('valid(x, "0 <= i1 - i0")', np.triu(X), {"x": X}),
        ("const([[1, 2], [3, 4]], i32[2, 2]) + i", np.array([[1, 2], [3, 4]], np.int32) + I, {"i": I}),
        (
            "iota(i64[3, 4], axis=1) + k0",
            np.arange(4)[None] + np.zeros((3, 4), np.int64),
            {"k0": np.zeros((3, 4), np.int64)},
        ),
        ("fused(x, y) { (x + y) * x }", (X + Y) * X, {"x": X, "y": Y}),
        ("fused_reduce(x, y, axis=1, op=sum) { x * y }", (X * Y).sum(1), {"x": X, "y": Y}),
        ("fused_reduce(x, axis=0, op=max) { x + 1.0 }", (X + 1).max(0), {"x": X}),
        ("fused_cumulative(x, axis=1, op=sum) { x * 2.0 }", (X * 2).cumsum(1), {"x": X}),
        ("REDUCE(x, op=PROD, axes=[0], dtype=f32)", X.prod(0), {"x": X}),
        ("x * (1.0 / 4) + 7 / 2 - 7 % 4", X * 0.25 + 3 - 3, {"x": X}),
        ("where(b, v, -v)", np.where(B, V, -V), {"b": B, "v": V}),
    ],
)
def test_an_expression_is_what_numpy_says(body: str, wanted: Any, arrays: dict[str, np.ndarray]) -> None:
    run(body, wanted, **arrays)


def conv(x: np.ndarray, w: np.ndarray, stride: int, dilation: int, groups: int, padding: int) -> np.ndarray:
    rank = w.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *[(padding, padding)] * rank]).astype(np.float64)
    out = [(n - (k - 1) * dilation - 1) // stride + 1 for n, k in zip(x.shape[2:], w.shape[2:])]
    found = np.zeros((x.shape[0], w.shape[0], *out))
    for m in range(w.shape[0]):
        group = m // (w.shape[0] // groups)
        part = x[:, group * w.shape[1] : (group + 1) * w.shape[1]]
        for k in np.ndindex(*w.shape[2:]):
            taken = tuple(slice(i * dilation, i * dilation + (o - 1) * stride + 1, stride) for i, o in zip(k, out))
            found[:, m] += np.einsum(
                "nc...,c->n...", part[(slice(None), slice(None), *taken)], w[(m, slice(None), *k)].astype(np.float64)
            )
    return found.astype(np.float32)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(("stride", "dilation", "groups", "padding"), [(1, 1, 1, 0), (2, 1, 2, 1), (1, 2, 1, 2)])
def test_convolution_in_one_to_three_dimensions(
    rank: int, stride: int, dilation: int, groups: int, padding: int
) -> None:
    x, w = floats(2, 4, *(6, 5, 7)[:rank]), floats(6, 4 // groups, *(3, 2, 3)[:rank])
    wanted = conv(x, w, stride, dilation, groups, padding)
    run(f"conv(x, w, {stride}, {dilation}, {groups}, padding={padding})", wanted, x=x, w=w)
    run(f"x.conv(w, stride={stride}, dilation={dilation}, groups={groups}, padding={padding})", wanted[0], x=x[0], w=w)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_transposed_convolution_is_the_transpose(rank: int) -> None:
    x, w = floats(1, 3, *(4, 3, 2)[:rank]), floats(3, 2, *(3, 2, 2)[:rank])
    size = [(n - 1) * 2 + k for n, k in zip(x.shape[2:], w.shape[2:])]
    wanted = np.zeros((1, 2, *size))
    for place in np.ndindex(*x.shape[2:]):
        taken = tuple(slice(2 * p, 2 * p + k) for p, k in zip(place, w.shape[2:]))
        wanted[(0, slice(None), *taken)] += np.tensordot(
            x[(0, slice(None), *place)].astype(np.float64), w.astype(np.float64), 1
        )
    run("conv_transpose(x, w, stride=2)", wanted.astype(np.float32), x=x, w=w)


def test_unfold_and_fold() -> None:
    x = floats(2, 9)
    seen = np.stack([x[:, k : k + 7 : 2] for k in range(3)], 1)
    run("x.unfold(3, 2)", seen, x=x)
    back = np.zeros((2, 9), np.float32)
    for k in range(3):
        back[:, k : k + 7 : 2] += seen[:, k]
    run("fold(u, size=9, stride=2)", back, u=seen)


def test_calls_tuples_and_names() -> None:
    module = read(
        "graph<N=1> both(x: f32[N]) -> (a: f32[N], b: f32[N]) {\n r1 = x + 1.0\n r2 = r1 * 2.0\n return r1, r2\n}\n"
        "graph<N=1> twice(x: f32[N]) -> (y: f32[N]) {\n (p, q) = both(x)\n y = p * q\n return y\n}\n"
        "graph<K=3> main(v: f32[2*K], u: f32[2*K]) -> (s: f32[2*K], t: f32[2*K]) {\n s = twice(v) + "
        "twice(both_sum(u))\n (_, t) = both(u)\n return s, t\n}\n"
        "graph<M=1> both_sum(x: f32[M]) -> f32[M] {\n return x + x\n}\n"
    )
    v, u = floats(6), floats(6)
    given = play(module, {"v": v, "u": u})
    np.testing.assert_allclose(given["s"], (v + 1) * (v + 1) * 2 + (2 * u + 1) ** 2 * 2, rtol=1e-5)
    np.testing.assert_allclose(given["t"], (u + 1) * 2, rtol=1e-5)
    assert str(module.model.shape_sets[0].sizes) == "(('K', 3),)"
    assert {"s", "s.twice", "t"} <= {value.name for value in module.values}


def test_the_names_of_a_call_are_those_of_its_caller() -> None:
    module = read(
        "graph<N=1> f(x: f32[N]) -> (y: f32[N]) {\n h = x + 1.0\n r = h * h\n return r\n}\ngraph<N=1> main(x: "
        "f32[N]) -> (y: f32[N]) {\n z = f(x)\n return z\n}\n"
    )
    assert [v.name for v in module.values if v.op != "CONST"] == ["z.h", "z"]


def test_variables_are_assigned_again_and_numbers_stay_numbers() -> None:
    run("half = 1.0 / 2\nx = x * half\nx = x + half\nreturn x, half", X * 0.5 + 0.5, np.float32(0.5), x=X)


def test_a_shape_variable_is_a_size_and_a_number() -> None:
    module = read(
        "graph<N=8> main(x: f32[N, 2]) -> (y: f32[2, N], z: f32[2]) {\n y = reshape(permute(x, [1, 0]), [2, N])\n"
        " n = cast(N, f32)\n z = sum(y, 1) / n\n return y, z\n}\n"
    )
    x = floats(5, 2)
    given = play(module, {"x": x})
    np.testing.assert_allclose(given["z"], x.mean(0), rtol=1e-5)


def test_precedence_and_comments() -> None:
    run("// first\nr = 1.0 + x * -2.0 # second\n  - 3.0\nreturn r", 1 - 2 * X - 3, x=X)


MAIN = "graph<N=1, M=1> main(x: f32[N, M], y: f32[M], i: i32[N, M]) -> (r: f32[N, M]) {{\n{}\n}}\n"


@pytest.mark.parametrize(
    ("code", "body"),
    [
        ("E0131", "graph = x\nreturn x"),
        ("E0131", "fused_reduce = x\nreturn x"),
        ("E0131", "true = x\nreturn x"),
        ("E0132", "r = x"),
        ("E0132", "return x\nr = x"),
        ("E0134", "return x + const(0, f32[K])"),
        ("E0105", "return reluu(x)"),
        ("E0202", "return x + z"),
        ("E0204", "return relu(x, x)"),
        ("E0204", "return x.permute() @ matmul(x)"),
        ("E0205", "(a, b) = relu(x)\nreturn a"),
        ("E0205", "return x, x"),
        ("E0205", "return x + split(concat([x, x], 0), 0, [N, N])"),
        ("E0102", "return relu(x, alpha=1.0)"),
        ("E0103", "return softmax(x, 0.5)"),
        ("E0104", "return sum(cumsum(x), 0)"),
        ("E0108", "return softmax(x, 1, axis=1)"),
        ("E1025", "return x + y"),
        ("E1001", "return x + permute(x, [1, 0])"),
        ("E1002", "return x + i"),
        ("E1002", "return exp(i)"),
        ("E1003", "return reshape(x, [N, N])"),
        ("E1004", "return permute(x, [0, 0])"),
        ("E1006", "return x.cumsum(2)"),
        ("E1013", "return reshape(x, [-1, -1])"),
        ("E1014", "return x.repeat(0, 3)"),
        ("E1304", "return x @ x"),
        ("E1306", "return cast(x, f16)"),
        ("E1306", "return permute(x, [1, 0])"),
        ("E1105", "return x + 1 / 0"),
        ("E1105", "return reshape(x, [floor(N/0), M])"),
        ("E0002", "return x +"),
        ("E0002", "return reshape(x, relu(x))"),
        ("E0101", "return x + const(0, g32[N])"),
    ],
)
def test_a_fault_has_its_code(code: str, body: str) -> None:
    with pytest.raises(Refused) as caught:
        front.read(MAIN.format(body))
    assert [d.code for d in caught.value.diags] == [code], [(d.code, d.why()) for d in caught.value.diags]
    assert caught.value.diags[0].span is not None


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("E0133", "graph f(x: f32[2]) -> (y: f32[2]) {\n return x\n}\n"),
        (
            "E0131",
            "graph fused(x: f32[2]) -> (y: f32[2]) {\n return x\n}\ngraph main(x: f32[2]) -> (y: f32[2]) {\n return x\n"
            "}\n",
        ),
        ("E0134", "graph main(x: f32[K]) -> (y: f32[2]) {\n return const(0, f32[2])\n}\n"),
        (
            "E0201",
            "graph main(x: f32[2]) -> (y: f32[2]) {\n return x\n}\ngraph main(x: f32[2]) -> (y: f32[2]) {\n "
            "return x\n}\n",
        ),
        ("E1301", "graph main(x: f32[2], x: f32[2]) -> (y: f32[2]) {\n return x\n}\n"),
        (
            "E0135",
            "graph f(x: f32[2]) -> (y: f32[2]) {\n return g(x)\n}\ngraph g(x: f32[2]) -> (y: f32[2]) {\n return "
            "f(x)\n}\n"
            "graph main(x: f32[2]) -> (y: f32[2]) {\n return f(x)\n}\n",
        ),
        (
            "E0204",
            "graph f(x: f32[2]) -> (y: f32[2]) {\n return x\n}\ngraph main(x: f32[2]) -> (y: f32[2]) {\n return "
            "f(x, x)\n"
            "}\n",
        ),
        (
            "E1304",
            "graph<N=1> f(x: f32[N], z: f32[N]) -> (y: f32[N]) {\n return x\n}\ngraph main(x: f32[2], z: f32[3]) "
            "-> (y: "
            "f32[2]) {\n return f(x, z)\n}\n",
        ),
        (
            "E1002",
            "graph<N=1> f(x: f16[N]) -> (y: f16[N]) {\n return x\n}\ngraph main(x: f32[2]) -> (y: f16[2]) {\n return "
            "f(x)\n}\n",
        ),
        (
            "E1012",
            "graph<N=1> f(x: f32[N]) -> (y: f32[N]) {\n return x\n}\ngraph main(x: f32[2, 2]) -> (y: f32[2]) {\n "
            "return "
            "f(x)\n}\n",
        ),
        (
            "E1306",
            "graph<N=1> f(x: f32[N]) -> (y: f32[N, N]) {\n return x\n}\ngraph main(x: f32[2]) -> (y: f32[2, 2]) {\n "
            "return f(x)\n}\n",
        ),
        ("E1311", "graph<i0=1> main(x: f32[i0]) -> (y: f32[i0]) {\n return x\n}\n"),
        ("E0136", "graph<N> main(x: f32[N]) -> (y: f32[N]) {\n return x\n}\n"),
        (
            "E0136",
            "graph<N=2> main(x: f32[N]) -> (y: f32[N]) {\n return x\n}\ngraph<M=1, K> f(x: f32[M, K]) -> (y: "
            "f32[M, K]) "
            "{\n return x\n}\n",
        ),
        (
            "E0105",
            "graph main(x: f32[2]) -> (y: f32[2]) {\n return x\n}\ngraph<N=1> f(x: f32[N]) -> (y: f32[N]) {\n return "
            "rely(x)\n}\n",
        ),
        (
            "E1306",
            "graph main(x: f32[2]) -> (y: f32[2]) {\n return x\n}\ngraph<N=1> f(x: f32[N]) -> (y: f32[N, N]) {\n "
            "return "
            "x\n}\n",
        ),
        (
            "E0132",
            "graph main(x: f32[2]) -> (y: f32[2]) {\n return x\n}\ngraph f(x: f32[2]) -> (y: f32[2]) {\n y = x\n}\n",
        ),
        (
            "E0105",
            "graph main(x: f32[2]) -> (y: f32[2]) {\n return f(x)\n}\ngraph f(x: f32[2]) -> (y: f32[2]) {\n return "
            "rely(x)\n}\n"
            "graph g(x: f32[2]) -> (y: f32[2]) {\n return f(x)\n}\n",
        ),  # said once
        (
            "E0135",
            "graph main(x: f32[2]) -> (y: f32[2]) {\n return x\n}\ngraph f(x: f32[2]) -> (y: f32[2]) {\n return "
            "f(x)\n}\n",
        ),
        ("E0102", "graph main(x: f32[2] {roll=param}) -> (y: f32[2]) {\n return x\n}\n"),
    ],
)
def test_a_faulty_program_has_its_code(code: str, text: str) -> None:
    with pytest.raises(Refused) as caught:
        front.read(text)
    assert [d.code for d in caught.value.diags] == [code]


def test_all_faults_of_a_program_in_one_run() -> None:
    with pytest.raises(Refused) as caught:
        front.read(MAIN.format("a = x + y\nb = a * 2.0\nc = reluu(x)\nd = x.cumsum(7)\nreturn a"))
    assert [d.code for d in caught.value.diags] == ["E1025", "E0105", "E1006"]


def said(text: str) -> tuple[str, str]:
    """Why a program is refused, and what to type."""
    with pytest.raises(Refused) as caught:
        front.read(text)
    return caught.value.diags[0].why(), caught.value.diags[0].suggestion()


def test_an_open_graph_is_told_at_the_end_of_the_text() -> None:
    text = MAIN.format("return x").rstrip().removesuffix("}")
    with pytest.raises(Refused) as caught:
        front.read(text)
    (found,) = caught.value.diags
    assert found.why().startswith("found the end of the text") and found.span.start == len(text.rstrip())


def test_help_names_graphs_of_the_program_and_the_common_shape() -> None:
    nearest = "graph<K=1> nearest(x: f32[K]) -> (y: f32[K]) {\n return x\n}\n"
    assert said(nearest + MAIN.format("return nearst(x)"))[1].startswith("near it: nearest")
    rows = "x.sum(axis=1, keepdims=true)"
    assert said(MAIN.format(f"return {rows} + {rows.replace('1', '0')}"))[1].endswith("[N, M])")
    assert said(MAIN.format("return x + zebra"))[1] == "known here: x, y, i"


def test_a_recursion_ends_at_ten() -> None:
    chain = "".join(f"graph<N=1> f{i}(x: f32[N]) -> (y: f32[N]) {{\n return f{i + 1}(x)\n}}\n" for i in range(9))
    read(
        chain
        + "graph<N=1> f9(x: f32[N]) -> (y: f32[N]) {\n return -x\n}\ngraph<N=1> main(x: f32[N]) -> (y: f32[N]) {\n "
        "return f0(x)\n}\n"
    )
    with pytest.raises(Refused) as caught:
        front.read(
            chain + "graph<N=1> f9(x: f32[N]) -> (y: f32[N]) {\n return f0(x)\n}\ngraph<N=1> main(x: f32[N]) -> (y: "
            "f32[N]) {\n return f0(x)\n}\n"
        )
    assert [d.code for d in caught.value.diags] == ["E0135"]


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10**9))
def test_every_random_graph_can_be_said(seed: int) -> None:
    module, _ = random_graph(seed)
    assert tiny.parse(tiny.show(front.read(dsl_of(module)))) == module


@pytest.mark.parametrize(
    "file",
    sorted(
        f for f in GOLDEN.rglob("*.out") if re.match("tinyir 1.0 tiny(?s:.*)\noutputs:", f.read_text(encoding="utf-8"))
    ),
    ids=lambda f: f.stem,
)
def test_every_golden_tiny_text_can_be_said(file: Any) -> None:
    text = file.read_text(encoding="utf-8").split("\n00_")[0]
    text = text if text.endswith("\n") else text + "\n"
    assert tiny.show(front.read(dsl_of(tiny.parse(text)))) == text


def test_odd_names_and_constants_survive() -> None:
    text = """tinyir 1.0 tiny

model "a b"
  in  graph       : bf16[n, 3] {role=state, mutability=mutable, layout=col_major}
  in  "x:0"       : i64[n, 3]
  out "y/1"       : bf16[n, 3]
  out inf         : fp64[2]
  sym n in 1..9
shapes small {n=2}
shapes default {n=3}

  %"c 1"         = CONST() {value=nan}                                  : bf16[n, 3]
  %from          = MAX(graph, %"c 1")                                   : bf16[n, 3]
  %inf           = CONST() {value=[-inf, -0.0]}                         : fp64[2]
  %return.1      = SCAN(%from) {op=SUM, axis=1, dtype=fp32, reverse=true} : fp32[n, 3]
  %none          = CAST(%return.1)                                      : bf16[n, 3]
  %true          = CMPLT("x:0", "x:0")                                  : bool[n, 3]
  %false         = RANDOM() {seed=3, offset=7}                          : bf16[n, 3]
  %x             = WHERE(%true, %none, %false)                          : bf16[n, 3]

outputs: "y/1"=%x, %inf
"""
    text = text.replace("%return.1 ", "%return.a ").replace("%return.1)", "%return.a)")
    module = tiny.parse(text)
    assert [d for d in tiny.check(module) if d.is_error] == []
    assert tiny.show(front.read(dsl_of(module))) == tiny.show(module)


@pytest.mark.parametrize("name", ["dsl_seed", "dsl_tuple", "dsl_network"])
def test_no_damaged_program_ends_in_a_trace(name: str) -> None:
    draw = random.Random(name)
    whole = split_case(GOLDEN / "front" / f"{name}.case")[1]
    words = [
        "x",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        ",",
        "=",
        "->",
        "return",
        "graph",
        "f32[N]",
        "1",
        "-1",
        "0.5",
        "%",
        "%a.b",
        ".sum(",
        "relu(",
        "<",
        "\n",
        "//",
        '"',
        "from a : b",
        "é",
    ]
    for _ in range(150):
        text = whole
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(len(text))
            text = (
                text[:at] + draw.choice(["", draw.choice(words), draw.choice(words)]) + text[at + draw.randint(0, 6) :]
            )
        try:
            module = front.read(text)
            if not [d for d in tiny.check(module) if d.is_error]:
                assert tiny.parse(tiny.show(module)) == module
        except Refused as fault:
            assert fault.diags


def test_a_graph_that_nothing_calls_leaves_no_trace() -> None:
    main = "graph<N=2> main(x: f32[N]) -> (y: f32[N]) {\n y = relu(x)\n return y\n}\n"
    other = "graph<N=2> other(x: f32[N], s: f32[]) -> (y: f32[N]) {\n from none\n y = exp(x) + s\n return y\n}\n"
    assert tiny.show(front.read(main)) == tiny.show(front.read(main + other)).replace("\n\n\n", "\n\n")


def test_a_shape_variable_may_say_that_it_has_no_default() -> None:
    module = front.read("graph<M=none, N=none> main(x: f32[N, M]) -> (y: f32[N, M]) {\n return x\n}\n")
    assert module.model.shape_sets == () and module.model.symbols() == ("N", "M")
    assert "graph<N=none, M=none> main" in dsl_of(module)


SEVERAL = {  # the ops with several outputs, and the last axis of the first; None: the pieces of a whole
    "LayerNorm": ("layer_norm(x, w, w)", 8),
    "TopK": ("top_k(x, k=2)", 2),
    "Pool": ("max_pool(x.unsqueeze(0).unsqueeze(0), 2, 2).reshape([2, 4])", 4),
    "Split": ("split(x, 1, 2)", None),
}


def test_every_op_with_several_outputs_is_known_here() -> None:
    assert {name for name, op in FRONT_OPS.items() if op.outputs != (1, 1)} == set(SEVERAL)


@pytest.mark.parametrize("name", SEVERAL)
def test_one_name_takes_the_first_output_where_nobody_must_take_more(name: str) -> None:
    """As a statement, in a return, in an expression and as an argument of a graph; pieces of a whole are all named."""
    call, last = SEVERAL[name]
    rows = 2 if name == "Pool" else 4
    kept = "graph<M=1, N=1> kept(v: f32[M, N]) -> (o: f32[M, N]) { return v }\n"
    bodies = (f"n = {call}\nreturn n", f"return {call}", f"return {call} + 0.0", f"return kept({call})")
    for body in bodies:
        text = f"{kept}graph main(x: f32[4, 8], w: f32[8]) -> (y: f32[{rows}, {last or 4}]) {{\n{body}\n}}"
        if last is None:
            with pytest.raises(Refused) as caught:
                front.read(text)
            assert {d.code for d in caught.value.diags} == {"E0205"}
        else:
            read(text)


def test_several_names_take_the_first_outputs_and_too_many_are_refused() -> None:
    head = "graph main(x: f32[4, 8]) -> (y: f32[4, 8], m: f32[4, 1]) {\n"
    read(head + "(y, m) = layer_norm(x)\nreturn y, m\n}")
    with pytest.raises(Refused) as caught:
        front.read(head + "(y, m, r, s) = layer_norm(x)\nreturn y, m\n}")
    assert [d.code for d in caught.value.diags] == ["E0205"]


def test_a_pool_is_its_values_or_its_values_and_places() -> None:
    head = "graph main(x: f32[1, 1, 4, 4]) -> (y: f32[1, 1, 2, 2]"
    read(head + ") { return max_pool(x, 2, 2) }")
    read(head + ", at: i64[1, 1, 2, 2]) {\n(p, at) = x.max_pool(2, 2)\nreturn p, at\n}")
