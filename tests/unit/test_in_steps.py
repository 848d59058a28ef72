"""Long folds and scans as several kernels mean what the whole meant, whatever the sizes that they then meet, and use
the card."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tinyir.analysis.regions import fold_sizes
from tinyir.ir import manifest, plan, region
from tinyir.kernels.alternatives.fold_in_steps import fold_in_steps
from tinyir.kernels.alternatives.parts import Names, Surroundings, with_parts
from tinyir.kernels.alternatives.scan_in_steps import scan_in_steps
from tinyir.kernels.alternatives.sum_in_steps import sum_in_steps
from tinyir.lower import plan as to_plan
from tinyir.play.region import play
from tinyir.runtime.arrays import random_arrays
from tinyir.sim.host import COMPILERS

from .checked import check_gpu
from .emitted import lowered, region_text, simulated

ROWS = "for i0: R, i1: N\n"
SUM = "%y = reduce sum (k0: N) : fp32 {{ {0} }}\n"
SOFTMAX = (
    "%c = mul(X[i0, i1], 0.5)\n%m = reduce max (i1) : fp32 { %c }\n%e = exp2(sub(%c, broadcast_in_dim(%m, "
    "dims=[0])))\n%z = reduce sum (i1) : fp32 { %e }\n"
    "yield Y[i0, i1] = fdiv(%e, broadcast_in_dim(%z, dims=[0]))\nyield Z[i0] = %m"
)
SOFTMAX_DOWN = (
    "for i0: N, i1: R\n%m = reduce max (i0) : fp32 { X[i0, i1] }\n%e = exp2(sub(X[i0, i1], broadcast_in_dim(%m, "
    "dims=[1])))\n"
    "%z = reduce sum (i0) : fp32 { %e }\nyield Y[i0, i1] = fdiv(%e, broadcast_in_dim(%z, dims=[1]))"
)
FOLDS = {  # regions, tensors, body
    "full": (2, "in X : fp32[N]\nout Y : fp32[]", "for\n" + SUM.format("X[k0]") + "yield Y[] = mul(%y, 2.0)"),
    "rows": (2, "in X : fp32[R, N]\nout Y : fp32[R]", "for i0: R\n" + SUM.format("X[i0, k0]") + "yield Y[i0] = %y"),
    "columns": (2, "in X : fp32[N, R]\nout Y : fp32[R]", "for i0: R\n" + SUM.format("X[k0, i0]") + "yield Y[i0] = %y"),
    "two axes": (
        2,
        "in X : fp32[R, N]\nout Y : fp32[]",
        "for\n%y = reduce max (k0: R, k1: N) : fp32 { X[k0, k1] }\nyield Y[] = %y",
    ),
    "several at once": (
        2,
        "in X : fp16[R, N]\nout Y : fp16[R]\nout Z : fp32[R]",
        "for i0: R\n%y = reduce sum (k0: N) : fp32 { X[i0, k0] }\n%z = reduce min (k1: N) : fp16 { X[i0, k1] }\n"
        "yield Y[i0] = cast(add(%y, cast(%z) : fp32)) : fp16\nyield Z[i0] = %y",
    ),
    "the place of the greatest": (
        2,
        "in X : fp32[R, N]\nout Y : i64[R]",
        "for i0: R\n%y = reduce argmax (k0: N) : i64 { X[i0, k0] }\nyield Y[i0] = %y",
    ),
    "its place in two axes": (
        2,
        "in X : fp16[N, R]\nout Y : i32[]",
        "for\n%y = reduce argmin (k0: N, k1: R) : i32 { abs(X[k0, k1]) }\nyield Y[] = add(%y, 1)",
    ),
    "its place down columns, and itself": (
        2,
        "in X : fp32[N, R]\nout Y : i64[R]\nout Z : fp32[R]",
        "for i0: R\n%y = reduce argmin (k0: N) : i64 { X[k0, i0] }\n%z = reduce min (k1: N) : fp32 { X[k1, i0] "
        "}\nyield Y[i0] = %y\nyield Z[i0] = %z",
    ),
    "its own axis": (
        2,
        "in X : fp32[R, N]\nout Y : fp32[R]",
        ROWS + "%c = mul(X[i0, i1], 3.0)\n%y = reduce sum (i1) : fp32 { %c }\nyield Y[i0] = %y",
    ),
    "softmax of columns": (5, "in X : fp32[N, R]\nout Y : fp32[N, R]", SOFTMAX_DOWN),
    "softmax": (3, "in X : fp32[R, N]\nout Y : fp32[R, N]\nout Z : fp32[R]", ROWS + SOFTMAX),
    "layernorm": (
        3,
        "in X : fp16[R, N]\nin G : fp32[N]\nin S : fp32[R]\nout Y : fp32[R, N]",
        ROWS + "%c = cast(X[i0, i1]) : fp32\n%s = reduce sum (i1) : fp32 { %c }\n"
        "%d = sub(%c, broadcast_in_dim(mul(%s, S[i0]), dims=[0]))\n%q = reduce sum (i1) : fp32 { mul(%d, %d) }\n"
        "yield Y[i0, i1] = mul(%d, broadcast_in_dim(rsqrt(add(%q, 1.0)), dims=[0]))",
    ),
    "sums under the least and the greatest": (
        2,
        "in X : fp32[R, N]\nout Y : fp32[R]\nout Z : fp32[R]",
        ROWS + "%m = reduce max (i1) : fp32 { X[i0, i1] }\n%n = reduce min (k0: N) : fp32 { X[i0, k0] }\n"
        "%z = reduce sum (k1: N) : fp32 { mul(X[i0, k1], exp2(mul(3.0, sub(X[i0, k1], %m)))) }\n"
        "%w = reduce sum (i1) : fp32 { fdiv(exp2(neg(X[i0, i1])), exp2(neg(%n))) }\n"
        "yield Y[i0] = %z\nyield Z[i0] = add(%w, %m)",
    ),
}
SCANS = {
    "sum": (
        3,
        "in X : fp32[R, N]\nout Y : fp32[R, N]",
        ROWS + "%y = scan sum (i1) : fp32 { X[i0, i1] }\nyield Y[i0, i1] = %y",
    ),
    "reverse, exclusive": (
        3,
        "in X : fp32[R, N]\nout Y : fp32[R, N]",
        ROWS + "%y = scan sum reverse exclusive (i1) : fp32 { neg(X[i0, i1]) }\nyield Y[i0, i1] = %y",
    ),
    "columns": (
        3,
        "in X : fp32[N, R]\nout Y : fp32[R, N]",
        "for i0: N, i1: R\n%y = scan max (i0) : fp32 { X[i0, i1] }\nyield Y[i1, i0] = %y",
    ),
    "in fp16": (
        3,
        "in X : fp16[N]\nout Y : fp16[N]",
        "for i0: N\n%x = cast(X[i0]) : fp32\n%y = scan sum (i0) : fp32 { %x }\nyield Y[i0] = cast(%y) : fp16",
    ),
    "and what is computed of it": (
        4,
        "in X : fp32[N]\nout Y : fp32[N]\nout Z : fp32[N]",
        "for i0: N\n%y = scan sum (i0) : fp32 { X[i0] }\nyield Y[i0] = %y\nyield Z[i0] = sub(%y, X[i0])",
    ),
}

PRODUCT = "%y = reduce sum (k0: 1024) : fp32 {{ mul({0}, B[k0, i1]) }}\n"
SUMS = {
    "product": (
        2,
        "in A : fp32[R, 1024]\nin B : fp32[1024, N]\nin C : fp32[N]\nout Y : fp32[R, N]",
        "for i0: R, i1: N\n"
        + PRODUCT.format("A[i0, k0]")
        + "yield Y[i0, i1] = relu(add(%y, broadcast_in_dim(C[i1], dims=[1])))",
    ),
    "second output": (
        2,
        "in A : fp32[R, 1024]\nin B : fp32[1024, N]\nout Y : fp32[R, N]\nout Z : fp16[R, N]",
        "for i0: R, i1: N\n" + PRODUCT.format("A[i0, k0]") + "yield Y[i0, i1] = %y\nyield Z[i0, i1] = cast(%y) : fp16",
    ),
    "prologue": (
        2,
        "in A : i8[R, 1024]\nin S : fp32[R]\nin B : fp32[1024, N]\nout Y : fp32[R, N]",
        "for i0: R, i1: N\n" + PRODUCT.format("mul(cast(A[i0, k0]) : fp32, S[i0])") + "yield Y[i0, i1] = %y",
    ),
    "integers": (
        2,
        "in A : i32[R, 1024]\nin B : i32[1024, N]\nout Y : i32[R, N]",
        "for i0: R, i1: N\n%y = reduce sum (k0: 1024) : i32 { mul(A[i0, k0], B[k0, i1]) }\nyield Y[i0, i1] = %y",
    ),
    "batch": (
        2,
        "in A : fp16[3, R, 1024]\nin B : fp16[3, 1024, N]\nout Y : fp32[3, R, N]",
        "for i0: 3, i1: R, i2: N\n%y = reduce sum (k0: 1024) : fp32 { mul(A[i0, i1, k0], B[i0, k0, i2]) : fp32 "
        "}\nyield Y[i0, i1, i2] = %y",
    ),
    "windows": (
        2,
        "in X : fp32[64, N]\nin W : fp32[R, 64, 9]\nout Y : fp32[R, N]",
        "for i0: R, i1: N\n%y = reduce sum (k0: 64, k1: 9) : fp32 { mul(W[i0, k0, k1], X[k0, i1 + k1 - 4] where "
        "0 <= i1 + k1 - 4 < N else 0.0) }\nyield Y[i0, i1] = %y",
    ),
    "symbolic sum": (
        1,
        "in A : fp32[R, N]\nin B : fp32[N, R]\nout Y : fp32[R, R]",
        "for i0: R, i1: R\n%y = reduce sum (k0: N) : fp32 { mul(A[i0, k0], B[k0, i1]) }\nyield Y[i0, i1] = %y",
    ),
}


def in_steps(text: str, rewrite: object) -> region.Module:
    """The module with its region in steps, as if one kernel over N, or a whole sum of products, took forever."""
    module = region.parse(text)
    sizes = {"N": 1 << 20, "R": 4} if rewrite is not sum_in_steps else {"N": 12, "R": 4}

    def time_of(one: region.Region) -> float:
        if rewrite is sum_in_steps:
            return float(sum(size.evaluate(sizes) for size in fold_sizes(one).values()))
        axes = [*one.iters] if rewrite is scan_in_steps else []
        folded = [size for name, size in fold_sizes(one).items() if one.analysis is None or name in one.analysis.reduce]
        return (
            1000.0
            if any(str(size) == "N" for size in folded)
            and (one.analysis is None or one.analysis.reduce)
            and (not axes or folded)
            else 1.0
        )

    (one,) = module.program.regions
    return with_parts(module, {one.name: rewrite(one, Surroundings(Names.of(module), time_of, sizes))})


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
@pytest.mark.parametrize(
    "rewrite, name",
    [*((fold_in_steps, n) for n in FOLDS), *((scan_in_steps, n) for n in SCANS), *((sum_in_steps, n) for n in SUMS)],
)
def test_steps_mean_what_the_whole_meant(rewrite: object, name: str) -> None:
    count, tensors, body = {fold_in_steps: FOLDS, scan_in_steps: SCANS, sum_in_steps: SUMS}[rewrite][name]
    text = region_text(tensors, body)
    whole, steps = region.parse(text), in_steps(text, rewrite)
    assert region.check(steps) == [] and region.parse(region.show(steps)) == steps
    assert len(steps.program.regions) == count
    planned = to_plan.lower(steps)
    code = lowered(planned)[1]
    for rows, columns in (
        ((1, 1), (3, 16), (5, 70)) if rewrite is sum_in_steps else ((1, 1), (3, 16), (2, 1500), (5, 3001))
    ):
        arrays = random_arrays(whole.model, {"R": rows, "N": columns}, columns)
        wanted, again, run = play(whole, arrays), play(steps, arrays), simulated(code, arrays, seed=rows)
        for output, array in wanted.items():
            tolerance = 4e-3 if array.dtype == np.float16 else 1e-4
            for found in (again, run):
                np.testing.assert_allclose(
                    found[output].astype(np.float64), array.astype(np.float64), rtol=tolerance, atol=2e-3
                )


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_the_place_is_of_the_first_of_equal_ones_and_of_the_first_nan(op: str) -> None:
    """Ties within a chunk and between chunks, at the ends of chunks; nothing but infinities, which are what padding
    holds; NaN before and behind the best."""
    text = region_text(
        "in X : fp32[R, N]\nout Y : i64[R]",
        f"for i0: R\n%y = reduce {op} (k0: N) : i64 {{ X[i0, k0] }}\nyield Y[i0] = %y",
    )
    steps = in_steps(text, fold_in_steps)
    assert len(steps.program.regions) == 2
    code = lowered(to_plan.lower(steps))[1]
    best = np.inf if op == "argmax" else -np.inf
    x = np.random.default_rng(1).integers(-3, 3, (9, 1500)).astype(np.float32)
    x[1] = -best
    x[2], x[2, -1] = -best, 0
    x[3] = best
    x[4, [15, 16, 31, 32]] = best
    x[5, [700, 1499]], x[5, 900] = best, np.nan
    x[6, [900, 1200]], x[6, 1300] = np.nan, best
    x[7] = np.nan
    x[8] = -0.0
    x[8, 40:] = 0.0
    wanted = (np.argmax if op == "argmax" else np.argmin)(x, 1)
    for found in (play(steps, {"X": x}), simulated(code, {"X": x}, seed=2)):
        np.testing.assert_array_equal(found["Y"], wanted)


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
def test_what_is_no_number_stays_where_the_row_is_read_once() -> None:
    """Chunks of -inf in a row that has numbers, a row of -inf, +inf, NaN; and large numbers that differ little."""
    steps = in_steps(region_text(*FOLDS["softmax"][1:]), fold_in_steps)
    x = np.random.default_rng(3).normal(size=(6, 5000)).astype(np.float32)
    x[0, :4096] = -np.inf
    x[1] = -np.inf
    x[2, 3000], x[3, 4999] = np.inf, np.nan
    x[4] -= 3e4
    with np.errstate(invalid="ignore"):
        powers = np.exp2(0.5 * (x.astype(np.float64) - x.max(1, keepdims=True)))
        wanted = powers / powers.sum(1, keepdims=True)
    code = lowered(to_plan.lower(steps))[1]
    for found in (play(steps, {"X": x}), simulated(code, {"X": x}, seed=2)):
        np.testing.assert_allclose(found["Y"], wanted, rtol=1e-3, atol=1e-7)


def test_squares_around_the_mean_of_a_chunk_lose_nothing() -> None:
    """Numbers whose mean is 10,000 times what they differ by: a sum of squares less the square of a sum has none of
    its digits right."""
    body = (
        ROWS + "%s = reduce sum (i1) : fp32 { X[i0, i1] }\n%d = sub(X[i0, i1], broadcast_in_dim(fdiv(%s, 16384.0), "
        "dims=[0]))\n%q = reduce sum (i1) : fp32 { mul(%d, %d) }\nyield Q[i0] = fdiv(%q, 16384.0)"
    )
    steps = in_steps(region_text("in X : fp32[R, N]\nout Q : fp32[R]", body), fold_in_steps)
    x = (1e4 + np.random.default_rng(4).normal(size=(3, 16384))).astype(np.float32)
    assert len(steps.program.regions) == 2
    np.testing.assert_allclose(play(steps, {"X": x})["Q"], x.astype(np.float64).var(1), rtol=1e-3)


@pytest.mark.parametrize(
    "first, second",
    [
        ("max (i1) : fp32 { X[i0, i1] }", "exp2(add(X[i0, i1], %m))"),  # grows with the greatest
        ("min (i1) : fp32 { X[i0, i1] }", "exp2(sub(X[i0, i1], %m))"),
        ("max (i1) : fp32 { X[i0, i1] }", "exp2(mul(%m, sub(X[i0, i1], %m)))"),  # no power of it
        ("max (i1) : fp32 { X[i0, i1] }", "add(exp2(sub(X[i0, i1], %m)), 1.0)"),
        ("sum (i1) : fp32 { abs(X[i0, i1]) }", "mul(sub(X[i0, i1], %m), sub(X[i0, i1], %m))"),  # a sum of others
        ("sum (i1) : fp32 { X[i0, i1] }", "mul(sub(X[i0, i1], %m), sub(X[i0, i1], mul(%m, 2.0)))"),
    ],
)
def test_other_folds_are_done_one_after_the_other(first: str, second: str) -> None:
    body = ROWS + f"%m = reduce {first}\n%z = reduce sum (i1) : fp32 {{ {second} }}\nyield Y[i0] = %z"
    assert len(in_steps(region_text("in X : fp32[R, N]\nout Y : fp32[R]", body), fold_in_steps).program.regions) == 4


def planned(tensors: str, body: str) -> plan.Module:
    """The plans that the cost model chooses."""
    return to_plan.lower(region.parse(region_text(tensors, body)))


@pytest.mark.parametrize(
    "tensors, body, codes",
    [
        (
            "in X : fp32[16777216]\nout Y : fp32[]",
            "for\n%y = reduce sum (k0: 16777216) : fp32 { X[k0] }\nyield Y[] = %y",
            ["R3471"],
        ),
        (
            "in X : fp32[65536, 1024]\nout Y : fp32[1024]",
            "for i0: 1024\n%y = reduce sum (k0: 65536) : fp32 { X[k0, i0] }\nyield Y[i0] = %y",
            ["R3471"],
        ),
        (
            "in X : fp32[16777216]\nout Y : i64[]",
            "for\n%y = reduce argmax (k0: 16777216) : i64 { X[k0] }\nyield Y[] = %y",
            ["R3471"],
        ),
        (
            "in X : fp32[131072, 2048]\nout Y : fp32[131072, 2048]",
            "for i0: 131072, i1: 2048\n%y = scan sum (i0) : fp32 { X[i0, i1] }\nyield Y[i0, i1] = %y",
            ["R3472"],
        ),
        (
            "in X : fp32[4096, 1024]\nout Y : fp32[4096]",
            "for i0: 4096\n%y = reduce sum (k0: 1024) : fp32 { X[i0, k0] }\nyield Y[i0] = %y",
            [],
        ),
    ],
)
def test_long_ones_use_the_whole_card(tensors: str, body: str, codes: list[str]) -> None:
    module = region.parse(region_text(tensors, body))
    assert [d.code for d in to_plan.verdicts(module)] == codes
    kernels, _ = lowered(to_plan.lower(module))
    first = kernels.kernels[0]
    assert first.grid[0].evaluate({}) >= 128 and first.grid[0].evaluate({}) * first.threads >= 128 * 256  # on 132 SMs


def test_columns_of_a_softmax_are_read_by_neighbouring_threads() -> None:
    """Over the slow axis of a large matrix: threads that share columns for the folds, and a map; no CTA walks down one
    column."""
    text = region_text("in X : fp32[N, 4096]\nout Y : fp32[N, 4096]", SOFTMAX_DOWN.replace("R", "4096")).replace(
        "\nprogram r\n", "shapes default {N=4096}\n\nprogram r\n", 1
    )
    chosen = to_plan.lower(region.parse(text))
    assert {p.algo for p in chosen.plans} == {"flat", "columns"} and len(chosen.plans) > 2


def test_columns_are_summed_by_neighbouring_threads() -> None:
    kernels, code = lowered(
        planned(
            "in X : fp32[256, 65536]\nout Y : fp32[65536]",
            "for i0: 65536\n%y = reduce sum (k0: 256) : fp32 { X[k0, i0] }\nyield Y[i0] = %y",
        )
    )
    assert kernels.kernels[0].threads >= 128
    assert "X[c * 65536 + i0]" in manifest.show(code)
    assert check_gpu(kernels) == []
