"""Lark trees of `grammars/body.lark` as body expressions, with the dtype of every node.

Names are looked up while reading, since a Read has its tensor's dtype and a Ref its value's: a name that nothing
defines is refused here (E0202), and so are operands whose dtypes cannot meet (E1002).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..kit.diag import Diag, Refused, refuse
from ..kit.phrase import Listing, Phrase
from ..kit.records import dataclass
from ..kit.span import Span
from ..kit.text import token_span
from .body import (
    Axis,
    Binary,
    Body,
    BroadcastInDim,
    Gather,
    Index,
    Literal,
    Random,
    Read,
    Reduce,
    Ref,
    Scan,
    Scatter,
    Select,
    Ternary,
    Transpose,
    Unary,
)
from .model import read_schema
from .ops import REGION_OPS
from .read import expr_of, exprs_of, guard_of, name_of, read_at, read_attrs
from .rules import holds_product
from .types import DTYPES, DType, number_of
from .unknown import nearest, unknown_dtype, unknown_name

RANDOM_ATTRS = {"seed": ("int", True), "offset": ("int", True)}
_UNTYPED = DTYPES["fp64"]  # of a literal until its neighbour is known


@dataclass(frozen=True, slots=True)
class Names:
    """What the names of an expression are: the dtypes of tensors (and of a kernel's arrays) and of values, and the text
    that spans speak of. `at` is the region or kernel, for messages."""

    tensors: Mapping[str, DType]
    values: Mapping[str, DType]
    whole: str
    at: str = ""


def body_from(tree: Any, names: Names, alone: DType | None = None) -> Body:
    """The expression of a tree of rule `body`. A literal alone without a dtype is of dtype `alone`; without
    that either, it is refused (E1411)."""
    body = _read(tree, names)
    if isinstance(body, Literal) and body.dtype is _UNTYPED and not _states_dtype(tree):
        return _typed(body, alone, names)
    return body


def _read(tree: Any, names: Names) -> Body:
    return _RULES[tree.data](tree.children, names)


def _states_dtype(tree: Any) -> bool:
    return tree.data == "literal" and tree.children[2] is not None


def _typed(literal: Literal, dtype: DType | None, names: Names) -> Literal:
    if dtype is None:
        raise refuse("E1411", names.at, value=literal.value, span=literal.span)
    return Literal(_value_of(dtype, literal.value, names, literal.span), dtype, span=literal.span)


def _value_of(dtype: DType, number: float | int | bool, names: Names, span: Span) -> float | int | bool:
    try:
        return number_of(dtype, number)
    except Refused as fault:
        raise Refused([Diag(d.code, names.at, d.facts, span) for d in fault.diags]) from None


def _settle(trees: list[Any], names: Names) -> tuple[Body, ...]:
    """Operands of one dtype: literals without one take their neighbour's."""
    read = [_read(t, names) for t in trees]
    stated = [not isinstance(b, Literal) or _states_dtype(t) for b, t in zip(read, trees)]
    beside = next((b.dtype for b, s in zip(read, stated) if s), None)
    return tuple(b if s else _typed(b, beside, names) for b, s in zip(read, stated))


def dtype_named(token: Any, names: Names) -> DType:
    """The dtype that a token names. Raises Refused (E0101)."""
    if str(token) not in DTYPES:
        raise refuse("E0101", names.at, **unknown_dtype(str(token)), span=token_span(token))
    return DTYPES[str(token)]


def _find(name: str, known: Mapping[str, DType], span: Span, names: Names) -> DType:
    if name not in known:
        raise refuse("E0202", names.at, span=span, **unknown_name(name, known))
    return known[name]


def _read_read(parts: list[Any], names: Names) -> Body:
    token = parts[0].children[0]
    name, span = name_of(token), token_span(token)
    if len(parts) > 3 or len(parts) == 3 and len(exprs_of(parts[1])) != 1:
        raise refuse("E1412", names.at, name=name, span=span)
    slot = exprs_of(parts[1])[0] if len(parts) == 3 else None
    return Read(name, exprs_of(parts[-1]), _find(name, names.tensors, span, names), slot, span=span)


def _read_ref(parts: list[Any], names: Names) -> Body:
    name, span = name_of(parts[0]), token_span(parts[0])
    return Ref(
        name, _find(name, names.values, span, names), None if parts[1] is None else exprs_of(parts[1]), span=span
    )


def _number(minus: Any, token: Any) -> float | int | bool:
    text = str(token)
    if text in ("true", "false"):
        return text == "true"
    value = {"inf": math.inf, "nan": math.nan}.get(text)
    if value is None:
        value = int(text) if token.type == "INT" else float(text)
    return -value if minus is not None and value == value else value


def _read_literal(parts: list[Any], names: Names) -> Body:
    minus, token, dtype = parts
    value, span = _number(minus, token), token_span(token)
    if dtype is None:
        return Literal(value, _UNTYPED, span=span)
    found = dtype_named(dtype, names)
    return Literal(_value_of(found, value, names, span), found, span=span)


def _read_call(parts: list[Any], names: Names) -> Body:
    word, trees, annotation = parts[0], parts[1:-1], parts[-1]
    op, span = REGION_OPS.get(str(word)), token_span(word)
    if op is None:
        raise refuse(
            "E0105",
            names.at,
            op=str(word),
            near=", ".join(n.lower() for n in nearest(str(word), REGION_OPS)),
            span=span,
        )
    if len(trees) != op.arity:
        raise refuse("E0204", names.at, op=str(word), wanted=op.arity, given=len(trees), span=span)
    stated = dtype_named(annotation, names) if annotation is not None else None
    first = (body_from(trees[0], names, DTYPES["bool"]),) if op.name == "WHERE" else ()
    same = _settle(trees[len(first) :], names)
    dtypes = {o.dtype.name for o in same}
    if len(dtypes) > 1:
        raise refuse(
            "E1002",
            names.at,
            fault=Phrase(
                "{word} takes one dtype, not {listing}",
                word=word,
                listing=Listing((o.dtype.name for o in same), " and "),
            ),
            span=span,
        )
    if same[0].dtype.kind not in op.accepts:
        raise refuse(
            "E1002", names.at, fault=Phrase("{word} does not take {dtype}", word=word, dtype=same[0].dtype), span=span
        )
    implied = DTYPES["bool"] if op.gives == "bool" else same[0].dtype
    if op.gives in ("cast", "bits") and stated is None:
        raise refuse(
            "E1002",
            names.at,
            fault=Phrase("{word} needs the dtype it casts to, as in {word}(x) : fp32", word=word),
            span=span,
        )
    dtype = stated or implied
    widens = op.name == "MUL" and holds_product(dtype, same[0].dtype)
    if dtype != implied and op.gives not in ("cast", "bits") and not widens:
        raise refuse(
            "E1002",
            names.at,
            fault=Phrase(
                "{word} of {dtype} gives {implied}, not {dtype2}",
                word=word,
                dtype=same[0].dtype,
                implied=implied,
                dtype2=dtype,
            ),
            span=span,
        )
    kind = {"unary": Unary, "binary": Binary, "ternary": Ternary}[op.group]
    return kind(str(word), *first, *same, dtype, span=span)


def _read_select(parts: list[Any], names: Names) -> Body:
    then, guard, other = parts
    chosen, rest = _settle([then, other], names)
    if chosen.dtype != rest.dtype:
        raise refuse(
            "E1002",
            names.at,
            fault=Phrase("the sides of where ... else are {dtype} and {dtype2}", dtype=chosen.dtype, dtype2=rest.dtype),
            span=chosen.span,
        )
    return Select(guard_of(guard), chosen, rest, chosen.dtype, span=chosen.span)


def _axis_from(tree: Any) -> Axis:
    name, size = tree.children
    return Axis(str(name), None if size is None else expr_of(size))


def _read_reduce(parts: list[Any], names: Names) -> Body:
    keyword, op, axes, init, dtype, inside = parts[0], parts[1], parts[2:-3], parts[-3], parts[-2], parts[-1]
    found = _accumulator(dtype, keyword, names)
    start = None if init is None else _value_of(found, _number(*init.children), names, token_span(keyword))
    return Reduce(
        str(op), tuple(map(_axis_from, axes)), body_from(inside, names), found, start, span=token_span(keyword)
    )


def _accumulator(dtype: Any, keyword: Any, names: Names) -> DType:
    """The dtype that a fold accumulates in, which must be stated. Raises Refused (E0101, E1005)."""
    if dtype is None:
        raise refuse("E1005", names.at, span=token_span(keyword))
    return dtype_named(dtype, names)


def _read_scan(parts: list[Any], names: Names) -> Body:
    keyword, op, flags, axis, dtype, inside = (
        parts[0],
        parts[1],
        [str(f) for f in parts[2:-3]],
        parts[-3],
        parts[-2],
        parts[-1],
    )
    body = body_from(inside, names)
    return Scan(
        str(op),
        str(axis),
        body,
        _accumulator(dtype, keyword, names),
        "reverse" in flags,
        "exclusive" in flags,
        span=token_span(keyword),
    )


def _ints(tree: Any) -> tuple[int, ...]:
    return tuple(int(i) for i in tree.children if i is not None)


def _read_broadcast(parts: list[Any], names: Names) -> Body:
    keyword, inside, dims, axes = parts
    x = body_from(inside, names)
    return BroadcastInDim(x, _ints(dims), x.dtype, None if axes is None else names_in(axes), span=token_span(keyword))


def names_in(tree: Any) -> tuple[str, ...]:
    """The names of a tree of rule `axis_names`."""
    return tuple(str(n) for n in tree.children if n is not None)


def _read_transpose(parts: list[Any], names: Names) -> Body:
    x = body_from(parts[1], names)
    return Transpose(x, _ints(parts[2]), x.dtype, span=token_span(parts[0]))


def _read_gather(parts: list[Any], names: Names) -> Body:
    keyword, axis, size, at, inside = parts
    body = body_from(inside, names)
    return Gather(Axis(str(axis), expr_of(size)), body_from(at, names), body, body.dtype, span=token_span(keyword))


def _read_scatter(parts: list[Any], names: Names) -> Body:
    keyword, op, axis, axes, update, at, onto = (
        parts[0],
        parts[1],
        parts[2],
        parts[3:-3],
        parts[-3],
        parts[-2],
        parts[-1],
    )
    base = body_from(onto, names)
    return Scatter(
        str(op),
        str(axis),
        tuple(map(_axis_from, axes)),
        body_from(update, names, base.dtype),
        body_from(at, names),
        base,
        base.dtype,
        span=token_span(keyword),
    )


def _read_random(parts: list[Any], names: Names) -> Body:
    keyword, index, attrs, dtype = parts
    read = dict(read_schema(read_at(read_attrs, attrs, names.whole), RANDOM_ATTRS, names.at, token_span(attrs)))
    return Random(expr_of(index), read["seed"], read["offset"], dtype_named(dtype, names), span=token_span(keyword))


_RULES = {
    "read": _read_read,
    "value_ref": _read_ref,
    "literal": _read_literal,
    "call": _read_call,
    "index": lambda parts, names: Index(expr_of(parts[1]), dtype_named(parts[2], names), span=token_span(parts[0])),
    "random": _read_random,
    "broadcast_in_dim": _read_broadcast,
    "transpose": _read_transpose,
    "reduce": _read_reduce,
    "scan": _read_scan,
    "gather": _read_gather,
    "scatter": _read_scatter,
    "select": _read_select,
}
