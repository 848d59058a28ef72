"""What the rewrites of tiny share: a module with other values, names put in place of names, and the text that tells two
values apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...ir.tiny import Module, MustFuse, Result, Value
from ...ir.verify import chain_of, computed_of
from ...kit.records import replace


def with_values(module: Module, values: Iterable[Value], names: Mapping[str, str] | None = None) -> Module:
    """The module with these values, its results renamed. So is what must share a kernel, in the order of the values:
    a movement that is gone by what it moved, and nothing in the place of what no kernel computes any longer."""
    renamed = names or {}
    results = tuple(Result(r.output, renamed.get(r.value, r.value)) for r in module.results)
    found = Module(module.model, tuple(values), results)
    if not module.must_fuse:
        return found
    computed, old = computed_of(found), module.value_of()
    place = {v.name: at for at, v in enumerate(found.values)}
    groups: set[tuple[int, ...]] = set()
    for one in module.must_fuse:
        chains = ([renamed.get(n, n) for n in chain_of(name, old)] for name in one.values)
        kept = {next((place[n] for n in chain if n in computed), -1) for chain in chains} - {-1}
        groups |= {tuple(sorted(kept))} if kept else set()
    return replace(found, must_fuse=tuple(MustFuse(tuple(found.values[at].name for at in g)) for g in sorted(groups)))


def with_operands(value: Value, names: Mapping[str, str]) -> Value:
    """The value with its operands renamed; itself when none is."""
    operands = tuple(names.get(o, o) for o in value.operands)
    return value if operands == value.operands else replace(value, operands=operands)
