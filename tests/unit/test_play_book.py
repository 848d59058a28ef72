"""Playback of a book gives what playback of the program does, for every op and every kind of access; a fault in it
shows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyir.ir import index, tiny
from tinyir.kit.diag import Refused
from tinyir.lower.index import lower
from tinyir.play.book import play as play_book
from tinyir.play.tiny import play as play_tiny

from .graphs import random_graph
from .programs import chains, symbolic_chains


@settings(max_examples=60, deadline=None)
@given(chains())
def test_chains(module: tiny.Module) -> None:
    x = np.arange(np.prod([d.evaluate({}) for d in module.model.inputs[0].type.shape]), dtype=np.float32)
    arrays = {"x": x.reshape([d.evaluate({}) for d in module.model.inputs[0].type.shape])}
    wanted = play_tiny(module, arrays)
    for name, array in play_book(lower(module), arrays).items():
        np.testing.assert_array_equal(array, wanted[name])


@settings(max_examples=30, deadline=None)
@given(symbolic_chains(), st.tuples(st.integers(0, 4), st.integers(1, 3), st.integers(1, 2)))
def test_symbolic_chains(module: tiny.Module, sizes: tuple[int, int, int]) -> None:
    known = dict(zip("MNP", sizes))
    arrays = {
        t.name: np.random.default_rng(n).standard_normal([d.evaluate(known) for d in t.type.shape]).astype(np.float32)
        for n, t in enumerate(module.model.inputs)
    }
    wanted = play_tiny(module, arrays, known)
    for name, array in play_book(lower(module), arrays, known).items():
        np.testing.assert_array_equal(array, wanted[name])


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs(seed: int) -> None:
    module, arrays = random_graph(seed)
    wanted = play_tiny(module, arrays)
    for name, array in play_book(lower(module), arrays).items():
        np.testing.assert_allclose(array, wanted[name], rtol=1e-4, atol=1e-4, err_msg=f"graph {seed}, {name}")


PADDED = """tinyir 1.0 index

model m
  in  x : fp32[4]
  out y : fp32[6]

  %a = TANH(x) : fp32[4]
  %p = PAD(%a) {pad=[[1, 1]]} : fp32[6]
  %y = NEG(%p) : fp32[6]

outputs: %y

book
  %a [i0: 4]
    reads x[i0]
  %p [i0: 6]
    reads %a[i0 - 1] where 0 <= i0 - 1 < 4 else 0.0
  %y [i0: 6]
    reads %p[i0]
    from  %a[i0 - 1] where 0 <= i0 - 1 < 4 else 0.0
"""


def test_it_is_the_book_that_is_played() -> None:
    """A composed map that is wrong gives what it says and not what the program means."""
    x = np.arange(4, dtype=np.float32)
    right = play_book(index.parse(PADDED), {"x": x})["y"]
    np.testing.assert_array_equal(right, -np.pad(np.tanh(x), 1))
    head, _, tail = PADDED.rpartition("%a[i0 - 1] where 0 <= i0 - 1 < 4 else 0.0")
    wrong = play_book(index.parse(head + "%a[4 - i0] where 1 <= i0 < 5 else 2.0" + tail), {"x": x})["y"]
    np.testing.assert_array_equal(wrong, -np.pad(np.tanh(x)[::-1], 1, constant_values=2))


def test_a_read_outside_is_refused() -> None:
    head, _, tail = PADDED.rpartition("%a[i0 - 1] where 0 <= i0 - 1 < 4 else 0.0")
    with pytest.raises(Refused) as fault:
        play_book(index.parse(head + "%a[i0]" + tail), {"x": np.zeros(4, np.float32)})
    assert [d.code for d in fault.value.diags] == ["E1403"]


def test_values_that_are_watched_come_in_order_and_movements_do_not() -> None:
    seen: list[str] = []
    play_book(index.parse(PADDED), {"x": np.zeros(4, np.float32)}, watch=lambda name, array: seen.append(name))
    assert seen == ["a", "y"]
