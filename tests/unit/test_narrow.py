"""Integers of 64 bits that are computed in 32: the range that is said of them has every value, and what may leave 32
bits, or reads memory, stays as it is."""

from __future__ import annotations

import random

import pytest

from tinyir.ir.body import Binary, Body, Index, Literal, Read, Unary
from tinyir.ir.expr import Expr
from tinyir.ir.intervals import INT_MAX, Interval
from tinyir.ir.types import DTYPES
from tinyir.lower.cu.narrow import narrow

I64 = DTYPES["i64"]
VALUES = {"i": range(5), "j": range(-3, 4)}


def interval(e: Expr) -> Interval:
    found = [e.evaluate({"i": i, "j": j}) for i in VALUES["i"] for j in VALUES["j"]]
    return Interval(min(found), max(found))


def drawn(draw: random.Random, depth: int) -> Body:
    if depth == 0 or draw.random() < 0.2:
        return draw.choice((Literal(draw.randrange(-9, 9), I64), Index(Expr.of("i") + draw.randrange(4), I64),
                            Index(Expr.of("j") - Expr.of("i"), I64)))  # fmt: skip
    op = draw.choice(("add", "sub", "mul", "min", "max"))
    return Binary(op, drawn(draw, depth - 1), drawn(draw, depth - 1), I64)


def value_of(body: Body, point: dict[str, int]) -> int:
    if isinstance(body, Index):
        return body.expr.evaluate(point)
    if isinstance(body, Literal):
        return int(body.value)
    a, b = value_of(body.left, point), value_of(body.right, point)
    return {"add": a + b, "sub": a - b, "mul": a * b, "min": min(a, b), "max": max(a, b)}[body.op]


@pytest.mark.parametrize("seed", range(40))
def test_the_range_has_every_value(seed: int) -> None:
    body = drawn(random.Random(seed), 4)
    found = narrow(body, interval)
    assert found is not None and found[0].dtype == DTYPES["i32"]
    for i in VALUES["i"]:
        for j in VALUES["j"]:
            wanted = value_of(body, {"i": i, "j": j})
            assert value_of(found[0], {"i": i, "j": j}) == wanted and found[1].low <= wanted <= found[1].high


def test_what_may_leave_32_bits_or_is_read_stays() -> None:
    big = Binary("mul", Literal(INT_MAX // 2, I64), Index(Expr.of("i"), I64), I64)
    read = Read("table", (Expr.of("i"),), I64)
    for body in (big, Binary("min", big, Literal(1, I64), I64), read, Binary("add", read, Literal(1, I64), I64),
                 Unary("cast", Read("x", (Expr.of("i"),), DTYPES["fp32"]), I64)):  # fmt: skip
        assert narrow(body, interval) is None
    assert narrow(Index(Expr.of("n"), I64), lambda _: Interval(0, None)) is None
