"""What a contraction multiplies is computed as its tiles are filled, where that costs less than a round trip; all
stages give one answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tinyir.ir import plan, region
from tinyir.ir.body import Binary, Select, Unary, walk
from tinyir.kernels.alternatives.materialize_prologues import materialize_prologues
from tinyir.kernels.problem import Contraction, kernels_of
from tinyir.lower import language_of, lower_to, lowering_of
from tinyir.lower.region.fuse_prologues import forget
from tinyir.play.region import play
from tinyir.runtime.arrays import random_arrays

from .checked import check_plan
from .stages import Stages, graph, needs_host_compiler


def test_a_value_that_its_cluster_forgets_is_stored_there_no_longer() -> None:
    """A product's result, the same in another order beside it, which a reader computes itself from then on."""
    members: dict[str, Any] = {n: SimpleNamespace(sources=s) for n, s in (("mm", ()), ("turned", ("mm",)))}
    home: Any = SimpleNamespace(
        number=0, members=dict(members), open={"mm": None, "turned": None}, copies=set(), place={"mm": {}},
        stored={"turned": ("mm", ())}, escaping=lambda _: [*home.open],
    )  # fmt: skip
    found: Any = SimpleNamespace(
        graph=SimpleNamespace(nodes=members), holders={n: {0} for n in members}, verdicts={}, bytes_of=lambda _: 4
    )
    forget("turned", home, False, {"turned": members["turned"]}, found)
    assert ([*home.members], home.stored, found.holders["turned"]) == (["mm"], {}, set())


X, W, Y = ("fp32", [33, 40]), ("fp32", [40, 24]), ("fp32", [33, 24])
PRODUCT = ("MatMul", ["a", "w"], "y", {})


def elementwise(fn: str, *inputs: Any, out: str = "a") -> tuple[str, list[Any], str, dict[str, Any]]:
    return ("Elementwise", list(inputs), out, {"fn": fn})


def activation() -> str:
    """An activation on the left operand."""
    return graph({"x": X, "w": W}, {"y": Y}, elementwise("relu", "x"), PRODUCT)


def affine() -> str:
    """A chain with a scale and a shift along the sum."""
    given = {"x": X, "s": ("fp32", [40]), "b": ("fp32", [40]), "w": W}
    return graph(given, {"y": Y}, elementwise("mul", "x", "s", out="m"), elementwise("add", "m", "b"), PRODUCT)


def exponential() -> str:
    """A slow op."""
    return graph({"x": X, "w": W}, {"y": Y}, elementwise("exp", "x"), PRODUCT)


def weights(scale: list[int], *ops: tuple[str, list[Any], str, dict[str, Any]], zero: str = "u8") -> str:
    """A weight of bytes, less its zero point, times its scale."""
    given = {"x": X, "q": (zero, [40, 24]), "z": (zero, [24]), "s": ("fp32", scale)}
    made = [
        ("Cast", ["q"], "qf", {"to": "fp32"}),
        ("Cast", ["z"], "zf", {"to": "fp32"}),
        elementwise("sub", "qf", "zf", out="d"),
        *ops,
    ]
    return graph(given, {"y": Y}, *made, ("MatMul", ["x", "a"], "y", {}))


def by_channel() -> str:
    """A scale for each column."""
    return weights([24], elementwise("mul", "d", "s"))


def by_block() -> str:
    """A scale for every eight rows."""
    wide = [
        ("Reshape", ["s"], "s1", {"shape": [5, 1, 24]}),
        ("Expand", ["s1"], "s2", {"shape": [5, 8, 24]}),
        ("Reshape", ["s2"], "s3", {"shape": [40, 24]}),
    ]
    return weights([5, 24], *wide, elementwise("mul", "d", "s3"), zero="i8")


def both_operands() -> str:
    """Work on either side."""
    return graph({"x": X, "v": W}, {"y": Y}, elementwise("relu", "x"), elementwise("abs", "v", out="w"), PRODUCT)


def batched() -> str:
    """A batch axis, and an operand that is turned."""
    given = {"x": ("fp32", [3, 40, 33]), "w": ("fp32", [3, 40, 24])}
    turned = ("Transpose", ["r"], "a", {"perm": [0, 2, 1]})
    return graph(given, {"y": ("fp32", [3, 33, 24])}, elementwise("relu", "x", out="r"), turned, PRODUCT)


def padded_conv(value: float = 1.0) -> str:
    """A window over work that is not 0 at 0: what the pad holds is 0 all the same."""
    given = {"x": ("fp32", [2, 5, 9, 8]), "w": ("fp32", [6, 5, 3, 3])}
    return graph(
        given, {"y": ("fp32", [2, 6, 9, 8])}, elementwise("add", "x", value), ("Conv", ["a", "w"], "y", {"pad": [1, 1]})
    )


def padded_before() -> str:
    """The work comes after a pad of another value than 0: it is done to the pad's value."""
    given = {"x": ("fp32", [2, 5, 9, 8]), "w": ("fp32", [6, 5, 3, 3])}
    padded = ("Pad", ["x"], "p", {"pads": [0, 0, 1, 1, 0, 0, 1, 1], "value": -2.0})
    return graph(given, {"y": ("fp32", [2, 6, 9, 8])}, padded, elementwise("abs", "p"), ("Conv", ["a", "w"], "y", {}))


def two_readers() -> str:
    """Two contractions of unlike shapes, which each compute it."""
    given = {"x": X, "w": W, "v": ("fp32", [40, 7])}
    return graph(
        given, {"y": Y, "u": ("fp32", [33, 7])}, elementwise("relu", "x"), PRODUCT, ("MatMul", ["a", "v"], "u", {})
    )


def kept_chain() -> str:
    """What the work reads is a result, and in memory all the same."""
    return graph(
        {"x": X, "w": W}, {"y": Y, "h": X}, elementwise("add", "x", 1.0, out="h"), elementwise("relu", "h"), PRODUCT
    )


def beside_a_residual() -> str:
    """Read as an operand and once more behind the accumulator."""
    given = {"x": ("fp32", [33, 24]), "w": ("fp32", [24, 24])}
    return graph(
        given, {"y": Y}, elementwise("neg", "x"), ("MatMul", ["a", "w"], "m", {}), elementwise("add", "m", "a", out="y")
    )


def of_integers() -> str:
    """Sums of bytes less their zero points."""
    given = {"p": ("u8", [33, 40]), "q": ("i8", [40, 24]), "z": ("i8", [24])}
    ops = [("Cast", [n], f"{n}i", {"to": "i32"}) for n in "pqz"]
    shifted = [elementwise("sub", "pi", 3), elementwise("sub", "qi", "zi", out="w")]
    return graph(given, {"y": ("i32", [33, 24])}, *ops, *shifted, PRODUCT)


FUSED = [
    activation,
    affine,
    exponential,
    by_channel,
    by_block,
    both_operands,
    batched,
    padded_conv,
    padded_before,
    two_readers,
    kept_chain,
    beside_a_residual,
    of_integers,
]


def verdicts_of(stages: Stages) -> dict[tuple[str, str], dict[str, Any]]:
    said = lowering_of("region").verdicts(stages.poly)
    return {
        (d.facts["source"], d.facts["reader"]): {"code": d.code, **d.facts}
        for d in said
        if d.code in ("R3401", "R3402")
    }


@needs_host_compiler
@pytest.mark.parametrize("model", FUSED, ids=lambda m: m.__name__)
def test_all_stages_agree(model) -> None:
    stages = Stages(model())
    regions = stages.region.program.regions
    contractions = [k for r in regions for k in kernels_of(r)[:1] if isinstance(k, Contraction)]
    assert contractions and all(
        f is not r
        for k in contractions
        for f, r in [max(zip(k.factors, (k.lhs, k.rhs)), key=lambda pair: pair[0] is not pair[1])]
    )
    assert len(regions) == len(contractions) + (model is kept_chain)
    planned = lower_to("plan", stages.region, "sm90")
    emitted = lower_to("gpu", planned, "sm90")
    for language, text in ((language_of("plan"), planned), (language_of("gpu"), emitted)):
        assert [d.code for d in language.check(text) if d.is_error] == [] and language.parse(
            language.show(text)
        ) == text
    arrays = random_arrays(stages.region.model, {}, 0)
    played = dict(stages.outputs(arrays, is_simulated=True))
    for stage, found in played.items():
        for name, wanted in played["tiny"].items():
            np.testing.assert_allclose(found[name], wanted, rtol=1e-4, atol=1e-4, err_msg=f"{name} at {stage}")


def has_prologue(one: region.Region) -> bool:
    """Whether a contraction does work on what it multiplies, a guard of padding aside."""
    kernel = next(iter(kernels_of(one)), None)
    return isinstance(kernel, Contraction) and any(
        n is not Select for f in kernel.factors for n in map(type, walk(f)) if n in (Unary, Binary, Select)
    )


@pytest.mark.parametrize("model", FUSED, ids=lambda m: m.__name__)
def test_a_prologue_may_stand_apart(model) -> None:
    stages = Stages(model())
    whole = stages.region
    apart, done = materialize_prologues(whole, lambda _, one: float(has_prologue(one)))
    assert done and not any(map(has_prologue, apart.program.regions))
    assert [d.code for d in region.check(apart)] == [] and region.parse(region.show(apart)) == apart
    arrays = random_arrays(whole.model, {}, 1)
    wanted, found = play(whole, arrays), play(apart, arrays)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5)
    if model is two_readers:
        assert [r.name for r in apart.program.regions] == ["y.x", "y", "u"]  # what both multiply is made once


def test_what_would_read_beyond_is_made_at_the_points_of_the_product() -> None:
    """The shift has no element for every element of x."""
    given = {"x": ("fp32", [44, 40]), "b": ("fp32", [33, 40]), "w": W}
    ops = [("Slice", ["x"], "c", {"starts": [2], "ends": [35], "axes": [0]}), elementwise("add", "c", "b"), PRODUCT]
    whole = Stages(graph(given, {"y": Y}, *ops)).region
    assert len(whole.program.regions) == 1 and has_prologue(whole.program.regions[0])
    apart, _ = materialize_prologues(whole, lambda _, one: float(has_prologue(one)))
    assert [[str(a) for a in r.iters] for r in apart.program.regions] == [["i0: 33", "i1: 40"], ["i0: 33", "i1: 24"]]
    arrays = random_arrays(whole.model, {}, 1)
    np.testing.assert_allclose(play(apart, arrays)["y"], play(whole, arrays)["y"], rtol=1e-5, atol=1e-5)


def gemm(dtype: str, rows: int, size: int, fn: str = "relu") -> str:
    return graph(
        {"x": (dtype, [rows, size]), "w": (dtype, [size, size])},
        {"y": (dtype, [rows, size])},
        elementwise(fn, "x"),
        PRODUCT,
    )


def dequantised(rows: int) -> str:
    given = {"x": ("fp16", [rows, 4096]), "q": ("i8", [4096, 4096]), "s": ("fp16", [4096])}
    ops = [("Cast", ["q"], "c", {"to": "fp16"}), elementwise("mul", "c", "s"), ("MatMul", ["x", "a"], "y", {})]
    return graph(given, {"y": ("fp16", [rows, 4096])}, *ops)


# Model, rule of the region, kernels of the plan, and which of the costs decided.
DECIDED = {
    "more is saved than done again, but for tensor cores": (gemm("fp32", 4096, 4096), "prologue", 2, "trip"),
    "more is saved than done again": (gemm("fp32", 4096, 96), "prologue", 1, "trip"),
    "a slow op is done 32 times over": (gemm("fp32", 4096, 4096, "exp"), "cost", 2, "again"),
    "tensor cores are 10 times faster": (gemm("fp16", 4096, 4096), "cost", 2, "tensor"),
    "weights of bytes, many rows": (dequantised(4096), "cost", 2, "tensor"),
    "weights of bytes, few rows": (dequantised(8), "prologue", 1, "trip"),
    "few rows, for which the plan wants tensor cores": (gemm("fp16", 16, 1024), "prologue", 2, "trip"),
    "a kernel of a microsecond": (gemm("fp16", 16, 32), "prologue", 1, "trip"),
}


@pytest.mark.parametrize("case", DECIDED)
def test_cost_decides(case: str) -> None:
    text, rule, kernels, reason = DECIDED[case]
    stages = Stages(text)
    said = verdicts_of(stages)["a", "y.mul"]
    assert (said["code"], said["rule"]) == ("R3401" if rule == "prologue" else "R3402", rule)
    assert max(("again", "tensor", "trip"), key=lambda part: said[f"{part}_us"]) == reason
    planned = lower_to("plan", stages.region, "sm90")
    assert [d.code for d in check_plan(planned) if d.is_error] == [] and plan.parse(plan.show(planned)) == planned
    assert len({p.regions for p in planned.plans}) == kernels
    remarks = lowering_of("plan").verdicts(stages.region)
    assert [d.code for d in remarks] == ["R3470"] * (len(stages.region.program.regions) < kernels)
    assert all(d.facts["apart_us"] < d.facts["fused_us"] for d in remarks)


def test_a_result_is_no_prologue() -> None:
    """What is in memory for others is read there."""
    stages = Stages(graph({"x": X, "w": W}, {"y": Y, "a": X}, elementwise("relu", "x"), PRODUCT))
    assert [r.name for r in stages.region.program.regions] == ["a", "y"] and verdicts_of(stages)["a", "y.mul"][
        "rule"
    ] == "operand"
