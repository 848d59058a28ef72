"""What planning costs, in launches and candidates judged and in plans made: what is asked again that was asked before
shows here, on any machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.models import gpt2, resnet50
from tinyir.front.json import read
from tinyir.ir import region
from tinyir.ir.plan import Plan
from tinyir.kernels.alternatives import materialize_prologues as materialize
from tinyir.lower import lower_to
from tinyir.lower import plan as to_plan
from tinyir.lower.plan import planner as judging

from ..models.small import SMALL
from .stages import graph

SAMPLES = Path(__file__).parents[2] / "samples"
Steps = tuple[int, int, int]
# launches, candidates, plans: of candidates and plans a quarter more than were counted
LIMITS: dict[str, Steps] = {
    "attention_causal": (1, 160, 190),
    "attention_scores": (2, 490, 39),
    "blur_of_blur": (1, 8, 8),
    "conv3x3_silu": (11, 2100, 320),
    "cumsum": (1, 33, 33),
    "embedding": (1, 15, 15),
    "gemm_bias_relu": (1, 650, 24),
    "layernorm": (1, 48, 50),
    "mlp": (12, 3730, 240),
    "resnet_block": (13, 3490, 180),
    "softmax": (1, 33, 33),
}
NETWORKS: dict[str, Steps] = {
    "resnet": (76, 22400, 2360),
    "bert": (11, 4000, 460),
    "gpt2": (10, 3940, 420),
    "vit": (20, 5500, 790),
}
WHOLE: dict[str, tuple[Callable[[], Any], Steps]] = {
    "resnet50 fp16": (lambda: resnet50(dtype="fp16"), (133, 57000, 3430)),
    "gpt2 s1024 fp16": (lambda: gpt2(tokens=1024, dtype="fp16"), (20, 6400, 745)),
}


def regions(text: str) -> region.Module:
    """A model as regions."""
    module: Any = read(text)
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    return module


def spent(module: region.Module, monkeypatch: pytest.MonkeyPatch) -> Steps:
    """Launches judged, candidates judged, and plans made of them, to plan a module."""
    found = []
    of_launch, made = judging.of_launch, Plan.__init__
    count = 0

    def judged(*given: Any) -> Any:
        found.append(of_launch(*given))
        return found[-1]

    def counted(self: Plan, *given: Any, **named: Any) -> None:
        nonlocal count
        count += 1
        made(self, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(judging, "of_launch", judged)
        patch.setattr(Plan, "__init__", counted)
        to_plan.lower(module)
    return len(found), sum(map(len, found)), count


def within(steps: Steps, most: Steps) -> bool:
    """Whether none of the numbers is over its limit."""
    return all(n <= limit for n, limit in zip(steps, most))


def test_every_sample_has_a_limit() -> None:
    assert LIMITS.keys() == {folder.name for folder in SAMPLES.iterdir() if folder.is_dir()}


@pytest.mark.parametrize("name", LIMITS)
def test_a_sample_is_planned_within_its_limit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = region.parse((SAMPLES / name / f"{name}.region").read_text(encoding="utf-8"))
    assert within(spent(module, monkeypatch), LIMITS[name])


def test_every_small_network_has_a_limit() -> None:
    assert NETWORKS.keys() == SMALL.keys()


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_planned_within_its_limit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert within(spent(regions(SMALL[name](dtype="fp16").text), monkeypatch), NETWORKS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_network_is_planned_within_its_limit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    build, most = WHOLE[name]
    assert within(spent(regions(build().text), monkeypatch), most)


def test_layers_that_are_alike_are_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    two, six = (
        spent(regions(gpt2(layers=n, tokens=128, hidden=64, heads=2, words=50, dtype="fp16").text), monkeypatch)
        for n in (2, 6)
    )
    assert six[:2] == two[:2]


def mlp(layers: int, widths: tuple[int, ...]) -> str:
    """Layers whose widths come round again."""
    sizes = [widths[n % len(widths)] for n in range(layers + 1)]
    weights = {f"w{n}": ("fp16", [sizes[n], sizes[n + 1]]) for n in range(layers)}
    steps = [
        step
        for n in range(layers)
        for step in (
            ("MatMul", [f"h{n}" if n else "x", f"w{n}"], f"p{n}", {}),
            ("Elementwise", [f"p{n}"], f"h{n + 1}" if n + 1 < layers else "y", {"fn": "relu"}),
        )
    ]
    return graph({"x": ("fp16", [256, sizes[0]]), **weights}, {"y": ("fp16", [256, sizes[-1]])}, *steps)


def test_work_grows_with_distinct_shapes_and_not_with_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    one, twice = (spent(regions(mlp(layers, (64, 128, 192))), monkeypatch) for layers in (9, 27))
    assert one[:2] == twice[:2]


def test_contractions_that_are_alike_are_taken_apart_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[region.Region] = []
    ways = materialize._ways
    monkeypatch.setattr(materialize, "_ways", lambda module, one, *how: asked.append(one) or ways(module, one, *how))
    module = regions(SMALL["resnet"](dtype="fp16").text)
    wanted = {one.name for one in module.program.regions}
    *_, times = materialize.least_times(module, wanted, lambda *given: 1.0, lambda *given: 1.0, True)
    forms = {materialize._likeness(one, module.model.constants()) for one in asked}
    assert len(times) == len(wanted) > len(asked) == len(forms)
