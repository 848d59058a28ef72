"""Sibling contractions of one region, each a region of its own: no template keeps the accumulators of several yet.

before: region q    %q = reduce sum (k0: K) { mul(X[i0, k0], Wq[k0, i1]) }, %k = reduce sum (k0: K) { mul(X[i0, k0], Wk[k0, i1]) }
after:  region q    %q = reduce sum (k0: K) { mul(X[i0, k0], Wq[k0, i1]) }
        region k    %k = reduce sum (k0: K) { mul(X[i0, k0], Wk[k0, i1]) }

What needs the results of several goes with the last of them, and reads those of the others from buffers. Where a part would be no plain
contraction the region stays as it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Iterator

from ...analysis.regions import analyse
from ...ir.body import Body, Read, Reduce, Ref, rebuild, walk
from ...ir.expr import Expr
from ...ir.kernels import Contraction, kernels_of
from ...ir.present import axes_of_values
from ...ir.region import Let, Module, Program, Region, Tensor, Yield
from ...ir.types import DType, TensorType


def split_siblings(module: Module) -> Module:
    """The module with a region for each contraction."""
    parts = parts_of(module)
    known = {t.name for one in module.program.regions for t in one.inputs + one.outputs}
    made = {t.name: t for several in parts.values() for one in several for t in one.outputs if t.name not in known}
    if all(len(several) == 1 for several in parts.values()):
        return module
    regions = tuple(one for several in parts.values() for one in several)
    return replace(module, program=Program(module.program.name, (*module.program.buffers, *made.values()), regions))


def parts_of(module: Module) -> dict[str, tuple[Region, ...]]:
    """The regions that each region becomes, by its name."""
    taken = {t.name for t in (*module.model.inputs, *module.model.outputs, *module.program.buffers)}
    names = {r.name for r in module.program.regions}
    found: dict[str, tuple[Region, ...]] = {}
    for one in module.program.regions:
        parts = _Split(one, taken, names).parts()
        is_split = len(parts) > 1 and all(isinstance(next(iter(kernels_of(p)), None), Contraction) for p in parts)
        found[one.name] = parts if is_split else (one,)
        taken |= {t.name for p in found[one.name] for t in p.outputs}
        names |= {p.name for p in found[one.name]}
    return found


class _Split:
    """One region and which contraction each of its values goes with."""

    def __init__(self, region: Region, taken: set[str], names: set[str]):
        self.region, self.taken, self.names = region, taken, names
        self.axes_of = axes_of_values(region)
        self.folds = [let.name for let in region.lets if isinstance(let.expr, Reduce)]
        self.needs: dict[str, frozenset[str]] = {}
        for let in region.lets:
            own = frozenset((let.name,) if let.name in self.folds else ())
            self.needs[let.name] = own.union(*(self.needs[r] for r in _refs(let.expr)))

    def parts(self) -> tuple[Region, ...]:
        """The regions that it becomes: itself alone when it has not several contractions, side by side."""
        bodies = [item.expr for item in (*self.region.lets, *self.region.yields)]
        nested = sum(isinstance(n, Reduce) for b in bodies for n in walk(b))
        is_shifted = any(isinstance(n, Ref) and n.index is not None for b in bodies for n in walk(b))
        if len(self.folds) < 2 or nested > len(self.folds) or is_shifted or any(len(self.needs[f]) > 1 for f in self.folds):
            return (self.region,)
        return tuple(map(self._part, self.folds))

    def _home(self, needs: frozenset[str]) -> str | None:
        """The last contraction of those needed; None for what needs none, which each part computes for itself."""
        return next((f for f in reversed(self.folds) if f in needs), None)

    def _part(self, fold: str) -> Region:
        yields = [y for y in self.region.yields if (self._home(self._needed(y.expr)) or self.folds[0]) == fold]
        wanted = {let.name for let in self.region.lets if self._home(self.needs[let.name]) == fold}
        lets: list[Let] = []
        for let in reversed(self.region.lets):
            is_shared = not self.needs[let.name] and any(let.name in _refs(item.expr) for item in (*lets, *yields))
            if let.name in wanted or is_shared:
                lets.insert(0, let)
        kept = {let.name for let in lets}
        handed = self._handed_on(kept - {n for n in kept if not self.needs[n]}, fold)
        lets = [replace(let, expr=self._from_memory(let.expr, kept)) for let in lets]
        yields = [replace(y, expr=self._from_memory(y.expr, kept)) for y in yields]
        for name in handed:
            yields.append(Yield(self._buffer(name).name, tuple(map(Expr.of, self.axes_of[name])), Ref(name, self._dtype(name))))
        return self._region(fold, lets, yields)

    def _needed(self, body: Body) -> frozenset[str]:
        return frozenset().union(*(self.needs[r] for r in _refs(body)))

    def _handed_on(self, own: set[str], fold: str) -> list[str]:
        """The values of a part that a later one reads."""
        items = (*self.region.lets, *self.region.yields)
        homes = [self.needs[i.name] if isinstance(i, Let) else self._needed(i.expr) for i in items]
        return [let.name for let in self.region.lets if let.name in own
                and any(let.name in _refs(i.expr) and self._home(h) != fold for i, h in zip(items, homes))]

    def _dtype(self, name: str) -> DType:
        return self.region.let(name).expr.dtype

    def _buffer(self, name: str) -> Tensor:
        size_of = {a.name: a.size for a in self.region.iters}
        wanted, count = name, 1
        while wanted in self.taken:
            count += 1
            wanted = f"{name}.{count}"
        return Tensor(wanted, TensorType(self._dtype(name), tuple(size_of[a] for a in self.axes_of[name])))

    def _from_memory(self, body: Body, kept: set[str]) -> Body:
        if isinstance(body, Ref) and body.name not in kept:
            return Read(self._buffer(body.name).name, tuple(map(Expr.of, self.axes_of[body.name])), body.dtype)
        return rebuild(body, lambda inner: self._from_memory(inner, kept))

    def _region(self, fold: str, lets: list[Let], yields: list[Yield]) -> Region:
        whole = self.region
        known = {t.name: t for t in whole.inputs + whole.outputs} | {(b := self._buffer(v.name)).name: b for v in whole.lets}
        read = dict.fromkeys(n.tensor for item in (*lets, *yields) for n in walk(item.expr) if isinstance(n, Read))
        written = dict.fromkeys(y.output for y in yields)
        origin = whole.let(fold).origin
        wanted = origin.name if origin is not None else fold
        name = whole.name if fold == self.folds[0] else wanted if wanted not in self.names else fold
        part = Region(name, tuple(known[t] for t in read), tuple(known[t] for t in written), whole.iters, tuple(lets), tuple(yields), None, whole.span)
        return replace(part, analysis=analyse(part))


def _refs(body: Body) -> Iterator[str]:
    return (n.name for n in walk(body) if isinstance(n, Ref))


__all__ = ["parts_of", "split_siblings"]
