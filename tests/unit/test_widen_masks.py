"""What scores meet, written anew by a kernel before attention where that takes less: truth values as numbers of 16
bits, rows up to whole 16 bytes; and nothing else changes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tinyir.front import read
from tinyir.ir import plan
from tinyir.ir.traits import sizes_of
from tinyir.kernels.alternatives import widen_masks
from tinyir.kernels.alternatives.parts import Names, with_parts
from tinyir.kit.records import replace
from tinyir.lower import lower_to
from tinyir.lower import plan as to_plan
from tinyir.lower.plan.choose import card_of
from tinyir.lower.plan.kernels_for import masks_widened
from tinyir.lower.plan.planner import Planner
from tinyir.play import region as play_region

from .emitted import lowered, simulated
from .stages import needs_host_compiler
from .test_bound_columns import masked
from .test_bound_columns import pair_of as attention_of
from .test_streaming import regions_of


def with_mask(
    shape: list[Any], s: Any = 136, d: int = 64, batch: int = 2, heads: int = 3, causal: bool = False, **more: Any
) -> str:
    """Attention under a mask of this shape."""
    shapes = {name: [batch, heads, s, d] for name in "QKVO"} | {"mask": shape}
    given = ["Q", "K", "V", "mask"]
    node = {"op": "Attention", "name": "attention", "inputs": given, "outputs": ["O"], "attrs": {"causal": causal}}
    kinds = {"mask": "bool"} | more
    return json.dumps(
        {
            "signature": {"inputs": [{"tensor": n} for n in given], "outputs": [{"tensor": "O"}]},
            "tensors": {n: {"dtype": kinds.get(n, "fp16"), "shape": shape} for n, shape in shapes.items()},
            "graph": [node],
        }
    )


def pair_of(module: Any) -> Any:
    return tuple(module.program.regions)


def widened(module: Any) -> Any:
    """The module with its mask as numbers, whatever that takes."""
    (way,) = widen_masks.ways(pair_of(module), Names.of(module), sizes_of(module.model))
    parts = {one.name: (one,) for one in module.program.regions} | {module.program.regions[0].name: way}
    return with_parts(module, parts)


SHAPES = {"of all heads": [2, 1, 136, 136], "of each head": [2, 3, 136, 136], "of all": [1, 1, 136, 136]}


def arrays_for(module: Any) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(3)
    found = {}
    for tensor in module.model.inputs:
        shape = [n.constant for n in tensor.type.shape]
        drawn, dtype = draw.standard_normal(shape), tensor.type.dtype.name
        found[tensor.name] = (
            drawn > -0.5 if dtype == "bool" else drawn.astype({"fp32": np.float32}.get(dtype, np.float16))
        )
    found["mask"][..., 7, :] = False if found["mask"].dtype == bool else -np.inf  # a row that sees nothing
    found["K"][0, 0, 3] = np.inf
    found["V"][1, 1, 5] = np.nan
    return found


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("causal", [False, True])
def test_the_numbers_say_what_the_mask_says(shape: list[int], causal: bool) -> None:
    module = regions_of(with_mask(shape, causal=causal))
    changed = widened(module)
    assert len(changed.program.regions) == 3
    arrays = arrays_for(module)
    with np.errstate(all="ignore"):
        before, after = (play_region.play(one, arrays)["O"] for one in (module, changed))
    np.testing.assert_array_equal(before, after)


def simulated_in_tiles(module: Any, name: str, arch: str) -> np.ndarray:
    """The output on the CPU of the kernels that read what is written anew, in tiles where the card has a copy
    engine."""
    planned = to_plan.lower(widened(module), arch)
    if arch == "sm90":
        (found,) = (p for p in planned.plans if p.algo == "streaming_softmax")
        candidates = to_plan.candidates(planned.program, attention_of(planned.program)[0], arch)
        by_tma = (c.plan for c in candidates if c.plan.algo == found.algo)
        chosen = next(p for p in by_tma if p.load_of(name).by == "tma")
        planned = replace(planned, plans=tuple(chosen if p is found else p for p in planned.plans))
    return simulated(lowered(planned)[1], arrays_for(module))["O"].astype(float)


@needs_host_compiler
@pytest.mark.parametrize("arch", ["sm80", "sm90"])
def test_the_kernel_takes_tiles_of_them(arch: str) -> None:
    module = regions_of(with_mask(SHAPES["of all heads"]))
    with np.errstate(all="ignore"):
        wanted = play_region.play(module, arrays_for(module))["O"].astype(float)
    found = simulated_in_tiles(module, "attention.mask", arch)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_allclose(found, wanted, rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("dtype", ["bool", "fp16", "fp32"])
def test_rows_are_written_up_to_whole_16_bytes(dtype: str) -> None:
    module = regions_of(with_mask([2, 1, 133, 133], s=133, mask=dtype))
    changed = widened(module)
    (anew,) = changed.program.regions[0].outputs
    assert anew.type.shape[-1].constant * anew.type.dtype.bytes % 16 == 0
    arrays = arrays_for(module)
    with np.errstate(all="ignore"):
        before, after = (play_region.play(one, arrays)["O"] for one in (module, changed))
    np.testing.assert_array_equal(before, after)


@needs_host_compiler
@pytest.mark.parametrize("dtype", ["bool", "fp16", "fp32"])
def test_the_kernel_takes_tiles_of_longer_rows(dtype: str) -> None:
    module = regions_of(with_mask([2, 1, 133, 133], s=133, mask=dtype))
    with np.errstate(all="ignore"):
        wanted = play_region.play(module, arrays_for(module))["O"].astype(float)
    found = simulated_in_tiles(module, "attention.mask" if dtype == "bool" else "attention.met", "sm90")
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_allclose(found, wanted, rtol=4e-3, atol=4e-3)


def test_the_cost_model_decides() -> None:
    planner = Planner(card_of("sm90", "h200"))
    lengths = 4104, 4096, 64  # rows of the first are not a multiple of 16 bytes, and no tile brings them
    odd, even, short = (regions_of(with_mask([4, 1, n, n], s=n, d=128, batch=4, heads=16)) for n in lengths)
    assert [*masks_widened(odd, planner)[1]] == ["attention"]
    assert masks_widened(even, planner)[1] == masks_widened(short, planner)[1] == {}


@pytest.mark.parametrize("dtype, batch, is_worth", [("fp16", 4, True), ("fp32", 4, False), ("fp32", 16, True)])
def test_a_bias_whose_rows_no_tile_brings_is_written_anew(dtype: str, batch: int, is_worth: bool) -> None:
    planner = Planner(card_of("sm90", "h200"))
    odd, even = (
        regions_of(with_mask([1, 16, n, n], s=n, d=128, batch=batch, heads=16, mask=dtype)) for n in (4093, 4096)
    )
    assert [*masks_widened(odd, planner)[1]] == ["attention"] * is_worth  # of twice the bytes, for as many readers
    assert masks_widened(even, planner)[1] == {}


@pytest.mark.parametrize(
    "text",
    [with_mask([2, 1, 1, 136]), with_mask([2, 1, 136, 136], mask="fp16"), masked("equal", 136, 136)],
    ids=["of columns", "numbers", "compared"],
)
def test_other_masks_stay(text: str) -> None:
    module = regions_of(text)
    assert [*widen_masks.ways(pair_of(module)[-2:], Names.of(module), sizes_of(module.model))] == []


def test_the_plan_text_reads_back() -> None:
    module: Any = read(with_mask([4, 1, 4104, 4104], s=4104, d=128, batch=4, heads=16), "a.json")
    for stage in ("index", "poly", "region", "plan"):
        module = lower_to(stage, module, "sm90", "h200")
    assert plan.check(module) == [] and plan.parse(plan.show(module)) == module
