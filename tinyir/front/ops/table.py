"""The table of the front ends' ops: what each takes, its attributes, and the one place where it becomes tiny.

A family's file holds its lowerings, each under `@front_op`. A lowering gets the builder, the operands and the checked
attributes, and returns the value, or a tuple of them, that the op gives:

    @front_op("GEMM", inputs=(2, 3), attrs=[Attr("alpha", "float", 1.0), ...])
    def gemm(b, operands, attrs): ...
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

from ...ir.expr import Expr
from ...ir.types import DTYPES
from ...ir.unknown import dtypes_like, nearest
from ...kit.diag import Diag, refuse
from ...kit.phrase import Phrase
from ...kit.records import dataclass
from ...kit.span import Span

REQUIRED = object()
MANY = 1 << 16


@dataclass(frozen=True, slots=True)
class Attr:
    """One attribute. `kind` is int, float, flag, word (one of `words`), string, dtype, dim (a size), ints, floats,
    dims, number (an integer, float or bool as given), literal (a number, a size, or nested lists of numbers), pairs (of
    sizes), strings or guard (as tiny text writes it). `low` and `high` bound a number, or each of a list; an attribute
    without `default` must be given."""

    name: str
    kind: str
    default: Any = REQUIRED
    low: float | None = None
    high: float | None = None
    words: tuple[str, ...] = ()


class Attrs(dict):
    """Checked attributes, each with a value: `attrs.alpha`."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


@dataclass(frozen=True, slots=True)
class FrontOp:
    """A row: `inputs` and `outputs` are the least and the greatest number."""

    name: str
    inputs: tuple[int, int]
    outputs: tuple[int, int]
    attrs: tuple[Attr, ...]
    lower: Callable[..., Any]

    @property
    def leaves_outputs(self) -> bool:
        """Whether the outputs behind the first are there for those who want them, which the pieces of a whole are
        not."""
        return self.outputs[0] == 1 < self.outputs[1] < MANY


FRONT_OPS: dict[str, FrontOp] = {}
ELEMENTWISE: dict[str, FrontOp] = {}  # by `fn`


def registered(
    table: dict[Any, Any], *keys: Hashable, row: Callable[[Any], Any] = lambda function: function
) -> Callable[[Any], Any]:
    """A decorator that puts a function into a table under keys, or the row that is made of it."""

    def register(function: Any) -> Any:
        table.update(dict.fromkeys(keys, row(function)))
        return function

    return register


def front_op(
    name: str, inputs: int | tuple[int, int], outputs: int | tuple[int, int] = 1, attrs: Sequence[Attr] = ()
) -> Callable[..., Any]:
    """Register a lowering as the op `name`."""
    row = partial(FrontOp, name, _range(inputs), _range(outputs), tuple(attrs))
    return registered(FRONT_OPS, name, row=row)


def elementwise(name: str, inputs: int | tuple[int, int], attrs: Sequence[Attr] = ()) -> Callable[..., Any]:
    """Register a lowering as `Elementwise` with `fn` = `name`."""
    row = partial(FrontOp, f"Elementwise {name}", _range(inputs), (1, 1), tuple(attrs))
    return registered(ELEMENTWISE, name, row=row)


def _range(count: int | tuple[int, int]) -> tuple[int, int]:
    return count if isinstance(count, tuple) else (count, count)


def check_attrs(op: FrontOp, given: Mapping[str, Any], at: str) -> tuple[Attrs, list[Diag]]:
    """The attributes of one use of `op` with defaults filled in, and the faults (E0102 unknown, E0103 of another kind,
    E0107 out of range, E0104 missing), each with the attribute's name under `key`. `given` holds Python values; None
    counts as absent."""
    known = {a.name: a for a in op.attrs}
    faults = []
    for key in given:
        if key not in known:
            alike = [n for n in nearest(key, known) if len(n) > 1 or len(key) == 1]  # `op` is not a misspelt `p`
            near = ", ".join(alike or known) or Phrase("no attribute at all")
            faults.append(Diag("E0102", at, {"at": op.name, "key": key, "known": near}))
    checked = Attrs()
    for attr in op.attrs:
        item = given.get(attr.name)
        if item is None:
            if attr.default is REQUIRED:
                faults.append(Diag("E0104", at, {"key": attr.name, "kind": expected(attr)}))
            checked[attr.name] = None if attr.default is REQUIRED else attr.default
            continue
        try:
            value = checked[attr.name] = _READERS[attr.kind](item, attr)
        except ValueError:
            checked[attr.name] = None
            near = dtypes_like(item) if attr.kind == "dtype" and isinstance(item, str) else []
            words = Phrase("a dtype: did you mean {near}?", near=", ".join(near)) if near else expected(attr)
            sure = {"given": item, "meant": near[0]} if len(near) == 1 else {}
            faults.append(Diag("E0103", at, {"key": attr.name, "expected": words, **sure}))
            continue
        numbers = value if isinstance(value, tuple) else (value,)
        if not all(_is_in_range(n, attr) for n in numbers):
            faults.append(Diag("E0107", at, {"key": attr.name, "range": _range_words(attr), "given": item}))
    return checked, faults


def _is_in_range(number: Any, attr: Attr) -> bool:
    if isinstance(number, Expr):
        number = number.constant
    if not isinstance(number, (int, float)) or attr.low is None and attr.high is None:
        return True
    return (attr.low is None or number >= attr.low) and (attr.high is None or number <= attr.high)


def _range_words(attr: Attr) -> str:
    if attr.high is None:
        return Phrase("{low} or more", low=attr.low)
    return (
        Phrase("at most {high}", high=attr.high)
        if attr.low is None
        else Phrase("{low} to {high}", low=attr.low, high=attr.high)
    )


def expected(attr: Attr) -> str:
    """What an attribute takes, in words."""
    words = {
        "int": Phrase("an integer"),
        "float": Phrase("a number"),
        "flag": Phrase("true or false"),
        "dtype": Phrase("a dtype, one of {dtypes}", dtypes=", ".join(DTYPES)),
        "ints": Phrase("a list of integers"),
        "floats": Phrase("a list of numbers"),
        "dims": Phrase("a list of sizes"),
        "dim": Phrase("a size"),
        "string": Phrase("a string"),
        "number": Phrase("a number"),
        "literal": Phrase("a number or nested lists of numbers"),
        "pairs": Phrase("a list of pairs of sizes"),
        "strings": Phrase("a list of strings"),
        "guard": Phrase('a guard, such as "0 <= i0 < M"'),
        "word": Phrase("one of {attr}", attr=", ".join(attr.words)),
    }
    return words[attr.kind]


def _int(item: Any, attr: Attr) -> int:
    if isinstance(item, bool) or not isinstance(item, int):
        raise ValueError
    return item


def _float(item: Any, attr: Attr) -> float:
    if isinstance(item, str) and item in ("inf", "-inf", "nan"):
        return float(item)
    if isinstance(item, bool) or not isinstance(item, (int, float)):
        raise ValueError
    try:
        return float(item)
    except OverflowError:
        return math.copysign(math.inf, item)


def _flag(item: Any, attr: Attr) -> bool:
    if item not in (0, 1):
        raise ValueError
    return bool(item)


def _string(item: Any, attr: Attr) -> str:
    if not isinstance(item, str):
        raise ValueError
    return item


def _word(item: Any, attr: Attr) -> str:
    if not isinstance(item, str) or item not in attr.words:
        raise ValueError
    return item


def _dtype(item: Any, attr: Attr) -> Any:
    if not isinstance(item, str) or item not in DTYPES:
        raise ValueError
    return DTYPES[item]


def _dim(item: Any, attr: Attr) -> Expr:
    if isinstance(item, bool) or not isinstance(item, (int, str, Expr)):
        raise ValueError
    return read_dim(item)


def _list_of(read: Callable[[Any, Attr], Any]) -> Callable[[Any, Attr], Any]:
    def read_list(item: Any, attr: Attr) -> tuple[Any, ...]:
        if not isinstance(item, (list, tuple)):
            raise ValueError
        return tuple(read(i, attr) for i in item)

    return read_list


def _number(item: Any, attr: Attr) -> Any:
    return item if isinstance(item, (bool, int)) else _float(item, attr)


def _literal(item: Any, attr: Attr) -> Any:
    if isinstance(item, (list, tuple)):
        return tuple(_literal(i, attr) for i in item)
    is_number = not isinstance(item, (str, Expr)) or item in ("inf", "-inf", "nan")
    return _number(item, attr) if is_number else read_dim(item)


def _pair(item: Any, attr: Attr) -> tuple[Expr, Expr]:
    if not isinstance(item, (list, tuple)) or len(item) != 2:
        raise ValueError
    return _dim(item[0], attr), _dim(item[1], attr)


def _guard(item: Any, attr: Attr) -> Any:
    from ...ir.read import read_guard
    from ...kit.diag import Refused

    try:
        return read_guard(_string(item, attr))
    except Refused:
        raise ValueError(item) from None


def read_dim(item: int | str | Expr) -> Expr:
    """A size as a model writes it: 3, "N", "2*N + 1". Raises ValueError. Primes (`N'`) are let through, for the message
    that follows."""
    if isinstance(item, (int, Expr)):
        return Expr.of(item)
    if item.rstrip("'").isidentifier() and item.isascii():
        return Expr.of(item)
    from ...ir.read import read_expr
    from ...kit.diag import Refused

    try:
        return read_expr(item)
    except Refused:
        raise ValueError(item) from None


def put_in(size: Expr, sizes: Mapping[str, Expr], at: str = "", span: Span | None = None) -> Expr:
    """A size of a model with what its symbols are. Raises Refused (E1105) where one of them is a divisor below 1."""
    try:
        return size.substitute(sizes)
    except ZeroDivisionError as fault:
        raise refuse("E1105", at, span, divisor=str(fault)) from None


_READERS: dict[str, Callable[[Any, Attr], Any]] = {
    "int": _int,
    "float": _float,
    "flag": _flag,
    "string": _string,
    "word": _word,
    "dtype": _dtype,
    "dim": _dim,
    "number": _number,
    "ints": _list_of(_int),
    "floats": _list_of(_float),
    "dims": _list_of(_dim),
    "literal": _literal,
    "pairs": _list_of(_pair),
    "strings": _list_of(_string),
    "guard": _guard,
}
