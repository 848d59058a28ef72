"""Random tiny graphs for the tests of regions: arithmetic, folds, contractions, movements, places chosen at run time,
several outputs."""

from __future__ import annotations

import random
from collections.abc import Sequence
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


# what real models are made of
OF_MODELS = "concat group recur softmax attend deep split table flatten fold_window cumulate broadcast".split()


class Graph:
    """A tiny module in the making; operands are drawn from what is there. `prefix` begins every name but those of
    symbols."""

    def __init__(self, seed: int, has_empty: bool = False, is_wide: bool = False, prefix: str = ""):
        self.draw = random.Random(seed)
        self.has_empty = has_empty
        self.prefix = prefix
        self.kinds = [*KINDS, *OF_MODELS] if is_wide else KINDS
        self.symbolic = self.draw.random() < 0.5
        self.types: dict[str, TensorType] = {}
        self.values: list[Value] = []
        self.inputs = [
            self.input("x", [self.dim(), self.dim()]),
            self.input("m", ["M", "N"] if self.symbolic else [3, 4]),
        ]
        self.inputs.append(self.input("at", [self.draw.choice([2, 3])], I32))
        if is_wide:
            self.inputs += [
                self.input("r", ["N", "N"] if self.symbolic else [4, 4]),
                self.input("big", [self.draw.choice([6, 12]), 8]),
            ]

    def dim(self) -> Any:
        return self.draw.choice(
            ["M", "N", 0 if self.has_empty else 1, 2, 4] if self.symbolic else [0 if self.has_empty else 1, 2, 3, 4, 5]
        )

    def input(self, name: str, shape: list[Any], dtype: Any = FP32) -> Tensor:
        name = self.prefix + name
        self.types[name] = TensorType(dtype, tuple(map(Expr.of, shape)))
        return Tensor(name, self.types[name])

    def add(self, op: str, operands: list[str], shape: Any = None, /, **attrs: Any) -> str:
        """Append a value; its name. A movement or op that does not apply is left out, and its first operand replaces
        it."""
        stated = TensorType(attrs.pop("as_", FP32), tuple(map(Expr.of, shape))) if shape is not None else None
        schema = OPS[op].attrs or {}
        items = tuple((k, attrs[k]) for k in schema if k in attrs)
        try:
            found = infer(OPS[op], [self.types[o] for o in operands], attrs, stated)
        except Refused:
            return operands[0]
        name = f"{self.prefix}v{len(self.values)}"
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
        kind = self.draw.choice(self.kinds)
        if kind == "unary":
            self.add(self.draw.choice(["RELU", "NEG", "ABS", "TANH"]), [name])
        elif kind == "binary":
            alike = [n for n in self.floats() if self.types[n] == self.types[name]]
            self.add(self.draw.choice(["ADD", "MUL", "SUB", "MAX"]), [name, self.draw.choice(alike)])
        elif kind == "expand" and rank < 4:
            at = self.draw.randint(0, rank)
            self.add(
                "EXPAND",
                [self.add("RESHAPE", [name], [*shape[:at], 1, *shape[at:]])],
                [*shape[:at], self.dim(), *shape[at:]],
            )
        elif kind == "contract" and rank == 2:
            self.contract(name)
        elif kind == "where":
            alike = [n for n in self.floats() if self.types[n] == self.types[name]]
            other = self.draw.choice(alike)
            self.add("WHERE", [self.add("CMPLT", [name, other]), other, name])
        elif kind == "half":
            self.add("CAST", [self.add("CAST", [name], shape, as_=DTYPES["fp16"])], shape)
        elif kind == "random":
            self.add(
                "ADD",
                [name, self.add("RANDOM", [], shape, seed=self.draw.randint(0, 9), offset=self.draw.randint(0, 3))],
            )
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
            self.add(
                "SHRINK",
                [name],
                lo=tuple(e[0] for e in ends),
                hi=tuple(e[1] for e in ends),
                step=(self.draw.randint(1, 2),) * rank,
            )
        elif kind == "merge" and rank > 1 and axis + 1 < rank:
            self.add("RESHAPE", [name], [*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]])
        elif kind == "iota":
            self.add("MUL", [name, self.add("IOTA", [], shape, axis=axis)])
        elif kind == "argmax":
            found = self.add("REDUCE", [name], op=self.draw.choice(["ARGMAX", "ARGMIN"]), axes=(axis,), dtype=I32)
            self.add("CAST", [found], [d for a, d in enumerate(shape) if a != axis])
        elif kind == "scatter":
            update = self.add("GATHER", [self.pick_like(name), self.prefix + "at"], axis=axis)
            self.add(
                "SCATTER", [name, self.prefix + "at", update], axis=axis, op=self.draw.choice(["SUM", "MAX", "UPDATE"])
            )
        elif kind == "scan":
            flags = {k: True for k in ("reverse", "exclusive") if self.draw.random() < 0.5}
            self.add("SCAN", [name], op=self.draw.choice(["SUM", "MAX"]), axis=axis, dtype=FP32, **flags)
        elif kind == "gather":
            self.add("GATHER", [name, self.prefix + "at"], axis=axis)
        elif kind in OF_MODELS:
            getattr(self, kind)(name, axis)

    # --- what real models are made of

    def concat(self, name: str, axis: int) -> None:
        """Two values of one type side by side."""
        other, shape = self.pick_like(name), list(self.types[name].shape)
        size = shape[axis]
        padded = [
            self.add(
                "PAD", [each], pad=tuple(ends if a == axis else (Expr.of(0),) * 2 for a in range(len(shape))), value=0.0
            )
            for each, ends in ((name, (Expr.of(0), size)), (other, (size, Expr.of(0))))
        ]
        whole = [2 * d if a == axis else d for a, d in enumerate(shape)]
        bound = self.add(
            "EXPAND",
            [self.add("RESHAPE", [self.add("CONST", [], [], value=size, as_=I32)], [1] * len(shape), as_=I32)],
            whole,
            as_=I32,
        )
        self.add("WHERE", [self.add("CMPLT", [self.add("IOTA", [], whole, axis=axis, as_=I32), bound]), *padded])

    def split(self, name: str, axis: int, parts: int = 2) -> str:
        """An axis of a number of parts as two, and sometimes its half."""
        shape = list(self.types[name].shape)
        size = shape[axis].constant or 0
        if len(shape) > 6 or size < parts or size % parts:
            return name
        made = self.add("RESHAPE", [name], [*shape[:axis], parts, size // parts, *shape[axis + 1 :]])
        if self.draw.random() < 0.3:
            rank = len(shape) + 1
            ends = [
                (Expr.of(1), Expr.of(2)) if a == axis else (Expr.of(0), d) for a, d in enumerate(self.types[made].shape)
            ]
            self.add("SHRINK", [made], lo=tuple(e[0] for e in ends), hi=tuple(e[1] for e in ends), step=(1,) * rank)
        return made

    def group(self, name: str, axis: int) -> None:
        """A normalisation over groups of an axis."""
        made = self.split(name, axis)
        if made == name or len(self.types[made].shape) != len(self.types[name].shape) + 1:
            return
        mean = self.over(made, "SUM", tuple(range(axis + 1, len(self.types[made].shape))))
        self.add("RESHAPE", [self.add("SUB", [made, mean])], list(self.types[name].shape))

    def over(self, name: str, op: str, axes: tuple[int, ...]) -> str:
        """A fold along axes, expanded to the operand's shape."""
        shape = list(self.types[name].shape)
        kept = self.add(
            "RESHAPE",
            [self.add("REDUCE", [name], op=op, axes=axes, dtype=FP32)],
            [1 if a in axes else d for a, d in enumerate(shape)],
        )
        return self.add("EXPAND", [kept], shape)

    def softmax(self, name: str, axis: int) -> str:
        """exp2(x - max)/sum, with or without the maximum."""
        if self.draw.random() < 0.7:
            name = self.add("SUB", [name, self.over(name, "MAX", (axis,))])
        weight = self.add("EXP2", [self.add("TANH", [name])])
        return self.add("FDIV", [weight, self.over(weight, "SUM", (axis,))])

    def attend(self, name: str, axis: int) -> None:
        """softmax(x @ r) @ r."""
        shape = self.types[name].shape
        if len(shape) == 2 and shape[1] == self.types[self.prefix + "r"].shape[0]:
            scores = self.product(name, self.prefix + "r")
            self.product(self.softmax(scores, 1), self.prefix + "r")

    def recur(self, name: str, axis: int) -> None:
        """A few steps of h = tanh(h @ r + x)."""
        shape = self.types[name].shape
        if len(shape) == 2 and shape[1] == self.types[self.prefix + "r"].shape[0]:
            state = name
            for _ in range(self.draw.randint(2, 3)):
                state = self.add("TANH", [self.add("ADD", [self.product(state, self.prefix + "r"), name])])

    def deep(self, name: str, axis: int) -> None:
        """More axes of one, or of two, up to eight."""
        shape = list(self.types[name].shape)
        while len(shape) < 8 and self.draw.random() < 0.8:
            shape.insert(self.draw.randint(0, len(shape)), Expr.of(1))
        made = self.add("RESHAPE", [name], shape)
        if self.draw.random() < 0.5:
            at = self.draw.randrange(len(shape))
            self.add("EXPAND", [made], [Expr.of(2) if a == at and d == 1 else d for a, d in enumerate(shape)])

    def table(self, name: str, axis: int) -> None:
        """A row of a table, at places that are computed, some of them outside; no two libraries' TANH or EXP2 land on
        two sides of such a place."""
        shape = list(self.types[name].shape)
        scale, past = (self.add("EXPAND", [self.add("CONST", [], [], value=value)], shape) for value in (2.0, 0.3183))
        places = self.add("CAST", [self.add("ADD", [self.add("MUL", [name, scale]), past])], shape, as_=I32)
        if len(shape) <= 2:
            self.add("GATHER", [self.prefix + "big", places], axis=0)

    def flatten(self, name: str, axis: int) -> None:
        """All axes as one, and padded."""
        total = Expr.of(1)
        for d in self.types[name].shape:
            total = total * d
        flat = self.add("RESHAPE", [name], [total])
        self.add("PAD", [flat], pad=((Expr.of(0), Expr.of(self.draw.randint(0, 3))),), value=0.0)

    def fold_window(self, name: str, axis: int) -> None:
        """A sum of neighbours."""
        shape = list(self.types[name].shape)
        if (shape[axis].constant or 0) >= 3 and len(shape) < 6:
            size = shape[axis].constant - 2
            views = [
                self.add(
                    "SHRINK",
                    [name],
                    lo=tuple(Expr.of(k if a == axis else 0) for a in range(len(shape))),
                    hi=tuple(Expr.of(k + size) if a == axis else d for a, d in enumerate(shape)),
                    step=(1,) * len(shape),
                )
                for k in range(3)
            ]
            self.add("MAX", [self.add("ADD", views[:2]), views[2]])

    def cumulate(self, name: str, axis: int) -> None:
        """A scan of a scan, or of a fold."""
        first = self.add("SCAN", [name], op="SUM", axis=axis, dtype=FP32)
        self.add(
            "SCAN",
            [self.add("SUB", [first, self.over(name, "MAX", (axis,))])],
            op="MAX",
            axis=self.draw.randrange(len(self.types[name].shape)),
            dtype=FP32,
        )

    def broadcast(self, name: str, axis: int) -> None:
        """Two values of one axis each, met along both."""
        line = self.add(
            "REDUCE",
            [name],
            op="SUM",
            axes=tuple(a for a in range(len(self.types[name].shape)) if a != axis),
            dtype=FP32,
        )
        (size,) = self.types[line].shape or (None,)
        if size is not None:
            down, across = self.add("RESHAPE", [line], [size, 1]), self.add("RESHAPE", [line], [1, size])
            self.add("SUB", [self.add("EXPAND", [down], [size, size]), self.add("EXPAND", [across], [size, size])])

    def pick_like(self, name: str) -> str:
        """A value of the type of `name`."""
        return self.draw.choice([n for n in self.floats() if self.types[n] == self.types[name]])

    def contract(self, name: str) -> None:
        """name @ other, as front ends write it."""
        rows, inner = self.types[name].shape
        fitting = [n for n in self.floats() if self.types[n].rank == 2 and self.types[n].shape[0] == inner]
        if not fitting:
            return
        self.product(name, self.draw.choice(fitting))

    def product(self, name: str, other: str) -> str:
        """name @ other."""
        rows, inner = self.types[name].shape
        columns = self.types[other].shape[1]
        left = self.add("EXPAND", [self.add("RESHAPE", [name], [rows, 1, inner])], [rows, columns, inner])
        turned = self.add("PERMUTE", [other], perm=(1, 0))
        right = self.add("EXPAND", [self.add("RESHAPE", [turned], [1, columns, inner])], [rows, columns, inner])
        return self.add("REDUCE", [self.add("MUL", [left, right])], op="SUM", axes=(2,), dtype=FP32)


def random_graph(
    seed: int, most: int = 14, has_empty: bool = False, is_wide: bool = False, prefix: str = ""
) -> tuple[Module, dict[str, np.ndarray]]:
    """A module of up to `most` steps, and arrays for it; with axes of no point when `has_empty`, of all that real
    models are made of when `is_wide`."""
    graph = Graph(seed, has_empty, is_wide, prefix)
    sizes = {**SIZES, "M": 0} if has_empty and seed % 2 else SIZES
    for _ in range(graph.draw.randint(1, most)):
        graph.step()
    if not graph.values:
        graph.add("NEG", [f"{prefix}x"])
    names = [v.name for v in graph.values if v.type.dtype == FP32]
    chosen = dict.fromkeys([names[-1], *(graph.draw.choice(names) for _ in range(graph.draw.randint(0, 2)))])
    outputs = tuple(Tensor(f"y.{n}", graph.types[n]) for n in chosen)
    module = Module(
        Model("random", tuple(graph.inputs), outputs), tuple(graph.values), tuple(Result(f"y.{n}", n) for n in chosen)
    )
    numbers = np.random.default_rng(seed)
    arrays = {}
    for tensor in graph.inputs:
        shape = tuple(d.evaluate(sizes) for d in tensor.type.shape)
        drawn = numbers.integers(-4, 5, shape)
        arrays[tensor.name] = drawn.astype(np.int32) if tensor.type.dtype == I32 else drawn.astype(np.float32) / 2
    return module, arrays


def random_graphs(seeds: Sequence[int]) -> tuple[Module, dict[str, np.ndarray]]:
    """Several graphs that share nothing but their symbols as one module, so that one compiled text runs them all; the
    names of each begin with its seed. Every fifth has axes of no point, but symbols are never 0."""
    found = [random_graph(2 * seed, has_empty=seed % 5 == 0, is_wide=True, prefix=f"s{seed}.") for seed in seeds]
    modules = [module for module, _ in found]
    model = Model(
        "random", tuple(t for m in modules for t in m.model.inputs), tuple(t for m in modules for t in m.model.outputs)
    )
    values, results = (tuple(item for m in modules for item in getattr(m, field)) for field in ("values", "results"))
    return Module(model, values, results), {name: array for _, arrays in found for name, array in arrays.items()}
