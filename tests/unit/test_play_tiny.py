"""Playback of tiny text: each op against NumPy, sizes bound from arrays, and the errors of the ABI."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyir.ir import tiny
from tinyir.ir.evaluate import convert
from tinyir.ir.types import DTYPES
from tinyir.kit.diag import Refused
from tinyir.play import contraction
from tinyir.play.arrays import bind_symbols
from tinyir.play.indirect import philox
from tinyir.play.tiny import play


def run(signature: str, body: str, _symbols: dict[str, int] | None = None, **arrays: Any) -> np.ndarray:
    """The output y of a program whose last value is %y."""
    text = f"tinyir 1.0 tiny\n\nmodel m\n{signature}\n{body}\noutputs: %y\n"
    module = tiny.parse(text)
    assert [(d.code, d.why()) for d in tiny.check(module) if d.is_error] == []
    return play(module, arrays, _symbols)["y"]


def one(op: str, source: str, result: str, x: np.ndarray) -> np.ndarray:
    return run(f"  in x : {source}\n  out y : {result}", f"%y = {op} : {result}", x=x)


X = np.arange(24, dtype=np.int32).reshape(2, 3, 4)


def test_movement_against_numpy() -> None:
    equal = np.testing.assert_array_equal
    equal(one("RESHAPE(x)", "i32[2, 3, 4]", "i32[6, 4]", X), X.reshape(6, 4))
    equal(one("PERMUTE(x) {perm=[2, 0, 1]}", "i32[2, 3, 4]", "i32[4, 2, 3]", X), X.transpose(2, 0, 1))
    equal(one("EXPAND(x)", "i32[3, 1]", "i32[2, 3, 4]", X[0, :, :1]), np.broadcast_to(X[0, :, :1], (2, 3, 4)))
    equal(
        one("EXPAND(x) {broadcast_dimensions=[0, 2]}", "i32[2, 4]", "i32[2, 3, 4]", X[:, 0]),
        np.broadcast_to(X[:, :1], (2, 3, 4)),
    )
    equal(
        one("PAD(x) {pad=[[1, 0], [0, 2], [0, 0]], value=7}", "i32[2, 3, 4]", "i32[3, 5, 4]", X),
        np.pad(X, ((1, 0), (0, 2), (0, 0)), constant_values=7),
    )
    equal(one("PAD(x) {pad=[[0, 0], [-1, 1], [-2, -2]]}", "i32[2, 3, 4]", "i32[2, 3, 0]", X), np.zeros((2, 3, 0)))
    equal(
        one("PAD(x) {pad=[[0, 0], [-1, 1], [2, -3]]}", "i32[2, 3, 4]", "i32[2, 3, 3]", X),
        np.pad(X, ((0, 0), (0, 1), (2, 0)))[:, 1:, :3],
    )
    equal(
        one("SHRINK(x) {lo=[0, 1, 0], hi=[1, 3, 4], step=[1, 1, 3]}", "i32[2, 3, 4]", "i32[1, 2, 2]", X),
        X[:1, 1:3, ::3],
    )
    equal(one("FLIP(x) {axes=[0, 2]}", "i32[2, 3, 4]", "i32[2, 3, 4]", X), X[::-1, :, ::-1])
    x = np.array([0, 10, 20, 30, 40], np.int32)
    equal(one("VIEW(x) {index_map=[floor((i0 - 3)/2) + 2]}", "i32[5]", "i32[8]", x), [0, 10, 10, 20, 20, 30, 30, 40])
    equal(one('VALID(x) {guard="1 <= i0 < 4", value=-1}', "i32[5]", "i32[5]", x), [-1, 10, 20, 30, -1])
    equal(one("VIEW(x) {index_map=[2*i0 + i1]}", "i32[5]", "i32[2, 3]", x), [[0, 10, 20], [20, 30, 40]])
    equal(one("VIEW(x) {index_map=[i1]}", "i32[2]", "i32[0, 2]", x[:2]), np.zeros((0, 2)))


def test_a_padded_axis_split_and_merged_again_keeps_its_zeros() -> None:
    x = np.arange(50, dtype=np.int32).reshape(2, 5, 5)
    body = (
        "%p = PAD(x) {pad=[[2, 0], [0, 0], [0, 0]]} : i32[4, 5, 5]\n%s = RESHAPE(%p) : i32[2, 2, 5, 5]\n%y = "
        "RESHAPE(%s) : i32[4, 5, 5]"
    )
    y = run("  in x : i32[2, 5, 5]\n  out y : i32[4, 5, 5]", body, x=x)
    assert y.sum() == 1225 and y[2, 0, :3].tolist() == [0, 1, 2] and y[3, 4, 4] == 49


def test_reductions_their_neutral_elements_and_nan() -> None:
    x = np.array([[3, 1, 2], [-1, -1, -5]], np.int32)
    for op, wanted in (
        ("SUM", [6, -7]),
        ("PROD", [6, -5]),
        ("MAX", [3, -1]),
        ("MIN", [1, -5]),
        ("ARGMAX", [0, 0]),
        ("ARGMIN", [1, 2]),
    ):
        assert one(f"REDUCE(x) {{op={op}, axes=[1], dtype=i32}}", "i32[2, 3]", "i32[2]", x).tolist() == wanted
    empty = np.zeros((2, 0), np.int32)
    for op, wanted in (("SUM", 0), ("PROD", 1), ("MAX", -(2**31)), ("MIN", 2**31 - 1), ("ARGMAX", 0)):
        assert one(f"REDUCE(x) {{op={op}, axes=[1], dtype=i32}}", "i32[2, 0]", "i32[2]", empty).tolist() == [wanted] * 2
    assert one("REDUCE(x) {op=MAX, axes=[0], dtype=fp32}", "fp32[0]", "fp32[]", np.zeros(0, np.float32)) == -np.inf
    nan = np.array([1, np.nan, 3], np.float32)
    assert np.isnan(one("REDUCE(x) {op=MAX, axes=[0], dtype=fp32}", "fp32[3]", "fp32[]", nan))
    assert one("REDUCE(x) {op=ARGMAX, axes=[0], dtype=i64}", "fp32[3]", "i64[]", nan) == 1
    assert one("REDUCE(x) {op=SUM, axes=[0], dtype=i8}", "i8[3]", "i8[]", np.array([100, 100, 100], np.int8)) == 44


def test_a_half_sum_does_not_overflow_on_its_way() -> None:
    x = np.full(2048, 64, np.float16)
    assert one("REDUCE(x) {op=SUM, axes=[0], dtype=fp32}", "fp16[2048]", "fp32[]", x) == 131072
    x = np.tile(np.array([60000, -60000], np.float16), 512)
    assert one("REDUCE(x) {op=SUM, axes=[0], dtype=fp16}", "fp16[1024]", "fp16[]", x) == 0


CONTRACTION = "  in a : {t}[M, K]\n  in b : {t}[K, N]\n  out y : {r}[M, N]"
CHAIN = """%a3 = RESHAPE(a) : {t}[M, 1, K]
%bt = PERMUTE(b) {{perm=[1, 0]}} : {t}[N, K]
%b3 = RESHAPE(%bt) : {t}[1, N, K]
%ax = EXPAND(%a3) : {t}[M, N, K]
%bx = EXPAND(%b3) : {t}[M, N, K]
%p = MUL(%ax, %bx) : {m}[M, N, K]
%y = REDUCE(%p) {{op=SUM, axes=[2], dtype={r}}} : {r}[M, N]"""


def contract(a: np.ndarray, b: np.ndarray, t: str, m: str, r: str) -> np.ndarray:
    return run(CONTRACTION.format(t=t, r=r), CHAIN.format(t=t, m=m, r=r), a=a, b=b)


def test_a_product_that_is_only_summed_is_never_formed() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((1500, 1500)).astype(np.float16), rng.standard_normal((1500, 1500)).astype(np.float16)
    start = time.perf_counter()
    y = contract(a, b, "fp16", "fp32", "fp32")  # the product would have 3.4e9 elements
    assert time.perf_counter() - start < 10
    np.testing.assert_allclose(y, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-4, atol=1e-3)


def test_a_product_that_is_rounded_first_is_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contraction, "BLOCK", 100)
    rng = np.random.default_rng(0)
    # 14 bits a product, of which fp16 keeps 11
    a, b = (((rng.integers(-64, 64, shape) * 2 + 1) / 64).astype(np.float16) for shape in ((7, 30), (30, 5)))
    wanted = (a[:, None, :] * b.T[None]).astype(np.float32).sum(-1)
    assert (wanted != a.astype(np.float32) @ b.astype(np.float32)).any()
    np.testing.assert_array_equal(
        contract(a, b, "fp16", "fp16", "fp32"), wanted
    )  # of numbers so short, every sum is exact


def test_a_product_with_other_users_too() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    body = (
        "%p = MUL(x, x) : fp32[2, 3]\n%s = REDUCE(%p) {op=SUM, axes=[1], dtype=fp32} : fp32[2]\n%r = RESHAPE(%s) : "
        "fp32[2, 1]\n%e = EXPAND(%r) : fp32[2, 3]\n%y = SUB(%p, %e) : fp32[2, 3]"
    )
    np.testing.assert_array_equal(
        run("  in x : fp32[2, 3]\n  out y : fp32[2, 3]", body, x=x), x * x - (x * x).sum(1, keepdims=True)
    )


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_sums_of_products_of_any_broadcast_views(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    axes = [i for i in range(len(shape)) if data.draw(st.booleans())] or [0]
    sides = [[1 if data.draw(st.booleans()) else d for d in shape] for _ in range(2)]
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    x, y = (rng.integers(-4, 5, s).astype(np.float32) for s in sides)
    dims = lambda s: ", ".join(map(str, s))  # noqa: E731
    kept = [d for i, d in enumerate(shape) if i not in axes]
    body = (
        f"%x = EXPAND(x) : fp32[{dims(shape)}]\n%zz = EXPAND(z) : fp32[{dims(shape)}]\n%p = MUL(%x, %zz) : "
        f"fp32[{dims(shape)}]\n"
        f"%y = REDUCE(%p) {{op=SUM, axes=[{dims(axes)}], dtype=fp32}} : fp32[{dims(kept)}]"
    ).replace("%x", "%xx")
    found = run(
        f"  in x : fp32[{dims(sides[0])}]\n  in z : fp32[{dims(sides[1])}]\n  out y : fp32[{dims(kept)}]",
        body,
        x=x,
        z=y,
    )
    np.testing.assert_array_equal(found, np.broadcast_to(x * y, shape).sum(tuple(axes)))


def test_gather_and_scatter_at_the_edges() -> None:
    p = np.array([10, 20, 30, 40, 50], np.float32)
    index = np.array([0, -1, -5, 4, 5, -6, 2], np.int32)
    found = run(
        "  in x : fp32[5]\n  in i : i32[7]\n  out y : fp32[7]", "%y = GATHER(x, i) {axis=0} : fp32[7]", x=p, i=index
    )
    assert found.tolist() == [10, 50, 10, 50, 0, 0, 30]
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    i = np.array([[3, 0], [1, -1]], np.int64)
    body = "%y = GATHER(x, i) {axis=1} : i32[3, 2, 2]"
    np.testing.assert_array_equal(
        run("  in x : i32[3, 4]\n  in i : i64[2, 2]\n  out y : i32[3, 2, 2]", body, x=x, i=i), x[:, i]
    )
    u = np.ones((3, 3), np.int32)
    signature = "  in x : i32[3, 4]\n  in i : i32[3]\n  in u : i32[3, 3]\n  out y : i32[3, 4]"
    for op, wanted in (("SUM", [2, 1, 2, 4]), ("UPDATE", [1, 1, 2, 1]), ("MAX", [1, 1, 2, 3])):
        found = run(
            signature,
            f"%y = SCATTER(x, i, u) {{axis=1, op={op}}} : i32[3, 4]",
            x=x,
            i=np.array([0, 0, -1], np.int32),
            u=u,
        )
        assert found[0].tolist() == wanted
    dropped = run(
        signature, "%y = SCATTER(x, i, u) {axis=1, op=SUM} : i32[3, 4]", x=x, i=np.array([4, -5, 9], np.int32), u=u
    )
    np.testing.assert_array_equal(dropped, x)


def test_scans_both_ways_and_exclusive() -> None:
    x = np.array([1, 2, 3], np.int32)
    for attrs, wanted in (
        ("", [1, 3, 6]),
        (", reverse=true", [6, 5, 3]),
        (", exclusive=true", [0, 1, 3]),
        (", reverse=true, exclusive=true", [5, 3, 0]),
    ):
        assert one(f"SCAN(x) {{op=SUM, axis=0, dtype=i32{attrs}}}", "i32[3]", "i32[3]", x).tolist() == wanted


def test_philox_gives_the_published_words() -> None:
    # Random123 kat_vectors: philox4x32 10, counter and key all zero; counter 0xffffffff x4 is beyond a 64-bit counter
    assert [int(w) for w in philox(np.zeros(1, np.uint64), 0)[:, 0]] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def test_random_numbers_are_uniform_and_repeat() -> None:
    first = run("  out y : fp32[4000]", "%y = RANDOM() {seed=3} : fp32[4000]")
    assert (first == run("  out y : fp32[4000]", "%y = RANDOM() {seed=3} : fp32[4000]")).all()
    assert 0 <= first.min() and first.max() < 1 and abs(first.mean() - 0.5) < 0.02 and len(np.unique(first)) > 3990
    moved = run("  out y : fp32[10]", "%y = RANDOM() {seed=3, offset=2} : fp32[10]")
    np.testing.assert_array_equal(moved, first[8:18])


def test_leaves() -> None:
    assert run("  out y : i32[2, 3]", "%y = IOTA() {axis=1} : i32[2, 3]").tolist() == [[0, 1, 2]] * 2
    assert run("  out y : fp16[2]", "%y = CONST() {value=[0.1, -inf]} : fp16[2]").tolist() == [np.float16(0.1), -np.inf]
    body = "%c = CONST() {value=3*N} : i32[N]\n%y = ADD(x, %c) : i32[N]"
    assert run("  in x : i32[N]\n  out y : i32[N]", body, x=np.array([1, 2], np.int32)).tolist() == [7, 8]


# --- the ABI


def refused(arrays: dict[str, Any], **symbols: int) -> list[tuple[str, str]]:
    text = (
        "tinyir 1.0 tiny\n\nmodel m\n  in a : fp32[M, 2*K + 1]\n  in b : fp32[K]\n  out y : fp32[M, Z]\n  sym M in "
        "2..8\n\n%s = CONST() {value=0.0} : fp32[M, Z]\noutputs: y=%s\n"
    )
    with pytest.raises(Refused) as caught:
        play(tiny.parse(text), arrays, symbols)
    assert all(d.why() and d.why("ja") for d in caught.value.diags)
    return [(d.code, d.at) for d in caught.value.diags]


def test_the_abi_names_every_fault() -> None:
    a, b = np.zeros((3, 7), np.float32), np.zeros(3, np.float32)
    assert refused({"a": a}, Z=1) == [("E1701", "b")]
    assert refused({"a": a, "b": b, "c": b}, Z=1) == [("E1704", "c")]
    assert refused({"a": a.astype(np.float64), "b": b.astype(np.int32)}, Z=1) == [("E1702", "a"), ("E1702", "b")]
    assert refused({"a": a, "b": b[:2]}, Z=1) == [("E1703", "b")]
    assert refused({"a": a[:, :6], "b": b}, Z=1) == [("E1703", "a")]
    assert refused({"a": a[0], "b": b}, Z=1) == [("E1703", "a")]
    assert refused({"a": np.zeros((9, 7), np.float32), "b": b}, Z=1) == [("E1706", "M")]
    assert refused({"a": a, "b": b}) == [("E1705", "Z")]


def test_symbols_are_solved_from_expressions() -> None:
    text = "tinyir 1.0 tiny\n\nmodel m\n  in a : fp32[2*K + 1, K*M]\n  out y : fp32[2*K + 1, K*M]\n\noutputs: y=a\n"
    module = tiny.parse(text)
    assert bind_symbols(module.model, {"a": np.zeros((7, 12))}) == {"K": 3, "M": 4}
    a = np.ones((7, 12), np.float32)
    y = play(module, {"a": a})["y"]
    assert (y == a).all() and not np.shares_memory(y, a)


def test_a_run_too_small_for_the_model_is_refused() -> None:
    text = (
        "tinyir 1.0 tiny\n\nmodel m\n  in x : fp32[N]\n  out y : fp32[N - 3]\n\n%y = SHRINK(x) {lo=[3], hi=[N]} : "
        "fp32[N - 3]\noutputs: %y\n"
    )
    module = tiny.parse(text)
    assert play(module, {"x": np.arange(5, dtype=np.float32)})["y"].tolist() == [3, 4]
    with pytest.raises(Refused) as caught:
        play(module, {"x": np.zeros(2, np.float32)})
    assert caught.value.diags[0].code == "E1708"


@pytest.mark.parametrize("name", ["bf16", "fp8e4m3", "fp8e5m2"])
def test_narrow_floats_round_once(name: str) -> None:
    pytest.importorskip("ml_dtypes")
    dtype = DTYPES[name]
    x = np.array([1.0, 3.0, 0.1, -2.5], np.float32)
    narrow = convert(x, dtype)
    body = f"%c = CAST(x) : {name}[4]\n%d = MUL(%c, %c) : {name}[4]\n%y = CAST(%d) : fp32[4]"
    found = run("  in x : fp32[4]\n  out y : fp32[4]", body, x=x)
    np.testing.assert_array_equal(found, convert(narrow.astype(np.float32) ** 2, dtype).astype(np.float32))
