"""Right kernels are not refused (E1685) whatever roundings do to their numbers; wrong ones of these models are."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tinyir import front
from tinyir.ir import gpu
from tinyir.ir.region import Region
from tinyir.lower import lower_to
from tinyir.play import kernel as played
from tinyir.play.kernel import check_values, differing
from tinyir.play.region import play
from tinyir.play.roundings import TIMES, Moves, spread, turned

ARCHS = ("sm80", "sm90")
ILL = {  # what little differences make large ones of
    "rest of a mean": "y = sum(x - expand(mean(x, dim=1, keepdims=true), [M, K]), 1)",
    "variance by squares": "y = mean(x * x, dim=1) - mean(x, dim=1) * mean(x, dim=1)",
    "difference of sums": "y = sum(x, 1) - sum(x * 1.0001, 1)",
    "difference of products": "y = sum((x @ w) - (x @ (w * 1.0001)), 1)",
    "alike numbers": "z = tanh(x + 100.0)\ny = sum(z, 1) - sum(z * 1.0001, 1)",
    "floor of a sum": "y = floor(sum(x * 0.1, 1) * 7.0)",
    "reciprocal of a rest": "z = sum(x * 0.1, 1)\ny = recip(z - sum(x * 0.1, 1) + 1e-9)",
    "exponential of a large sum": "y = exp(sum(x * 0.3, 1) * 3.0)",
    "rounded on the way": "y = cast(cast(sum(x * 0.1, 1), HALF), TYPE) - sum(x * 0.1, 1)",
    "product of many": "y = reduce_mul(x * 0.1 + 1.0, 1) - 1.0",
    "product that overflows in some order": "y = reduce_mul(x * 2000.0, 1)",
    "sum that overflows in some order": "y = sum(x * BIG, 1)",
    "running sums": "y = sum(cumsum(x * 0.1, 1) - cumsum(x * 0.1001, 1), 1)",
}
STEPS = "S + 1000.0|S * 1e6|S - 100.1|tanh(S * 30.0)|exp(S * 0.1)|S * S * S|sqrt(abs(S) + 1e-30)|sin(S * 1e4)".split(
    "|"
)


def lowered(body: str, arch: str, dtype: str = "f32", sizes: tuple[int, int] = (5, 257)) -> Any:
    """The gpu text of a body over x[M, K] and w[K, 16] that gives y[M]."""
    for word, meant in {"M": sizes[0], "K": sizes[1]}.items():
        body = body.replace(f"[{word}", f"[{meant}").replace(f", {word}]", f", {meant}]")
    body = (
        body.replace("BIG", {"f64": "1e308", "f32": "3e38", "f16": "6e4"}[dtype])
        .replace("TYPE", dtype)
        .replace("HALF", "bf16" if dtype == "f16" else "f16")
    )
    head = f"graph main(x: {dtype}[{sizes[0]}, {sizes[1]}], w: {dtype}[{sizes[1]}, 16]) -> (r: {dtype}[{sizes[0]}])"
    module: Any = front.read(f"{head} {{\n{body}\nr = cast(y, {dtype})\nreturn r\n}}\n")
    for stage in ("index", "poly", "region", "plan", "gpu"):
        module = lower_to(stage, module, arch)
    return module


def said_of(module: Any) -> list[str]:
    """The codes that are said of a text, as it was lowered and as somebody's."""
    played._PLAYED.clear()
    played._judged.cache_clear()
    return [d.code for is_edited in (False, True) for d in check_values(module, is_edited)]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", ILL)
def test_little_differences_that_become_large_are_no_fault(name: str, arch: str) -> None:
    for dtype in ("f32", "f64", "f16"):
        assert said_of(lowered(ILL[name], arch, dtype)) == [], dtype


@pytest.mark.parametrize("seed", range(12))
def test_no_chain_of_such_steps_is_a_fault(seed: int) -> None:
    draw = random.Random(seed)
    before = "x"
    for step in draw.sample(STEPS, draw.randint(1, 3)):
        before = step.replace("S", f"({before})")
    body = f"x = {before}\n{ILL[draw.choice(list(ILL))]}"
    sizes = draw.choice((1, 5, 64)), draw.choice((33, 257, 1024))
    assert said_of(lowered(body, draw.choice(ARCHS), draw.choice(("f32", "f64")), sizes)) == []


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("variance by squares", "sub(", "add("),
        ("difference of sums", "sub(", "add("),
        ("floor of a sum", ", 7.0)", ", 8.0)"),
        ("rounded on the way", "sub(", "add("),
        ("exponential of a large sum", "exp2(", "neg("),
        ("product of many", "mul(x[", "add(x["),
    ],
)
def test_what_is_another_number_is_still_found(name: str, old: str, new: str) -> None:
    text = gpu.show(lowered(ILL[name], "sm90"))
    start = text.index("\nkernel ")
    assert old in text[start:]
    said = check_values(gpu.parse(text[:start] + text[start:].replace(old, new, 1)))
    assert [d.code for d in said] == ["E1685"]


def test_what_nothing_rounds_does_not_move() -> None:
    """Sums of numbers that are exact move, as their order might round; copies, choices and counts do not."""
    module: Any = front.read("graph main(x: f32[8, 4]) -> (y: f32[8, 4], n: i32[8]) {\n"
                             "y = max(flip(x, 1), 0)\nn = sum(cast(x > 0, i32), 1)\nreturn y, n\n}\n")  # fmt: skip
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    given = {"x": np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)}
    base, moved = play(module, given), [play(module, given, moves=Moves(seed)) for seed in range(TIMES)]
    for name, right in base.items():
        others = [one[name] for one in moved]
        assert not turned(right, others).any() and not spread(right, others).any()


def test_a_sum_moves_by_what_its_order_may_change() -> None:
    module: Any = front.read("graph main(x: f32[64, 512]) -> (y: f32[64]) {\ny = sum(x, 1)\nreturn y\n}\n")
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    region: Region = module.program.regions[0]
    assert region.outputs
    given = {"x": np.random.default_rng(1).standard_normal((64, 512)).astype(np.float32)}
    base, moved = play(module, given)["y"], [play(module, given, moves=Moves(seed))["y"] for seed in range(TIMES)]
    room = spread(base, moved)
    in_turn = np.add.accumulate(given["x"], axis=1)[:, -1]  # one after the other
    asked = np.ones(64, bool)
    assert (np.abs(in_turn - given["x"].astype(np.float64).sum(1)) <= room + 1e-7).all()
    left_out = (given["x"][:, 1:].astype(np.float64).sum(1) - base) ** 2
    assert (room**2 < left_out).mean() > 0.9 and differing(
        base, base, module.model.outputs[0].type.dtype, asked
    ).size == 0
