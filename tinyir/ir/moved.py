"""Regions that read another place of a tensor: what they have in common that are the same but for names, and but for
whole numbers at which they read along axes of a tensor.

    region step_4   yield h4[i0, i1] = add(fed[3, i0, i1], ...)  →   yield h4[i0, i1] = add(fed[0, i0, i1], ...), fed
      from [3] on
    region step_5   yield h5[i0, i1] = add(fed[4, i0, i1], ...)  →   yield h5[i0, i1] = add(fed[0, i0, i1], ...), fed
      from [4] on

Both have one form, so one kernel serves them: it is given `fed` from another element on. Such an element is a multiple
of 16 bytes away, so that what is aligned for one is for the other.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from ..kit.groups import lists_of
from ..kit.records import dataclass, replace
from .alike import Form, form_of
from .body import Body, Read, rebuild, walk
from .expr import Expr
from .model import show_name

MOVED_BY = 16  # bytes: the widest access of a thread, and of a copy

Parts = tuple[Any, ...]  # inputs, outputs, axes, values and writes of a region
Starts = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class MovedForm:
    """The form of regions that read each tensor from the place on that `starts` says, where that is not its first
    element: a whole number for each axis of the tensor."""

    form: Form
    starts: Starts

    def move(self, name: str, other: MovedForm, there: str) -> tuple[int, ...]:
        """By how much another of the form reads `there` farther on than this one reads the tensor in its place, along
        the first axes; empty where it does not."""
        pairs = zip_longest(self.starts.get(name, ()), other.starts.get(there, ()), fillvalue=0)
        found = [theirs - own for own, theirs in pairs]
        while found and not found[-1]:
            found.pop()
        return tuple(found)


def moved_by(index: tuple[Expr, ...], place: tuple[int, ...]) -> tuple[Expr, ...]:
    """An index with a place added to it."""
    return tuple(e + by for e, by in zip_longest(index, place, fillvalue=0)) if place else index


def moved_form_of(*regions: Any) -> MovedForm:
    """The form of regions together, with their tensors moved to where they begin to be read."""
    return _moved_form_of(*((one.inputs, one.outputs, one.iters, one.lets, one.yields) for one in regions))


def show_placed(name: str, place: tuple[int, ...]) -> str:
    """A tensor as it is passed: `fed at [3]` from a place on."""
    return f"{show_name(name)} at [{', '.join(map(str, place))}]" if place else show_name(name)


@functools.lru_cache(maxsize=16384)
def _moved_form_of(*regions: Parts) -> MovedForm:
    starts = _starts_of(regions)
    return MovedForm(form_of(*(_Parts(*_from_starts(one, starts) if starts else one) for one in regions)), starts)


@dataclass(frozen=True, slots=True)
class _Parts:
    """A region without its name and its analysis."""

    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    iters: tuple[Any, ...]
    lets: tuple[Any, ...]
    yields: tuple[Any, ...]


def _bodies(region: Parts) -> Iterator[Body]:
    *_, lets, yields = region
    return (one.expr for one in (*lets, *yields))


def _starts_of(regions: tuple[Parts, ...]) -> Starts:
    """Where the regions begin to read the tensors that none of them writes, and that are in no other's memory."""
    read = lists_of(
        (node.tensor, node.index)
        for node in itertools.chain.from_iterable(map(walk, itertools.chain.from_iterable(map(_bodies, regions))))
        if isinstance(node, Read)
    )
    written = {t.name for _, outputs, *_ in regions for t in outputs}
    written |= {t.attr("alias") for inputs, outputs, *_ in regions for t in (*inputs, *outputs)}
    free = {t.name: t for inputs, *_ in regions for t in inputs if t.name not in written and t.attr("alias") is None}
    found = {name: _start_of(free[name], indices) for name, indices in read.items() if name in free}
    return {name: start for name, start in found.items() if any(start)}


def _start_of(tensor: Any, indices: list[tuple[Expr, ...]]) -> tuple[int, ...]:
    """The least number at which a tensor is read along each axis; 0 where an index varies, or where elements are
    not a multiple of 16 bytes apart."""
    found: list[int] = []
    stride: int | None = tensor.type.dtype.bytes
    for size, axis in reversed([*zip(tensor.type.shape, zip(*indices))]):
        at = {e.constant for e in axis}
        found.append(0 if stride is None or stride % MOVED_BY or None in at else min(at))
        stride = None if stride is None or size.constant is None else stride * size.constant
    return tuple(found[::-1])


def _from_starts(region: Parts, starts: Starts) -> Parts:
    """A region as it would read its tensors if they began there."""

    def put(body: Body) -> Body:
        if isinstance(body, Read) and body.tensor in starts:
            return replace(body, index=tuple(e - n for e, n in zip(body.index, starts[body.tensor])))
        return rebuild(body, put)

    inputs, outputs, iters, lets, yields = region
    lets, yields = (tuple(replace(one, expr=put(one.expr)) for one in of) for of in (lets, yields))
    return inputs, outputs, iters, lets, yields
