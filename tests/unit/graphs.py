"""Random tiny graphs for the tests of regions: arithmetic, folds, contractions, movements, places chosen at run time, several outputs."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tinyir.ir.expr import Expr
from tinyir.ir.model import Model, Tensor
from tinyir.ir.ops import OPS
from tinyir.ir.rules import infer
from tinyir.ir.tiny import Module, Result, Value
from tinyir.ir.types import DTYPES, TensorType
from tinyir.kit.diag import Refused

FP32, I32 = DTYPES["fp32"], DTYPES["i32"]
SIZES = {"M": 3, "N": 4}


KINDS = (
    "unary binary binary reduce reduce expand contract permute flip pad shrink merge scan gather const"
    " where half iota random argmax scatter"
).split()


class Graph:
    """A tiny module in the making; operands are drawn from what is there."""

    def __init__(self, seed: int, has_empty: bool = False):
        self.draw = random.Random(seed)
        self.has_empty = has_empty
        self.symbolic = self.draw.random() < 0.5
        self.types: dict[str, TensorType] = {}
        self.values: list[Value] = []
        self.inputs = [self.input("x", [self.dim(), self.dim()]), self.input("m", ["M", "N"] if self.symbolic else [3, 4])]
        self.inputs.append(self.input("at", [self.draw.choice([2, 3])], I32))

    def dim(self) -> Any:
        return self.draw.choice(["M", "N", 0 if self.has_empty else 1, 2, 4] if self.symbolic else [0 if self.has_empty else 1, 2, 3, 4, 5])

    def input(self, name: str, shape: list[Any], dtype: Any = FP32) -> Tensor:
        self.types[name] = TensorType(dtype, tuple(map(Expr.of, shape)))
        return Tensor(name, self.types[name])

    def add(self, op: str, operands: list[str], shape: Any = None, /, **attrs: Any) -> str:
        """Append a value; its name. A movement or op that does not apply is left out, and its first operand stands for it."""
        stated = TensorType(attrs.pop("as_", FP32), tuple(map(Expr.of, shape))) if shape is not None else None
        schema = OPS[op].attrs or {}
        items = tuple((k, attrs[k]) for k in schema if k in attrs)
        try:
            found = infer(OPS[op], [self.types[o] for o in operands], attrs, stated)
        except Refused:
            return operands[0]
        name = f"v{len(self.values)}"
        self.types[name] = found
        self.values.append(Value(name, op, tuple(operands), items, found))
        return name

    def floats(self) -> list[str]:
        return [n for n, t in self.types.items() if t.dtype == FP32]

    def pick(self) -> str:
        known = self.floats()
        return self.draw.choice(known[-5:] if self.draw.random() < 0.7 else known)

    def step(self) -> None:
        """One op, or a few that make a contraction or a broadcast."""
        name = self.pick()
        shape = list(self.types[name].shape)
        rank = len(shape)
        axis = self.draw.randrange(rank) if rank else 0
        kind = self.draw.choice(KINDS)
        if kind == "unary":
            self.add(self.draw.choice(["RELU", "NEG", "ABS", "TANH"]), [name])
        elif kind == "binary":
            alike = [n for n in self.floats() if self.types[n] == self.types[name]]
            self.add(self.draw.choice(["ADD", "MUL", "SUB", "MAX"]), [name, self.draw.choice(alike)])
        elif kind == "expand" and rank < 4:
            at = self.draw.randint(0, rank)
            self.add("EXPAND", [self.add("RESHAPE", [name], [*shape[:at], 1, *shape[at:]])], [*shape[:at], self.dim(), *shape[at:]])
        elif kind == "contract" and rank == 2:
            self.contract(name)
        elif kind == "where":
            alike = [n for n in self.floats() if self.types[n] == self.types[name]]
            other = self.draw.choice(alike)
            self.add("WHERE", [self.add("CMPLT", [name, other]), other, name])
        elif kind == "half":
            self.add("CAST", [self.add("CAST", [name], shape, as_=DTYPES["fp16"])], shape)
        elif kind == "random":
            self.add("ADD", [name, self.add("RANDOM", [], shape, seed=self.draw.randint(0, 9), offset=self.draw.randint(0, 3))])
        elif kind == "const":
            self.add("EXPAND", [self.add("CONST", [], [], value=self.draw.choice([0.5, 2.0]))], shape)
        elif rank == 0:
            return
        elif kind == "reduce":
            axes = tuple(sorted(self.draw.sample(range(rank), self.draw.randint(1, rank))))
            self.add("REDUCE", [name], op=self.draw.choice(["SUM", "SUM", "MAX", "MIN"]), axes=axes, dtype=FP32)
        elif kind == "permute":
            self.add("PERMUTE", [name], perm=tuple(self.draw.sample(range(rank), rank)))
        elif kind == "flip":
            self.add("FLIP", [name], axes=(axis,))
        elif kind == "pad":
            ends = (Expr.of(self.draw.randint(0, 2)), Expr.of(self.draw.randint(0, 2)))
            pad = tuple(ends if a == axis else (Expr.of(0),) * 2 for a in range(rank))
            self.add("PAD", [name], pad=pad, value=self.draw.choice([0.0, 1.5, float("-inf")]))
        elif kind == "shrink" and (shape[axis].constant or 0) > 1:
            low, high = sorted(self.draw.sample(range(shape[axis].constant + 1), 2))
            ends = [(Expr.of(low), Expr.of(high)) if a == axis else (Expr.of(0), shape[a]) for a in range(rank)]
            self.add("SHRINK", [name], lo=tuple(e[0] for e in ends), hi=tuple(e[1] for e in ends), step=(self.draw.randint(1, 2),) * rank)
        elif kind == "merge" and rank > 1 and axis + 1 < rank:
            self.add("RESHAPE", [name], [*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]])
        elif kind == "iota":
            self.add("MUL", [name, self.add("IOTA", [], shape, axis=axis)])
        elif kind == "argmax":
            found = self.add("REDUCE", [name], op=self.draw.choice(["ARGMAX", "ARGMIN"]), axes=(axis,), dtype=I32)
            self.add("CAST", [found], [d for a, d in enumerate(shape) if a != axis])
        elif kind == "scatter":
            update = self.add("GATHER", [self.pick_like(name), "at"], axis=axis)
            self.add("SCATTER", [name, "at", update], axis=axis, op=self.draw.choice(["SUM", "MAX", "UPDATE"]))
        elif kind == "scan":
            flags = {k: True for k in ("reverse", "exclusive") if self.draw.random() < 0.5}
            self.add("SCAN", [name], op=self.draw.choice(["SUM", "MAX"]), axis=axis, dtype=FP32, **flags)
        elif kind == "gather":
            self.add("GATHER", [name, "at"], axis=axis)

    def pick_like(self, name: str) -> str:
        """A value of the type of `name`."""
        return self.draw.choice([n for n in self.floats() if self.types[n] == self.types[name]])

    def contract(self, name: str) -> None:
        """name @ other, as front ends write it."""
        rows, inner = self.types[name].shape
        fitting = [n for n in self.floats() if self.types[n].rank == 2 and self.types[n].shape[0] == inner]
        if not fitting:
            return
        other = self.draw.choice(fitting)
        columns = self.types[other].shape[1]
        left = self.add("EXPAND", [self.add("RESHAPE", [name], [rows, 1, inner])], [rows, columns, inner])
        turned = self.add("PERMUTE", [other], perm=(1, 0))
        right = self.add("EXPAND", [self.add("RESHAPE", [turned], [1, columns, inner])], [rows, columns, inner])
        self.add("REDUCE", [self.add("MUL", [left, right])], op="SUM", axes=(2,), dtype=FP32)


def random_graph(seed: int, most: int = 14, has_empty: bool = False) -> tuple[Module, dict[str, np.ndarray]]:
    """A module of up to `most` steps, and arrays for it; with axes of no point when `has_empty`."""
    graph = Graph(seed, has_empty)
    sizes = {**SIZES, "M": 0} if has_empty and seed % 2 else SIZES
    for _ in range(graph.draw.randint(1, most)):
        graph.step()
    if not graph.values:
        graph.add("NEG", ["x"])
    names = [v.name for v in graph.values if v.type.dtype == FP32]
    chosen = dict.fromkeys([names[-1], *(graph.draw.choice(names) for _ in range(graph.draw.randint(0, 2)))])
    outputs = tuple(Tensor(f"y.{n}", graph.types[n]) for n in chosen)
    module = Module(Model("random", tuple(graph.inputs), outputs), tuple(graph.values), tuple(Result(f"y.{n}", n) for n in chosen))
    numbers = np.random.default_rng(seed)
    arrays = {}
    for tensor in graph.inputs:
        shape = tuple(d.evaluate(sizes) for d in tensor.type.shape)
        drawn = numbers.integers(-4, 5, shape)
        arrays[tensor.name] = drawn.astype(np.int32) if tensor.type.dtype == I32 else drawn.astype(np.float32) / 2
    return module, arrays
