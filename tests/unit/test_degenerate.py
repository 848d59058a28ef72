"""Every op of the front ends at sizes 0 and 1, at rank 0, with nothing to read and nothing to write: each stage's text
is checked, its maps are validated, and the players of tiny, index and region agree with one another and with NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinyir.cmd import tiny_check
from tinyir.front.builder import Builder, Place
from tinyir.front.jsonsignature import default_shapes
from tinyir.front.ops import ELEMENTWISE, FRONT_OPS
from tinyir.front.ops.table import check_attrs
from tinyir.ir import tiny
from tinyir.ir.expr import Expr
from tinyir.ir.model import Model, Origin, Tensor
from tinyir.ir.types import DTYPES, TensorType
from tinyir.lower import language_of, lower_to
from tinyir.play.tiny import play

from .stages import Stages, needs_host_compiler

INF, NAN = np.inf, np.nan
N = (0, 1, 2)  # the sizes that the symbol n takes


@dataclass(frozen=True)
class Row:
    """One use of an op: the shapes of its operands, in which "n" is a symbol, and what it gives in NumPy (None: what
    tiny text gives)."""

    op: str
    shapes: tuple[tuple[Any, ...], ...]
    gives: Callable[..., Any] | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ()

    @property
    def tolerance(self) -> float:
        """0: the players agree to the bit; but where quotients are summed, by matrix products or one after the other,
        they round otherwise."""
        return (
            1e-6
            if self.op in ("LayerNorm", "InstanceNorm", "GroupNorm", "Attention")
            or self.attrs.get("op") in ("var", "std")
            else 0
        )

    @property
    def name(self) -> str:
        """For the test's id."""
        words = [f"{k}={v}" for k, v in self.attrs.items()]
        return "-".join([self.op, *("x".join(map(str, s)) or "scalar" for s in self.shapes), *words]).replace(" ", "")

    def dtype(self, position: int) -> str:
        """Of one operand."""
        return self.dtypes[position] if position < len(self.dtypes) else "fp32"

    def arrays(self, n: int) -> list[np.ndarray]:
        """Small whole numbers, so that sums are exact; an index is one of the axis that it counts along."""
        found = []
        for position, shape in enumerate(self.shapes):
            sizes = tuple(n if s == "n" else s for s in shape)
            numbers = np.arange(math.prod(sizes)).reshape(sizes)
            name = DTYPES[self.dtype(position)].numpy
            found.append((numbers % 2 if self.dtype(position) != "fp32" else numbers * 5 % 7 - 2).astype(name))
        return found


def module_of(*rows: Row) -> tiny.Module:
    """The program of some rows: the inputs of the first are x0_0, x0_1, ..., its outputs y0_0, ..."""
    b = Builder()
    inputs: list[Tensor] = []
    results: list[tuple[str, Any]] = []
    for number, row in enumerate(rows):
        tensors = [
            Tensor(f"x{number}_{i}", TensorType(DTYPES[row.dtype(i)], tuple(map(Expr.of, s))))
            for i, s in enumerate(row.shapes)
        ]
        refs = tuple(b.input(t) for t in tensors)
        front = FRONT_OPS.get(row.op) or ELEMENTWISE[row.op]
        attrs, faults = check_attrs(front, row.attrs, "op")
        assert faults == []
        b.open(Origin(f"op{number}", row.op))
        found = front.lower(b, refs, attrs)
        found = found if isinstance(found, tuple) else (found,)
        names = [f"y{number}_{i}" for i in range(len(found))]
        results += zip(names, b.close(found, names, [None] * len(found), [Place()] * len(found)))
        inputs += tensors
    outputs = tuple(Tensor(name, ref.type) for name, ref in results)
    symbols = dict.fromkeys(n for t in (*inputs, *outputs) for d in t.type.shape for n in d.names())
    return b.finish(Model("m", tuple(inputs), outputs, (), default_shapes(symbols, ())), results)


def arrays_of(rows: Sequence[Row], n: int) -> dict[str, np.ndarray]:
    """The inputs of a program of some rows, by name."""
    return {f"x{number}_{i}": a for number, row in enumerate(rows) for i, a in enumerate(row.arrays(n))}


X0, XN, XM, NX, SCALAR = (0,), ("n",), ("n", 3), (3, "n"), ()


def rows(
    op: str,
    shapes: list[tuple[Any, ...]],
    gives: Callable[..., Any] | None = None,
    dtypes: tuple[str, ...] = (),
    /,
    **attrs: Any,
) -> list[Row]:
    """An op of one operand at several shapes."""
    return [Row(op, (shape,), gives, attrs, dtypes) for shape in shapes]


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """As NumPy has it, an empty axis included."""
    raised = np.exp(x - x.max(axis, keepdims=True, initial=-INF))
    return raised / raised.sum(axis, keepdims=True)


def normalized(x: np.ndarray) -> np.ndarray:
    """Each row less its mean, by its deviation."""
    with np.errstate(all="ignore"):
        mean = x.sum(-1, keepdims=True) / x.shape[-1] if x.shape[-1] else np.full((*x.shape[:-1], 1), NAN)
        square = ((x - mean) ** 2).sum(-1, keepdims=True) / max(x.shape[-1], 1)
        return (x - mean) / np.sqrt(square + 1e-5)


def quotient(total: np.ndarray, count: int) -> np.ndarray:
    """A mean of nothing is NaN."""
    with np.errstate(all="ignore"):
        return np.asarray(total) / np.float32(count)


def scattered(op: str) -> Callable[..., np.ndarray]:
    """ScatterElements along the first axis."""
    put = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}.get(op)

    def gives(x: np.ndarray, index: np.ndarray, update: np.ndarray) -> np.ndarray:
        found = x.copy()
        for place in np.ndindex(index.shape):
            at = (index[place], *place[1:])
            found[at] = update[place] if put is None else put(found[at], update[place])
        return found

    return gives


def scattered_rows(op: str) -> Callable[..., np.ndarray]:
    """ScatterND of whole rows."""
    put = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}.get(op)

    def gives(x: np.ndarray, index: np.ndarray, update: np.ndarray) -> np.ndarray:
        found = x.copy()
        for at, row in zip(index[:, 0], update):
            found[at] = row if put is None else put(found[at], row)
        return found

    return gives


I64 = ("fp32", "i64", "fp32")
TABLE = [
    # folds: over nothing they give the neutral element
    *(
        row
        for shape, axes in (
            (XN, [0]),
            (XM, [0]),
            (NX, [1]),
            (("n", 0), [1]),
            ((0, "n"), [0, 1]),
            (XM, [0, 1]),
            (XM, []),
        )
        for row in (
            *rows("Reduce", [shape], lambda x, a=tuple(axes): x.sum(a), op="sum", axes=axes),
            *rows("Reduce", [shape], lambda x, a=tuple(axes): x.prod(a), op="prod", axes=axes),
            *rows("Reduce", [shape], lambda x, a=tuple(axes): x.max(a, initial=-INF), op="max", axes=axes),
            *rows("Reduce", [shape], lambda x, a=tuple(axes): x.min(a, initial=INF), op="min", axes=axes),
        )
        if axes
    ),
    *rows("Reduce", [SCALAR], lambda x: x, op="sum"),
    *rows("Reduce", [SCALAR], lambda x: x, op="max", axes=[]),
    *rows("Reduce", [XN, XM], lambda x: quotient(x.sum(), x.size), op="mean"),
    *rows("Reduce", [SCALAR], lambda x: x, op="mean"),
    *rows("Reduce", [XN, NX], None, op="var"),
    *rows("Reduce", [XN, XM], None, op="std"),
    *rows("Reduce", [XN], None, op="log_sum_exp"),
    *rows("Reduce", [XN], None, op="log_sum"),
    *rows("Reduce", [XN, XM], lambda x: np.abs(x).sum(), op="l1"),
    *rows("Reduce", [XN], lambda x: np.sqrt((x * x).sum()), op="l2"),
    *rows("Reduce", [XN], lambda x: (x * x).sum(), op="sum_square"),
    *rows("Reduce", [XN], lambda x: np.int64(x.argmax() if x.size else 0), op="argmax", axes=[0]),
    *rows("Reduce", [NX], lambda x: x.argmin(1) if x.size else np.zeros(3, np.int64), op="argmin", axes=[1]),
    *rows("Reduce", [XN, XM], lambda x: x.any(), ("bool",), op="any"),
    *rows("Reduce", [XN, XM], lambda x: x.all(), ("bool",), op="all"),
    *rows("Reduce", [XN], lambda x: x.max(initial=-(2**31)), ("i32",), op="max"),
    *rows("Reduce", [XN], lambda x: x.min(initial=255), ("u8",), op="min"),
    *rows("CumSum", [XN, XM], lambda x: x.cumsum(0), axis=0),
    *rows("CumSum", [NX], lambda x: x.cumsum(1), axis=1),
    *rows("CumProd", [XN], lambda x: x.cumprod(0), axis=0),
    *rows("CumMax", [XN, XM], lambda x: np.maximum.accumulate(x, 0), axis=0),
    *rows("CumMin", [XN], lambda x: np.minimum.accumulate(x, 0), axis=0),
    *rows("CumSum", [XN], lambda x: x.cumsum(0) - x, axis=0, exclusive=True),
    *rows("CumSum", [XN], lambda x: x[::-1].cumsum(0)[::-1], axis=0, reverse=True),
    # normalisations
    *rows("Softmax", [XN, NX, XM, ("n", 0), (0, "n")], lambda x: softmax(x, -1)),
    *rows("Softmax", [XM], lambda x: softmax(x, 0), axis=0),
    *rows("LogSoftmax", [XN, XM], lambda x: np.log(softmax(x, -1))),
    *rows("LayerNorm", [XM, NX, ("n", 0), (0, "n")], normalized),
    *rows(
        "RMSNorm",
        [XM, (0, "n")],
        lambda x: x / np.sqrt((x * x).sum(-1, keepdims=True) / max(x.shape[-1], 1) + 1e-5) if x.shape[-1] else x,
    ),
    *rows("LpNorm", [XM, NX], None, axis=-1),
    *rows("GroupNorm", [("n", 4, 2), (2, 4, "n"), ("n", 4, 0)], None, groups=2),
    *rows("InstanceNorm", [("n", 2, 3), (2, 0, 3)], None),
    Row("BatchNorm", (("n", 2, 3), (2,), (2,), (2,), (2,)), None),
    Row("BatchNorm", ((2, 0, "n"), X0, X0, X0, X0), None),
    # products
    *(
        Row("MatMul", pair, lambda x, y: x @ y)
        for pair in (
            (XM, NX),
            (NX, XM),
            ((2, 0), (0, 3)),
            (XN, XN),
            (("n", 2, 3), (3, 0)),
            ((0, 2, "n"), ("n", 2)),
            ((1, "n"), ("n", 1)),
        )
    ),
    Row("GEMM", (XM, NX), lambda x, y: x @ y),
    Row("GEMM", (NX, ("n", 2), (2,)), lambda x, y, c: x @ y + c),
    Row("GEMM", ((2, 0), (0, 3), (3,)), lambda x, y, c: np.broadcast_to(c, (2, 3))),
    Row("Einsum", (XN, XN), lambda x, y: x @ y, {"equation": "i,i->"}),
    Row("Einsum", (XN, X0), lambda x, y: np.outer(x, y), {"equation": "i,j->ij"}),
    Row("Einsum", (("n", "n"),), lambda x: np.trace(x), {"equation": "ii->"}),
    Row("Attention", ((2, 1, "n", 4), (2, 1, 3, 4), (2, 1, 3, 4))),
    Row("Attention", ((2, 1, 3, 4), (2, 1, "n", 4), (2, 1, "n", 4))),
    Row("Attention", (("n", 1, 3, 4), ("n", 1, 2, 4), ("n", 1, 2, 0))),
    Row("Conv", (("n", 2, 3), (4, 2, 3)), lambda x, w: np.einsum("ncl,ocl->no", x, w)[..., None]),
    Row("Conv", ((2, 0, 3), (4, 0, 2)), lambda x, w: np.zeros((2, 4, 2))),
    Row("Conv", ((2, 2, 3), (0, 2, 2)), lambda x, w: np.zeros((2, 0, 2))),
    Row("ConvTranspose", (("n", 2, 1), (2, 1, 1)), lambda x, w: np.einsum("ncl,cok->nol", x, w)),
    Row("ConvTranspose", ((0, 2, 3), (2, 1, 2)), lambda x, w: np.zeros((0, 1, 4))),
    *rows(
        "Pool",
        [("n", 2, 4), (2, 0, 4)],
        lambda x: x.reshape(*x.shape[:2], 2, 2).max(-1),
        kernel=[2],
        stride=[2],
        mode="max",
    ),
    *rows(
        "Pool", [("n", 2, 4)], lambda x: x.reshape(*x.shape[:2], 2, 2).mean(-1), kernel=[2], stride=[2], mode="average"
    ),
    *rows("Pool", [(2, 1, "n")], lambda x: x.max(-1, keepdims=True, initial=-INF), mode="max"),
    *rows("Unfold", [("n", 2, 3), (0, 2, 3)], None, kernel=[2]),
    # indexing
    *(
        Row("Gather", ((3, 2), shape), lambda x, i: x[i], {}, ("fp32", "i64"))
        for shape in (XN, SCALAR, ("n", 0), (1, 1))
    ),
    Row("Gather", ((0, 2), XN), None, {}, ("fp32", "i64")),
    Row("Gather", ((2, 0), XN), lambda x, i: x[i], {}, ("fp32", "i64")),
    Row("Embedding", ((3, "n"), (2,)), lambda x, i: x[i], {}, ("fp32", "i64")),
    Row("GatherElements", ((2,), XN), lambda x, i: x[i], {}, ("fp32", "i64")),
    Row("GatherND", ((2, 3), ("n", 1)), lambda x, i: x[i[:, 0]], {}, ("fp32", "i64")),
    Row("GatherND", ((2, 3), ("n", 2)), lambda x, i: x[i[:, 0], i[:, 1]], {}, ("fp32", "i64")),
    *(
        Row("Scatter", (base, index, index), scattered(op), {"reduction": op}, I64)
        for op in ("none", "add", "mul", "max", "min")
        for base, index in (((2,), XN), ((2, 0), (2, 0)), ((2, 3), (0, 3)), ((2, 2, 2), (1, 2, 2)))
    ),
    *(
        Row("ScatterND", ((2, 3), ("n", 1), ("n", 3)), scattered_rows(op), {"reduction": op}, I64)
        for op in ("none", "add", "mul", "max", "min")
    ),
    *(
        Row("ScatterND", (base, index, update), scattered_rows("add"), {"reduction": "add"}, I64)
        for base, index, update in (
            ((2,), ("n", 1), ("n",)),
            ((4, 5), (0, 1), (0, 5)),
            ((2, 0), ("n", 1), ("n", 0)),
            ((2, 1, 2), ("n", 1), ("n", 1, 2)),
        )
    ),
    *(Row("OneHot", (shape,), lambda i: np.eye(3)[i], {"depth": 3}, ("i64",)) for shape in (XN, SCALAR, ("n", 0))),
    Row("OneHot", (XN,), lambda i: np.zeros((*i.shape, 0)), {"depth": 0}, ("i64",)),
    # movement
    *rows("Reshape", [XM], lambda x: x.reshape(-1), shape=["3*n"]),
    *rows("Reshape", [("n", 0)], lambda x: x.reshape(0, 5), shape=[0, 5], allowzero=True),
    *rows("Reshape", [SCALAR], lambda x: x.reshape(1, 1), shape=[1, 1]),
    *rows("Reshape", [(1, 1)], lambda x: x.reshape(()), shape=[]),
    *rows("Flatten", [XM, ("n", 0, 2)], lambda x: x.reshape(x.shape[0], math.prod(x.shape[1:])), axis=1),
    *rows("Transpose", [XM, ("n", 0), SCALAR, ("n", 1, 2)], lambda x: x.T),
    *rows("Expand", [(1,)], lambda x: np.broadcast_to(x, (0,)), shape=[0]),
    *rows("Expand", [SCALAR], lambda x: np.broadcast_to(x, (2, 0)), shape=[2, 0]),
    *rows("Expand", [XN], None, shape=[3, "n"]),
    *rows("Tile", [XM, ("n", 0)], lambda x: np.tile(x, (2, 0)), repeats=[2, 0]),
    *rows("Tile", [XN], lambda x: np.tile(x, 3), repeats=[3]),
    *rows("Flip", [XN, XM], lambda x: np.flip(x, 0), axes=[0]),
    *rows("Roll", [XM, NX], lambda x: np.roll(x, 1, 0), shifts=[1], axes=[0]),
    *rows("Roll", [XM, (0, 2)], lambda x: np.roll(x, -5, 0), shifts=[-5], axes=[0]),
    *rows("Squeeze", [(1, "n")], lambda x: x[0], axes=[0]),
    *rows("Squeeze", [(1, 1)], lambda x: x.reshape(())),
    *rows("Unsqueeze", [XN], lambda x: x[None, :, None], axes=[0, 2]),
    *rows("Unsqueeze", [SCALAR], lambda x: x[None], axes=[0]),
    *rows("Slice", [XM], lambda x: x[:, 1:1], starts=[1], ends=[1], axes=[1]),
    *rows("Slice", [XM, ("n", 1)], lambda x: x[:, 0:1], starts=[0], ends=[1], axes=[1]),
    *rows("Slice", [X0, (0, "n")], lambda x: x[0:5], starts=[0], ends=[5], axes=[0]),
    *rows("Slice", [NX], lambda x: x[::-2], starts=[2], ends=[-4], axes=[0], steps=[-2]),
    *rows("Pad", [XN, X0, (1,)], lambda x: np.pad(x, (1, 2), constant_values=7), pads=[1, 2], value=7),
    *rows("Pad", [XN], lambda x: x, pads=[0, 0]),
    *rows("Pad", [SCALAR], lambda x: x, pads=[]),
    *rows("Pad", [(1, "n")], lambda x: np.pad(x, ((2, 1), (0, 0)), "edge"), pads=[2, 1], axes=[0], mode="edge"),
    *rows("Pad", [(1,), (2,)], lambda x: np.pad(x, (2, 3), "reflect"), pads=[2, 3], mode="reflect"),
    *rows(
        "Pad", [(1, "n"), (2, "n")], lambda x: np.pad(x, ((2, 3), (0, 0)), "wrap"), pads=[2, 3], axes=[0], mode="wrap"
    ),
    *rows("Pad", [(2, "n")], lambda x: x[1:1], pads=[-1, -1], axes=[0]),
    Row("Concat", (XN, X0, (1,), XN), lambda *parts: np.concatenate(parts), {"axis": 0}),
    Row("Concat", (XM, (0, 3)), lambda *parts: np.concatenate(parts), {"axis": 0}),
    Row("Concat", ((2, 0), (2, "n")), lambda *parts: np.concatenate(parts, 1), {"axis": 1}),
    Row("Concat", (X0, X0), lambda *parts: np.zeros(0), {"axis": 0}),
    *rows("Split", [("n", 3)], lambda x: (x[:, :0], x[:, :2], x[:, 2:]), axis=1, sizes=[0, 2, 1]),
    *rows("Split", [X0], lambda x: (x, x), parts=2),
    *rows("Split", [(1, "n")], lambda x: (x, x[:0], x[:0]), parts=3),
    Row("Iota", (), lambda: np.arange(0), {"shape": [0]}),
    Row("Iota", (), lambda: np.zeros((1, 0), np.int64), {"shape": [1, 0], "axis": 0}),
    Row("Iota", (), lambda: np.zeros((1,), np.int64), {"shape": [1]}),
    *rows("Trilu", [XM, NX, (0, 0), ("n", 0), (1, 1)], np.triu),
    *rows("Trilu", [XM], lambda x: np.tril(x, -1), upper=False, k=-1),
    *rows(
        "TopK",
        [(3, "n"), (3, 0)],
        lambda x: (np.zeros((0, x.shape[1])), np.zeros((0, x.shape[1]), np.int64)),
        k=0,
        axis=0,
    ),
    *rows("TopK", [(1, "n")], lambda x: (x, np.zeros(x.shape, np.int64)), k=1, axis=0),
    *rows("TopK", [("n", 2)], lambda x: (x.max(1, keepdims=True), x.argmax(1)[:, None]), k=1),
    *rows("Resize", [(1, "n"), (3, "n")], lambda x: x[:0], sizes=[0], axes=[0]),
    *rows("Resize", [(1, "n")], lambda x: np.repeat(x, 3, 0), sizes=[3], axes=[0], mode="linear"),
    # choices, casts, random numbers
    Row("Where", (XN, XN, (1,)), lambda c, x, y: np.where(c, x, y), {}, ("bool",)),
    Row("Where", (SCALAR, XM, SCALAR), lambda c, x, y: np.where(c, x, y), {}, ("bool",)),
    Row("Where", (X0, (1,), SCALAR), lambda c, x, y: np.where(c, x, y), {}, ("bool",)),
    *rows("Clip", [XN, SCALAR, X0], lambda x: np.clip(x, -1, 1), min=-1, max=1),
    *rows("Cast", [XN, SCALAR, ("n", 0)], lambda x: x.astype(np.int8), to="i8"),
    *rows("Dropout", [XN, SCALAR], lambda x: x),
    *rows("Dropout", [XN], None, training=True, seed=3),
    Row("Random", (), lambda: np.zeros((2, 0)), {"shape": [2, 0], "seed": 1}),
    Row("Random", (), None, {"shape": [], "seed": 1}),
    Row("RandomNormal", (), lambda: np.zeros(0), {"shape": [0], "seed": 1}),
]
COVERED_ELSEWHERE = {"Encode", "Decode", "Fold"}  # test_front_codes.py, test_front_windows.py


def compared(found: Mapping[str, np.ndarray], wanted: Any, row: Row) -> None:
    """What tiny text gives beside NumPy, which computes in fp64: fp32 rounds each exponential, quotient and root."""
    every = wanted if isinstance(wanted, tuple) else (wanted,)
    for array, numbers in zip(found.values(), every):
        assert array.shape == np.shape(numbers), row.name
        np.testing.assert_allclose(array.astype(np.float64), np.asarray(numbers, np.float64), rtol=1e-5, atol=1e-5)


def agreed(
    stages: Stages, arrays: Mapping[str, np.ndarray], tolerance: float = 0, is_simulated: bool = False
) -> dict[str, np.ndarray]:
    """What every stage gives."""
    (_, first), *others = stages.outputs(arrays, is_simulated)
    for stage, outputs in others:
        assert outputs.keys() == first.keys()
        for name, array in first.items():
            np.testing.assert_allclose(outputs[name], array, rtol=tolerance, err_msg=f"{name} at {stage}")
            assert (outputs[name].shape, outputs[name].dtype) == (array.shape, array.dtype), f"{name} at {stage}"
    return first


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_an_op_at_sizes_0_and_1(row: Row) -> None:
    stages = Stages(tiny.show(module_of(row)))
    for n in N if any("n" in s for s in row.shapes) else (0,):
        found = agreed(stages, arrays_of([row], n), row.tolerance)
        if row.gives is not None:
            compared(
                found, row.gives(*(a if a.dtype.kind != "f" else a.astype(np.float64) for a in row.arrays(n))), row
            )


def test_the_table_has_every_op() -> None:
    assert {row.op for row in TABLE} | COVERED_ELSEWHERE == set(FRONT_OPS)


# --- elementwise functions: all of them in one program

ATTRS = {"cast": {"to": "i32"}, "bitcast": {"to": "i32"}, "clip": {"min": -1, "max": 1}}
TAKES = (
    dict.fromkeys(("and", "or", "xor", "not"), ("bool",) * 3)
    | dict.fromkeys(("shift_left", "shift_right"), ("i32", "i32"))
    | {"where": ("bool",)}
)


@pytest.mark.parametrize("shape", [XN, SCALAR], ids=str)
def test_every_function_of_elements(shape: tuple[Any, ...]) -> None:
    """Where there is nothing to compute nothing is, and a scalar is computed as a line of one is."""
    uses = [
        Row(name, (shape,) * row.inputs[0], None, ATTRS.get(name, {}), TAKES.get(name, ()))
        for name, row in sorted(ELEMENTWISE.items())
    ]
    stages = Stages(tiny.show(module_of(*uses)))
    line = (
        Stages(tiny.show(module_of(*(replace(use, shapes=((1,),) * len(use.shapes)) for use in uses))))
        if shape == SCALAR
        else None
    )
    for n in (0, 1) if "n" in shape else (1,):
        found = agreed(stages, arrays_of(uses, n), 1e-6)  # a chain of functions may be computed in fp64 in part
        sizes = tuple(n if s == "n" else s for s in shape)
        assert {a.shape for a in found.values()} == {sizes} and len(found) == len(ELEMENTWISE)
        if line is not None:
            arrays = {name: a.reshape(1) for name, a in arrays_of(uses, n).items()}
            for name, a in play(line.tiny, arrays).items():
                np.testing.assert_array_equal(a[0], found[name])


# --- the emitted kernels, and the command that compares stages

IN_KERNELS = [
    *(
        Row("Reduce", (shape,), None, {"op": op, "axes": axes})
        for op in ("sum", "max")
        for shape, axes in ((XN, [0]), (NX, [1]))
    ),
    Row("Softmax", (NX,)),
    Row("CumSum", (XN,), None, {"axis": 0}),
    Row("MatMul", (NX, XM)),
    Row("Concat", (XN, (1,), XN), None, {"axis": 0}),
    Row("Pad", (XN,), None, {"pads": [1, 2], "value": 7}),
    Row("Gather", ((3, 2), XN), None, {}, ("fp32", "i64")),
    *(Row("ScatterND", ((2, 3), ("n", 1), ("n", 3)), None, {"reduction": op}, I64) for op in ("add", "max")),
    Row("Scatter", ((2,), XN, XN), None, {"reduction": "none"}, I64),
    Row("Roll", (XM,), None, {"shifts": [1], "axes": [0]}),
    Row("relu", (XN,)),
    Row("relu", (SCALAR,)),
    Row("relu", ((2, 0),)),
]


@needs_host_compiler
def test_the_kernels_of_nothing() -> None:
    """One text, at every size of n."""
    stages = Stages(tiny.show(module_of(*IN_KERNELS)))
    for n in N:
        agreed(stages, arrays_of(IN_KERNELS, n), 1e-5, is_simulated=True)  # a kernel's exp2 is the processor's


@pytest.mark.parametrize("row", {row.op: row for row in TABLE}.values(), ids=lambda row: row.op)
def test_tiny_check_compares_the_stages(row: Row, tmp_path: Path) -> None:
    module: Any = module_of(row)
    texts = {}
    for stage in ("tiny", "index", "poly", "region"):
        module = module if stage == "tiny" else lower_to(stage, module, "sm90")
        texts[stage] = tmp_path / f"m.{stage}"
        texts[stage].write_text(language_of(stage).show(module), encoding="utf-8")
    np.savez(tmp_path / "in.npz", **arrays_of([row], 0))
    for stage in ("index", "region"):
        assert (
            tiny_check.main(["--diff", str(texts["tiny"]), str(texts[stage]), "--inputs", str(tmp_path / "in.npz")])
            == 0
        )


def test_an_empty_scatter_in_the_middle_of_a_graph() -> None:
    """y = relu(scatter of nothing onto x + x): what is computed before and after goes on."""
    text = """tinyir 1.0 tiny

model m
  in  x : fp32[4, 5]
  in  i : i64[n, 1]
  in  u : fp32[n, 5]
  out y : fp32[4, 5]

  %d = ADD(x, x) : fp32[4, 5]
  %f = RESHAPE(i) : i64[n]
  %s = SCATTER(%d, %f, u) {axis=0, op=SUM} : fp32[4, 5]
  %y = RELU(%s) : fp32[4, 5]

outputs: %y
"""
    x = np.arange(1, 21, dtype=np.float32).reshape(4, 5) - 9
    stages = Stages(text)
    for n in N:
        found = agreed(stages, {"x": x, "i": np.ones((n, 1), np.int64), "u": np.ones((n, 5), np.float32)})
        wanted = 2 * x
        wanted[1] += n
        np.testing.assert_array_equal(found["y"], np.maximum(wanted, 0))
