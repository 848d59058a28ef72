"""What the C of a program is made of, decided before any of it is written: which launches there are and when each is
made, where every tensor is.

A tensor is an argument of the run, or is in the pool or in the workspace. The pool is the program's: weights,
constants, and what is computed of them once, when the program is created. The workspace is the caller's: what lives
between the launches of one run. So a program never changes once it is created, and any number of threads may run it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from ..ir import manifest
from ..ir.expr import Bound, Expr
from ..ir.in_place import owner_of
from ..ir.intervals import LARGEST_SIZE
from ..ir.model import Tensor, memory_type
from ..ir.region import Tensor as Buffer
from ..ir.types import TensorType
from ..kit.records import dataclass, replace
from ..play.arrays import bind_symbols, numpy_dtype
from ..play.region import constant_of
from ..runtime.abi import laid
from ..runtime.arena import line_up
from ..runtime.program import MAX_GRID

PARAMETER, POOL, WORKSPACE = "parameter", "pool", "workspace"


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch: its sizes with what is settled put in, and whether it is made when the program is created (`is_kept`)
    or at each run. `written` are the shapes of what its regions write, `moved` the bytes of a tensor before the element
    from which on it is handed over."""

    name: str
    entry: str
    grid: tuple[Expr, Expr, Expr]
    block: tuple[int, int, int]
    shared: int
    arguments: tuple[tuple[str, str], ...]  # what each parameter of the kernel is: (tensor, map or symbol, its name)
    allowed: tuple[tuple[Bound, ...], ...]  # what must hold of the sizes for it to be made
    group: tuple[str, ...]
    serves: str
    written: tuple[tuple[Expr, ...], ...]
    is_once: bool
    is_early: bool
    moved: Mapping[str, int]
    is_kept: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Memory of one tensor that owns some: where it is, and in the pool at which byte. `value` is that of a constant
    which each run fills in."""

    name: str
    item: int
    shape: tuple[Expr, ...]
    where: str
    offset: int = 0
    value: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class Outline:
    """A program as its C sees it. `settled` are sizes that the weights decide; `symbols` are the others, which a run is
    told. `parameters` are the tensors that a run is given, a state once; `outputs` are those that it writes. `states`
    are those among them whose first value is in the pool, and at which byte."""

    name: str
    settled: Mapping[str, int]
    symbols: tuple[str, ...]
    ranges: Mapping[str, tuple[int, int]]
    parameters: tuple[Tensor, ...]
    inputs: frozenset[str]
    outputs: frozenset[str]
    states: Mapping[str, int]
    launches: tuple[Launch, ...]
    places: Mapping[str, Place]
    owners: Mapping[str, str]
    maps: Mapping[str, manifest.TensorMap]
    shapes: Mapping[str, tuple[Expr, ...]]
    items: Mapping[str, int]
    dtypes: Mapping[str, str]
    pool: tuple[np.ndarray, ...]  # what is in the file, in the order of the pool
    pool_filled: int
    pool_bytes: int

    def touches(self, launch: Launch) -> tuple[str, ...]:
        """The owners of all memory that a launch is given."""
        return touched_by(launch.arguments, self.maps, self.owners)

    @property
    def workspace(self) -> tuple[Place, ...]:
        """What is in the workspace, by name."""
        return tuple(self.places[n] for n in sorted(self.places) if self.places[n].where == WORKSPACE)

    @property
    def kernels(self) -> dict[str, int]:
        """Each entry that is launched, and the most dynamic shared memory of its launches, in bytes."""
        most: dict[str, int] = {}
        for launch in self.launches:
            most[launch.entry] = max(most.get(launch.entry, 0), launch.shared)
        return most


@dataclass(frozen=True, slots=True)
class _Tensors:
    """What is known of every tensor of a program once the weights have settled sizes, by name."""

    settled: Mapping[str, int]
    shapes: Mapping[str, tuple[Expr, ...]]
    items: Mapping[str, int]
    dtypes: Mapping[str, str]
    owners: Mapping[str, str]
    maps: Mapping[str, manifest.TensorMap]

    @staticmethod
    def of(module: manifest.Module, settled: Mapping[str, int]) -> _Tensors:
        """Those of a module."""
        region = module.region
        types = {t.name: t.type for t in (*region.program.buffers, *module.buffers)}
        types |= {t.name: memory_type(t) for t in (*region.model.inputs, *region.model.outputs)}
        return _Tensors(
            settled,
            {name: tuple(e.substitute(settled) for e in kind.shape) for name, kind in types.items()},
            {name: kind.dtype.bytes for name, kind in types.items()},
            {name: kind.dtype.name for name, kind in types.items()},
            {name: owner_of(region, name) for name in types},
            {m.name: m for m in module.maps},
        )

    def touched(self, launch: Launch) -> tuple[str, ...]:
        """The owners of all memory that a launch is given."""
        return touched_by(launch.arguments, self.maps, self.owners)

    def bytes_of(self, name: str) -> int:
        """Bytes of a tensor; 0 where sizes decide."""
        return math.prod(e.constant or 0 for e in self.shapes[name]) * self.items[name]

    def is_sized(self, launch: Launch) -> bool:
        """Whether any size of a launch is not known beforehand."""
        tensors = [n if kind == "tensor" else self.maps[n].tensor for kind, n in launch.arguments if kind != "symbol"]
        seen = [e for n in tensors for e in self.shapes[n]]
        views = [e.substitute(self.settled) for kind, n in launch.arguments if kind == "map" for e in self.maps[n].dims]
        sized = (Expr.of(n).substitute(self.settled) for kind, n in launch.arguments if kind == "symbol")
        return bool(launch.allowed) or not _is_fixed((*launch.grid, *seen, *views, *sized))


def outline_of(module: manifest.Module, weights: Mapping[str, np.ndarray]) -> Outline:
    """The outline of a program whose `weights` are in its file; arrays as a caller has them. Raises Refused (E17xx) for
    arrays that are not the signature's."""
    assert module.region is not None, "manifest.check was not run"
    model, program = module.region.model, module.region.program
    settled = bind_symbols(model, dict(weights), is_partial=True) if weights else {}
    tensors, states = _Tensors.of(module, settled), model.states()
    constants = {t.name: t for t in program.buffers if t.attr("value") is not None and tensors.owners[t.name] == t.name}
    stored = {t.name: laid(t, weights[t.name]) for t in model.inputs if t.name in weights} | {
        name: np.ascontiguousarray(constant_of(t, settled), numpy_dtype(t.type.dtype))
        for name, t in constants.items()
        if _is_fixed(tensors.shapes[name])
    }
    launches = _with_kept(
        [_launch_of(launch, module, tensors, settled) for launch in _reachable(module, settled)],
        {*stored} - states.keys(),
        {t.name for t in model.inputs} | {*constants},
        tensors,
    )
    parameters = (
        *(t for t in model.inputs if t.name not in weights or t.name in states),
        *(t for t in model.outputs if tensors.owners[t.name] == t.name and model.input(t.name) is None),
    )
    used = dict.fromkeys(n for launch in launches for n in tensors.touched(launch))
    kept = dict.fromkeys(n for launch in launches if launch.is_kept for n in tensors.touched(launch))
    held = {n: a for n, a in stored.items() if n in used or n in states}
    sizes = {n: a.nbytes for n, a in held.items()}
    offsets, filled = line_up(sizes.items())
    pool, end = line_up([*sizes.items(), *((n, tensors.bytes_of(n)) for n in kept if n not in stored)])
    given, symbols = {t.name for t in parameters}, tuple(s for s in model.symbols() if s not in settled)
    return Outline(
        model.name,
        settled,
        symbols,
        {s: (r.low, r.high) for s in symbols for r in (model.range_of(s),)},
        parameters,
        frozenset(t.name for t in model.inputs),
        frozenset([*states, *(t.name for t in model.outputs)]),
        {n: offsets[n] for n in held if n in states},
        launches,
        {name: _place_of(name, given, pool, constants, tensors) for name in used},
        tensors.owners,
        tensors.maps,
        tensors.shapes,
        tensors.items,
        tensors.dtypes,
        tuple(held.values()),
        filled,
        end,
    )


def _place_of(
    name: str, given: set[str], pool: Mapping[str, int], constants: Mapping[str, Buffer], tensors: _Tensors
) -> Place:
    """Where a tensor is: `given` by the caller, in the pool, or in the workspace, where each run fills in constants."""
    where = PARAMETER if name in given else POOL if name in pool else WORKSPACE
    value = _number_of(constants[name]) if where == WORKSPACE and name in constants else None
    return Place(name, tensors.items[name], tensors.shapes[name], where, pool.get(name, 0), value)


def touched_by(
    arguments: Iterable[tuple[str, str]], maps: Mapping[str, manifest.TensorMap], owners: Mapping[str, str]
) -> tuple[str, ...]:
    """The owners of the memory behind a launch's arguments, each once."""
    named = (n if kind == "tensor" else maps[n].tensor for kind, n in arguments if kind != "symbol")
    return tuple(dict.fromkeys(owners[n] for n in named))


def _reachable(module: manifest.Module, settled: Mapping[str, int]) -> Iterator[manifest.Launch]:
    """The launches that some sizes take: what is behind an alternative that all sizes take is never made, nor is one
    that no size takes."""
    mains: dict[tuple[str, ...], bool] = {}
    dropped = set()
    for launch in (launch for launch in module.launches if not launch.serves):
        parts = [launch, *(p for p in module.launches if p.serves == launch.name)]
        verdicts = [_verdict(b.substitute(settled)) for p in parts for b in _allowed(p)]
        if mains.get(launch.regions) or False in verdicts:
            dropped.add(launch.name)
        else:
            mains[launch.regions] = all(verdicts)
    yield from (launch for launch in module.launches if (launch.serves or launch.name) not in dropped)


def _allowed(launch: manifest.Launch) -> Iterator[Bound]:
    """What must hold of the sizes for a launch: what it assumes, and what kernels and grids can count."""
    for guard in launch.assumes:
        yield from guard
    for symbol in launch.symbols:
        yield Bound(Expr.of(symbol), None, Expr.of(LARGEST_SIZE + 1))
    for size, most in zip(launch.grid, MAX_GRID):
        yield Bound(size, None, Expr.of(most + 1))


def _verdict(bound: Bound) -> bool | None:
    """Whether a bound holds; None where sizes decide."""
    return None if bound.vocabulary else bound.holds({})


def _launch_of(
    launch: manifest.Launch, module: manifest.Module, tensors: _Tensors, settled: Mapping[str, int]
) -> Launch:
    grid = tuple(e.substitute(settled) for e in (*launch.grid, *(Expr.of(1),) * (3 - len(launch.grid))))
    outputs = [t for name in launch.regions for t in module.region.program.region(name).outputs]
    bounds = (b.substitute(settled) for b in _allowed(launch))
    return Launch(
        launch.name,
        launch.entry,
        grid,
        (*launch.block, 1, 1)[:3],
        launch.smem,
        (
            *(("tensor", n) for n in launch.tensors),
            *(("map", n) for n in launch.maps),
            *(("symbol", n) for n in launch.symbols),
        ),
        tuple((b,) for b in bounds if _verdict(b) is None),
        launch.regions,
        launch.serves,
        tuple(tuple(e.substitute(settled) for e in t.type.shape) for t in outputs),
        launch.is_once,
        launch.is_early,
        {n: launch.elements_before(n, tensors.shapes[n]).evaluate({}) * tensors.items[n] for n, _ in launch.moved},
    )


def _with_kept(launches: list[Launch], constant: set[str], outside: set[str], tensors: _Tensors) -> tuple[Launch, ...]:
    """The launches in the order in which they are made, those marked that no size and no argument of a run changes:
    they are made once, and so is what they write."""
    kept = {n for n, launch in enumerate(launches) if launch.is_once and not tensors.is_sized(launch)}
    touched = {n: tensors.touched(launch) for n, launch in enumerate(launches)}
    while True:
        others = {t for n, launch in enumerate(launches) if launch.is_once and n not in kept for t in touched[n]}
        free = constant | {t for n in kept for t in touched[n] if t not in outside and t not in others}
        left = {n for n in kept if free.issuperset(touched[n])}
        if left == kept:
            break
        kept = left
    marked = [replace(launch, is_kept=n in kept) for n, launch in enumerate(launches)]
    return tuple(sorted(marked, key=lambda launch: (not launch.is_kept, not launch.is_once)))


def _is_fixed(sizes: Iterable[Expr]) -> bool:
    return all(e.constant is not None for e in sizes)


def _number_of(buffer: Buffer) -> np.ndarray | None:
    """The number that fills a constant whose sizes are symbols; none where it has no elements."""
    if isinstance(buffer.attr("value"), tuple):
        return None  # lists fit a shape of symbols only where they are empty
    return constant_of(replace(buffer, type=TensorType(buffer.type.dtype, ())), {})
