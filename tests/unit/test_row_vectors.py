"""Row kernels in vectors: which widths are proven, and what each algo computes with them in the simulation."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest

from tinyir.ir import gpu, manifest, plan, region
from tinyir.ir.runs import row_runs
from tinyir.kernels.problem import kernel_of
from tinyir.lower import gpu as to_gpu
from tinyir.lower.plan import CROWDED, candidates
from tinyir.runtime.arrays import random_arrays
from tinyir.sim.host import COMPILERS

from .checked import check_gpu
from .emitted import assert_as_played, lowered, planned, played, region_text, simulated

ROWS = "for i0: R, i1: 200\n"
CASES = {  # width, tensors, body
    "softmax": (
        8,
        "in X : fp16[R, 200]\nout Y : fp16[R, 200]",
        ROWS
        + "%x = cast(X[i0, i1]) : fp32\n%m = reduce max (i1) : fp32 { %x }\n%e = exp2(sub(%x, broadcast_in_dim(%m, "
        "dims=[0])))\n%z = reduce sum (i1) : fp32 { %e }\n"
        "%y = cast(fdiv(%e, broadcast_in_dim(%z, dims=[0]))) : fp16\nyield Y[i0, i1] = %y",
    ),
    "a norm with scale and mean": (
        4,
        "in X : fp32[R, 200]\nin g : fp32[200]\nout Y : fp32[R, 200]\nout S : fp32[R]",
        ROWS + "%s = reduce sum (i1) : fp32 { X[i0, i1] }\n%d = sub(X[i0, i1], broadcast_in_dim(mul(%s, 0.005), "
        "dims=[0]))\n%v = reduce sum (i1) : fp32 { mul(%d, %d) }\n"
        "%y = mul(mul(%d, broadcast_in_dim(rsqrt(%v), dims=[0])), broadcast_in_dim(g[i1], dims=[1]))\nyield "
        "Y[i0, i1] = %y\nyield S[i0] = %s",
    ),
    "sums of chunks": (
        8,
        "in X : fp16[2000*R]\nout Y : fp32[10*R]",
        "for i0: 10*R\n%y = reduce sum (k0: 200) : fp32 { X[200*i0 + k0] }\nyield Y[i0] = %y",
    ),
    "two of them, of a product": (
        2,
        "in X : fp16[R, 200]\nin Z : fp16[R, 202]\nout Y : fp32[R]\nout W : fp16[R]",
        "for i0: R\n%y = reduce sum (k0: 200) : fp32 { mul(X[i0, k0], Z[i0, k0 + 2]) : fp32 }\n%w = reduce max "
        "(k1: 200) : fp16 { X[i0, k1] }\nyield Y[i0] = %y\nyield W[i0] = %w",
    ),
    "argmax": (
        4,
        "in X : fp32[R, 200]\nout Y : i64[R]",
        "for i0: R\n%y = reduce argmax (k0: 200) : i64 { X[i0, k0] }\nyield Y[i0] = %y",
    ),
    "the largest is moved on": (
        8,
        "in X : fp16[R, 200]\nout Y : fp16[R, 200]\nout S : fp16[R]",
        ROWS + "%m = reduce max (i1) : fp16 { X[i0, i1] }\nyield Y[i0, i1] = X[i0, i1]\nyield S[i0] = %m",
    ),
    "any length": (
        8,
        "in X : fp16[R, N]\nout Y : fp16[R]",
        "for i0: R\n%y = reduce max (k0: N) : fp16 { X[i0, k0] }\nyield Y[i0] = %y",
    ),
    "softmax of an odd length": (
        8,
        "in X : fp16[R, 333]\nout Y : fp16[R, 333]",
        "for i0: R, i1: 333\n%x = cast(X[i0, i1]) : fp32\n%m = reduce max (i1) : fp32 { %x }\n%e = exp2(sub(%x, "
        "broadcast_in_dim(%m, dims=[0])))\n%z = reduce sum (i1) : fp32 { %e }\n"
        "%y = cast(fdiv(%e, broadcast_in_dim(%z, dims=[0]))) : fp16\nyield Y[i0, i1] = %y",
    ),
    "a norm with gains of an odd length": (
        8,
        "in X : fp16[R, 333]\nin g : fp16[333]\nin b : fp16[333]\nout Y : fp16[R, 333]",
        "for i0: R, i1: 333\n%x = cast(X[i0, i1]) : fp32\n%v = reduce sum (i1) : fp32 { mul(%x, %x) }\n"
        "%n = mul(%x, broadcast_in_dim(rsqrt(%v), dims=[0]))\n%s = mul(%n, broadcast_in_dim(cast(g[i1]) : fp32, "
        "dims=[1]))\n%y = cast(add(%s, broadcast_in_dim(cast(b[i1]) : fp32, dims=[1]))) : fp16\nyield Y[i0, i1] = %y",
    ),
    "a norm of any length": (
        4,
        "in X : fp32[R, N]\nin g : fp32[N]\nout Y : fp32[R, N]\nout S : fp32[R]",
        "for i0: R, i1: N\n%s = reduce sum (i1) : fp32 { X[i0, i1] }\n%d = sub(X[i0, i1], "
        "broadcast_in_dim(mul(%s, 0.01), dims=[0]))\n%v = reduce sum (i1) : fp32 { mul(%d, %d) }\n"
        "%y = mul(mul(%d, broadcast_in_dim(rsqrt(%v), dims=[0])), broadcast_in_dim(g[i1], dims=[1]))\nyield "
        "Y[i0, i1] = %y\nyield S[i0] = %s",
    ),
    "several axes": (
        4,
        "in X : fp32[R, 5, 43]\nout Y : fp32[R]\nout P : i64[R]",
        "for i0: R\n%y = reduce sum (k0: 5, k1: 43) : fp32 { X[i0, k0, k1] }\n%p = reduce argmax (k2: 5, k3: 43) "
        ": i64 { X[i0, k2, k3] }\nyield Y[i0] = %y\nyield P[i0] = %p",
    ),
    "two rows that begin differently": (
        1,
        "in X : fp16[R, 333]\nin Z : fp16[333, R, 1]\nout Y : fp32[R]",
        "for i0: R\n%y = reduce sum (k0: 333) : fp32 { mul(X[i0, k0], Z[k0, i0, 0]) : fp32 }\nyield Y[i0] = %y",
    ),
    "rows that hang over": (
        4,
        "in X : fp32[N]\nin Z : fp32[R]\nout Y : fp32[R]",
        "for i0: R\n%y = reduce sum (k0: 200) : fp32 { X[200*i0 + k0] where 200*i0 + k0 < N else 0.0 }\nyield "
        "Y[i0] = add(%y, Z[i0])",
    ),
    "too short to be cut": (
        1,
        "in X : fp32[R, 15]\nout Y : fp32[R, 15]",
        "for i0: R, i1: 15\n%m = reduce max (i1) : fp32 { X[i0, i1] }\nyield Y[i0, i1] = sub(X[i0, i1], "
        "broadcast_in_dim(%m, dims=[0]))",
    ),
    "columns": (
        1,
        "in X : fp16[200, R]\nout Y : fp16[R, 200]",
        "for i0: R, i1: 200\n%m = reduce max (i1) : fp16 { X[i1, i0] }\nyield Y[i0, i1] = sub(X[i1, i0], "
        "broadcast_in_dim(%m, dims=[0]))",
    ),
}


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
@pytest.mark.parametrize("name", CASES)
def test_rows_compute_what_playback_computes(name: str) -> None:
    width, tensors, body = CASES[name]
    module = region.parse(region_text(tensors, body))
    (one,) = module.program.regions
    assert max((run.width for run in row_runs(one, kernel_of(one, "row"))), default=1) == width
    ways = {
        (c.plan.algo, c.plan.threads): c.plan
        for c in candidates(module, one)
        if c.rejected in ("", CROWDED) and c.plan.family == "row" and (c.plan.vectorize or width == 1)
    }
    chosen = [p for (algo, threads), p in ways.items() if threads in ((32,), (128,))]
    assert {p.algo for p in chosen} == ({"row_streamed"} if "any length" in name else {"row_resident", "row_streamed"})
    for one_plan in chosen:
        _, code = lowered(plan.Module(module, (one_plan,)))
        assert ("vector_of" in manifest.show(code)) == (width > 1)
        for rows in (1, 3):
            arrays = random_arrays(module.model, {"R": rows, "N": 77}, rows)
            assert_as_played(code, arrays, rows, rtol=4e-3, atol=4e-3, of=one_plan.algo)


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
@pytest.mark.parametrize("length", (333, 336))
def test_the_first_of_equal_elements_is_found_in_vectors_and_beside_them(length: int) -> None:
    """Half of them are 0. Those of vectors come in order, so that only one beside them is compared by its place too;
    what is picked of rounded numbers is not rounded again."""
    body = f"for i0: R\n%y = reduce argmin (k0: {length}) : i64 {{ relu(X[i0, k0]) }}\nyield Y[i0] = %y"
    module = region.parse(region_text(f"in X : fp16[R, {length}]\nout Y : i64[R]", body))
    (one,) = module.program.regions
    plans = [c.plan for c in candidates(module, one) if c.rejected in ("", CROWDED) and c.plan.vectorize]
    found = {p.algo: p for p in plans if p.threads == (32,)}
    assert set(found) == {"row_resident", "row_streamed"}
    for one_plan in found.values():
        _, code = lowered(plan.Module(module, (one_plan,)))
        text = manifest.show(code)
        assert "fp16_of_float" not in text.replace("float_of_fp16", "")
        assert len(re.findall(r"better = .* < y_acc\[0\]", text)) == length % 8 // 5
        for seed in range(4):
            arrays = random_arrays(module.model, {"R": 3}, seed)
            assert_as_played(code, arrays, seed, rtol=0, of=one_plan.algo)


def test_what_is_slow_and_the_same_along_a_row_is_computed_once() -> None:
    """A mean and a reciprocal root, which whole vectors and the element beside them ask for under guards of their
    own; a product is not worth a name."""
    body = (
        "for i0: R, i1: 333\n%s = reduce sum (i1) : fp32 { X[i0, i1] }\n"
        "%d = sub(X[i0, i1], broadcast_in_dim(fdiv(%s, 333.0), dims=[0]))\n"
        "%v = reduce sum (i1) : fp32 { mul(%d, %d) }\n"
        "%n = mul(%d, broadcast_in_dim(rsqrt(add(fdiv(%v, 333.0), 0.001)), dims=[0]))\n"
        "yield Y[i0, i1] = mul(%n, broadcast_in_dim(mul(%s, 2.0), dims=[0]))"
    )
    module = region.parse(region_text("in X : fp32[R, 333]\nout Y : fp32[R, 333]", body))
    (one,) = module.program.regions
    plans = [c.plan for c in candidates(module, one) if c.rejected in ("", CROWDED) and c.plan.vectorize]
    for algo in ("row_resident", "row_streamed"):
        chosen = next(p for p in plans if p.algo == algo)
        text = manifest.show(lowered(plan.Module(module, (chosen,)))[1]).split("__global__")[1]
        assert text.count("/ 333.0f") == 2 and text.count("square_root(") == 1
        assert len(re.findall(r"const float row_value2? = ", text)) == 2 and "s * 2.0f" in text


SOFTMAX = (
    "for i0: R, i1: C\n%m = reduce max (i1) : fp32 { X[i0, i1] }\n%e = exp2(sub(X[i0, i1], broadcast_in_dim(%m, "
    "dims=[0])))\n%z = reduce sum (i1) : fp32 { %e }\nyield Y[i0, i1] = fdiv(%e, broadcast_in_dim(%z, dims=[0]))"
)
OF_ANY_LENGTH = {"in": "in X : fp32[R, C]\nout Y : fp32[R, C]", "body": SOFTMAX}


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
def test_rows_of_every_length() -> None:
    """Rows that end before their first whole vector, and those that end or begin with one."""
    _, code = lowered(planned(region_text(OF_ANY_LENGTH["in"], OF_ANY_LENGTH["body"])))
    assert "vector_of" in manifest.show(code)
    for length in range(1, 20):
        arrays = random_arrays(code.region.model, {"R": 5, "C": length}, length)
        np.testing.assert_allclose(
            simulated(code, arrays, length)["Y"], played(code, arrays)["Y"], rtol=1e-5, err_msg=f"rows of {length}"
        )


@pytest.mark.parametrize(("line", "instead", "code"), [
    ("let i1 = 4*c + head", "let i1 = 4*c", "E1671"),
    ("let whole = floor((C - head)/4)", "let whole = floor(C/4)", "E1615"),
    ("if thread.x <= left < C", "if thread.x <= left < C + 1", "E1615"),
])  # fmt: skip
def test_the_checker_sees_a_row_whose_ends_are_wrong(line: str, instead: str, code: str) -> None:
    text = gpu.show(to_gpu.lower(planned(region_text(OF_ANY_LENGTH["in"], OF_ANY_LENGTH["body"]))))
    assert line in text and check_gpu(gpu.parse(text)) == []
    assert code in {d.code for d in check_gpu(gpu.parse(text.replace(line, instead)))}
