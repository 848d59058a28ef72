"""Operands that wgmma takes along the sum alone, and that run across it, are copied so that they do: constants once,
others at each run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tinyir.ir import gpu, manifest, plan, region
from tinyir.ir.evaluate import convert
from tinyir.lower import gpu as to_gpu
from tinyir.lower import plan as to_plan
from tinyir.runtime.program import Program

from .checked import check_gpu, check_plan
from .emitted import lowered, played
from .test_any_shape import sized
from .test_fp8 import SCALES
from .test_fp8 import is_right as bytes_are_right
from .test_multistage import is_right
from .test_padded_once import _Counting, constant
from .test_tf32_wgmma import compiles_well, needs_host_compiler, of_words

TURNED = {"NN": ("B",), "TN": ("A", "B"), "TT": ("A",)}
Sizes = tuple[int, int, int]


def planned(module: region.Module, tile: tuple[int, int] = (64, 64), math: str = "", **fields: object) -> plan.Module:
    """The module with its turned candidate of this tile."""
    found = to_plan.candidates(module, module.program.regions[0], fp32=math)
    kept = (
        c.plan
        for c in found
        if c.rejected in ("", to_plan.CROWDED) and c.plan.layout and c.plan.persistent and c.plan.tile[:2] == tile
    )
    return plan.Module(
        module, (replace(next(p for p in kept if any("turned" in i.hint for i in p.layout)), persistent=2, **fields),)
    )


def of_bytes(layout: str, sizes: Sizes, **kind: str) -> region.Module:
    return sized(layout, sizes, **{"dtype": "fp8e4m3", "out": "fp32", **kind})


@pytest.mark.parametrize("layout", TURNED)
def test_bytes_across_the_sum_are_turned_and_the_plan_says_so(layout: str) -> None:
    module = of_bytes(layout, (1024, 1024, 1024), out="bf16")
    first = to_plan.lower(module).plans[0]
    assert first.algo == "warp_specialized" and [i.tensor for i in first.layout if i.hint == "turned"] == list(
        TURNED[layout]
    )
    good = planned(module)
    assert check_plan(good) == [] and plan.parse(plan.show(good)) == good
    kernels = to_gpu.lower(good)
    assert check_gpu(kernels) == [] and gpu.parse(gpu.show(kernels)) == kernels
    assert [k.name for k in kernels.kernels] == [*(f"r.turn.{name.lower()}" for name in TURNED[layout]), "r"]
    assert {b.name for b in kernels.buffers} == {f"r.{name}.turned" for name in TURNED[layout]}


def test_a_tensor_that_lies_both_ways_is_not_turned() -> None:
    text = (
        region.show(of_bytes("NN", (512, 512, 512)))
        .replace("  in  B           : fp8e4m3[K, N]\n", "")
        .replace("B[k0, i1]", "A[k0, i1]")
    )
    text = (
        text.replace("[M, K]", "[M, M]")
        .replace("[M, N]", "[M, M]")
        .replace("k0: K", "k0: M")
        .replace("i1: N", "i1: M")
        .replace("M=512, N=512, K=512", "M=512")
    )
    module = region.parse(text)
    assert {c.plan.algo for c in to_plan.candidates(module, module.program.regions[0])} == {"synchronous"}


def test_what_is_no_constant_cannot_be_turned_once_and_what_no_engine_fetches_not_at_all() -> None:
    module = planned(of_bytes("NN", (512, 512, 512)))
    once = replace(module.plans[0], layout=tuple(replace(i, hint="turned_once") for i in module.plans[0].layout))
    assert [d.code for d in check_plan(replace(module, plans=(once,)))] == ["E1523"]
    loaded = replace(module.plans[0], load=tuple(replace(i, by="ld") for i in module.plans[0].load))
    assert {d.code for d in check_plan(replace(module, plans=(loaded,)))} == {"E1525"}


@needs_host_compiler
@pytest.mark.parametrize("sizes", [(130, 136, 272), (67, 71, 133)])
@pytest.mark.parametrize("layout", TURNED)
def test_whole_numbers_are_exact(layout: str, sizes: Sizes) -> None:
    assert bytes_are_right(planned(of_bytes(layout, sizes, **SCALES)), dict(zip("MNK", sizes)))


@needs_host_compiler
def test_batches_are_turned_each() -> None:
    text = (
        region.show(of_bytes("NN", (70, 72, 144)))
        .replace("[M, K]", "[2, M, K]")
        .replace("[K, N]", "[3, 2, K, N]")
        .replace("[M, N]", "[3, 2, M, N]")
    )
    text = (
        text.replace("for i0: M, i1: N", "for b0: 3, b1: 2, i0: M, i1: N")
        .replace("A[i0, k0]", "A[b1, i0, k0]")
        .replace("B[k0, i1]", "B[b0, b1, k0, i1]")
        .replace("C[i0, i1]", "C[b0, b1, i0, i1]")
    )
    assert bytes_are_right(planned(region.parse(text)), {"M": 70, "N": 72, "K": 144})


@needs_host_compiler
@pytest.mark.parametrize("math", ["tf32", ""])
def test_of_words_one_operand_is_turned_where_both_lie_across(math: str) -> None:
    module = of_words("TN", (72, 72, 136))
    good = planned(module, math=math)
    assert [(i.tensor, i.hint) for i in good.plans[0].layout] == [("B", "turned")] and good.plans[0].math == (
        math or "tf32x3"
    )
    assert is_right(good, {"M": 72, "N": 72, "K": 136}) and compiles_well(good)


@needs_host_compiler
def test_constants_are_turned_before_the_first_run_and_when_they_are_new() -> None:
    sizes = (67, 131, 77)
    module = planned(constant(region.show(of_bytes("NN", sizes)), "B"))
    assert [i.hint for i in module.plans[0].layout if i.tensor == "B"] == ["turned_once"]
    _, code = lowered(module)
    draw = np.random.default_rng(1)
    device = _Counting()
    try:
        program = Program(device, manifest.show(code), code, dict(zip("MNK", sizes)))
        given: dict[str, np.ndarray] = {}
        for new in ({"A", "B"}, {"A"}, {"B"}):
            dtype = program.module.region.model.inputs[0].type.dtype
            given |= {
                name: convert(draw.integers(-3, 4, shape).astype(np.float32), dtype)
                for name, shape in (("A", (67, 77)), ("B", (77, 131)))
                if name in new
            }
            program.upload({name: given[name] for name in new})
            device.ran.clear()
            program.run()
            assert [name for name in device.ran if "turn" in name] == (["r_turn_b"] if "B" in new else [])
            assert np.array_equal(program.outputs()["C"], played(code, given)["C"])
    finally:
        device.release()


@pytest.mark.parametrize("layout", TURNED)
def test_the_copies_compile_without_spills(layout: str) -> None:
    assert compiles_well(planned(of_bytes(layout, (512, 512, 512))))
