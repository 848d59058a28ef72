"""The table of ONNX ops: each says, in ops of the front ends, what a node means. A file of `onnx.ops` holds a family:

    @onnx_op("Conv")
    def conv(node): return node.op("Conv", *node.inputs, stride=node.attr("strides"), ...)

A translation returns a term, or a tuple of them, one for each output that the node may name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ops.table import registered

Translation = Callable[[Any], Any]
ONNX_OPS: dict[tuple[str, str], Translation] = {}
FOLDS: dict[
    str, Translation
] = {}  # the same, for nodes of which every input is known; they return a value, or None to decline


def onnx_op(*names: str, domain: str = "") -> Callable[[Translation], Translation]:
    """Register a translation under the ops' names."""
    return registered(ONNX_OPS, *((domain, name) for name in names))


def fold(*names: str) -> Callable[[Translation], Translation]:
    """Register a folding under the ops' names: it gets the node and the arrays of its inputs (None where absent)."""
    return registered(FOLDS, *names)
