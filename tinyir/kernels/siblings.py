"""Contractions that are the same but for their tensors, as one kernel: an axis of its own, `sibling`, says which of
them is computed.

    region q    %q = reduce sum (k0: K) { mul(X[i0, k0], Wq[k0, i1]) }      sibling 0: Wq, q
    region k    %k = reduce sum (k0: K) { mul(X[i0, k0], Wk[k0, i1]) }      sibling 1: Wk, k

A plan of several regions that hand one another nothing is of this kind. It speaks of the first region's tensors and
values; the axis is outermost among those that both factors have.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from ..ir.alike import form_of
from ..ir.body import Axis, Read, Reduce, walk
from ..ir.expr import Expr
from ..ir.region import Region
from ..kit.phrase import Phrase
from ..kit.records import dataclass, replace
from .problem import SIBLING, Contraction, kernel_of


@dataclass(frozen=True, slots=True)
class Siblings:
    """`kernel` is the first region's contraction with the axis of the siblings. `tensors` gives for each tensor of the
    first region that is not all siblings' own the tensors in its place, one of each sibling."""

    regions: tuple[Region, ...]
    kernel: Contraction
    tensors: tuple[tuple[str, tuple[str, ...]], ...]


@functools.lru_cache(maxsize=256)
def siblings_of(regions: tuple[Region, ...]) -> Siblings | str:
    """The regions as siblings, or in words why they are none."""
    first = regions[0]
    kernel = kernel_of(first, "contraction")
    if not isinstance(kernel, Contraction) or not kernel.is_alone or kernel.pair is not None:
        return Phrase("{first} is not a contraction", first=first.name)
    if any(a.name.rstrip("_") == SIBLING for a in first.iters):
        return Phrase("{first} has an axis of the name that counts siblings", first=first.name)
    written = {t.name for one in regions for t in one.outputs}
    if len(written) < sum(len(one.outputs) for one in regions) or any(
        t.name in written for one in regions for t in one.inputs
    ):
        return Phrase("one hands another what it writes")
    if any(_may_overwrite(one, other) for one in regions for other in regions if one is not other):
        return Phrase("one writes a state that another may read")
    forms = [form_of(one) for one in regions]
    for one, form in zip(regions[1:], forms[1:]):
        if form.shape != forms[0].shape:
            return Phrase("{name} is not {first} with other tensors", name=one.name, first=first.name)
    rows = tuple((name, tuple(form.tensors[at] for form in forms)) for at, name in enumerate(forms[0].tensors))
    axis = Axis(SIBLING, Expr.of(len(regions)))
    return Siblings(
        regions, replace(kernel, batch=(axis, *kernel.batch)), tuple(row for row in rows if len(set(row[1])) > 1)
    )


def _may_overwrite(one: Region, other: Region) -> bool:
    """Whether a region writes memory that another reads under another name: siblings run at the same time."""
    states = {t.attr("alias") for t in one.outputs} - {None}
    return any(t.name in states or t.attr("alias") is not None for t in other.inputs) if states else False


def names_of(region: Region) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of its tensors and of its values, in an order that is the same for all regions of a likeness."""
    return form_of(region).names


def are_neighbours(regions: tuple[Region, ...], program: tuple[Region, ...]) -> bool:
    """Whether the regions are side by side in a program, in this order."""
    first = program.index(regions[0])
    return program[first : first + len(regions)] == regions


def siblings_in(regions: Iterable[Region]) -> tuple[tuple[Region, ...], ...]:
    """Neighbours among the regions that are siblings with an operand in common, as many together as there are."""
    found: list[tuple[Region, ...]] = []
    for one in regions:
        if (
            found
            and _folds(found[-1][-1])
            and _folds(one)
            and _share_an_operand(found[-1][-1], one)
            and isinstance(siblings_of((*found[-1], one)), Siblings)
        ):
            found[-1] = (*found[-1], one)
        else:
            found.append((one,))
    return tuple(group for group in found if len(group) > 1)


def _folds(region: Region) -> bool:
    return any(isinstance(let.expr, Reduce) for let in region.lets)


def _share_an_operand(left: Region, right: Region) -> bool:
    kernels = [kernel_of(one, "contraction") for one in (left, right)]
    operands = [
        {n.tensor for f in k.factors for n in walk(f) if isinstance(n, Read)}
        for k in kernels
        if isinstance(k, Contraction)
    ]
    return len(operands) == 2 and bool(operands[0] & operands[1])
