"""The place of the greatest and of the least, found in one pass over a row: equal ones, infinities and NaN at all ends
of vectors and teams."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tinyir.ir import gpu, plan, region
from tinyir.ir.gpu import nodes
from tinyir.ir.gpu.walk import statements
from tinyir.lower.plan import candidates
from tinyir.sim.host import COMPILERS

from .emitted import lowered, region_text, simulated

ROWS, LENGTH = 7, 77


def arrays(dtype: type) -> np.ndarray:
    """Rows of few values, so that most are equal: of 0 and 1, all the same, of the least number, with infinities, with
    NaN first, last and alone."""
    x = np.random.default_rng(3).integers(0, 2, (ROWS, LENGTH)).astype(dtype)
    x[1] = 1
    if np.issubdtype(dtype, np.floating):
        x[2], x[3, 5::9], x[4, [6, 71]] = -np.inf, np.inf, np.nan
        x[5, [0, 76]], x[6] = np.nan, np.nan
    else:
        x[2] = np.iinfo(dtype).min
    return x


def forms(op: str, dtype: str) -> list[plan.Module]:
    """A plan of each algo and width, on a few threads and on many."""
    text = region_text(
        f"in X : {dtype}[{ROWS}, {LENGTH}]\nout Y : i64[{ROWS}]",
        f"for i0: {ROWS}\n%y = reduce {op} (k0: {LENGTH}) : i64 {{ X[i0, k0] }}\nyield Y[i0] = %y",
    )
    module = region.parse(text)
    found = {}
    for one in candidates(module, module.program.regions[0]):
        key = one.plan.algo, one.plan.widest, len(one.plan.threads), one.plan.threads[0] > 32
        found.setdefault(key, plan.Module(module, (one.plan,)))
    return list(found.values())


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
@pytest.mark.parametrize(("op", "dtype"), [("argmax", "fp32"), ("argmin", "fp16"), ("argmax", "i32")])
def test_the_first_of_equal_ones_is_found_and_nan_before_all(op: str, dtype: str) -> None:
    x = arrays({"fp32": np.float32, "fp16": np.float16, "i32": np.int32}[dtype])
    wanted = getattr(np, op)(x, 1)
    every = forms(op, dtype)
    assert {m.plans[0].algo for m in every} >= {"row_resident", "row_streamed"}
    assert len({m.plans[0].widest for m in every}) > 1
    for number, module in enumerate(every):
        given = simulated(lowered(module)[1], {"X": x}, number)
        np.testing.assert_array_equal(given["Y"], wanted, err_msg=str(module.plans[0]))


@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_a_row_is_read_once_and_its_places_take_32_bits(op: str) -> None:
    for module in forms(op, "fp32"):
        if module.plans[0].family == "row" and not module.plans[0].vectorize:
            kernel: gpu.Kernel = lowered(module)[0].kernels[0]
            held = [s for s in statements(kernel.body) if isinstance(s, nodes.Reg)]
            loops = [s for s in statements(kernel.body) if isinstance(s, nodes.For)]
            assert len(loops) == 1
            assert {s.type.dtype.name for s in held} == {"fp32", "i32"}
