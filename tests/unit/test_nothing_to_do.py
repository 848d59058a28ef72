"""What no kernel needs: values that no write reads are not computed, and a shape set in which a size is 0 ranks plans
like any other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tinyir.analysis.regions import analyse
from tinyir.ir import region
from tinyir.kernels.problem import kernels_of
from tinyir.lower import language_of, lower_to

SAMPLES = sorted((Path(__file__).resolve().parents[2] / "samples").glob("*/*.region"))
GEMM = next(path for path in SAMPLES if path.stem == "gemm_bias_relu")


@pytest.mark.parametrize("arch", ("sm80", "sm90"))
@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)
def test_a_size_of_0_in_the_shape_set_that_plans_are_ranked_for(path: Path, arch: str) -> None:
    module = region.parse(path.read_text(encoding="utf-8"))
    (first, *_) = module.model.shape_sets
    for symbol, _ in first.sizes:
        sizes = tuple((name, 0 if name == symbol else size) for name, size in first.sizes)
        model = replace(module.model, shape_sets=(replace(first, sizes=sizes),))
        kernels = lower_to("gpu", lower_to("plan", replace(module, model=model), arch), arch)
        assert [d for d in language_of("gpu").check(kernels) if d.is_error] == []


def unread() -> region.Module:
    """A product whose sum no write needs: the bias alone is written."""
    module = region.parse(GEMM.read_text(encoding="utf-8"))
    (one,) = module.program.regions
    relu = one.let("relu")
    kept = tuple(let if let is not relu else replace(relu, expr=one.let("bias_add").expr.right) for let in one.lets)
    changed = replace(one, lets=kept)
    return replace(module, program=replace(module.program, regions=(replace(changed, analysis=analyse(changed)),)))


def test_a_sum_that_no_write_needs_is_not_computed() -> None:
    module = unread()
    assert region.check(module) == []
    (one,) = module.program.regions
    assert [type(k).kind for k in kernels_of(one)] == ["map"]
    planned = lower_to("plan", module, "sm90")
    assert language_of("plan").check(planned) == []
    (made,) = planned.program.program.regions
    assert ([let.name for let in made.lets], [t.name for t in made.inputs]) == (["relu"], ["bias"])
    assert [p.family for p in planned.plans] == ["map"]


def test_a_plan_to_compute_it_is_refused() -> None:
    module = unread()
    computed = lower_to("plan", region.parse(GEMM.read_text(encoding="utf-8")), "sm90")
    said = [d.code for d in language_of("plan").check(replace(computed, program=module))]
    assert set(said) == {"E1517"}
