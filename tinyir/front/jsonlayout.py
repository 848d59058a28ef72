"""`layout` of a tensor in front-end JSON: a word, or `{"kind": ..., "params": {...}}` (seed 001 section 6.2).

    "col_major"                                                     the last two axes are exchanged in memory
    {"kind": "col_major", "params": {"strides": [1, "K"]}}          the same: these are its strides
    {"kind": "row_major", "params": {"strides": ["K + 8", 1]}}      refused (E1313): rows that are farther apart
    {"kind": "swizzled", "params": {"swizzle": "xor32"}}            refused (E1313)

A tensor of the signature is exchanged with other libraries, so its memory is contiguous, in one of two orders.
`strides` (elements), `padding` (elements after a row) and `swizzle` are accepted where they say what the kind says
already.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ir.expr import ONE, Expr
from ..ir.model import CHOICES, Tensor, memory_order
from ..ir.types import TensorType
from ..kit.phrase import Phrase
from .jsontext import Node, Reader
from .ops.table import read_dim

SWIZZLED = "swizzled"
KINDS = (*CHOICES["layout"], SWIZZLED)
PARAMS = {
    "strides": Phrase("a list"),
    "padding": Phrase("an integer"),
    "swizzle": Phrase("a string"),
    "vec_bytes": Phrase("an integer"),
}
_KIND_OF = {"a list": list, "an integer": int, "a string": str}


class LayoutReader:
    """One layout that is an object, of a tensor declared as one of `declared`. Faults go to the reader of the text."""

    def __init__(self, reader: Reader, node: Node, tensor: str, declared: Mapping[str, TensorType]):
        self.reader, self.node, self.tensor, self.declared = reader, node, tensor, declared

    def word(self) -> str | None:
        """The layout's word; None after a fault: E0102 an unknown key, E0103 a value of another kind, E0104 no kind,
        E1302 an unknown kind, E1313 a layout that is not an order of axes."""
        reader, tensor = self.reader, self.tensor
        reader.only(self.node, ("kind", "params"), tensor)
        kind = reader.expect(self.node.get("kind"), str, tensor, self.node, "kind")
        if not kind:
            return None
        if kind not in KINDS:
            known = ", ".join(KINDS)
            reader.fault("E1302", self.node.get("kind"), tensor, key="layout", given=kind, known=known)
            return None
        params = self._params()
        if params is None:
            return None
        if kind == SWIZZLED or not all(self._agrees(kind, key, node) for key, node in params.items()):
            given = kind + (f" {_shown({k: n.plain for k, n in params.items()})}" if params else "")
            known = ", ".join(CHOICES["layout"])
            reader.fault("E1313", self.node, tensor, tensor=tensor, given=given, known=known)
            return None
        return kind

    def _params(self) -> dict[str, Node] | None:
        """The parameters by name; None after a fault."""
        node = self.node.get("params")
        if node is None or node.value is None:
            return {}
        count = len(self.reader.faults)
        members = self.reader.expect(node, dict, self.tensor, key="params")
        if len(self.reader.faults) == count:
            self.reader.only(node, tuple(PARAMS), self.tensor)
        for key, member in members.items():
            expected = PARAMS.get(key)
            if expected and type(member.node.value) is not _KIND_OF[expected]:
                self.reader.fault("E0103", member.node, self.tensor, key=key, expected=expected)
        return {k: m.node for k, m in members.items()} if len(self.reader.faults) == count else None

    def _agrees(self, kind: str, key: str, node: Node) -> bool:
        """Whether a parameter says what the kind says without it."""
        if key == "padding":
            return node.value == 0
        if key == "swizzle":
            return node.value == "none"
        if key == "vec_bytes":
            return False
        declared = self.declared.get(self.tensor)
        if declared is None:
            return True  # its own fault has been said
        try:
            stated = tuple(read_dim(d.value) if type(d.value) in (int, str) else None for d in node.value)
        except ValueError:
            return False
        return stated == strides_of(declared, kind)


def strides_of(declared: TensorType, kind: str) -> tuple[Expr, ...]:
    """The strides, in elements, of each axis of a contiguous tensor of this layout."""
    tensor = Tensor("", declared, (("layout", kind),))
    found: list[Expr] = []
    step = ONE
    for size in reversed(memory_order(tensor, declared.shape)):
        found.append(step)
        step = step * size
    return memory_order(tensor, tuple(reversed(found)))


def _shown(params: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{key}={value}" for key, value in params.items()) + "}"
