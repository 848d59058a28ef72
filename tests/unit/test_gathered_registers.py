"""What is gathered of one tensor at several places is held in registers of its own for each: no plan is made whose
arrays take more of them than a thread has."""

from __future__ import annotations

import pytest

from tinyir.ir import plan, region
from tinyir.ir.region import Region
from tinyir.kernels.parts.kept import bytes_beside, words_beside
from tinyir.lower import gpu as to_gpu
from tinyir.lower.plan.choose import candidates

from .checked import check_gpu


def recurrent(steps: int) -> region.Module:
    """`h = a[n] * h + b[n]` in one region, each state written: a scan that an exporter unrolled."""
    row, whole = "fp32[1024, 16]", f"fp32[1024, {steps}, 16]"
    tensors = [f"  in  a : {whole}", f"  in  b : {whole}", f"  in  h : {row}"]
    tensors += [f"  out y{n} : {row}" for n in range(steps)]
    body = []
    for n in range(steps):
        before = f"%y{n - 1}" if n else "h[i0, i1]"
        body += [
            f"    %a{n} = gather (k0: {steps} = {n} : i64) {{ a[i0, k0, i1] }}",
            f"    %b{n} = gather (k0: {steps} = {n} : i64) {{ b[i0, k0, i1] }}",
            f"    %y{n} = add(mul(%a{n}, {before}), %b{n})",
        ]
    body += [f"  yield y{n}[i0, i1] = %y{n}" for n in range(steps)]
    head = ["tinyir 1.0 region", "", "model m", *tensors, "", "program m", "", "region r"]
    return region.parse("\n".join([*head, *tensors, "  for i0: 1024, i1: 16", *body]) + "\n")


def only(module: region.Module) -> Region:
    (one,) = module.program.regions
    return one


def test_each_place_is_counted() -> None:
    """Two factors a step, the first state, and what each step writes; in memory they are the same lines."""
    for steps in (1, 4):
        one = only(recurrent(steps))
        assert words_beside(one, {"i1"}, False) == 2 * steps + 1 + steps
        assert bytes_beside(one, {"i1"}) == 3 * 4


@pytest.mark.parametrize("steps", [4, 26])
def test_no_plan_takes_more_than_there_are(steps: int) -> None:
    """Each plan that is worth trying becomes a kernel that the checker lets pass."""
    module = recurrent(steps)
    tried = [c.plan for c in candidates(module, only(module)) if not c.rejected]
    assert len(tried) > 2
    for one in tried:
        found = to_gpu.lower(plan.Module(module, (one,)))
        assert [(d.code, d.facts.get("used")) for d in check_gpu(found) if d.is_error] == []
