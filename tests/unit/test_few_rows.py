"""Products of few rows on tensor cores, whose large factor is computed on its way: which they are, what they compute in
the simulation, and their text."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tinyir.front.json import read
from tinyir.ir import gpu, manifest, plan, region
from tinyir.ir.gpu import nodes
from tinyir.ir.gpu.walk import statements
from tinyir.kernels.few_rows.match import pieces_of, product_of
from tinyir.kernels.problem import kernels_of
from tinyir.lower import gpu as to_gpu
from tinyir.lower.plan import CROWDED, candidates
from tinyir.play.tiny import play
from tinyir.sim.host import COMPILERS

from .checked import check_gpu, check_plan
from .emitted import lowered, region_text, simulated
from .test_packed_weights import arrays_of, model_of
from .test_packed_weights import lowered as lowered_to

needs_host_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
CASES = {  # rows, columns, depth, bits, block
    "one row, four bits": (1, 40, 256, 4, 32),
    "three rows, four bits": (3, 40, 256, 4, 32),
    "sixteen rows, eight bits": (16, 24, 128, 8, 64),
    "nine rows, two bits": (9, 16, 256, 2, 64),
    "fifty rows, four bits": (50, 24, 256, 4, 64),
}


def plans_of(module: region.Module) -> list[plan.Plan]:
    """Those of the families that fit an SM."""
    found = candidates(module, module.program.regions[0], "sm90", "h200")
    return [c.plan for c in found if c.plan.algo in ("few_rows", "one_row") and c.rejected in ("", CROWDED)]


def test_warps_without_a_piece_of_the_sum_leave_zeros() -> None:
    """Playback of the kernel has no numbers for the operands of a warp that the loop over the sum leaves out."""
    module: Any = lowered_to(model_of(9, 16, 256, 2, 64), "region")
    idle = [p for p in plans_of(module) if p.tile[1:] == (16, 512) and p.threads == (32, 1, 4) and p.widest == 32]
    assert idle and all(check_gpu(to_gpu.lower(plan.Module(module, (p,)))) == [] for p in idle)


@needs_host_compiler
@pytest.mark.parametrize("name", CASES)
def test_packed_products_compute_what_playback_does(name: str) -> None:
    size = CASES[name]
    text, arrays = model_of(*size), arrays_of(*size)
    module: Any = lowered_to(text, "region")
    found = plans_of(module)
    assert {p.algo for p in found} == {"one_row" if size[0] == 1 else "few_rows"}
    forms = {(p.stages, p.widest, p.threads[1:], p.tile[-2] // p.threads[1]): p for p in found}
    wanted = play(read(text), arrays)["Y"]
    for seed, chosen in enumerate(list(forms.values())[::5]):
        planned = plan.Module(module, (chosen,))
        assert [(d.code, dict(d.facts)) for d in check_plan(planned) if d.is_error] == []
        given = simulated(lowered(planned)[1], arrays, seed)["Y"]
        np.testing.assert_allclose(
            given.astype(np.float64), wanted.astype(np.float64), rtol=4e-3, atol=8e-3, err_msg=str(chosen)
        )


@needs_host_compiler
@pytest.mark.parametrize("rows", [1, 9])
def test_a_warp_whose_columns_are_not_there_sums_others(rows: int) -> None:
    """Three warps along the columns, of which 64 are four: nothing is read under a condition."""
    size = (rows, 64, 256, 4, 64)
    text, arrays = model_of(*size), arrays_of(*size)
    module: Any = lowered_to(text, "region")
    two = next(p for p in plans_of(module) if p.threads[1] == 2 and p.tile[-2] == 32)
    tile = (*two.tile[:-2], 48, two.tile[-1])
    three = replace(
        two, tile=tile, threads=(32, 3, two.threads[2]), predicate=(*two.predicate, "i0" if rows == 1 else "i1")
    )
    planned = plan.Module(module, (three,))
    assert [(d.code, dict(d.facts)) for d in check_plan(planned) if d.is_error] == []
    made, code = lowered(planned)
    loop = next(s for s in statements(made.launches[0].body) if isinstance(s, nodes.For))
    assert not any(isinstance(s, nodes.If) for s in statements(loop.body))
    given = simulated(code, arrays)["Y"].astype(np.float64)
    np.testing.assert_allclose(given, play(read(text), arrays)["Y"].astype(np.float64), rtol=4e-3, atol=8e-3)


def test_warps_along_the_columns_give_each_sm_a_cta() -> None:
    """Of 11008 columns 96 a CTA, in warps of 32, are 115 CTAs for 132 SMs; 64 or 128 are 172 or 86."""
    module: Any = lowered_to(model_of(64, 11008, 4096, 4, 128), "region")
    assert {p.tile[1] for p in plans_of(module) if p.threads[1] in (3, 6)} == {96}


@needs_host_compiler
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_every_weight_is_rounded_as_the_text_says(bits: int) -> None:
    """Rows that are 1 at one place each give the weights: all codes with scales of all sizes, to the bit."""
    columns, depth, block = 16, 256, 256
    text = model_of(8, columns, depth, bits, block)
    (chosen, *_) = plans_of(lowered_to(text, "region"))
    code = lowered(plan.Module(lowered_to(text, "region"), (chosen,)))[1]
    shown = manifest.show(code)
    assert "product_of_pairs(" in shown and "bytes_of(" in shown
    assert "raised(" not in shown and "two_bytes(" not in shown
    arrays = arrays_of(8, columns, depth, bits, block)
    scales = np.r_[[0.0, 6e-8, 1e-7, 3e-5, 6e-5, 1.0, 511.0, 65504.0], np.logspace(-7, 4, 8)]
    arrays["S"] = scales.astype(np.float16).reshape(columns, 1)
    found = []
    for first in range(0, depth, 8):
        arrays["A"] = np.eye(8, depth, first, dtype=np.float16)
        found.append(simulated(code, arrays)["Y"])
    codes = np.stack([arrays["Q"] >> shift & (1 << bits) - 1 for shift in range(0, 8, bits)], 2).reshape(columns, depth)
    with np.errstate(over="ignore"):
        weights = (codes.astype(np.float64) - (1 << bits - 1)) * arrays["S"].astype(np.float64)
        wanted = weights.astype(np.float16)
    finite = np.isfinite(wanted)  # infinity times 0 is in the sums of other places
    kept = np.broadcast_to(finite.all(1), (depth, columns))
    np.testing.assert_array_equal(np.concatenate(found)[kept], wanted.T[kept])


@needs_host_compiler
def test_bits_that_an_input_says_are_taken_out_of_bytes() -> None:
    size = (8, 16, 256, 8, 64)
    model, arrays = json.loads(model_of(*size)), arrays_of(*size)
    wide = next(op for op in model["graph"] if op["outputs"] == ["wide"])
    low = {"op": "Elementwise", "fn": "and", "name": "low", "inputs": ["Q", "bits"], "outputs": ["low"]}
    wide["inputs"] = ["low"]
    model["graph"].insert(0, low)
    model["tensors"]["bits"] = {"dtype": "u8", "shape": [16, 1]}
    model["signature"]["inputs"].append({"tensor": "bits"})
    text = json.dumps(model)
    arrays["bits"] = (np.arange(16, dtype=np.uint8) * 15 + 3).reshape(16, 1)
    module: Any = lowered_to(text, "region")
    code = lowered(plan.Module(module, (plans_of(module)[0],)))[1]
    wanted = play(read(text), arrays)["Y"].astype(np.float64)
    np.testing.assert_allclose(simulated(code, arrays)["Y"].astype(np.float64), wanted, rtol=4e-3, atol=8e-3)


@needs_host_compiler
def test_an_epilogue_follows_the_sum_and_halves_are_read_as_they_are() -> None:
    tensors = "in A : fp16[5, 128]\nin W : fp16[40, 128]\nin b : fp32[40]\nout Y : fp16[5, 40]\nout Z : fp32[5, 40]"
    body = (
        "for i0: 5, i1: 40\n%s = reduce sum (k0: 128) : fp32 { mul(A[i0, k0], W[i1, k0]) : fp32 }\n"
        "%y = add(%s, broadcast_in_dim(b[i1], dims=[1]))\nyield Y[i0, i1] = cast(%y) : fp16\nyield Z[i0, i1] = %s"
    )
    module = region.parse(region_text(tensors, body))
    chosen = plans_of(module)[0]
    _, code = lowered(plan.Module(module, (chosen,)))
    draws = np.random.default_rng(4)
    arrays = {
        "A": draws.standard_normal((5, 128)).astype(np.float16),
        "W": draws.standard_normal((40, 128)).astype(np.float16),
        "b": draws.standard_normal(40).astype(np.float32),
    }
    given = simulated(code, arrays)
    wanted = arrays["A"].astype(np.float64) @ arrays["W"].astype(np.float64).T
    np.testing.assert_allclose(given["Z"], wanted, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(given["Y"].astype(np.float64), wanted + arrays["b"], rtol=2e-3, atol=2e-2)


OTHERS = {
    "many rows": ("in A : fp16[17, 128]\nin W : fp16[40, 128]\nout Y : fp32[17, 40]", "A[i0, k0], W[i1, k0]"),
    "a factor across the sum": (
        "in A : fp16[5, 128]\nin W : fp16[128, 40]\nout Y : fp32[5, 40]",
        "A[i0, k0], W[k0, i1]",
    ),
    "factors of fp32": ("in A : fp32[5, 128]\nin W : fp32[40, 128]\nout Y : fp32[5, 40]", "A[i0, k0], W[i1, k0]"),
    "a sum of no whole pieces": (
        "in A : fp16[5, 100]\nin W : fp16[40, 100]\nout Y : fp32[5, 40]",
        "A[i0, k0], W[i1, k0]",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_products_are_none(name: str) -> None:
    tensors, factors = OTHERS[name]
    rows, depth = (17, 128) if "17" in tensors else (5, 100 if "100" in tensors else 128)
    fold = f"reduce sum (k0: {depth}) : fp32 {{ mul({factors}) : fp32 }}"
    body = f"for i0: {rows}, i1: 40\n%s = {fold}\nyield Y[i0, i1] = %s"
    module = region.parse(region_text(tensors, body))
    one = module.program.regions[0]
    assert plans_of(module) == []
    assert pieces_of(one, kernels_of(one)[0]) == ()


def test_each_byte_of_the_weights_is_read_once_in_whole_accesses() -> None:
    module: Any = lowered_to(model_of(4, 4096, 4096, 4, 128), "region")
    chosen = next(p for p in plans_of(module) if p.widest == 32)
    assert product_of(module.program.regions[0], kernels_of(module.program.regions[0])[0]).rows == 4
    kernels, code = lowered(plan.Module(module, (chosen,)))
    loads = [
        s
        for s in statements(kernels.kernels[0].body)
        if isinstance(s, nodes.Assign) and getattr(s.value, "tensor", "") == "Q"
    ]
    assert [s.vector for s in loads] == [chosen.widest // 2]
    assert "__syncthreads" in manifest.show(code) and "mma_m16n8k16_fp16" in manifest.show(code)


@pytest.mark.parametrize("rows", [4, 64])
def test_stages_say_how_many_steps_are_read_at_once(rows: int) -> None:
    """The compiler reads as far ahead as the registers are enough that the kernel is held to."""
    module: Any = lowered_to(model_of(rows, 4096, 4096, 4, 128), "region")
    first, *_ = (p for p in plans_of(module) if p.widest == 16)
    held = []
    for stages in (1, 2):
        kernels, code = lowered(plan.Module(module, (replace(first, stages=stages),)))
        (kernel,) = kernels.kernels
        held.append(kernel.regs)
        assert f"#pragma unroll {stages}\n  for (int c" in manifest.show(code)
        assert f"__maxnreg__({kernel.regs})" in manifest.show(code)
    assert 0 < held[0] < held[1]


def test_operands_are_made_inside_their_own_each_alone() -> None:
    module: Any = lowered_to(model_of(4, 64, 128, 4, 32), "region")
    text = gpu.show(to_gpu.lower(plan.Module(module, (plans_of(module)[0],))))
    assert "each r, k of wf" in text and "each k, m of xf" in text
    for old, new in (
        ("each k, m of xf", "each k, m of wf"),
        ("xf[k, m] =", "xf[m, k] ="),
        ("wf[r, k] =", "wf[k, r] ="),
    ):
        assert old in text
        assert [d.code for d in check_gpu(gpu.parse(text.replace(old, new, 1))) if d.is_error], (old, new)


def test_plans_of_other_shapes_are_refused() -> None:
    module: Any = lowered_to(model_of(4, 64, 128, 4, 32), "region")
    chosen = plans_of(module)[0]
    for other in ({"threads": (32, 2)}, {"tile": (4, *chosen.tile[1:])}, {"vectorize": ()}):
        edited = plan.Module(module, (replace(chosen, **other),))
        assert {d.code for d in check_plan(edited) if d.is_error}
    assert {d.code for d in check_plan(plan.Module(module, (replace(chosen, vectorize=()),))) if d.is_error}


@pytest.mark.parametrize("bits", [4, 8])
def test_sixty_rows_unpack_weights_beside_their_product(bits: int) -> None:
    module: Any = lowered_to(model_of(60, 4096, 4096, bits, 128), "plan")
    (chosen,) = module.plans
    assert chosen.algo == "few_rows" and chosen.tile[0] == 64


@pytest.mark.parametrize(("columns", "depth", "each"), [(28672, 8192, 64), (4096, 4096, 32)])
def test_a_warp_has_as_many_columns_as_leave_work_for_all(columns: int, depth: int, each: int) -> None:
    """Each warp reads all rows: with 64 columns half as often as with 32."""
    module: Any = lowered_to(model_of(64, columns, depth, 4, 128), "plan")
    (chosen,) = module.plans
    assert chosen.tile[1] // chosen.threads[1] == each


@pytest.mark.parametrize("rows", [1, 16])
def test_weights_are_loaded_past_the_cache_that_rows_stay_in(rows: int) -> None:
    """Scales, of which a line serves several steps, and rows, which every CTA reads, go the usual way."""
    module: Any = lowered_to(model_of(rows, 4096, 4096, 4, 128), "plan")
    code = lowered(module)[1]
    (body,) = re.findall(r'extern "C".*', manifest.show(code), re.DOTALL)
    loads = [line for line in body.splitlines() if re.search(r"[&= ][QSA]\[", line)]
    assert {name for name in "QSA" for line in loads if f"{name}[" in line and "_line" in line} == {"Q"}
    assert all("_line" in line for line in loads if "&Q[" in line)


def test_rows_are_read_a_group_at_a_time() -> None:
    """Of many rows a thread holds no more than a group of elements, whatever it takes of a column at once."""
    module: Any = lowered_to(model_of(64, 4096, 4096, 4, 128), "region")
    held = {}
    for chosen in plans_of(module)[::4]:
        kernels, _ = lowered(plan.Module(module, (chosen,)))
        (rows,) = (s for s in statements(kernels.kernels[0].body) if isinstance(s, nodes.Reg) and s.name == "x.v")
        held.setdefault(chosen.widest, set()).add(tuple(e.evaluate({}) for e in rows.type.shape))
    assert len(held) > 1 and {shape for shapes in held.values() for shape in shapes} == {(8, 8)}
