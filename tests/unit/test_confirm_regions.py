"""Regions that were just lowered are held against the book at a few elements: what a wrong lowering computes is a fault
of ours."""

from __future__ import annotations

import math
import random
import struct
from typing import Any

import numpy as np
import pytest

from tests.fuzz.runs import program_of
from tinyir import lower
from tinyir.ir import poly, tiny
from tinyir.ir.evaluate import numpy_dtype
from tinyir.ir.ops import OPS
from tinyir.ir.types import DTYPES
from tinyir.kit import work
from tinyir.kit.diag import Refused
from tinyir.lower import language_of, lower_to
from tinyir.play.elements import alike
from tinyir.play.scalar import Unsaid, applied

from ..commands import ROOT
from .planted import planted

SAMPLES = ROOT / "samples"
STEPS = {  # of a sample's elements, at most
    "attention_causal": 950,
    "attention_scores": 600,
    "blur_of_blur": 500,
    "conv3x3_silu": 1500,
    "cumsum": 90,
    "embedding": 60,
    "gemm_bias_relu": 200,
    "layernorm": 650,
    "mlp": 500,
    "resnet_block": 3300,
    "softmax": 480,
}
LANGUAGE = language_of("region")


def blocks_of(name: str) -> poly.Module:
    """The poly module of a sample."""
    return poly.parse((SAMPLES / name / f"{name}.poly").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", STEPS)
def test_samples_are_confirmed_in_few_steps(name: str) -> None:
    blocks = blocks_of(name)
    before = dict(work.counts)
    assert LANGUAGE.confirm(lower_to("region", blocks, "sm90"), blocks) == []
    assert work.counts["writes unconfirmed"] == before.get("writes unconfirmed", 0)
    assert 0 < work.counts["element steps"] - before.get("element steps", 0) <= STEPS[name]


def test_an_element_costs_the_same_whatever_the_sizes_are() -> None:
    def steps(depth: int) -> int:
        text = (SAMPLES / "layernorm" / "layernorm.tiny").read_text(encoding="utf-8").replace("768", str(depth))
        module: Any = lower_to("poly", lower_to("index", tiny.parse(text), "sm90"), "sm90")
        before = work.counts["element steps"]
        assert LANGUAGE.confirm(lower_to("region", module, "sm90"), module) == []
        return work.counts["element steps"] - before

    assert steps(64) == steps(4000)


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_are_not_refused(seed: int) -> None:
    module: Any = program_of(seed).module
    try:
        for stage in ("index", "poly"):
            module = lower_to(stage, module, "sm90")
        lowered = lower_to("region", module, "sm90")
    except Refused:
        return
    assert LANGUAGE.confirm(lowered, module) == []


# what changes no number by more than roundings do: what is subtracted before a softmax, and the 1e-5 of a norm
HARMLESS = {"gemm_bias_relu": 0, "softmax": 3, "layernorm": 2, "cumsum": 0}


@pytest.mark.parametrize("name", HARMLESS)
def test_planted_faults_are_found(name: str) -> None:
    blocks = blocks_of(name)
    missed, found = [], 0
    for said, wrong in planted(lower_to("region", blocks, "sm90")):
        codes = [d.code for d in LANGUAGE.confirm(wrong, blocks)]
        found += codes == ["E1414"]
        missed += [said] if not codes else []
    assert len(missed) == HARMLESS[name] and found, missed


def test_a_wrong_lowering_ends_with_70(monkeypatch: pytest.MonkeyPatch) -> None:
    right = lower.lowering_of("region").lower

    def wrong(module: Any, **how: Any) -> Any:
        return next(m for said, m in planted(right(module, **how)) if "Reduce" in said)

    monkeypatch.setattr(lower.lowering_of("region"), "lower", wrong)
    path = SAMPLES / "gemm_bias_relu" / "gemm_bias_relu.poly"
    from tinyir.cmd import tiny_region

    assert tiny_region.main([str(path), "-o", "/dev/null"]) == 70


def test_single_numbers_are_those_of_numpy() -> None:
    draw = random.Random(1)
    floats = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e300, math.inf, -math.inf, math.nan]
    for name, op in OPS.items():
        if op.numpy is None or not op.is_elementwise or op.name == "WHERE":
            continue
        for dtype in (DTYPES[d] for d in ("fp64", "i32", "u8", "i64", "bool") if DTYPES[d].kind in op.accepts):
            for _ in range(60):
                drawn = [_drawn(draw, dtype, floats) for _ in range(op.arity)]
                with np.errstate(all="ignore"):
                    arrays = [np.array(x, dtype.numpy) for x in drawn]
                    wanted = np.asarray(op.numpy(np, *arrays))
                gives = DTYPES["bool"] if op.gives == "bool" else dtype
                try:
                    given = applied(name.lower(), gives, drawn, dtype)
                except Unsaid:
                    continue
                same = np.allclose(given, wanted.astype(gives.numpy), rtol=1e-12, atol=0, equal_nan=True)
                assert same, (name, dtype.name, drawn, given, wanted)


def test_single_numbers_have_the_bits_of_numpy() -> None:
    pairs = [(DTYPES[a], DTYPES[b]) for a, b in (("fp32", "i32"), ("fp64", "i64"), ("fp16", "u16"), ("bf16", "i16"))]
    for value in (1.5, -0.1, 0.0, -0.0, math.inf, math.nan, 3e-40, -70000.0, 1 / 3):
        for float_, integer in pairs:
            with np.errstate(all="ignore"):
                held = np.array(value, np.float64).astype(numpy_dtype(float_))
            wanted = held.view(integer.numpy)
            assert applied("bitcast", integer, [value], float_) == wanted
            assert alike(applied("bitcast", float_, [int(wanted)], integer), float(held))
    half, brain = DTYPES["fp16"], DTYPES["bf16"]
    assert applied("bitcast", brain, [1.5], half) == struct.unpack("f", struct.pack("I", 0x3E00 << 16))[0]
    assert applied("bitcast", half, [1 / 3], half) == 1 / 3
    with pytest.raises(Unsaid):
        applied("bitcast", DTYPES["i8"], [1.0], DTYPES["fp8e4m3"])


def _drawn(draw: random.Random, dtype: Any, floats: list[float]) -> Any:
    if dtype.is_float:
        return draw.choice(floats) if draw.random() < 0.3 else draw.uniform(-9, 9)
    if dtype.kind == "b":
        return draw.random() < 0.5
    return draw.randint(max(dtype.lowest, -9), min(dtype.highest, 9))
