"""Core IR: the seed's examples against NumPy, the verifier's rules, the canonical form, and the way back from tiny
text."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyir import front
from tinyir.front import coreform, coreir
from tinyir.front.shorttypes import short
from tinyir.front.to_coreir import coreir_of
from tinyir.ir import tiny
from tinyir.ir.types import DTYPES
from tinyir.kit.diag import Refused
from tinyir.lower.tiny import canonical
from tinyir.play.tiny import play

from ..golden.cases import GOLDEN, split_case

NAMES = {d.numpy: short(d) for d in DTYPES.values()}


def type_of(array: np.ndarray) -> str:
    return f"{NAMES[array.dtype.name]}[{', '.join(map(str, array.shape))}]"


def text_of(op: str, result: str, *arrays: np.ndarray) -> str:
    """One instruction on inputs x0, x1, ..."""
    lines = [f'%{i} = Input() {{name="x{i}"}} : {type_of(a)}\n' for i, a in enumerate(arrays)]
    name, _, attrs = op.partition(" ")
    return (
        "".join(lines)
        + f"%9 = {name}({', '.join(f'%{i}' for i in range(len(arrays)))}) {attrs} : {result}\noutputs: y=%9\n"
    )


def run(op: str, wanted: np.ndarray, *arrays: np.ndarray) -> np.ndarray:
    text = text_of(op, type_of(wanted), *arrays)
    module = front.read(text)
    assert [d for d in tiny.check(module) if d.is_error] == []
    assert tiny.parse(tiny.show(module)) == module
    there = coreir_of(module)
    assert tiny.show(canonical(front.read(there))) == tiny.show(
        canonical(front.read(coreir.show(coreform.canonical(coreir.parse(there)))))
    )
    return play(module, {f"x{i}": a for i, a in enumerate(arrays)})["y"]


RNG = np.random.default_rng(5)


def floats(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Odd eighths within 3 of zero: their sums of products are exact in fp32, in any order, and none is zero."""
    return ((RNG.integers(-12, 12, shape) * 2 + 1) / 8).astype(dtype)


def conv2d(x: np.ndarray, w: np.ndarray, strides: tuple[int, int], pads: Any) -> np.ndarray:
    x = np.pad(x.astype(np.float64), ((0, 0), *pads, (0, 0)))
    size = [(x.shape[1 + a] - w.shape[a]) // strides[a] + 1 for a in range(2)]
    found = np.zeros((x.shape[0], *size, w.shape[3]))
    for i in range(size[0]):
        for j in range(size[1]):
            seen = x[:, i * strides[0] : i * strides[0] + w.shape[0], j * strides[1] : j * strides[1] + w.shape[1]]
            found[:, i, j] = np.tensordot(seen, w.astype(np.float64), 3)
    return found.astype(w.dtype)


T345, T1314, T234, T34, M34, M45, V4 = (
    floats(3, 4, 5),
    floats(1, 3, 1, 4),
    floats(2, 3, 4),
    floats(3, 4),
    floats(3, 4),
    floats(4, 5),
    floats(4),
)
IMAGE, FILTER = floats(2, 7, 6, 3), floats(3, 2, 3, 4)
I3, INDEX = np.array([[3, -7, 5], [2, 2, 2]], np.int32), np.array([[0, 2], [-1, 1]], np.int64)


@pytest.mark.parametrize(
    ("op", "wanted", "arrays"),
    [
        ("BinOp {op=Add}", T345 + M45[1:, :1].reshape(3, 1, 1), (T345, M45[1:, :1].reshape(3, 1, 1))),
        ("BinOp {op=Sub}", M34 - V4, (M34, V4)),
        ("BinOp {op=Mul}", I3 * I3, (I3, I3)),
        ("Sum {axes=[1], keepdims=false}", T345.sum(1), (T345,)),
        ("Sum {axes=[1], keepdims=true}", T345.sum(1, keepdims=True), (T345,)),
        ("Sum {axes=[], keepdims=true}", T345.sum(), (T345,)),
        ("Sum {axes=[-1]}", I3.sum(1, dtype=np.int32), (I3,)),
        ("Mean {axes=[1, 2]}", T234.mean((1, 2)), (T234,)),
        ("Mean {axes=[0], keepdims=true}", np.array([[2, -2, 3]], np.int32), (I3,)),
        ("Reshape {new_shape=[6, -1]}", T234.reshape(6, 4), (T234,)),
        ("Transpose {perm=[2, 0, 1]}", T234.transpose(2, 0, 1), (T234,)),
        ("Transpose {permutation=[1, 0]}", T34.T, (T34,)),
        ("ExpandDims {axes=[0, 2]}", T34.reshape(1, 3, 1, 4), (T34,)),
        ("ExpandDims {axes=[2, 0]}", T34.reshape(1, 3, 1, 4), (T34,)),
        ("ExpandDims {axes=[1, 1]}", T34.reshape(3, 1, 1, 4), (T34,)),
        ("Squeeze {axes=[0, 2]}", T1314.reshape(3, 4), (T1314,)),
        ("Index {indices=[1, 2, 3]}", T234[1, 2, 3], (T234,)),
        ("Index {indices=[-1, 0, -4]}", T234[-1, 0, -4], (T234,)),
        ("Slice {starts=[0, 1, 0], ends=[2, 3, 4], steps=[1, 1, 3]}", T234[0:2, 1:3, 0:4:3], (T234,)),
        ("Slice {starts=[1, 1, 0], ends=[1, 3, 4], steps=[1, 1, 1]}", T234[1:1, 1:3], (T234,)),
        ("Slice {starts=[0, 2, 3], ends=[2, 0, -5], steps=[1, -1, -2]}", T234[:, 2:0:-1, 3::-2], (T234,)),
        ("Gather", T34[INDEX], (T34, INDEX)),
        ("Dot", V4 @ V4, (V4, V4)),
        ("Dot", M34 @ V4, (M34, V4)),
        ("Dot", V4 @ M45, (V4, M45)),
        ("Dot", M34 @ M45, (M34, M45)),
        ("MatMul", T234 @ M45, (T234, M45)),
        ("MatMul", T234[:, None] @ np.stack([M45] * 3), (T234[:, None], np.stack([M45] * 3))),
        ("Conv2d {strides=[1, 1], padding=Valid}", conv2d(IMAGE, FILTER, (1, 1), ((0, 0), (0, 0))), (IMAGE, FILTER)),
        ("Conv2d {strides=[2, 1], padding=Same}", conv2d(IMAGE, FILTER, (2, 1), ((1, 1), (0, 1))), (IMAGE, FILTER)),
        (
            "Conv2d {strides=[1, 2], padding=[[2, 0], [1, 3]]}",
            conv2d(IMAGE, FILTER, (1, 2), ((2, 0), (1, 3))),
            (IMAGE, FILTER),
        ),
        ("Relu", np.maximum(T34, 0), (T34,)),
        ("Relu", np.maximum(I3, 0), (I3,)),
        ("Neg", -I3, (I3,)),
        ("Exp", np.exp(T34), (T34,)),
        ("Log", np.log(np.abs(T34) + 1), (np.abs(T34) + 1,)),
        ("Exp", np.exp(T34.astype(np.float16).astype(np.float32)).astype(np.float16), (T34.astype(np.float16),)),
        (
            "MatMul",
            (M34.astype(np.float16).astype(np.float32) @ M45.astype(np.float16).astype(np.float32)).astype(np.float16),
            (M34.astype(np.float16), M45.astype(np.float16)),
        ),
        ("Mean {axes=[1]}", M34.astype(np.float64).mean(1), (M34.astype(np.float64),)),
    ],
)
def test_an_instruction_gives_what_the_seed_says(op: str, wanted: Any, arrays: tuple[np.ndarray, ...]) -> None:
    wanted = np.asarray(wanted)
    given = run(op, wanted, *arrays)
    assert given.dtype == wanted.dtype and given.shape == wanted.shape
    np.testing.assert_allclose(
        given.astype(np.float64),
        wanted.astype(np.float64),
        rtol=2e-3 if wanted.dtype == np.float16 else 2e-5,
        atol=1e-5,
    )


@pytest.mark.parametrize(
    "op", ["MatMul", "Dot", "Conv2d", "Sum", "Mean", "Exp", "Log", "Gather", "Slice", "Transpose", "Relu", "Neg"]
)
def test_an_instruction_comes_back_as_itself(op: str) -> None:
    programs = {"MatMul": (T234, M45), "Dot": (M34, V4), "Conv2d": (IMAGE, FILTER), "Gather": (T34, INDEX)}
    attrs = {
        "Conv2d": " {strides=[2, 1], padding=Valid}",
        "Sum": " {axes=[1]}",
        "Mean": " {axes=[0]}",
        "Slice": " {starts=[0, 0], ends=[3, 2], steps=[2, 1]}",
        "Transpose": " {permutation=[1, 0]}",
    }.get(op, "")
    arrays = programs.get(op, (T34,))
    shapes = {
        "MatMul": "f32[2, 3, 5]",
        "Dot": "f32[3]",
        "Conv2d": "f32[2, 3, 5, 4]",
        "Sum": "f32[3]",
        "Mean": "f32[4]",
        "Gather": "f32[2, 2, 4]",
        "Slice": "f32[2, 2]",
        "Transpose": "f32[4, 3]",
    }
    text = text_of(op + attrs, shapes.get(op, "f32[3, 4]"), *arrays)
    there = coreir_of(front.read(text))
    assert f"= {op}(" in there
    assert tiny.show(canonical(front.read(there))).split("\n\n")[1:] != []
    assert [v.op for v in canonical(front.read(there)).values] == [v.op for v in canonical(front.read(text)).values]


X = '%0 = Input() {name="x"} : f32[2, 3]\n'


@pytest.mark.parametrize(
    ("code", "body"),
    [
        ("E0201", X + "%0 = Neg(%0) : f32[2, 3]\noutputs: %0\n"),
        ("E0202", X + "%1 = Neg(%7) : f32[2, 3]\noutputs: %1\n"),
        ("E0203", X + "%1 = Neg(%2) : f32[2, 3]\n%2 = Neg(%0) : f32[2, 3]\noutputs: %1\n"),
        ("E0202", X + "outputs: %4\n"),
        ("E0105", X + "%1 = Tanh(%0) : f32[2, 3]\noutputs: %1\n"),
        ("E0103", X + "%1 = BinOp(%0, %0) {op=Div} : f32[2, 3]\noutputs: %1\n"),
        ("E0204", X + "%1 = BinOp(%0) {op=Add} : f32[2, 3]\noutputs: %1\n"),
        ("E1010", X + "%1 = Neg(%0) : f32[3, 2]\noutputs: %1\n"),
        ("E1001", X + '%1 = Input() {name="z"} : f32[2]\n%2 = BinOp(%0, %1) {op=Add} : f32[2, 3]\noutputs: %2\n'),
        ("E1002", X + '%1 = Input() {name="z"} : f64[3]\n%2 = BinOp(%0, %1) {op=Add} : f64[2, 3]\noutputs: %2\n'),
        ("E1003", X + "%1 = Reshape(%0) {new_shape=[4, 2]} : f32[4, 2]\noutputs: %1\n"),
        ("E1003", X + "%1 = Reshape(%0) {new_shape=[4, -1]} : f32[4, 1]\noutputs: %1\n"),
        ("E1013", X + "%1 = Reshape(%0) {new_shape=[-1, -1]} : f32[2, 3]\noutputs: %1\n"),
        ("E1013", X + "%1 = Reshape(%0) {new_shape=[0, 3]} : f32[2, 3]\noutputs: %1\n"),
        ("E1004", X + "%1 = Transpose(%0) {permutation=[0, 0]} : f32[2, 2]\noutputs: %1\n"),
        ("E1004", X + "%1 = Transpose(%0) {permutation=[0]} : f32[2]\noutputs: %1\n"),
        ("E1006", X + "%1 = Sum(%0) {axes=[2]} : f32[2]\noutputs: %1\n"),
        ("E1007", X + "%1 = Sum(%0) {axes=[1, 1]} : f32[2]\noutputs: %1\n"),
        ("E1006", X + "%1 = ExpandDims(%0) {axes=[3]} : f32[2, 3, 1]\noutputs: %1\n"),
        ("E1014", X + "%1 = Squeeze(%0) {axes=[1]} : f32[2]\noutputs: %1\n"),
        ("E1101", X + "%1 = Index(%0) {indices=[1]} : f32[]\noutputs: %1\n"),
        ("E1020", X + "%1 = Index(%0) {indices=[1, 3]} : f32[]\noutputs: %1\n"),
        ("E1101", X + "%1 = Slice(%0) {starts=[0], ends=[2], steps=[1]} : f32[2, 3]\noutputs: %1\n"),
        ("E1104", X + "%1 = Slice(%0) {starts=[0, 0], ends=[2, 3], steps=[1, 0]} : f32[2, 3]\noutputs: %1\n"),
        ("E1102", X + "%1 = Slice(%0) {starts=[0, 0], ends=[3, 3], steps=[1, 1]} : f32[3, 3]\noutputs: %1\n"),
        ("E1102", X + "%1 = Slice(%0) {starts=[0, -4], ends=[2, 3], steps=[1, 1]} : f32[2, 3]\noutputs: %1\n"),
        ("E1102", X + "%1 = Slice(%0) {starts=[3, 0], ends=[3, 3], steps=[1, 1]} : f32[0, 3]\noutputs: %1\n"),
        ("E1102", X + "%1 = Slice(%0) {starts=[0, 3], ends=[2, 0], steps=[1, -1]} : f32[2, 2]\noutputs: %1\n"),
        ("E1102", X + "%1 = Slice(%0) {starts=[0, 2], ends=[2, -5], steps=[1, -1]} : f32[2, 3]\noutputs: %1\n"),
        (
            "E1102",
            '%0 = Input() {name="x"} : f32[B]\n%1 = Slice(%0) {starts=[0], ends=[B + 1], steps=[1]} : f32[B + 1]\n'
            "outputs: %1\n",
        ),
        ("E1002", X + "%1 = Gather(%0, %0) : f32[2, 3, 3]\noutputs: %1\n"),
        ("E1304", X + "%1 = MatMul(%0, %0) : f32[2, 3]\noutputs: %1\n"),
        ("E1012", X + '%1 = Input() {name="z"} : f32[3]\n%2 = MatMul(%0, %1) : f32[2]\noutputs: %2\n'),
        ("E1012", X + '%1 = Input() {name="z"} : f32[1, 3, 2]\n%2 = Dot(%0, %1) : f32[2, 2]\noutputs: %2\n'),
        ("E1012", X + "%1 = Conv2d(%0, %0) {strides=[1, 1], padding=Valid} : f32[2, 3]\noutputs: %1\n"),
        ("E0107", X + "%1 = Conv2d(%0, %0) {strides=[0, 1], padding=Valid} : f32[2, 3]\noutputs: %1\n"),
        ("E0103", X + "%1 = Conv2d(%0, %0) {strides=[1, 1], padding=Full} : f32[2, 3]\noutputs: %1\n"),
        (
            "E1304",
            '%0 = Input() {name="x"} : f32[1, 5, 5, 3]\n%1 = Input() {name="w"} : f32[3, 3, 2, 4]\n%2 = Conv2d(%0, %1) '
            "{strides=[1, 1], padding=Valid} : f32[1, 3, 3, 4]\noutputs: %2\n",
        ),
        ("E1002", '%0 = Input() {name="x"} : i32[2]\n%1 = Exp(%0) : i32[2]\noutputs: %1\n'),
        ("E1009", "%0 = ConstTensor() {data=[1, 2], dtype=i32, shape=[3]} : i32[3]\noutputs: %0\n"),
        ("E1026", "%0 = ConstTensor() {data=[1, 300], dtype=i8, shape=[2]} : i8[2]\noutputs: %0\n"),
        ("E0107", "%0 = ConstI64() {value=9223372036854775808} : i64[]\noutputs: %0\n"),
        ("E1010", "%0 = ConstI64() {value=1} : i32[]\noutputs: %0\n"),
        ("E0111", '%0 = Input() {name="x"} : f32[0]\noutputs: %0\n'),
        ("E1301", X + '%1 = Input() {name="x"} : f32[2]\noutputs: %1\n'),
        ("E1301", X + "outputs: y=%0, y=%0\n"),
        ("E0101", '%0 = Input() {name="x"} : f31[2]\noutputs: %0\n'),
        ("E0002", X + "%1 = Neg %0 : f32[2, 3]\n"),
        ("E0102", X + "%1 = Neg(%0) {axis=1} : f32[2, 3]\noutputs: %1\n"),
        ("E0104", X + "%1 = BinOp(%0, %0) : f32[2, 3]\noutputs: %1\n"),
    ],
)
def test_the_verifier_refuses(code: str, body: str) -> None:
    with pytest.raises(Refused) as caught:
        front.read(body)
    assert [d.code for d in caught.value.diags] == [code]
    assert all(d.span is not None for d in caught.value.diags)


def test_the_canonical_form_is_fixed_and_lossless() -> None:
    text = (
        "%10 = ConstF32() {value=0.1} : f32[]\n%11 = ConstF32() {value=3.0} : f32[]\n%12 = BinOp(%11, %10) "
        "{op=Mul} : f32[]\n"
        '%3 = Input() {name="x"} : f32[N, 3]\n%4 = Exp(%3) : f32[N, 3]\n%5 = BinOp(%4, %12) {op=Add} : f32[N, '
        "3]\n%6 = BinOp(%5, %4) {op=Sub} : f32[N, 3]\n"
        "%7 = Neg(%3) : f32[N, 3]\noutputs: y=%6\n"
    )
    assert coreir.show(coreform.canonical(coreir.parse(text))) == (
        '%0 = Input() {name="x"} : f32[N, 3]\n%1 = ConstF32() {value=0.3} : f32[]\n%2 = Exp(%0) : f32[N, 3]\n'
        "%3 = BinOp(%1, %2) {op=Add} : f32[N, 3]\n%4 = BinOp(%3, %2) {op=Sub} : f32[N, 3]\noutputs: y=%4\n"
    )


def test_what_is_undefined_is_not_folded() -> None:
    big = "%0 = ConstI64() {value=9223372036854775807} : i64[]\n%1 = BinOp(%0, %0) {op=Add} : i64[]\noutputs: %1\n"
    assert coreir.show(coreform.canonical(coreir.parse(big))) == big


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["Add", "Sub", "Mul", "Neg", "Relu", "Const"]), st.integers(0, 99), st.integers(0, 99)
        ),
        max_size=12,
    )
)
def test_canonical_text_is_a_fixed_point_and_keeps_the_numbers(steps: list[tuple[str, int, int]]) -> None:
    lines = ['%0 = Input() {name="x"} : f32[3]', '%1 = Input() {name="z"} : f32[3]']
    for op, a, b in steps:
        n = len(lines)
        if op == "Const":
            lines.append(f"%{n} = ConstTensor() {{data=[{a}, -{b}, 0.5], dtype=f32, shape=[3]}} : f32[3]")
        elif op in ("Neg", "Relu"):
            lines.append(f"%{n} = {op}(%{a % n}) : f32[3]")
        else:
            lines.append(f"%{n} = BinOp(%{a % n}, %{b % n}) {{op={op}}} : f32[3]")
    text = "\n".join(lines) + f"\noutputs: y=%{len(lines) - 1}\n"
    found = coreir.show(coreform.canonical(coreir.parse(text)))
    assert coreir.show(coreir.parse(found)) == found
    assert coreir.show(coreform.canonical(coreir.parse(found))) == found
    arrays = {"x": np.array([-1, 0, 2.5], np.float32), "z": np.array([3, -2, 0.25], np.float32)}
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(play(front.read(text), arrays)["y"], play(front.read(found), arrays)["y"])


def test_no_damaged_text_ends_in_a_trace() -> None:
    draw = random.Random(7)
    whole = split_case(GOLDEN / "front" / "coreir_every.case")[1]
    words = [
        "%0",
        "%99",
        "(",
        ")",
        "{",
        "}",
        "=",
        ":",
        "f32[2]",
        "f32[",
        "axes=[0]",
        "-1",
        "0",
        "1e400",
        '"',
        "outputs:",
        "\n",
        "#",
        "Neg",
        "é",
        "[[",
        "B",
        "inf",
    ]
    for _ in range(200):
        text = whole
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(len(text))
            text = (
                text[:at] + draw.choice(["", draw.choice(words), draw.choice(words)]) + text[at + draw.randint(0, 6) :]
            )
        try:
            module = coreir.parse(text)
            assert coreir.parse(coreir.show(module)) == module
            coreform.canonical(module)
            coreir_of(front.read(text))
        except Refused as fault:
            assert fault.diags
