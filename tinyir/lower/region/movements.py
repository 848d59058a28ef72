"""Movements that only change the order: where each element of a value goes, and which of them a contraction should find
done.

A fold may write its results in any order, but a contraction that must divide to find its operand (a row of all heads of
attention) cannot have it copied tile by tile. So such a movement is kept as a value, for the fold to write
(`store_in_order`).
"""

from __future__ import annotations

from collections.abc import Mapping

from ...analysis.access import compose, simplify
from ...ir import poly, tiny
from ...ir.expr import ZERO, Expr
from ...ir.index import Access, Entry, Piece, Read
from ...ir.ops import OPS
from ...ir.reshape import split
from ...ir.scope import Scope, has_floor
from ...ir.types import TensorType
from ...ir.verify import chain_of

ORDER = ("PERMUTE", "RESHAPE")
COMPUTED = ("unary", "binary", "ternary", "reduce")


def written_at(
    name: str, source: str, values: Mapping[str, tiny.Value], types: Mapping[str, TensorType], scope: Scope
) -> tuple[Expr, ...] | None:
    """The index in `name` of the element `i0, i1, ...` of `source`, whose domain is the scope; None unless only the
    order changes."""
    chain = chain_of(name, values)
    if source not in chain or any(ZERO in types[n].shape for n in chain):
        return None
    index = [Expr.of(f"i{axis}") for axis in range(types[source].rank)]
    for step in reversed(chain[: chain.index(source)]):
        value = values[step]
        if value.op not in ORDER:
            return None
        point = {f"i{axis}": e for axis, e in enumerate(index)}
        if value.op == "PERMUTE":
            index = [index[axis] for axis in value.attr("perm")]
        else:
            index = [e.substitute(point) for e in split(types[step].shape, types[value.operands[0]].shape)]
    target = simplify(Access((Piece((), Read(source, tuple(index))),)), scope).pieces[0].target
    return target.index if isinstance(target, Read) else None


def kept_for(
    module: poly.Module, entries: Mapping[str, Entry], values: Mapping[str, tiny.Value]
) -> dict[str, frozenset[str]]:
    """For each product of a contraction the movements that it should read as values: what is under them is computed
    for it alone, and read in place would need a floor."""
    users: dict[str, int] = {}
    for value in values.values():
        for operand in dict.fromkeys(value.operands):
            users[operand] = users.get(operand, 0) + 1
    results = {r.value for r in module.index.tiny.results}
    found: dict[str, frozenset[str]] = {}
    for block in module.blocks:
        if block.kind == "contraction" and block.left and block.right:
            for product in block.fuses:
                kept = {
                    m
                    for at in range(len(entries[product].reads))
                    if (m := _kept(product, at, module, entries, values, users, results))
                }
                if kept:
                    found[product] = frozenset(kept)
    return found


def _kept(
    product: str,
    at: int,
    module: poly.Module,
    entries: Mapping,
    values: Mapping,
    users: Mapping[str, int],
    results: set[str],
) -> str | None:
    """The movement at which the read of one factor should stop, or None."""
    read = entries[product].sources[at].read
    if (
        read is None
        or not any(map(has_floor, read.index))
        or read.source not in values
        or OPS[values[read.source].op].group not in COMPUTED
    ):
        return None
    chain = chain_of(values[product].operands[at], values)
    if any(users[n] > 1 or n in results for n in chain) or not all(entries[n].is_scop for n in chain):
        return None
    for name in reversed(chain[:-1]):
        if values[name].op not in ORDER:
            return None
        plain = read_until(product, at, frozenset((name,)), module, entries).read
        if plain is not None and all(e.name is not None or e.constant is not None for e in plain.index):
            return name
    return None


def read_until(name: str, at: int, stops: frozenset[str], module: poly.Module, entries: Mapping[str, Entry]) -> Access:
    """The read of one operand, composed with the movements under it down to one of `stops`."""
    entry, values = entries[name], module.index.tiny.value_of()
    scope = entry.scope(module.index.ranges())
    access = entry.reads[at]
    while access.source in values and OPS[values[access.source].op].is_movement and access.source not in stops:
        access = compose(access, entries[access.source].reads[0], scope)
    return access
