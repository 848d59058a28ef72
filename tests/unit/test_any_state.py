"""Random programs whose outputs are new values of inputs, wherever the types agree: each is right at every stage, in
place or copied."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence

import numpy as np
import pytest

from tinyir.ir import manifest, tiny
from tinyir.ir.pipeline import STAGES
from tinyir.kit.records import replace
from tinyir.lower import language_of, lower_to
from tinyir.lower import region as to_region
from tinyir.play import tiny as play_tiny
from tinyir.runtime.run import run
from tinyir.sim.host import COMPILERS

from .graphs import random_graphs
from .test_any_program import HALF, SINGLE

pytestmark = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")

EACH, QUICK, ALL = 20, 40, 2000
STATE = (("role", "state"), ("mutability", "mutable"))


def with_states(module: tiny.Module, seed: int) -> tiny.Module:
    """The module in which outputs update inputs of their type, drawn by lot: of the same program where one is."""
    draw = random.Random(seed)
    free = {t.name: t for t in module.model.inputs}
    updates: dict[str, str] = {}
    for output in module.model.outputs:
        fitting = [n for n, t in free.items() if t.type == output.type and not t.attrs]
        near = [n for n in fitting if n.split(".")[0] == output.name.split(".")[1]]
        if (chosen := near or fitting) and draw.random() < 0.9:
            updates[output.name] = draw.choice(chosen)
            del free[updates[output.name]]
    states = set(updates.values())
    inputs = tuple(replace(t, attrs=STATE) if t.name in states else t for t in module.model.inputs)
    outputs = tuple(
        replace(t, attrs=(*t.attrs, ("updates", updates[t.name]))) if t.name in updates else t
        for t in module.model.outputs
    )
    return replace(module, model=replace(module.model, inputs=inputs, outputs=outputs))


def agree(seeds: Sequence[int]) -> dict[str, int]:
    """The programs of these seeds with states hold at each stage and give what playback gives; how many states are
    written in place, copied, and not changed."""
    module, arrays = random_graphs(seeds)
    module = with_states(module, seeds[0])
    assert [d for d in tiny.check(module) if d.is_error] == []
    wanted, given, said = play_tiny.play(module, arrays), module, []
    for stage in STAGES[1:]:
        if stage == "region":
            said = [d.code for d in to_region.verdicts(module) if d.code in ("R3406", "R3407", "R3408")]
        module = lower_to(stage, module, "sm90")
        assert [(d.code, d.at, dict(d.facts)) for d in language_of(stage).check(module) if d.is_error] == [], stage
    assert len(said) == len(given.model.states())
    found, _ = run(manifest.show(module), arrays, device="sim", seed=seeds[0], limit=60)
    halves = {value.name.split(".")[0] for value in given.values if value.type.dtype.name == "fp16"}
    for name, array in wanted.items():
        tolerance = HALF if name.split(".")[1] in halves else SINGLE
        np.testing.assert_allclose(found[name], array, rtol=tolerance, atol=tolerance, err_msg=name)
    return {code: said.count(code) for code in ("R3406", "R3407", "R3408")}


@pytest.mark.parametrize("first", range(0, QUICK, EACH))
def test_states_of_any_program_are_right(first: int) -> None:
    found = agree(range(first, first + EACH))
    assert found["R3406"] + found["R3407"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("first", range(QUICK, ALL, EACH))
def test_states_of_thousands_are_right(first: int) -> None:
    agree(range(first, first + EACH))
