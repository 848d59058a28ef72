"""The smallest program that still shows a fault: delta debugging over the graph (outputs, values cut off as inputs,
values passed by), then over the sizes that its text states and over the numbers of its inputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tinyir.ir import tiny
from tinyir.ir.model import Tensor
from tinyir.kit.diag import Refused
from tinyir.kit.records import replace
from tinyir.play.arrays import bind_symbols
from tinyir.play.tiny import play

Arrays = Mapping[str, np.ndarray]
SIZE = re.compile(r"(?<![\w.\-])\d+(?![\w.])")


@dataclass(frozen=True, slots=True)
class Case:
    """A program and arrays for its inputs."""

    module: tiny.Module
    arrays: Arrays


def smallest(case: Case, is_wrong: Callable[[Case], bool], most: int = 300) -> Case:
    """The smallest case that `is_wrong` still holds of, after `most` trials at the latest; `case` itself where none is
    smaller."""
    trials = 0
    steps = (_fewer_outputs, _cut, _passed_by, _without_symbols, _smaller_sizes, _plain_numbers)
    progress = True
    while progress:
        progress = False
        for step in steps:
            again = True
            while again and trials < most:
                again = False
                for smaller in step(case):
                    trials += 1
                    if is_wrong(smaller):
                        case, again, progress = smaller, True, step is not _plain_numbers
                        break
                    if trials >= most:
                        return case
    return case


def _needed(module: tiny.Module, arrays: Arrays) -> Case:
    """The module without what no output needs."""
    wanted = {r.value for r in module.results}
    for value in reversed(module.values):
        if value.name in wanted:
            wanted.update(value.operands)
    inputs = tuple(t for t in module.model.inputs if t.name in wanted)
    outputs = tuple(t for t in module.model.outputs if any(r.output == t.name for r in module.results))
    named = {n for t in (*inputs, *outputs) for d in t.type.shape for n in d.names()}
    ranges = tuple(r for r in module.model.ranges if r.symbol in named)
    model = replace(module.model, inputs=inputs, outputs=outputs, ranges=ranges)
    kept = tuple(v for v in module.values if v.name in wanted)
    return Case(replace(module, model=model, values=kept), {t.name: arrays[t.name] for t in inputs})


def _right(module: tiny.Module, arrays: Arrays) -> Iterator[Case]:
    """The case without what it does not need, where it is a program."""
    case = _needed(module, arrays)
    try:
        if not any(d.is_error for d in tiny.check(case.module)):
            bind_symbols(case.module.model, case.arrays)
            yield case
    except Refused:
        pass


def _fewer_outputs(case: Case) -> Iterator[Case]:
    results = case.module.results
    if len(results) > 1:
        for part in (*((r,) for r in results), *(results[:n] + results[n + 1 :] for n in range(len(results)))):
            yield from _right(replace(case.module, results=part), case.arrays)


def _cut(case: Case) -> Iterator[Case]:
    """A value that becomes an input, with the numbers that it has; the last first, which takes most away."""
    module, seen = case.module, dict[str, np.ndarray]()
    play(module, case.arrays, watch=lambda name, array: seen.update({name: np.array(array)}))
    given = {r.value for r in module.results}
    for value in reversed(module.values):
        if value.name in seen and value.name not in given and value.operands:
            new = Tensor(value.name, value.type)
            model = replace(module.model, inputs=(*module.model.inputs, new))
            rest = tuple(v for v in module.values if v is not value)
            yield from _right(replace(module, model=model, values=rest), {**case.arrays, value.name: seen[value.name]})


def _passed_by(case: Case) -> Iterator[Case]:
    """A value that is one of its operands of the same type."""
    module, types = case.module, case.module.type_of()
    given, names = {r.value for r in module.results}, {v.name for v in module.values}
    for value in reversed(module.values):
        for operand in value.operands:
            if types[operand] == value.type and (value.name not in given or operand in names):

                def other(name: str, value: tiny.Value = value, operand: str = operand) -> str:
                    return operand if name == value.name else name

                values = tuple(
                    replace(v, operands=tuple(map(other, v.operands))) for v in module.values if v is not value
                )
                results = tuple(replace(r, value=other(r.value)) for r in module.results)
                yield from _right(replace(module, values=values, results=results), case.arrays)


def _without_symbols(case: Case) -> Iterator[Case]:
    """A symbol as the number that it is."""
    sizes = bind_symbols(case.module.model, case.arrays)
    text = tiny.show(case.module)
    for symbol, size in sizes.items():
        lines = [line for line in text.split("\n") if not line.strip().startswith(f"sym {symbol} ")]
        whole = re.sub(rf"(?<![\w.%]){symbol}(?![\w.])", str(size), "\n".join(lines))
        yield from _read(whole, case.arrays, sizes)


def _smaller_sizes(case: Case) -> Iterator[Case]:
    """A number of the text less, wherever it is."""
    sizes = bind_symbols(case.module.model, case.arrays)
    head, _, text = tiny.show(case.module).partition("\n")
    places = list(SIZE.finditer(text))
    for number in sorted({int(m[0]) for m in places} - {0, 1}, reverse=True):
        for less in sorted({1, 2, number // 2, number - 1} - {0, number}):
            changed = re.sub(SIZE, lambda m, number=number, less=less: str(less) if int(m[0]) == number else m[0], text)
            yield from _read(f"{head}\n{changed}", case.arrays, sizes)


def _read(text: str, arrays: Arrays, sizes: Mapping[str, int]) -> Iterator[Case]:
    """The case of a text, whose inputs are the first elements of the arrays, where it is a program."""
    try:
        module = tiny.parse(text)
        shapes = {t.name: tuple(d.evaluate(sizes) for d in t.type.shape) for t in module.model.inputs}
    except (Refused, ValueError):
        return
    if all(
        len(shape) == arrays[name].ndim and all(a <= b for a, b in zip(shape, arrays[name].shape))
        for name, shape in shapes.items()
    ):
        yield from _right(
            module, {n: np.ascontiguousarray(arrays[n][tuple(map(slice, shape))]) for n, shape in shapes.items()}
        )


def _plain_numbers(case: Case) -> Iterator[Case]:
    """An input of zeros, or of ones."""
    for name, array in case.arrays.items():
        for number in (0, 1):
            plain = np.full(array.shape, number).astype(array.dtype)
            if array.tobytes() not in (plain.tobytes(), np.zeros_like(array).tobytes()):
                yield Case(case.module, {**case.arrays, name: plain})
