"""Random graphs, each step written in front-end JSON, in the graph DSL, in Core IR where that can say it, and in
NumPy."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes  # noqa: F401  (NumPy learns bf16 and fp8)
import numpy as np

from tinyir.front.shorttypes import short
from tinyir.ir.types import DTYPES

LONG = {np.dtype(getattr(ml_dtypes, d.numpy, d.numpy)): d for d in DTYPES.values()}
NUMBERS = [n for n, d in LONG.items() if d.kind != "b"]
CORE = [np.dtype(n) for n in ("float32", "float64", "int32", "int64", "float16")]
Array = np.ndarray


@dataclass
class Graph:
    """A graph in the making: what each id is, and its text in each language."""

    draw: random.Random
    is_core: bool
    arrays: dict[int, Array] = field(default_factory=dict)
    inputs: dict[str, Array] = field(default_factory=dict)
    ops: list[dict[str, Any]] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)
    instructions: list[str] = field(default_factory=list)
    count: int = 0

    # --- texts

    def type(self, array: Array) -> str:
        return f"{short(LONG[array.dtype])}[{', '.join(map(str, array.shape))}]"

    def name(self, id: int) -> str:
        return next(n for n, a in self.inputs.items() if a is self.arrays[id]) if id < len(self.inputs) else f"v{id}"

    def json(self, outputs: list[int]) -> str:
        declared = dict(self.inputs.items()) | {f"v{i}": self.arrays[i] for i in self.arrays if i >= len(self.inputs)}
        tensors = {n: {"dtype": LONG[a.dtype].name, "shape": list(a.shape)} for n, a in declared.items()}
        signature = {"inputs": [{"tensor": n} for n in self.inputs], "outputs": [{"tensor": f"v{i}"} for i in outputs]}
        return json.dumps({"signature": signature, "tensors": tensors, "graph": self.ops})

    def dsl(self, outputs: list[int]) -> str:
        params = ", ".join(f"{n}: {self.type(a)}" for n, a in self.inputs.items())
        results = ", ".join(f"v{i}: {self.type(self.arrays[i])}" for i in outputs)
        returned = ", ".join(f"v{i}" for i in outputs)
        return (
            f"graph main({params}) -> ({results}) {{\n"
            + "".join(f"  {s}\n" for s in self.statements)
            + f"  return {returned}\n}}\n"
        )

    def core(self, outputs: list[int]) -> str:
        inputs = [f'%{i} = Input() {{name="{n}"}} : {self.type(a)}' for i, (n, a) in enumerate(self.inputs.items())]
        return "\n".join([*inputs, *self.instructions, "outputs: " + ", ".join(f"%{i}" for i in outputs)]) + "\n"

    # --- steps

    def input(self, dtype: np.dtype, shape: tuple[int, ...]) -> None:
        low = 0 if LONG[dtype].kind in "ub" else -3
        numbers = np.random.default_rng(self.draw.randrange(1 << 30)).integers(
            low, 2 if LONG[dtype].kind == "b" else 4, shape
        )
        array = np.asarray(numbers).astype(dtype)
        self.arrays[self.count] = array
        self.inputs[f"x{self.count}"] = array
        self.count += 1

    def add(
        self,
        wanted: Array,
        op: str,
        operands: list[Any],
        dsl: str,
        core: str | None = None,
        /,
        *,
        fn: str = "",
        is_cast: bool = False,
        **attrs: Any,
    ) -> None:
        """One step. `dsl` and `core` have {0}, {1} for the operands; a step whose accumulator is wider than `wanted` is
        cast (`is_cast`)."""
        id = self.count
        self.count += 1
        names = [self.name(o) if type(o) is int else o[0] for o in operands]
        self.arrays[id] = np.asarray(wanted)
        self.ops.append(
            {
                "op": op,
                "name": f"v{id}",
                "inputs": names,
                "outputs": [f"v{id}"],
                "attrs": attrs,
                **({"fn": fn} if fn else {}),
            }
        )
        text = dsl.format(*names)
        self.statements.append(f"v{id} = {f'cast({text}, {short(LONG[self.arrays[id].dtype])})' if is_cast else text}")
        if self.is_core:
            self.instructions.append(
                f"%{id} = {core.format(*(f'%{o}' if type(o) is int else f'%{o[1]}' for o in operands))} : {self.type(self.arrays[id])}"  # noqa: E501
            )

    def constant(self, number: Any, dtype: np.dtype) -> tuple[Any, int]:
        """A literal operand. Core IR makes it an instruction, whose id the other languages pass over."""
        id = self.count
        self.count += 1
        if self.is_core:
            opcode = {"fp32": "ConstF32", "fp64": "ConstF64", "i64": "ConstI64"}.get(LONG[dtype].name)
            word = short(LONG[dtype])
            self.instructions.append(
                f"%{id} = {opcode}() {{value={number}}} : {word}[]"
                if opcode
                else f"%{id} = ConstTensor() {{data={number}, dtype={word}, shape=[]}} : {word}[]"
            )
        return number, id


def dims(shape: tuple[int, ...]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def wide(x: Array) -> tuple[np.dtype, bool]:
    """The dtype that sums of x accumulate in, and whether it is another than its own."""
    d = LONG[x.dtype]
    acc = (
        np.dtype(np.float32)
        if d.is_float and d.bits < 32
        else np.dtype(np.int32)
        if d.is_integer and d.bits < 32
        else x.dtype
    )
    return acc, acc != x.dtype


def step(g: Graph) -> None:
    """One op that fits, drawn at random."""
    id = g.draw.choice(list(g.arrays)[-4:])
    x = g.arrays[id]
    kinds = [*_CORE_STEPS] if g.is_core else [*_CORE_STEPS, *_STEPS]
    g.draw.choice(kinds)(g, id, x)


def reshape(g: Graph, id: int, x: Array) -> None:
    if x.size == 0:
        return
    shape, left = [], x.size
    while left > 1 and len(shape) < 4:
        size = g.draw.choice([d for d in range(1, left + 1) if left % d == 0])
        shape.append(size)
        left //= size
    shape += [left] * (left > 1)
    for _ in range(g.draw.randint(0, 2)):
        shape.insert(g.draw.randint(0, len(shape)), 1)
    g.add(
        x.reshape(shape),
        "Reshape",
        [id],
        f"reshape({{0}}, {dims(tuple(shape))})",
        f"Reshape({{0}}) {{{{new_shape={dims(tuple(shape))}}}}}",
        shape=shape,
    )


def permute(g: Graph, id: int, x: Array) -> None:
    perm = g.draw.sample(range(x.ndim), x.ndim)
    g.add(
        x.transpose(perm),
        "Transpose",
        [id],
        f"permute({{0}}, {perm})" if perm else "PERMUTE({0}, perm=[])",
        f"Transpose({{0}}) {{{{permutation={perm}}}}}",
        perm=perm,
    )


def unsqueeze(g: Graph, id: int, x: Array) -> None:
    if x.ndim < 5:
        axis = g.draw.randint(0, x.ndim)
        g.add(
            np.expand_dims(x, axis),
            "Unsqueeze",
            [id],
            f"unsqueeze({{0}}, {axis})",
            f"ExpandDims({{0}}) {{{{axes=[{axis}]}}}}",
            axes=[axis],
        )


def squeeze(g: Graph, id: int, x: Array) -> None:
    axes = [a for a, n in enumerate(x.shape) if n == 1]
    if axes:
        axis = g.draw.choice(axes)
        g.add(
            x.squeeze(axis),
            "Squeeze",
            [id],
            f"squeeze({{0}}, {axis})",
            f"Squeeze({{0}}) {{{{axes=[{axis}]}}}}",
            axes=[axis],
        )


def slice_(g: Graph, id: int, x: Array) -> None:
    starts, ends, steps = [], [], []
    for n in x.shape:
        low, high = sorted(g.draw.choices(range(n + 1), k=2))
        if g.is_core and low == high:
            low, high = 0, n
        is_back = n > 0 and high > low and g.draw.random() < 0.3
        starts.append(high - 1 if is_back else low)
        ends.append((low - 1 if low else -n - 1) if is_back else high)
        steps.append(-g.draw.randint(1, 2) if is_back else g.draw.randint(1, 3))
    taken = tuple(slice(a, None if s < 0 and b < 0 else b, s) for a, b, s in zip(starts, ends, steps))
    ranges = ", ".join(f"({a}, {b}, {s})" for a, b, s in zip(starts, ends, steps))
    core = f"Slice({{0}}) {{{{starts={starts}, ends={ends}, steps={steps}}}}}"
    g.add(
        x[taken],
        "Slice",
        [id],
        f"slice({{0}}, [{ranges}])",
        core,
        starts=starts,
        ends=ends,
        steps=steps,
        axes=list(range(x.ndim)),
    )


def neg(g: Graph, id: int, x: Array) -> None:
    if x.dtype in NUMBERS:
        g.add(-x, "Elementwise", [id], "-{0}", "Neg({0})", fn="neg")


def relu(g: Graph, id: int, x: Array) -> None:
    if x.dtype in NUMBERS:
        g.add(np.maximum(x, x.dtype.type(0)), "Elementwise", [id], "relu({0})", "Relu({0})", fn="relu")


def binary(g: Graph, id: int, x: Array) -> None:
    """Arithmetic with a value of the same dtype that broadcasts, or with a number."""
    fn, sign, word, op = g.draw.choice(
        [("add", "+", "Add", np.add), ("sub", "-", "Sub", np.subtract), ("mul", "*", "Mul", np.multiply)]
    )
    if x.dtype not in NUMBERS:
        return
    if g.draw.random() < 0.25:
        number = g.draw.randint(0, 3)
        literal = g.constant(float(number) if LONG[x.dtype].is_float else number, x.dtype)
        g.add(
            op(x, x.dtype.type(number)),
            "Elementwise",
            [id, literal],
            f"{{0}} {sign} {{1}}",
            f"BinOp({{0}}, {{1}}) {{{{op={word}}}}}",
            fn=fn,
        )
        return
    other = g.draw.choice([i for i, a in g.arrays.items() if a.dtype == x.dtype and fits(a, x)])
    shape = np.broadcast_shapes(x.shape, g.arrays[other].shape)
    sides = [
        f"{{{i}}}" if a.shape in (shape, ()) else f"expand({{{i}}}, {dims(shape)})"
        for i, a in enumerate((x, g.arrays[other]))
    ]
    if len(shape) < 6:
        g.add(
            op(x, g.arrays[other]),
            "Elementwise",
            [id, other],
            f"{sides[0]} {sign} {sides[1]}",
            f"BinOp({{0}}, {{1}}) {{{{op={word}}}}}",
            fn=fn,
        )


def fits(a: Array, b: Array) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(a.shape), reversed(b.shape)))


def total(g: Graph, id: int, x: Array) -> None:
    """A sum in the operand's dtype, which is rounded once."""
    if x.dtype not in NUMBERS or not x.ndim:
        return
    axes = sorted(g.draw.sample(range(x.ndim), g.draw.randint(1, x.ndim)))
    keeps = g.draw.random() < 0.4
    acc, is_cast = wide(x)
    wanted = x.astype(acc).sum(tuple(axes), keepdims=keeps, dtype=acc).astype(x.dtype)
    word = str(keeps).lower()
    g.add(
        wanted,
        "Reduce",
        [id],
        f"sum({{0}}, {axes}, {word})",
        f"Sum({{0}}) {{{{axes={axes}, keepdims={word}}}}}",
        is_cast=is_cast,
        op="sum",
        axes=axes,
        keepdims=keeps,
    )


def matmul(g: Graph, id: int, x: Array) -> None:
    others = [
        i
        for i, a in g.arrays.items()
        if a.dtype == x.dtype and a.ndim >= 2 and x.ndim >= 2 and a.shape[-2] == x.shape[-1]
    ]
    others = [
        i
        for i in others
        if fits(
            g.arrays[i][..., 0, 0] if g.arrays[i].size else np.empty(g.arrays[i].shape[:-2]), np.empty(x.shape[:-2])
        )
    ]
    if not others or x.dtype not in NUMBERS or x.ndim > 4:
        return
    other = g.draw.choice(others)
    acc, is_cast = wide(x)
    wanted = (x.astype(acc) @ g.arrays[other].astype(acc)).astype(x.dtype)
    g.add(wanted, "MatMul", [id, other], "matmul({0}, {1})", "MatMul({0}, {1})", is_cast=is_cast)


# --- what Core IR cannot say


def expand(g: Graph, id: int, x: Array) -> None:
    shape = [g.draw.choice([0, 1, 2, 3]) if n == 1 and g.draw.random() < 0.7 else n for n in x.shape]
    shape = [g.draw.choice([1, 2])] * (len(shape) < 4 and g.draw.random() < 0.5) + shape
    g.add(np.broadcast_to(x, shape), "Expand", [id], f"expand({{0}}, {dims(tuple(shape))})", shape=shape)


def pad(g: Graph, id: int, x: Array) -> None:
    pairs = [(g.draw.choice([0, 0, 1, 2]), g.draw.choice([0, 0, 1, 2])) for _ in x.shape]
    value = g.draw.randint(0, 1)
    shown = value if not LONG[x.dtype].is_float else float(value)
    shown = bool(value) if LONG[x.dtype].kind == "b" else shown
    text = str(shown).lower() if isinstance(shown, bool) else shown
    wanted = np.full([a + n + b for (a, b), n in zip(pairs, x.shape)], shown, x.dtype)
    wanted[tuple(slice(a, a + n) for (a, _), n in zip(pairs, x.shape))] = x
    if sum(wanted.shape) < 40:
        g.add(
            wanted,
            "Pad",
            [id],
            f"pad({{0}}, [{', '.join(map(str, pairs))}], {text})",
            pads=[a for a, _ in pairs] + [b for _, b in pairs],
            value=shown,
        )


def flip(g: Graph, id: int, x: Array) -> None:
    if x.ndim:
        axes = g.draw.sample(range(x.ndim), g.draw.randint(1, x.ndim))
        g.add(np.flip(x, axes), "Flip", [id], f"flip({{0}}, {axes})", axes=axes)


def concat(g: Graph, id: int, x: Array) -> None:
    others = [i for i, a in g.arrays.items() if a.dtype == x.dtype and a.ndim == x.ndim]
    if not x.ndim:
        return
    axis = g.draw.randrange(x.ndim)
    others = [i for i in others if all(m == n for a, (m, n) in enumerate(zip(g.arrays[i].shape, x.shape)) if a != axis)]
    other = g.draw.choice(others)
    if x.shape[axis] + g.arrays[other].shape[axis] < 12:
        g.add(
            np.concatenate([x, g.arrays[other]], axis),
            "Concat",
            [id, other],
            f"concat([{{0}}, {{1}}], {axis})",
            axis=axis,
        )


def fold(g: Graph, id: int, x: Array) -> None:
    axes = [a for a in range(x.ndim) if x.shape[a]]
    if axes:
        axes = sorted(g.draw.sample(axes, g.draw.randint(1, len(axes))))
        op = g.draw.choice(["any", "all"] if LONG[x.dtype].kind == "b" else ["max", "min"])
        g.add(getattr(np, op)(x, tuple(axes)), "Reduce", [id], f"reduce_{op}({{0}}, {axes})", op=op, axes=axes)


def argmax(g: Graph, id: int, x: Array) -> None:
    axes = [a for a in range(x.ndim) if x.shape[a]]
    if axes and x.dtype in NUMBERS:
        axis = g.draw.choice(axes)
        wide = x.astype(np.float64) if LONG[x.dtype].is_float else x
        g.add(wide.argmax(axis), "Reduce", [id], f"argmax({{0}}, {axis})", op="argmax", axes=[axis])


def scan(g: Graph, id: int, x: Array) -> None:
    if x.ndim and x.dtype in NUMBERS:
        axis = g.draw.randrange(x.ndim)
        acc, is_cast = wide(x)
        g.add(
            x.astype(acc).cumsum(axis, dtype=acc).astype(x.dtype),
            "CumSum",
            [id],
            f"cumsum({{0}}, {axis})",
            is_cast=is_cast,
            axis=axis,
        )


def cast(g: Graph, id: int, x: Array) -> None:
    dtype = g.draw.choice(list(LONG))
    if LONG[x.dtype].is_float and LONG[dtype].is_integer:
        return  # NumPy leaves open what a number out of range becomes
    if dtype.kind != x.dtype.kind or dtype != x.dtype:
        g.add(x.astype(dtype), "Cast", [id], f"cast({{0}}, {short(LONG[dtype])})", to=LONG[dtype].name)


def compare(g: Graph, id: int, x: Array) -> None:
    other = g.draw.choice([i for i, a in g.arrays.items() if a.dtype == x.dtype and a.shape == x.shape])
    fn, sign, op = g.draw.choice(
        [
            ("less", "<", np.less),
            ("equal", "==", np.equal),
            ("not_equal", "!=", np.not_equal),
            ("greater_equal", ">=", np.greater_equal),
        ]
    )
    g.add(op(x, g.arrays[other]), "Elementwise", [id, other], f"{{0}} {sign} {{1}}", fn=fn)


def choose(g: Graph, id: int, x: Array) -> None:
    conditions = [i for i, a in g.arrays.items() if LONG[a.dtype].kind == "b" and a.shape == x.shape]
    if conditions:
        other = g.draw.choice([i for i, a in g.arrays.items() if a.dtype == x.dtype and a.shape == x.shape])
        condition = g.draw.choice(conditions)
        g.add(
            np.where(g.arrays[condition], x, g.arrays[other]), "Where", [condition, id, other], "where({0}, {1}, {2})"
        )


def logic(g: Graph, id: int, x: Array) -> None:
    if not LONG[x.dtype].is_float:
        other = g.draw.choice([i for i, a in g.arrays.items() if a.dtype == x.dtype and a.shape == x.shape])
        fn, sign, op = g.draw.choice(
            [("and", "&", np.bitwise_and), ("or", "|", np.bitwise_or), ("xor", "^", np.bitwise_xor)]
        )
        g.add(op(x, g.arrays[other]), "Elementwise", [id, other], f"{{0}} {sign} {{1}}", fn=fn)


_MOVES: list[Callable[[Graph, int, Array], None]] = [reshape, permute, unsqueeze, squeeze, slice_]
_CORE_STEPS = [*_MOVES, neg, relu, binary, binary, total, matmul]
_STEPS = [expand, pad, flip, concat, fold, argmax, scan, cast, compare, choose, logic]


def random_graph(draw: random.Random, is_core: bool, is_chain: bool) -> tuple[Graph, list[int]]:
    """A graph of up to 12 steps, or one chain of up to 20 movements, and the ids of its outputs."""
    g = Graph(draw, is_core)
    dtypes = CORE if is_core else list(LONG)
    common = draw.choice(dtypes)
    for _ in range(1 if is_chain else draw.randint(1, 3)):
        shape = tuple(draw.choice([1, 2, 3, 4] if is_core else [0, 1, 1, 2, 3, 4]) for _ in range(draw.randint(0, 4)))
        g.input(common if draw.random() < 0.8 else draw.choice(dtypes), shape)
    moves = _MOVES if is_core else [*_MOVES, expand, pad, flip]
    with np.errstate(all="ignore"):
        for _ in range(draw.randint(1, 20 if is_chain else 12)):
            if is_chain:
                last = list(g.arrays)[-1]
                draw.choice(moves)(g, last, g.arrays[last])
            else:
                step(g)
    if not g.ops:
        relu(g, 0, g.arrays[0]) if g.arrays[0].dtype in NUMBERS else permute(g, 0, g.arrays[0])
    made = [i for i in g.arrays if i >= len(g.inputs)]
    return g, sorted({made[-1], draw.choice(made)})
