"""Launches that are the same but for names are judged once, and each has the plan that it would have had alone."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from tests.models import resnet50
from tests.models.counts import regions_of
from tinyir.front.json import read
from tinyir.ir import plan, region
from tinyir.lower import lower_to
from tinyir.lower.plan import card_of
from tinyir.lower.plan import planner as judging
from tinyir.lower.plan.kernels_for import in_parts, kernels_for, launches
from tinyir.lower.plan.planner import Planner

from .stages import graph
from .test_models import SMALL
from .test_padded_once import constant

NETWORKS = SMALL | {
    "resnet": lambda **k: resnet50(layers=(1, 3), width=8, size=32, classes=10, **k)
}  # of which each has blocks that are alike
CONTRACTIONS = ("A", "W"), ("B", "V")


def products(*arrays: tuple[str, str], sizes: tuple[int, int, int] = (1024, 1023, 1024)) -> region.Module:
    """A product of each pair of tensors, in fp16, which share no operand."""
    m, n, k = sizes
    given = {name: ("fp16", dims) for left, right in arrays for name, dims in ((left, [m, k]), (right, [k, n]))}
    made = {f"{left}{right}": ("fp16", [m, n]) for left, right in arrays}
    module: Any = read(graph(given, made, *(("MatMul", [left, right], f"{left}{right}", {}) for left, right in arrays)))
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    return module


def plans_of(module: region.Module, planner: Planner) -> list[plan.Plan]:
    """The first plan of each region."""
    return [planner.plans(module, one)[0] for one in module.program.regions]


@pytest.mark.parametrize("arch", ("sm80", "sm90"))
@pytest.mark.parametrize("name", NETWORKS)
def test_plans_are_those_of_a_launch_alone(name: str, arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[Any] = []
    of_launch = judging.of_launch
    monkeypatch.setattr(
        judging, "of_launch", lambda module, group, *how: judged.append(group) or of_launch(module, group, *how)
    )
    planner = Planner(card_of(arch, None))
    module = kernels_for(regions_of(read(NETWORKS[name](dtype="fp16").text)), planner)
    groups = launches(module, planner)
    together = [planner.plans(module, *group) for group in groups]
    assert len(set(judged) & set(groups)) < len(groups)
    for group, chain in zip(groups, together):
        assert Planner(planner.card).plans(module, *group) == chain
        assert {one.regions for one in chain} == {tuple(r.name for r in group)}


def test_a_constant_is_not_like_an_activation() -> None:
    module = products(*CONTRACTIONS)
    kept = constant(region.show(module), "V")
    alike, apart = (plans_of(m, Planner(card_of("sm90", None))) for m in (module, kept))
    assert [[(item.tensor, item.hint) for item in one.layout] for one in (*alike, *apart)] == [
        [("W", "padded")],
        [("V", "padded")],
        [("W", "padded")],
        [("V", "padded_once")],
    ]
    for one, other, found in zip(module.program.regions, kept.program.regions, zip(alike, apart)):
        assert found == tuple(Planner(card_of("sm90", None)).plans(m, r)[0] for m, r in ((module, one), (kept, other)))


def test_where_nothing_fits_a_card_plans_are_plain_ones_of_their_own_names() -> None:
    module, card = products(*CONTRACTIONS), card_of("sm80", None)
    planner = Planner(replace(card, arch=replace(card.arch, smem_per_cta=16, static_smem=16)))
    found = [planner.plans(module, one) for one in module.program.regions]
    assert [[(p.algo, p.regions) for p in plans] for plans in found] == [
        [("plain", (one.name,))] for one in module.program.regions
    ]


def test_who_shares_an_operand_is_not_like_who_shares_none() -> None:
    planner = Planner(card_of("sm90", None))
    module = in_parts(products(("X", "W"), ("X", "U"), ("Y", "V"), ("Z", "T"), sizes=(512, 64, 4096)), planner)
    one, other, third, last = module.program.regions
    for group in ((one, other), (third, last), (other, third)):
        assert planner.plans(module, *group) == Planner(planner.card).plans(module, *group)
    assert planner.us(module, one, other) < planner.us(module, third, last)


def test_a_region_that_another_process_has_read_is_found() -> None:
    one = products(*CONTRACTIONS).program.regions[0]
    assert hash(one) == hash(replace(one)) and replace(one, name="other") != one
    code = (
        "import pickle, sys; from dataclasses import replace; one = pickle.load(sys.stdin.buffer); print(hash(one) "
        "== hash(replace(one)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(one),
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"True\n"
