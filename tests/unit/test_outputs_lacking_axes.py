"""A second output that lacks one of a kernel's axes is written once, by whichever template: no two threads write one
element."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tinyir.ir import plan, region
from tinyir.lower import plan as to_plan
from tinyir.sim.host import COMPILERS

from .emitted import lowered, played, simulated

pytestmark = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")

CONTRACTION = """tinyir 1.0 region

model m
  in  A : fp16[3, 80, 200]
  in  B : fp16[3, 200, 72]
  in  s : fp16[{shape}]
  out C : fp16[3, 80, 72]
  out D : fp16[{shape}]

program m

region m
  in  A : fp16[3, 80, 200]
  in  B : fp16[3, 200, 72]
  in  s : fp16[{shape}]
  out C : fp16[3, 80, 72]
  out D : fp16[{shape}]
  for i0: 3, i1: 80, i2: 72
    %d = relu(s[{index}])
    %gemm = reduce sum (k0: 200) : fp32 {{ mul(A[i0, i1, k0], B[i0, k0, i2]) : fp32 }}
    %sum = add(%gemm, broadcast_in_dim(cast(%d) : fp32, dims=[{dims}]))
  yield C[i0, i1, i2] = cast(%sum) : fp16
  yield D[{index}] = %d
"""
OTHERS = """tinyir 1.0 region

model m
  in  A : fp16[3, 80, 72]
  in  s : fp16[{shape}]
  out C : fp16[{made_shape}]
  out D : fp16[{shape}]

program m

region m
  in  A : fp16[3, 80, 72]
  in  s : fp16[{shape}]
  out C : fp16[{made_shape}]
  out D : fp16[{shape}]
  for i0: 3, i1: 80, i2: 72
    %d = relu(s[{index}])
    %sum = add(A[i0, i1, i2], broadcast_in_dim(%d, dims=[{dims}]))
    %made = {made}
  yield C[{made_index}] = %made
  yield D[{index}] = %d
"""
EVERY = {"made_shape": "3, 80, 72", "made_index": "i0, i1, i2"}
TEXTS = {
    "warp_specialized": (CONTRACTION, {}),
    "warp_specialized cut": (CONTRACTION, {}),
    "multistage": (CONTRACTION, {}),
    "synchronous": (CONTRACTION, {}),
    "flat": (OTHERS, {**EVERY, "made": "relu(%sum)"}),
    "row_resident": (
        OTHERS,
        {"made_shape": "3, 72", "made_index": "i0, i2", "made": "reduce max (i1) : fp16 { %sum }"},
    ),
    "row_streamed": (
        OTHERS,
        {"made_shape": "3, 72", "made_index": "i0, i2", "made": "reduce max (i1) : fp16 { %sum }"},
    ),
    "scan_block": (OTHERS, {**EVERY, "made": "scan max (i1) : fp16 { %sum }"}),
    "scan_thread": (OTHERS, {**EVERY, "made": "scan max (i1) : fp16 { %sum }"}),
}
LACKING = {
    "first": {"shape": "1, 80, 72", "index": "0, i1, i2", "dims": "1, 2"},
    "middle": {"shape": "3, 1, 72", "index": "i0, 0, i2", "dims": "0, 2"},
    "last": {"shape": "3, 80", "index": "i0, i1", "dims": "0, 1"},
    "first and middle": {"shape": "72", "index": "i2", "dims": "2"},
    "first and last": {"shape": "80", "index": "i1", "dims": "1"},
}


def plans_of(module: region.Module) -> dict[str, plan.Plan]:
    """The cheapest plan of each template, and one whose sum is cut."""
    found: dict[str, plan.Plan] = {}
    for arch in ("sm90", "sm80"):
        for c in to_plan.candidates(module, module.program.regions[0], arch):
            if c.rejected in ("", to_plan.CROWDED):
                found.setdefault(c.plan.algo + (" cut" if c.plan.parts > 1 else ""), c.plan)
    return found


@pytest.mark.parametrize("lacking", LACKING)
@pytest.mark.parametrize("algo", TEXTS)
def test_an_output_that_lacks_an_axis_is_written_once(algo: str, lacking: str) -> None:
    text, made = TEXTS[algo]
    module = region.parse(text.format(**LACKING[lacking], **made))
    assert [d for d in region.check(module) if d.is_error] == []
    _, code = lowered(plan.Module(module, (plans_of(module)[algo],)))
    draw = np.random.default_rng(0)
    arrays = {
        t.name: draw.integers(-3, 4, [d.constant for d in t.type.shape]).astype(np.float16) for t in module.model.inputs
    }
    given, wanted = simulated(code, arrays), played(code, arrays)
    assert all(np.array_equal(given[name], wanted[name]) for name in wanted)
