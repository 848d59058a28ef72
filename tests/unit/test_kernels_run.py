"""Each template, over many regions: the CUDA text, run thread by thread on the CPU, gives what playback of its region
gives."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tinyir.ir import region
from tinyir.runtime.arrays import random_arrays
from tinyir.sim.host import COMPILERS

from .emitted import lowered, planned, played, region_text, simulated

pytestmark = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
TOLERANCE = {"float16": 4e-3, "bfloat16": 2e-2, "float8_e4m3fn": 0.1, "float8_e5m2": 0.2}


def agrees(
    text: str, sizes: dict[str, int], number: int = 0, arrays: dict[str, np.ndarray] | None = None, **fields: object
) -> str:
    """Compare simulation and playback; the name of the template."""
    module = planned(text, number, **fields)
    _, code = lowered(module)
    arrays = arrays or random_arrays(region.parse(text).model, sizes, 3)
    given, wanted = simulated(code, arrays, seed=1), played(code, arrays)
    for name, value in wanted.items():
        tolerance = TOLERANCE.get(value.dtype.name, 1e-5)
        np.testing.assert_allclose(
            np.asarray(given[name], np.float64),
            np.asarray(value, np.float64),
            rtol=tolerance,
            atol=tolerance,
            err_msg=name,
        )
        assert given[name].dtype == value.dtype
    return module.plans[0].algo


def matmul(a: str, b: str, dtype: str, acc: str, out: str = "") -> str:
    """A product of A and B whose indices are `a` and `b` over i0: M, i1: N and k0: K."""
    sizes = {"i0": "M", "i1": "N", "k0": "K"}
    shape = [", ".join(sizes[i] for i in index.split(", ")) for index in (a, b)]
    widen = f" : {acc}" if acc != dtype else ""
    value = f"cast(%c) : {out}" if out else "%c"
    return region_text(
        f"in A : {dtype}[{shape[0]}]\nin B : {dtype}[{shape[1]}]\nout C : {out or acc}[M, N]",
        f"for i0: M, i1: N\n%c = reduce sum (k0: K) : {acc} {{ mul(A[{a}], B[{b}]){widen} }}\nyield C[i0, i1] = "
        f"{value}",
    )


@pytest.mark.parametrize("a", ["i0, k0", "k0, i0"])
@pytest.mark.parametrize("b", ["k0, i1", "i1, k0"])
def test_contraction_of_any_layout(a: str, b: str) -> None:
    for dtype in ("fp16", "fp32"):
        algo = agrees(matmul(a, b, dtype, "fp32"), {"M": 70, "N": 41, "K": 37})
        assert algo in ("synchronous", "multistage")


@pytest.mark.parametrize(
    ("dtype", "acc", "out"),
    [
        ("fp32", "fp32", ""),
        ("fp64", "fp64", ""),
        ("bf16", "fp32", "bf16"),
        ("i8", "i32", ""),
        ("u8", "u32", ""),
        ("i32", "i32", ""),
        ("fp8e4m3", "fp32", "fp8e5m2"),
    ],
)
def test_contraction_of_any_dtype(dtype: str, acc: str, out: str) -> None:
    agrees(matmul("i0, k0", "i1, k0", dtype, acc, out), {"M": 19, "N": 33, "K": 20})


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (128, 128, 16), (129, 127, 17), (5, 300, 0)])
@pytest.mark.parametrize(
    ("tile", "micro", "threads"),
    [((128, 128, 16), (8, 8), (16, 16)), ((32, 16, 8), (4, 2), (8, 8)), ((16, 48, 4), (1, 3), (16, 16))],
)
def test_contraction_of_any_size_and_tile(m: int, n: int, k: int, tile: tuple, micro: tuple, threads: tuple) -> None:
    text = matmul("i0, k0", "k0, i1", "fp32", "fp32")
    agrees(text, {"M": m, "N": n, "K": k}, tile=tile, micro=micro, threads=threads)


def test_batched_contraction_with_a_broadcast_batch() -> None:
    text = region_text(
        "in A : fp16[G, H, M, K]\nin B : fp16[H, K, N]\nout C : fp32[G, H, M, N]",
        "for i0: G, i1: H, i2: M, i3: N\n%c = reduce sum (k0: K) : fp32 { mul(A[i0, i1, i2, k0], B[i1, k0, i3]) "
        ": fp32 }\nyield C[i0, i1, i2, i3] = %c",
    )
    agrees(text, {"G": 2, "H": 3, "M": 17, "N": 9, "K": 12})


def test_strided_padded_convolution() -> None:
    text = region_text(
        "in X : fp16[N, Ci, H, W]\nin Wt : fp16[Co, Ci, 3, 3]\nout Y : fp16[N, Co, floor((H + 1)/2), floor((W + 1)/2)]",
        "for i0: N, i1: Co, i2: floor((H + 1)/2), i3: floor((W + 1)/2)\n"
        "%c = reduce sum (k0: Ci, k1: 3, k2: 3) : fp32 { mul(Wt[i1, k0, k1, k2], X[i0, k0, 2*i2 + k1 - 1, 2*i3 + "
        "k2 - 1] "
        "where 0 <= 2*i2 + k1 - 1 < H and 0 <= 2*i3 + k2 - 1 < W else 0.0) : fp32 }\nyield Y[i0, i1, i2, i3] = "
        "cast(%c) : fp16",
    )
    sizes = {"N": 2, "Ci": 3, "H": 9, "W": 12, "Co": 20}
    assert (agrees(text, sizes), agrees(text, sizes, micro=(4, 4), threads=(16, 16), tile=(64, 64, 16))) == (
        "multistage",
        "synchronous",
    )


def test_epilogue_with_row_scale_residual_and_three_outputs() -> None:
    text = region_text(
        "in A : fp16[M, K]\nin B : fp16[K, N]\nin s : fp32[M]\nin R : fp16[M, N]\nout C : fp16[M, N]\nout D : "
        "fp32[N, M]\nout E : fp32[N]",
        "for i0: M, i1: N\n%c = reduce sum (k0: K) : fp32 { mul(A[i0, k0], B[k0, i1]) : fp32 }\n"
        "%d = mul(%c, broadcast_in_dim(s[i0], dims=[0]))\n%e = max(add(%d, cast(R[i0, i1]) : fp32), 0.25)\n"
        "yield C[i0, i1] = cast(%e) : fp16\nyield D[i1, i0] = %d\nyield E[i1] = cast(R[0, i1]) : fp32",
    )
    agrees(text, {"M": 40, "N": 70, "K": 33})


@pytest.mark.parametrize("number", [0, 2, 5])
def test_map_with_broadcast_and_two_outputs(number: int) -> None:
    text = region_text(
        "in X : fp16[M, N]\nin b : fp16[N]\nout Y : fp16[M, N]\nout Z : fp32[N, M]",
        "for i0: M, i1: N\n%x = add(cast(X[i0, i1]) : fp32, broadcast_in_dim(cast(b[i1]) : fp32, dims=[1]))\n"
        "%g = mul(mul(%x, 0.5), add(erf(mul(%x, 0.70710678)), 1.0))\nyield Y[i0, i1] = cast(%g) : fp16\nyield "
        "Z[i1, i0] = tanh(%x)",
    )
    assert agrees(text, {"M": 33, "N": 70}, number) == "flat"


def test_map_with_a_fold_of_its_own_and_padding() -> None:
    text = region_text(
        "in X : fp32[C, H, W]\nout Y : fp32[C, floor(H/2), floor(W/2)]\nout A : i64[C, floor(H/2), floor(W/2)]",
        "for i0: C, i1: floor(H/2), i2: floor(W/2)\n"
        "%y = reduce max (k0: 3, k1: 3) : fp32 { X[i0, 2*i1 + k0 - 1, 2*i2 + k1 - 1] where 0 <= 2*i1 + k0 - 1 < "
        "H and 0 <= 2*i2 + k1 - 1 < W else -inf }\n"
        "%a = reduce argmin (k0: 2, k1: 2) : i64 { X[i0, 2*i1 + k0, 2*i2 + k1] }\nyield Y[i0, i1, i2] = %y\n"
        "yield A[i0, i1, i2] = %a",
    )
    assert agrees(text, {"C": 3, "H": 11, "W": 15}) == "flat"


def test_gather_counts_from_the_end_and_gives_0_outside() -> None:
    text = region_text(
        "in T : fp16[V, D]\nin I : i64[N]\nout Y : fp16[N, D]",
        "for i0: N, i1: D\n%y = gather (k0: V = I[i0]) { T[k0, i1] }\nyield Y[i0, i1] = %y",
    )
    table = np.arange(1, 16, dtype=np.float16).reshape(5, 3)
    agrees(text, {}, arrays={"T": table, "I": np.array([0, 4, -1, -5, 5, -6, 1 << 40], np.int64)})


SOFTMAX = """\
for i0: R, i1: C
%max = reduce max (i1) : fp32 { X[i0, i1] }
%e = exp2(mul(sub(X[i0, i1], broadcast_in_dim(%max, dims=[0])), 1.442695))
%z = reduce sum (i1) : fp32 { %e }
yield Y[i0, i1] = fdiv(%e, broadcast_in_dim(%z, dims=[0]))"""
NORM = """\
for i0: R, i1: C
%x = cast(X[i0, i1]) : fp32
%sum = reduce sum (i1) : fp32 { %x }
%mean = fdiv(%sum, index(C) : fp32)
%d = sub(%x, broadcast_in_dim(%mean, dims=[0]))
%var = reduce sum (i1) : fp32 { mul(%d, %d) }
%rstd = rsqrt(add(fdiv(%var, index(C) : fp32), 1e-05))
%y = mul(mul(%d, broadcast_in_dim(%rstd, dims=[0])), broadcast_in_dim(cast(g[i1]) : fp32, dims=[1]))
yield Y[i0, i1] = cast(%y) : fp16
yield S[i0] = %rstd"""


@pytest.mark.parametrize("columns", ["C", "300"])
def test_softmax_and_norm_streamed_and_resident(columns: str) -> None:
    softmax = region_text(f"in X : fp32[R, {columns}]\nout Y : fp32[R, {columns}]", SOFTMAX.replace("C", columns))
    norm = region_text(
        f"in X : fp16[R, {columns}]\nin g : fp16[{columns}]\nout Y : fp16[R, {columns}]\nout S : fp32[R]",
        NORM.replace("C", columns),
    )
    wanted = "row_streamed" if columns == "C" else "row_resident"
    sizes = {"R": 3, "C": 333}
    assert agrees(softmax, sizes) == wanted
    assert agrees(norm, sizes) == wanted


@pytest.mark.parametrize(
    ("out", "body"),
    [
        ("fp32[]", "for\n%y = reduce sum (k0: R, k1: C) : fp32 { X[k0, k1] }\nyield Y[] = %y"),
        ("i64[R]", "for i0: R\n%y = reduce argmax (k0: C) : i64 { X[i0, k0] }\nyield Y[i0] = %y"),
        ("i64[C]", "for i0: C\n%y = reduce argmin (k0: R) : i64 { X[k0, i0] }\nyield Y[i0] = %y"),
        (
            "fp32[R]",
            "for i0: R\n%y = reduce prod (k0: C) : fp32 { add(mul(X[i0, k0], 0.01), 1.0) }\nyield Y[i0] = sqrt(%y)",
        ),
        ("i8[R]", "for i0: R\n%y = reduce sum (k0: C) : i8 { cast(mul(X[i0, k0], 9.0)) : i8 }\nyield Y[i0] = %y"),
    ],
)
@pytest.mark.parametrize("rows", [1, 200])
def test_fold_of_any_kind(out: str, body: str, rows: int) -> None:
    agrees(region_text(f"in X : fp32[R, C]\nout Y : {out}", body), {"R": rows, "C": 257})


def test_folds_propagate_nan_and_find_its_first_place() -> None:
    text = region_text(
        "in X : fp32[R, C]\nout Y : fp32[R]\nout Z : i64[R]\nout W : fp32[R]",
        "for i0: R\n%y = reduce max (k0: C) : fp32 { X[i0, k0] }\n%z = reduce argmax (k0: C) : i64 { X[i0, k0] }\n"
        "%w = reduce min (k0: C) : fp32 { X[i0, k0] }\nyield Y[i0] = %y\nyield Z[i0] = %z\nyield W[i0] = relu(%w)",
    )
    x = np.random.default_rng(0).standard_normal((4, 150)).astype(np.float32)
    x[1, [70, 100]] = np.nan
    x[2, :] = -np.inf
    agrees(text, {}, arrays={"X": x})


INTEGER_OPS = ("add", "sub", "mul", "idiv", "floordiv", "mod", "rem", "max", "min", "and", "or", "xor")
FLOAT_OPS = ("add", "sub", "mul", "fdiv", "idiv", "floordiv", "mod", "rem", "max", "min")


@pytest.mark.parametrize("dtype", ["i32", "u8", "i64", "i8", "fp32", "fp64", "fp16"])
def test_every_op_means_what_numpy_means(dtype: str) -> None:
    is_float = dtype.startswith("f")
    binary = FLOAT_OPS if is_float else INTEGER_OPS
    unary = ("neg", "abs", "sign", "relu") + (("recip", "floor", "ceil", "trunc", "round") if is_float else ("not",))
    values = [f"{op}(X[i0], Z[i0])" for op in binary] + [f"{op}(X[i0])" for op in unary]
    values += [] if is_float else ["shl(X[i0], Z[i0])", "shr(X[i0], Z[i0])", "pow(X[i0], and(Z[i0], 3))"]
    compared = [
        "cmplt(X[i0], Z[i0])",
        "cmpeq(X[i0], Z[i0])",
        "cmpne(X[i0], Z[i0])",
        "and(cmplt(X[i0], Z[i0]), cmplt(Z[i0], 3))",
    ]
    outs = [(dtype, v) for v in values] + [("bool", v) for v in compared]
    text = region_text(
        f"in X : {dtype}[N]\nin Z : {dtype}[N]\n" + "\n".join(f"out Y{i} : {d}[N]" for i, (d, _) in enumerate(outs)),
        "for i0: N\n" + "\n".join(f"yield Y{i}[i0] = {v}" for i, (_, v) in enumerate(outs)),
    )
    _, code = lowered(planned(text))
    numpy = {
        "fp16": np.float16,
        "fp32": np.float32,
        "fp64": np.float64,
        "i8": np.int8,
        "u8": np.uint8,
        "i32": np.int32,
        "i64": np.int64,
    }[dtype]
    if is_float:
        special = np.array([0, -0.0, 1, -1, 2.5, -2.5, 3.5, 0.5, 7, -7, np.inf, -np.inf, np.nan, 1e-7], numpy)
    else:
        info = np.iinfo(numpy)
        special = np.array([0, 1, 2, 3, 7, 100, info.max, info.min, *((-1, -2, -7) if info.min else (31, 33))], numpy)
    x, z = (side.ravel() for side in np.meshgrid(special, special))
    with np.errstate(all="ignore"):
        given, wanted = simulated(code, {"X": x, "Z": z}), played(code, {"X": x, "Z": z})
    for i, (_, value) in enumerate(outs):
        np.testing.assert_allclose(
            given[f"Y{i}"].astype(np.float64),
            wanted[f"Y{i}"].astype(np.float64),
            rtol=1e-3 if dtype == "fp16" else 1e-6,
            err_msg=value,
        )


def test_casts_round_to_nearest_even_once() -> None:
    targets = ("fp32", "fp16", "bf16", "fp8e4m3", "fp8e5m2")
    text = region_text(
        "in X : fp64[N]\n" + "\n".join(f"out Y{t} : {t}[N]" for t in targets),
        "for i0: N\n" + "\n".join(f"yield Y{t}[i0] = cast(X[i0]) : {t}" for t in targets),
    )
    _, code = lowered(planned(text))
    draw = np.random.default_rng(1)
    ties = (2.0 ** np.arange(-30, 20))[:, None] * np.array(
        [1, 1.0625, 1.125, 1.1875, 1.25, 1.375, 1.0009765625, 1.00048828125, 1.00390625, 1.5, 1.75, 1.9375]
    )
    special = np.array(
        [
            0.0,
            -0.0,
            np.inf,
            -np.inf,
            np.nan,
            448,
            464,
            465,
            480,
            57344,
            61439,
            61440,
            65504,
            65519.9,
            65520,
            1e300,
            2**-24,
            2**-25,
            2**-26,
            1 + 2**-11 + 2**-40,
        ]
    )
    x = np.concatenate(
        [
            ties.ravel(),
            -ties.ravel(),
            special,
            draw.standard_normal(500),
            draw.standard_normal(200) * 1e4,
            draw.standard_normal(200) * 1e-6,
        ]
    )
    given, wanted = simulated(code, {"X": x}), played(code, {"X": x})
    for t in targets:
        np.testing.assert_array_equal(given[f"Y{t}"].astype(np.float64), wanted[f"Y{t}"].astype(np.float64), err_msg=t)


def test_names_of_the_model_never_meet_those_of_the_kernel() -> None:
    product = region_text(
        "in a : fp32[k, m0]\nin float : fp32[m0, element]\nin acc : fp32[element]\nout max_nan : fp32[k, element]",
        "for i: k, j: element\n%col = reduce sum (kk: m0) : fp32 { mul(a[i, kk], float[kk, j]) }\n"
        "%ar = relu(add(%col, broadcast_in_dim(acc[j], dims=[1])))\nyield max_nan[i, j] = %ar",
    )
    assert agrees(product, {"k": 20, "m0": 33, "element": 17}) == "synchronous"
    row = region_text(
        "in part : fp32[w, lanes]\nout v : fp32[w]",
        "for c: w\n%acc = reduce sum (cta: lanes) : fp32 { part[c, cta] }\nyield v[c] = %acc",
    )
    assert agrees(row, {"w": 3, "lanes": 300}) == "row_streamed"
    flat = region_text(
        "in e : fp16[u, i0]\nout int : fp16[u, i0]", "for i: u, thread: i0\nyield int[i, thread] = neg(e[i, thread])"
    )
    assert agrees(flat, {"u": 5, "i0": 70}, 5) == "flat"
