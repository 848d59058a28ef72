"""Stores of vectors are listed by vectors, and mean what the list of their elements means."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tinyir.ir.expr import Expr
from tinyir.ir.gpu import listed
from tinyir.ir.gpu.boxes import Uneven, boxed
from tinyir.ir.gpu.listed import TooMany, elements_of, judged
from tinyir.ir.gpu.points import Point
from tinyir.kit import work
from tinyir.kit.records import dataclass

Found = tuple[str, tuple[int, ...]] | None


@dataclass(frozen=True, slots=True)
class Write:
    point: Point
    index: tuple[Expr, ...]
    clip: tuple[int, ...] = ()


def points(**sizes: int) -> Point:
    point = Point((), (), {})
    for name, size in sizes.items():
        point = point.with_dim(name, Expr.of(0), Expr.of(size))
    return point


def by_elements(writes: list[Write], shape: list[int]) -> Found:
    return judged([elements_of(w.point, w.index, shape, w.clip) for w in writes], None, shape)


def by_boxes(writes: list[Write], shape: list[int]) -> tuple[tuple[int, ...], Found]:
    sides, firsts = boxed(writes, shape)
    boxes = [size // side for size, side in zip(shape, sides)]
    clips = [[c // n for c, n in zip(w.clip, sides)] for w in firsts]
    lists = [elements_of(w.point, w.index, boxes, clip, None, sides) for w, clip in zip(firsts, clips)]
    return sides, judged(lists, None, boxes)


i, c, v, w = map(Expr.of, "icvw")


def test_vectors_are_boxes() -> None:
    write = Write(points(i=6, c=4, w=2, v=8), (i, 16 * c + 8 * w + v))
    assert by_boxes([write], [6, 64]) == ((6, 64), None)
    assert by_boxes([Write(points(i=6, c=4, v=8), (i, 8 * (c // 2) + 16 * (c - 2 * (c // 2)) + v))], [6, 32])[0] == (
        6,
        8,
    )


def test_stores_have_boxes_in_common() -> None:
    by_8 = Write(points(i=4, c=2, v=8), (i, 8 * c + v))
    by_4 = Write(points(i=4, c=4, v=4), (i, 16 + 4 * c - 4 * (c // 4) + v))
    assert by_boxes([by_8, by_4], [4, 32])[0][1] == 1  # by 8 and by 4 have no side in common but the element's
    both = Write(points(i=4, c=4, w=2, v=4), (i, 8 * c + 4 * w + v))
    assert boxed([by_8, both], [4, 32])[0][1] == 8
    assert boxed([both, both], [4, 32])[0] == (4, 32)


@pytest.mark.parametrize("size", [30, 34])
def test_what_a_box_does_not_divide_is_listed_by_elements(size: int) -> None:
    assert boxed([Write(points(i=4, c=4, v=8), (i, 8 * c + v))], [4, size])[0][1] == 1


def test_a_box_that_begins_elsewhere_is_no_box() -> None:
    write = Write(points(c=4, v=4), (4 * c - 3 * (c // 2) + v,))
    with pytest.raises(Uneven):
        by_boxes([write], [16])
    assert by_elements([write], [16]) is not None


def test_random_stores() -> None:
    """Right and wrong ones, of one statement and of two: by boxes as by elements."""
    draw, kinds = random.Random(0), set()
    for _ in range(400):
        wide, tall, vector = draw.choice((2, 4, 8)), draw.choice((2, 3, 4)), draw.choice((1, 2, 4))
        doubled = draw.choice((1, 2))
        shape = [tall, wide * vector * doubled]
        writes = []
        for _ in range(draw.choice((1, 2))):
            last = (
                vector * (c - wide * (c // wide))
                + v
                + draw.choice((0, 0, wide * vector, vector, 1)[: 5 if doubled == 2 else 1])
            )
            row = draw.choice((c // wide, c // wide, i))
            sizes = {"c": wide * tall, "v": vector, "i": tall if row == i else 1}
            clip = draw.choice(((), tuple(shape)))
            writes.append(Write(points(**sizes), (row, last), clip))
        wanted = by_elements(writes, shape)
        try:
            sides, found = by_boxes(writes, shape)
        except Uneven:
            continue
        kinds.add((wanted and wanted[0], max(sides) > 1))
        if found is not None and found[0] == "left":
            found = "left", tuple(n * side for n, side in zip(found[1], sides))
        assert found == wanted, (writes, shape, sides)
    assert {(None, True), ("left", True), ("twice", True), ("both", True)} <= kinds


def test_pieces_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    point = points(i=37, c=11, v=4).under(())
    index = (i, 4 * c + v)
    whole = elements_of(point, index, [37, 44])
    for size in (1, 7, 100, 1000):
        monkeypatch.setattr(listed, "PIECE", size)
        np.testing.assert_array_equal(np.sort(elements_of(point, index, [37, 44])), np.sort(whole))
        with pytest.raises(TooMany):
            elements_of(point, index, [37, 44], (), len(whole) - 1)


def test_a_vector_is_a_point() -> None:
    """Of a tensor of 64 x 1024 elements in vectors of 8, as many points as vectors are listed at the most."""
    write = Write(points(i=64, c=128, v=8), (i, 8 * (c // 64) + 16 * (c - 64 * (c // 64)) + v))
    before = work.counts["points listed"]
    assert by_boxes([write], [64, 1024]) == ((64, 8), None)
    assert work.counts["points listed"] - before == 128
