"""Scatters in which each update goes to its place by itself: which regions are such, and which folds give the same bits
in any order; and those that put updates into a state in place."""

from __future__ import annotations

from ..kit.phrase import Phrase
from ..kit.records import replace
from .body import Axis, Body, Read, Ref, Scatter, walk
from .expr import ONE, ZERO
from .plan.words import UNORDERED
from .region import Region
from .traits import bodies_of
from .types import DType

BYTES = (4, 8)  # of what an atomic takes


def scatter_of(region: Region) -> Scatter | str:
    """The scatter that the region's one output is, where an atomic can take each of its updates; else what
    prevents it."""
    found = [n for body in bodies_of(region) for n in walk(body) if isinstance(n, Scatter)]
    if len(found) != 1 or len(region.yields) != 1:
        return Phrase("is not of one scatter alone")
    (scatter,), (item,) = found, region.yields
    if _through(region, item.expr) is not scatter or item.guard:
        return Phrase("has work after its scatter")
    if scatter.op == "update":
        return Phrase("keeps the last of the updates of a place, and atomics have no last")
    if scatter.dtype.bytes not in BYTES or scatter.dtype.kind == "b":
        return Phrase("has elements of {dtype}, which no atomic takes", dtype=scatter.dtype)
    written = {name for e in item.index for name in e.names()}
    missing = [a.name for a in region.iters if a.name not in written and a.size != ONE]
    return Phrase("writes one element along {missing}", missing=", ".join(missing)) if missing else scatter


def updates_of(region: Region, scatter: Scatter) -> tuple[Axis, ...]:
    """The axes along which the updates go: the region's, with the scatter's own in place of the one along which it
    scatters."""
    return tuple(axis for a in region.iters for axis in (scatter.axes if a.name == scatter.axis else (a,)))


def put_in_place(region: Region) -> Scatter | str:
    """The scatter that puts updates into the memory of a state, of which it reads the old value at its own place; else
    the reason why the region has none."""
    found = [n for body in bodies_of(region) for n in walk(body) if isinstance(n, Scatter)]
    if len(found) != 1 or len(region.yields) != 1 or len(region.lets) > 1:
        return Phrase("is not of one scatter alone")
    (scatter,), (item,) = found, region.yields
    if _through(region, item.expr) is not scatter or item.guard:
        return Phrase("has work after its scatter")
    if scatter.op != "update":
        return Phrase("folds its updates")
    if any(a.size == ZERO for a in region.iters):
        return Phrase("has no elements")
    memory = {t.name: t.attr("alias") or t.name for t in (*region.inputs, *region.outputs)}
    base = scatter.base
    is_own = isinstance(base, Read) and base.index == item.index and memory[base.tensor] == memory[item.output]
    if not is_own:
        return Phrase("does not scatter onto the memory that it writes")
    written = {name for e in item.index for name in e.names()}
    missing = [a.name for a in region.iters if a.name not in written and a.size != ONE]
    return Phrase("writes one element along {missing}", missing=", ".join(missing)) if missing else scatter


def columns_of(region: Region, scatter: Scatter) -> tuple[Axis, ...]:
    """The axes of a region along which a scatter does not scatter."""
    return tuple(a for a in region.iters if a.name != scatter.axis)


def base_of(region: Region, scatter: Scatter) -> Region:
    """The region that gives what its scatter scatters onto."""

    def based(body: Body) -> Body:
        return scatter.base if body is scatter else body

    lets = tuple(replace(let, expr=based(let.expr)) for let in region.lets)
    return replace(region, lets=lets, yields=tuple(replace(y, expr=based(y.expr)) for y in region.yields))


def is_ordered(op: str, dtype: DType) -> bool:
    """Whether the bits of a fold depend on the order of what is folded: sums and products of floats are rounded, and of
    zeros that differ in their sign, and of NaNs, fp64 has no hardware that keeps a certain one."""
    return dtype.is_float and (op not in ("max", "min") or dtype.name != "fp32")


def reordered(region: Region, atomics: str) -> Scatter | None:
    """The scatter of the region where its bits depend on the order and a plan that says `atomics` so does not leave the
    order open; None where no bit changes, or where no atomics fold it."""
    scatter = scatter_of(region)
    is_fixed = not isinstance(scatter, str) and is_ordered(scatter.op, scatter.dtype) and atomics != UNORDERED
    return scatter if is_fixed else None


def unmet_by_atomics(region: Region, atomics: str) -> str:
    """Why no atomics fold this region's updates where a plan says `atomics` so; empty where they do."""
    scatter = scatter_of(region)
    if isinstance(scatter, str):
        return scatter
    if reordered(region, atomics) is None:
        return ""
    return Phrase(
        "gives other bits at each run, as a {op} of {dtype} in any order does: `atomics {unordered}` allows it",
        op=scatter.op,
        dtype=scatter.dtype,
        unordered=UNORDERED,
    )


def _through(region: Region, body: Body) -> Body:
    """What a value is that is written as it is."""
    while isinstance(body, Ref) and body.index is None:
        body = region.let(body.name).expr
    return body
