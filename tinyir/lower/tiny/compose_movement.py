"""Movement of movement is one movement, and movement that moves nothing is gone.

    in x : fp32[M, K]
    %row = RESHAPE(x) : fp32[M, 1, K]
    %wide = EXPAND(%row) : fp32[M, N, K]
    %back = PERMUTE(%wide) {perm=[0, 2, 1]} : fp32[M, K, N]
    %same = RESHAPE(%back) : fp32[M, K, N]
    %y = NEG(%same) : fp32[M, K, N]
->
    in x : fp32[M, K]
    %row = RESHAPE(x) : fp32[M, 1, K]
    %wide = EXPAND(x) {broadcast_dimensions=[0, 2]} : fp32[M, N, K]
    %back = EXPAND(x) {broadcast_dimensions=[0, 1]} : fp32[M, K, N]
    %y = NEG(%back) : fp32[M, K, N]

Only pairs whose composition is again one op are composed; what has lost its user is for remove_dead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...ir.expr import ONE, ZERO, Expr
from ...ir.ops import OPS
from ...ir.rules import broadcast_dims
from ...ir.tiny import Module, Value
from ...ir.types import TensorType
from ...kit.records import replace
from .graph import with_operands, with_values

Rule = Callable[[Value, Value, TensorType], Value | None]  # outer, inner, the type that inner reads


def compose_movement(module: Module) -> Module:
    """Every movement reads as far back as one op of its kind can."""
    types = module.type_of()
    values: dict[str, Value] = {}
    names: dict[str, str] = {}
    for value in module.values:
        value = with_operands(value, names)
        while OPS[value.op].is_movement and not _moves_nothing(value, types[value.operands[0]]):
            simpler = _simplified(value, values, types)
            if simpler is None:
                break
            value = simpler
        if OPS[value.op].is_movement and _moves_nothing(value, types[value.operands[0]]):
            names[value.name] = value.operands[0]
        else:
            values[value.name] = value
    return with_values(module, values.values(), names)


def _simplified(value: Value, values: dict[str, Value], types: dict[str, TensorType]) -> Value | None:
    """The value with one movement less below it, or in a plainer form; None when there is none."""
    source = value.operands[0]
    plain = _plain(value, types[source])
    if plain is not None:
        return plain
    inner = values.get(source)
    rule = _COMPOSED.get((value.op, inner.op)) if inner is not None else None
    return rule(value, inner, types[inner.operands[0]]) if rule is not None else None


def _moves_nothing(value: Value, source: TensorType) -> bool:
    if value.op == "RESHAPE" or value.op == "EXPAND":
        return value.type == source
    if value.op == "PERMUTE":
        return value.attr("perm") == tuple(range(source.rank))
    if value.op == "PAD":
        return all(size == ZERO for pair in value.attr("pad") for size in pair)
    if value.op == "SHRINK":
        return (
            value.attr("hi") == source.shape
            and set(value.attr("lo")) <= {ZERO}
            and set(value.attr("step") or ()) <= {1}
        )
    if value.op == "FLIP":
        return all(source.shape[a] == ONE for a in value.attr("axes"))
    return (
        value.op == "VIEW"
        and value.type == source
        and value.attr("index_map") == tuple(Expr.of(f"i{a}") for a in range(source.rank))
    )


def _made(outer: Value, inner: Value, op: str, **attrs: Any) -> Value:
    """`op` on what `inner` reads, with the name and the type of `outer`; attributes that are None are left out."""
    ordered = tuple((key, attrs[key]) for key in OPS[op].attrs or () if attrs.get(key) is not None)
    return replace(outer, op=op, operands=inner.operands, attrs=ordered)


# --- one op in a plainer form


def _plain(value: Value, source: TensorType) -> Value | None:
    if value.op == "PERMUTE":
        turned = [p for p in value.attr("perm") if source.shape[p] != ONE]
        if turned == sorted(turned) and value.attr("perm") != tuple(range(source.rank)):
            return replace(value, op="RESHAPE", attrs=())  # only axes of size 1 change places
    if value.op == "EXPAND":
        if [d for d in value.type.shape if d != ONE] == [d for d in source.shape if d != ONE]:
            return replace(value, op="RESHAPE", attrs=())  # nothing is repeated
        dims = broadcast_dims(source, value.type, dict(value.attrs))
        spread = _spread(value, source, [d for d, size in zip(dims, source.shape) if size != ONE])
        return spread if spread is not None and spread != value else None
    return None


def _spread(value: Value, source: TensorType, places: Sequence[int]) -> Value | None:
    """The EXPAND of `source` whose axes are at `places`, those of size 1 as far right as they go; None where they
    find no room."""
    dims: list[int] = []
    free, left = value.type.rank, list(places)
    for size in reversed(source.shape):
        free = free - 1 if size == ONE else left.pop()
        dims.insert(0, free)
    if not all(a < b for a, b in zip([-1, *dims], dims)):
        return None
    is_right = dims == list(range(value.type.rank - source.rank, value.type.rank))
    return replace(value, op="EXPAND", attrs=() if is_right else (("broadcast_dimensions", tuple(dims)),))


# --- two ops in one


def _reshape_reshape(outer: Value, inner: Value, source: TensorType) -> Value | None:
    return _made(outer, inner, "RESHAPE")


def _permute_permute(outer: Value, inner: Value, source: TensorType) -> Value | None:
    return _made(outer, inner, "PERMUTE", perm=tuple(inner.attr("perm")[p] for p in outer.attr("perm")))


def _expand_expand(outer: Value, inner: Value, source: TensorType) -> Value | None:
    first, then = (broadcast_dims(s, v.type, dict(v.attrs)) for s, v in ((source, inner), (inner.type, outer)))
    return _made(outer, inner, "EXPAND", broadcast_dimensions=tuple(then[d] for d in first))


def _permute_expand(outer: Value, inner: Value, source: TensorType) -> Value | None:
    perm = outer.attr("perm")
    dims = [perm.index(d) for d in broadcast_dims(source, inner.type, dict(inner.attrs))]
    fixed = [d for d, size in zip(dims, source.shape) if size != ONE]
    if fixed != sorted(fixed):
        return None
    return _spread(_made(outer, inner, "EXPAND"), source, fixed)


def _expand_reshape(outer: Value, inner: Value, source: TensorType) -> Value | None:
    """A RESHAPE that only puts in or takes away axes of size 1 is told by where the others are."""
    kept = [(axis, size) for axis, size in enumerate(inner.type.shape) if size != ONE]
    if [size for _, size in kept] != [size for size in source.shape if size != ONE]:
        return None
    dims = broadcast_dims(inner.type, outer.type, dict(outer.attrs))
    return _spread(_made(outer, inner, "EXPAND"), source, [dims[axis] for axis, _ in kept])


def _reshape_expand(outer: Value, inner: Value, source: TensorType) -> Value | None:
    """The same, with the RESHAPE after what is repeated."""
    before, after = ([axis for axis, size in enumerate(v.type.shape) if size != ONE] for v in (inner, outer))
    if [inner.type.shape[a] for a in before] != [outer.type.shape[a] for a in after]:
        return None
    moved = dict(zip(before, after))
    dims = broadcast_dims(source, inner.type, dict(inner.attrs))
    return _spread(
        _made(outer, inner, "EXPAND"), source, [moved[d] for d, size in zip(dims, source.shape) if size != ONE]
    )


def _flip_flip(outer: Value, inner: Value, source: TensorType) -> Value | None:
    twice = [{a % source.rank for a in v.attr("axes")} for v in (outer, inner)]
    return _made(outer, inner, "FLIP", axes=tuple(sorted(twice[0] ^ twice[1])))


def _shrink_shrink(outer: Value, inner: Value, source: TensorType) -> Value | None:
    if set(inner.attr("step") or ()) - {1}:
        return None
    lows = inner.attr("lo")
    low, high = (tuple(a + b for a, b in zip(lows, outer.attr(key))) for key in ("lo", "hi"))
    return _made(outer, inner, "SHRINK", lo=low, hi=high, step=outer.attr("step"))


def _pad_pad(outer: Value, inner: Value, source: TensorType) -> Value | None:
    first, then = inner.attr("pad"), outer.attr("pad")
    is_growing = all(size.constant is not None and size.constant >= 0 for pair in (*first, *then) for size in pair)
    if not is_growing or repr(inner.attr("value")) != repr(outer.attr("value")):
        return None
    pad = tuple((a + c, b + d) for (a, b), (c, d) in zip(first, then))
    return _made(outer, inner, "PAD", pad=pad, value=outer.attr("value"))


def _view_view(outer: Value, inner: Value, source: TensorType) -> Value | None:
    read = {f"i{axis}": e for axis, e in enumerate(outer.attr("index_map"))}
    return _made(outer, inner, "VIEW", index_map=tuple(e.substitute(read) for e in inner.attr("index_map")))


_COMPOSED: dict[tuple[str, str], Rule] = {
    ("RESHAPE", "RESHAPE"): _reshape_reshape,
    ("PERMUTE", "PERMUTE"): _permute_permute,
    ("PERMUTE", "EXPAND"): _permute_expand,
    ("EXPAND", "EXPAND"): _expand_expand,
    ("EXPAND", "RESHAPE"): _expand_reshape,
    ("RESHAPE", "EXPAND"): _reshape_expand,
    ("FLIP", "FLIP"): _flip_flip,
    ("SHRINK", "SHRINK"): _shrink_shrink,
    ("PAD", "PAD"): _pad_pad,
    ("VIEW", "VIEW"): _view_view,
}
