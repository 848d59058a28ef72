"""The sign of a zero is NumPy's at every stage, for every function of floats; a sum starts from 0.0, however few
elements it has, so that it is never -0.0."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from tinyir.ir.ops import OPS, Op
from tinyir.ir.types import DTYPES

from .stages import HEADER, Arrays, Stages, needs_host_compiler

NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -3.0, np.inf, -np.inf, np.nan)
PAIRS = np.array(list(itertools.product(NUMBERS, NUMBERS)))
OPEN = {"MAX", "MIN", "RELU"}  # of 0.0 and -0.0 NumPy gives either
FUNCTIONS = [
    op for op in OPS.values() if op.is_elementwise and op.arity < 3 and "f" in op.accepts and op.gives == "same"
]
FLOATS = [d for d in DTYPES.values() if d.is_float]


def program(inputs: Sequence[tuple[str, str]], values: Sequence[tuple[str, str, str]]) -> Stages:
    """A program of (name, type) inputs and (name, expression, type) values, all of which are outputs."""
    lines = [f"  in {name} : {type_}" for name, type_ in inputs]
    lines += [f"  out y{name} : {type_}" for name, _, type_ in values]
    lines += ["", *(f"  %{name} = {said} : {type_}" for name, said, type_ in values)]
    given = ", ".join(f"y{name}=%{name}" for name, _, _ in values)
    return Stages("\n".join([HEADER, "", "model m", *lines, "", f"outputs: {given}", ""]))


def zeros_that_differ(stages: Stages, arrays: Arrays) -> list[tuple[str, str]]:
    """(stage, output) where a zero is elsewhere or has another sign than in tiny text."""
    (_, wanted), *others = stages.outputs(arrays, is_simulated=True)
    return [
        (stage, name)
        for stage, found in others
        for name, array in wanted.items()
        if not np.array_equal(_zeros(found[name]), _zeros(array))
    ]


def _zeros(array: np.ndarray) -> np.ndarray:
    wide = array.astype(np.float64)
    return np.where(wide == 0, np.copysign(1, wide), 0)


def _said(op: Op) -> str:
    return f"{op.name}({'a, b' if op.arity == 2 else 'a'})"


@needs_host_compiler
@pytest.mark.parametrize("dtype", ["fp16", "fp32", "fp64"])
def test_functions_give_the_signs_of_numpy(dtype: str) -> None:
    type_ = f"{dtype}[{len(PAIRS)}]"
    values = [(op.name, _said(op), type_) for op in FUNCTIONS if op.name not in OPEN]
    values += [(d.name, "CAST(a)", f"{d.name}[{len(PAIRS)}]") for d in FLOATS if d.name != dtype]
    one, other = PAIRS.T.astype(DTYPES[dtype].numpy)
    assert zeros_that_differ(program([("a", type_), ("b", type_)], values), {"a": one, "b": other}) == []


@needs_host_compiler
@pytest.mark.parametrize("size", [1, 2, 40])
@pytest.mark.parametrize("dtype", ["fp16", "fp32", "fp64"])
def test_sums_start_from_zero(dtype: str, size: int) -> None:
    rows, row = f"{dtype}[3, {size}]", f"{dtype}[3]"
    values = [("product", "MUL(a, b)", rows)]
    for op in ("SUM", "PROD"):
        values += [
            (f"fold{op}", f"REDUCE(a) {{op={op}, axes=[1], dtype={dtype}}}", row),
            (f"scan{op}", f"SCAN(a) {{op={op}, axis=1, dtype={dtype}}}", rows),
            (f"before{op}", f"SCAN(a) {{op={op}, axis=1, dtype={dtype}, exclusive=true}}", rows),
            (f"behind{op}", f"SCAN(a) {{op={op}, axis=1, dtype={dtype}, reverse=true}}", rows),
        ]
    values.append(("dot", f"REDUCE(%product) {{op=SUM, axes=[1], dtype={dtype}}}", row))
    stages = program([("a", rows), ("b", rows)], values)
    a = np.repeat(np.array([[-0.0], [0.0], [1.0]], DTYPES[dtype].numpy), size, axis=1)
    arrays = {"a": a, "b": np.ones_like(a)}
    assert zeros_that_differ(stages, arrays) == []
    for _, found in stages.outputs(arrays):
        assert not any(np.signbit(found[f"y{name}"]).any() for name in ("foldSUM", "scanSUM", "beforeSUM", "dot"))
