"""The small prover of gpu text never claims what does not hold, and the C of an integer is that integer."""

from __future__ import annotations

import itertools
import re

from hypothesis import given
from hypothesis import strategies as st

from tinyir.ir.expr import Bound, Expr
from tinyir.ir.gpu.prove import Facts
from tinyir.ir.intervals import INT_MAX, Interval, interval_of
from tinyir.lower.cu.index import Integers

NAMES = ("a", "b", "n")
RANGES = {"a": Interval(0, 6), "b": Interval(-3, 4), "n": Interval(1, 5)}


@st.composite
def exprs(draw: st.DrawFn, depth: int = 3) -> Expr:
    """Integer expressions over a, b and n with positive divisors."""
    kind = draw(st.sampled_from(["name", "int", "add", "sub", "mul", "floor", "mod"] if depth else ["name", "int"]))
    if kind == "name":
        return Expr.of(draw(st.sampled_from(NAMES)))
    if kind == "int":
        return Expr.of(draw(st.integers(-4, 9)))
    left, right = draw(exprs(depth - 1)), draw(exprs(depth - 1))
    if kind in ("floor", "mod"):
        divisor = Expr.of(draw(st.sampled_from(["n", 2, 3, 8])))
        whole = left // divisor
        return whole if kind == "floor" else left - divisor * whole
    return left + right if kind == "add" else left - right if kind == "sub" else left * right


def points() -> itertools.product:
    """Every point of the ranges."""
    return itertools.product(*(range(RANGES[n].low, RANGES[n].high + 1) for n in NAMES))


@given(exprs(), exprs(), exprs(2), exprs(2))
def test_what_is_proven_holds(expr: Expr, limit: Expr, guarded: Expr, bound: Expr) -> None:
    guard = (Bound(guarded, Expr.of(0), bound),)
    facts = Facts(dict(RANGES)).with_guard(guard)
    below, at_least = facts.is_below(expr, limit), facts.is_at_least(expr, limit)
    for point in points():
        at = dict(zip(NAMES, point))
        if guard[0].holds(at):
            assert not below or expr.evaluate(at) < limit.evaluate(at)
            assert not at_least or expr.evaluate(at) >= limit.evaluate(at)


@given(exprs())
def test_an_interval_holds_every_value(expr: Expr) -> None:
    let = Facts(dict(RANGES)).with_let("w", expr).ranges["w"]
    for found in (interval_of(expr, RANGES), let):
        for point in points():
            value = expr.evaluate(dict(zip(NAMES, point)))
            assert (found.low is None or found.low <= value) and (found.high is None or value <= found.high)


def test_splits_of_one_number_are_proven() -> None:
    e, n, m = Expr.of("e"), Expr.of("n"), Expr.of("m")
    facts = Facts({"n": Interval(1, 1 << 20), "m": Interval(1, 1 << 20), "e": Interval(0, 1 << 50)}).with_guard(
        (Bound(e, upper=n * m),)
    )
    assert facts.is_below(e // n, m) and not facts.is_below(e // n, m - 1)
    assert facts.is_below(e - n * (e // n), n)
    assert facts.is_below(e // 3 - 5 * (e // 15), Expr.of(5))
    inner = facts.with_let("i", e - n * (e // n)).with_let("j", Expr.of("i") + 1)
    assert inner.is_below(Expr.of("j"), n + 1) and inner.is_at_least(Expr.of("j"), Expr.of(1))


def test_what_is_taken_away_is_proven_too() -> None:
    term, col = Expr.of("term"), Expr.of("col")
    facts = Facts({"term": Interval(0, None), "col": Interval(0, None)}).with_guard(
        (Bound(term, upper=Expr.of(9)), Bound(col, upper=Expr.of(21)))
    )
    for index in (2 - term // 3, 2 - (term - 3 * (term // 3))):
        assert facts.is_at_least(index, Expr.of(0)) and not facts.is_at_least(index, Expr.of(1))
    number = col // 3 + term // 3 + 2
    assert facts.is_below(number // 3, Expr.of(4)) and not facts.is_at_least(number // 3, Expr.of(1))
    on_stride = facts.with_guard((Bound(number - 3 * (number // 3), upper=Expr.of(1)),))
    assert on_stride.is_at_least(number // 3, Expr.of(1)) and not on_stride.is_at_least(number // 3, Expr.of(2))


def test_a_place_that_data_give_is_proven_where_it_is_guarded() -> None:
    at, n = Expr.of("k.at"), Expr.of("N")
    facts = Facts({"N": Interval(1, 1 << 20)}).with_range("k.at", Expr.of(-1), n)
    assert facts.is_below(at, n) and not facts.is_at_least(at, Expr.of(0))
    guarded = facts.with_guard((Bound(at, Expr.of(0)),))
    assert guarded.is_at_least(at, Expr.of(0)) and guarded.is_at_least(at // 4, Expr.of(0))


def test_what_guards_shut_out_needs_no_proof() -> None:
    """Only there: a guard that leaves a value, or one of a name that is not known, proves nothing by itself."""
    known = Facts().with_range("k", Expr.of(64), Expr.of(128))
    for limit, is_proven in ((64, True), (65, False)):
        assert (
            known.with_guard((Bound(Expr.of("k"), upper=Expr.of(limit)),)).is_below(Expr.of("j"), Expr.of(0))
            == is_proven
        )
    assert not known.with_guard((Bound(Expr.of("j"), upper=Expr.of(0)),)).is_below(Expr.of("j"), Expr.of(-1))


def test_a_remainder_under_a_name_keeps_its_range() -> None:
    k, co, ci, term = (Expr.of(n) for n in ("k", "co", "ci", "term"))
    facts = Facts({"k": Interval(0, 26), "co": Interval(0, 3), "ci": Interval(0, 7)}).with_let("term", ci + 8 * co + k)
    assert facts.with_let("k1", term // 3 - 3 * (term // 9)).ranges["k1"] == Interval(0, 2)
    assert facts.with_let("k2", term - 3 * (term // 3)).ranges["k2"] == Interval(0, 2)
    assert facts.with_let("n1", 3 - 2 * (term - 3 * (term // 3))).ranges["n1"] == Interval(-1, 3)


def _as_python(text: str) -> str:
    return re.sub(r"\b(\d+)ll\b", r"\1", text.replace("(long long)", "").replace("(int)", "")).replace("/", "//")


def floor_div(a: int, b: int) -> int:
    """As the device function rounds."""
    return a // b


@given(exprs())
def test_the_c_of_an_integer_is_that_integer(expr: Expr) -> None:
    wide = Integers({name: Interval(r.low, INT_MAX) for name, r in RANGES.items()})
    for integers in (Integers(dict(RANGES)), wide):
        code = compile(_as_python(integers.c(expr)), "c", "eval")
        for point in points():
            at = dict(zip(NAMES, point))
            assert eval(code, {"floor_div": floor_div}, at) == expr.evaluate(at), integers.c(
                expr
            )  # our own text, names and numbers only


def test_sums_that_may_overflow_are_made_in_64_bits() -> None:
    integers = Integers({"i": Interval(0, INT_MAX), "j": Interval(0, INT_MAX), "k": Interval(0, 10)})
    i, j, k = (Expr.of(n) for n in "ijk")
    assert integers.c(i + k) == "(long long)i + k"
    assert integers.c(i * j + k) == "(long long)i * j + k"
    assert integers.c(k * 100 + 7) == "100 * k + 7"
    assert integers.offset((j, j), (i, k)) == "(long long)i * j + k"
    assert integers.offset((Expr.of(64), Expr.of(32)), (k, k)) == "k * 32 + k"


def test_floors_that_the_ranges_decide_are_folded() -> None:
    integers = Integers({"i": Interval(0, 3), "j": Interval(0, 7), "t": Interval(0, 15)})
    i, j, t = (Expr.of(n) for n in "ijt")
    assert integers.c(i + 4 * t + 60 * (i // 4)) == "i + 4 * t"
    assert integers.c(j + 4 * t + 60 * (j // 4)) == "j + 4 * t + 60 * (j / 4)"
    assert integers.c(i - 4 * (i // 4) + t) == "i + t"
    assert integers.offset((Expr.of(16), Expr.of(16)), (t, i // 4)) == "t * 16"
