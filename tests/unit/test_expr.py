"""ir.expr: canonical integer expressions."""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyir.ir.expr import Bound, Expr
from tinyir.ir.read import read_expr, read_guard
from tinyir.kit.diag import Refused

NAMES = ("i0", "i1", "M", "N")
leaves = st.one_of(st.integers(-9, 9).map(Expr.of), st.sampled_from(NAMES).map(Expr.of))
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: p[0] + p[1]),
        st.tuples(inner, inner).map(lambda p: p[0] - p[1]),
        st.tuples(inner, inner).map(lambda p: p[0] * p[1]),
        st.tuples(inner, st.integers(1, 12)).map(lambda p: p[0] // p[1]),
        st.tuples(inner, st.integers(1, 12)).map(lambda p: p[0].ceildiv(p[1])),
    ),
    max_leaves=8,
)
points = st.fixed_dictionaries({n: st.integers(-20, 20) for n in NAMES})


@given(expressions)
def test_text_round_trip(e: Expr) -> None:
    assert read_expr(str(e)) == e
    assert str(read_expr(str(e))) == str(e)


def test_places_in_shapes_round_trip() -> None:
    """Numbers that are parted by one shape after another, as reshapes part them."""
    for sizes in itertools.product((2, 3, 6, 9), repeat=3):
        for ways in itertools.product((0, 1), repeat=3):
            e = Expr.of("i0") + 9 * Expr.of("i1")
            for size, way in zip(sizes, ways):
                e = e - e // size * size if way else e // size
            assert read_expr(str(e)) == e
            assert e.evaluate({"i0": 7, "i1": 31}) == read_expr(str(e)).evaluate({"i0": 7, "i1": 31})


@given(expressions, expressions, points, st.integers(1, 12))
def test_arithmetic_is_integer_arithmetic(a: Expr, b: Expr, at: dict[str, int], d: int) -> None:
    x, y = a.evaluate(at), b.evaluate(at)
    assert (a + b).evaluate(at) == x + y
    assert (a - b).evaluate(at) == x - y
    assert (a * b).evaluate(at) == x * y
    assert (a // d).evaluate(at) == x // d
    assert a.ceildiv(d).evaluate(at) == -(-x // d)


@given(expressions, points)
def test_substitution_commutes_with_evaluation(e: Expr, at: dict[str, int]) -> None:
    assert e.substitute(at).constant == e.evaluate(at)
    half = {"i0": at["i0"], "M": at["M"]}
    assert e.substitute(half).evaluate(at) == e.evaluate(at)


@pytest.mark.parametrize(
    "written, canonical",
    [
        ("K + 2*i0 - 1 - K", "2*i0 - 1"),
        ("floor((2*i0 + 4)/2)", "i0 + 2"),
        ("floor((4*i0 + 2)/6)", "floor((2*i0 + 1)/3)"),
        ("floor((7*i0 + 3)/2)", "3*i0 + floor((i0 + 1)/2) + 1"),
        ("ceil(M/64)", "floor((M + 63)/64)"),
        ("M*N - N*M", "0"),
        ("-i0 + 3", "3 - i0"),
        ("i10 + i9", "i9 + i10"),
        ("floor(M*N/M)", "N"),
        ("floor(-7/2)", "-4"),
        ("-i0 - 1 + M", "M - i0 - 1"),
    ],
)
def test_canonical_spelling(written: str, canonical: str) -> None:
    assert str(read_expr(written)) == canonical


@pytest.mark.parametrize(
    "text", ["i0 - 1 < W", "0 <= 2*i0 + k0 - 1 < H", "0 <= i1 - i0", "i0 = 3", "0 <= i0 < M and i1 < N"]
)
def test_guards_round_trip(text: str) -> None:
    assert " and ".join(map(str, read_guard(text))) == text


def test_a_bound_holds_between_its_sides() -> None:
    bound = Bound(Expr.of("i0") - 1, Expr.of(0), Expr.of("W"))
    assert [i for i in range(6) if bound.holds({"i0": i, "W": 3})] == [1, 2, 3]


@pytest.mark.parametrize(
    "text, code", [("floor(M/0)", "E1105"), ("i0 +", "E0002"), ("(i0", "E0002"), ("i0 % 2", "E0002")]
)
def test_what_is_refused(text: str, code: str) -> None:
    with pytest.raises(Refused) as refused:
        read_expr(text)
    assert refused.value.diags[0].code == code
    assert refused.value.diags[0].span is not None


def test_what_another_process_has_read_is_the_same_expression() -> None:
    """Each process hashes names in a way of its own, and like terms are found by their hashes."""
    e = (Expr.of("N") + 3) // 4
    code = (
        "import pickle, sys; from tinyir.ir.expr import Expr; e = pickle.load(sys.stdin.buffer); f = (Expr.of('N') + "
        "3) // 4; print(e - f, hash(e) == hash(f), 2 * e)"
    )
    found = [
        subprocess.run(
            [sys.executable, "-c", code],
            input=pickle.dumps(e),
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in "12"
    ]
    assert found == [b"0 True 2*floor((N + 3)/4)\n"] * 2


@pytest.mark.parametrize("divisor", [0, -1, -4])
def test_a_divisor_that_becomes_a_number_below_1_is_refused(divisor: int) -> None:
    with pytest.raises(ZeroDivisionError):
        ((2 * Expr.of("x") + 3) // "d").substitute({"d": divisor})
