"""fp32 as exact as fp32 on Hopper's matrix units: words split by a role of their own and in registers, odd ones summed
again, never silently."""

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
from .emitted import lowered, simulated
from .test_multistage import is_right
from .test_tf32 import LARGEST, assert_specials_are_those_of_fp32, hard, of_fp32
from .test_tf32_wgmma import (
    Sizes,
    compiles_well,
    fp32_words,
    needs_host_compiler,
    of_words,
    proposed,
    shipped,
    with_tile,
)
from .test_warp_specialized import BATCHED, BIAS, RESIDUAL, SCALED

LAYOUTS = ("NN", "NT", "TT")


def thrice(
    module: region.Module, tile: tuple[int, int], cluster: tuple[int, ...] = (1, 1), stages: int = 3, **fields: object
) -> plan.Module:
    """The module with the candidate of this tile and cluster, and a short ring."""
    (one,) = with_tile(module, tile, cluster, "tf32x3", **fields).plans
    return plan.Module(module, (replace(one, stages=stages, asynchrony=replace(one.asynchrony, prefetch=stages)),))


def multiplied(a: np.ndarray, b: np.ndarray, layout: str = "NT") -> np.ndarray:
    """What the kernel gives."""
    (m, k), n = a.shape, b.shape[1]
    given = {"A": a.T if layout[0] == "T" else a, "B": b.T if layout[1] == "T" else b}
    module = thrice(of_words(layout, (m, n, k)), (64, 64))
    return simulated(lowered(module)[1], {name: np.ascontiguousarray(x) for name, x in given.items()})["C"]


# --- plans and text


@pytest.mark.parametrize("layout", LAYOUTS)
def test_fp32_is_multiplied_so_where_nothing_else_is_asked_for(layout: str) -> None:
    module = of_words(layout, (2048, 2048, 2048))
    first, *others = to_plan.lower(module).plans
    assert (first.algo, first.math, first.promote, first.swap_ab) == ("warp_specialized", "tf32x3", 32, layout == "NN")
    assert "128 <= K" in plan.show_plan(first) and all(
        p.algo != "warp_specialized" or "128 <= K" in plan.show_plan(p) for p in others
    )
    for one in {p.tile: p for p in proposed(module, "tf32x3")}.values():
        assert check_plan(plan.Module(module, (one,))) == []
        kernels = to_gpu.lower(plan.Module(module, (one,)))
        assert check_gpu(kernels) == [] and gpu.parse(gpu.show(kernels)) == kernels
        every = list(statements(kernels.kernels[0].body))
        assert [s.token for s in every if isinstance(s, nodes.Wgmma)] == ["mma.low", "mma.mix", "mma"]
        assert {s.rounding for s in every if isinstance(s, nodes.TensorMap)} == {""}


def test_short_sums_and_other_layouts_are_left_to_others() -> None:
    assert proposed(of_words("NT", (512, 512, 120)), "tf32x3") == [] and proposed(of_words("TN"), "tf32x3") == []


def test_what_the_template_has_no_place_for_is_refused() -> None:
    module = thrice(of_words("NT"), (64, 64))
    for fields in ({"promote": 0}, {"promote": 64}, {"swap_ab": True, "persistent": 0}):
        assert {d.code for d in check_plan(replace(module, plans=(replace(module.plans[0], **fields),))) if d.is_error}


CHANGES = [
    ("wait ready[s.slot] phase s.phase", "fence wgmma", "E1613"),
    ("wait_group wgmma pending 0 for %mma.low, %mma.mix", "wait_group wgmma pending 1 for %mma.low, %mma.mix", "E1617"),
    ("wait_group wgmma pending 0 for %mma\n", "wait_group wgmma pending 1 for %mma\n", "E1617"),
    ("barrier warpgroup\n        arrive empty", "fence wgmma\n        arrive empty", "E1613"),
    ("barrier warpgroup\n        arrive ready", "fence wgmma\n        arrive ready", "E1613"),
    ("low al", "low acc", "E1602"),
    ("split bl[c.slot]", "split acc", "E1605"),
    ("fence async_proxy\n        barrier", "barrier", "E1613"),
    ("resum acc", "resum ah", "E1602"),
    ("if row < M and col < N\n", "if row < M\n", "E1615"),
]


@pytest.mark.parametrize(("good", "bad", "code"), CHANGES)
def test_faults_are_found(good: str, bad: str, code: str) -> None:
    text = gpu.show(to_gpu.lower(thrice(of_words("NT", (500, 500, 512)), (64, 64))))
    assert good in text and check_gpu(gpu.parse(text)) == []
    assert code in {d.code for d in check_gpu(gpu.parse(text.replace(good, bad)))}


# --- results

CASES = [
    ("NT", (128, 128), (2, 1), {}, (200, 136, 136)),
    ("NT", (64, 64), (1, 1), RESIDUAL, (72, 80, 132)),
    ("NN", (128, 128), (1, 2), {}, (136, 264, 136)),
    ("NN", (80, 128), (1, 1), SCALED, (88, 132, 200)),
    ("NN", (64, 64), (1, 1), {"out": "fp16", **BIAS}, (72, 136, 136)),
    ("TT", (128, 144), (1, 1), SCALED, (132, 148, 136)),
    ("TT", (128, 64), (1, 1), {"out": "bf16"}, (136, 72, 132)),
]


@needs_host_compiler
@pytest.mark.parametrize(("layout", "tile", "cluster", "kind", "sizes"), CASES, ids=lambda v: str(v)[:18])
def test_whole_numbers_are_exact(
    layout: str, tile: tuple[int, int], cluster: tuple[int, int], kind: dict, sizes: Sizes
) -> None:
    assert is_right(thrice(of_words(layout, sizes, **fp32_words(kind)), tile, cluster), dict(zip("MNK", sizes)))


@needs_host_compiler
@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_of_any_length_are_padded(layout: str) -> None:
    sizes = (67, 71, 133)
    assert is_right(thrice(of_words(layout, sizes), (64, 64), padded=("A", "B")), dict(zip("MNK", sizes)))


@needs_host_compiler
def test_batches_and_joined_axes_are_right() -> None:
    module = region.parse(BATCHED.lstrip().replace("fp16", "fp32").replace("K=64", "K=136"))
    assert is_right(thrice(module, (64, 64)), {"H": 2, "M": 3, "S": 30, "K": 136, "N": 72})


@needs_host_compiler
@pytest.mark.parametrize("depth", [128, 256])
@pytest.mark.parametrize("kind", ["normal", "halves", "sizes", "positive", "small"])
def test_it_is_no_farther_from_fp64_than_fp32(kind: str, depth: int) -> None:
    a, b = hard(kind, depth)
    exact = a.astype(np.float64) @ b
    ours, theirs = (np.sqrt(np.mean((c - exact) ** 2)) for c in (multiplied(a, b).astype(np.float64), of_fp32(a, b)))
    assert 0 < ours <= theirs


@needs_host_compiler
@pytest.mark.parametrize("layout", LAYOUTS)
def test_whichever_operand_is_split_in_registers(layout: str) -> None:
    a, b = hard("positive", 128)
    exact = a.astype(np.float64) @ b
    ours, theirs = (
        np.sqrt(np.mean((c - exact) ** 2)) for c in (multiplied(a, b, layout).astype(np.float64), of_fp32(a, b))
    )
    assert 0 < ours <= theirs


@needs_host_compiler
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, LARGEST, -LARGEST, np.uint32(0x7F800001).view(np.float32)])
@pytest.mark.parametrize("side", [0, 1])
def test_infinities_and_nan_are_those_of_fp32(value: float, side: int) -> None:
    assert_specials_are_those_of_fp32(multiplied, value, side)


@needs_host_compiler
def test_a_product_that_overflows_is_infinite_and_one_that_does_not_is_summed() -> None:
    """1024 times a low part may overflow where the product does not, and low parts of either sign where it does."""
    a, b = np.zeros((64, 128), np.float32), np.zeros((128, 64), np.float32)
    a[:, 0] = np.float32(1.7e38) * np.linspace(1, 2, 64, dtype=np.float32)
    b[0] = np.linspace(-2.1, 2.1, 64, dtype=np.float32)
    with np.errstate(all="ignore"):
        ours, theirs = multiplied(a, b), of_fp32(a, b)
    assert (
        np.array_equal(np.isinf(ours), np.isinf(theirs))
        and not np.isnan(ours).any()
        and np.isinf(theirs).any()
        and np.isfinite(theirs).any()
    )
    assert np.allclose(ours[np.isfinite(ours)], theirs[np.isfinite(ours)], rtol=1e-6)


@needs_host_compiler
def test_factors_too_small_for_eleven_bits_keep_theirs() -> None:
    draw = np.random.default_rng(5)
    small = (draw.integers(-(2**14), 2**14, (64, 128)) * 2.0**-149).astype(np.float32)
    large = np.ldexp(np.eye(128), 100).astype(np.float32)
    assert np.abs(multiplied(small, large) - small * 2.0**100).max() <= 2.0**-47  # four of the least numbers
    assert np.abs(multiplied(large[:64], small.T.copy()) - (small.T * 2.0**100)[:64]).max() <= 2.0**-47


# --- the compiler


@pytest.mark.parametrize(("layout", "tile"), [("NN", (144, 128)), ("NT", (128, 144))])
def test_a_shipped_plan_compiles_without_spills_or_serialised_products(layout: str, tile: tuple[int, int]) -> None:
    assert compiles_well(with_tile(of_words(layout, **SCALED), tile, math="tf32x3"))


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_shipped_plan_compiles_without_spills_or_serialised_products(layout: str) -> None:
    assert [name for name, _, module in shipped("tf32x3", (layout,)) if not compiles_well(module)] == []
