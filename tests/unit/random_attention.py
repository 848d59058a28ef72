"""Attention drawn at random, in 16 bits: sizes that divide nothing, masks, work on scores, spellings, layouts; the
simulation tries some (`test_random_attention`), a card hundreds (`tests/gpu/random_attention.py`)."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import ml_dtypes  # noqa: F401  gives NumPy the name bfloat16
import numpy as np

from tinyir.ir import plan, tiny
from tinyir.lower import plan as to_plan
from tinyir.play import tiny as play_tiny

from .naive_attention import Spelling, Writer, arrays_of

SCORES = ("scale", "bias", "softcap", "alibi", "unknown", "table", "round")
MASKS = ((), ("mask",), ("causal",), ("window",))
SOFTMAX = ("usual", "exp2", "power", "scaled_inside", "negated", "after", "logged", "guarded", "not_over_sum")
WEIGHTS = ((), (), ("nan",), ("dropout",), ("dropout", "nan"))
LAYOUTS = (("hsd", "htd", "hte", "hse"), ("shd", "thd", "the", "she"))
TENSOR_CORES = ("streaming_softmax", "streaming_mma")  # the families that compute attention on them
DEPTHS = (*range(8, 129, 8), 20, 36, 17, 160, 192, 256)
TOLERANCE = {"fp16": 6e-3, "bf16": 4e-2}
COLUMNS = 50  # whose weights' roundings these allow where no sum divides them; of more they grow as a random walk does


def drawn(number: int, longest: int = 90) -> Spelling:
    """The attention of a number; rows and columns up to `longest`."""
    draw = random.Random(number)
    scores = tuple(draw.sample(SCORES, draw.randrange(3)))
    softmax, weights = draw.choice(SOFTMAX), draw.choice(WEIGHTS)
    if softmax in ("guarded", "after", "not_over_sum"):  # no guard against NaN beside these
        weights = tuple(w for w in weights if w != "nan")
    if softmax == "power" and "bias" not in scores:
        scores = ("scale", *scores)
    repeat = draw.choice((1, 1, 2, 3))
    depth = draw.choice(DEPTHS)
    width = draw.choice((depth, depth, draw.choice(DEPTHS)))
    sizes = (repeat * draw.randrange(1, 3), draw.randrange(2, longest), draw.randrange(2, longest), depth, width)
    layout = LAYOUTS[0] if repeat > 1 else draw.choice(LAYOUTS)
    dtype = draw.choice(("fp16", "fp16", "bf16"))
    names = ("q", "k", "v", "y")
    return Spelling((*scores, *draw.choice(MASKS)), softmax, weights, (), layout, dtype, sizes, names, repeat)


def model_and_arrays(how: Spelling, seed: int) -> tuple[tiny.Module, dict[str, np.ndarray]]:
    """The model, and numbers for its inputs: scores of about 1, and a row of a mask that sees nothing."""
    module = Writer(how).module()

    def change(name: str, array: np.ndarray) -> None:
        if name == "q":
            array *= array.dtype.type(4 / how.sizes[3] ** 0.5)
        if name == "mask":
            array[array.shape[0] // 2] = False

    return module, arrays_of(module, seed, change)


def wanted_of(how: Spelling, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Playback of the model without the roundings of scores to 16 bits, which the rule leaves out."""
    exact = replace(how, scores=tuple(s for s in how.scores if s != "round"))
    with np.errstate(all="ignore"):
        return play_tiny.play(Writer(exact).module(), arrays)


def attention_of(module: plan.Module) -> plan.Plan:
    """The plan of the two contractions; other kernels may put the row's chunks together."""
    (one,) = (p for p in module.plans if len(p.regions) == 2)
    return one


def with_warps(module: plan.Module, number: int) -> plan.Module:
    """The module with one of the plans of sm80's form in the place of its attention, where there is one. What the
    planner rewrote stays as it is."""
    one, program = attention_of(module), module.program
    found = to_plan.candidates(program, program.program.region(one.regions[0]), one.arch)
    kept = [c.plan for c in found if c.plan.algo == "streaming_mma" and c.rejected in ("", to_plan.CROWDED)]
    other = kept[number % len(kept)] if kept else one
    return plan.Module(program, tuple(other if p is one else p for p in module.plans))


def is_near(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray], how: Spelling) -> str:
    """What differs, in words; empty where nothing does."""
    for name, want in wanted.items():
        given, want = found[name].astype(np.float64), want.astype(np.float64)
        if (np.isnan(given) != np.isnan(want)).any():
            return f"{name} is NaN at other places"
        apart = np.nanmax(np.abs(given - want) / (1 + np.abs(want)), initial=0.0)
        walk = max(1.0, math.sqrt(how.sizes[2] / COLUMNS)) if how.softmax == "not_over_sum" else 1.0
        if not apart <= TOLERANCE[how.dtype] * walk:
            return f"{name} is {apart:.2e} apart"
    return ""


__all__ = ["TENSOR_CORES", "attention_of", "drawn", "is_near", "model_and_arrays", "wanted_of", "with_warps"]
