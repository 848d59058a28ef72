"""Sizes and guards as C: exact in int64_t, floors rounded down."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..ir.expr import Bound, Expr, Floor
from ..kit.diag import refuse
from ..kit.phrase import Phrase

Spelling = Callable[[str], str]  # of a symbol
_MOST_BITS = 62


def c_of(expr: Expr, spelling: Spelling) -> str:
    """An expression in C. Raises Refused (E0006) for a number beyond 62 bits."""
    if not expr.terms:
        return "0"
    text = ""
    for coefficient, monomial in expr.terms:
        if coefficient.bit_length() > _MOST_BITS:
            raise refuse("E0006", what=Phrase("a size with a number of {bits} bits", bits=coefficient.bit_length()))
        factors = [
            f"floor_div({c_of(a.num, spelling)}, {c_of(a.den, spelling)})" if isinstance(a, Floor) else spelling(a)
            for a in monomial
        ]
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, number(abs(coefficient)))
        sign = "-" if coefficient < 0 else "+"
        product = " * ".join(factors)
        text += f" {sign} {product}" if text else f"-{product}" if coefficient < 0 else product
    return text


def number(value: int) -> str:
    """An integer as a C constant."""
    return str(value) if -(1 << 31) < value < 1 << 31 else f"INT64_C({value})"


def condition(guards: Iterable[Iterable[Bound]], spelling: Spelling) -> list[str]:
    """The comparisons that must all hold; none where the guards always do."""
    found: dict[str, None] = {}
    for guard in guards:
        for b in guard:
            sides = [(e, sign) for e, sign in ((b.lower, "<="), (b.upper, ">"), (b.equals, "==")) if e is not None]
            for side, sign in sides:
                if side.constant is None or b.expr.constant is None:
                    found[f"{c_of(side, spelling)} {sign} {c_of(b.expr, spelling)}"] = None
    return list(found)
