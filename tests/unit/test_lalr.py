"""Texts are read as lark reads them: the same trees with the same places, and refused where lark refuses."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tinyir.front import graphdsl
from tinyir.ir import gpu, index, manifest, plan, poly, region, tiny
from tinyir.kit.diag import Refused
from tinyir.kit.lalr import Token, Tree, Unfit
from tinyir.kit.text import Grammar, _lark_of

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "samples"
TEXTS = {
    f"{name}.{stage}": (language.GRAMMAR, SAMPLES / name / f"{name}.{stage}")
    for name in ("gemm_bias_relu", "attention_causal", "embedding", "conv3x3_silu")
    for stage, language in (
        ("tiny", tiny),
        ("index", index),
        ("poly", poly),
        ("region", region),
        ("plan", plan),
        ("gpu", gpu),
    )
}


def places(thing: Any) -> tuple:
    """Where a tree or a token of either reader is."""
    at = getattr(thing, "meta", thing)
    return at.start_pos, at.end_pos, at.line, at.column


def alike(ours: Any, larks: Any) -> bool:
    """Whether two trees are the same, places too."""
    if ours is None or larks is None:
        return ours is larks
    if isinstance(ours, Token):
        return (str(ours), ours.type, *places(ours)) == (str(larks), larks.type, *places(larks))
    return (
        isinstance(ours, Tree)
        and ours.data == larks.data
        and ours.empty == larks.meta.empty
        and (ours.empty or places(ours) == places(larks))
        and len(ours.children) == len(larks.children)
        and all(map(alike, ours.children, larks.children))
    )


@pytest.mark.parametrize("name", TEXTS)
def test_trees_are_those_of_lark(name: str) -> None:
    grammar, file = TEXTS[name]
    text = file.read_text(encoding="utf-8")
    try:
        ours = grammar.parse(text)
    except Refused:  # a language that its module reads line by line
        pytest.skip("no text of this grammar as a whole")
    assert alike(ours, _lark_of(grammar.name, grammar.starts).parse(text, start=grammar.starts[0]))


EXPRESSIONS = ("floor((4*i0 + M)/8) - 3", "-2*(a.b + 1)*c", "ceil(N/128)", "(M)", "((i0))")


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_brackets_count_for_places(text: str) -> None:
    grammar = Grammar("expr", ("expr", "guard"))
    ours = grammar.parse(text, "expr")
    assert alike(ours, _lark_of(grammar.name, grammar.starts).parse(text, start="expr"))


@pytest.mark.parametrize("seed", range(4))
def test_what_lark_refuses_is_refused(seed: int) -> None:
    from lark.exceptions import UnexpectedInput

    draw = random.Random(seed)
    grammar = gpu.GRAMMAR
    lark = _lark_of(grammar.name, grammar.starts)
    text = (SAMPLES / "softmax" / "softmax.gpu").read_text(encoding="utf-8")
    refused = 0
    for _ in range(25):
        at, end = sorted(draw.randrange(len(text)) for _ in range(2))
        end = min(end, at + draw.randint(0, 3))
        edited = text[:at] + draw.choice(["", " ", "\n", "[", "x", "0", "%", "= ", ","]) + text[end:]
        try:
            wanted = lark.parse(edited, start=grammar.starts[0])
        except UnexpectedInput:
            wanted = None
        if wanted is None:
            refused += 1
            with pytest.raises(Unfit):
                grammar._reader.parse(edited, grammar.starts[0])
            with pytest.raises(Refused, match="E0002"):
                grammar.parse(edited)
        else:
            assert alike(grammar.parse(edited), wanted)
    assert refused > 5


def test_every_language_has_such_a_grammar() -> None:
    for grammar in (graphdsl.GRAMMAR, manifest.GRAMMAR):
        assert grammar._reader.parse is not None
