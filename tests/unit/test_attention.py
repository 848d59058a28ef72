"""The rule of attention: whatever the spelling, the layout and the names, two contractions with work on rows between
them are one kernel, and it gives what tiny playback gives; where the algebra does not allow it they are none."""

from __future__ import annotations

import itertools
import random
import shutil

import numpy as np
import pytest

from tinyir.ir import region
from tinyir.kernels.attention import Streaming, streaming_of
from tinyir.kernels.attention.score import score_of
from tinyir.lower import lower_to
from tinyir.lower import plan as to_plan
from tinyir.lower import region as to_region
from tinyir.play import region as play_region
from tinyir.play import tiny as play_tiny
from tinyir.sim.host import COMPILERS

from .emitted import lowered, simulated
from .naive_attention import Spelling, arrays_of, naive

needs_host_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler")

SPELLINGS = {
    "usual": Spelling(),
    "rounded scores": Spelling(scores=("scale", "round", "bias"), dtype="fp16"),
    "mask": Spelling(scores=("scale", "mask")),
    "causal": Spelling(scores=("scale", "causal")),
    "window and cap": Spelling(scores=("softcap", "window")),
    "alibi": Spelling(scores=("scale", "alibi")),
    "an op that nobody knows": Spelling(scores=("unknown", "mask")),
    "relative positions from a table": Spelling(scores=("scale", "table")),
    "exp2": Spelling(softmax="exp2"),
    "another base": Spelling(softmax="power"),
    "no maximum": Spelling(scores=("scale", "causal"), softmax="no_maximum"),
    "scaled on both sides": Spelling(softmax="scaled_inside"),
    "negated, over a reciprocal": Spelling(scores=("causal",), softmax="negated"),
    "division after the product": Spelling(scores=("scale", "causal"), softmax="after"),
    "not over the sum": Spelling(softmax="not_over_sum"),
    "guarded": Spelling(scores=("mask",), softmax="guarded"),
    "safe": Spelling(scores=("mask",), softmax="safe"),
    "weights of 0": Spelling(softmax="zeroed"),
    "sum of exponentials": Spelling(scores=("mask",), softmax="logged"),
    "guard against NaN": Spelling(scores=("scale", "mask"), weights=("nan",), dtype="fp16"),
    "guard without a maximum": Spelling(scores=("mask",), softmax="no_maximum", weights=("nan",)),
    "dropout": Spelling(scores=("scale", "causal"), weights=("dropout",)),
    "dropout and a guard": Spelling(scores=("mask",), weights=("dropout", "nan")),
    "gain of a column": Spelling(weights=("gain",)),
    "another layout": Spelling(layout=("dsh", "htd", "teh", "seh"), scores=("scale", "bias")),
    "another width": Spelling(sizes=(3, 5, 17, 20, 12)),
    "grouped heads": Spelling(sizes=(6, 21, 37, 16, 16), repeat=3, weights=("nan",)),
    "keys after a cache": Spelling(past=20, scores=("scale", "causal")),
    "grouped heads after a cache": Spelling(sizes=(4, 21, 37, 16, 16), repeat=2, past=36),
    "keys scaled after they are transposed": Spelling(is_turned=True, weights=("nan",), dtype="fp16"),
    "two products": Spelling(scores=("scale", "second", "mask")),
    "softmax in halves": Spelling(scores=("scale", "half", "mask"), dtype="fp16"),
    "one head for all": Spelling(layout=("hsd", "td", "te", "hse"), scores=("scale", "causal")),
}


def text_of(how: Spelling) -> region.Module:
    return lower_to("region", lower_to("poly", lower_to("index", naive(how), "sm90"), "sm90"), "sm90")


def attention_of(module: region.Module) -> Streaming | str:
    """The one pair of regions that a deferred value joins, as a kernel."""
    makers = {t.name: r for r in module.program.regions for t in r.outputs if t.attr("materialize") == "deferred"}
    pairs = {(makers[t.name].name, r.name) for r in module.program.regions for t in r.inputs if t.name in makers}
    if len(pairs) != 1:
        return f"{len(pairs)} pairs"
    ((first, second),) = pairs
    return streaming_of(module.program.region(first), module.program.region(second))


def is_near(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray], tolerance: float) -> None:
    for name, want in wanted.items():
        given, want = found[name].astype(np.float64), want.astype(np.float64)
        np.testing.assert_array_equal(np.isnan(given), np.isnan(want), err_msg=name)
        np.testing.assert_allclose(given, want, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("name", SPELLINGS)
def test_every_spelling_is_one_kernel(name: str) -> None:
    module = text_of(SPELLINGS[name])
    found = attention_of(module)
    assert isinstance(found, Streaming), found
    assert not any(
        t.attr("materialize") != "deferred" and len(t.type.shape) == 3 and t.type.shape[1:] == (21, 37)
        for t in module.program.buffers
    )
    arrays = arrays_of(naive(SPELLINGS[name]))
    tolerance = 3e-3 if SPELLINGS[name].dtype == "fp16" else 1e-5
    is_near(play_region.play(module, arrays), play_tiny.play(naive(SPELLINGS[name]), arrays), tolerance)


def planted(name: str, array: np.ndarray) -> None:
    """Rows that see nothing, rows that begin or end with nothing, and numbers that are none."""
    if name == "mask":
        array[2] = array[4, :30] = array[5, 20:] = False
        array[4, 30:] = array[5, :20] = True
    if name == "q" and array.shape[1] > 9 and array.dtype == np.float32:
        array[0, 7, 0], array[1, 9, 0] = np.nan, np.inf


def test_roundings_between_the_sums_are_no_work_on_a_score() -> None:
    """An exporter rounds the first product to halves, and widens it for the softmax."""
    found = attention_of(text_of(Spelling(scores=("scale", "round"), dtype="fp16")))
    assert isinstance(found, Streaming), found
    assert score_of(found).work is None


@needs_host_compiler
@pytest.mark.parametrize("name", SPELLINGS)
def test_the_kernel_gives_what_tiny_playback_gives(name: str) -> None:
    how = SPELLINGS[name]
    module = to_plan.lower(text_of(how))
    assert any(one.algo in ("streaming", "streaming_mma", "streaming_softmax") for one in module.plans)
    arrays = arrays_of(naive(how), 1, None if how.layout[0] != "hsd" else planted)
    with np.errstate(all="ignore"):
        wanted = play_tiny.play(naive(how), arrays)
    is_near(simulated(lowered(module)[1], arrays), wanted, 5e-3 if how.dtype == "fp16" else 2e-5)


@needs_host_compiler
def test_an_overflow_without_a_maximum_is_the_one_of_the_text() -> None:
    for weights in ((), ("nan",)):
        how = Spelling(scores=("bias",), softmax="no_maximum", weights=weights)

        def high(name: str, array: np.ndarray) -> None:
            if name == "bias":
                array[3], array[4, 5], array[6] = 300.0, 300.0, -300.0

        arrays = arrays_of(naive(how), 2, high)
        with np.errstate(all="ignore"):
            wanted = play_tiny.play(naive(how), arrays)
        assert np.isnan(wanted["y"]).any() != bool(weights)
        is_near(simulated(lowered(to_plan.lower(text_of(how)))[1], arrays), wanted, 2e-5)


@pytest.mark.parametrize(
    "how, reason",
    [
        (Spelling(weights=("squared",)), "not linear"),
        (Spelling(weights=("gain", "nan")), "guard against NaN"),
        (Spelling(softmax="zeroed", weights=("nan",)), "guard against NaN"),
        (Spelling(sizes=(1, 9, 17, 16, 300)), "300 columns"),
    ],
    ids=["squared", "a gain that may be NaN", "a sum that may be 0", "wide"],
)
def test_what_the_algebra_does_not_allow_says_why(how: Spelling, reason: str) -> None:
    module = naive(how)
    poly = lower_to("poly", lower_to("index", module, "sm90"), "sm90")
    assert attention_of(to_region.lower(poly)) == "0 pairs"
    (said,) = [d for d in to_region.verdicts(poly) if d.code in ("R3404", "R3405")]
    assert said.code == "R3405" and reason in dict(said.facts)["reason"]


@pytest.mark.parametrize("heads", [1, 2])
def test_a_query_alone_is_a_row_of_its_own(heads: int) -> None:
    module = naive(Spelling(sizes=(heads, 1, 900, 64, 64)))
    poly = lower_to("poly", lower_to("index", module, "sm90"), "sm90")
    first, second = to_region.lower(poly).program.regions
    found = streaming_of(first, second)
    assert isinstance(found, Streaming) and found.row.size.constant == 1
    assert [d.code for d in to_region.verdicts(poly) if d.code in ("R3404", "R3405")] == ["R3404"]


def _drawn(number: int) -> Spelling:
    """One of the many combinations."""
    draw = random.Random(number)
    scores = draw.sample(("scale", "bias", "softcap", "alibi", "unknown", "table", "round"), draw.randrange(4))
    scores += draw.choice(([], ["mask"], ["causal"], ["window"]))
    softmax = draw.choice(("usual", "exp2", "power", "no_maximum", "scaled_inside", "negated", "guarded", "logged"))
    weights = draw.choice(((), ("nan",), ("dropout",), ("dropout", "nan"), ("nan", "gain"), ("gain",)))
    if softmax == "guarded" and "nan" in weights:
        softmax = "usual"
    layout = ["".join(draw.sample(axes, 3)) for axes in ("hsd", "htd", "hte", "hse")]
    sizes = (
        draw.randrange(2, 4),
        draw.randrange(2, 25),
        draw.randrange(2, 40),
        draw.randrange(3, 20),
        draw.randrange(3, 20),
    )
    return Spelling(scores, softmax, weights, (), layout, draw.choice(("fp32", "fp16")), sizes)


@pytest.mark.parametrize("number", range(24))
def test_any_combination_is_one_kernel(number: int) -> None:
    how = _drawn(number)
    module = text_of(how)
    found = attention_of(module)
    assert isinstance(found, Streaming), (how, found)
    arrays = arrays_of(naive(how), number)
    with np.errstate(all="ignore"):
        wanted, given = play_tiny.play(naive(how), arrays), play_region.play(module, arrays)
        is_near(given, wanted, 5e-3 if how.dtype == "fp16" else 1e-4)


@needs_host_compiler
@pytest.mark.parametrize("number", range(4))
def test_any_combination_gives_what_tiny_playback_gives(number: int) -> None:
    how = _drawn(100 + number)
    arrays = arrays_of(naive(how), number)
    with np.errstate(all="ignore"):
        wanted = play_tiny.play(naive(how), arrays)
    found = simulated(lowered(to_plan.lower(text_of(how)))[1], arrays)
    is_near(found, wanted, 1e-2 if how.dtype == "fp16" else 1e-4)


def test_names_and_layouts_change_nothing() -> None:
    """Everything renamed, and each tensor stored in every order: the same kernels but for their maps."""
    kinds = set()
    orders = [["".join(p) for p in itertools.permutations(axes)] for axes in ("hsd", "htd", "hte", "hse")]
    for turn in range(6):
        how = Spelling(
            scores=("scale", "causal"),
            weights=("nan",),
            layout=[order[(turn * (at + 1)) % 6] for at, order in enumerate(orders)],
            names=[f"{word}{turn}" for word in ("zz", "max", "k", "i")],
        )
        module = text_of(how)
        found = attention_of(module)
        assert isinstance(found, Streaming), (how.layout, found)
        kinds.add((len(module.program.regions), found.row.size, found.column.size, found.norm, found.zero is not None))
    assert len(kinds) == 1


def test_keys_are_stored_with_the_depth_innermost() -> None:
    """What is computed of transposed keys, when only the scores read it."""
    module = text_of(Spelling(is_turned=True))
    (keys,) = [t for t in module.program.buffers if t.attr("materialize") != "deferred"]
    assert [n.constant for n in keys.type.shape] == [2, 37, 16]
    assert isinstance(attention_of(module), Streaming)
