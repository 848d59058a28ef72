"""What a row of weights is: an exponential of an element, what is done to it, and what a number of the row makes of it.

Read from the value that the second contraction takes back to the exponential: each op on the way is linear in the
weight, so it is either done to one element, or by the row to all of its elements at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ...ir.accumulate import literal
from ...ir.body import Binary, Body, Literal, Select, Ternary, Unary
from ...ir.types import DTYPES, DType
from ...kit.phrase import Phrase
from ...kit.records import dataclass
from .numbering import ONE, Numbering, is_same


class No(Exception):
    """Why two regions are no attention, in words."""


@dataclass(frozen=True, slots=True)
class Exponent:
    """E = exp2(factor * (X - M)): X by number, M the name of the fold that is the greatest X of the row; empty where
    nothing that needs the whole row is subtracted. `is_guarded` where another number is subtracted from a row of
    -inf."""

    element: int
    factor: float
    top: str
    is_guarded: bool


@dataclass(slots=True)
class Path:
    """The ops between E and a value, the outermost first. `element` rebuilds what is done to one weight, `row` are
    factors of the row with `mul` or `fdiv`; `zero` are conditions on the row, with whether the row is 0 where one holds
    or where it does not; with `guard_at` NaN becomes 0."""

    element: list[Callable[[Body, DType], Body]]
    row: list[tuple[str, int]]
    zero: list[tuple[int, bool]]
    guard_at: int | None = None  # the factors of the row before this one are outside the guard against NaN
    is_finite: bool = True  # all that is done to one weight inside that guard leaves what is a number one

    def done(self, weight: Body) -> Body:
        """What the ops on one element make of a weight."""
        for op in reversed(self.element):
            weight = op(weight, weight.dtype)
        return weight


def exponent_of(
    numbers: Numbering, exponential: int, column: str, tops: dict[str, int], folds: frozenset[str]
) -> Exponent:
    """What an exponential is of. `folds` are the folds of a row; `tops` gives what each maximum is the greatest of.
    Raises No where another of them is in it than the maximum of its element."""
    node = numbers.nodes[exponential]
    argument, base = node.operands[-1], 1.0
    if node.kind == "pow":
        base = math.log2(numbers.literal(node.operands[0]))
    form = {atom: base * factor for atom, factor in numbers.linear(argument).items()}
    of_row = {atom: f for atom, f in form.items() if atom == ONE or column not in numbers.axes(atom)}
    whole = {atom: f for atom, f in of_row.items() if atom != ONE and numbers.folds(atom) & folds}
    if not whole:
        if numbers.folds(argument) & folds:
            raise No(Phrase("an exponential of what needs its whole row"))
        element, factor = _unscaled(numbers, argument)
        return Exponent(element, base * factor, "", False)
    for atom, factor in whole.items():
        top, is_guarded = _maximum(numbers, atom, tops)
        rest = {a: f for a, f in form.items() if a != atom}
        if top and factor < 0 and is_same(rest, {a: -factor * f for a, f in numbers.linear(tops[top]).items()}):
            return Exponent(tops[top], -factor, top, is_guarded)
    raise No(Phrase("another number of the row than its greatest element is subtracted before the exponential"))


def _maximum(numbers: Numbering, atom: int, tops: dict[str, int]) -> tuple[str, bool]:
    """The maximum that a number of the row is, and whether another replaces it where it is -inf."""
    node = numbers.nodes[atom]
    if node.kind == "fold":
        return (node.name, False) if node.name in tops else ("", False)
    if node.kind == "where":
        condition, then, other = node.operands
        for maximum, is_empty in ((other, True), (then, False)):
            name = numbers.nodes[maximum].name if numbers.nodes[maximum].kind == "fold" else ""
            if name in tops and _asks_whether_empty(numbers, condition, maximum, is_empty):
                return name, True
    return "", False


def _asks_whether_empty(numbers: Numbering, condition: int, maximum: int, is_empty: bool) -> bool:
    """Whether a condition asks if a maximum is -inf, or is not."""
    node = numbers.nodes[condition]
    if node.kind == "not":
        return _asks_whether_empty(numbers, node.operands[0], maximum, not is_empty)
    return (
        node.kind == ("cmpeq" if is_empty else "cmpne")
        and maximum in node.operands
        and any(numbers.literal(n) == -math.inf for n in node.operands)
    )


def _unscaled(numbers: Numbering, number: int) -> tuple[int, float]:
    """An element and the positive number that it is multiplied by: masks of it are seen better without."""
    factor = 1.0
    while numbers.nodes[number].kind == "mul":
        left, right = numbers.nodes[number].operands
        by, inner = (
            (numbers.literal(left), right) if numbers.literal(left) is not None else (numbers.literal(right), left)
        )
        if by is None or not 0 < by < math.inf:
            break
        number, factor = inner, factor * by
    return number, factor


def path_of(numbers: Numbering, value: int, exponential: int, column: str, folds: frozenset[str]) -> Path:
    """The ops between an exponential and a value. `folds` are the folds along the row. Raises No where one is not
    linear in the weight, or would have to know the row before it is done."""
    found = Path([], [], [])
    while value != exponential:
        node = numbers.nodes[value]
        carrying = [n for n in node.operands if exponential in numbers.below(n)]
        others = [n for n in node.operands if exponential not in numbers.below(n)]
        if (
            node.kind in ("mul", "fdiv")
            and len(carrying) == 1
            and (node.kind == "mul" or carrying[0] == node.operands[0])
        ):
            (by,) = others
            if column not in numbers.axes(by):
                found.row.append((node.kind, by))
            else:
                _known_early(numbers, by, folds)
                found.element.append(_times(node.kind, numbers.nodes[by].body))
                found.is_finite &= _is_number(numbers, by)
            value = carrying[0]
        elif node.kind == "neg":
            found.element.append(lambda x, dtype: Unary("neg", x, dtype))
            value = carrying[0]
        elif node.kind in ("where", "select"):
            value = _chosen(numbers, value, exponential, column, folds, found)
        else:
            raise No(Phrase("a {kind} of the weights, which is not linear in them", kind=node.kind))
    return found


def _chosen(numbers: Numbering, value: int, exponential: int, column: str, folds: frozenset[str], found: Path) -> int:
    """The side of a choice that the weight is on, the other being 0; the choice goes to the path."""
    node = numbers.nodes[value]
    then, other = node.operands[-2:]
    inner, zero = (then, other) if exponential in numbers.below(then) else (other, then)
    if numbers.literal(zero) != 0 or exponential in numbers.below(zero):
        raise No(Phrase("a choice between weights"))
    if node.kind == "select":
        guard, is_then = node.body.guard, inner == then
        found.element.append(
            lambda x, dtype: Select(guard, *((x, literal(0, dtype)) if is_then else (literal(0, dtype), x)), dtype)
        )
        return inner
    condition = node.operands[0]
    if _is_nan(numbers, condition, inner, inner == other):
        if found.guard_at is None:
            found.guard_at, found.is_finite = len(found.row), True
        return inner
    if exponential in numbers.below(condition):
        raise No(Phrase("a choice by the weights themselves"))
    if column not in numbers.axes(condition):
        found.zero.append((condition, inner == other))
        return inner
    _known_early(numbers, condition, folds)
    body, is_then = numbers.nodes[condition].body, inner == then
    found.element.append(
        lambda x, dtype: Ternary("where", body, *((x, literal(0, dtype)) if is_then else (literal(0, dtype), x)), dtype)
    )
    return inner


def _is_nan(numbers: Numbering, condition: int, value: int, is_zero: bool) -> bool:
    """Whether a condition asks if a value is NaN (`is_zero`), or is not."""
    node = numbers.nodes[condition]
    if node.kind == "not":
        return _is_nan(numbers, node.operands[0], value, not is_zero)
    return node.kind == ("cmpne" if is_zero else "cmpeq") and node.operands == (value, value)


def _known_early(numbers: Numbering, number: int, folds: frozenset[str]) -> None:
    if numbers.folds(number) & folds:
        raise No(Phrase("work on one weight that needs its whole row"))


def _is_number(numbers: Numbering, number: int) -> bool:
    """Whether an expression is shown to be finite everywhere."""
    node = numbers.nodes[number]
    known = numbers.literal(number)
    if known is not None:
        return math.isfinite(known)
    if node.kind in ("where", "select"):
        return all(_is_number(numbers, n) for n in node.operands[-2:])
    return node.kind == "cast" and node.body.x.dtype.kind == "b"


def _times(kind: str, by: Body) -> Callable[[Body, DType], Body]:
    return lambda x, dtype: Binary(kind, x, in_dtype(by, dtype), dtype)


def in_dtype(body: Body, dtype: DType) -> Body:
    """A number of a float dtype in another one."""
    if body.dtype == dtype:
        return body
    return Literal(float(body.value), dtype) if isinstance(body, Literal) else Unary("cast", body, dtype)


def is_positive(total: Body) -> Body:
    """Whether a sum of weights is a number above 0 and below inf."""
    truth = DTYPES["bool"]
    above = Binary("cmplt", literal(0, total.dtype), total, truth)
    return Binary("and", above, Binary("cmplt", total, Literal(math.inf, total.dtype), truth), truth)
