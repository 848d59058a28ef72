"""The arena: buffers that live at the same time never overlap, and others share."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tinyir.runtime.arena import ALIGNMENT, Lifetime, line_up, pack


@st.composite
def lifetimes(draw: st.DrawFn) -> list[Lifetime]:
    found = []
    for number in range(draw(st.integers(0, 12))):
        first = draw(st.integers(0, 9))
        found.append(Lifetime(f"b{number}", draw(st.integers(0, 5000)), first, draw(st.integers(first, 9))))
    return found


@given(lifetimes())
def test_what_meets_does_not_overlap(items: list[Lifetime]) -> None:
    places, total = pack(items)
    assert places.keys() == {i.name for i in items}
    for item in items:
        assert places[item.name] % ALIGNMENT == 0 and places[item.name] + item.bytes <= total
        for other in items:
            if other.name != item.name and item.meets(other) and item.bytes and other.bytes:
                low, high = sorted((item, other), key=lambda i: places[i.name])
                assert places[low.name] + low.bytes <= places[high.name]


@given(lifetimes())
def test_the_arena_is_no_larger_than_all_and_no_smaller_than_what_lives_at_once(items: list[Lifetime]) -> None:
    _, total = pack(items)
    rounded = {i.name: -(-i.bytes // ALIGNMENT) * ALIGNMENT for i in items}
    at_once = max((sum(rounded[i.name] for i in items if i.first <= step <= i.last) for step in range(10)), default=0)
    assert at_once <= total <= sum(rounded.values())


def test_a_chain_needs_two_places() -> None:
    chain = [Lifetime(f"h{n}", 1000, n, n + 1) for n in range(8)]
    assert pack(chain)[1] == 2 * 1024


def test_what_lasts_stands_one_after_the_other() -> None:
    assert line_up([("a", 10), ("b", 300), ("c", 0), ("d", 1)]) == ({"a": 0, "b": 256, "c": 768, "d": 768}, 1024)
