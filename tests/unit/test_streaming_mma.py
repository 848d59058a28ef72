"""Attention by warps on tensor cores: what the family takes, its kernel against playback in the simulation under orders
of threads drawn anew, and faults planted in its text."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import ml_dtypes  # noqa: F401  gives NumPy the name bfloat16
import numpy as np
import pytest

from tests.bench import decode
from tinyir.ir import gpu, manifest, plan
from tinyir.kernels.resources import threads_of
from tinyir.lower import gpu as to_gpu
from tinyir.lower import plan as to_plan
from tinyir.play import tiny as play_tiny
from tinyir.target.arch import ARCHS

from .checked import assert_holds, check_gpu, check_plan
from .emitted import complaints_of, lowered, played, simulated
from .naive_attention import arrays_of as naive_arrays_of
from .naive_attention import naive
from .stages import needs_host_compiler
from .test_attention import SPELLINGS, is_near, planted, text_of
from .test_flash import CASES as OF_FLASH
from .test_flash import FP16, TOLERANCE
from .test_kernels_compile import has_compiler
from .test_needs import declared
from .test_streaming import arrays_of, attention, regions_of

ALGO = "streaming_mma"
CASES: dict[str, dict[str, Any]] = {
    **OF_FLASH,
    "rows of 8 bytes": {"d": 20, "e": 36, "s": 40, "t": 90},
    "rows of 4 bytes, causal": {"d": 18, "e": 10, "s": 90, "t": 90, "causal": True},
    "rows of no whole access": {"d": 17, "e": 33, "s": 40, "t": 70},
    "two columns": {"t": 2, "d": 64},
}


def assert_equals_playback(module: plan.Module, arrays: dict[str, np.ndarray], seed: int = 0) -> None:
    """The output is near playback's, and NaN where that is."""
    assert module.plans[0].algo == ALGO
    _, code = lowered(module)
    dtype = module.program.model.outputs[0].type.dtype.name
    found, wanted = (run["O"].astype(np.float64) for run in (simulated(code, arrays, seed), played(code, arrays)))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_allclose(found, wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def fitting(module: Any, arch: str = "sm80") -> list[plan.Plan]:
    """The family's plans that a card can run."""
    found = to_plan.candidates(module, module.program.regions[0], arch)
    return [c.plan for c in found if c.rejected in ("", to_plan.CROWDED) and c.plan.algo == ALGO]


@needs_host_compiler
@pytest.mark.parametrize("name", CASES)
def test_the_default_plan_equals_playback(name: str) -> None:
    number = list(CASES).index(name)
    module = to_plan.lower(regions_of(attention(**{**FP16, **CASES[name]})), "sm80")
    assert_equals_playback(module, arrays_of(module.program, {}, number), number % 3)


@needs_host_compiler
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("tile", [(64, 64), (128, 32), (256, 64)])
def test_every_count_of_warps_in_every_order(tile: tuple[int, int], seed: int) -> None:
    """Warps of 16 and of 32 rows, two and three stages, blocks that divide nothing, two orders of threads."""
    module = regions_of(attention(causal=True, s=260, t=270, offset=10, d=64, **FP16))
    found = [p for p in fitting(module) if p.tile[:2] == tile]
    assert_equals_playback(plan.Module(module, (found[seed % len(found)],)), arrays_of(module, {}, seed), seed)


@needs_host_compiler
@pytest.mark.parametrize("size", [(1, 1, 1), (2, 17, 70), (1, 64, 330), (1, 5, 0)])
@pytest.mark.parametrize("attrs", [{"causal": True, "offset": 3}, {}], ids=["causal", "full"])
def test_sizes_that_the_plan_was_not_made_for(size: tuple[int, int, int], attrs: dict[str, Any]) -> None:
    module = to_plan.lower(regions_of(attention(batch="B", s="S", t="T", d=64, **attrs, **FP16)), "sm80")
    assert_equals_playback(module, arrays_of(module.program, dict(zip("BST", size)), 5))


@needs_host_compiler
def test_rows_of_minus_infinity_and_numbers_that_are_none() -> None:
    """A block that is masked before the first that is not; a row that is masked whole; NaN and +inf among the
    scores."""
    mask = np.zeros((1, 1, 33, 200), np.float16)
    mask[0, 0, 3] = mask[0, 0, 5, :180] = mask[0, 0, 6, 20:] = -np.inf
    mask[0, 0, 7, 4], mask[0, 0, 9, 199] = np.nan, np.inf
    module = regions_of(attention(t=200, mask="fp16", d=64, **FP16))
    one = next(p for p in fitting(module) if p.tile[1] == 64)
    assert_equals_playback(plan.Module(module, (one,)), {**arrays_of(module, {}, 1), "mask": mask}, 1)


OUTGROWN = ("no maximum", "guard without a maximum", "gain of a column")  # weights may outgrow halves
UNFETCHED = ("another layout", "another width")  # no box has the depth along its rows, or whole 16 bytes
SPELLED = {
    name: replace(how, dtype="bf16" if name in OUTGROWN else "fp16")
    for name, how in SPELLINGS.items()
    if name not in ("safe", "two products")  # another fold of a row, and a factor of fp32
}


@needs_host_compiler
@pytest.mark.parametrize("arch", ["sm80", "sm90"])
@pytest.mark.parametrize("name", SPELLED)
def test_every_spelling_gives_what_tiny_playback_gives(name: str, arch: str) -> None:
    """In 16 bits each is one kernel on tensor cores, on sm90 by wgmma: log-sum-exp as an output, dropout, guards,
    tables, any layout."""
    how = SPELLED[name]
    module = to_plan.lower(text_of(how), arch)
    (algo,) = (p.algo for p in module.plans if len(p.regions) == 2)
    assert algo == (ALGO if arch == "sm80" or name in UNFETCHED else "streaming_softmax")
    arrays = naive_arrays_of(naive(how), 1, None if how.layout[0] != "hsd" else planted)
    with np.errstate(all="ignore"):
        wanted = play_tiny.play(naive(how), arrays)
    is_near(simulated(lowered(module)[1], arrays), wanted, 5e-3 if how.dtype == "fp16" else 4e-2)


# --- which plans


def test_it_is_the_default_of_sm80_and_where_the_copy_engine_cannot_fetch() -> None:
    for model, arch, algo in (
        ({"d": 64, **FP16}, "sm80", ALGO),
        ({"d": 36, **FP16}, "sm90", ALGO),
        ({"d": 64, **FP16}, "sm90", "streaming_softmax"),
        ({"d": 64, "dtype": "fp32"}, "sm80", "streaming"),
    ):
        module = to_plan.lower(regions_of(attention(s=512, t=512, **model)), arch)
        assert module.plans[0].algo == algo, model
        assert [d.code for d in check_plan(module) if d.is_error] == []


def test_every_candidate_is_a_plan_that_holds() -> None:
    module = regions_of(attention(d=128, s=700, t=700, causal=True, **FP16))
    kept = fitting(module)
    assert len(kept) > 5
    for one in kept:
        assert_holds(module, one)


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("tile", (96, 64, 64), "E1509"),
        ("tile", (64, 72, 64), "E1519"),
        ("tile", (128, 64, 32), "E1525"),
        ("warp_tile", (64, 64), "E1509"),
        ("stages", 1, "E1525"),
        ("load", (), "E1525"),
        ("cluster", plan.Cluster((2, 1)), "E1511"),
        ("barrier", "cta", "E1525"),
    ],
)
def test_what_the_template_cannot_obey_is_refused(field: str, value: Any, code: str) -> None:
    module = regions_of(attention(d=64, s="S", t=512, **FP16))
    one = next(p for p in fitting(module) if p.tile[:2] == (128, 64))
    found = [d.code for d in check_plan(plan.Module(module, (replace(one, **{field: value}),))) if d.is_error]
    assert code in found, found


# --- text


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        ("wait_group cp_async pending 0 for", "wait_group cp_async pending 1 for", "E1613"),
        ("    barrier cta\n", "", "E1613"),
        ("cursor next ring 2 at 1", "cursor next ring 2", "E1613"),
        ("row_reduce max sc into top", "row_reduce max p into top", "E1602"),
        ("total : fp32[32] mma_row_parts", "total : fp32[16] mma_row_parts", "E1602"),
        ("total : fp32[32] mma_row_parts", "total : fp32[32] mma_rows", "E1602"),
        ("top : fp32[32] mma_rows", "top : fp32[64] rows", "E1602"),
        ("total[r] = mul(total[r], change[r])", "total[r] = add(total[r], change[r])", "E1602"),
        ("p[r, n] = cast(sc[r, n]) : fp16", "p[n, r] = cast(sc[r, n]) : fp16", "E1602"),
        ("reg p : fp16[32, 64] mma_a", "reg p : fp16[32, 32] mma_a", "E1602"),
        ("reg p : fp16[32, 64] mma_a", "reg p : fp16[16, 64] mma_a", "E1602"),
        ("mma acc += p[0, 16] *", "mma acc += p[0, 8] *", "E1602"),
        ("mma acc += p[0, 16] *", "mma acc += p *", "E1602"),
        ("mma sc += qf * kf", "mma sc += qf * vf", "E1605"),  # not there yet
        ("mma acc += p[0, 0] * vf", "mma acc += p[0, 0] * kf", "E1602"),  # of other columns
    ],
)
def test_planted_faults_are_caught(before: str, after: str, code: str) -> None:
    module = regions_of(attention(d=128, s="S", t="S", causal=True, **FP16))
    one = next(p for p in fitting(module) if (*p.tile[:2], p.warp_tile[0], p.stages) == (128, 64, 32, 2))
    text = gpu.show(to_gpu.lower(plan.Module(module, (one,))))
    assert before in text
    found = {d.code for d in check_gpu(gpu.parse(text.replace(before, after, 1))) if d.is_error}
    assert code in found, found


@pytest.mark.skipif(not has_compiler(), reason="neither nvcc nor NVRTC")
@pytest.mark.parametrize("arch", ["sm80", "sm90"])
@pytest.mark.parametrize("depth", [64, 256])
def test_it_compiles_without_spills(depth: int, arch: str) -> None:
    module = regions_of(attention(d=depth, s=4096, t=4096, batch=4, heads=8, causal=True, **FP16))
    one = min(fitting(module, arch), key=lambda p: p.estimate.microseconds)
    text = manifest.show(lowered(plan.Module(module, (one,)))[1])
    assert complaints_of(text, {"sm80": "sm_80", "sm90": "sm_90a"}[arch]) == [], one


def test_a_plan_declares_all_registers_that_leave_as_many_ctas() -> None:
    module = regions_of(attention(d=128, s=4096, t=4096, heads=8, **FP16))
    for one in fitting(module, "sm90"):
        needs, arch = declared(module, one), ARCHS[one.arch]
        registers = needs.registers, needs.registers + 8
        held, more = (arch.ctas_that_fit(needs.smem, count, threads_of(one)) for count in registers)
        assert held >= 1 and (more < held or needs.registers == arch.registers_per_thread), plan.show_plan(one)


@pytest.mark.skipif(not has_compiler(), reason="neither nvcc nor NVRTC")
def test_chunks_of_one_query_compile_without_spills() -> None:
    """216 registers, as many as arrays and what is beside them were counted as, spilled 112 bytes."""
    text = decode.emitted(decode.Case(8, 32, 8, 4096))
    assert text is not None and "streaming_mma" in text
    assert complaints_of(text, "sm_90a") == []


@pytest.mark.parametrize("depth", [64, 128])
def test_a_block_takes_few_instructions_beside_its_products(depth: int) -> None:
    """The two words of a right operand are neighbours, which the instruction asks for; copies are counted by turns, so
    that the places of all of them are one place and constants."""
    module = regions_of(attention(d=depth, s="S", t="S", heads=8, **FP16))
    (one,) = (p for p in fitting(module, "sm80") if (p.tile[:2], p.warp_tile[0], p.stages) == ((128, 64), 32, 2))
    text = manifest.show(lowered(plan.Module(module, (one,)))[1])
    assert text.count("  add_products_fp16(") == 2 * (depth // 16 + 64 // 16)  # a cut block, and the whole ones
    products = re.findall(r"mma_m16n8k16_fp16\(d\[i\]\[j\], (.*), (.*), (.*)\);", text)
    assert products == [("a[i]", "b[j / 2][2 * (j % 2)]", "b[j / 2][2 * (j % 2) + 1]")]
    loops = re.findall(r"for \(int (\w+) = \w+; .*\n(?:.*const int.*\n)*.*cp_async_16", text)
    assert loops == ["turn"] * 7  # the query once, key and value thrice
