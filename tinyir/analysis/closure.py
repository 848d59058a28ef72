"""Affine closure: where the composition of maps ends before it reaches what is computed or input, and why (seed 001
section 7.1).

Composed maps stay piecewise affine through every movement but three kinds: a reshape across symbols, an element chosen
at run time, and a chain that mixes ever more and would not end.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..ir import index
from ..ir.expr import ONE, Expr
from ..ir.ops import OPS
from ..ir.sets import is_representable
from ..kit.records import dataclass


@dataclass(frozen=True, slots=True)
class Opening:
    """A value whose composed map ends at `source`. `why` is affine (isl cannot hold `expr`), run time (a value chooses
    the element) or length (the movement `source` is read as a value of its own, since the map through it would be too
    long)."""

    value: str
    source: str
    why: str
    expr: Expr | None = None


def openings(module: index.Module) -> Iterator[Opening]:
    """Every place where closure fails, in the program's order."""
    values = module.tiny.value_of()
    entries = module.entry_of()
    for value, entry in zip(module.tiny.values, module.entries):
        if not entry.is_scop:
            axes = dict.fromkeys((a.name for a in entry.axes), ONE)
            odd = next(e for s in entry.sources for e in s.exprs() if not is_representable(e, axes))
            yield Opening(value.name, value.operands[0], "affine", odd)
        elif entry.is_indirect:
            yield Opening(value.name, value.operands[0], "run time")
        else:
            for source in dict.fromkeys(s.source for s in entry.sources):
                if source in values and OPS[values[source].op].is_movement and entries[source].is_scop:
                    yield Opening(value.name, source, "length")
