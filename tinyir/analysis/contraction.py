"""Contractions, found from the maps alone: a sum over products whose factors are movements (seed 001 section 5.2).

No name is consulted, neither of an op of the model nor of a value. GEMM, batched GEMM, convolution, einsum and both
products of attention are one rule: which axes does each factor vary along, and does an index mix a sum axis with
another.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..ir import tiny
from ..ir.expr import ONE, ZERO, Expr
from ..ir.index import Access, Entry, Fill, Read
from ..ir.ops import OPS
from ..ir.poly import Window
from ..kit.phrase import Phrase
from ..kit.records import dataclass
from .access import compose

Ranges = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class Contraction:
    """A sum of products over the entry's axes: the product's value, its two factors as accesses of the sum's instances,
    axes by role."""

    product: str
    factors: tuple[Access, Access]
    batch: tuple[str, ...]
    left: tuple[str, ...]
    right: tuple[str, ...]
    sum: tuple[str, ...]
    windows: tuple[Window, ...]
    pattern: str


@dataclass(frozen=True, slots=True)
class Missed:
    """Why a reduction is not a contraction."""

    why: str


def find_contraction(
    value: tiny.Value, entries: Mapping[str, Entry], values: Mapping[str, tiny.Value], ranges: Ranges
) -> Contraction | Missed:
    """The contraction that the REDUCE `value` is, or what keeps it from being one."""
    entry = entries[value.name]
    if value.attr("op") != "SUM":
        return Missed(Phrase("it reduces by {attr}, not by SUM", attr=value.attr("op")))
    access = entry.sources[0]
    product = values.get(access.source or "")
    if product is None:
        return Missed(Phrase("what it sums is an input, not a product"))
    if product.op != "MUL":
        return Missed(Phrase("what it sums is {op}, not a product", op=product.op))
    if any(isinstance(p.target, Fill) and p.target.value != 0 for p in access.pieces):
        return Missed(Phrase("the product is padded with a value other than 0"))
    inner = entries[product.name]
    scope = entry.scope(ranges)
    left, right = (compose(access, source, scope) for source in inner.sources)
    for factor in (left, right):
        late = _computed_after_broadcast(factor, entries, values)
        if late:
            return Missed(late)
    uses = [_axes_used(factor, entry) for factor in (left, right)]
    own = [a.name for a in entry.own_axes]
    windows = tuple(w for factor in (left, right) for w in _windows(factor, entry))
    lone = {a for a in own if (a in uses[0]) != (a in uses[1])}
    is_conv = any(lone.intersection(w.index.names()) for w in windows)
    return Contraction(
        product.name,
        (left, right),
        batch=tuple(a for a in own if a not in lone),
        left=tuple(a for a in own if a in lone and a in uses[0]),
        right=tuple(a for a in own if a in lone and a in uses[1]),
        sum=tuple(a.name for a in entry.axes if a.kind == "reduce"),
        windows=windows,
        pattern="conv" if is_conv else "matmul",
    )


def _computed_after_broadcast(factor: Access, entries: Mapping[str, Entry], values: Mapping[str, tiny.Value]) -> str:
    """What to say when the factor is an elementwise value that nothing it is computed from varies along one of its
    axes: it is between a movement and the product, so its own map would show it as varying where it does not. Empty
    when all is well."""
    value = values.get(factor.source or "")
    if value is None or not OPS[value.op].is_elementwise:
        return ""
    entry = entries[value.name]
    varying = {name for source in entry.sources for e in source.exprs() for name in e.names()}
    for axis in entry.own_axes:
        if axis.name not in varying and axis.size != ONE:
            return Phrase(
                "the factor %{value} is computed ({op}) after its broadcast along {axis}",
                value=value.name,
                op=value.op,
                axis=axis.name,
            )
    return ""


def _axes_used(factor: Access, entry: Entry) -> set[str]:
    """The axes along which the factor varies; one of size 1 does not vary."""
    still = _still(entry)
    return {name for e in factor.exprs() for name in e.substitute(still).names()} & {a.name for a in entry.axes}


def _still(entry: Entry) -> dict[str, Expr]:
    return {a.name: ZERO for a in entry.axes if a.size == ONE}


def _windows(factor: Access, entry: Entry) -> list[Window]:
    """The indices that mix a sum axis with another axis, as written, each once."""
    summed = {a.name for a in entry.axes if a.kind == "reduce"}
    others = {a.name for a in entry.own_axes}
    found: dict[Window, None] = {}
    for piece in factor.pieces:
        for axis, index in enumerate(piece.target.index if isinstance(piece.target, Read) else ()):
            names = set(index.substitute(_still(entry)).names())
            if names & summed and names & others:
                found[Window(piece.target.source, axis, index)] = None
    return list(found)
