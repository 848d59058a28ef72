"""That the plans of a kernel take every size is proven, and a gap is found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tinyir.analysis.coverage import coverage_of, takers_of, uncovered
from tinyir.ir import gpu, manifest, plan
from tinyir.ir.expr import Bound, Expr
from tinyir.kit.records import replace

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = sorted(p.parent.name for p in (ROOT / "samples").glob("*/*.plan"))


def read(name: str, suffix: str) -> str:
    return (ROOT / "samples" / name / f"{name}.{suffix}").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SAMPLES)
def test_every_size_of_a_sample_has_a_plan(name: str) -> None:
    for language, suffix in ((plan, "plan"), (gpu, "gpu")):
        text = coverage_of(language.parse(read(name, suffix)))
        assert "shown" in text and "open" not in text


def test_a_cuda_text_says_up_to_which_size_its_kernels_count() -> None:
    text = coverage_of(manifest.parse(read("resnet_block", "cu")))
    assert text.count("isl: { [] : 684764 <= N <= 2147483647 }") == text.count("open")


def test_a_planted_gap_is_found_with_its_sizes() -> None:
    module = plan.parse(read("gemm_bias_relu", "plan"))
    last = module.plans[-1]
    low, high = (
        replace(last, assume=(Bound(Expr.of("M"), *sides),))
        for sides in ((Expr.of(0), Expr.of(50)), (Expr.of(60), Expr.of(1 << 31)))
    )
    planted = replace(module, plans=(*module.plans[:1], low, high))
    text = coverage_of(planted)
    assert "open   no plan takes these sizes" in text and "50 <= M <= 59" in text
    whole = replace(module, plans=(*module.plans[:1], low, replace(high, assume=(Bound(Expr.of("M"), Expr.of(50)),))))
    assert "shown  every size has one\n" in coverage_of(whole)


def test_isl_and_numbers_say_the_same() -> None:
    module = plan.parse(read("gemm_bias_relu", "plan"))
    model, takers = takers_of(replace(module, plans=module.plans[:1]))
    left = uncovered(model, takers)
    draw = np.random.default_rng(0)
    for _ in range(50):
        sizes = {s: int(n) for s, n in zip(model.symbols(), draw.choice([0, 1, 7, 8, 16, 24, 33], 3))}
        point = left
        for symbol, size in sizes.items():
            point = point.intersect(
                left.__class__.read_from_str(left.get_ctx(), f"[{symbol}] -> {{ [] : {symbol} = {size} }}")
            )
        assert point.is_empty() == all(b.holds(sizes) for b in takers[0].assumes)


def test_an_assumption_that_is_not_affine_is_open() -> None:
    module = plan.parse(read("gemm_bias_relu", "plan"))
    odd = replace(module.plans[-1], assume=(Bound(Expr.of("M") * Expr.of("N"), Expr.of(1)),))
    assert "isl cannot say" in coverage_of(replace(module, plans=(odd,)))
