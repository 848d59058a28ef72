"""The verifier of gpu text: accesses of several elements at once, which are as wide as the hardware can and begin on
multiples of that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...kit.diag import Diag
from ...kit.phrase import Phrase
from ...target.ampere import COPIES
from ..body import Random, Read
from ..expr import ONE, ZERO, Bound, Expr
from ..neighbours import ACCESS_BYTES, is_multiple
from ..runs import offset_of
from . import nodes
from .nodes import Kernel
from .walk import Visit, reads_in, tensor_of, tensors_of

BLOCKS = (2, 4, 8, 16)  # random numbers that are made at once: half a block, or whole ones


def check_vectors(kernel: Kernel, walked: list[Visit], module: Any) -> Iterator[Diag]:
    """A copy is one that the hardware has, and rows of a tensor that is accessed several elements at once begin on
    whole accesses."""
    tensors = tensors_of(kernel, module)
    for v in walked:
        s = v.statement
        if isinstance(s, nodes.CpAsync) and s.vector * s.value.dtype.bytes not in COPIES:
            yield Diag(
                "E1670",
                kernel.name,
                {"bytes": s.vector * s.value.dtype.bytes, "known": ", ".join(map(str, sorted(COPIES)))},
                s.span,
            )
        if isinstance(s, nodes.TensorMap):
            yield from _check_map(kernel, v, s, module)
        if not isinstance(s, (nodes.CpAsync, nodes.Assign, nodes.Store)) or s.vector == 1:
            continue
        if isinstance(s.value, Random) and not _begins_block(s, v):
            yield Diag("E1672", kernel.name, {"index": str(s.value.index), "width": s.vector}, s.span)
        moved = [
            (name, n.index)
            for n in reads_in(s)
            if isinstance(n, Read) and (name := tensor_of(n.tensor, v)) in tensors and name not in v.arrays
        ]
        if isinstance(s, nodes.Store):
            moved = [(name, s.to.index)] if (name := tensor_of(s.to.name, v)) in tensors else []
        for name, index in dict.fromkeys(moved):
            (shape, index), dtype = _without_ones(tensors[name].type.shape, index), tensors[name].type.dtype
            width = min(s.vector, ACCESS_BYTES // dtype.bytes)
            if not is_known_multiple(kernel, shape[-1] if len(shape) > 1 else ZERO, width) and not _begins_whole(
                shape, index, s, v, width
            ):
                yield Diag("E1671", kernel.name, {"tensor": name, "size": str(shape[-1]), "width": width}, s.span)


def _check_map(kernel: Kernel, v: Visit, s: nodes.TensorMap, module: Any) -> Iterator[Diag]:
    """Rows of a tensor that has a map begin on whole accesses, and it has elements wherever the results have."""
    tensor = tensors_of(kernel, module)[tensor_of(s.tensor, v)]
    dims, width = s.dims or tensor.type.shape, ACCESS_BYTES // tensor.type.dtype.bytes
    if len(dims) > 1 and not is_known_multiple(kernel, dims[-1], width):
        yield Diag("E1671", kernel.name, {"tensor": s.tensor, "size": str(dims[-1]), "width": width}, s.span)
    asked = [e for e in dims if not e.constant and not _is_shut_out(e, _assumed(kernel))]
    regions = map(module.plans.program.program.region, kernel.regions) if asked else ()
    made = [e for region in regions for result in region.outputs for e in result.type.shape]
    asked = [e for e in asked if e not in made]
    facts = v.facts.with_guard((*_assumed(kernel), *(Bound(e, lower=ONE) for e in made))) if asked else v.facts
    if not all(facts.is_at_least(e, ONE) for e in asked):
        fault = Phrase("may have no element, and then it has no map: an `assume` has to shut that out")
        yield Diag("E1602", kernel.name, {"name": s.tensor, "fault": fault}, s.span)


def _is_shut_out(size: Expr, guards: Iterable[Bound]) -> bool:
    """Whether a guard that speaks of one symbol alone fails where this is 0."""
    found = (b.substitute({size.name: ZERO}) for b in guards if b.vocabulary == {size.name}) if size.name else ()
    return any(not b.holds({}) for b in found)


def _assumed(kernel: Kernel) -> tuple[Bound, ...]:
    return tuple(b for s in kernel.body if isinstance(s, nodes.Assume) for b in s.guard)


def _without_ones(shape: tuple[Expr, ...], index: tuple[Expr, ...]) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """A tensor's shape and a place in it without the last dims of one element, behind which there are no neighbours."""
    while len(shape) > 1 and shape[-1] == ONE:
        shape, index = shape[:-1], index[:-1]
    return shape, index


def _begins_whole(shape: tuple[Expr, ...], index: tuple[Expr, ...], s: Any, v: Visit, width: int) -> bool:
    """Whether the elements of an access are consecutive, the first a multiple of `width` from the tensor's. Each is
    asked: `floor((8*c + 2*v)/24)` is the same for every `v` below 4."""
    axis = s.over[-1][0]
    first = v.facts.plain(offset_of(shape, index)) - axis
    firsts = {first.substitute({axis: Expr.of(n)}) for n in range(s.vector if axis in first.names() else 1)}
    return len(firsts) == 1 and is_multiple(firsts.pop(), width)


def _begins_block(s: Any, v: Visit) -> bool:
    """Whether random numbers are neighbours along the one axis of an access, and the first begins a block of four or
    half of one."""
    if len(s.over) != 1 or s.over[0][1].constant != s.vector or s.vector not in BLOCKS:
        return False
    first = s.value.index - s.over[0][0]
    return s.over[0][0] not in first.names() and is_multiple(v.facts.plain(first), s.vector)


def is_known_multiple(kernel: Kernel, size: Expr, count: int) -> bool:
    """Whether a size is a multiple of `count`, by its coefficients or as the kernel assumes."""
    return is_assumed_multiple(_assumed(kernel), size, count)


def is_assumed_multiple(assumed: Iterable[Bound], size: Expr, count: int) -> bool:
    """Whether a size is a multiple of `count`, by its coefficients or where the bounds hold."""
    zeros = [b.expr - b.equals for b in assumed if b.equals is not None]
    times = {sign * c for c, _ in size.terms for sign in (-1, 1)}
    same = (size, *(size + n * zero for zero in zeros for n in times))
    return any(all(c % count == 0 for c, _ in e.terms) for e in same)
