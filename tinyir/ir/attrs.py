"""Attributes: `{perm=[1, 0]}`. The text is one grammar; what a value means is the kind that the op table states.

Kinds: int, ints, number, name, dtype, flag, string, dims (Exprs), pairs (two Exprs each), guard (Bounds), literal (a
number, a size such as `3*n`, or nested lists of numbers). Attributes come in the op table's order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from ..kit.phrase import Phrase
from ..kit.quote import quoted
from .expr import Expr, show_guard
from .types import DTYPES, DType, number_of, show_number

Attrs = tuple[tuple[str, Any], ...]


BARE = re.compile(r"[A-Za-z_]\w*(\.\w+)*")  # a name as an expression may be; others are in quotes


class AttrFault(ValueError):
    """An attribute that is not of its kind. `args[0]` says what was expected."""


def read_attr(kind: str, item: Any, dtype: DType | None = None) -> Any:
    """The parsed `item` (Expr, float, str or list) as a value of `kind`. Raises AttrFault, which says what was
    expected, and Refused (E1026) for a number that is not a value of `dtype`."""
    inner = _LISTS.get(kind)
    if inner is not None:
        if not isinstance(item, tuple):
            raise AttrFault(Phrase("a list"))
        return tuple(read_attr(inner, i) for i in item)
    if kind in ("number", "literal"):
        found = _number_or_list(kind, item, dtype)
    else:
        found = _READ[kind](item)
    if found is None:
        raise AttrFault(_EXPECTED[kind])
    return found


_LISTS = {"dims": "dim", "ints": "int", "pairs": "pair"}
_EXPECTED = {
    "int": Phrase("an integer"),
    "dim": Phrase("a size"),
    "pair": Phrase("a pair [before, after]"),
    "guard": Phrase('a guard in quotes, such as "0 <= i0 < M"'),
    "dtype": Phrase("a dtype, one of {dtypes}", dtypes=", ".join(DTYPES)),
    "string": Phrase("a string in quotes"),
    "flag": Phrase("true or false"),
    "name": Phrase("a name"),
    "number": Phrase("a number"),
    "literal": Phrase("a number or a list of numbers"),
}


def _number_or_list(kind: str, item: Any, dtype: DType | None) -> Any:
    if kind == "literal" and isinstance(item, tuple):
        return tuple(read_attr("literal", i, dtype) for i in item)
    number = _number(item)
    if number is not None:
        return number if dtype is None else number_of(dtype, number)
    return item if kind == "literal" and isinstance(item, Expr) else None


def _pair(item: Any) -> Any:
    return tuple(read_attr("dim", i) for i in item) if isinstance(item, tuple) and len(item) == 2 else None


def _guard(item: Any) -> Any:
    from .read import read_guard

    return read_guard(item) if isinstance(item, str) else None


# Of an item of each kind its value, or None where it is of another kind.
_READ: dict[str, Callable[[Any], Any]] = {
    "int": lambda item: item.constant if isinstance(item, Expr) else None,
    "dim": lambda item: item if isinstance(item, Expr) else None,
    "pair": _pair,
    "guard": _guard,
    "dtype": lambda item: DTYPES.get(item.name) if isinstance(item, Expr) else None,
    "string": lambda item: item if isinstance(item, str) else None,
    "flag": lambda item: {"true": True, "false": False}.get(item.name) if isinstance(item, Expr) else None,
    "name": lambda item: item if isinstance(item, str) else item.name or None if isinstance(item, Expr) else None,
}


def _number(item: Any) -> float | int | bool | None:
    if isinstance(item, float):
        return item
    if isinstance(item, Expr):
        if item.constant is not None:
            return item.constant
        if item.name in ("true", "false"):
            return item.name == "true"
        sign, bare = (1, item) if item.terms and item.terms[0][0] > 0 else (-1, -item)
        if bare.name in ("inf", "nan"):
            return sign * math.inf if bare.name == "inf" else math.nan
    return None


def show_attr(kind: str, value: Any, dtype: DType | None = None) -> str:
    """The text of one attribute value."""
    if kind == "string":
        return quoted(value)
    if kind == "flag":
        return "true" if value else "false"
    if kind == "name":
        return value if BARE.fullmatch(value) else quoted(value)
    if kind == "guard":
        return quoted(show_guard(value))
    if isinstance(value, tuple):
        return "[" + ", ".join(show_attr(kind, v, dtype) for v in value) + "]"
    if kind in ("number", "literal") and not isinstance(value, Expr):
        return show_number(value, dtype)
    return str(value)


def show_attrs(attrs: Attrs, schema: Mapping[str, tuple[str, bool]], dtype: DType | None = None) -> str:
    """` {key=value, ...}` with a leading blank, or nothing when there are none."""
    if not attrs:
        return ""
    return " {" + ", ".join(f"{k}={show_attr(schema[k][0], v, dtype)}" for k, v in attrs) + "}"


def flat(literal: Any) -> list[Any]:
    """The elements of nested tuples, in order."""
    return [n for inner in literal for n in flat(inner)] if isinstance(literal, tuple) else [literal]
