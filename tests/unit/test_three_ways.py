"""Random graphs built three ways, as front-end JSON, graph DSL and Core IR: one canonical tiny text, and NumPy's
numbers."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyir import front
from tinyir.front import coreform, coreir
from tinyir.front.to_coreir import coreir_of
from tinyir.front.to_dsl import dsl_of
from tinyir.ir import tiny
from tinyir.ir.tiny import likeness
from tinyir.lower.tiny import canonical
from tinyir.lower.tiny.forget_origins import forget_origins
from tinyir.play.tiny import play

from .threeways import random_graph


def text_of(module: tiny.Module) -> str:
    assert [d for d in tiny.check(module) if d.is_error] == []
    return tiny.show(forget_origins(canonical(module)))


def nameless(module: tiny.Module) -> list[str]:
    """The canonical form without the names of values and outputs."""
    found = canonical(module)
    place = {t.name: f"in{i}" for i, t in enumerate(found.model.inputs)} | {
        v.name: f"%{i}" for i, v in enumerate(found.values)
    }
    values = [likeness(v) + str([place[o] for o in v.operands]) for v in found.values]
    return values + [place[r.value] for r in found.results]


def check(draw: random.Random, is_core: bool, is_chain: bool) -> None:
    graph, outputs = random_graph(draw, is_core, is_chain)
    texts = [graph.json(outputs), graph.dsl(outputs), *([graph.core(outputs)] if is_core else [])]
    modules = [front.read(text) for text in texts]
    first = text_of(modules[0])
    for text, module in zip(texts[1:], modules[1:]):
        assert text_of(module) == first, text
    assert tiny.show(tiny.parse(first)) == first
    assert text_of(front.read(dsl_of(modules[0]))) == first
    if is_core:
        assert nameless(front.read(coreir_of(modules[2]))) == nameless(modules[2]), texts[2]
        assert nameless(front.read(coreir.show(coreform.canonical(coreir.parse(texts[2]))))) == nameless(modules[2]), (
            texts[2]
        )
    for module in (modules[0], tiny.parse(first)):
        given = play(module, graph.inputs)
        for id in outputs:
            same(given[f"v{id}"], graph.arrays[id], texts[1])


def same(given: np.ndarray, wanted: np.ndarray, text: str) -> None:
    assert given.dtype == wanted.dtype and given.shape == wanted.shape, text
    wide = [a.astype(np.float64) if a.dtype.kind in "fV" else a for a in (given, wanted)]
    np.testing.assert_allclose(*wide, rtol=1e-5, atol=0, err_msg=text) if wide[
        0
    ].dtype == np.float64 else np.testing.assert_array_equal(*wide, err_msg=text)


@settings(max_examples=100, deadline=None)
@given(st.randoms(use_true_random=False))
def test_json_and_dsl(draw: Any) -> None:
    check(draw, False, False)


@settings(max_examples=100, deadline=None)
@given(st.randoms(use_true_random=False))
def test_json_dsl_and_core_ir(draw: Any) -> None:
    check(draw, True, False)


@settings(max_examples=100, deadline=None)
@given(st.randoms(use_true_random=False))
def test_chains_of_movement(draw: Any) -> None:
    check(draw, draw.random() < 0.4, True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(50))
def test_five_thousand_graphs(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(100):
        check(draw, draw.random() < 0.4, draw.random() < 0.3)
