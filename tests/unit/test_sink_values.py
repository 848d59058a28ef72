"""What goes through memory between two kernels: of a value and what it is made of that which takes fewer bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.models.network import Network, RandomModel
from tinyir.front.json import read
from tinyir.ir import region
from tinyir.lower import lower_to
from tinyir.play import tiny as play_tiny
from tinyir.play.region import play

ROWS, WIDE = 8, 16


def regions_of(model: RandomModel) -> region.Module:
    module: Any = read(model.text)
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    return module


def outputs_of(module: region.Module) -> dict[str, list[str]]:
    """What each region writes, with dtypes."""
    return {r.name: [f"{t.name} {t.type.dtype}" for t in r.outputs] for r in module.program.regions}


def product(net: Network) -> str:
    return net.op("GEMM", "y", [net.input("x", [ROWS, WIDE]), net.param("w", [WIDE, WIDE])], [ROWS, WIDE])


def norm_of(kind: str) -> RandomModel:
    """A product, a residual, a norm in fp32 of what was fp16."""
    net = Network("m", "fp16")
    x = net.elementwise("add", "a", product(net), net.input("r", [ROWS, WIDE]))
    scale = net.param("scale", [WIDE])
    found = net.op(kind, "n", [x, scale], [ROWS, WIDE])
    return net.model(found)


def rotated() -> RandomModel:
    """A product, and the sum of its rows with themselves, each turned by a table."""
    net = Network("m", "fp16")
    y = product(net)
    half = net.op("Slice", "low", [y], [ROWS, WIDE // 2], starts=[0], ends=[WIDE // 2], axes=[1])
    other = net.op("Slice", "high", [y], [ROWS, WIDE // 2], starts=[WIDE // 2], ends=[WIDE], axes=[1])
    swapped = net.op("Concat", "swapped", [net.elementwise("neg", "minus", other), half], [ROWS, WIDE], axis=1)
    cos = net.elementwise("mul", "cos", y, net.param("c", [ROWS, WIDE]))
    sin = net.elementwise("mul", "sin", swapped, net.param("s", [ROWS, WIDE]))
    return net.model(net.elementwise("add", "turned", cos, sin))


@pytest.mark.parametrize("kind", ["LayerNorm", "RMSNorm"])
def test_a_norm_reads_what_the_product_rounds_to(kind: str) -> None:
    assert outputs_of(regions_of(norm_of(kind))) == {"y": ["a fp16"], "n": ["n fp16"]}


def test_a_norm_reads_what_a_depthwise_convolution_rounds_to() -> None:
    net = Network("m", "fp16")
    x = net.conv(net.input("x", [1, 8, 6, 6]), "y", 8, 3, 1, 1, groups=8)
    found = outputs_of(regions_of(net.model(net.layer_norm(net.turned(x, "last", True), "n"))))
    assert found == {"y": ["y fp16"], "n": ["n fp16"]}


def gated() -> RandomModel:
    """A norm of groups of channels, and x * sigmoid(x) of it."""
    net = Network("m", "fp16")
    return net.model(net.elementwise("silu", "s", net.group_norm(net.input("x", [2, 8, 4, 4]), "n", 2)))


def test_what_reads_a_moved_value_twice_is_written_where_that_is_made() -> None:
    assert outputs_of(regions_of(gated())) == {"s": ["s fp16"]}


def written_out() -> RandomModel:
    """A product, a residual, and the norm of its rows op by op in fp32, as exporters write it."""
    net = Network("m", "fp16")
    x = net.elementwise("add", "a", product(net), net.input("r", [ROWS, WIDE]))
    wide = net.op("Cast", "wide", [x], [ROWS, WIDE], "fp32", to="fp32")
    squares = net.op("Elementwise", "squares", [wide, 2.0], [ROWS, WIDE], "fp32", fn="pow")
    mean = net.op("Reduce", "mean", [squares], [ROWS, 1], "fp32", op="mean", axes=[1], keepdims=True)
    root = net.op("Elementwise", "root", [mean], [ROWS, 1], "fp32", fn="sqrt")
    each = net.op("Elementwise", "each", [wide, root], [ROWS, WIDE], "fp32", fn="div")
    back = net.op("Cast", "back", [each], [ROWS, WIDE], to="fp16")
    return net.model(net.elementwise("mul", "n", back, net.param("scale", [WIDE])), net.elementwise("neg", "m", x))


def test_a_norm_whose_squares_were_made_elsewhere_is_one_kernel() -> None:
    """The squares are moved to their sum, which reads the row then that what follows the sum reads again."""
    found = outputs_of(regions_of(written_out()))
    assert found == {"y": ["m fp16", "wide fp32"], "mean": ["n fp16"]}


def joined() -> RandomModel:
    """Two images as one, which a product reads, and a norm of groups of its channels in fp32."""
    net = Network("m", "fp16")
    x = net.joined([net.input("a", [2, 8, 4, 4]), net.input("b", [2, 8, 4, 4])], "both")
    made = net.conv(x, "y", 8, 1), net.group_norm(x, "n", 2)
    return net.model(*made)


def test_what_a_reshape_moves_is_computed_at_each_read() -> None:
    assert outputs_of(regions_of(joined()))["both"] == ["both fp16"]


def test_what_one_other_kernel_reads_is_computed_there() -> None:
    assert outputs_of(regions_of(rotated())) == {"y": ["y fp16"], "turned": ["turned fp16"]}


def test_a_cast_that_is_asked_for_is_no_kernel_of_its_own() -> None:
    net = Network("m", "fp16")
    wide = net.op("Cast", "wide", [product(net)], [ROWS, WIDE], "fp32", to="fp32")
    assert outputs_of(regions_of(net.model(wide))) == {"y": ["wide fp32"]}


def test_a_value_that_two_kernels_read_stays_where_it_is_made() -> None:
    """To compute it in both would read what it is made of twice."""
    net = Network("m", "fp16")
    y = product(net)
    cos = net.elementwise("mul", "cos", y, net.param("c", [ROWS, WIDE]))
    turned = [net.op("Flip", f"f{axis}", [cos], [ROWS, WIDE], axes=[axis]) for axis in (0, 1)]
    sums = [net.op("Elementwise", f"s{n}", [f, y], [ROWS, WIDE], fn="add") for n, f in enumerate(turned)]
    assert any("cos fp16" in written for written in outputs_of(regions_of(net.model(*sums))).values())


@pytest.mark.parametrize(
    "model",
    [norm_of("LayerNorm"), norm_of("RMSNorm"), rotated(), gated(), written_out(), joined()],
    ids=["layer", "rms", "rope", "gated", "written out", "joined"],
)
def test_the_numbers_stay(model: RandomModel) -> None:
    arrays = model.arrays(3)
    module = regions_of(model)
    wanted = play_tiny.play(read(model.text), arrays)
    for name, array in play(module, arrays).items():
        np.testing.assert_array_equal(array, wanted[name])
