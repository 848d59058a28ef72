"""What is the same but for names is worked out once: what a network costs by its layers, in counts of work and in
calls, and that what is remembered of one region holds of those that are alike."""

from __future__ import annotations

import itertools
import sys
from typing import Any

import pytest

from tests.models import mlp
from tinyir.analysis.regions import analyse
from tinyir.front.json import read
from tinyir.ir import region
from tinyir.ir.alike import Alike, form_of
from tinyir.ir.pipeline import STAGES
from tinyir.kernels.alternatives.materialize_prologues import materialize_prologues
from tinyir.kernels.problem import is_contraction
from tinyir.kit import work
from tinyir.kit.records import replace
from tinyir.lower import language_of, lower_to
from tinyir.lower.plan import card_of
from tinyir.lower.plan.kernels_for import in_orders, in_parts
from tinyir.lower.plan.planner import Planner
from tinyir.lower.region import normalise

from ..models.small import SMALL
from .effort import counted
from .test_proof_steps import forget

ONCE = (  # for all that is alike
    "values checked",
    "regions drafted",
    "regions matched",
    "regions analysed",
    "regions checked",
    "regions proven",
    "launches judged",
    "launches planned",
    "plans checked",
    "kernels checked",
)
CALLS = 17_100  # for a layer of a perceptron, all stages and checks together


def compiled(text: str) -> str:
    """Front-end JSON as CUDA, every stage checked."""
    module: Any = read(text)
    for stage in STAGES[1:]:
        module = lower_to(stage, module, "sm90")
        assert [d for d in language_of(stage).check(module) if d.is_error] == []
    return language_of("cu").show(module)


def cost(layers: int) -> tuple[int, dict[str, int]]:
    """Calls and counts of a perceptron of `layers` layers and four shapes, with nothing remembered from before."""
    text = mlp(layers, shapes=4).text
    forget()
    before = dict(work.counts)
    calls, _ = counted(compiled, text)
    return calls, {kind: work.counts[kind] - before.get(kind, 0) for kind in ONCE}


def test_layers_that_are_alike_cost_their_names_alone() -> None:
    compiled(mlp(2, shapes=4).text)  # imports
    (few, once), (many, again) = cost(12), cost(24)
    assert once == again and {kind for kind, number in once.items() if not number} <= {
        "regions drafted",
        "regions matched",
    }
    assert (many - few) / 12 < CALLS


def regions_of(text: str) -> region.Module:
    """The regions of a model."""
    module: Any = read(text)
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    return module


@pytest.mark.parametrize("name", SMALL)
def test_what_holds_of_a_cluster_holds_of_those_that_are_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    holding_fault = normalise.holding_fault

    def anew(cluster: Any, graph: Any, order: Any) -> str:
        nonlocal asked
        asked += 1
        found = holding_fault(cluster, graph, order)
        known = dict(graph.faults)
        graph.faults.clear()
        assert holding_fault(cluster, graph, order) == found
        graph.faults.update(known)
        return found

    for user in ("fuse", "stream", "join_siblings"):
        monkeypatch.setattr(sys.modules[f"tinyir.lower.region.{user}"], "holding_fault", anew)
    regions_of(SMALL[name](dtype="fp16").text)
    assert asked > 0


@pytest.mark.parametrize("name", ("bert", "gpt2", "vit"))
def test_regions_of_one_key_differ_in_names_alone(name: str) -> None:
    module = regions_of(SMALL[name](dtype="fp16").text)
    groups = itertools.groupby(sorted(module.program.regions, key=lambda r: hash(Alike.of(r))), key=Alike.of)
    several = [group for _, regions in groups if len(group := list(regions)) > 1]
    assert several
    for first, *others in several:
        for other in others:
            assert form_of(first).shape is form_of(other).shape and analyse(first) == analyse(other)
            assert (first.iters, len(first.lets)) == (other.iters, len(other.lets))


def test_a_tensor_that_nothing_uses_is_part_of_a_key() -> None:
    module = regions_of(mlp(1, shapes=2).text)
    one = module.program.regions[0]
    spare = replace(one.inputs[0], name="spare")
    read_too, written_too = replace(one, inputs=(*one.inputs, spare)), replace(one, outputs=(*one.outputs, spare))
    assert len({Alike.of(one), Alike.of(read_too), Alike.of(written_too)}) == 3


@pytest.mark.parametrize("arch", ("sm80", "sm90"))
@pytest.mark.parametrize("name", SMALL)
def test_bounds_of_times_change_no_choice(name: str, arch: str) -> None:
    module = regions_of(SMALL[name](dtype="fp16").text)
    planner = Planner(card_of(arch, None))
    module = in_parts(module, planner)
    turned, done = in_orders(module, planner)
    assert in_orders(module, planner, is_told=False)[0] == turned
    for one in done:
        assert one.after < one.before
    has_engine = planner.card.arch.has_tma
    apart = materialize_prologues(turned, planner.us, has_engine)
    assert materialize_prologues(turned, planner.us, has_engine, planner.least_us) == apart
    for one in apart[0].program.regions:
        if is_contraction(one, {}):
            assert planner.least_us(apart[0], one) <= planner.us(apart[0], one)
