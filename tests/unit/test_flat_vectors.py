"""Maps in vectors: which accesses are known to move neighbours, the text of it, and what it computes in the
simulation."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tinyir.ir import gpu, manifest, plan, region
from tinyir.ir.runs import map_runs, singles_of
from tinyir.lower import gpu as to_gpu
from tinyir.lower.plan import CROWDED, candidates
from tinyir.runtime.arrays import random_arrays
from tinyir.sim.host import COMPILERS

from .checked import check_gpu, check_plan
from .emitted import assert_as_played, lowered, played, region_text, simulated

CASES = {  # the width that is proven, tensors, body
    "copy": (8, "in X : fp16[M, 24]\nout Y : fp16[M, 24]", "for i0: M, i1: 24\n%x = X[i0, i1]\nyield Y[i0, i1] = %x"),
    "bytes": (16, "in X : u8[M, 48]\nout Y : u8[M, 48]", "for i0: M, i1: 48\nyield Y[i0, i1] = X[M - i0 - 1, i1]"),
    "one axis": (
        4,
        "in X : fp32[120]\nin Z : fp32[120]\nout Y : fp32[120]",
        "for i0: 120\nyield Y[i0] = add(X[i0], Z[i0])",
    ),
    "a row beside a matrix": (
        4,
        "in X : fp16[M, 40]\nin b : fp16[40]\nin s : fp32[M]\nout Y : fp16[M, 40]\nout Z : fp32[M, 40]",
        "for i0: M, i1: 40\n%x = add(cast(X[i0, i1]) : fp32, broadcast_in_dim(cast(b[i1]) : fp32, dims=[1]))\n%y "
        "= mul(%x, broadcast_in_dim(s[i0], dims=[0]))\n"
        "yield Y[i0, i1] = cast(%y) : fp16\nyield Z[i0, i1] = %x",
    ),
    "symbols times eight": (
        8,
        "in X : bf16[3, 8*N]\nout Y : bf16[3, 8*N]",
        "for i0: 3, i1: 8*N\nyield Y[i0, i1] = neg(X[i0, i1])",
    ),
    "rows of six, all in one": (
        8,
        "in X : fp16[M, 6]\nout Y : fp16[M, 6]",
        "for i0: M, i1: 6\nyield Y[i0, i1] = relu(X[i0, i1])",
    ),
    "a slice from 4 on": (
        8,
        "in X : fp16[M, 32]\nout Y : fp16[M, 16]",
        "for i0: M, i1: 16\nyield Y[i0, i1] = X[i0, i1 + 4]",
    ),
    "rows that the data choose": (
        4,
        "in X : fp16[7, 16]\nin at : i64[M]\nout Y : fp16[M, 16]\nout Z : fp32[M, 16]",
        "for i0: M, i1: 16\n%c = add(at[i0], 1)\n%y = gather (k0: 7 = %c) { X[k0, i1] }\nyield Y[i0, i1] = %y\n"
        "yield Z[i0, i1] = mul(cast(gather (k1: 7 = at[i0]) { X[k1, i1] }) : fp32, 2.0)",
    ),
    "padded rows": (
        4,
        "in X : fp32[M, 8]\nout Y : fp32[M + 2, 8]",
        "for i0: M + 2, i1: 8\nyield Y[i0, i1] = X[i0 - 1, i1] where 0 <= i0 - 1 < M else 1.5",
    ),
    "a mask of numbers": (
        4,
        "in X : fp32[M, 8]\nout Y : fp32[M, 8]",
        "for i0: M, i1: 8\nyield Y[i0, i1] = X[i0, i1] where 0 <= i0 - i1 else -inf",
    ),
    "rows of any length": (8, "in X : fp16[M, N]\nout Y : fp16[M, N]", "for i0: M, i1: N\nyield Y[i0, i1] = X[i0, i1]"),
    "one axis of any length": (4, "in X : fp32[N]\nout Y : fp32[N]", "for i0: N\nyield Y[i0] = add(X[i0], 1.0)"),
    "rows of any length beside one": (
        4,
        "in X : fp16[M, N]\nin b : fp16[N]\nin s : fp32[M]\nout Y : fp16[M, N]\nout Z : fp32[M, N]",
        "for i0: M, i1: N\n%x = add(cast(X[i0, i1]) : fp32, broadcast_in_dim(cast(b[i1]) : fp32, dims=[1]))\n%y "
        "= mul(%x, broadcast_in_dim(s[i0], dims=[0]))\n"
        "yield Y[i0, i1] = cast(%y) : fp16\nyield Z[i0, i1] = %x",
    ),
    "two axes that stay together": (
        8,
        "in X : fp16[M, N, 6, 12]\nout Y : fp16[N, M, 6, 12]",
        "for i0: N, i1: M, i2: 6, i3: 12\nyield Y[i0, i1, i2, i3] = relu(X[i1, i0, i2, i3])",
    ),
    "a reshape": (
        4,
        "in X : fp32[M, 15]\nout Y : fp32[3, 5*M]",
        "for i0: 3, i1: 5*M\n%x = X[floor((5*M*i0 + i1)/15), 5*M*i0 + i1 - 15*floor((5*M*i0 + i1)/15)]\nyield "
        "Y[i0, i1] = relu(%x)",
    ),
    "a border along the row": (
        4,
        "in X : fp32[M, 32]\nout Y : fp32[M, 40]",
        "for i0: M, i1: 40\nyield Y[i0, i1] = neg(X[i0, i1 - 4] where 0 <= i1 - 4 < 32 else 0.5)",
    ),
    "a border of an odd row": (
        4,
        "in X : fp32[N]\nout Y : fp32[N + 13]",
        "for i0: N + 13\nyield Y[i0] = neg(X[i0 - 8] where 0 <= i0 - 8 < N else 0.5)",
    ),
    "rows of a part": (1, "in X : fp16[M, 2*N]\nout Y : fp16[M, N]", "for i0: M, i1: N\nyield Y[i0, i1] = X[i0, i1]"),
    "columns": (
        4,
        "in X : fp32[M, 40]\nin b : fp32[40]\nout Y : fp32[40]\nout Z : fp32[40]",
        "for i0: 40\n%y = reduce sum (k0: M) : fp32 { X[k0, i0] }\n%z = reduce max (k1: M) : fp32 { mul(X[k1, "
        "i0], b[i0]) }\nyield Y[i0] = mul(%y, 0.5)\nyield Z[i0] = add(%y, %z)",
    ),
    "columns of chunks": (
        8,
        "in X : fp16[M, 24]\nin n : fp32[N]\nout Y : fp32[N, 24]",
        "for i0: N, i1: 24\n%y = reduce sum (k0: 64) : fp32 { cast(X[64*i0 + k0, i1] where 64*i0 + k0 < M else 0.0) "
        ": fp32 }\nyield Y[i0, i1] = mul(%y, broadcast_in_dim(n[i0], dims=[0]))",
    ),
    "windows read backwards": (
        4,
        "in X : fp32[M, 5, 16]\nout Y : fp32[M, 5, 16]",
        "for i0: M, i1: 5, i2: 16\n%y = reduce sum (k0: 3) : fp32 { X[i0, i1 - k0 + 1, i2] where 0 <= i1 - k0 + 1 "
        "< 5 else 0.0 }\nyield Y[i0, i1, i2] = %y",
    ),
    "columns of an odd matrix": (
        1,
        "in X : fp32[M, 41]\nout Y : fp32[41]",
        "for i0: 41\n%y = reduce sum (k0: M) : fp32 { X[k0, i0] }\nyield Y[i0] = %y",
    ),
    "the places of maxima": (
        1,
        "in X : fp32[M, 40]\nout Y : i64[40]",
        "for i0: 40\n%y = reduce argmax (k0: M) : i64 { X[k0, i0] }\nyield Y[i0] = %y",
    ),
    "off by one": (8, "in X : fp16[M, 17]\nout Y : fp16[M, 16]", "for i0: M, i1: 16\nyield Y[i0, i1] = X[i0, i1 + 1]"),
    "windows that begin between accesses": (
        8,
        "in X : fp16[M, 24]\nout Y : fp16[M, 3, 24]",
        "for i0: M, i1: 3, i2: 24\nyield Y[i0, i1, i2] = X[i0, i1 + i2 - 1] where 0 <= i1 + i2 - 1 < 24 else 0.0",
    ),
    "windows of two dims, by rows that are no vectors": (
        4,
        "in X : fp16[M, 6, 6]\nout Y : fp16[M, 3, 3, 6, 6]",
        "for i0: M, i1: 3, i2: 3, i3: 6, i4: 6\nyield Y[i0, i1, i2, i3, i4] = X[i0, i1 + i3 - 1, i2 + i4 - 1] "
        "where 0 <= i1 + i3 - 1 < 6 and 0 <= i2 + i4 - 1 < 6 else 0.0",
    ),
    "every other, and the one beside": (
        4,
        "in X : fp32[M, 33]\nout Y : fp32[M, 16]",
        "for i0: M, i1: 16\nyield Y[i0, i1] = add(X[i0, 2*i1], X[i0, 2*i1 + 1])",
    ),
    "one in five": (1, "in X : fp32[M, 80]\nout Y : fp32[M, 16]", "for i0: M, i1: 16\nyield Y[i0, i1] = X[i0, 5*i1]"),
    "an odd matrix, off by one": (
        1,
        "in X : fp16[M, 18]\nout Y : fp16[M, 17]",
        "for i0: M, i1: 17\nyield Y[i0, i1] = X[i0, i1 + 1]",
    ),
    "backwards": (1, "in X : fp16[M, 16]\nout Y : fp16[M, 16]", "for i0: M, i1: 16\nyield Y[i0, i1] = X[i0, 15 - i1]"),
    "transposed": (1, "in X : fp16[16, M]\nout Y : fp16[M, 16]", "for i0: M, i1: 16\nyield Y[i0, i1] = X[i1, i0]"),
}
SIZES = ({"M": 1, "N": 1}, {"M": 5, "N": 4}, {"M": 37, "N": 19})


@pytest.mark.parametrize("name", CASES)
def test_the_proven_width(name: str) -> None:
    width, tensors, body = CASES[name]
    runs = map_runs(region.parse(region_text(tensors, body)).program.regions[0])
    assert max((run.width for run in runs), default=1) == width


@pytest.mark.parametrize(
    "name, width, steps",
    [
        ("copy", 8, ()),
        ("off by one", 8, (2,)),
        ("every other, and the one beside", 4, (8, 8)),
        ("a slice from 4 on", 8, (2,)),
        ("a slice from 4 on", 4, ()),
    ],
)
def test_what_is_read_one_by_one_has_its_bytes_apart(name: str, width: int, steps: tuple[int, ...]) -> None:
    _, tensors, body = CASES[name]
    assert singles_of(region.parse(region_text(tensors, body)).program.regions[0], 1, width) == steps


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
@pytest.mark.parametrize("name", CASES)
def test_vectors_compute_what_playback_computes(name: str) -> None:
    width, tensors, body = CASES[name]
    module = region.parse(region_text(tensors, body))
    found = [
        c.plan
        for c in candidates(module, module.program.regions[0])
        if (c.plan.vectorize or width == 1) and c.plan.algo == "flat" and c.rejected in ("", CROWDED)
    ]
    for chosen in (found[0], found[-1]):
        _, code = lowered(plan.Module(module, (chosen,)))
        assert ("vector_of" in manifest.show(code)) == (width > 1)
        for seed, sizes in enumerate(SIZES):
            arrays = random_arrays(module.model, sizes, 3)
            if "at" in arrays:
                arrays["at"] = np.random.default_rng(seed).integers(-9, 9, arrays["at"].shape)
            assert_as_played(code, arrays, seed, rtol=1e-3, of=sizes)


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
@pytest.mark.parametrize("name", ["one axis of any length", "rows of any length", "rows of six, all in one"])
def test_whole_tiles_have_no_guard(name: str) -> None:
    """A tile that is inside takes the way without guards; sizes where tiles end with the tensor, before and behind
    it."""
    _, tensors, body = CASES[name]
    module = region.parse(region_text(tensors, body))
    chosen = next(
        c.plan
        for c in candidates(module, module.program.regions[0])
        if c.plan.threads == (128,) and c.plan.vectorize and c.plan.micro[0] == 2 * c.plan.widest
    )
    kernels, code = lowered(plan.Module(module, (chosen,)))
    assert "  else\n    for u in 0..2 unroll" in gpu.show(kernels)
    for sizes in ({"M": 1, "N": 4096}, {"M": 3, "N": 2047}, {"M": 5, "N": 1031}, {"M": 1024, "N": 2}):
        arrays = random_arrays(module.model, sizes, 3)
        np.testing.assert_array_equal(simulated(code, arrays)["Y"], played(code, arrays)["Y"], err_msg=str(sizes))


@pytest.mark.parametrize("name", ["copy", "rows that the data choose", "bytes"])
def test_what_is_only_moved_is_not_converted(name: str) -> None:
    _, tensors, body = CASES[name]
    module = region.parse(
        region_text(tensors, body.split("\nyield Z")[0])
        if "Z" not in tensors
        else region_text(tensors.split("\nout Z")[0], body.split("\nyield Z")[0])
    )
    for chosen in candidates(module, module.program.regions[0]):
        text = manifest.show(lowered(plan.Module(module, (chosen.plan,)))[1])
        assert "_of_float" not in text and "float_of" not in text


def test_more_than_is_proven_is_refused() -> None:
    _, tensors, body = CASES["backwards"]
    module = region.parse(region_text(tensors, body))
    chosen = next(c.plan for c in candidates(module, module.program.regions[0]) if c.plan.micro == (4,))
    from dataclasses import replace

    from tinyir.ir.plan import Vectorize

    assert {
        d.code
        for d in check_plan(plan.Module(module, (replace(chosen, vectorize=(Vectorize("i1", 4),)),)))
        if d.is_error
    }


@pytest.mark.parametrize("rows, is_wide", [((1 << 27) - 1, False), (1 << 27, True)])
def test_offsets_have_64_bits_where_a_tensor_has_2_to_the_31_elements(rows: int, is_wide: bool) -> None:
    """By the text alone: an element's offset is an int only where the whole tensor is known to be smaller."""
    text = region_text(
        f"in X : fp16[{rows}, 16]\nin Z : fp16[16, {rows}]\nout Y : fp16[{rows}, 16]",
        f"for i0: {rows}, i1: 16\nyield Y[i0, i1] = add(X[i0, i1], Z[i1, i0])",
    )
    module = region.parse(text)
    for chosen in candidates(module, module.program.regions[0]):
        code = manifest.show(lowered(plan.Module(module, (chosen.plan,)))[1]).split("{", 1)[1]
        assert ("(long long)i0 * 16 + i1" in code) == is_wide and ("[i0 * 16 + i1" in code) != is_wide, code
        assert (f"(long long)i1 * {rows} + i0" in code) == is_wide, code


@pytest.mark.parametrize(("line", "instead", "code"), [
    ("if e < M*N - 7", "if e < M*N - 6", "E1615"),
    ("if e < M*N - 7", "if e < M*N - 9", "E1619"),
    ("let e = 1024*cta.x + 8*thread.x", "let e = 1024*cta.x + 8*thread.x + 1", "E1671"),
    ("let left = thread.x + 8*floor((M*N)/8)", "let left = thread.x + 8*floor((M*N)/8) + 1", "E1619"),
    ("if cta.x = 0", "if cta.x < 2", "E1619"),
])  # fmt: skip
def test_the_checker_sees_a_run_that_is_cut_wrongly(line: str, instead: str, code: str) -> None:
    _, tensors, body = CASES["rows of any length"]
    module = region.parse(region_text(tensors, body))
    text = gpu.show(
        to_gpu.lower(
            plan.Module(
                module,
                (
                    next(
                        c.plan
                        for c in candidates(module, module.program.regions[0])
                        if c.plan.threads == (128,) and c.plan.micro == (8,)
                    ),
                ),
            )
        )
    )
    assert line in text and check_gpu(gpu.parse(text)) == []
    assert code in {d.code for d in check_gpu(gpu.parse(text.replace(line, instead)))}
