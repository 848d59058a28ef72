"""Constants that a kernel reads across its innermost axis are read of copies that follow its axes, made once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinyir.ir import manifest, region
from tinyir.ir.once import Once
from tinyir.kernels.alternatives.turn_constants import turn_constants
from tinyir.lower import lower_to
from tinyir.play.region import play
from tinyir.runtime.program import Program
from tinyir.sim.launch import SimDevice

from .stages import needs_host_compiler

TEXT = """tinyir 1.0 region

model main
  in  x           : fp16[2, 7, 6, 16]
  in  w           : fp16[16, 1, 3, 3] {role=param, storage=const_pool}
  out y           : fp16[2, 7, 6, 16]

program main

region y
  in  x           : fp16[2, 7, 6, 16]
  in  w           : fp16[16, 1, 3, 3]
  out y           : fp16[2, 7, 6, 16]
  for i0: 2, i1: 7, i2: 6, i3: 16
    %y             = reduce sum (k0: 3, k1: 3) : fp32 { mul(x[i0, i1 + k0 - 1, i2 + k1 - 1, i3] where 0 <= i1 + k0 - 1 < 7 and 0 <= i2 + k1 - 1 < 6 else 0.0, w[i3, 0, k0, k1]) : fp32 }
  yield y[i0, i1, i2, i3] = cast(%y) : fp16
"""  # noqa: E501


def times(module: region.Module, one: region.Region) -> float:
    """Less where a copy of a constant is read."""
    return 1.0 if any("." in t.name for t in one.inputs) else 2.0


def module_of(text: str = TEXT) -> region.Module:
    found = region.parse(text)
    assert [d for d in region.check(found) if d.is_error] == []
    return found


def arrays() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(3)
    shapes = {"x": (2, 7, 6, 16), "w": (16, 1, 3, 3)}
    return {name: draw.integers(-3, 4, shape).astype(np.float16) for name, shape in shapes.items()}


def test_a_constant_follows_the_axes_of_its_kernel() -> None:
    module = module_of()
    found, (one,) = turn_constants(module, times)
    assert [d for d in region.check(found) if d.is_error] == []
    assert [str(t.type) for t in found.program.buffers] == ["fp16[1, 3, 3, 16]"]
    assert [part.name for part in one.parts] == ["y.w", "y"] and (one.before, one.after) == (2.0, 1.0)
    assert [Once(found).holds(part) for part in found.program.regions] == [True, False]
    assert np.array_equal(play(found, arrays())["y"], play(module, arrays())["y"])


@pytest.mark.parametrize(
    "old, new",
    [
        (" {role=param, storage=const_pool}", ""),  # another one at each run
        ("fp16[16, 1, 3, 3]", "fp16[1, 3, 3, 16]"),  # as it should be
    ],
)
def test_others_are_read_as_they_are(old: str, new: str) -> None:
    text = TEXT.replace(old, new).replace(
        "w[i3, 0, k0, k1]", "w[0, k0, k1, i3]" if "16]" in new else "w[i3, 0, k0, k1]"
    )
    module = module_of(text)
    assert turn_constants(module, times) == (module, ())


def test_nothing_is_turned_that_takes_longer_so() -> None:
    module = module_of()
    assert turn_constants(module, lambda module, one: 3.0 - times(module, one)) == (module, ())


@needs_host_compiler
def test_the_copy_is_made_before_the_first_run_and_again_for_other_constants() -> None:
    module: Any = turn_constants(module_of(), times)[0]
    for stage in ("plan", "gpu", "cu"):
        module = lower_to(stage, module, "sm90")
    text = manifest.show(module)
    assert [launch.name for launch in module.launches if launch.is_once] == ["y.w"]
    program = Program(SimDevice(limit=60.0), text, manifest.parse(text), {})
    given = arrays()
    try:
        for turn in (1, 2):
            given = {**given, "w": given["w"] * turn}
            program.upload(given)
            program.run()
            program.run()
            assert np.array_equal(program.outputs()["y"], play(module_of(), given)["y"])
    finally:
        program.release()
