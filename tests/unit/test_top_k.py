"""The first elements of an order, found one by one: as by the rank of each, and by one kernel that reads rows once."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tinyir.front import read
from tinyir.front.ops import order
from tinyir.ir.types import DTYPES
from tinyir.lower import lower_to
from tinyir.play.tiny import play

DRAWS = np.random.default_rng(11)


def model_of(dtype: str, shape: tuple[int, ...], k: int, axis: int = -1, largest: bool = True) -> str:
    """One TopK."""
    result = [k if a == axis % len(shape) else d for a, d in enumerate(shape)]
    tensors = {"X": (dtype, list(shape)), "V": (dtype, result), "I": ("i64", result)}
    attrs = {"k": k, "axis": axis, "largest": largest}
    return json.dumps(
        {
            "name": "order",
            "signature": {"inputs": [{"tensor": "X"}], "outputs": [{"tensor": "V"}, {"tensor": "I"}]},
            "tensors": {n: {"dtype": d, "shape": s} for n, (d, s) in tensors.items()},
            "graph": [{"op": "TopK", "inputs": ["X"], "outputs": ["V", "I"], "attrs": attrs}],
        }
    )


def numbers(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Few different ones, the ends of the range and what a float has beside numbers."""
    kind = np.dtype(DTYPES[dtype].numpy)
    if DTYPES[dtype].is_float:
        some = [0.0, -0.0, 1.0, -1.0, 1.5, np.nan, -np.nan, np.inf, -np.inf, 6e-8, -6e-8, 3e4, -3e4]
    else:
        ends = np.iinfo(kind)
        some = [0, 1, 2, ends.min, ends.min + 1, ends.max, ends.max - 1]
    return DRAWS.choice(np.array(some).astype(kind), shape)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", ["fp16", "fp32", "i8", "u8", "i16", "u16", "i32", "u32"])
def test_elements_are_those_of_their_ranks(dtype: str, largest: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for shape, k, axis in (((3, 9), 4, 1), ((7, 4), 7, 0), ((2, 5, 3), 1, 1), ((4, 1), 1, 1)):
        text, given = model_of(dtype, shape, k, axis, largest), {"X": numbers(dtype, shape)}
        found = play(read(text, "order.json"), given)
        with monkeypatch.context() as patched:
            patched.setattr(order, "FEW", 0)
            wanted = play(read(text, "order.json"), given)
        for name in "VI":
            assert found[name].tobytes() == wanted[name].tobytes()


def test_rows_are_read_once_and_no_pair_is_compared() -> None:
    module = read(model_of("fp16", (32768, 1024), 4), "order.json")
    for stage in ("index", "poly", "region", "plan"):
        module = lower_to(stage, module, "sm90")
    first, second = module.plans
    assert (first.family, second.family) == ("row", "map")
    assert len(module.program.program.region(first.regions[0]).iters) == 2
