"""The first region of attention with all that the kernel speaks of as values, in the dtype that it sums in."""

from __future__ import annotations

import itertools

from ...ir.body import (
    Binary,
    Body,
    Gather,
    Index,
    Literal,
    Random,
    Read,
    Reduce,
    Ref,
    Select,
    Unary,
    operands_of,
    rebuild,
    walk,
)
from ...ir.region import Let, Region
from ...ir.types import DTYPES
from ...kit.records import dataclass, replace
from .numbering import Numbering
from .weights import Exponent, in_dtype

HALVES = ("fp16", "bf16")


def widened(region: Region) -> Region:
    """A region with all but the factors of its contraction in fp32, where its softmax rounds to halves, or its factors
    are halves and a score is rounded as they are: roundings between the two sums may be left out."""
    folds = {let.name for let in region.lets if isinstance(let.expr, Reduce) and let.expr.axes[0].size is not None}
    others = [n for let in region.lets if let.name not in folds for n in walk(let.expr) if not isinstance(n, Read)]
    factors = [n for let in region.lets if let.name in folds for n in walk(let.expr) if isinstance(n, Read)]
    if not any(n.dtype.name in HALVES for n in factors):
        others = [n for n in others if isinstance(n, Reduce) or isinstance(n, Unary) and n.op == "exp2"]
    if all(n.dtype.name not in HALVES and getattr(n, "body", n).dtype.name not in HALVES for n in others):
        return region
    lets = tuple(let if let.name in folds else replace(let, expr=_wide(let.expr)) for let in region.lets)
    types = {t.name: t.type.dtype for t in region.outputs}
    yields = tuple(replace(y, expr=in_dtype(_wide(y.expr), types[y.output])) for y in region.yields)
    return replace(region, lets=lets, yields=yields)


def _wide(body: Body) -> Body:
    """An expression in fp32 instead of halves."""
    if isinstance(body, (Read, Random)) and body.dtype.name in HALVES:
        return Unary("cast", body, DTYPES["fp32"])
    if isinstance(body, Unary) and body.op == "cast" and body.dtype.name in HALVES and body.x.dtype.is_float:
        return _wide(body.x)
    inner = rebuild(body, _wide)
    if isinstance(inner, Unary) and inner.op == "cast" and inner.dtype == inner.x.dtype:
        return inner.x
    return replace(inner, dtype=DTYPES["fp32"]) if inner.dtype.name in HALVES else inner


@dataclass(frozen=True, slots=True)
class Named:
    """The first region, the names of the element, of its maximum and of its weight, and what the weight is of the
    element and the maximum alone."""

    region: Region
    element: str
    top: str
    weighed: str
    weight: Body


def named(numbers: Numbering, exponent: Exponent, weighed: int, scores: str) -> Named:
    """The first region with values for what an exponential (`weighed`) is of. What has a name keeps it."""
    region = numbers.region
    dtype = region.let(scores).expr.dtype
    lets, taken = list(region.lets), {let.name for let in region.lets}

    def value(number: int, word: str, own: Body | None = None) -> str:
        names = [own.name] if isinstance(own, Ref) else []
        names += [name for name, known in numbers.values() if known == number]
        names += [scores] if number == numbers.of(Ref(scores, dtype)) else []
        for name in names:
            if region.let(name).expr.dtype == dtype:
                return name
        lets.append(Let(_fresh(word, taken), in_dtype(numbers.nodes[number].body, dtype)))
        return lets[-1].name

    top = exponent.top
    element = value(exponent.element, f"{scores}.in", region.let(top).expr.body if top else None)
    weight = value(weighed, f"{scores}.weight")
    x = Ref(element, dtype)
    whole = replace(region, lets=tuple(lets))
    expr = whole.let(weight).expr
    if not _is_made_of(whole, expr, (element, top)):
        difference = Binary("sub", x, Ref(top, dtype), dtype) if top else x
        factor = Literal(exponent.factor, dtype)
        expr = Unary("exp2", Binary("mul", difference, factor, dtype) if exponent.factor != 1 else difference, dtype)
    return Named(whole, element, top, weight, expr)


def _is_made_of(region: Region, body: Body, names: tuple[str, ...]) -> bool:
    """Whether an expression is made of the values `names` and of numbers alone."""
    if isinstance(body, Ref):
        return body.name in names or _is_made_of(region, region.let(body.name).expr, names)
    if isinstance(body, (Read, Reduce, Gather, Index, Random, Select)):
        return False
    return all(_is_made_of(region, inner, names) for inner in operands_of(body))


def _fresh(word: str, taken: set[str]) -> str:
    """A name that no value has yet."""
    name = next(n for n in itertools.chain((word,), (f"{word}{c}" for c in itertools.count(2))) if n not in taken)
    taken.add(name)
    return name
