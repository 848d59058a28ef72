"""Type rules: the type that an op gives, from its operands' types and its attributes. One function a rule.

The builder of the front ends asks for the type; the checker compares it with the stated one. A rule that cannot hold
raises Refused.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..kit.diag import refuse
from ..kit.phrase import Phrase
from ..kit.text import show_list
from .expr import ONE, Expr
from .ops import REDUCERS, UPDATES, Op
from .types import DTYPES, DType, TensorType, is_exact


def infer(
    op: Op, types: Sequence[TensorType], attrs: Mapping[str, Any], stated: TensorType | None, at: str = ""
) -> TensorType:
    """The result type of `op`. `stated` is needed where operands and attributes leave it open: CONST, IOTA, RANDOM,
    CAST, RESHAPE, EXPAND, VIEW, BITCAST, and a widening MUL. Raises Refused: E0204, E1001, E1002, E1003, E1004, E1005,
    E1006, E11xx."""
    if len(types) != op.arity:
        raise refuse("E0204", at, op=op.name, wanted=op.arity, given=len(types))
    for t in types:
        if op.gives != "cast" and op.group != "indirect" and t.dtype.kind not in op.accepts:
            raise refuse("E1002", at, fault=Phrase("{op} does not take {dtype}", op=op.name, dtype=t.dtype))
    return _RULES[op.group](op, types, attrs, stated, at)


def _elementwise(
    op: Op, types: Sequence[TensorType], attrs: Mapping[str, Any], stated: TensorType | None, at: str
) -> TensorType:
    first, branches = types[0], types[1:] if op.name == "WHERE" else types
    for other in types[1:]:
        if other.shape != first.shape:
            raise broadcast_mismatch(first, other, at)
    for other in branches[1:]:
        if other.dtype != branches[0].dtype:
            raise refuse(
                "E1002",
                at,
                fault=Phrase(
                    "{op} takes one dtype, not {dtype} and {dtype2}",
                    op=op.name,
                    dtype=branches[0].dtype,
                    dtype2=other.dtype,
                ),
            )
    if op.name == "WHERE" and first.dtype.kind != "b":
        raise refuse("E1002", at, fault=Phrase("WHERE chooses by bool, not by {dtype}", dtype=first.dtype))
    if op.gives == "bool":
        return TensorType(DTYPES["bool"], first.shape)
    if (
        op.gives == "bits"
        and stated is not None
        and (stated.dtype.bits != first.dtype.bits or stated.dtype.kind == "b")
    ):
        raise refuse(
            "E1002",
            at,
            fault=Phrase(
                "{op} keeps the bits of {dtype}, which are not {dtype2}",
                op=op.name,
                dtype=first.dtype,
                dtype2=stated.dtype,
            ),
        )
    if op.gives in ("cast", "bits"):
        return TensorType(stated.dtype if stated else first.dtype, first.shape)
    widens = op.name == "MUL" and stated is not None and stated.dtype != first.dtype
    if widens:
        if not holds_product(stated.dtype, first.dtype):
            raise refuse(
                "E1002",
                at,
                fault=Phrase(
                    "a product of two {dtype} is not exact in {dtype2}", dtype=first.dtype, dtype2=stated.dtype
                ),
            )
        return TensorType(stated.dtype, first.shape)
    return TensorType(branches[0].dtype, first.shape)


def holds_product(wide: DType, narrow: DType) -> bool:
    """True when `wide` holds the product of any two `narrow` values exactly, up to its range: what MUL may widen to."""
    if narrow.is_float:
        return wide.is_float and wide.digits >= 2 * narrow.digits and is_exact(narrow, wide)
    if (narrow.kind, wide.kind) == ("u", "i"):
        return wide.bits > 2 * narrow.bits
    return wide.kind == narrow.kind and wide.bits >= 2 * narrow.bits


def broadcast_mismatch(left: TensorType, right: TensorType, at: str, where: str = "") -> Exception:
    """E1001 for two types, with the first axis from the right that differs, and the shape in which the smaller one
    would broadcast."""
    differing = [(i, a, b) for i, (a, b) in enumerate(zip(reversed(left.shape), reversed(right.shape)), 1) if a != b]
    axis = next((i for i, a, b in differing if ONE not in (a, b)), differing[0][0] if differing else None)
    where = where or (
        f"axis -{axis}: {left.shape[-axis]} against {right.shape[-axis]}"
        if axis
        else f"rank {left.rank} against {right.rank}"
    )
    small, big = (left, right) if left.rank < right.rank else (right, left)
    return refuse(
        "E1001",
        at,
        lhs=left,
        rhs=right,
        where=where,
        small=small,
        fits=show_list(fitting(small.shape, big.shape)),
    )


def fitting(small: tuple[Expr, ...], big: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The small shape with 1s put in so that it broadcasts to the big one; where no 1s can do it, the big one's own
    sizes."""
    shape: list[Expr] = []
    rest = list(small)
    for size in reversed(big):
        shape.insert(0, rest.pop() if rest and rest[-1] in (size, ONE) else ONE)
    return (
        tuple(shape[next((i for i, d in enumerate(shape) if d != ONE), 0) :])
        if not rest
        else big[len(big) - len(small) :]
    )


def product(dims: Sequence[Expr]) -> Expr:
    """The number of elements of a shape."""
    return _product_of(tuple(dims))


@functools.lru_cache(maxsize=1 << 14)
def _product_of(dims: tuple[Expr, ...]) -> Expr:
    return functools.reduce(operator.mul, dims, ONE)


def _axis(axis: int, rank: int, at: str) -> int:
    if not -rank <= axis < rank:
        raise refuse("E1006", at, axis=axis, rank=rank)
    return axis % rank


def _axes(axes: Sequence[int], rank: int, at: str) -> tuple[int, ...]:
    found = tuple(_axis(a, rank, at) for a in axes)
    if len(set(found)) != len(found):
        raise refuse("E1007", at, axes=list(axes))
    return found


def broadcast_dims(operand: TensorType, result: TensorType, attrs: Mapping[str, Any]) -> tuple[int, ...]:
    """Where each axis of an EXPAND's operand is in the result: `broadcast_dimensions`, or right-aligned."""
    stated = attrs.get("broadcast_dimensions")
    return tuple(stated) if stated is not None else tuple(range(result.rank - operand.rank, result.rank))


def _movement(
    op: Op, types: Sequence[TensorType], attrs: Mapping[str, Any], stated: TensorType | None, at: str
) -> TensorType:
    return _MOVED[op.name](types[0], attrs, stated, at)


def _reshape(source: TensorType, attrs: Mapping[str, Any], stated: TensorType, at: str) -> TensorType:
    left, right = product(source.shape), product(stated.shape)
    if left != right:
        raise refuse("E1003", at, source=source, result=stated, left=left, right=right)
    return TensorType(source.dtype, stated.shape)


def _permute(source: TensorType, attrs: Mapping[str, Any], stated: TensorType | None, at: str) -> TensorType:
    perm = attrs["perm"]
    if sorted(perm) != list(range(source.rank)):
        raise refuse("E1004", at, perm=list(perm), rank=source.rank)
    return TensorType(source.dtype, tuple(source.shape[p] for p in perm))


def _expand(source: TensorType, attrs: Mapping[str, Any], stated: TensorType, at: str) -> TensorType:
    dims = broadcast_dims(source, stated, attrs)
    rises = all(a < b for a, b in zip(dims, dims[1:])) and all(0 <= d < stated.rank for d in dims)
    if len(dims) != source.rank or not rises:
        raise refuse("E1008", at, source=source, result=stated, dims=list(dims))
    for size, d in zip(source.shape, dims):
        if size != ONE and size != stated.shape[d]:
            raise broadcast_mismatch(source, stated, at, f"axis {d}: {size} against {stated.shape[d]}")
    return TensorType(source.dtype, stated.shape)


def _pad(source: TensorType, attrs: Mapping[str, Any], stated: TensorType | None, at: str) -> TensorType:
    pads = attrs["pad"]
    if len(pads) != source.rank:
        raise refuse("E1101", at, what="pad", given=len(pads), rank=source.rank)
    for axis, (size, (low, high)) in enumerate(zip(source.shape, pads)):
        cut = [-e.constant for e in (low, high) if e.constant is not None and e.constant < 0]
        if size.constant is not None and sum(cut) > size.constant:
            raise refuse("E1103", at, axis=axis, size=size, low=low, high=high)
    return TensorType(source.dtype, tuple(size + low + high for size, (low, high) in zip(source.shape, pads)))


def _flip(source: TensorType, attrs: Mapping[str, Any], stated: TensorType | None, at: str) -> TensorType:
    _axes(attrs["axes"], source.rank, at)
    return source


def _view(source: TensorType, attrs: Mapping[str, Any], stated: TensorType, at: str) -> TensorType:
    if len(attrs["index_map"]) != source.rank:
        raise refuse("E1101", at, what="index_map", given=len(attrs["index_map"]), rank=source.rank)
    return TensorType(source.dtype, stated.shape)


def _same(source: TensorType, attrs: Mapping[str, Any], stated: TensorType | None, at: str) -> TensorType:
    return source


def _shrink(source: TensorType, attrs: Mapping[str, Any], stated: TensorType | None, at: str) -> TensorType:
    steps = attrs.get("step") or (1,) * source.rank
    for what in ("lo", "hi", "step"):
        given = len(attrs[what]) if attrs.get(what) is not None else source.rank
        if given != source.rank:
            raise refuse("E1101", at, what=what, given=given, rank=source.rank)
    shape = []
    for axis, (size, low, high, step) in enumerate(zip(source.shape, attrs["lo"], attrs["hi"], steps)):
        if step < 1:
            raise refuse("E1104", at, axis=axis, step=step)
        known = [e.constant for e in (low, high, size)]
        if None not in known and not 0 <= known[0] <= known[1] <= known[2]:
            raise refuse("E1102", at, axis=axis, low=low, high=high, size=size)
        shape.append((high - low).ceildiv(step))
    return TensorType(source.dtype, tuple(shape))


_MOVED: dict[str, Callable[..., TensorType]] = {
    "RESHAPE": _reshape,
    "PERMUTE": _permute,
    "EXPAND": _expand,
    "PAD": _pad,
    "SHRINK": _shrink,
    "FLIP": _flip,
    "VIEW": _view,
    "VALID": _same,
}


def _reduce(
    op: Op, types: Sequence[TensorType], attrs: Mapping[str, Any], stated: TensorType | None, at: str
) -> TensorType:
    source = types[0]
    if attrs["op"] not in REDUCERS:
        raise refuse("E0106", at, given=attrs["op"], known=", ".join(REDUCERS))
    axes = _axes(attrs["axes"], source.rank, at)
    kept = tuple(size for axis, size in enumerate(source.shape) if axis not in axes)
    return TensorType(attrs["dtype"], kept)


def _leaf(
    op: Op, types: Sequence[TensorType], attrs: Mapping[str, Any], stated: TensorType | None, at: str
) -> TensorType:
    if op.name == "IOTA":
        _axis(attrs["axis"], stated.rank, at)
    if op.name == "CONST" and isinstance(attrs["value"], tuple) and not fills(attrs["value"], stated.shape):
        raise refuse("E1009", at, given=list(literal_shape(attrs["value"])), result=stated)
    return stated


def literal_shape(literal: Any) -> tuple[int, ...]:
    """The shape of nested lists; ragged lists give the shape of the first branch, with -1 where another differs."""
    if not isinstance(literal, tuple):
        return ()
    if tuple not in set(map(type, literal)):  # a row of numbers, or none
        return (len(literal),)
    inner = [literal_shape(i) for i in literal]
    return (len(literal), *inner[0]) if all(i == inner[0] for i in inner) else (len(literal), -1)


def fills(literal: Any, shape: Sequence[Expr]) -> bool:
    """Whether nested lists hold the elements of `shape`. Lists cannot say what follows an empty axis: of a shape
    without elements they may end there, and `[]` says it whatever the shape."""
    given, wanted = literal_shape(literal), tuple(d.constant for d in shape)
    if 0 in wanted and None not in wanted:
        return given in ((0,), wanted[: wanted.index(0) + 1])
    return given == wanted


def _indirect(
    op: Op, types: Sequence[TensorType], attrs: Mapping[str, Any], stated: TensorType | None, at: str
) -> TensorType:
    source = types[0]
    axis = _axis(attrs["axis"], source.rank, at)
    if op.name == "SCAN":
        known = [name for name, row in REDUCERS.items() if row.fold]
        if attrs["op"] not in known:
            raise refuse("E0106", at, given=attrs["op"], known=", ".join(known))
        return TensorType(attrs["dtype"], source.shape)
    if not types[1].dtype.is_integer:
        raise refuse(
            "E1002", at, fault=Phrase("{op} takes integer indices, not {dtype}", op=op.name, dtype=types[1].dtype)
        )
    chosen = TensorType(source.dtype, source.shape[:axis] + types[1].shape + source.shape[axis + 1 :])
    if op.name == "GATHER":
        return chosen
    if attrs["op"] not in UPDATES:
        raise refuse("E0106", at, given=attrs["op"], known=", ".join(UPDATES))
    if types[2] != chosen:
        raise refuse(
            "E1002",
            at,
            fault=Phrase("SCATTER takes updates of {chosen} here, not {types}", chosen=chosen, types=types[2]),
        )
    return source


_RULES = {
    "unary": _elementwise,
    "binary": _elementwise,
    "ternary": _elementwise,
    "movement": _movement,
    "reduce": _reduce,
    "leaf": _leaf,
    "indirect": _indirect,
}
