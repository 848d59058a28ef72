"""Weights of four bits in words along the columns, as AWQ packs them, and along the sum, as GPTQ does: products of few
rows are one kernel that unpacks them in pairs and computes what playback does."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest

from tinyir.front.json import read
from tinyir.ir import manifest, plan, region
from tinyir.kernels.few_rows.match import Patch, patches_of
from tinyir.kernels.problem import Contraction, kernels_of
from tinyir.lower.plan import CROWDED, candidates
from tinyir.play.region import play as play_region
from tinyir.play.tiny import play
from tinyir.sim.host import COMPILERS

from .checked import check_gpu, check_plan
from .emitted import lowered, region_text, simulated
from .packed_words import LAYOUTS, arrays_of_words, model_of_words
from .test_packed_weights import lowered as lowered_to

needs_host_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")


def plans_along_columns(module: region.Module) -> list[plan.Plan]:
    """Those whose threads have columns side by side, and that fit an SM."""
    (one,) = module.program.regions
    found = [c.plan for c in candidates(module, one, "sm90", "h200") if c.rejected in ("", CROWDED)]
    (along,) = {a.name for a in one.iters if a.size.constant == one.outputs[0].type.shape[-1].constant}
    return [p for p in found if p.algo in ("few_rows", "one_row") and p.vectorize[0].axis == along]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [(1, 28672, 8192), (4, 4096, 4096), (64, 11008, 4096)])
def test_products_of_few_rows_are_one_kernel_that_unpacks_in_pairs(layout: str, size: tuple[int, int, int]) -> None:
    planned: Any = lowered_to(model_of_words(layout, *size, 128), "plan")
    assert [p.algo for p in planned.plans] == ["one_row" if size[0] == 1 else "few_rows"]
    text = manifest.show(lowered(planned)[1])
    assert "product_of_pairs(difference_of_pairs(raised_pair(" in text and "shift_right(" not in text
    assert {"gptq": "byte_twice((unsigned int)Q_v", "awq": "halves_of((unsigned int)Q_v"}[layout] in text


@needs_host_compiler
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rows", [1, 3, 20])
def test_words_along_columns_compute_what_playback_does(layout: str, rows: int) -> None:
    size = (layout, rows, 72, 256, 32)
    text, arrays = model_of_words(*size), arrays_of_words(*size)
    module: Any = lowered_to(text, "region")
    forms = {p.vectorize: p for p in plans_along_columns(module)}
    assert {p.widest for p in forms.values()} == ({4, 8} if layout == "awq" else {4})
    wanted = play(read(text), arrays)["Y"].astype(np.float64)
    for seed, chosen in enumerate(forms.values()):
        planned = plan.Module(module, (chosen,))
        assert [(d.code, dict(d.facts)) for d in check_plan(planned) if d.is_error] == []
        built, code = lowered(planned)
        assert check_gpu(built) == []
        given = simulated(code, arrays, seed)["Y"].astype(np.float64)
        np.testing.assert_allclose(given, wanted, rtol=4e-3, atol=8e-3, err_msg=str(chosen))


BYTES = "in A : fp16[5, 128]\nin Q : {}[128, 40]\nin S : fp16[40]\nout Y : fp32[5, 40]"
WEIGHTS = ("mul(cast(Q[k0, i1]) : fp16, S[i1])", "cast(mul(cast(Q[k0, i1]) : fp32, cast(S[i1]) : fp32)) : fp16")


def product_of(tensors: str, weight: str) -> region.Module:
    """A product of five rows, and 40 columns of a computed factor."""
    body = f"%s = reduce sum (k0: 128) : fp32 {{ mul(A[i0, k0], {weight}) : fp32 }}\nyield Y[i0, i1] = %s"
    return region.parse(region_text(tensors, f"for i0: 5, i1: 40\n{body}"))


@needs_host_compiler
@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize(("dtype", "low"), [("i8", -128), ("u8", 0)])
def test_bytes_along_columns_are_unpacked_in_pairs(dtype: str, low: int, weight: str) -> None:
    module = product_of(BYTES.format(dtype), weight)
    draws = np.random.default_rng(3)
    arrays = {
        "A": draws.standard_normal((5, 128)).astype(np.float16),
        "Q": draws.integers(low, low + 256, (128, 40)).astype({"i8": np.int8, "u8": np.uint8}[dtype]),
        "S": draws.uniform(0.01, 0.1, 40).astype(np.float16),
    }
    weights = (arrays["Q"].astype(np.float64) * arrays["S"].astype(np.float64)).astype(np.float16)
    wanted = arrays["A"].astype(np.float64) @ weights.astype(np.float64)
    for chosen in {p.widest: p for p in plans_along_columns(module)}.values():
        code = lowered(plan.Module(module, (chosen,)))[1]
        assert "product_of_pairs(" in manifest.show(code)
        np.testing.assert_allclose(simulated(code, arrays)["Y"], wanted, rtol=1e-3, atol=1e-3)


@needs_host_compiler
@pytest.mark.parametrize(("dtype", "is_paired"), [("i32", True), ("u32", False)])
def test_differences_that_wrap_are_no_differences_of_bytes(dtype: str, is_paired: bool) -> None:
    """Without a sign a difference below zero is a large number, which playback makes infinite in fp16."""
    number = f"and(shr(Q[k0, floor(i1/8)], mul(index(i1 - 8*floor(i1/8)) : {dtype}, 4)), 15)"
    tensors = f"in A : fp16[5, 128]\nin Q : {dtype}[128, 5]\nin S : fp16[40]\nout Y : fp32[5, 40]"
    module = product_of(tensors, f"mul(cast(sub({number}, 7)) : fp16, S[i1])")
    draws = np.random.default_rng(4)
    words = draws.integers(0, 1 << 32, (128, 5), np.uint32).astype({"i32": np.int32, "u32": np.uint32}[dtype])
    arrays = {"A": draws.uniform(1, 2, (5, 128)).astype(np.float16), "Q": words, "S": np.ones(40, np.float16)}
    chosen = plans_along_columns(module)[0]
    code = lowered(plan.Module(module, (chosen,)))[1]
    assert ("product_of_pairs(" in manifest.show(code)) == is_paired
    with np.errstate(all="ignore"):
        wanted = play_region(module, arrays)["Y"]
    assert np.isfinite(wanted).all() == is_paired
    np.testing.assert_allclose(simulated(code, arrays)["Y"], wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_plans_of_words_along_the_sum_are_taken(bits: int) -> None:
    """Also where the numbers of a word are more than an access has."""
    each = 32 // bits
    number = f"and(shr(Q[floor(k0/{each}), i1], mul(index(k0 - {each}*floor(k0/{each})) : i32, {bits})), {2**bits - 1})"
    tensors = f"in A : fp16[5, 128]\nin Q : i32[{128 // each}, 40]\nout Y : fp32[5, 40]"
    module = product_of(tensors, f"cast({number}) : fp16")
    plans = [c.plan for c in candidates(module, module.program.regions[0]) if c.plan.algo == "few_rows"]
    assert max(p.widest for p in plans) == (each if bits > 1 else 32)
    assert not [d.facts for p in plans for d in check_plan(plan.Module(module, (p,))) if d.code == "E1516"]


OTHERS = {
    "along both": ("Q : u8[128, 40]", "cast(Q[k0 + i1 - i1, i1]) : fp16", True),
    "of an index of both": ("Q : u8[168]", "cast(Q[k0 + i1]) : fp16", False),
    "across": ("Q : u8[40, 128]", "cast(Q[i1, k0]) : fp16", False),
    "of rows of no whole accesses": ("Q : u8[128, 42]", "cast(Q[k0, i1]) : fp16", False),
    "in memory as it is": ("Q : fp16[128, 40]", "Q[k0, i1]", False),
}


@pytest.mark.parametrize("name", OTHERS)
def test_columns_are_side_by_side_where_each_row_of_a_patch_is_whole_accesses(name: str) -> None:
    tensor, weight, is_one = OTHERS[name]
    module = product_of(f"in A : fp16[5, 128]\nin {tensor}\nout Y : fp32[5, 40]", weight)
    (one,) = module.program.regions
    (kernel,) = (kernel for kernel in kernels_of(one) if isinstance(kernel, Contraction))
    found = {patch for patch in patches_of(one, kernel) if patch.side}
    assert found == ({Patch(piece, side) for piece in (32, 16, 8) for side in (8, 4)} if is_one else set())
