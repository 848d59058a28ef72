"""Contractions that are the same but for their tensors are one launch: planned, checked, emitted and run as one, in
every template."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tinyir.front.json import read
from tinyir.ir import gpu, manifest, plan, region
from tinyir.kernels.siblings import Siblings, siblings_of
from tinyir.kit.diag import Refused
from tinyir.lower import lower_to, lowering_of
from tinyir.play.region import play
from tinyir.runtime.arrays import random_arrays
from tinyir.runtime.run import run

from .checked import check_gpu, check_plan
from .stages import graph, needs_host_compiler


def projections(
    dtype: str,
    rows: int | str,
    inner: int,
    columns: dict[str, int],
    batch: tuple[int, ...] = (),
    fns: dict[str, str] = None,
) -> str:
    """`x @ w + b` for each name, all of one x, with a function of its own behind it where `fns` has one."""
    if fns is None:
        fns = {}
    given: dict[str, Any] = {"x": (dtype, [*batch, rows, inner])}
    made, ops = {}, []
    for name, width in columns.items():
        given |= {f"w{name}": (dtype, [*batch, inner, width]), f"b{name}": (dtype, [width])}
        made[name] = (dtype, [*batch, rows, width])
        ops += [
            ("MatMul", ["x", f"w{name}"], f"m{name}", {}),
            ("Elementwise", [f"m{name}", f"b{name}"], f"s{name}", {"fn": "add"}),
        ]
        ops.append(("Elementwise", [f"s{name}"], name, {"fn": fns.get(name, "relu")}))
    return graph(given, made, *ops, shape_sets={"default": {"M": 32}} if isinstance(rows, str) else {})


def planned(text: str, arch: str = "sm90", algo: str = "") -> plan.Module:
    """The plan text of a model; with `algo`, the cheapest plan of it for the first kernel."""
    module: Any = read(text)
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, arch)
    found = lower_to("plan", module, arch)
    if algo:
        one, *others = found.program.program.regions
        chosen = next(
            c.plan
            for c in lowering_of("plan").candidates(found.program, one, arch, others=tuple(others))
            if c.plan.algo == algo and not c.rejected
        )
        found = replace(found, plans=(chosen,))
    assert [d.code for d in check_plan(found) if d.is_error] == [] and plan.parse(plan.show(found)) == found
    return found


def emitted(found: plan.Module) -> tuple[gpu.Module, str]:
    """The gpu module and the CUDA text."""
    kernels = lower_to("gpu", found, "sm90")
    assert [d.code for d in check_gpu(kernels) if d.is_error] == [] and gpu.parse(gpu.show(kernels)) == kernels
    return kernels, manifest.show(lower_to("cu", kernels, "sm90"))


THREE = dict.fromkeys("qkv", 72)
EACH = [
    ("fp32", "M", 40, (), "sm90", "synchronous"),
    ("fp32", 33, 40, (2,), "sm80", "synchronous"),
    ("fp16", 33, 64, (), "sm80", "multistage"),
    ("fp16", 20, 64, (2,), "sm80", "multistage"),
    ("fp16", 33, 64, (), "sm90", "warp_specialized"),
    ("fp16", "M", 64, (), "sm90", "warp_specialized"),
    ("bf16", 20, 128, (2,), "sm90", "warp_specialized"),
]


@needs_host_compiler
@pytest.mark.parametrize("dtype, rows, inner, batch, arch, algo", EACH)
def test_every_template_computes_all_of_them(
    dtype: str, rows: int | str, inner: int, batch: tuple[int, ...], arch: str, algo: str
) -> None:
    found = planned(projections(dtype, rows, inner, THREE, batch), arch, algo)
    assert [p.regions for p in found.plans] == [("mq", "mk", "mv")]
    kernels, text = emitted(found)
    assert len(kernels.kernels) == 1 and re.search("pick (wq|[ab].map).sibling", gpu.show(kernels))
    arrays = random_arrays(found.program.model, {"M": 37} if rows == "M" else {}, 3)
    wanted, given = play(found.program, arrays), run(text, arrays, device="sim")[0]
    assert given.keys() == set("qkv")
    for name, array in wanted.items():
        np.testing.assert_allclose(
            given[name].astype(np.float32), array.astype(np.float32), rtol=1e-2, atol=1e-2, err_msg=name
        )
    assert not np.allclose(given["q"].astype(np.float32), given["k"].astype(np.float32))


def test_it_is_said_and_costs_less() -> None:
    """One launch is cheaper than three, and the remark names them; what is apart says why."""
    text = projections("fp16", 64, 768, dict.fromkeys("qkv", 768))
    found = planned(text)
    module: Any = read(text)
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    assert [(d.code, d.facts["regions"]) for d in lowering_of("plan").verdicts(module)] == [("R3469", "mq, mk, mv")]
    parts = lowering_of("plan").in_parts(module).program.regions
    alone = [lowering_of("plan").candidates(module, one)[0].cost.microseconds for one in parts]
    assert found.plans[0].estimate.microseconds < sum(alone) / 2


@pytest.mark.parametrize(
    "text, together",
    [
        (
            projections("fp32", "M", 40, {"q": 72, "k": 24, "v": 72}),
            [("mk",), ("mq", "mv")],
        ),  # a region of two, and one of another shape
        (projections("fp32", "M", 40, THREE, fns={"v": "neg"}), [("mq", "mk"), ("mv",)]),
        (projections("fp32", "M", 40, THREE, fns={"k": "neg"}), [("mq",), ("mk",), ("mv",)]),  # only neighbours
        (projections("fp32", 4096, 1024, dict.fromkeys("qkv", 4096)), [("mq",), ("mk",), ("mv",)]),  # each fills a card
    ],
)
def test_what_is_not_the_same_stays_apart(text: str, together: list[tuple[str, ...]]) -> None:
    assert [p.regions for p in planned(text).plans] == together


def test_why_they_are_apart_is_said() -> None:
    module: Any = read(projections("fp32", "M", 40, THREE, fns={"k": "neg"}))
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    said = lowering_of("plan").verdicts(module)
    assert [(d.code, d.facts["parts"], d.facts["reason"]) for d in said] == [
        ("R3467", "mq, mk, mv", "mk is not mq with other tensors")
    ]


def test_the_axis_of_siblings_is_outermost() -> None:
    found = siblings_of(planned(projections("fp32", 8, 16, THREE, (2,))).program.program.regions)
    assert (
        isinstance(found, Siblings)
        and [str(a) for a in found.kernel.batch] == ["sibling: 3", "i0: 2"]
        and found.kernel.siblings == 3
    )
    assert found.tensors == (("wq", ("wq", "wk", "wv")), ("bq", ("bq", "bk", "bv")), ("q", ("q", "k", "v")))


def test_many_are_several_launches() -> None:
    """Each has parameters of its own, of which a launch has not any number."""
    found = planned(projections("fp32", 8, 16, dict.fromkeys((f"n{at}" for at in range(11)), 24)))
    assert sorted(len(p.regions) for p in found.plans) == [3, 8]


def test_an_axis_of_that_name_keeps_them_apart() -> None:
    module = planned(projections("fp32", 8, 16, THREE, (2,))).program
    named = region.parse(region.show(module).replace("i0", "sibling")).program.regions
    assert siblings_of(named) == "mq has an axis of the name that counts siblings"


FAULTS = {
    "a weight of another sibling": ("[wq, wk, wv]", "[wq, wv, wk]", "E1602"),
    "one too few": ("[wq, wk, wv]", "[wq, wk]", "E1602"),
    "a tensor that is not alike": ("[wq, wk, wv]", "[wq, bk, wv]", "E1602"),
    "a number that is not below": ("at sibling", "at sibling + 1", "E1614"),
    "picked twice": ("  pick wq.sibling", "  pick wq.sibling = [wq, wk, wv] at sibling\n  pick wq.sibling", "E1606"),
    "a tensor of nobody": ("[wq, wk, wv]", "[wq, wk, wu]", "E1605"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_in_picks_are_found(fault: str) -> None:
    old, new, code = FAULTS[fault]
    text = gpu.show(emitted(planned(projections("fp32", "M", 40, THREE), "sm90", "synchronous"))[0])
    assert old in text
    assert code in [d.code for d in check_gpu(gpu.parse(text.replace(old, new, 1)))]


def test_a_plan_of_strangers_is_refused() -> None:
    found = planned(projections("fp32", "M", 40, {"q": 72, "k": 24}))
    together = replace(found, plans=(replace(found.plans[0], regions=("mq", "mk")),))
    assert "E1582" in [d.code for d in check_plan(together)]
    with pytest.raises(Refused) as refused:
        lower_to("gpu", together, "sm90")
    assert [d.code for d in refused.value.diags] == ["E1582"]


def test_the_text_has_the_body_once() -> None:
    text = gpu.show(emitted(planned(projections("fp16", 33, 64, THREE), "sm90", "warp_specialized"))[0])
    assert (
        text.count("wgmma acc") == 1 and len(re.findall(r"tensor_map", text)) == 7
    )  # of three weights, of what they share and of three results
