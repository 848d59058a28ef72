"""Attention as one kernel: what two regions must be for it, and the emitted kernel against playback in the simulation,
over sizes that divide nothing, masks of every kind, grouped heads, dtypes and plans."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinyir.front.json import read
from tinyir.ir import gpu, manifest, plan, region
from tinyir.kernels.attention import Streaming, streaming_of, tile_is_touched
from tinyir.lower import gpu as to_gpu
from tinyir.lower import index, poly
from tinyir.lower import plan as to_plan
from tinyir.lower import region as to_region
from tinyir.sim.host import COMPILERS

from .checked import check_gpu, check_plan
from .emitted import TARGETS, complaints_of, lowered, played, simulated
from .test_kernels_compile import has_compiler

DESIGN = Path(__file__).resolve().parents[1] / "golden" / "design" / "attention_causal.region"
needs_host_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler")


def attention(
    heads: int = 2,
    kv: int = 0,
    s: Any = 33,
    t: Any = 41,
    d: int = 16,
    e: int = 0,
    dtype: str = "fp32",
    mask: str = "",
    batch: Any = 1,
    **attrs: Any,
) -> str:
    """A model of one Attention. `mask` is the dtype of a mask [1, 1, s, t]."""
    shapes = {"Q": [batch, heads, s, d], "K": [batch, kv or heads, t, d], "V": [batch, kv or heads, t, e or d]}
    tensors = {
        name: {"dtype": dtype, "shape": shape} for name, shape in (*shapes.items(), ("O", [batch, heads, s, e or d]))
    }
    if mask:
        tensors["mask"] = {"dtype": mask, "shape": [1, 1, s, t]}
    inputs = [*shapes, *(["mask"] if mask else [])]
    graph = [{"op": "Attention", "name": "attention", "inputs": inputs, "outputs": ["O"], "attrs": attrs}]
    return json.dumps(
        {
            "signature": {"inputs": [{"tensor": n} for n in inputs], "outputs": [{"tensor": "O"}]},
            "tensors": tensors,
            "graph": graph,
        }
    )


def regions_of(text: str) -> region.Module:
    return to_region.lower(poly.lower(index.lower(read(text))))


def planned(text: str, number: int = 0, algo: str = "streaming") -> plan.Module:
    """The model planned, its attention by candidate `number` of those of the algo that fit."""
    module = regions_of(text)
    first = module.program.regions[0]
    found = to_plan.candidates(module, first)
    fitting = [c.plan for c in found if c.rejected in ("", to_plan.CROWDED) and c.plan.algo == algo]
    chosen = to_plan.lower(module)
    one = fitting[number % len(fitting)]
    return plan.Module(chosen.program, tuple(one if p.regions == one.regions else p for p in chosen.plans))


def arrays_of(module: region.Module, sizes: dict[str, int], seed: int) -> dict[str, np.ndarray]:
    draw, found = np.random.default_rng(seed), {}
    for tensor in module.model.inputs:
        shape = [n.evaluate(sizes) for n in tensor.type.shape]
        if tensor.type.dtype.kind == "b":
            found[tensor.name] = draw.random(shape) < 0.6
        else:
            wide = draw.standard_normal(shape)
            kind = tensor.type.dtype.numpy
            found[tensor.name] = wide.astype(
                pytest.importorskip("ml_dtypes").bfloat16 if tensor.type.dtype.name == "bf16" else kind
            )
    return found


def assert_equals_playback(module: plan.Module, arrays: dict[str, np.ndarray], tolerance: float) -> None:
    """The outputs are near playback's, and NaN where those are."""
    _, code = lowered(module)
    found, wanted = simulated(code, arrays)["O"].astype(np.float64), played(code, arrays)["O"].astype(np.float64)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


CASES: dict[str, tuple[dict[str, Any], float]] = {
    "full": ({}, 1e-5),
    "causal": ({"causal": True, "s": 70, "t": 70, "d": 64, "dtype": "fp16"}, 3e-3),
    "causal with a past": (
        {"causal": True, "offset": 30, "s": 40, "t": 70, "d": 128, "heads": 1, "dtype": "bf16"},
        2e-2,
    ),
    "a row that sees nothing": ({"causal": True, "offset": -10, "s": 40}, 1e-5),
    "window and cap": ({"causal": True, "window": 9, "softcap": 15.0, "s": 70, "t": 70}, 1e-5),
    "bool mask": ({"mask": "bool", "d": 32, "dtype": "fp16"}, 3e-3),
    "added mask, grouped heads": ({"mask": "fp16", "heads": 4, "kv": 2, "d": 32, "dtype": "fp16"}, 3e-3),
    "one key head for all": ({"heads": 3, "kv": 1, "causal": True}, 1e-5),
    "odd depth, another width": ({"d": 20, "e": 24}, 1e-5),
    "depth of no whole access, narrow values": ({"d": 17, "e": 5, "dtype": "fp64"}, 1e-12),
    "two columns": ({"t": 2}, 1e-5),
    "whole tiles": ({"s": 64, "t": 64, "d": 32}, 1e-5),
}


@needs_host_compiler
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("name", CASES)
def test_the_kernel_equals_playback(name: str, number: int) -> None:
    model, tolerance = CASES[name]
    module = planned(attention(**model), 0 if number == 0 else 3 + 5 * list(CASES).index(name))
    assert module.plans[0].algo == "streaming" and len(module.plans[0].regions) == 2
    assert_equals_playback(module, arrays_of(module.program, {}, number), tolerance)


@needs_host_compiler
@pytest.mark.parametrize("size", [(1, 1, 1), (2, 17, 70), (1, 64, 33)])
def test_sizes_that_the_plan_was_not_made_for(size: tuple[int, int, int]) -> None:
    module = planned(attention(batch="B", s="S", t="T", causal=True, offset=3))
    assert_equals_playback(module, arrays_of(module.program, dict(zip("BST", size)), 5), 1e-5)


@needs_host_compiler
def test_rows_of_minus_infinity_and_numbers_that_are_none() -> None:
    """A tile that is masked before the first that is not; a row that is masked whole; NaN and +inf among the scores."""
    mask = np.zeros((1, 1, 33, 100), np.float32)
    mask[0, 0, 3] = mask[0, 0, 5, :80] = mask[0, 0, 6, 80:] = -np.inf
    mask[0, 0, 7, 4], mask[0, 0, 9, 99] = np.nan, np.inf
    for number in (0, 7):
        module = planned(attention(t=100, mask="fp32"), number)
        assert_equals_playback(module, {**arrays_of(module.program, {}, 1), "mask": mask}, 1e-5)


@needs_host_compiler
def test_a_plain_softmax_of_nothing_is_nan() -> None:
    """Without the op's own rule for empty rows: the region's softmax of a row of -inf is NaN, and so is the
    kernel's."""
    text = DESIGN.read_text(encoding="utf-8").replace("0 <= i2 - i3 else", "0 <= i2 - i3 - 2 else")
    module = to_plan.lower(region.parse(text))
    _, code = lowered(module)
    arrays = arrays_of(module.program, {"B": 1, "H": 1, "S": 20}, 2)
    found = simulated(code, arrays)["O"]
    assert np.isnan(found[0, 0, :2]).all() and not np.isnan(found[0, 0, 2:]).any()


# --- structure


def test_the_structure_alone_decides() -> None:
    """Each change of the regions that breaks the algebra is named; no name of an op or a value is asked."""
    text = DESIGN.read_text(encoding="utf-8")
    assert isinstance(_streamed(text), Streaming)
    assert isinstance(_streamed(text.replace("%max", "%a").replace("qk", "x").replace("Attention", "Other")), Streaming)
    for before, after, reason in (
        ("reduce max (i3)", "reduce min (i3)", "greatest element"),
        ("mul(%shift, 1.442695)", "mul(%shift, -1.442695)", "greatest element"),
        ("exp2(mul(%shift, 1.442695))", "tanh(mul(%shift, 1.442695))", "exponential"),
        ("fdiv(%e, broadcast_in_dim(%z, dims=[0, 1, 2]))", "mul(%e, %e)", "not linear"),
        (
            "reduce sum (k0: S) : fp32 { mul(P[i0, i1, i2, k0]",
            "reduce max (k0: S) : fp32 { mul(P[i0, i1, i2, k0]",
            "not one sum",
        ),
        ("V[i0, i1, k0, i3]", "V[i0, i1, i2, i3]", ""),
    ):
        assert before in text
        found = _streamed(text.replace(before, after))
        assert isinstance(found, str) and reason in found, (before, found)


def _streamed(text: str) -> Streaming | str:
    return streaming_of(*region.parse(text).program.regions)


def test_a_row_that_must_be_whole_is_not_streamed() -> None:
    """A normalisation before a product: its rows are in memory, and each region has a plan of its own."""
    tensors = {"x": [8, 16], "w": [16, 32], "g": [32], "b": [32], "v": [32, 4]}
    graph = [
        {"op": "MatMul", "name": "up", "inputs": ["x", "w"], "outputs": ["h"]},
        {"op": "LayerNorm", "name": "norm", "inputs": ["h", "g", "b"], "outputs": ["n"], "attrs": {"axis": -1}},
        {"op": "MatMul", "name": "down", "inputs": ["n", "v"], "outputs": ["y"]},
    ]
    shapes = {**tensors, "h": [8, 32], "n": [8, 32], "y": [8, 4]}
    text = json.dumps(
        {
            "signature": {"inputs": [{"tensor": n} for n in tensors], "outputs": [{"tensor": "y"}]},
            "graph": graph,
            "tensors": {n: {"dtype": "fp32", "shape": shape} for n, shape in shapes.items()},
        }
    )
    module = regions_of(text)
    assert not any(t.attr("materialize") == "deferred" for t in module.program.buffers)
    assert all(len(p.regions) == 1 for p in to_plan.lower(module).plans)


def test_tiles_outside_the_masks_are_skipped() -> None:
    """The guard of a tile holds exactly where one of its points is inside, for causal masks and windows, counted point
    by point."""
    module = regions_of(attention(s=20, t=24, causal=True, window=7))
    first, second = module.program.regions[:2]
    kernel = streaming_of(first, second)
    for rows, columns in ((4, 4), (5, 3), (1, 8)):
        for m in range(0, 20, rows):
            for n in range(0, 24, columns):
                guard = tile_is_touched(kernel, first, (rows, columns), (gpu.nodes.Expr.of(m), gpu.nodes.Expr.of(n)))
                inside = any(0 <= i - j < 7 for i in range(m, m + rows) for j in range(n, n + columns))
                assert all(b.holds({}) for b in guard) == inside, (m, n)


# --- text


@pytest.mark.parametrize(
    "before, after, code",
    [
        ("      barrier cta\n      reg sc", "      reg sc", "E1613"),
        ("      barrier cta\n      for cc", "      for cc", "E1613"),
        (" where i2 < T else 0.0", "", "E1615"),
        ("    if i1 < S\n      %norm", "    if i1 < S + 1\n      %norm", "E1615"),
        ("let i1 = m0 + r", "let i1 = m0 + r", ""),
        ("if 0 <= m0 - n0 + ", "if 0 <= thread.x + m0 - n0 + ", "E1609"),
    ],
    ids=[
        "scores before the tiles are whole",
        "weights before they are",
        "a copy past the end",
        "a write past the end",
        "none",
        "not by all threads",
    ],
)
def test_planted_faults_are_caught(before: str, after: str, code: str) -> None:
    text = gpu.show(to_gpu.lower(planned(attention(s="S", t="T", causal=True))))
    assert before in text or not code
    assert {d.code for d in check_gpu(gpu.parse(text.replace(before, after, 1))) if d.is_error} == (
        {code} if code else set()
    )


@pytest.mark.skipif(not has_compiler(), reason="neither nvcc nor NVRTC")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "model",
    [
        {"d": 64, "s": 170, "t": 170, "causal": True, "dtype": "fp16"},
        {"d": 128, "mask": "bool", "heads": 4, "kv": 2},
        {"d": 17, "e": 5, "dtype": "fp64"},
    ],
    ids=["causal", "masked", "odd"],
)
def test_it_compiles_clean(model: dict[str, Any], target: str) -> None:
    module = regions_of(attention(**model))
    arch = "sm80" if target == "sm_80" else "sm90"
    assert complaints_of(manifest.show(lowered(to_plan.lower(module, arch))[1]), target) == []


def test_every_candidate_is_a_plan_that_holds() -> None:
    module = regions_of(attention(d=64, s=70, t=70))
    found = to_plan.candidates(module, module.program.regions[0])
    kept = [c.plan for c in found if c.rejected in ("", to_plan.CROWDED)]
    assert len(kept) > 20
    for one in kept:
        held = plan.Module(module, (one,))
        assert [d.code for d in check_plan(held) if d.is_error] == [], one
        assert plan.parse(plan.show(held)) == held
