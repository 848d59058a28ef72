"""Body expressions: what one element of a value is, at one point of the axes. The statements of region and gpu text
hold them.

    mul(A[i0, k0], B[k0, i1]) : fp32                      an op of the table in lower case; `: dtype` where it is not
                                                          the operands'
    %masked, %blur[i0 + 1, i1]                            a value at this point, or at another point of its axes
    X[i0, i1 - 1] where 0 <= i1 - 1 < W else 0.0          a guarded read: Select
    reduce sum (k0: K) : fp32 { ... }                     over a new axis, or over one of the region's own: reduce max
                                                          (i3) ...
    broadcast_in_dim(%mean, dims=[0])                     dims: where the operand's axes are among the region's axes,
                                                          or among `axes`
    transpose(%x, perm=[1, 0])                            axis j of the result is axis perm[j] of the operand
    index(i0 + 1) : fp32                                  a number of the axes and symbols
    gather (k0: V = idx[i1]) { T[k0, i0] }                the body at the k0 that idx says: from the end when negative,
                                                          0 when outside
    scatter sum i0 (k0: L) { U[k0] at idx[k0] } onto X[i0]   X, and on it every update whose place is i0, in the order
      of k0
    scan sum reverse exclusive (i1) : fp32 { X[i0, i1] }  the fold of all elements up to this one along i1
    random(4*i0 + i1) {seed=7, offset=0} : fp32           element number i of a Philox stream

Every node carries its dtype. A literal is of the dtype of the operands beside it; alone it is written
`0.5 : fp32`. The gpu language reads the same text: there a Read may name a shared array or a register, with a ring slot
in a first pair of brackets, and the names of an index may be any that its kernel defines.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Union

from ..kit.records import dataclass, fields, replace
from ..kit.span import Spanned
from ..kit.text import show_list
from .expr import Bound, Expr, Like, show_guard
from .model import show_name
from .types import PLACES, DType, show_number


@dataclass(frozen=True, slots=True, keeps_hash=True)
class Axis:
    """An axis that a Reduce or Scatter runs over; `size` is None when it is an axis of the region itself."""

    name: str
    size: Expr | None = None

    def __str__(self) -> str:
        return self.name if self.size is None else f"{self.name}: {self.size}"


@dataclass(frozen=True, slots=True, keeps_hash=True)
class Read(Spanned):
    """One element of a tensor, buffer, shared array or register. `slot` is the ring slot of a shared array (gpu
    only)."""

    tensor: str
    index: tuple[Expr, ...]
    dtype: DType
    slot: Expr | None = None


@dataclass(frozen=True, slots=True, keeps_hash=True)
class Ref(Spanned):
    """A value. `index` is None for the current point; else it gives each of the value's free axes, in the region's
    order."""

    name: str
    dtype: DType
    index: tuple[Expr, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Spanned):
    """A number of the dtype. -0.0 is another number than 0.0, and nan is itself."""

    value: float | int | bool
    dtype: DType

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Literal) or self.dtype != other.dtype:
            return False
        if self.value != self.value:
            return other.value != other.value
        return self.value == other.value and math.copysign(1, self.value) == math.copysign(1, other.value)

    def __hash__(self) -> int:
        return hash((self.value if self.value == self.value else None, self.dtype))


@dataclass(frozen=True, slots=True)
class Index(Spanned):
    """An integer expression over axes and symbols, as a number of the dtype."""

    expr: Expr
    dtype: DType


@dataclass(frozen=True, slots=True, keeps_hash=True)
class Unary(Spanned):
    """`op(x)`, op being a unary row of the op table in lower case."""

    op: str
    x: Body
    dtype: DType


@dataclass(frozen=True, slots=True, keeps_hash=True)
class Binary(Spanned):
    """`op(left, right)`. The operands have one dtype; MUL may widen to a dtype that holds the product exactly."""

    op: str
    left: Body
    right: Body
    dtype: DType


@dataclass(frozen=True, slots=True, keeps_hash=True)
class Ternary(Spanned):
    """`where(first, second, third)`: `first` is bool and chosen at run time; Select is the choice that axes alone
    decide."""

    op: str
    first: Body
    second: Body
    third: Body
    dtype: DType


@dataclass(frozen=True, slots=True, keeps_hash=True)
class Select(Spanned):
    """`then` where the guard holds, else `other`; `then` is not read outside the guard."""

    guard: tuple[Bound, ...]
    then: Body
    other: Body
    dtype: DType


@dataclass(frozen=True, slots=True, keeps_hash=True)
class Reduce(Spanned):
    """The fold of `body` over `axes` by the reducer `op` (sum, prod, max, min, argmax, argmin) in the accumulator
    `dtype`. `init` is None for the reducer's neutral element. Over no element at all the value is the neutral
    element."""

    op: str
    axes: tuple[Axis, ...]
    body: Body
    dtype: DType
    init: float | int | bool | None = None


@dataclass(frozen=True, slots=True, keeps_hash=True)
class BroadcastInDim(Spanned):
    """The operand, constant along the axes that it has not. Axis j of the operand is axis dims[j] of `axes`; `axes` is
    None for all of the region's axes."""

    x: Body
    dims: tuple[int, ...]
    dtype: DType
    axes: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Transpose(Spanned):
    """The operand with its axes exchanged: axis j of the result is axis perm[j] of the operand; both have one size."""

    x: Body
    perm: tuple[int, ...]
    dtype: DType


@dataclass(frozen=True, slots=True, keeps_hash=True)
class Gather(Spanned):
    """`body` at the point of `axis` that the integer `at` gives: a negative one counts from the end; outside the extent
    it is 0."""

    axis: Axis
    at: Body
    body: Body
    dtype: DType


@dataclass(frozen=True, slots=True, keeps_hash=True)
class Scatter(Spanned):
    """`base`, folded (`op`: update, sum, prod, max, min) with every `update` over `axes` whose `at` is the point's
    `axis`, in their order; a place outside the extent is dropped, a negative one counts from the end."""

    op: str
    axis: str
    axes: tuple[Axis, ...]
    update: Body
    at: Body
    base: Body
    dtype: DType


@dataclass(frozen=True, slots=True, keeps_hash=True)
class Scan(Spanned):
    """The fold of `body` along `axis` up to this point, from the end when `reverse`, without this point when
    `exclusive`."""

    op: str
    axis: str
    body: Body
    dtype: DType
    reverse: bool = False
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class Random(Spanned):
    """Element number `index` of the Philox stream of `seed` and `offset`."""

    index: Expr
    seed: int
    offset: int
    dtype: DType


Body = Union[  # noqa: UP007
    Read,
    Ref,
    Literal,
    Index,
    Unary,
    Binary,
    Ternary,
    Select,
    Reduce,
    BroadcastInDim,
    Transpose,
    Gather,
    Scatter,
    Scan,
    Random,
]


def show_body(body: Body, beside: DType | None = None) -> str:
    """The text of an expression. A Literal is written without its dtype when that is `beside`, the dtype of its
    neighbours."""
    return _SHOW[type(body)](body, beside)


def _getter(names: tuple[str, ...]) -> Callable[[Body], tuple[Body, ...]] | None:
    """What gets these fields; None of no fields."""
    if len(names) == 1:
        get = operator.attrgetter(*names)
        return lambda body: (get(body),)
    return operator.attrgetter(*names) if names else None


def operands_of(body: Body) -> tuple[Body, ...]:
    """The expressions directly inside one."""
    inner = _INSIDE[type(body)]
    return () if inner is None else inner(body)


def walk(body: Body) -> Iterator[Body]:
    """The expression and all inside it, from the outside in."""
    pending = [body]
    while pending:
        node = pending.pop()
        yield node
        inner = _REVERSED[type(node)]
        if inner is not None:
            pending += inner(node)


def rebuild(body: Body, change: Callable[[Body], Body]) -> Body:
    """The expression with `change` applied to each directly inside it; the same object when nothing changed."""
    names = _INNER[type(body)]
    inner = [getattr(body, name) for name in names]
    changed = [change(i) for i in inner]
    return replace(body, **dict(zip(names, changed))) if any(map(operator.is_not, inner, changed)) else body


def substitute(body: Body, bindings: Mapping[str, Like]) -> Body:
    """The expression with axes replaced in every index and guard. A Ref at the current point cannot be moved so: give
    it an index."""

    def put(e: Expr | None) -> Expr | None:
        return None if e is None else e.substitute(bindings)

    moved = rebuild(body, lambda inner: substitute(inner, bindings))
    if isinstance(moved, Read):
        return replace(moved, index=tuple(map(put, moved.index)), slot=put(moved.slot))
    if isinstance(moved, Ref):
        return moved if moved.index is None else replace(moved, index=tuple(map(put, moved.index)))
    if isinstance(moved, Index):
        return replace(moved, expr=put(moved.expr))
    if isinstance(moved, Random):
        return replace(moved, index=put(moved.index))
    if isinstance(moved, Select):
        return replace(moved, guard=tuple(b.substitute(bindings) for b in moved.guard))
    return moved


def counted(body: Body) -> Expr | None:
    """The expression that a place or an integer is, in a dtype that holds every place along an axis; None for what is
    neither, and for dtypes that wrap or round some places."""
    if body.dtype not in PLACES or not isinstance(body, Index | Literal):
        return None
    return body.expr if isinstance(body, Index) else Expr.of(int(body.value))


def literal_neighbour(operands: tuple[Body, ...]) -> DType | None:
    """The dtype that a Literal takes among operands: that of the first that is not one."""
    return next((o.dtype for o in operands if not isinstance(o, Literal)), None)


def _show_read(body: Read, beside: DType | None) -> str:
    slot = "" if body.slot is None else f"[{body.slot}]"
    return f"{show_name(body.tensor)}{slot}{show_list(body.index)}"


def _show_ref(body: Ref, beside: DType | None) -> str:
    return f"%{show_name(body.name)}" + ("" if body.index is None else show_list(body.index))


def _show_literal(body: Literal, beside: DType | None) -> str:
    number = show_number(body.value, body.dtype)
    return number if beside == body.dtype else f"{number} : {body.dtype}"


def _show_call(body: Body, beside: DType | None) -> str:
    operands = operands_of(body)
    same = operands[1:] if isinstance(body, Ternary) else operands
    neighbour = literal_neighbour(same)
    shown = [show_body(o, neighbour if o in same else None) for o in operands]
    implied = (
        None
        if body.op in ("cast", "bitcast")
        else "bool"
        if body.op in ("cmplt", "cmpeq", "cmpne")
        else (neighbour or same[0].dtype).name
    )
    return f"{body.op}({', '.join(shown)})" + ("" if implied == body.dtype.name else f" : {body.dtype}")


def _bracket(body: Body, beside: DType | None) -> str:
    text = show_body(body, beside)
    return text if isinstance(body, (Read, Ref, Literal)) else f"({text})"


def _show_select(body: Select, beside: DType | None) -> str:
    neighbour = literal_neighbour((body.then, body.other))
    return f"{_bracket(body.then, neighbour)} where {show_guard(body.guard)} else {show_body(body.other, neighbour)}"


def _show_reduce(body: Reduce, beside: DType | None) -> str:
    init = "" if body.init is None else f" from {show_number(body.init, body.dtype)}"
    return f"reduce {body.op} ({', '.join(map(str, body.axes))}){init} : {body.dtype} {{ {show_body(body.body)} }}"


def _show_broadcast(body: BroadcastInDim, beside: DType | None) -> str:
    axes = "" if body.axes is None else f", axes={show_list(body.axes)}"
    return f"broadcast_in_dim({show_body(body.x)}, dims={show_list(body.dims)}{axes})"


def _show_gather(body: Gather, beside: DType | None) -> str:
    return f"gather ({body.axis} = {show_body(body.at)}) {{ {show_body(body.body)} }}"


def _show_scatter(body: Scatter, beside: DType | None) -> str:
    inside = f"{show_body(body.update, body.base.dtype)} at {show_body(body.at)}"
    return (
        f"scatter {body.op} {body.axis} ({', '.join(map(str, body.axes))}) {{ {inside} }} onto "
        f"{_bracket(body.base, None)}"
    )


def _show_scan(body: Scan, beside: DType | None) -> str:
    flags = (" reverse" if body.reverse else "") + (" exclusive" if body.exclusive else "")
    return f"scan {body.op}{flags} ({body.axis}) : {body.dtype} {{ {show_body(body.body)} }}"


_SHOW = {
    Read: _show_read,
    Ref: _show_ref,
    Literal: _show_literal,
    Index: lambda body, beside: f"index({body.expr}) : {body.dtype}",
    Unary: _show_call,
    Binary: _show_call,
    Ternary: _show_call,
    Select: _show_select,
    Reduce: _show_reduce,
    BroadcastInDim: _show_broadcast,
    Transpose: lambda body, beside: f"transpose({show_body(body.x)}, perm={show_list(body.perm)})",
    Gather: _show_gather,
    Scatter: _show_scatter,
    Scan: _show_scan,
    Random: lambda body, beside: f"random({body.index}) {{seed={body.seed}, offset={body.offset}}} : {body.dtype}",
}
_INNER = {kind: tuple(f.name for f in fields(kind) if f.type in ('"Body"', "'Body'", "Body")) for kind in _SHOW}
_INSIDE = {kind: _getter(names) for kind, names in _INNER.items()}
_REVERSED = {kind: _getter(names[::-1]) for kind, names in _INNER.items()}
