"""Domains, accesses and dependences as isl sets and maps. Texts are isl's notation; isl itself is asked only for
dependences.

A dependence is computed once for each shape of the pair of accesses, with placeholder names for the three tuples, and
kept by its text: the thousand residual additions of a network are one question to isl.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

from ..ir.expr import Expr
from ..ir.index import Access, Axis, Entry, Read
from ..ir.sets import as_affine, bound_text, domain_text, read_map, read_set, show_isl, with_names

Params = dict[Expr, str]


def domain_of(entry: Entry, name: str, params: Params) -> str:
    """The instances of a value: `{ gemm[i0, i1, k0] : 0 <= i0 < M and ... }`."""
    constraints = " and ".join(domain_text(_sized(entry.axes), params))
    return f"{{ {instance(name, entry.axes)}{' : ' if constraints else ''}{constraints} }}"


def instance(name: str, axes: Iterable[Axis]) -> str:
    """An instance tuple: `gemm[i0, i1, k0]`."""
    return f"{name}[{', '.join(a.name for a in axes)}]"


def write_of(entry: Entry, name: str) -> str:
    """Which element each instance computes: `{ gemm[i0, i1, k0] -> gemm[i0, i1] }`."""
    return f"{{ {instance(name, entry.axes)} -> {instance(name, entry.own_axes)} }}"


def reads_of(
    entry: Entry, accesses: Iterable[Access], names: Mapping[str, str], name: str, params: Params
) -> tuple[tuple[str, str], ...]:
    """(source, relation) of each access of an affine entry, in order, without repetition and without those that are
    constants."""
    found: dict[tuple[str, str], None] = {}
    for access in accesses:
        if access.source is not None:
            found[access.source, read_of(entry, access, names[access.source], name, params)] = None
    return tuple(found)


def read_of(entry: Entry, access: Access, source: str, name: str, params: Params) -> str:
    """The elements of a source that each instance reads: `{ conv[i0, k0] -> X[2*i0 + k0 - 1] : 0 <= 2*i0 + k0 - 1 < H
    }`."""
    here = instance(name, entry.axes)
    parts, earlier = [], []
    for piece in access.pieces:
        own = [bound_text(b, params) for b in piece.guard]
        if isinstance(piece.target, Read):
            there = ", ".join(str(as_affine(e, params)) for e in piece.target.index)
            guard = " and ".join([*own, *earlier])
            parts.append(f"{here} -> {source}[{there}]{' : ' if guard else ''}{guard}")
        earlier.append(f"not ({' and '.join(own)})")
    return f"{{ {'; '.join(parts)} }}"


def may_read(entry: Entry, shape: Iterable[Expr], source: str, name: str, params: Params) -> str:
    """The relation of an instance that may read any element: what is known of a map that is not affine."""
    sizes = [(f"o{n}", size) for n, size in enumerate(shape)]
    constraints = " and ".join(domain_text(tuple(sizes), params))
    there = f"{source}[{', '.join(o for o, _ in sizes)}]"
    return f"{{ {instance(name, entry.axes)} -> {there}{' : ' if constraints else ''}{constraints} }}"


def dependence(
    source: tuple[str, str, str], target: tuple[str, str, tuple[str, ...]], params: tuple[str, ...]
) -> str | None:
    """The isl map from the instances that write a value to those that read it; None when there is none.

    `source` is (tuple name, domain, write), `target` is (tuple name, domain, its reads of that value).
    """
    wrote, wrote_domain, write = source
    reader, reader_domain, reads = target
    found = _dependence(
        with_names(wrote_domain, "writer_"),
        with_names(write, "writer_", "value_"),
        with_names(reader_domain, "reader_"),
        tuple(with_names(read, "reader_", "value_") for read in reads),
        params,
    )
    return None if found is None else found.replace("writer_[", f"{wrote}[").replace("reader_[", f"{reader}[")


def reverse(relation: str, params: tuple[str, ...]) -> str:
    """The map the other way round."""
    return show_isl(read_map(relation, params).reverse())


@functools.lru_cache(maxsize=1 << 14)
def _dependence(
    wrote_domain: str, write: str, reader_domain: str, reads: tuple[str, ...], params: tuple[str, ...]
) -> str | None:
    writer = read_map(write, params).intersect_domain(read_set(wrote_domain, params))
    total = None
    for read in reads:
        reader = read_map(read, params).intersect_domain(read_set(reader_domain, params))
        found = writer.apply_range(reader.reverse())
        total = found if total is None else total.union(found)
    if total is None or total.is_empty():
        return None
    axes = reader_domain.partition("[")[2].partition("]")[0]
    return show_isl(
        total.apply_range(read_map(f"{{ reader_[{axes}] -> reader_[{axes}] }}", params))
        .coalesce()
        .remove_redundancies()
    )


def _sized(axes: Iterable[Axis]) -> tuple[tuple[str, Expr], ...]:
    return tuple((a.name, a.size) for a in axes)
