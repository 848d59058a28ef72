"""Random programs of movements alone, over numbers and symbols: what they read is at remainders, quotients, pieces,
halves and ends."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tinyir.ir.expr import Expr
from tinyir.ir.model import Model, Range, Tensor
from tinyir.ir.ops import OPS
from tinyir.ir.rules import infer
from tinyir.ir.tiny import Module, Result, Value
from tinyir.ir.types import DTYPES, TensorType
from tinyir.kit.diag import Refused

FP32 = DTYPES["fp32"]
SIZES = ({"M": 5, "N": 3}, {"M": 2, "N": 7}, {"M": 1, "N": 1})
SHAPES = (["M", "N"], ["2*M", "N"], ["N", "6*M"], [6, "M"], [21, 8], ["M", 4, "N"], ["M*N", 6], [12, 35], ["M", "M"])
MOVES = (
    "merge",
    "merge",
    "split",
    "split",
    "regroup",
    "permute",
    "flip",
    "pad",
    "shrink",
    "shrink",
    "half",
    "step",
    "cat",
    "view",
    "meet",
)
ZERO = Expr.of(0)


def dim(word: Any) -> Expr:
    """The size that a word such as `2*M` says."""
    total = Expr.of(1)
    for part in str(word).split("*"):
        total = total * Expr.of(int(part) if part.isdigit() else part)
    return total


class Chain:
    """A tiny module in the making. A movement that does not apply is left out."""

    def __init__(self, seed: int):
        self.draw = random.Random(seed)
        self.types: dict[str, TensorType] = {}
        self.values: list[Value] = []
        self.inputs = [self.input(name, self.draw.choice(SHAPES)) for name in ("x", "y")]

    def input(self, name: str, words: list[Any]) -> Tensor:
        """A tensor whose sizes are words."""
        self.types[name] = TensorType(FP32, tuple(map(dim, words)))
        return Tensor(name, self.types[name])

    def add(self, op: str, operands: list[str], shape: Any = None, /, **attrs: Any) -> str:
        """Append a value; its name, or where the op does not apply that of its first operand."""
        stated = TensorType(FP32, tuple(shape)) if shape is not None else None
        try:
            found = infer(OPS[op], [self.types[o] for o in operands], attrs, stated)
        except Refused:
            return operands[0]
        name = f"v{len(self.values)}"
        self.types[name] = found
        self.values.append(
            Value(name, op, tuple(operands), tuple((k, attrs[k]) for k in OPS[op].attrs or {} if k in attrs), found)
        )
        return name

    def shrink(self, name: str, axis: int, low: Expr, high: Expr, step: int = 1) -> str:
        """A part of one axis."""
        shape = self.types[name].shape
        lo, hi = [
            [at if a == axis else whole for a, whole in enumerate(wholes)]
            for at, wholes in ((low, [ZERO] * len(shape)), (high, shape))
        ]
        return self.add(
            "SHRINK",
            [name],
            lo=tuple(lo),
            hi=tuple(hi),
            step=tuple(step if a == axis else 1 for a in range(len(shape))),
        )

    def pad(self, name: str, axis: int, low: Expr, high: Expr) -> str:
        """Zeros around one axis."""
        return self.add(
            "PAD",
            [name],
            pad=tuple((low, high) if a == axis else (ZERO, ZERO) for a in range(self.types[name].rank)),
            value=0.0,
        )

    def move(self, name: str) -> str:
        """One movement."""
        shape = list(self.types[name].shape)
        axis = self.draw.randrange(len(shape))
        size = shape[axis]
        kind = self.draw.choice(MOVES)
        if kind == "merge" and axis + 1 < len(shape):
            return self.add("RESHAPE", [name], [*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]])
        if kind == "split" and len(shape) < 5:
            part = Expr.of(self.draw.choice([2, 3, 4, 7, "M", "N"]))
            whole = size // part
            if whole * part == size:
                return self.add(
                    "RESHAPE", [name], [*shape[:axis], *self.draw.sample([whole, part], 2), *shape[axis + 1 :]]
                )
        elif kind == "regroup":
            return self.add("RESHAPE", [name], self.draw.sample(shape, len(shape)))
        elif kind == "permute":
            return self.add("PERMUTE", [name], perm=tuple(self.draw.sample(range(len(shape)), len(shape))))
        elif kind == "flip":
            return self.add("FLIP", [name], axes=(axis,))
        elif kind == "pad":
            return self.pad(name, axis, Expr.of(self.draw.randint(0, 3)), Expr.of(self.draw.randint(0, 3)))
        elif kind == "shrink" and size.constant is not None and size.constant > 2:
            low, high = sorted(self.draw.sample(range(size.constant + 1), 2))
            return self.shrink(name, axis, Expr.of(low), Expr.of(high), self.draw.randint(1, 3))
        elif kind == "half":
            half = size // 2
            return self.shrink(name, axis, *self.draw.choice([(ZERO, half), (half, size)]))
        elif kind == "step":
            return self.shrink(name, axis, ZERO, size, self.draw.choice([2, 3]))
        elif kind == "cat":
            at = size // self.draw.choice([2, 3])
            back, front = self.shrink(name, axis, at, size), self.shrink(name, axis, ZERO, at)
            if self.types[back].shape[axis] == size - at and self.types[front].shape[axis] == at:
                return self.add("ADD", [self.pad(back, axis, ZERO, at), self.pad(front, axis, size - at, ZERO)])
        elif kind == "view":
            index = [Expr.of(f"i{n}") for n in range(len(shape))]
            index[axis] = index[axis] // 2
            return self.add(
                "VIEW", [name], [s * 2 if a == axis else s for a, s in enumerate(shape)], index_map=tuple(index)
            )
        elif kind == "meet":
            alike = [n for n, t in self.types.items() if t == self.types[name]]
            return self.add("MAX", [name, self.draw.choice(alike)])
        return name


def odd_program(seed: int, most: int = 8) -> Module:
    """A module of up to `most` movements of each of two inputs, and what is made of them."""
    chain = Chain(seed)
    ends = []
    for start in ("x", "y"):
        name = start
        for _ in range(chain.draw.randint(1, most)):
            name = chain.move(name)
        ends.append(chain.add("NEG", [name]))
    if chain.types[ends[0]] == chain.types[ends[1]]:
        ends = [chain.add("ADD", ends)]
    outputs = tuple(Tensor(f"out{n}", chain.types[name]) for n, name in enumerate(ends))
    symbols = tuple(Range(s, 1, 4096) for s in ("M", "N"))
    used = {s for t in (*chain.inputs, *outputs) for e in t.type.shape for s in e.names()}
    model = Model("odd", tuple(chain.inputs), outputs, ranges=tuple(r for r in symbols if r.symbol in used))
    return Module(model, tuple(chain.values), tuple(Result(f"out{n}", name) for n, name in enumerate(ends)))


def arrays_for(module: Module, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """An array for each input, of numbers that are all different."""
    arrays, first = {}, 1
    for tensor in module.model.inputs:
        shape = tuple(d.evaluate(sizes) for d in tensor.type.shape)
        arrays[tensor.name] = np.arange(first, first + np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
        first += 10_000
    return arrays
