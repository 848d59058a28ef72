"""The verdict on computing a value where it is read, against NumPy: every point and every element it needs, listed; and
what comes of fusing all the same where the verdict says no.

The elements that a reader's point needs are found by moving an array of element numbers as the program's movements do;
isl has no part.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from tinyir.analysis.compute_at import ComputeAt, edges_of
from tinyir.ir import poly, tiny
from tinyir.ir.evaluate import evaluate, shape_of
from tinyir.ir.ops import OPS
from tinyir.ir.types import DTYPES, TensorType
from tinyir.lower import index as to_index
from tinyir.lower import poly as to_poly
from tinyir.play.tiny import PLAYED

from .graphs import SIZES, random_graph

Points = tuple[int, ...]
Arrays = dict[str, np.ndarray]


class Program:
    """A tiny program, its edges, and its values on some arrays, each op by itself."""

    def __init__(self, module: tiny.Module):
        self.module = module
        self.values = module.value_of()
        self.types = module.type_of()
        self.poly: poly.Module = to_poly.lower(to_index.lower(module))
        self.blocks = self.poly.block_of()

    def shape(self, name: str) -> Points:
        return tuple(d.evaluate(SIZES) for d in self.types[name].shape)

    def compute(self, value: tiny.Value, operands: list[np.ndarray]) -> np.ndarray:
        with np.errstate(all="ignore"):
            if value.op in PLAYED:
                return PLAYED[value.op](value, shape_of(value, SIZES), *operands)
            return evaluate(value, operands, SIZES)

    def everything(self, inputs: Arrays) -> Arrays:
        found = dict(inputs)
        for value in self.module.values:
            found[value.name] = self.compute(value, [found[o] for o in value.operands])
        return found

    def seen_by(self, reader: tiny.Value, source: str, elements: np.ndarray, right: Arrays) -> list[np.ndarray]:
        """The operands of the reader when `source` has these elements."""

        def of(name: str) -> np.ndarray:
            value = self.values.get(name)
            if name == source:
                return elements
            if value is not None and (OPS[value.op].is_movement or name in self.blocks[reader.name].fuses):
                return self.compute(value, [of(o) for o in value.operands])
            return right[name]

        return [of(o) for o in reader.operands]

    def needs(self, reader: tiny.Value, source: str) -> set[tuple[int, Points]]:
        """(element of the source, by its number; point of the reader's own axes) for everything that a point needs, or
        may need when a value chooses at run time."""
        count = int(np.prod(self.shape(source), dtype=int))
        numbers = np.arange(1, count + 1).reshape(self.shape(source))
        found: set[tuple[int, Points]] = set()
        for at, operand in enumerate([reader.name] if OPS[reader.op].is_movement else reader.operands):
            for ids in self.ids(operand, reader, source, numbers):
                for place in np.argwhere(ids > 0):
                    found |= {
                        (int(ids[tuple(place)]), point) for point in self.points(reader, at, tuple(map(int, place)))
                    }
        return found

    def ids(self, name: str, reader: tiny.Value, source: str, numbers: np.ndarray) -> Iterator[np.ndarray]:
        """The element numbers that are in an operand, 0 where it is not an element; twice for a product of two."""
        value = self.values.get(name)
        if name == source:
            yield numbers
        elif value is not None and name in self.blocks[reader.name].fuses:
            for operand in value.operands:
                yield from self.ids(operand, reader, source, numbers)
        elif value is not None and OPS[value.op].is_movement:
            attrs = tuple((k, 0 if k == "value" else v) for k, v in value.attrs)
            bare = tiny.Value(name, value.op, value.operands, attrs, TensorType(DTYPES["i64"], value.type.shape))
            for inner in self.ids(value.operands[0], reader, source, numbers):
                yield self.compute(bare, [inner])

    def points(self, reader: tiny.Value, at: int, place: Points) -> Iterator[Points]:
        """The reader's points that read the element at `place` of its operand number `at`."""
        shape = self.shape(reader.name)
        every = [range(n) for n in shape]
        axis = (reader.attr("axis") or 0) % max(1, len(self.shape(reader.operands[0])))
        if reader.op == "REDUCE":
            folded = {a % len(place) for a in reader.attr("axes")}
            yield tuple(i for n, i in enumerate(place) if n not in folded)
        elif reader.op == "SCAN":
            ahead = int(bool(reader.attr("exclusive")))
            along = (
                range(place[axis] + 1 - ahead) if reader.attr("reverse") else range(place[axis] + ahead, shape[axis])
            )
            yield from ((*place[:axis], i, *place[axis + 1 :]) for i in along)
        elif reader.op == "GATHER":
            wide = len(self.shape(reader.operands[1]))
            own = [*((i,) for i in place[:axis]), *every[axis : axis + wide], *((i,) for i in place[axis + 1 :])]
            chosen = [*every[:axis], *((i,) for i in place), *every[axis + wide :]]
            yield from itertools.product(*(own if at == 0 else chosen))
        elif reader.op == "SCATTER" and at > 0:
            wide = len(self.shape(reader.operands[1]))
            own = [*((i,) for i in place[:axis]), every[axis], *((i,) for i in place[axis + wide :])]
            yield from itertools.product(*(every if at == 1 else own))
        else:
            yield place


def is_once(pairs: set[tuple[int, Points]], kept: list[int]) -> bool:
    """Whether each element is needed at one point of the kept axes."""
    seen: dict[int, Points] = {}
    return all(seen.setdefault(e, at) == at for e, at in ((e, tuple(p[n] for n in kept)) for e, p in pairs))


def deepest(pairs: set[tuple[int, Points]], rank: int) -> list[int]:
    kept: list[int] = []
    for n in range(rank):
        if is_once(pairs, [*kept, n]):
            kept.append(n)
    return kept


def check_verdict(program: Program, edge: ComputeAt) -> None:
    reader = program.values[edge.reader]
    rank = len(program.shape(edge.reader))
    pairs = program.needs(reader, edge.source)
    names = [f"i{n}" for n in range(rank)]
    kept = deepest(pairs, rank)
    assert edge.axes == tuple(names[n] for n in kept), (edge, kept)
    assert edge.is_legal == is_once(pairs, list(range(rank)))
    assert edge.is_legal == (edge.witness is None)
    if edge.witness is not None:
        element = (
            int(np.ravel_multi_index(edge.witness.element, program.shape(edge.source))) + 1
            if edge.witness.element
            else 1
        )
        along = [names.index(a) for a in edge.witness.axes]
        assert {edge.witness.first, edge.witness.second} <= {
            tuple(p[n] for n in along) for e, p in pairs if e == element
        }


def forced(program: Program, edge: ComputeAt, axes: list[int], right: Arrays) -> np.ndarray:
    """The reader's value when each element of the source is computed once, at the first of the reader's points along
    `axes` that needs it, and is gone when that point is left."""
    reader = program.values[edge.reader]
    owner: dict[int, Points] = {}
    for element, point in program.needs(reader, edge.source):
        here = tuple(point[n] for n in axes)
        owner[element] = min(owner.get(element, here), here)
    whole = right[edge.source]
    result = np.empty_like(right[edge.reader])
    for here in itertools.product(*(range(result.shape[n]) for n in axes)):
        elements = np.array(gone(whole))
        for element in (e for e, point in owner.items() if point == here):
            elements.flat[element - 1] = whole.flat[element - 1]
        cut: list[int | slice] = [slice(None)] * result.ndim
        for n, i in zip(axes, here):
            cut[n] = i
        result[tuple(cut)] = program.compute(reader, program.seen_by(reader, edge.source, elements, right))[tuple(cut)]
    return result


def gone(array: np.ndarray) -> np.ndarray:
    """What is where an element is not computed: NaN, or another number than the right one."""
    if array.dtype.kind == "f":
        return np.full(array.shape, np.nan, array.dtype)
    return ~array if array.dtype.kind == "b" else array + 1000003


def check_forced(program: Program, edge: ComputeAt, inputs: Arrays) -> None:
    """A legal fusion changes nothing. What is not legal goes wrong on one of a few draws of the inputs: not on each,
    since a maximum, a choice or a place chosen at run time may happen not to look at the element."""
    rank = len(program.shape(edge.reader))
    if edge.is_legal:
        right = program.everything(inputs)
        np.testing.assert_array_equal(forced(program, edge, list(range(rank)), right), right[edge.reader])
        return
    along = [int(a[1:]) for a in edge.witness.axes]
    for draw in range(20):
        numbers = np.random.default_rng(draw)
        drawn = {
            n: numbers.integers(-3, 3, a.shape).astype(a.dtype)
            if a.dtype.kind == "i"
            else numbers.standard_normal(a.shape).astype(a.dtype)
            for n, a in inputs.items()
        }
        right = program.everything(drawn)
        if not np.array_equal(forced(program, edge, along, right), right[edge.reader], equal_nan=True):
            return
    raise AssertionError(f"{edge} went right")


def small_graphs(count: int) -> Iterator[tuple[Program, Arrays]]:
    """Graphs of integer sizes."""
    seeds = itertools.count()
    while count:
        module, arrays = random_graph(next(seeds), 10)
        if not module.model.symbols():
            count -= 1
            yield Program(module), arrays


def check_graphs(count: int) -> tuple[int, int]:
    """How many verdicts were tried: legal, not legal."""
    tried = [0, 0]
    for program, inputs in small_graphs(count):
        for edge in edges_of(program.poly):
            check_verdict(program, edge)
            check_forced(program, edge, inputs)
            tried[0 if edge.is_legal else 1] += 1
    return tried[0], tried[1]


def test_verdicts_on_two_hundred_graphs() -> None:
    """1 s, since the graphs are small."""
    legal, illegal = check_graphs(200)
    assert legal > 200 and illegal > 50
