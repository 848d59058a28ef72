"""Attention drawn at random, in 16 bits: sizes that divide nothing, masks, work on scores, spellings, layouts; the
simulation tries some (`test_random_attention`), a card hundreds (`tests/gpu/random_attention.py`).

How near a kernel must be to playback follows from roundings, element by element, and holds whatever the numbers are.
With u the unit roundoff of the 16-bit dtype and h half of its least number, e = 2^-23, and for one element

    y  the output      A = sum |w_j| |v_j|, over the weights w_j that the second product takes      V = sum |v_j|
    S  |q| |k|, the norms of the rows: no sum of products of a score is larger      M  the most that a score may be

    a score            differs by d = 2 L D e S + 8 e M     both sums of D products in any order, work of slope L, and
                                                            the roundings of what is added, scaled and subtracted;
                                                            by u M more where several kernels hand it on in 16 bits,
                                                            as the model says, and playback does not round it
    a weight           by a factor within 1 + 2 d + 4 e     it and its total have exponentials of other scores
    its rounding       by 2 u |w_j| + 2 h                   playback's is of w_j, a kernel's of w_j times a total, which
                                                            is 1 at least
    the sum            by 2 n e A                           n products in any order, each truncated

so that |y - y'| <= (2 u + 2 d + 4 e + 2 n e) A + 2 h V + 2 u |y| + 2 h; a logarithm of a sum differs by d + 2 n e.
"""

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
ROUNDOFF = {"fp16": 2.0**-11, "bf16": 2.0**-8}
HALF_OF_LEAST = {"fp16": 2.0**-25, "bf16": 2.0**-134}
TRUNCATED = 2.0**-23  # of a sum in fp32, as tensor cores add
SLOPES = {"unknown": 2.2, "scale": 0.25}  # of work on a score, where it is not 1 at most


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


def of_rows(how: Spelling, number: int, longest: int) -> Spelling:
    """The attention with another number of rows, up to `longest`: one text with a symbol computes all of these."""
    heads, _, *others = how.sizes
    return replace(how, sizes=(heads, random.Random(number).randrange(1, longest), *others), symbols="s")


def model_and_arrays(how: Spelling, seed: int) -> tuple[tiny.Module, dict[str, np.ndarray]]:
    """The model, and numbers for its inputs: scores of about 1, and a row of a mask that sees nothing."""
    module = Writer(how).module()

    def change(name: str, array: np.ndarray) -> None:
        if name == "q":
            array *= array.dtype.type(4 / how.sizes[3] ** 0.5)
        if name == "mask":
            array[array.shape[0] // 2] = False

    return module, arrays_of(Writer(replace(how, symbols="")).module(), seed, change)


def plant(how: Spelling, arrays: dict[str, np.ndarray], seed: int) -> None:
    """Puts NaN and infinities into the inputs: a query, a key or a value with a NaN, a row and a column of a bias of
    -inf. A value has none where masks hide it, or where text has 0 for NaN: what nobody sees is not read, and playback
    has 0 times NaN."""
    draw = random.Random(f"planted {seed}")
    for name, axes in zip(how.names, how.layout[:3]):
        is_hidden = "e" in axes and {"causal", "window", "mask", "nan"} & {*how.scores, *how.weights}
        if draw.random() < 0.3 and not is_hidden:
            arrays[name][tuple(draw.randrange(n) for n in arrays[name].shape)] = math.nan
    if "bias" in arrays and draw.random() < 0.7:
        arrays["bias"][draw.randrange(len(arrays["bias"]))] = -math.inf
        arrays["bias"][:, draw.randrange(arrays["bias"].shape[1])] = -math.inf


def wanted_of(how: Spelling, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Playback of the model without the roundings of scores to 16 bits, which the rule leaves out."""
    exact = replace(how, scores=tuple(s for s in how.scores if s != "round"), symbols="")
    with np.errstate(all="ignore"):
        return play_tiny.play(Writer(exact).module(), arrays)


def attention_of(module: plan.Module) -> plan.Plan | None:
    """The plan of the two contractions; other kernels may put the row's chunks together. None where they are apart."""
    return next((p for p in module.plans if len(p.regions) == 2), None)


def with_warps(module: plan.Module, number: int) -> plan.Module:
    """The module with one of the plans of sm80's form in the place of its attention, where there is one. What the
    planner rewrote stays as it is."""
    one, program = attention_of(module), module.program
    if one is None:
        return module
    found = to_plan.candidates(program, program.program.region(one.regions[0]), one.arch)
    kept = [c.plan for c in found if c.plan.algo == "streaming_mma" and c.rejected in ("", to_plan.CROWDED)]
    other = kept[number % len(kept)] if kept else one
    return plan.Module(program, tuple(other if p is one else p for p in module.plans))


def with_draws(module: plan.Module, number: int) -> plan.Module:
    """The module whose attention has its tiles drawn by a few CTAs, where it is of sm90's form and has heads."""
    one = attention_of(module)
    if one is None or one.algo != "streaming_softmax" or one.order is None:
        return module
    own = replace(one, order=plan.Order("drawn", one.order.width), persistent=1 + number % 5, threads=())
    return plan.Module(module.program, tuple(own if p is one else p for p in module.plans))


def bounds_of(
    how: Spelling, arrays: dict[str, np.ndarray], wanted: dict[str, np.ndarray], is_apart: bool = False
) -> dict[str, np.ndarray]:
    """How far each element of the outputs may be from what is wanted; `is_apart`: of several kernels."""
    q, k, v, y = how.names
    of_weights = wanted_of(how, {**arrays, v: np.abs(arrays[v])})[y].astype(np.float64)
    finite = {name: np.where(np.isfinite(array), array, 0).astype(np.float64) for name, array in arrays.items()}
    norms = [np.sqrt((finite[name] ** 2).sum(axes.index("d"))).max() for name, axes in zip((q, k), how.layout)]
    slope = math.prod(SLOPES.get(work, 1.0) for work in how.scores)
    most = slope * math.prod(norms)
    most += sum(float(np.abs(finite[name]).max()) for name in ("bias", "table") if name in arrays)
    most += how.sizes[2] * float(np.abs(arrays["slope"]).max()) if "slope" in arrays else 0.0
    apart = 2 * slope * how.sizes[3] * TRUNCATED * math.prod(norms) + 8 * TRUNCATED * most
    unit, least, summed = ROUNDOFF[how.dtype], HALF_OF_LEAST[how.dtype], 2 * how.sizes[2] * TRUNCATED
    apart += unit * most * how.scores.count("round") if is_apart else 0.0
    values = how.sizes[2] * float(np.abs(finite[v]).max())
    near = (2 * unit + 2 * apart + 4 * TRUNCATED + summed) * of_weights + 2 * least * (values + 1)
    found = {name: np.full(want.shape, apart + summed) for name, want in wanted.items()}
    return found | {y: near + 2 * unit * np.abs(wanted[y].astype(np.float64))}


def is_near(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray], bounds: dict[str, np.ndarray]) -> str:
    """What differs by more than roundings explain, in words; empty where nothing does."""
    for name, want in wanted.items():
        given, want = found[name].astype(np.float64), want.astype(np.float64)
        if (np.isnan(given) != np.isnan(want)).any():
            return f"{name} is NaN at other places"
        same = (given == want) | np.isnan(want)
        with np.errstate(invalid="ignore"):
            share = np.where(same, 0.0, np.abs(given - want) / bounds[name]).max(initial=0.0)
        if not share <= 1.0:
            return f"{name} is {share:.2f} times as far as roundings explain"
    return ""
