"""The synchronous template: tiles in the operands' dtypes, one or two of them, and the plan of seed 002."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tinyir.ir import gpu, plan, region
from tinyir.ir.gpu import nodes
from tinyir.ir.gpu.walk import statements
from tinyir.lower import gpu as to_gpu
from tinyir.lower import plan as to_plan

from .checked import check_gpu, check_plan
from .emitted import played, region_text, simulated
from .test_multistage import lowered, needs_host_compiler, whole_numbers

LINEAR = region_text(
    "in X : fp16[M, K]\nin W : fp16[K, N]\nin bias : fp16[N]\nout Y : fp16[M, N]",
    "for i0: M, i1: N\n%gemm = reduce sum (k0: K) : fp32 { mul(X[i0, k0], W[k0, i1]) : fp32 }\n"
    "%biased = add(%gemm, broadcast_in_dim(cast(bias[i1]) : fp32, dims=[1]))\n%relu = relu(%biased)\n"
    "yield Y[i0, i1] = cast(%relu) : fp16",
)
SEED = """
plan region1 : sm90 contraction
  algo       synchronous
  tile       [64, 64, 32]
  micro      [4, 4]
  threads    [16, 16]
  stages     2
  bind       i0.o -> cta.y, i1.o -> cta.x, i0.i -> thread.y, i1.i -> thread.x
  cache      X -> smem at k0.o, W -> smem at k0.o
  predicate  [i0, i1, k0]
  epilogue   [biased, relu]
"""


def planned(text: str, **fields: object) -> plan.Module:
    """The region with its first synchronous plan, changed so."""
    module = region.parse(text)
    found = (c.plan for c in to_plan.candidates(module, module.program.regions[0]) if c.plan.algo == "synchronous")
    return plan.Module(module, (replace(next(found), **fields),))


def is_right(module: plan.Module, *sizes: tuple[int, int, int]) -> bool:
    """Whether the simulated kernel gives what playback gives, of whole numbers, at these M, N, K."""
    made, code = lowered(module)
    assert check_plan(module) == [] and check_gpu(made) == []
    for given in sizes:
        arrays = whole_numbers(module.program, dict(zip("MNK", given)), 3)
        there, here = simulated(code, arrays), played(code, arrays)
        if not all(np.array_equal(there[name], here[name]) for name in here):
            return False
    return True


@needs_host_compiler
def test_the_plan_of_seed_002_is_written_as_the_seed_has_it_and_runs() -> None:
    module = plan.parse(
        LINEAR.replace("tinyir 1.0 region\n", "tinyir 1.1 plan\n", 1) + SEED.replace("region1", name_of(LINEAR))
    )
    (kernel,) = lowered(module)[0].kernels
    tiles = {s.name: s for s in statements(kernel.body) if isinstance(s, nodes.Shared)}
    assert {(t.type.dtype.name, t.ring) for t in tiles.values()} == {("fp16", 2)}
    assert sum(t.bytes for t in tiles.values()) <= 2 * 2 * 32 * (64 + 8 + 64)
    assert is_right(module, (64, 64, 64), (70, 67, 75), (3, 130, 5), (64, 64, 0))


def name_of(text: str) -> str:
    """The name of the first region."""
    return region.parse(text).program.regions[0].name


@needs_host_compiler
@pytest.mark.parametrize(
    "left, right",
    [("bf16", "fp16"), ("fp32", "fp16"), ("fp64", "fp64"), ("i8", "i8"), ("fp8e4m3", "fp16")],
)
def test_each_tile_has_its_operand_s_dtype(left: str, right: str) -> None:
    wide = {"fp64": "fp64", "i8": "i32"}.get(left, "fp32")
    text = region_text(
        f"in X : {left}[M, K]\nin W : {right}[N, K]\nout Y : {wide}[M, N]",
        f"for i0: M, i1: N\n%gemm = reduce sum (k0: K) : {wide} {{ mul(cast(X[i0, k0]) : {wide}, cast(W[i1, k0]) : "
        f"{wide}) }}\nyield Y[i0, i1] = %gemm".replace(f"cast(X[i0, k0]) : {wide}", "X[i0, k0]" if left == wide else
        f"cast(X[i0, k0]) : {wide}").replace(f"cast(W[i1, k0]) : {wide}", "W[i1, k0]" if right == wide else
        f"cast(W[i1, k0]) : {wide}"),
    )  # fmt: skip
    for stages in (1, 2):
        module = planned(text, stages=stages, tile=(32, 32, 16), micro=(4, 4), threads=(8, 8))
        (kernel,) = to_gpu.lower(module).kernels
        assert [s.type.dtype.name for s in statements(kernel.body) if isinstance(s, nodes.Shared)] == [left, right]
        assert is_right(module, (35, 33, 40), (3, 5, 17))


@pytest.mark.parametrize(
    "old, new",
    [
        ("  barrier cta\n  for k in", "  for k in"),
        ("    barrier cta\n    advance s", "    advance s"),
        ("    advance p\n", ""),
        ("cursor p ring 2 at 1", "cursor p ring 2"),
    ],
)
def test_a_barrier_or_a_step_of_the_ring_that_is_missing_is_found(old: str, new: str) -> None:
    text = gpu.show(lowered(planned(LINEAR, stages=2))[0])
    assert old in text
    assert "E1613" in {d.code for d in check_gpu(gpu.parse(text.replace(old, new)))}
