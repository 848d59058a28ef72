"""What regions compute of constants alone is computed once: which expressions are moved, and that the numbers stay."""

from __future__ import annotations

import numpy as np
import pytest

from tinyir.ir import manifest, region
from tinyir.ir.once import Once
from tinyir.ir.ops import OPS
from tinyir.kernels.alternatives.work_once import SLOW
from tinyir.lower import lower_to
from tinyir.play.region import play

from .emitted import simulated

HEAD = """\
tinyir 1.0 region

model m
  in  x           : fp32[96, 24]
  in  a           : fp32[24] {storage}
  in  b           : fp32[24] {storage}
  in  c           : fp32[96] {storage}
  out y           : fp32[96, 24]

program m

region y
  in  x           : fp32[96, 24]
{inputs}
  out y           : fp32[96, 24]
  for i0: 96, i1: 24
{lets}
  yield y[i0, i1] = %y
"""
CONST = "{role=param, storage=const_pool}"


def module_of(*lets: str, storage: str = CONST) -> region.Module:
    """A region of these values, y the last of them, that reads what they name of a, b and c."""
    used = [name for name in ("a", "b", "c") if any(f"{name}[" in let for let in lets)]
    sizes = {"a": 24, "b": 24, "c": 96}
    inputs = "\n".join(f"  in  {name:<12}: fp32[{sizes[name]}]" for name in used)
    body = "\n".join(f"    {let}" for let in lets)
    return region.parse(HEAD.format(storage=storage, inputs=inputs, lets=body))


def once_of(module: region.Module) -> dict[str, list[str]]:
    """The regions that are made once, each with its axes."""
    planned = lower_to("plan", module, "sm90")
    whole = region.Module(planned.program.model, planned.program.program)
    return {r.name: [a.name for a in r.iters] for r in whole.program.regions if Once(whole).holds(r)}


@pytest.mark.parametrize(
    ("lets", "wanted"),
    [
        pytest.param(
            ["%f = mul(a[i1], rsqrt(add(b[i1], 1e-05)))", "%y = mul(x[i0, i1], broadcast_in_dim(%f, dims=[1]))"],
            {"f": ["i1"]},
            id="a value",
        ),
        pytest.param(["%y = mul(x[i0, i1], exp2(a[i1]))"], {"y.once": ["i1"]}, id="a part of a value"),
        pytest.param(
            ["%f = exp2(a[i1])", "%g = add(%f, 1.0)", "%y = mul(x[i0, i1], broadcast_in_dim(%g, dims=[1]))"],
            {"g": ["i1"]},
            id="of a chain the last",
        ),
        pytest.param(
            [
                "%f = exp2(a[i1])",
                "%g = exp2(c[i0])",
                "%y = mul(mul(x[i0, i1], broadcast_in_dim(%f, dims=[1])), broadcast_in_dim(%g, dims=[0]))",
            ],
            {"f": ["i1"], "g": ["i0"]},
            id="along each axis one",
        ),
        pytest.param(["%y = mul(x[i0, i1], a[i1])"], {}, id="a read"),
        pytest.param(["%y = mul(x[i0, i1], mul(a[i1], b[i1]))"], {}, id="what takes no longer than its read"),
        pytest.param(
            ["%f = add(mul(a[i1], b[i1]), b[i1])", "%y = mul(x[i0, i1], broadcast_in_dim(%f, dims=[1]))"],
            {"f": ["i1"]},
            id="several ops",
        ),
        pytest.param(
            [
                "%f = mul(add(broadcast_in_dim(a[i1], dims=[1]), broadcast_in_dim(c[i0], dims=[0])), 2.0)",
                "%y = mul(x[i0, i1], %f)",
            ],
            {},
            id="a table greater than what it is made of, with an element for each point",
        ),
        pytest.param(["%y = mul(exp2(x[i0, i1]), a[i1])"], {}, id="not of constants alone"),
    ],
)
def test_what_is_moved(lets: list[str], wanted: dict[str, list[str]]) -> None:
    assert once_of(module_of(*lets)) == wanted


def test_nothing_is_moved_of_what_a_call_may_change() -> None:
    assert once_of(module_of("%y = mul(x[i0, i1], exp2(a[i1]))", storage="{role=param}")) == {}


def test_the_numbers_are_the_same_to_the_bit() -> None:
    module = module_of(
        "%f = mul(a[i1], rsqrt(add(b[i1], 1e-05)))",
        "%y = sub(mul(x[i0, i1], broadcast_in_dim(%f, dims=[1])), exp2(c[i0]))".replace(
            "exp2(c[i0])", "broadcast_in_dim(exp2(c[i0]), dims=[0])"
        ),
    )
    draw = np.random.default_rng(5)
    arrays = {"x": draw.random((96, 24), np.float32)} | {
        name: draw.random(size, np.float32) for name, size in (("a", 24), ("b", 24), ("c", 96))
    }
    planned = lower_to("plan", module, "sm90")
    again = region.Module(planned.program.model, planned.program.program)
    np.testing.assert_array_equal(play(again, arrays)["y"], play(module, arrays)["y"])
    code = lower_to("cu", lower_to("gpu", planned, "sm90"), "sm90")
    found = simulated(manifest.parse(manifest.show(code)), arrays)
    np.testing.assert_allclose(found["y"], play(module, arrays)["y"], rtol=1e-6, atol=1e-6)


def test_the_slow_ops_are_ops() -> None:
    assert {name.upper() for name in SLOW} <= OPS.keys()
