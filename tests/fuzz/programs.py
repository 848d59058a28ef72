"""Random programs that are right by construction, over every row of the front ends' table and every dtype: an op is
drawn, then operands of shapes that it takes (`operands`), then attributes by their kinds; the builder says the shape of
what it gives. A new row of the table is drawn without a word here."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinyir.front.builder import Builder, Operand, Ref
from tinyir.front.limits import Limits
from tinyir.front.ops import ELEMENTWISE, FRONT_OPS, FrontOp, check_attrs
from tinyir.front.ops.table import REQUIRED
from tinyir.ir import tiny
from tinyir.ir.evaluate import convert
from tinyir.ir.expr import Expr
from tinyir.ir.model import Model, Range, Tensor
from tinyir.ir.types import DTYPES, DType, TensorType
from tinyir.kit.diag import Refused

from .operands import ATTRIBUTES, OPERANDS, drawn_attr

SIZES = {"M": 3, "N": 4}
MOST = 600  # elements of a value, so that a simulation takes milliseconds
MOST_RANK = 6
# fp32 is what most models are made of
LIKELY = [*DTYPES.values(), *(DTYPES[name] for name in ("fp32", "fp32", "fp32", "fp32", "fp16", "fp16", "i64", "bool"))]
SPECIAL = (0.0, -0.0, math.inf, -math.inf, math.nan, 1e-40, 65504.0, 3e38)


class TooLarge(Exception):
    """A value has more elements or axes than a small program should, a size that no input has, or ranges that its
    symbols are outside of."""


@dataclass
class Program:
    """A program with arrays for its inputs and what its symbols are; the rows that it is made of, and the codes with
    which rows refused what was drawn for them."""

    module: tiny.Module
    arrays: dict[str, np.ndarray]
    rows: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)


class Maker:
    """A program in the making. `prefix` begins every name but those of symbols."""

    def __init__(self, seed: int, prefix: str = ""):
        self.draw = random.Random(f"program {seed}")
        self.numbers = np.random.default_rng(seed)
        self.prefix = prefix
        self.builder = Builder()
        self.refs: list[Ref] = []
        self.arrays: dict[str, np.ndarray] = {}
        self.is_symbolic = self.draw.random() < 0.3
        self.is_special = self.draw.random() < 0.1
        self.usual = self.draw.choice(LIKELY)
        self.rows: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    # --- what operands are drawn from

    def size(self) -> int | str:
        """A size of an axis."""
        if self.is_symbolic and self.draw.random() < 0.4:
            return self.draw.choice(("M", "N"))
        return self.draw.choice((1, 2, 3, 4, 5, 8) if self.draw.random() < 0.97 else (0,))

    def shape(self, low: int = 0, high: int = 4) -> list[Any]:
        """Sizes of `low` to `high` axes."""
        return [self.size() for _ in range(self.draw.randint(low, high))]

    def dtype(self, kinds: str = "fiub") -> DType:
        """A dtype of these kinds, at most times the usual one of the program."""
        if self.usual.kind in kinds and self.draw.random() < 0.6:
            return self.usual
        return self.draw.choice([d for d in LIKELY if d.kind in kinds])

    def input(self, shape: Sequence[Any], dtype: DType, below: int | None = None) -> Ref:
        """A new input; of places, which are in -`below`..`below`, some are outside by one."""
        name = f"{self.prefix}x{len(self.arrays)}"
        type_ = TensorType(dtype, tuple(map(Expr.of, shape)))
        sizes = tuple(d.evaluate(SIZES) for d in type_.shape)
        self.arrays[name] = self.array(sizes, dtype, below)
        ref = self.builder.input(Tensor(name, type_))
        self.refs.append(ref)
        return ref

    def array(self, sizes: tuple[int, ...], dtype: DType, below: int | None) -> np.ndarray:
        """Small halves, whole numbers or places; at times what arithmetic has its own rules for."""
        if dtype.kind == "b":
            return self.numbers.random(sizes) < 0.5
        if dtype.kind == "u":
            return convert(self.numbers.integers(0, 5 if below is None else max(below, 1), sizes), dtype)
        if dtype.kind == "i":
            low, high = (-4, 5) if below is None else (-below - 1, below + 1)
            return convert(self.numbers.integers(low, high, sizes), dtype)
        found = np.asarray(self.numbers.integers(-4, 5, sizes) / 2)
        if self.is_special and found.size:
            found.reshape(-1)[self.numbers.integers(0, found.size)] = self.draw.choice(SPECIAL)
        return convert(found, dtype)

    def some(self, kinds: str = "fiub", low: int = 0, high: int = 5) -> Ref:
        """A value of these kinds and of `low` to `high` axes, one of the last at most times."""
        known = [r for r in self.refs if r.dtype.kind in kinds and low <= r.rank <= high]
        if not known or self.draw.random() < 0.1:
            return self.input(self.shape(low, min(high, 4)), self.dtype(kinds))
        return self.draw.choice(known[-4:] if self.draw.random() < 0.7 else known)

    def like(self, shape: Sequence[Any], dtype: DType) -> Ref:
        """A value of this type, or a new input where there is none."""
        wanted = TensorType(dtype, tuple(map(Expr.of, shape)))
        known = [r for r in self.refs if r.type == wanted]
        return self.draw.choice(known) if known and self.draw.random() < 0.8 else self.input(shape, dtype)

    def fitting(self, other: Ref) -> Ref:
        """A value that broadcasts with another one, of its dtype at most times."""
        shape = [d if self.draw.random() < 0.8 else 1 for d in other.shape]
        shape = shape[self.draw.randint(0, len(shape)) if self.draw.random() < 0.3 else 0 :]
        return self.like(shape, other.dtype if self.draw.random() < 0.8 else self.dtype())

    # --- steps

    def step(self) -> None:
        """One op of the table."""
        if self.draw.random() < 0.55:
            self.add(self.draw.choice(list(FRONT_OPS.values())))
        else:
            self.add(self.draw.choice(list(ELEMENTWISE.values())))

    def add(self, row: FrontOp) -> bool:
        """One op of this row; False where what was drawn does not fit, which leaves nothing behind."""
        before, ranges = (len(self.builder.inputs), len(self.refs), dict(self.arrays)), self.builder.limits.ranges()
        try:
            given = self.lowered(row)
        except (Refused, TooLarge) as fault:
            self.builder.drop()
            why = fault.diags[0].code if isinstance(fault, Refused) else "too large"
            self.refused[f"{row.name} {why}"] += 1
            for ref in self.builder.inputs[before[0] :]:
                self.builder._names.taken.discard(ref.name)
            del self.builder.inputs[before[0] :], self.refs[before[1] :]
            self.arrays, self.builder.limits = before[2], Limits()
            self.builder.limits.state(ranges)
            return False
        self.refs += given
        self.rows[row.name] += 1
        return True

    def lowered(self, row: FrontOp) -> tuple[Ref, ...]:
        """What the row gives for operands and attributes that are drawn. Raises Refused."""
        operands, stated = self.operands(row)
        drawn = ATTRIBUTES.get(row.name, {})
        for attr in row.attrs:
            is_free = attr.name not in stated and attr.name not in drawn
            if is_free and (attr.default is REQUIRED or self.draw.random() < 0.6):
                stated[attr.name] = drawn_attr(self, attr, operands)
        for name, one in drawn.items():
            if name not in stated and (found := one(self, operands)) is not None:
                stated[name] = found
        attrs, faults = check_attrs(row, {k: v for k, v in stated.items() if v is not None}, row.name)
        if faults:
            raise Refused(faults)
        name = f"{self.prefix}v{sum(self.rows.values())}"
        self.builder.open(None, name)
        given = row.lower(self.builder, tuple(operands), attrs)
        given = given if isinstance(given, tuple) else (given,)
        known = {n for t in self.builder.inputs for d in t.type.shape for n in d.names()}
        for ref in given:
            if ref.rank > MOST_RANK or math.prod(d.evaluate(SIZES) for d in ref.shape) > MOST:
                raise TooLarge
            if not known.issuperset(n for d in ref.shape for n in d.names()):
                raise TooLarge
        if any(not r.low <= SIZES[r.symbol] <= r.high for r in self.builder.limits.ranges()):
            raise TooLarge
        names = [f"{name}.{n}" if n else name for n in range(len(given))]
        return self.builder.close(given, names, [None] * len(given), [None] * len(given))

    def operands(self, row: FrontOp) -> tuple[list[Operand], dict[str, Any]]:
        """Operands of a row, and attributes that their shapes ask for."""
        if row.name in OPERANDS:
            return OPERANDS[row.name](self)
        low, high = row.inputs
        count = self.draw.randint(low, min(high, low + 2))
        if not count:
            return [], {}
        first = self.some()
        return [first, *(self.fitting(first) for _ in range(count - 1))], {}


def random_program(seed: int, most: int = 10, prefix: str = "") -> Program:
    """A program of up to `most` ops."""
    maker = Maker(seed, prefix)
    wanted, tries = maker.draw.randint(1, most), 0
    while sum(maker.rows.values()) < wanted and tries < 10 * most:
        tries += 1
        maker.step()
    made = [ref for ref in maker.refs if ref.op]
    if not made:
        maker.add(ELEMENTWISE["identity"])
        made = maker.refs[-1:]
    chosen = {ref.name: ref for ref in (made[-1], *(maker.draw.choice(made) for _ in range(maker.draw.randint(0, 2))))}
    results = [(f"{prefix}y{n}", ref) for n, ref in enumerate(chosen.values())]
    model = Model(
        "random",
        tuple(Tensor(r.name, r.type) for r in maker.builder.inputs),
        tuple(Tensor(n, r.type) for n, r in results),
    )
    return Program(maker.builder.finish(model, results), maker.arrays, maker.rows, maker.refused)


def packed(programs: Sequence[Program]) -> Program:
    """Several programs that share nothing but their symbols as one, so that one compiled text runs them all."""
    modules = [one.module for one in programs]
    ranges: dict[str, Range] = {}
    for found in (r for m in modules for r in m.model.ranges):
        known = ranges.get(found.symbol, found)
        ranges[found.symbol] = Range(found.symbol, max(known.low, found.low), min(known.high, found.high))
    model = Model(
        "random",
        tuple(t for m in modules for t in m.model.inputs),
        tuple(t for m in modules for t in m.model.outputs),
        tuple(ranges.values()),
    )
    values, results = (tuple(item for m in modules for item in getattr(m, part)) for part in ("values", "results"))
    return Program(
        tiny.Module(model, values, results),
        {name: array for one in programs for name, array in one.arrays.items()},
        sum((one.rows for one in programs), Counter()),
        sum((one.refused for one in programs), Counter()),
    )
