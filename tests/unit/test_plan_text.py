"""The plan language: texts read back as written, every field survives, and planted faults are found where they
are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyir.ir import plan
from tinyir.ir.plan.fields import (
    Async,
    Bind,
    Cache,
    Cluster,
    Consumers,
    Edge,
    Estimate,
    Layout,
    Load,
    Order,
    Plan,
    Regs,
    SplitK,
    Store,
    Vectorize,
)
from tinyir.kit.diag import Refused

from .checked import check_plan

ROOT = Path(__file__).resolve().parents[2]
TEXTS = sorted((ROOT / "samples").glob("*/*.plan")) + sorted((ROOT / "tests" / "golden" / "design").glob("*.plan"))
SAMPLE = ROOT / "tests" / "golden" / "design" / "gemm_sm90.plan"

words = st.sampled_from(["A", "B", "bias", "k0", "i0", "plan", "tile", "in", "us", "producer"])
axes = st.builds(
    lambda name, part: name + part, st.sampled_from(["i0", "i1", "k0"]), st.sampled_from(["", ".o", ".i", ".i.o"])
)
names = st.one_of(words, st.sampled_from(["layer/0 out", "ü", '"q"']))
counts = st.lists(st.integers(1, 512), min_size=1, max_size=3).map(tuple)
numbers = st.integers(0, 1 << 40)


def some(item: st.SearchStrategy) -> st.SearchStrategy:
    """A short tuple of items."""
    return st.lists(item, max_size=3).map(tuple)


plans = st.builds(
    Plan,
    regions=st.lists(names, min_size=1, max_size=2).map(tuple),
    arch=words,
    family=words,
    algo=words,
    tile=counts,
    warp_tile=st.one_of(st.just(()), counts),
    micro=st.one_of(st.just(()), counts),
    threads=st.one_of(st.just(()), counts),
    stages=numbers,
    consumers=st.one_of(st.none(), st.builds(Consumers, numbers, words)),
    cluster=st.one_of(st.none(), st.builds(Cluster, counts, some(names))),
    regs=st.one_of(st.none(), st.builds(Regs, numbers, numbers)),
    bind=some(
        st.builds(Bind, st.lists(axes, min_size=1, max_size=3).map(tuple), st.sampled_from(["cta.x", "warpgroup"]))
    ),
    order=st.one_of(st.none(), st.builds(Order, words, numbers)),
    split_k=st.one_of(st.none(), st.builds(SplitK, numbers, words)),
    swap_ab=st.booleans(),
    cache=some(st.builds(Cache, names, words, axes)),
    load=some(st.builds(Load, names, words, numbers)),
    store=some(st.builds(Store, names, words)),
    vectorize=some(st.builds(Vectorize, st.lists(axes, min_size=1, max_size=3).map("*".join), numbers)),
    predicate=some(words),
    epilogue=some(names),
    asynchrony=st.one_of(st.none(), st.builds(Async, numbers, st.one_of(st.just(""), words))),
    barrier=words,
    layout=some(st.builds(Layout, names, words)),
    edge=some(st.builds(Edge, names, names, words, numbers)),
    estimate=st.one_of(
        st.none(), st.builds(Estimate, st.floats(0, 1e12, allow_nan=False), words, numbers, numbers, numbers)
    ),
)


@pytest.mark.parametrize("file", TEXTS, ids=lambda f: f.name)
def test_a_committed_plan_reads_back_and_can_be_obeyed(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    module = plan.parse(text)
    assert plan.show(module) == text
    assert plan.parse(plan.show(module)) == module
    assert check_plan(module) == []


@given(plans)
def test_every_plan_survives_its_text(one: Plan) -> None:
    module = replace(plan.parse(SAMPLE.read_text(encoding="utf-8")), plans=(one,))
    assert plan.parse(plan.show(module)) == module


def test_fields_may_stand_in_any_order_and_are_printed_in_one() -> None:
    text = SAMPLE.read_text(encoding="utf-8")
    head, section = text.split("\nplan ", 1)
    first, *lines = section.splitlines()
    shuffled = "\n".join([f"{head}\nplan {first}", *reversed(lines)]) + "\n"
    assert plan.show(plan.parse(shuffled)) == text


def test_a_field_given_twice_is_refused_at_the_second() -> None:
    text = SAMPLE.read_text(encoding="utf-8").replace("  stages     4\n", "  stages     4\n  stages     3\n")
    with pytest.raises(Refused) as fault:
        plan.parse(text)
    (diag,) = fault.value.diags
    assert (diag.code, text[diag.span.start : diag.span.end]) == ("E1501", "stages     3")


PLANTED = [
    ("plan gemm :", "plan gemn :", ["E1506", "E1504"], "plan gemn : sm90 contraction"),
    ("warp_specialized", "warp_specialised", ["E1503"], "algo       warp_specialised"),
    (" sm90 ", " sm80 ", ["E1511"] * 6, "load       A tma swizzle 128, B tma swizzle 128"),
    ("[128, 256, 64]", "[128, 256, 128]", ["E1512"], "tile       [128, 256, 128]"),
    ("[128, 256, 64]", "[128, 256]", ["E1508"], "tile       [128, 256]"),
    ("[2, 1]", "[8, 4]", ["E1510"], "cluster    [8, 4]  multicast [B]"),
    ("multicast [B]", "multicast [bais]", ["E1506"], "cluster    [2, 1]  multicast [bais]"),
    ("consumer 232", "consumer 240", ["E1513"], "regs       producer 40 consumer 240"),
    ("consumer 232", "consumer 233", ["E1510"], "regs       producer 40 consumer 233"),
    ("i1.o -> cta.x", "i1.o -> cta", ["E1503"], None),
    ("i1.o -> cta.x, ", "", ["E1522"], "bind       i0.o -> cta.y, i0.i -> warpgroup"),
    ("i1.o -> cta.x", "i0.o -> cta.x", ["E1507", "E1522"], None),
    ("B -> smem at k0.o", "B -> smem at k1.o", ["E1505"], None),
    ("[i0, i1, k0]", "[i0, i1]", ["E1514"], "predicate  [i0, i1]"),
    ("[bias_add, relu]", "[relu, bias_add]", ["E1515"], "epilogue   [relu, bias_add]"),
    ("stages     4", "stages     17", ["E1510"], "stages     17"),
    ("prefetch 4", "prefetch 5", ["E1510"], "async      prefetch 5 overlap epilogue"),
    ("  order ", "  swap_ab    perhaps\n  order ", ["E1503"], "swap_ab    perhaps"),
    ("order      group 8", "order      hilbert", ["E1503"], "order      hilbert"),
    ("cache      A -> smem at k0.o, B", "cache      B", ["E1525"], "cache      B -> smem at k0.o"),
    ("barrier    mbarrier", "barrier    cta", ["E1525"], "barrier    cta"),
    ("  order ", "  micro      [8, 8]\n  order ", ["E1524"], "micro      [8, 8]"),
]


@pytest.mark.parametrize("old,new,codes,place", PLANTED, ids=lambda v: str(v)[:24])
def test_planted_faults_are_found_where_they_stand(old: str, new: str, codes: list[str], place: str | None) -> None:
    text = SAMPLE.read_text(encoding="utf-8").replace(old, new)
    diags = check_plan(plan.parse(text))
    assert [d.code for d in diags] == codes
    if place:
        assert text[diags[0].span.start : diags[0].span.end] == place


@pytest.mark.parametrize(
    "old,new", [("predicate  [i0, i1, k0]", "predicate  [i0, i1]"), ("[bias_add, relu]", "[relu]")]
)
def test_the_offered_edit_corrects_the_text(old: str, new: str) -> None:
    text = SAMPLE.read_text(encoding="utf-8")
    broken = text.replace(old, new)
    (diag,) = check_plan(plan.parse(broken))
    assert broken[: diag.edit.span.start] + diag.edit.text + broken[diag.edit.span.end :] == text


@pytest.mark.parametrize(
    "old,new,why,advice",
    [
        (
            "  stages     4\n",
            "",
            "prefetch is 4; with warp_specialized it is 0..1: up to stages, which no line says",
            None,
        ),
        ("[128, 256, 64]", "[120, 256, 64]", "tile is [120, 256, 64]; algo", "write one that it takes"),
        (
            "B tma swizzle 128",
            "B tma swizzle 128, B tma",
            "of which B tma is not taken; algo",
            "write one that it takes",
        ),
    ],
)
def test_advice_does_not_lead_in_circles(old: str, new: str, why: str, advice: str | None) -> None:
    """What may not be left out is not advised to be, and a value that no line says is told to be missing."""
    text = SAMPLE.read_text(encoding="utf-8")
    assert old in text
    (diag, *_) = check_plan(plan.parse(text.replace(old, new)))
    assert why in diag.why() and (advice is None or diag.suggestion().endswith(advice))


def test_too_few_stages_are_told_once() -> None:
    """No prefetch fits them: it is not told beside."""
    text = (
        SAMPLE.read_text(encoding="utf-8").replace("stages     4", "stages     1").replace("prefetch 4", "prefetch 1")
    )
    (diag,) = check_plan(plan.parse(text))
    assert (diag.code, diag.facts["field"], diag.suggestion()) == ("E1525", "stages", "write one that it takes")
