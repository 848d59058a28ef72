"""The family that holds any region: what no other holds, and everything else too, is right in the simulation; it is
planned where nothing faster is."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tinyir.ir import gpu, manifest, plan, region
from tinyir.kernels import plain
from tinyir.kernels.family import Problem
from tinyir.kernels.problem import Plain
from tinyir.lower import cu as to_cu
from tinyir.lower import gpu as to_gpu
from tinyir.lower import lower_to
from tinyir.lower import plan as to_plan
from tinyir.play.region import play
from tinyir.runtime.run import run
from tinyir.sim.host import COMPILERS

from .checked import check_gpu, check_plan
from .graphs import random_graphs

SAMPLES = Path(__file__).parents[2] / "samples"
needs_host_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")

BODIES: dict[str, tuple[str, ...]] = {
    "a fold of scans": ("%y = reduce sum (k0: 5) : fp32 { scan sum (i0) : fp32 { x[i0, k0] } }",),
    "a scan of folds": ("%y = scan sum (i0) : fp32 { reduce sum (k0: 5) : fp32 { x[i0, k0] } }",),
    "a scan at a gathered place": ("%y = gather (k1: 6 = at[i0]) { scan sum (i0) : fp32 { z[i0] } }",),
    "a fold of gathered folds": (
        "%y = reduce sum (k0: 5) : fp32 { gather (k1: 6 = at[i0]) { reduce max (k2: 5) : fp32 { mul(x[k1, k2], x[i0, "
        "k0]) } } }",
    ),
    "scans both ways": ("%a = scan sum (i0) : fp32 { z[i0] }", "%y = scan max reverse (i0) : fp32 { sub(%a, z[i0]) }"),
    "a scan read elsewhere": ("%a = scan sum (i0) : fp32 { z[i0] }", "%y = add(%a[5 - i0], z[i0])"),
    "a scan without its point": ("%y = scan sum exclusive (i0) : fp32 { z[i0 - 1] where 1 <= i0 else 2.0 }",),
    "a scan from the end without its point": ("%y = scan max reverse exclusive (i0) : fp32 { z[i0] }",),
    "a scatter of folds": (
        "%y = scatter sum i0 (k0: 6) { reduce sum (k1: 5) : fp32 { x[k0, k1] } at at[k0] } onto z[i0]",
    ),
    "a scatter of what is folded": (
        "%b = reduce max (i0) : fp32 { z[i0] }",
        "%y = scatter sum i0 (k0: 6) { sub(z[k0], %b) at at[k0] } onto z[i0]",
    ),
    "a scatter of a scan": (
        "%a = scan sum (i0) : fp32 { z[i0] }",
        "%y = scatter max i0 (k0: 6) { %a[k0] at at[k0] } onto %a",
    ),
    "a fold that needs another": (
        "%a = reduce sum (k0: 5) : fp32 { x[i0, k0] }",
        "%b = reduce max (i0) : fp32 { %a }",
        "%y = reduce sum (k0: 5) : fp32 { sub(x[i0, k0], %b) }",
    ),
    "values at other points": (
        "%a = add(z[i0], 1.0)",
        "%b = add(%a[i0 - 1] where 1 <= i0 else 0.0, %a)",
        "%y = add(%b[i0 - 1] where 1 <= i0 else 0.0, %b)",
    ),
    "a fold under a guard": ("%y = reduce sum (k0: 5) : fp32 { x[i0 - 1, k0] } where 1 <= i0 else z[i0]",),
    "a place that a fold chooses": (
        "%y = gather (k1: 6 = reduce max (k0: 5) : i32 { cast(x[i0, k0]) : i32 }) { z[k1] }",
    ),
    "the greatest's place": ("%y = cast(reduce argmax (k0: 5) : i32 { x[i0, k0] }) : fp32",),
}


def program(bodies: list[tuple[str, ...]]) -> region.Module:
    """A region for each of the bodies, all of the same inputs."""
    inputs = ["  in  x           : fp32[6, 5]", "  in  z           : fp32[6]", "  in  at          : i32[6]"]
    outputs = [f"  out y{n} : fp32[6]" for n in range(len(bodies))]
    lines = ["tinyir 1.0 region", "", "model m", *inputs, *outputs, "", "program m"]
    for n, body in enumerate(bodies):
        used = [
            line
            for line in inputs
            if f" {line.split()[1]}[" in " " + " ".join(body).replace("(", " ").replace("{", " ")
        ]
        lines += [
            "",
            f"region y{n}",
            *used,
            outputs[n],
            "  for i0: 6",
            *(f"    {b}" for b in body),
            f"  yield y{n}[i0] = %y",
        ]
    return region.parse("\n".join(lines) + "\n")


ARRAYS = {
    "x": np.random.default_rng(0).integers(-3, 4, (6, 5)).astype(np.float32),
    "z": np.random.default_rng(1).integers(-3, 4, 6).astype(np.float32),
    "at": np.int32([0, 2, -1, 5, 9, 2]),
}


def all_plain(module: region.Module) -> plan.Module:
    card = to_plan.card_of("sm90", None)
    problems = (Problem((one,), Plain(), module.model) for one in module.program.regions)
    return plan.Module(module, tuple(p.plan for problem in problems for p in plain.FAMILY.space(problem, card)))


def simulated(planned: plan.Module, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What the kernels of plans give; every text on the way holds."""
    assert [d.code for d in check_plan(planned) if d.is_error] == []
    kernels = to_gpu.lower(planned)
    assert gpu.parse(gpu.show(kernels)) == kernels
    assert [(d.code, d.at, dict(d.facts)) for d in check_gpu(kernels) if d.is_error] == []
    return run(manifest.show(to_cu.lower(kernels)), arrays, device="sim", limit=60)[0]


@needs_host_compiler
@pytest.mark.parametrize("is_plain", [True, False])
def test_every_expression_of_the_language_has_a_kernel(is_plain: bool) -> None:
    module = program(list(BODIES.values()))
    assert [(d.code, d.at) for d in region.check(module) if d.is_error] == []
    wanted = play(module, ARRAYS)
    found = simulated(all_plain(module) if is_plain else to_plan.lower(module), ARRAYS)
    for name, output in zip(BODIES, wanted):
        np.testing.assert_array_equal(found[output], wanted[output], err_msg=name)


@needs_host_compiler
def test_any_program_runs_plainly() -> None:
    module, arrays = random_graphs(range(12))
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    assert not any(t.attr("materialize") == "deferred" for one in module.program.regions for t in one.outputs)
    wanted, found = play(module, arrays), simulated(all_plain(module), arrays)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-4, err_msg=name)


def test_it_is_planned_where_nothing_faster_is_and_says_so() -> None:
    module = program([BODIES["a fold of scans"], BODIES["a scan of folds"]])
    assert sorted(p.algo for p in to_plan.lower(module).plans) == ["flat", "plain", "scan_block"]
    assert [(d.at, d.facts["what"]) for d in to_plan.verdicts(module) if d.code == "R3475"] == [("y", "scan sum (i0)")]


def test_a_result_has_a_thread_and_no_more() -> None:
    """Each group of writes has CTAs of its own, behind one another; none visits more points than it has results."""
    kernels = to_gpu.lower(all_plain(program(list(BODIES.values())))).kernels
    assert {math.prod(e.evaluate({}) for e in k.grid) for k in kernels} == {1}


def test_a_tile_is_a_result_for_each_thread() -> None:
    planned = all_plain(program([BODIES["a fold of scans"]]))
    (one,) = planned.plans
    assert {d.code for d in check_plan(replace(planned, plans=(replace(one, tile=(128,)),))) if d.is_error}


def test_no_sample_needs_it() -> None:
    texts = {path.stem: path.read_text(encoding="utf-8") for path in SAMPLES.glob("*/*.plan")}
    assert texts and [name for name, text in texts.items() if "algo       plain" in text] == []
