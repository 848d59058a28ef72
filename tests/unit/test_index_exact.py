"""The composed maps, evaluated at every point, read what NumPy's movements read; blocks have the points that they
should have.

`make test` tries some 300 programs; `make test-all` 5,000 concrete ones, up to 20 movements long, and 500 symbolic ones
at 5 sizes each.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyir.analysis.counting import count
from tinyir.ir import index, poly, tiny
from tinyir.lower import poly as to_poly
from tinyir.lower.index import lower

from .programs import chains, move, symbolic_chains


def gathered(
    access: index.Access, shape: tuple[int, ...], arrays: dict[str, np.ndarray], sizes: dict[str, int]
) -> np.ndarray:
    """The array that an access gives over a domain of `shape`, element by element."""
    out = np.empty(shape, np.float32)
    for at in np.ndindex(*shape):
        found = access.at({**sizes, **{f"i{n}": i for n, i in enumerate(at)}})
        out[at] = arrays[found[0]][found[1]] if isinstance(found, tuple) else found
    return out


def assert_exact(module: tiny.Module, sizes: dict[str, int]) -> None:
    """Every value's step and composed map against NumPy, at the given sizes."""
    book = lower(module)
    arrays = {}
    for n, t in enumerate(module.model.inputs):
        shape = tuple(d.evaluate(sizes) for d in t.type.shape)
        arrays[t.name] = (np.arange(np.prod(shape), dtype=np.float32) + 100 * n + 1).reshape(shape)
    for value, entry in zip(module.values, book.entries):
        shape = tuple(d.evaluate(sizes) for d in value.type.shape)
        wanted = [arrays[value.operands[0]]] if value.op == "NEG" else [move(value, arrays[value.operands[0]], sizes)]
        for want, step, source in zip(wanted, entry.reads, entry.sources):
            assert want.shape == shape
            np.testing.assert_array_equal(gathered(step, shape, arrays, sizes), want)
            np.testing.assert_array_equal(gathered(source, shape, arrays, sizes), want)
        arrays[value.name] = -wanted[0] if value.op == "NEG" else wanted[0]


@settings(max_examples=180, deadline=None)
@given(chains())
def test_chains_of_movements(module: tiny.Module) -> None:
    assert [d for d in tiny.check(module) if d.is_error] == []
    assert_exact(module, {})


def assert_blocks_exact(module: poly.Module, sizes: dict[str, int]) -> None:
    """Each block's domain has one instance a point, and its read gives, where it has an image, the one element that the
    book says."""
    entries = module.index.entry_of()
    for block in module.blocks:
        entry = entries[block.name]
        shape = tuple(a.size.evaluate(sizes) for a in entry.axes)
        assert count(module.set_of(block.domain)) == np.prod(shape, dtype=int)
        assert len(block.reads) <= 1
        for reading in block.reads:
            relation = module.map_of(reading.relation).intersect_domain(module.set_of(block.domain))
            assert relation.is_single_valued()
            found = [entry.sources[0].at({a.name: i for a, i in zip(entry.axes, at)}) for at in np.ndindex(*shape)]
            assert count(relation.domain()) == sum(isinstance(f, tuple) for f in found)
            assert count(relation.range()) == len({f for f in found if isinstance(f, tuple)})


@settings(max_examples=60, deadline=None)
@given(chains())
def test_blocks_of_chains(module: tiny.Module) -> None:
    assert_blocks_exact(to_poly.lower(lower(module)), {})


@pytest.mark.slow
@settings(max_examples=5000, deadline=None)
@given(chains(20))
def test_five_thousand_programs(module: tiny.Module) -> None:
    assert_exact(module, {})
    assert_blocks_exact(to_poly.lower(lower(module)), {})


@settings(max_examples=40, deadline=None)
@given(chains())
def test_books_hold_and_read_back(module: tiny.Module) -> None:
    book = lower(module)
    assert [d for d in index.check(book) if d.is_error] == []
    text = index.show(book)
    assert index.parse(text) == book
    assert index.show(index.parse(text)) == text


@settings(max_examples=60, deadline=None)
@given(chains())
def test_a_composed_map_ends_at_the_input_or_in_constants(module: tiny.Module) -> None:
    for _value, entry in zip(module.values, lower(module).entries):
        assert {p.target.source for p in entry.sources[0].pieces if isinstance(p.target, index.Read)} <= {"x"}
        assert len(entry.sources[0].pieces) <= 1 + sum(v.op in ("PAD", "VALID") for v in module.values)


@settings(max_examples=60, deadline=None)
@given(symbolic_chains(), st.tuples(st.integers(0, 4), st.integers(1, 3), st.integers(1, 2)))
def test_symbolic_chains_at_random_sizes(module: tiny.Module, sizes: tuple[int, int, int]) -> None:
    assert [d for d in tiny.check(module) if d.is_error] == []
    assert [d for d in index.check(lower(module)) if d.is_error] == []
    assert_exact(module, dict(zip("MNP", sizes)))


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(
    symbolic_chains(12),
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4), st.integers(1, 3)), min_size=5, max_size=5),
)
def test_five_hundred_symbolic_programs_at_five_sizes(module: tiny.Module, sizes: list[tuple[int, int, int]]) -> None:
    assert [d for d in index.check(lower(module)) if d.is_error] == []
    for three in sizes:
        assert_exact(module, dict(zip("MNP", three)))
