"""The table of ATen ops: each says, in ops of the front ends, what a node means. A file of `pt2.ops` holds a family:

    @aten("relu.default")
    def relu(call): return call.fn("relu", call.tensor("self"))

A translation returns a term, or a tuple of them, one for each output that the node may name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ops.table import registered

Translation = Callable[[Any], Any]
ATEN_OPS: dict[str, Translation] = {}
COMPLEX_OPS: dict[str, Translation] = {}  # the same, for nodes that have complex operands
FOLDS: dict[str, Translation] = {}  # the same, for nodes whose tensors are all known; they return an array, or None


def aten(*names: str) -> Callable[[Translation], Translation]:
    """Register a translation under the names of overloads."""
    return registered(ATEN_OPS, *names)


def of_complex(*names: str) -> Callable[[Translation], Translation]:
    """Register a translation for nodes that have a complex operand, which is a `Complex`."""
    return registered(COMPLEX_OPS, *names)


def fold(*names: str) -> Callable[[Translation], Translation]:
    """Register a folding under the names of overloads: it gets the call, whose tensors `call.array` gives."""
    return registered(FOLDS, *names)
