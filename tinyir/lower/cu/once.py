"""What a kernel loads how often, and what the caches should do with it.

What a kernel of folds loads once leaves them to others:

    reduce sum (k0: N) { X[i0, k0] }     yield Y[i0]        each element of X is loaded by one thread

Such loads take no line of an SM's cache, which they would fill with what nobody asks for again. Measured on an H200:
sums, maxima and places of 64 MB and more take 3 to 11 % less. Kernels that write as much as they read take longer so.

So does what goes straight into left operands of tensor cores, as the weights of a product of few rows: each is loaded
by one thread, 64 bytes of a row by a warp. L2 is asked for the whole line, whose other half another warp loads:

    Q.v[h, e] over e: 16 = Q[n, 16*chunk + e] vector 16      each r, k of wf: wf[r, k] = ... Q.v[...]

Measured on an H200: 88 products with packed weights take 8 % less in geometric mean, 22 % at most.

A row that is walked along several times stays in L2 until it is read for the last time, and what is written of it goes
first:

    for c in thread.x..C step 512       fold X[i0, c]                 kept in L2
    for c in thread.x..C step 512       Y[i0, c] = ... X[i0, c]       read for the last time
"""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.body import Gather, Read, Reduce, Scan, Scatter, walk
from ...ir.expr import ONE
from ...ir.gpu import nodes
from ...ir.gpu.walk import statements
from ...ir.region import Region
from ...ir.traits import axes_of, bodies_of, folds_of

WORD_BYTES = 16  # of an access


def loaded_once(kernel: nodes.Kernel, regions: tuple[Region, ...], written: set[str]) -> frozenset[str]:
    """The tensors whose elements each are loaded by one thread of a kernel, in accesses of whole 16 bytes, and of which
    it writes nothing that varies along their folds."""
    if len(regions) != 1 or any(isinstance(n, (Gather, Scan, Scatter)) for b in bodies_of(regions[0]) for n in walk(b)):
        return frozenset()
    (region,) = regions
    folds = folds_of(region)
    folded = {a.name for fold in folds for a in fold.axes}
    if not folds or folded & {n for y in region.yields for e in y.index for n in e.names()}:
        return frozenset()
    rows = {a.name for a in region.iters if a.size != ONE and a.name not in folded}
    found = {
        n.tensor
        for fold in folds
        for n in walk(fold.body)
        if isinstance(n, Read) and rows | {a.name for a in fold.axes} <= axes_of(n)
    }
    found -= written | {n.tensor for body in bodies_of(region) for n in _outside_of_folds(body)}
    loads = [
        s.value.tensor
        for s in statements(kernel.body)
        if isinstance(s, nodes.Assign) and isinstance(s.value, Read) and s.vector > 1
        if s.vector * s.value.dtype.bytes % WORD_BYTES == 0
    ]
    return frozenset(name for name in found if loads.count(name) == 1)


def loaded_for_operands(kernel: nodes.Kernel) -> frozenset[str]:
    """The tensors that one statement alone loads, in accesses of whole 16 bytes, to registers of which left operands of
    tensor cores are made."""
    every = list(statements(kernel.body))
    operands = {s.name for s in every if isinstance(s, nodes.Reg) and s.kind == "mma_a"}
    made = [x for s in every if isinstance(s, nodes.Each) and s.of in operands for x in s.body]
    taken = {n.tensor for x in made if isinstance(x, nodes.Assign) for n in walk(x.value) if isinstance(n, Read)}
    loads = [
        s.value.tensor
        for s in every
        if isinstance(s, nodes.Assign) and isinstance(s.value, Read) and s.to.name in taken
        if s.vector * s.value.dtype.bytes % WORD_BYTES == 0
    ]
    return frozenset(name for name in loads if loads.count(name) == 1)


def loaded_again(kernel: nodes.Kernel, written: set[str]) -> dict[str, int]:
    """How often a kernel loads the tensors that it walks along more than once, in accesses of whole 16 bytes: no other
    statement reads them, and each load is in a loop of its own, at the same place."""
    loads: dict[str, list[tuple[nodes.For | None, nodes.Assign]]] = {}
    _collect(kernel.body, None, loads)
    found = {}
    for name, several in loads.items():
        walks = {id(walk) for walk, _ in several if walk is not None and walk.unroll != 0}
        ranges = {(walk.low, walk.high, walk.step) for walk, _ in several if walk is not None}
        is_whole = all(s.vector * s.value.dtype.bytes % WORD_BYTES == 0 for _, s in several)
        if len(several) == len(walks) > 1 and len(ranges) == 1 and is_whole and name not in written:
            found[name] = len(several)
    return found


def _collect(
    lines: Iterable[nodes.Statement],
    walk: nodes.For | None,
    loads: dict[str, list[tuple[nodes.For | None, nodes.Assign]]],
) -> None:
    """The loads of several elements at once, each with the outermost loop around it that is not written out."""
    for s in lines:
        if isinstance(s, nodes.Assign) and isinstance(s.value, Read) and s.vector > 1:
            loads.setdefault(s.value.tensor, []).append((walk, s))
        inner = s if walk is None and isinstance(s, nodes.For) and s.unroll != 0 else walk
        _collect((*getattr(s, "body", ()), *getattr(s, "otherwise", ())), inner, loads)


def _outside_of_folds(body) -> list[Read]:
    """The reads of an expression that are in none of its folds."""
    inside = {id(n) for fold in walk(body) if isinstance(fold, Reduce) for n in walk(fold)}
    return [n for n in walk(body) if isinstance(n, Read) and id(n) not in inside]
