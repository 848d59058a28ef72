"""Regions without names: what those have in common that are the same but for the names of tensors and values.

    region up     %up = relu(X[i0, i1])   yield H[i0, i1] = %up      →   tensors X, H   values up
    region down   %down = relu(H[i0, i1])   yield Y[i0, i1] = %down  →   tensors H, Y   values down

Both have one form. Axes keep their names, which say their places in all regions (`i0`, `k0`), and symbols are the
signature's. The numbers of a constant buffer are no part of a form: a kernel finds them in memory.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable
from dataclasses import dataclass, replace

from .body import Body, Read, Ref, rebuild
from .region import Let, Region, Tensor, Yield


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


@functools.lru_cache(maxsize=4096)
def form_of(*regions: Region) -> Form:
    """The form of regions together: which of them share a tensor, or memory, is part of it."""
    form = _Form()
    shapes = tuple(map(form.region, regions))
    known = {t.name: t for one in regions for t in (*one.inputs, *one.outputs)}
    tensors = tuple(_bare(known[name], form.tensors) for name in form.tensors)
    return Form((shapes, tensors), tuple(form.tensors), tuple(form.values))


class _Form:
    """Numbers tensors and values as they come."""

    def __init__(self) -> None:
        self.tensors: dict[str, str] = {}
        self.values: list[str] = []
        self._own: dict[str, str] = {}  # of the region that is read

    def region(self, region: Region) -> Hashable:
        """A region with numbers for names."""
        self._own = {let.name: str(len(self.values) + at) for at, let in enumerate(region.lets)}
        self.values += self._own
        lets = tuple(Let(self._own[let.name], self._bare(let.expr)) for let in region.lets)
        yields = tuple(Yield(self._number(y.output), y.index, self._bare(y.expr), y.guard) for y in region.yields)
        for tensor in region.inputs:  # one that nothing reads
            self._number(tensor.name)
        return region.iters, lets, yields

    def _number(self, tensor: str) -> str:
        return self.tensors.setdefault(tensor, str(len(self.tensors)))

    def _bare(self, body: Body) -> Body:
        if isinstance(body, Read):
            return replace(body, tensor=self._number(body.tensor))
        if isinstance(body, Ref):
            return replace(body, name=self._own[body.name])
        return rebuild(body, self._bare)


def _bare(tensor: Tensor, numbers: dict[str, str]) -> Tensor:
    """A tensor without its name and its numbers; in whose memory it is, by that one's number."""
    attrs = ((k, numbers.get(v, "") if k == "alias" else v) for k, v in tensor.attrs if k != "value")
    return replace(tensor, name="", attrs=tuple(attrs))


__all__ = ["Form", "form_of"]
