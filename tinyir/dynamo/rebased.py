"""Reads of memory by strides, of the tensor that has all of that memory.

`as_strided` of a part reads the memory that the part is in: also what is beside it. A program makes the part alone, so
that nobody could read beside it, neither a program nor torch.
"""

from __future__ import annotations

from typing import Any

from .graph import is_node, is_tensor
from .results import is_whole, memory_of

_STRIDED = ("aten.as_strided.default", "aten.as_strided_copy.default")


def rebase(module: Any) -> None:
    """Let each `as_strided` of a graph whose operand is a part read the whole, from the place where it did."""
    wholes: dict[Any, Any] = {}
    is_changed = False
    for node in module.graph.nodes:
        value = node.meta.get("val")
        if not is_tensor(value):
            continue
        if str(node.target) in _STRIDED and is_node(node.args[0]):
            part = node.args[0]
            whole = wholes.get(memory_of(part.meta["val"]), part)
            if whole is not part:
                given = node.args[3] if len(node.args) > 3 else node.kwargs.get("storage_offset")
                start = part.meta["val"].storage_offset() if given is None else given
                node.args, node.kwargs = (whole, *node.args[1:3], start), {}
                is_changed = True
        if is_whole(value):
            wholes.setdefault(memory_of(value), node)
    if is_changed:
        module.graph.eliminate_dead_code()
        module.recompile()
