"""The order of the dims of buffers between kernels: that in which all their kernels take least, folds in steps and
attention over an image among them."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import numpy as np
import pytest

from tests.models import Network, RandomModel, convnext, mobilenet, vit
from tests.models.unet import attended
from tinyir.front.json import read
from tinyir.ir import region
from tinyir.kernels.alternatives.turn_buffers import turn_buffers
from tinyir.lower import lower_to
from tinyir.lower.plan import card_of
from tinyir.lower.plan.kernels_for import in_parts, kernels_for
from tinyir.lower.plan.planner import Planner
from tinyir.play import tiny as play_tiny
from tinyir.play.region import play

from .emitted import lowered, region_text, simulated
from .stages import needs_host_compiler


def lowered_to(stage: str, model: RandomModel) -> Any:
    module: Any = read(model.text)
    for each in ("index", "poly", "region", "plan"):
        module = lower_to(each, module, "sm90")
        if each == stage:
            return module
    return module


def over_an_image() -> RandomModel:
    """Attention of 128 pixels with itself, between images whose channels come first."""
    net = Network("seen", "fp16")
    return net.model(attended(net, net.input("x", [1, 64, 8, 16]), "a", 4, 2))


def test_attention_asks_for_what_its_rows_are_made_of() -> None:
    module = lowered_to("plan", over_an_image())
    plan = next(p for p in module.plans if len(p.regions) == 2)
    assert plan.algo == "streaming_softmax"
    shapes = {t.name: str(t.type) for t in module.program.program.buffers}
    assert (shapes["a.qkv"], shapes["a.image"]) == ("fp16[1, 8, 16, 192]", "fp16[1, 8, 16, 64]")


@needs_host_compiler
def test_attention_over_an_image_equals_playback() -> None:
    model = over_an_image()
    arrays = model.arrays(1)
    _, code = lowered(lowered_to("plan", model))
    wanted = play_tiny.play(read(model.text), arrays)
    for name, array in simulated(code, arrays).items():
        np.testing.assert_allclose(array.astype(float), wanted[name].astype(float), rtol=3e-3, atol=3e-3)


@pytest.fixture(scope="module")
def stage() -> region.Module:
    """The first blocks of a ConvNeXt at its own sizes."""
    return lowered_to("region", convnext(batch=8, layers=(2, 1), dtype="fp16"))


def test_a_norm_is_one_kernel_where_the_order_makes_its_rows_contiguous(stage: region.Module) -> None:
    """As it is written, rows are apart in memory, so that its folds take three kernels."""
    planner = Planner(card_of("sm90", "h200"))
    assert "s0.b1.norm.sum" in {r.name for r in in_parts(stage, planner).program.regions}
    module = kernels_for(stage, planner)
    assert "s0.b1.norm.sum" not in {r.name for r in module.program.regions}
    shapes = {t.name: str(t.type) for t in module.program.buffers}
    assert shapes["s0.b1.deep"] == "fp16[8, 56, 56, 96]"


def test_a_fold_asks_for_what_its_rows_are_made_of() -> None:
    """Patches are a convolution's, whose channels come first; a class token is beside them, and positions are added."""
    module = kernels_for(lowered_to("region", vit(batch=8, dtype="fp16")), Planner(card_of("sm90", "h200")))
    shapes = {t.name: str(t.type) for t in module.program.buffers}
    assert shapes["patches"] == "fp16[8, 14, 14, 768]"
    assert [r.name for r in module.program.regions if r.name.startswith("l0.norm1")] == ["l0.norm1"]


OTHERS = {
    "convnext": convnext(batch=2, layers=(1, 1), width=32, size=32, classes=5, dtype="fp16"),
    "vit": vit(batch=2, size=32, patch=8, hidden=32, heads=2, classes=5, dtype="fp16"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_orders_compute_the_same(name: str) -> None:
    """All that is asked for, whatever it takes."""
    module = lowered_to("region", OTHERS[name])
    other, turned = turn_buffers(module, lambda made, names: dict.fromkeys(names, float(made is module)))
    arrays = OTHERS[name].arrays(2)
    assert turned
    for name, array in play(other, arrays).items():
        np.testing.assert_allclose(array.astype(float), play(module, arrays)[name].astype(float), rtol=1e-2, atol=1e-2)


def test_a_kernel_that_loses_much_keeps_its_order_where_the_others_gain_more() -> None:
    """All together are faster turned, and faster still without what one fold reads."""
    module = lowered_to("region", mobilenet(dtype="fp16"))
    slow = "b4.gate.means"

    def times(made: region.Module, names: Container[str]) -> dict[str, float]:
        same = {r.name: made.program.region(r.name) == r for r in module.program.regions if r.name in names}
        return {name: 10.0 if is_same else 50.0 if name == slow else 1.0 for name, is_same in same.items()}

    other, turned = turn_buffers(module, times)
    changed = [r.name for r in module.program.regions if other.program.region(r.name) != r]
    assert slow not in changed and len(changed) > 5
    assert sum(one.before - one.after for one in turned) > 0


def test_an_image_in_another_order_than_the_results_costs_its_lines() -> None:
    """Neighbouring threads read one line each, and no plan is near those that read what is side by side."""
    planner, found = Planner(card_of("sm90", "h200")), []
    for order, place in (("96, 56, 56", "i1, i2 + k0, i3 + k1"), ("56, 56, 96", "i2 + k0, i3 + k1, i1")):
        tensors = f"in X : fp16[8, {order}]\n in W : fp16[96, 7, 7]\n out Y : fp16[8, 96, 50, 50]"
        body = f"""for i0: 8, i1: 96, i2: 50, i3: 50
        %s = reduce sum (k0: 7, k1: 7) : fp32 {{ mul(X[i0, {place}], W[i1, k0, k1]) : fp32 }}
        yield Y[i0, i1, i2, i3] = cast(%s) : fp16"""
        module = region.parse(region_text(tensors, body))
        found.append(planner.us(module, *module.program.regions))
    assert found[1] > 2 * found[0]
