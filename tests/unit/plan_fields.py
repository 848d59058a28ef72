"""Other values of the fields of a plan, each of which a person might write: what `test_plan_fields` tries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from tinyir.ir.expr import Bound, Expr
from tinyir.ir.plan import (
    Async,
    Bind,
    Cache,
    Cluster,
    Consumers,
    Edge,
    Layout,
    Load,
    Order,
    Plan,
    Regs,
    SplitK,
    Store,
    Vectorize,
)
from tinyir.ir.plan.words import WORDS
from tinyir.ir.region import Region


def other_values(plan: Plan, regions: tuple[Region, ...], word: str) -> Iterator[Any]:
    """Values of the field `word` that mean something else than what the plan says there."""
    now = getattr(plan, {"async": "asynchrony"}.get(word, word))
    for value in _OTHERS[word](plan, regions):
        if value != now:
            yield value


def _scaled(counts: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for at, count in enumerate(counts):
        for other in (count // 2, 2 * count, count + 16, 0):
            yield (*counts[:at], other, *counts[at + 1 :])
    yield counts[::-1]
    yield counts[:-1] or (16, 16)


def _names(regions: Iterable[Region]) -> tuple[list[str], list[str]]:
    inputs = list(dict.fromkeys(t.name for r in regions for t in r.inputs))
    return inputs, [t.name for r in regions for t in r.outputs]


def _items(now: tuple, others: Iterable[Any]) -> Iterator[tuple]:
    """A list with an item less, or with each of `others`, in place of the item of its name or after the others."""
    for at in range(len(now)):
        yield (*now[:at], *now[at + 1 :])
    for other in others:
        name = getattr(other, "tensor", getattr(other, "axis", None))
        places = [at for at, item in enumerate(now) if getattr(item, "tensor", getattr(item, "axis", "")) == name]
        if places:
            yield (*now[: places[0]], other, *now[places[0] + 1 :])
        elif other.__class__ is not Store or other.by != "global":  # which is what no item means
            yield (*now, other)


def _binds(plan: Plan, _: tuple[Region, ...]) -> Iterator[tuple[Bind, ...]]:
    now = plan.bind
    for at, item in enumerate(now):
        yield (*now[:at], *now[at + 1 :])
        for place in WORDS["place"]:
            yield (*now[:at], replace(item, place=place), *now[at + 1 :])
        if len(item.axes) > 1:
            yield (*now[:at], replace(item, axes=item.axes[::-1]), *now[at + 1 :])
        for other in range(at):
            swapped = list(now)
            swapped[at], swapped[other] = (
                replace(now[at], place=now[other].place),
                replace(now[other], place=now[at].place),
            )
            yield tuple(swapped)


def _tensors(plan: Plan, regions: tuple[Region, ...]) -> list[str]:
    inputs, _ = _names(regions)
    return inputs


def _axes(regions: tuple[Region, ...]) -> list[str]:
    return list(dict.fromkeys(a.name for r in regions for a in r.iters))


def _caches(plan: Plan, regions: tuple[Region, ...]) -> Iterator[tuple[Cache, ...]]:
    at = plan.cache[0].at if plan.cache else f"{_axes(regions)[0]}.o" if _axes(regions) else "k0.o"
    found = [Cache(t, where, at) for t in _tensors(plan, regions) for where in WORDS["cache"]]
    found += [replace(item, at=f"{axis}.o") for item in plan.cache for axis in _axes(regions)]
    yield from _items(plan.cache, found)


def _loads(plan: Plan, regions: tuple[Region, ...]) -> Iterator[tuple[Load, ...]]:
    ways = [(by, int(s)) for by in WORDS["load"] for s in WORDS["swizzle"] if (by, s) != ("ld", "0")]
    found = [Load(t, by, s, way) for t in _tensors(plan, regions) for by, s in ways for way in WORDS["way"]]
    yield from _items(plan.load, [x for x in found if bool(x.way) == (x.by == "windows")])


def _vectors(plan: Plan, regions: tuple[Region, ...]) -> Iterator[tuple[Vectorize, ...]]:
    yield from _items(plan.vectorize, [Vectorize(axis, w) for axis in _axes(regions) for w in (2, 4, 8)])


def _assumes(plan: Plan, regions: tuple[Region, ...]) -> Iterator[tuple[Bound, ...]]:
    for at in range(len(plan.assume)):
        yield (*plan.assume[:at], *plan.assume[at + 1 :])
    symbols = sorted({n for r in regions for a in r.iters if a.size is not None for n in a.size.names()})
    for name in symbols[:1]:
        yield (*plan.assume, Bound(Expr.of(name), upper=Expr.of(1 << 20)))


def _predicates(plan: Plan, regions: tuple[Region, ...]) -> Iterator[tuple[str, ...]]:
    yield from _items(plan.predicate, ())
    yield from ((*plan.predicate, axis) for axis in _axes(regions) if axis not in plan.predicate)


def _epilogues(plan: Plan, regions: tuple[Region, ...]) -> Iterator[tuple[str, ...]]:
    yield from _items(plan.epilogue, ())
    yield from ((*plan.epilogue, let.name) for r in regions for let in r.lets[:1])
    yield plan.epilogue[::-1]


def _asyncs(plan: Plan, _: tuple[Region, ...]) -> Iterator[Async | None]:
    yield None
    yield from (Async(ahead, overlap) for ahead in range(plan.stages + 2) for overlap in ("", *WORDS["overlap"]))


def _edges(plan: Plan, regions: tuple[Region, ...]) -> Iterator[tuple[Edge, ...]]:
    inputs, outputs = _names(regions)
    found = [Edge(s, outputs[0], by, 1) for s in inputs[:1] for by in WORDS["edge"]]
    found += [replace(item, **change) for item in plan.edge for change in ({"depth": 2}, {"buffer": "reg"})]
    yield ()
    yield from ((*plan.edge, edge) for edge in found[: len(WORDS["edge"])])
    yield from ((edge,) for edge in found)


def _clusters(plan: Plan, regions: tuple[Region, ...]) -> Iterator[Cluster | None]:
    yield None
    for shape in ((2, 1), (1, 2), (2, 2), (1, 1), (2,)):
        yield Cluster(shape)
        yield from (Cluster(shape, (t,)) for t in _tensors(plan, regions))


def _several(*values: Any) -> Any:
    return lambda plan, regions: values


_OTHERS: dict[str, Any] = {
    "tile": lambda p, r: _scaled(p.tile),
    "warp_tile": lambda p, r: _scaled(p.warp_tile or (32, 32)),
    "micro": lambda p, r: _scaled(p.micro or (8, 8)),
    "threads": lambda p, r: (*_scaled(p.threads or (16, 16)), ()),
    "stages": lambda p, r: (0, 1, 2, 3, p.stages + 1, p.stages - 1, 12),
    "math": _several("", *WORDS["math"]),
    "promote": lambda p, r: (0, 16, p.tile[-1], 2 * p.tile[-1]),
    "partials": _several(0, 1, 2, 3),
    "atomics": _several("", *WORDS["atomics"]),
    "consumers": lambda p, r: (None, *(Consumers(n, mode) for n in (1, 2, 3, 4) for mode in WORDS["consumers"])),
    "cluster": _clusters,
    "regs": lambda p, r: (None, Regs(40, 232), Regs(24, 200), Regs(40, 216), Regs(232, 40)),
    "bind": _binds,
    "persistent": _several(0, 1, 2, 3, 132),
    "order": lambda p, r: (None, *(Order(by, width) for by in WORDS["order"] for width in (0, 1, 2, 8, 16))),
    "split_k": lambda p, r: (None, *(SplitK(n, by) for n in (1, 2, 4) for by in WORDS["split_k"])),
    "swap_ab": _several(False, True),
    "cache": _caches,
    "load": _loads,
    "store": lambda p, r: _items(p.store, [Store(t, by) for t in _names(r)[1] for by in WORDS["store"]]),
    "vectorize": _vectors,
    "assume": _assumes,
    "predicate": _predicates,
    "epilogue": _epilogues,
    "async": _asyncs,
    "barrier": _several(*WORDS["barrier"]),
    "layout": lambda p, r: _items(
        p.layout, [Layout(t, h) for t in [n for ns in _names(r) for n in ns] for h in WORDS["layout"]]
    ),
    "edge": _edges,
}
WORDS_TRIED = tuple(_OTHERS)
