"""Regions without names: what those have in common that are the same but for the names of tensors and values.

    region up     %up = relu(X[i0, i1])   yield H[i0, i1] = %up      →   tensors X, H   values up
    region down   %down = relu(H[i0, i1])   yield Y[i0, i1] = %down  →   tensors H, Y   values down

Both have one form. Axes keep their names, which say their places in all regions (`i0`, `k0`), and symbols are the
signature's. The numbers of a constant buffer are no part of a form: a kernel finds them in memory.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Hashable
from typing import Any

from ..kit.records import dataclass, field, replace
from .body import Axis, Body, Read, Ref, rebuild

Parts = tuple[Any, ...]  # inputs, outputs, axes, values and writes of a region


@dataclass(frozen=True, slots=True)
class Form:
    """What is left of regions without names (`shape`), their tensors in the order in which they come, each once, and
    the values of all regions in their order."""

    shape: Hashable
    tensors: tuple[str, ...]
    values: tuple[str, ...]

    @property
    def names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Tensors and values."""
        return self.tensors, self.values


@dataclass(frozen=True, slots=True, keeps_hash=True)
class Shape:
    """Regions with numbers for names, and their tensors."""

    regions: Hashable
    tensors: Hashable


@dataclass(frozen=True, slots=True)
class Alike:
    """Regions as a key: those that are the same but for names are one. A function of such a key, remembered, does its
    work once for all of them; what it gives must depend on no name."""

    shape: Shape
    sides: tuple[tuple[int, int], ...]
    regions: tuple[Any, ...] = field(compare=False)

    @classmethod
    def of(cls, *regions: Any) -> Alike:
        """The key of regions together. How many tensors each reads and writes is part of it: nothing may use one."""
        sides = tuple((len(one.inputs), len(one.outputs)) for one in regions)
        return cls(form_of(*regions).shape, sides, regions)


def form_of(*regions: Any) -> Form:
    """The form of regions together: which of them share a tensor, or memory, is part of it."""
    return _form_of(*((one.inputs, one.outputs, one.iters, one.lets, one.yields) for one in regions))


@functools.lru_cache(maxsize=16384)
def _form_of(*regions: Parts) -> Form:
    form = _Form()
    shapes = tuple(itertools.starmap(form.region, regions))
    known = {t.name: t for inputs, outputs, *_ in regions for t in (*inputs, *outputs)}
    tensors = tuple(_bare(known[name], form.tensors) for name in form.tensors)
    return Form(_one_of(Shape(shapes, tensors)), tuple(form.tensors), tuple(form.values))


@functools.lru_cache(maxsize=16384)
def _one_of(shape: Shape) -> Shape:
    """The first of the shapes that are equal to this one: an object is compared with itself at once."""
    return shape


class _Form:
    """Numbers tensors and values as they come."""

    def __init__(self) -> None:
        self.tensors: dict[str, str] = {}
        self.values: list[str] = []
        self._own: dict[str, str] = {}  # of the region that is read

    def region(
        self,
        inputs: tuple[Any, ...],
        outputs: tuple[Any, ...],
        iters: tuple[Axis, ...],
        lets: tuple[Any, ...],
        yields: tuple[Any, ...],
    ) -> Hashable:
        """A region with numbers for names."""
        self._own = {let.name: str(len(self.values) + at) for at, let in enumerate(lets)}
        self.values += self._own
        bare_lets = tuple((self._own[let.name], self._bare(let.expr)) for let in lets)
        bare_yields = tuple((self._number(y.output), y.index, self._bare(y.expr), y.guard) for y in yields)
        for tensor in (*inputs, *outputs):  # one that nothing uses
            self._number(tensor.name)
        return iters, bare_lets, bare_yields

    def _number(self, tensor: str) -> str:
        return self.tensors.setdefault(tensor, str(len(self.tensors)))

    def _bare(self, body: Body) -> Body:
        if body.__class__ is Read:
            return replace(body, tensor=self._number(body.tensor))
        if body.__class__ is Ref:
            return replace(body, name=self._own[body.name])
        return rebuild(body, self._bare)


def _bare(tensor: Any, numbers: dict[str, str]) -> Any:
    """A tensor without its name and its numbers; in whose memory it is, by that one's number."""
    attrs = ((k, numbers.get(v, "") if k == "alias" else v) for k, v in tensor.attrs if k != "value")
    return replace(tensor, name="", attrs=tuple(attrs))
