"""Iterators taken in turn, so that the first few of many come from as many sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def in_turn(queues: Iterable[Iterator[T]]) -> Iterator[T]:
    """One of each, then the next of each, until all are empty."""
    left = list(queues)
    while left:
        for queue in list(left):
            try:
                yield next(queue)
            except StopIteration:
                left.remove(queue)
