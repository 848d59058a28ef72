"""The checks that the pipeline makes of plan and gpu text, those of the families included."""

from __future__ import annotations

from tinyir.ir import plan, region
from tinyir.lower import gpu as to_gpu
from tinyir.lower import language_of

check_plan = language_of("plan").check
check_gpu = language_of("gpu").check


def assert_holds(module: region.Module, one: plan.Plan) -> None:
    """A plan is one that the checkers and its text take, and so is its kernel."""
    held = plan.Module(module, (one,))
    assert [d.code for d in check_plan(held) if d.is_error] == [], one
    assert plan.parse(plan.show(held)) == held
    assert [(d.code, dict(d.facts)) for d in check_gpu(to_gpu.lower(held)) if d.is_error] == []
