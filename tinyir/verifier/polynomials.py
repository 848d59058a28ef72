"""Integers as the texts write them: polynomials over names and floors, and what follows from facts about them.

A polynomial is a dict from monomials (sorted tuples of atoms) to coefficients. An atom is a name, or `floor(n/d)` as
text; `FLOORS` has what that text means. A fact is a polynomial that is >= 0 (or = 0).
"""

from __future__ import annotations

import ast
import functools
import math
import re
from collections.abc import Iterable

Monomial = tuple[str, ...]
Poly = dict[Monomial, int]
Key = frozenset[tuple[Monomial, int]]
WORD = re.compile(r"(?<![\w.])(?!floor\b)[A-Za-z_]\w*(?:\.\w+)*")
FLOORS: dict[str, tuple[Poly, Poly]] = {}


class Unreadable(Exception):
    """A text that this reader does not know."""


def number(value: int) -> Poly:
    """A number as a polynomial."""
    return {(): value} if value else {}


def name(text: str) -> Poly:
    """An atom as a polynomial."""
    return {(text,): 1}


def add(left: Poly, right: Poly, times: int = 1) -> Poly:
    """left + times * right."""
    found = dict(left)
    for monomial, coefficient in right.items():
        found[monomial] = found.get(monomial, 0) + times * coefficient
        if not found[monomial]:
            del found[monomial]
    return found


def multiply(left: Poly, right: Poly) -> Poly:
    """left * right."""
    found: Poly = {}
    for m, a in left.items():
        found = add(found, {tuple(sorted(m + n)) if m and n else m or n: a * b for n, b in right.items()})
    return found


def constant(poly: Poly) -> int | None:
    """The number that a polynomial is, or None."""
    return poly[()] if len(poly) == 1 and () in poly else None if poly else 0


def show(poly: Poly) -> str:
    """One spelling of a polynomial."""
    return " + ".join("*".join((str(c), *m)) for m, c in sorted(poly.items())) or "0"


def floor(above: Poly, below: Poly) -> Poly:
    """floor(above/below), of numbers worked out."""
    numerator, divisor = constant(above), constant(below)
    if divisor is not None and divisor < 1:
        raise Unreadable(f"a divisor of {divisor}")
    if numerator is not None and divisor is not None:
        return number(numerator // divisor)
    text = f"floor(({show(above)})/({show(below)}))"
    FLOORS[text] = above, below
    return name(text)


def key(poly: Poly) -> Key:
    """What tells facts apart: the polynomial divided by what divides all but its constant, which is rounded down as
    the values are integers."""
    common = math.gcd(*(c for m, c in poly.items() if m))
    return frozenset({m: c // common for m, c in poly.items() if c // common}.items() if common > 1 else poly.items())


@functools.cache
def read(text: str) -> Poly:
    """The polynomial of an expression's text. Raises Unreadable."""
    try:
        return _meaning(ast.parse(WORD.sub(r"'\g<0>'", text.strip()), mode="eval").body)
    except (SyntaxError, RecursionError) as fault:
        raise Unreadable(text) from fault


def _meaning(node: ast.AST) -> Poly:
    match node:
        case ast.Constant(value=int(value)):
            return number(value)
        case ast.Constant(value=str(text)):
            return name(text)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return add({}, _meaning(inner), -1)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as sign, right=right):
            return add(_meaning(left), _meaning(right), 1 if isinstance(sign, ast.Add) else -1)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return multiply(_meaning(left), _meaning(right))
        case ast.Call(func=ast.Name(id="floor"), args=[ast.BinOp(left=above, op=ast.Div(), right=below)]):
            return floor(_meaning(above), _meaning(below))
    raise Unreadable(ast.dump(node))


def floors_in(polys: Iterable[Poly]) -> dict[str, None]:
    """The floors that are spoken of, those inside others too."""
    found: dict[str, None] = {}
    waiting = [atom for poly in polys for monomial in poly for atom in monomial if atom in FLOORS]
    while waiting:
        atom = waiting.pop()
        if atom not in found:
            found[atom] = None
            waiting += [a for side in FLOORS[atom] for monomial in side for a in monomial if a in FLOORS]
    return found


def names_in(poly: Poly) -> set[str]:
    """The names that are spoken of, those inside floors too."""
    sides = [poly, *(side for atom in floors_in((poly,)) for side in FLOORS[atom])]
    return {atom for side in sides for monomial in side for atom in monomial if atom not in FLOORS}


def axioms(atom: str) -> tuple[Poly, Poly]:
    """What makes a floor one: 0 <= n - d*q, and n - d*q <= d - 1."""
    above, below = FLOORS[atom]
    rest = add(above, multiply(below, name(atom)), -1)
    return rest, add(add(below, rest, -1), number(-1))


def value(poly: Poly, names: dict[str, int]) -> int | None:
    """The number that a polynomial is, or None where a name has none."""
    total = 0
    for monomial, coefficient in poly.items():
        for atom in monomial:
            if atom in FLOORS:
                above, below = (value(side, names) for side in FLOORS[atom])
                found = None if above is None or not below else above // below
            else:
                found = names.get(atom)
            if found is None:
                return None
            coefficient *= found
        total += coefficient
    return total
