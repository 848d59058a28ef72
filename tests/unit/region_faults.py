"""Faults planted in region texts: a table of kinds, each a function from a region to changed ones, and the texts that
they are planted in."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.models import bert, gpt2, resnet50, vit
from tinyir.front.json import read
from tinyir.ir import region
from tinyir.ir.body import (
    Binary,
    Body,
    BroadcastInDim,
    Gather,
    Read,
    Reduce,
    Ref,
    Scatter,
    Select,
    Unary,
    operands_of,
    rebuild,
    walk,
)
from tinyir.ir.expr import ONE, ZERO, Bound, Expr
from tinyir.ir.present import axes_of_values, guard_names, is_scalar, names_in, present_axes
from tinyir.ir.region import Module, Region, Yield
from tinyir.ir.types import DTYPES, TensorType
from tinyir.lower import lower_to

from .graphs import random_graph
from .turns import in_turn

ROOT = Path(__file__).resolve().parents[2]
MOST = 20000  # points at which a changed expression is tried


@functools.cache
def programs() -> dict[str, Module]:
    """The region texts of designs, small networks and random graphs."""
    found = {
        f.stem: region.parse(f.read_text(encoding="utf-8"))
        for f in sorted((ROOT / "tests/golden/design").glob("*.region"))
    }
    for model in (
        resnet50("B", (1, 1), 4, 16, 5),
        vit("B", 1, 8, 4, 8, 1, 5),
        bert("B", 4, 1, 8, 2, 10, 6),
        gpt2("B", 4, 1, 8, 2, 10, 6),
    ):
        found[model.name] = _lowered(read(model.text))
    for seed in range(60):
        found[f"random {seed}"] = _lowered(random_graph(seed)[0])
    return found


def _lowered(module: Any) -> Module:
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    return module


# --- whether a read leaves its tensor, by trying every point at small sizes


def sizes_of(module: Module) -> dict[str, int]:
    """Small sizes within the symbols' ranges, no two alike where they may differ."""
    ranges = map(module.model.range_of, module.model.symbols())
    return {r.symbol: min(max(r.low, 2 + n), r.high) for n, r in enumerate(ranges)}


def leaves(module: Module, one: Region) -> bool:
    """Whether a read of the region is outside at some point, at small sizes; False too when there are too many points
    to try."""
    sizes = sizes_of(module)
    iters = {a.name: a.size.evaluate(sizes) for a in one.iters}
    axes_of = axes_of_values(one)
    extents = {t.name: tuple(d.evaluate(sizes) for d in t.type.shape) for t in one.inputs}
    extents |= {f"%{name}": tuple(iters[a] for a in axes) for name, axes in axes_of.items()}

    def tried(body: Body, point: dict[str, int]) -> bool:
        if isinstance(body, Read) or isinstance(body, Ref) and body.index is not None:
            name = body.tensor if isinstance(body, Read) else f"%{body.name}"
            return any(not 0 <= e.evaluate(point) < size for e, size in zip(body.index, extents[name]))
        if isinstance(body, Select):
            return tried(body.then if all(b.holds(point) for b in body.guard) else body.other, point)
        if isinstance(body, Gather):
            return tried(body.at, point) or over(body.body, (body.axis,), point)
        if isinstance(body, Scatter):
            return tried(body.base, point) or any(over(inner, body.axes, point) for inner in (body.update, body.at))
        if isinstance(body, Reduce):
            return over(body.body, body.axes, point)
        return any(tried(inner, point) for inner in operands_of(body))

    def over(body: Body, axes: Iterable[Any], point: dict[str, int]) -> bool:
        spans = [(a.name, iters[a.name] if a.size is None else a.size.evaluate(sizes)) for a in axes]
        return any(
            tried(body, {**point, **dict(zip((n for n, _ in spans), at))})
            for at in itertools.product(*(range(n) for _, n in spans))
        )

    for item in (*one.lets, *one.yields):
        used = [
            n
            for n in iters
            if n in present_axes(item.expr, tuple(iters), axes_of) | guard_names(getattr(item, "guard", ()))
        ]
        folded = [
            a.size.evaluate(sizes)
            for node in walk(item.expr)
            if isinstance(node, (Reduce, Scatter))
            for a in node.axes
            if a.size is not None
        ]
        if math.prod([*(iters[n] for n in used), *folded]) > MOST:
            continue
        for at in itertools.product(*(range(iters[n]) for n in used)):
            point = {**sizes, **dict(zip(used, at))}
            if all(b.holds(point) for b in getattr(item, "guard", ())) and tried(item.expr, point):
                return True
    return False


# --- kinds: the regions that one fault makes of a region

Plant = Callable[[Module, Region], Iterator[Region]]


def _in_bodies(change: Callable[[Body], Iterable[Body]]) -> Plant:
    """A fault in one node of one expression."""

    def changed(body: Body) -> Iterator[Body]:
        yield from change(body)
        for at, inner in enumerate(operands_of(body)):
            for other in changed(inner):
                count = itertools.count()
                yield rebuild(body, lambda node: other if next(count) == at else node)

    def plant(module: Module, one: Region) -> Iterator[Region]:
        for field in ("lets", "yields"):
            items = getattr(one, field)
            for at, item in enumerate(items):
                for body in changed(item.expr):
                    yield replace(one, **{field: (*items[:at], replace(item, expr=body), *items[at + 1 :])})

    return plant


def _that_leaves(plant: Plant) -> Plant:
    """Those of a kind after which a read is outside."""
    return lambda module, one: (other for other in plant(module, one) if leaves(module, other))


def _in_index(change: Callable[[list[Expr]], Iterable[list[Expr]]]) -> Plant:
    def of(body: Body) -> Iterator[Body]:
        if isinstance(body, Read):
            yield from (replace(body, index=tuple(index)) for index in change(list(body.index)))

    return _that_leaves(_in_bodies(of))


def _each(index: list[Expr], by: int) -> Iterator[list[Expr]]:
    for at in range(len(index)):
        yield [*index[:at], index[at] + by, *index[at + 1 :]]


def _guards(body: Body, change: Callable[[Bound], Bound | None]) -> Iterator[Body]:
    if isinstance(body, Select):
        for at, bound in enumerate(body.guard):
            other = change(bound)
            if other is not None:
                yield replace(body, guard=(*body.guard[:at], other, *body.guard[at + 1 :]))


def _wider(bound: Bound) -> Bound | None:
    if bound.equals is not None:
        return None
    return replace(bound, upper=bound.upper + 1) if bound.upper is not None else replace(bound, lower=bound.lower - 1)


def _folds(change: Callable[[Reduce], Iterable[Body]]) -> Plant:
    return _in_bodies(lambda body: change(body) if isinstance(body, Reduce) else ())


def _longer(fold: Reduce) -> Iterator[Body]:
    for at, axis in enumerate(fold.axes):
        if axis.size is not None:
            yield replace(fold, axes=(*fold.axes[:at], replace(axis, size=axis.size + 1), *fold.axes[at + 1 :]))


def _other_start(fold: Reduce) -> Iterator[Body]:
    if fold.op in ("sum", "prod", "max", "min"):
        yield replace(fold, init=2 if fold.dtype.is_integer else 2.0)


def _narrow(fold: Reduce) -> Iterator[Body]:
    if fold.dtype.name == "fp32" and fold.body.dtype == fold.dtype:
        yield Unary("cast", replace(fold, dtype=DTYPES["fp16"]), fold.dtype)


def _lost_fold_axis(fold: Reduce) -> Iterator[Body]:
    for axis in fold.axes:
        if axis.size is not None and any(
            axis.name in names_in(n.index) for n in walk(fold.body) if isinstance(n, Read)
        ):
            yield replace(fold, axes=tuple(replace(a, name="k9") if a is axis else a for a in fold.axes))


def _lost_axis(module: Module, one: Region) -> Iterator[Region]:
    for axis in one.iters:
        if any(axis.name in names_in(y.index) for y in one.yields):
            yield replace(one, iters=tuple(a for a in one.iters if a is not axis))


def _lost_broadcast(body: Body) -> Iterator[Body]:
    if isinstance(body, Binary):
        for name, other in (("left", body.right), ("right", body.left)):
            inner = getattr(body, name)
            if isinstance(inner, BroadcastInDim) and not is_scalar(other):
                yield replace(body, **{name: inner.x})


def _other_dims(body: Body) -> Iterator[Body]:
    if isinstance(body, BroadcastInDim) and body.dims:
        yield replace(body, dims=(body.dims[-1] + 1, *body.dims[1:]))


def _yields(change: Callable[[Region, Yield], Iterable[tuple[Yield, ...]]]) -> Plant:
    """A fault in one yield, which becomes others."""

    def plant(module: Module, one: Region) -> Iterator[Region]:
        for at, item in enumerate(one.yields):
            for others in change(one, item):
                yield replace(one, yields=(*one.yields[:at], *others, *one.yields[at + 1 :]))

    return plant


def _partly(one: Region, item: Yield) -> Iterator[tuple[Yield, ...]]:
    for name in (e.name for e in item.index if e.name):
        yield (replace(item, guard=(*item.guard, Bound(Expr.of(name), lower=ONE))),)


def _at_one_place(one: Region, item: Yield) -> Iterator[tuple[Yield, ...]]:
    shape = one.tensor(item.output).type.shape
    for at, size in enumerate(shape):
        if size != ONE:
            yield (replace(item, index=(*item.index[:at], ZERO, *item.index[at + 1 :])),)


def _beside(one: Region, item: Yield) -> Iterator[tuple[Yield, ...]]:
    for at in range(len(item.index)):
        yield (replace(item, index=(*item.index[:at], item.index[at] + 1, *item.index[at + 1 :])),)


def _other_shape(module: Module, one: Region) -> Iterator[Region]:
    for field in ("inputs", "outputs"):
        tensors = getattr(one, field)
        for at, tensor in enumerate(tensors):
            if tensor.type.shape:
                other = replace(
                    tensor, type=TensorType(tensor.type.dtype, (tensor.type.shape[0] + 1, *tensor.type.shape[1:]))
                )
                yield replace(one, **{field: (*tensors[:at], other, *tensors[at + 1 :])})


KINDS: dict[str, tuple[Plant, str]] = {
    "lost guard": (_that_leaves(_in_bodies(lambda body: (body.then,) if isinstance(body, Select) else ())), "E1403"),
    "wider guard": (_that_leaves(_in_bodies(lambda body: _guards(body, _wider))), "E1403"),
    "read past the end": (_in_index(lambda index: _each(index, 1)), "E1403"),
    "read before the start": (_in_index(lambda index: _each(index, -1)), "E1403"),
    "swapped axes": (_in_index(lambda index: [[index[1], index[0], *index[2:]]] if len(index) > 1 else []), "E1403"),
    "longer fold": (_that_leaves(_folds(_longer)), "E1403"),
    "wrong neutral element": (_folds(_other_start), "E1405"),
    "narrow accumulator": (_folds(_narrow), "E1406"),
    "dropped fold axis": (_folds(_lost_fold_axis), "E1407"),
    "dropped axis": (_lost_axis, "E1407"),
    "double write": (_yields(lambda one, item: ((item, item),)), "E1404"),
    "part never written": (_yields(_partly), "E1404"),
    "written at one place": (_yields(_at_one_place), "E1404"),
    "written beside": (_yields(_beside), "E1404"),
    "lost broadcast": (_in_bodies(_lost_broadcast), "E1408"),
    "broadcast along another axis": (_in_bodies(_other_dims), "E1408"),
    "lost yield": (_yields(lambda one, item: ((),)), "E1402"),
    "another shape": (_other_shape, "E1402"),
}


def faults_of(kind: str) -> Iterator[tuple[str, str, Module]]:
    """(program, region, changed module) of each fault of a kind, from all programs in turn."""

    def of(name: str, module: Module) -> Iterator[tuple[str, str, Module]]:
        regions = module.program.regions
        for at, one in enumerate(regions):
            for other in KINDS[kind][0](module, one):
                program = replace(module.program, regions=(*regions[:at], other, *regions[at + 1 :]))
                yield name, one.name, Module(module.model, program)

    yield from in_turn([of(name, module) for name, module in programs().items()])
