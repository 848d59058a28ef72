"""Weights of few bits, several in a byte: a product of one row reads them in whole accesses and computes what playback
does; elements that neighbours share are loaded once."""

from __future__ import annotations

import json
import re
import shutil
from typing import Any

import numpy as np
import pytest

from tinyir.front.json import read
from tinyir.ir import manifest, plan, region
from tinyir.ir.pipeline import STAGES
from tinyir.ir.runs import map_runs, row_run
from tinyir.kernels.problem import kernel_of
from tinyir.lower import lower_to
from tinyir.lower import plan as to_plan
from tinyir.play.tiny import play
from tinyir.sim.host import COMPILERS

from .emitted import region_text, simulated

needs_host_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")


def model_of(rows: int, columns: int, depth: int, bits: int, block: int, dtype: str = "fp16") -> str:
    """Y = A W' in front-end JSON: W[n, k] = (Q[n, k] - 2 ** (bits - 1)) * S[n, k / block], numbers of `bits` bits in
    bytes, the first in the low ones."""
    each = 8 // bits
    tensors = {
        "A": (dtype, [rows, depth]),
        "Q": ("u8", [columns, depth // each]),
        "S": (dtype, [columns, depth // block]),
        "Y": (dtype, [rows, columns]),
    }
    graph: list[dict[str, Any]] = []

    def op(word: str, inputs: list[Any], name: str, **attrs: Any) -> str:
        named = {"op": word} if word[0].isupper() else {"op": "Elementwise", "fn": word}
        graph.append({**named, "name": name, "inputs": inputs, "outputs": [name], "attrs": attrs})
        return name

    number = "Q"
    if bits < 8:
        op("Unsqueeze", ["Q"], "byte", axes=[2])
        op("Iota", [], "place", shape=[each], axis=0, dtype="u8")
        op("shift_right", ["byte", op("mul", ["place", bits], "by")], "apart")
        number = op("Reshape", [op("and", ["apart", (1 << bits) - 1], "low")], "number", shape=[columns, depth])
    op("sub", [op("Cast", [number], "wide", to="fp32"), float(1 << bits - 1)], "centred")
    op("Unsqueeze", [op("Cast", ["S"], "S32", to="fp32")], "S.block", axes=[2])
    op("Expand", ["S.block"], "S.each", shape=[columns, depth // block, block])
    op("mul", ["centred", op("Reshape", ["S.each"], "S.whole", shape=[columns, depth])], "scaled")
    op("MatMul", ["A", op("Transpose", [op("Cast", ["scaled"], "W", to=dtype)], "W.t", perm=[1, 0])], "Y")
    return json.dumps(
        {
            "name": "packed",
            "signature": {"inputs": [{"tensor": n} for n in ("A", "Q", "S")], "outputs": [{"tensor": "Y"}]},
            "tensors": {n: {"dtype": d, "shape": s} for n, (d, s) in tensors.items()},
            "graph": graph,
        }
    )


def arrays_of(rows: int, columns: int, depth: int, bits: int, block: int, dtype: str = "fp16") -> dict[str, np.ndarray]:
    """Random operands."""
    draws = np.random.default_rng([rows, columns, depth, bits])
    kind = {"fp16": np.float16, "fp32": np.float32}[dtype]
    return {
        "A": draws.standard_normal((rows, depth)).astype(kind),
        "Q": draws.integers(0, 256, (columns, depth * bits // 8)).astype(np.uint8),
        "S": draws.uniform(0.01, 0.1, (columns, depth // block)).astype(kind),
    }


def lowered(text: str, stage: str = "cu") -> Any:
    """A model at a stage."""
    module: Any = read(text)
    for word in STAGES[1 : STAGES.index(stage) + 1]:
        module = lower_to(word, module, "sm90", "h200")
    return module


@needs_host_compiler
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize(("bits", "block", "dtype"), [(4, 32, "fp16"), (8, 64, "fp16"), (2, 32, "fp32")])
def test_products_with_packed_weights_compute_what_playback_does(rows: int, bits: int, block: int, dtype: str) -> None:
    size = (rows, 24, 192, bits, block, dtype)
    text, arrays = model_of(*size), arrays_of(*size)
    given, wanted = simulated(lowered(text), arrays), play(read(text), arrays)
    np.testing.assert_allclose(given["Y"].astype(np.float64), wanted["Y"].astype(np.float64), rtol=4e-3, atol=4e-3)


def test_one_row_reads_packed_weights_in_whole_accesses_and_each_scale_once() -> None:
    text = manifest.show(lowered(model_of(1, 4096, 4096, 4, 128)))
    kernel = text[text.index("__global__") :]
    assert re.search(r"vector_of<unsigned int, \d+> \*\)&Q\[", kernel)
    assert re.search(r"S_v\[h\]\[0\] = float_of_fp16\(S\[", kernel)


def test_a_row_kernel_reads_what_neighbours_share_once_and_counts_by_the_vector() -> None:
    module = lowered(model_of(1, 64, 4096, 4, 128), "region")
    found = to_plan.candidates(module, module.program.regions[0], "sm90", "h200")
    chosen = next(c.plan for c in found if c.plan.algo == "row_streamed" and c.plan.widest == 16)
    text = manifest.show(lower_to("cu", lower_to("gpu", plan.Module(module, (chosen,)), "sm90"), "sm90"))
    kernel = text[text.index("__global__") :]
    assert re.search(r"load_near<8>\(\w+, &Q\[", kernel) and "S_v[0] = float_of_fp16(S[" in kernel
    assert "(i1 + v)" not in kernel and "(unsigned char)(v % 2)" in kernel


SHARED = {  # tensors and body of a map or of a row, and the width of its run
    "numbers of four bits": ("X : u8[M, 32]", "u8[M, 64]", "X[i0, floor(i1/2)]", 16),
    "a scale for each four": ("X : fp16[M, 16]", "fp16[M, 64]", "X[i0, floor(i1/4)]", 8),
    "five share each": ("X : fp16[M, 13]", "fp16[M, 65]", "X[i0, floor(i1/5)]", 0),
    "shared from the middle on": ("X : fp16[M, 33]", "fp16[M, 64]", "X[i0, floor((i1 + 1)/2)]", 0),
}


@pytest.mark.parametrize("name", SHARED)
def test_elements_that_neighbours_share_are_a_run(name: str) -> None:
    tensor, output, body, width = SHARED[name]
    columns = output.split()[-1][:-1]
    text = region_text(f"in {tensor}\nout Y : {output}", f"for i0: M, i1: {columns}\nyield Y[i0, i1] = {body}")
    found = {run.width for run in map_runs(region.parse(text).program.regions[0]) if len(run.axes) == 1}
    assert (width in found) if width else not found


def test_a_row_that_is_no_whole_vectors_has_no_run_of_shared_elements() -> None:
    for length, is_run in ((64, True), (66, False)):
        text = region_text(
            f"in X : u8[M, {length // 2}]\nout Y : fp32[M]",
            f"for i0: M\n%y = reduce sum (k0: {length}) : fp32 {{ cast(X[i0, floor(k0/2)]) : fp32 }}\nyield Y[i0] = %y",
        )
        one = region.parse(text).program.regions[0]
        assert (row_run(one, kernel_of(one, "row"), 4) is not None) == is_run


@needs_host_compiler
@pytest.mark.parametrize("dtype", ["u8", "i8", "u16", "i16"])
def test_each_small_integer_is_a_float_without_a_conversion(dtype: str) -> None:
    """All of them, and their differences from one another and from numbers, bit for bit."""
    info = np.iinfo({"u8": np.uint8, "i8": np.int8, "u16": np.uint16, "i16": np.int16}[dtype])
    x = np.arange(info.min, info.max + 1, dtype=info.dtype)
    z = np.random.default_rng(5).permutation(x)
    text = region_text(
        f"in X : {dtype}[{x.size}]\nin Z : {dtype}[{x.size}]\nout A : fp32[{x.size}]\nout B : fp32[{x.size}]\n"
        f"out C : fp32[{x.size}]\nout D : fp32[{x.size}]\nout E : fp16[{x.size}]",
        f"for i0: {x.size}\n%x = cast(X[i0]) : fp32\nyield A[i0] = %x\n"
        "yield B[i0] = sub(cast(X[i0]) : fp32, cast(Z[i0]) : fp32)\n"
        "yield C[i0] = sub(cast(X[i0]) : fp32, 8.0)\nyield D[i0] = sub(cast(X[i0]) : fp32, 0.5)\n"
        "yield E[i0] = cast(X[i0]) : fp16",
    )
    module = lower_to("cu", lower_to("gpu", lower_to("plan", region.parse(text), "sm90", "h200"), "sm90"), "sm90")
    assert "raised" in manifest.show(module) and "(float)" not in manifest.show(module)
    given, wide = simulated(module, {"X": x, "Z": z}), x.astype(np.float32)
    wanted = {"A": wide, "B": wide - z.astype(np.float32), "C": wide - 8, "D": wide - np.float32(0.5)}
    for name, array in wanted.items():
        np.testing.assert_array_equal(given[name], array, err_msg=name)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(given["E"], x.astype(np.float16))
