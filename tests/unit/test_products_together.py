"""Products that take in others: two that belong together as one whose columns take turns, several of other sizes as one
of all their columns, maps that turn columns in the kernel that sums them. All give what they gave apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tests.models.llama import llama
from tests.models.network import Network, RandomModel
from tinyir.ir import manifest, region
from tinyir.ir.prove_region import check_proofs
from tinyir.kernels.alternatives.join_products import joined
from tinyir.kernels.alternatives.pair_products import gated
from tinyir.kernels.alternatives.parts import Names
from tinyir.kernels.alternatives.together import Together, Way
from tinyir.kernels.alternatives.turn_columns import turned_columns
from tinyir.kernels.problem import Contraction, kernel_of
from tinyir.lower import plan as to_plan
from tinyir.play import region as play_region

from .emitted import lowered, simulated
from .stages import needs_host_compiler
from .test_streaming import regions_of

Ways = Callable[[region.Module], Iterator[Way]]


def gate(rows: int = 40, depth: int = 64, columns: int = 192, fn: str = "silu", dtype: str = "fp16") -> RandomModel:
    """What a gate opens, in two products of the same rows."""
    net = Network("gate", dtype)
    x = net.input("x", [rows, depth])
    first, second = (
        net.op("GEMM", name, [x, net.param(f"{name}.weight", [depth, columns], depth**-0.5)], [rows, columns])
        for name in ("gate", "up")
    )
    return net.model(net.elementwise("mul", "y", net.elementwise(fn, "open", first), second))


def projections(sizes: tuple[int, ...], is_biased: bool = False, rows: int = 24, depth: int = 32) -> RandomModel:
    """Products of the same rows, each of whose results something else reads."""
    net = Network("projections", "fp16")
    x = net.input("x", [rows, depth])
    outputs = []
    for number, size in enumerate(sizes):
        y = net.op("GEMM", f"p{number}", [x, net.param(f"w{number}", [depth, size], depth**-0.5)], [rows, size])
        if is_biased:
            y = net.elementwise("add", f"p{number}.biased", y, net.param(f"b{number}", [size]))
        outputs.append(net.op("Softmax", f"y{number}", [y], [rows, size], axis=1))
    return net.model(*outputs)


def made_by(ways: Ways, module: region.Module) -> list[Together]:
    """The modules that each way makes of the one before."""
    found = []
    for way in ways(module):
        made = way(module, Names.of(module))
        if made is not None:
            assert [d.code for d in region.check(made.module) if d.is_error] == []
            assert [d for one in made.changed for d in check_proofs(made.module, one)] == []
            assert region.parse(region.show(made.module)) == made.module
            found.append(made)
            module = made.module
    return found


def assert_equal(model: RandomModel, before: region.Module, after: region.Module, seed: int = 0) -> None:
    """The same bits: no sum is done otherwise, and every rounding stays."""
    arrays = model.arrays(seed)
    wanted, found = (play_region.play(module, arrays) for module in (before, after))
    assert wanted.keys() == found.keys()
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


def is_pair(module: region.Module, name: str) -> bool:
    kernel = kernel_of(module.program.region(name), "contraction")
    return isinstance(kernel, Contraction) and kernel.pair is not None


@pytest.mark.parametrize("columns", [64, 192, 32, 48, 208])
@pytest.mark.parametrize("fn", ["silu", "gelu", "sigmoid"])
def test_a_gate_and_what_it_opens_are_one_product(fn: str, columns: int) -> None:
    model = gate(fn=fn, columns=columns)
    before = to_plan.in_parts(regions_of(model.text))
    (made,) = made_by(gated, before)
    assert is_pair(made.module, made.name) and len(made.module.program.regions) == 2
    assert_equal(model, before, made.module)


@pytest.mark.parametrize("is_biased", [False, True])
@pytest.mark.parametrize("columns", [64, 96])
def test_one_product_of_a_gate_and_what_it_opens_is_a_pair(columns: int, is_biased: bool) -> None:
    """Its weights are one matrix, the gate's columns before the others."""
    net = Network("fused", "fp16")
    y = net.op("GEMM", "p", [net.input("x", [24, 32]), net.param("w", [32, 2 * columns], 0.2)], [24, 2 * columns])
    if is_biased:
        y = net.elementwise("add", "biased", y, net.param("b", [2 * columns]))
    first, second = net.split(y, ["gate", "up"])
    model = net.model(net.elementwise("mul", "y", net.elementwise("silu", "open", first), second))
    before = to_plan.in_parts(regions_of(model.text))
    (made,) = made_by(gated, before)
    assert is_pair(made.module, made.name) and len(made.module.program.regions) == 2
    assert_equal(model, before, made.module)


@pytest.mark.parametrize("columns", [40, 24, 1])
def test_columns_that_do_not_divide_in_blocks_stay_two_products(columns: int) -> None:
    assert made_by(gated, to_plan.in_parts(regions_of(gate(columns=columns).text))) == []


def test_a_gate_that_something_else_reads_stays() -> None:
    net = Network("kept", "fp16")
    x = net.input("x", [8, 32])
    first, second = (net.op("GEMM", n, [x, net.param(f"{n}.w", [32, 64])], [8, 64]) for n in ("gate", "up"))
    opened = net.elementwise("silu", "open", first)
    model = net.model(opened, net.elementwise("mul", "y", opened, second))
    assert made_by(gated, to_plan.in_parts(regions_of(model.text))) == []


def test_products_of_other_rows_stay() -> None:
    net = Network("apart", "fp16")
    first, second = (
        net.op("GEMM", n, [net.input(f"{n}.x", [8, 32]), net.param(f"{n}.w", [32, 64])], [8, 64])
        for n in ("gate", "up")
    )
    model = net.model(net.elementwise("mul", "y", net.elementwise("silu", "open", first), second))
    assert made_by(gated, to_plan.in_parts(regions_of(model.text))) == []


@pytest.mark.parametrize("is_biased", [False, True])
@pytest.mark.parametrize("sizes", [(64, 16, 16), (8, 40), (2, 3, 5)])
def test_products_of_other_sizes_are_one_of_all_columns(sizes: tuple[int, ...], is_biased: bool) -> None:
    model = projections(sizes, is_biased)
    before = to_plan.in_parts(regions_of(model.text))
    (made,) = made_by(joined, before)
    (wide,) = (b for b in made.module.program.buffers if b.name.endswith(".wide"))
    assert wide.type.shape[-1].constant == sum(sizes)
    assert_equal(model, before, made.module)


def test_products_of_equal_sizes_share_a_launch_as_they_are() -> None:
    assert made_by(joined, to_plan.in_parts(regions_of(projections((32, 32, 32)).text))) == []


def test_products_of_equal_sizes_that_each_fill_the_card_are_one_of_all_columns() -> None:
    """Queries, keys and values of ViT for 32 images take 52 us apart on an H200, 13 of which are ends of waves."""
    model = projections((768, 768, 768), is_biased=True, rows=6304, depth=768)
    planned = to_plan.lower(regions_of(model.text), device="h200")
    products = [p for p in planned.plans if p.family == "contraction"]
    assert [planned.program.program.region(p.regions[0]).iters[-1].size.constant for p in products] == [3 * 768]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("hidden", "heads", "shared"),
    [(64, 4, 2), (128, 2, 1), (128, 4, 4), (256, 2, 1)],
)
def test_rotary_positions_are_turned_where_they_are_summed(hidden: int, heads: int, shared: int, seed: int) -> None:
    """With as many heads of keys or with fewer, whose product is one with that of the queries first."""
    model = llama(1, tokens=12, layers=1, hidden=hidden, heads=heads, shared=shared, inner=64, words=50, dtype="fp16")
    module = before = to_plan.in_parts(regions_of(model.text))
    together = made_by(joined, module)
    assert len(together) == (shared < heads)
    module = together[-1].module if together else module
    turned = made_by(turned_columns, module)
    assert len(turned) == (1 if shared < heads else 2)
    module = turned[-1].module
    assert all(is_pair(module, one.name) for one in turned)
    assert not any("turned" in r.name for r in module.program.regions)
    assert_equal(model, before, module, seed)


def test_columns_that_are_read_untouched_too_are_not_turned() -> None:
    """What reads the product itself would read turned columns."""
    net = Network("kept", "fp16")
    x, turns = net.input("x", [8, 32]), net.param("turns", [8, 16])
    y = net.op("GEMM", "q", [x, net.param("w", [32, 16])], [8, 16])
    low, high = net.split(y, ["low", "high"])
    swapped = net.op("Concat", "swapped", [net.elementwise("neg", "negative", high), low], [8, 16], axis=1)
    turned = net.elementwise("add", "turned", y, net.elementwise("mul", "sin", swapped, turns))
    outputs = [net.op("Softmax", f"s{n}", [z], [8, 16], axis=1) for n, z in enumerate((turned, y))]
    module = to_plan.in_parts(regions_of(net.model(*outputs).text))
    assert made_by(turned_columns, module) == []


@needs_host_compiler
@pytest.mark.parametrize(("heads", "hidden", "tokens"), [(8, 512, 128), (4, 512, 136)])
def test_a_layer_of_llama_on_the_cpu_equals_playback(heads: int, hidden: int, tokens: int) -> None:
    """Depths 64 and 128 of a head, whole tiles and a rest."""
    model = llama(1, tokens, layers=1, hidden=hidden, heads=heads, shared=2, inner=512, words=64, dtype="fp16")
    before = regions_of(model.text)
    module = to_plan.lower(before, device="h200")
    assert sum(is_pair(module.program, one.regions[0]) for one in module.plans) == 2
    _, code = lowered(module)
    arrays = model.arrays()
    found, wanted = simulated(code, arrays, 1)["logits"], play_region.play(before, arrays)["logits"]
    np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=2e-2, atol=2e-2)
    assert manifest.parse(manifest.show(code)) == code
