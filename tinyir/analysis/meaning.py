"""What each tiny op reads, said as relations: the specification that the book is validated against
(`analysis.validate`).

Written apart from the lowering and in another way: constraints between a point of the value and a point of the operand,
not expressions for the latter. A reshape is "both have the same place in memory"; isl solves for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..ir.accumulate import neutral_of
from ..ir.expr import ONE, Bound, Expr
from ..ir.ops import OPS
from ..ir.reshape import groups
from ..ir.rules import broadcast_dims
from ..ir.tiny import Value
from ..ir.types import TensorType
from ..kit.records import dataclass


@dataclass(frozen=True, slots=True)
class Meaning:
    """One operand's part: the constraints between `i..., k...` (the value's instance) and `o...` (the operand's point),
    beside both being inside their shapes, and the constant that the value has where there is no such point."""

    constraints: tuple[Bound, ...]
    fill: float | int | bool | None = None


def meanings_of(value: Value, operands: list[TensorType]) -> tuple[Meaning, ...]:
    """A Meaning for each operand."""
    return (
        _elementwise(value, operands)
        if OPS[value.op].is_elementwise
        else _RULES[value.op](value, operands)
        if operands
        else ()
    )


def extra_axes(value: Value, operands: list[TensorType]) -> tuple[Expr, ...]:
    """The sizes of the axes right of the bar."""
    if value.op == "REDUCE":
        reduced = {a % operands[0].rank for a in value.attr("axes")}
        return tuple(size for n, size in enumerate(operands[0].shape) if n in reduced)
    if value.op in ("GATHER", "SCAN"):
        return (operands[0].shape[value.attr("axis") % operands[0].rank],)
    return operands[1].shape if value.op == "SCATTER" else ()


def _i(n: int) -> Expr:
    return Expr.of(f"i{n}")


def _o(n: int) -> Expr:
    return Expr.of(f"o{n}")


def _same(pairs: Iterator[tuple[Any, Any]] | list[tuple[Any, Any]]) -> Meaning:
    return Meaning(tuple(Bound(Expr.of(a), equals=Expr.of(b)) for a, b in pairs))


def _elementwise(value: Value, operands: list[TensorType]) -> tuple[Meaning, ...]:
    return tuple(_same([(_o(n), _i(n)) for n in range(t.rank)]) for t in operands)


def _permute(value: Value, operands: list[TensorType]) -> tuple[Meaning, ...]:
    return (_same([(_i(n), _o(axis)) for n, axis in enumerate(value.attr("perm"))]),)


def _expand(value: Value, operands: list[TensorType]) -> tuple[Meaning, ...]:
    (source,) = operands
    stands = broadcast_dims(source, value.type, dict(value.attrs))
    return (_same([(_o(n), _i(at) if size != ONE else 0) for n, (size, at) in enumerate(zip(source.shape, stands))]),)


def _reshape(value: Value, operands: list[TensorType]) -> tuple[Meaning, ...]:
    pairs = []
    for inner, outer in groups(operands[0].shape, value.type.shape):
        pairs.append((_place(inner, _o), _place(outer, _i)))
    return (_same(pairs),)


def _place(dims: Any, point: Callable[[int], Expr]) -> Expr:
    place = Expr.of(0)
    for axis, size in dims:
        place = place * size + point(axis)
    return place


def _pad(value: Value, operands: list[TensorType]) -> tuple[Meaning, ...]:
    moved = _same([(_o(n) + low, _i(n)) for n, (low, _) in enumerate(value.attr("pad"))])
    return (Meaning(moved.constraints, value.fill),)


def _shrink(value: Value, operands: list[TensorType]) -> tuple[Meaning, ...]:
    steps = value.attr("step") or (1,) * operands[0].rank
    return (_same([(_o(n) - low, _i(n) * step) for n, (low, step) in enumerate(zip(value.attr("lo"), steps))]),)


def _flip(value: Value, operands: list[TensorType]) -> tuple[Meaning, ...]:
    axes = {a % operands[0].rank for a in value.attr("axes")}
    return (
        _same([(_o(n) + _i(n) + 1, size) if n in axes else (_o(n), _i(n)) for n, size in enumerate(operands[0].shape)]),
    )


def _view(value: Value, operands: list[TensorType]) -> tuple[Meaning, ...]:
    return (_same([(_o(n), e) for n, e in enumerate(value.attr("index_map"))]),)


def _valid(value: Value, operands: list[TensorType]) -> tuple[Meaning, ...]:
    same = _elementwise(value, operands)[0]
    return (Meaning((*same.constraints, *value.attr("guard")), value.fill),)


def _reduce(value: Value, operands: list[TensorType]) -> tuple[Meaning, ...]:
    reduced = sorted(a % operands[0].rank for a in value.attr("axes"))
    kept = [n for n in range(operands[0].rank) if n not in reduced]
    return (
        _same([*((_o(n), _i(at)) for at, n in enumerate(kept)), *((_o(n), f"k{at}") for at, n in enumerate(reduced))]),
    )


def _scan(value: Value, operands: list[TensorType]) -> tuple[Meaning, ...]:
    axis = value.attr("axis") % operands[0].rank
    same = _same([(_o(n), "k0" if n == axis else _i(n)) for n in range(operands[0].rank)])
    ahead = Expr.of("k0") - _i(axis) if value.attr("reverse") else _i(axis) - "k0"
    order = Bound(ahead, Expr.of(1 if value.attr("exclusive") else 0))
    neutral = neutral_of(value.attr("op"), value.attr("dtype")).value  # of the dtype in which elements are put together
    return (Meaning((*same.constraints, order), neutral),)


def _gather(value: Value, operands: list[TensorType]) -> tuple[Meaning, ...]:
    source, chosen = operands
    axis, more = value.attr("axis") % source.rank, chosen.rank - 1
    data = [(_o(n), _i(n) if n < axis else "k0" if n == axis else _i(n + more)) for n in range(source.rank)]
    return _same(data), _same([(_o(n), _i(axis + n)) for n in range(chosen.rank)])


def _scatter(value: Value, operands: list[TensorType]) -> tuple[Meaning, ...]:
    source, chosen, updates = operands
    axis, more = value.attr("axis") % source.rank, chosen.rank - 1
    data, indices = (
        _same([(_o(n), _i(n)) for n in range(source.rank)]),
        _same([(_o(n), f"k{n}") for n in range(chosen.rank)]),
    )
    moved = [
        (_o(n), _i(n) if n < axis else f"k{n - axis}" if n <= axis + more else _i(n - more))
        for n in range(updates.rank)
    ]
    return data, indices, _same(moved)


_RULES: dict[str, Callable[[Value, list[TensorType]], tuple[Meaning, ...]]] = {
    "PERMUTE": _permute,
    "EXPAND": _expand,
    "RESHAPE": _reshape,
    "PAD": _pad,
    "SHRINK": _shrink,
    "FLIP": _flip,
    "VIEW": _view,
    "VALID": _valid,
    "REDUCE": _reduce,
    "SCAN": _scan,
    "GATHER": _gather,
    "SCATTER": _scatter,
}
