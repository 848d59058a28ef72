"""Lark trees of the shared grammar (`grammars/expr.lark`) as Exprs, Bounds, types, names and attributes.

Every stage's parser is built on these. Types and attribute lists recur in a program, so their text is read once and
remembered.
"""

from __future__ import annotations

import functools
from typing import Any

from ..kit.diag import Refused, refuse
from ..kit.phrase import Phrase
from ..kit.quote import unquoted
from ..kit.span import Span, span_of
from ..kit.text import Grammar, is_count, is_word, token_span
from .expr import Bound, Expr
from .types import DTYPES, TensorType
from .unknown import unknown_dtype

GRAMMAR = Grammar("expr", ("dims", "exprs", "guard", "attrs", "expr"))


def expr_of(tree: Any) -> Expr:
    """The Expr of a tree of rule `expr`."""
    kind, parts = tree.data, tree.children
    if kind == "int":
        return Expr.of(int(parts[0]))
    if kind == "symbol":
        if not parts[0].isascii():  # what isl and C cannot spell
            raise refuse(
                "E0002",
                hint="",
                found=str(parts[0]),
                expected=Phrase("a symbol of ASCII letters, digits and `_`"),
                span=_span(tree),
            )
        return Expr.of(str(parts[0]))
    if kind == "neg":
        return -expr_of(parts[0])
    left, right = expr_of(parts[0]), expr_of(parts[1])
    if kind == "add":
        return left + right
    if kind == "sub":
        return left - right
    if kind == "mul":
        return left * right
    if all(
        c < 0 and all(isinstance(atom, str) for atom in m) for c, m in right.terms
    ):  # 0 has no term, and sizes are 0 or more
        raise refuse("E1105", divisor=str(right), span=_span(tree))
    return left // right if kind == "floor" else left.ceildiv(right)


def exprs_of(tree: Any) -> tuple[Expr, ...]:
    """The Exprs of a tree whose children they are."""
    return tuple(expr_of(e) for e in tree.children if e is not None)


def line_span(tree: Any, whole: str) -> Span:
    """The span of the line that a tree begins, without its comment."""
    meta = tree.meta
    end = whole.find("\n", meta.start_pos)
    line = whole[meta.start_pos : end if end >= 0 else len(whole)]
    return Span(meta.start_pos, meta.start_pos + len(line.split("#", 1)[0].rstrip()), meta.line, meta.column)


def integer_of(tree: Any) -> int:
    """The integer of a tree of rule `expr` that must not name anything. Raises Refused (E0002)."""
    found = expr_of(tree).constant
    if found is None:
        raise refuse("E0002", hint="", found=str(expr_of(tree)), expected=Phrase("an integer"), span=_span(tree))
    return found


def bound_of(tree: Any) -> Bound:
    """The Bound of a tree of rule `bound`."""
    parts = [expr_of(p) for p in tree.children]
    if tree.data == "between":
        return Bound(parts[1], parts[0], parts[2])
    if tree.data == "at_least":
        return Bound(parts[1], parts[0])
    return Bound(parts[0], upper=parts[1]) if tree.data == "below" else Bound(parts[0], equals=parts[1])


def guard_of(tree: Any) -> tuple[Bound, ...]:
    """The Bounds of a tree of rule `guard`."""
    return tuple(bound_of(b) for b in tree.children)


def name_of(token: Any) -> str:
    """The name a NAME, QUOTED or VALUE token spells (a VALUE without its `%`). Raises Refused (E0015)."""
    text = str(token).removeprefix("%")
    return string_of(token, text) if text.startswith('"') else text


def string_of(token: Any, text: str = "", offset: int = 0) -> str:
    """The string that a QUOTED token spells, or `text` in its place; `offset` is where the token's text begins. Raises
    Refused (E0015)."""
    try:
        return unquoted(text or str(token))
    except ValueError as fault:
        raise refuse("E0015", given=str(token), fault=str(fault), span=token_span(token, offset)) from None


def _span(tree: Any) -> Span | None:
    meta = tree.meta
    return None if meta.empty else Span(meta.start_pos, meta.end_pos, meta.line, meta.column)


@functools.lru_cache(maxsize=65536)
def read_expr(text: str) -> Expr:
    """The Expr that `text` spells. Raises Refused (E0002)."""
    return Expr.of(text) if is_word(text) else expr_of(GRAMMAR.parse(text, "expr"))


@functools.lru_cache(maxsize=65536)
def read_guard(text: str) -> tuple[Bound, ...]:
    """The guard that `text` spells. Raises Refused (E0002)."""
    return guard_of(GRAMMAR.parse(text, "guard"))


@functools.lru_cache(maxsize=65536)
def read_type(text: str) -> TensorType:
    """The type that `text` spells. Raises Refused (E0002, E0101 unknown dtype), its spans counted from the start of
    `text`."""
    dtype, _, inside = text.partition("[")
    if dtype not in DTYPES:
        raise refuse("E0101", **unknown_dtype(dtype), span=span_of(text, 0, len(dtype)))
    dims = [d.strip() for d in inside[:-1].split(",")] if inside != "]" else []
    if all(is_count(d) or is_word(d) for d in dims):
        return TensorType(DTYPES[dtype], tuple(Expr.of(int(d) if is_count(d) else d) for d in dims))
    tree = GRAMMAR.parse(inside[:-1], "dims", offset=len(dtype) + 1, whole=text)
    return TensorType(DTYPES[dtype], tuple(expr_of(d) for d in tree.children if d is not None))


@functools.lru_cache(maxsize=65536)
def read_attrs(text: str) -> tuple[tuple[str, Any], ...]:
    """`{key=value, ...}` as (key, item) pairs; an item is an Expr, a float, a str or a tuple of items. Raises Refused
    (E0108 a key twice)."""
    tree = GRAMMAR.parse(text[1:-1], "attrs", offset=1, whole=text)
    found: dict[str, Any] = {}
    for key, value in (a.children for a in tree.children if a is not None):
        if str(key) in found:
            raise refuse("E0108", span=token_span(key, offset=1), key=str(key))  # the attributes are in brackets
        found[str(key)] = _item_of(value)
    return tuple(found.items())


def _item_of(tree: Any) -> Any:
    if tree.data == "float":
        return float(tree.children[0])
    if tree.data == "neg_float":
        return -float(tree.children[0])
    if tree.data == "string":
        return string_of(tree.children[0], offset=1)
    if tree.data == "list":
        return tuple(_item_of(i) for i in tree.children if i is not None)
    return expr_of(tree)


def read_at(read: Any, token: Any, whole: str) -> Any:
    """`read(token)`, with the spans of a fault moved to where the token is in `whole`."""
    try:
        return read(str(token))
    except Refused as fault:
        moved = []
        for d in fault.diags:
            start = token.start_pos + (d.span.start if d.span else 0)
            end = token.start_pos + (d.span.end if d.span else len(token))
            moved.append(type(d)(d.code, d.at, d.facts, span_of(whole, start, end), d.labels, d.edit))
        raise Refused(moved) from None
