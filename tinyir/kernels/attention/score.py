"""A score as tensor cores compute it: the first product, work that is left, a factor and masks.

    exp2(c * (where(mask, s * x, -inf) - top))   →   factor c*s, masks [mask], work x
    exp2(c * (tanh(x) + bias - top))             →   factor c, no masks, work tanh(x) + bias
    exp2(c * (where(n < data, x, -inf) - top))   →   factor c, masks [n < limit0], limit0 = data (`limits`)

A mask that leaves -inf, and a positive factor, commute with the maximum of a row: they are taken off the score, so that
most tiles of scores need neither.
"""

from __future__ import annotations

import functools
import math

from ...ir.body import Binary, Body, Literal, Ref, Select, Ternary, Unary, walk
from ...ir.expr import Bound
from ...ir.region import Region
from ...ir.types import DType
from ...kit.phrase import Phrase
from ...kit.records import dataclass
from .limits import Limit, limits_in
from .match import Streaming

MOST_GAIN = 256.0  # of a number that multiplies weights in halves


@dataclass(frozen=True, slots=True)
class Score:
    """`work` is what takes the place of a score before `factor` and `masks`, or None where that is the first product
    itself; `scale` is the part of the factor that the row's maximum has to have where other values speak of it.
    `limits` are the integers of a tile that data give, by the names that the masks have for them.
    `has_reciprocal`: a row's total is never a number whose reciprocal overflows."""

    factor: float
    scale: float
    masks: tuple[Bound, ...]
    limits: tuple[Limit, ...]
    work: Body | None
    has_reciprocal: bool


@functools.lru_cache(maxsize=256)
def score_of(kernel: Streaming) -> Score:
    """The score of a kernel."""
    region, scale, masks, limits = kernel.first, 1.0, [], []
    body = named(region, Ref(kernel.element, kernel.dtype), kernel.scores)
    while True:
        if isinstance(body, Select) and isinstance(body.other, Literal) and body.other.value == -math.inf:
            masks += body.guard
            body = named(region, body.then, kernel.scores)
        elif isinstance(body, Ternary) and isinstance(body.third, Literal) and body.third.value == -math.inf:
            more, ends, left = limits_in(region, body.first, kernel.row, kernel.column, len(limits))
            if not ends or left is not None:
                break
            masks, limits = [*masks, *more], [*limits, *ends]
            body = named(region, body.second, kernel.scores)
        elif (found := scaled(body)) is not None:
            scale *= found[0]
            body = named(region, found[1], kernel.scores)
        else:
            break
    is_plain = isinstance(body, Ref) and body.name == kernel.scores
    return Score(
        kernel.factor * scale,
        scale,
        tuple(dict.fromkeys(masks)),
        tuple(limits),
        None if is_plain else body,
        bool(kernel.top) and is_total(kernel),
    )


def blocks_split(kernel: Streaming, rows: int) -> str:
    """Why tiles of this number of rows are not parts of the blocks whose columns data bound, in words; empty where they
    are."""
    blocks = sorted({limit.rows for limit in score_of(kernel).limits if limit.rows % rows})
    return Phrase("rows that divide {blocks}, the rows whose columns end together", blocks=blocks[0]) if blocks else ""


def scaled(body: Body) -> tuple[float, Body] | None:
    """A positive number and what it multiplies, or divides into it."""
    if not isinstance(body, Binary) or body.op not in ("mul", "fdiv"):
        return None
    pairs = ((body.right, body.left), (body.left, body.right))[: 1 if body.op == "fdiv" else 2]
    for number, other in pairs:
        if isinstance(number, Literal) and 0 < number.value < math.inf:
            return (number.value if body.op == "mul" else 1 / number.value), other
    return None


def named(region: Region, body: Body, scores: str) -> Body:
    """The expression behind a value's name, but for that of the first product."""
    while isinstance(body, Ref) and body.name != scores and body.index is None:
        body = region.let(body.name).expr
    return body


def is_total(kernel: Streaming) -> bool:
    """Whether a row is divided by its total, or by 1 where that is 0: its greatest weight is 1, so that the reciprocal
    is a number."""
    if kernel.norm != "fdiv" or kernel.norm_by is None:
        return False
    body = named(kernel.first, kernel.norm_by, kernel.total)
    allowed = (Ref, Literal, Ternary, Binary, Unary)
    return all(
        isinstance(n, allowed)
        and (not isinstance(n, Ref) or n.name == kernel.total)
        and (not isinstance(n, Ternary) or n.op == "where")
        and (not isinstance(n, Binary) or n.op in ("cmpeq", "cmpne"))
        and (not isinstance(n, Unary) or n.op == "not")
        and (not isinstance(n, Literal) or n.value in (0, 1))
        for n in walk(body)
    )


def is_bare(kernel: Streaming) -> bool:
    """Whether a row's total has no part in what the row is multiplied or divided by: a row of -inf is to be NaN then,
    as its weights are in the text, which are 0 in a kernel."""
    if not kernel.top or kernel.is_guarded:
        return False
    by = kernel.norm_by if kernel.norm else None
    return by is None or kernel.total not in _names_behind(kernel.first, by)


def _names_behind(region: Region, body: Body) -> set[str]:
    """The values that an expression is made of, over any number of names."""
    found: set[str] = set()
    left = [body]
    while left:
        for ref in walk(left.pop()):
            if isinstance(ref, Ref) and ref.name not in found:
                found.add(ref.name)
                left += [let.expr for let in region.lets if let.name == ref.name]
    return found


def weight_dtype(kernel: Streaming) -> DType:
    """What the text rounds weights to before the second product."""
    written = {y.output for y in kernel.writes}
    return next(t.type.dtype for t in kernel.first.outputs if t.name not in written)


def outgrown(kernel: Streaming) -> str:
    """Why weights may not fit the dtype to which the kernel rounds them, in words; empty where they do. They are not
    yet over their total there: under a maximum they are 1 at most, and so is what a number or a choice leaves of
    them."""
    if kernel.value.dtype.name != "fp16":
        return ""  # as large as fp32's
    if not kernel.top:
        return Phrase("nothing subtracted before the exponential, whose weights outgrow halves")
    is_small = kernel.handed is None or _is_small(kernel.handed, kernel.weighed)
    return "" if is_small else Phrase("weights times numbers that halves may not hold")


def _is_small(body: Body, weighed: str) -> bool:
    if isinstance(body, Ref):
        return body.name == weighed
    if isinstance(body, Literal):
        return abs(body.value) <= MOST_GAIN
    if isinstance(body, Binary):
        numbers = [x for x in (body.left, body.right) if isinstance(x, Literal)]
        is_kept = body.op == "mul" or body.op == "fdiv" and body.right in numbers and abs(body.right.value) >= 1
        return len(numbers) == 1 and is_kept and all(_is_small(x, weighed) for x in (body.left, body.right))
    if isinstance(body, Unary):
        return body.op == "neg" and _is_small(body.x, weighed)
    sides = {Ternary: ("second", "third"), Select: ("then", "other")}.get(type(body), ())
    return bool(sides) and all(_is_small(getattr(body, side), weighed) for side in sides)
