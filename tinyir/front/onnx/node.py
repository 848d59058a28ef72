"""A node of an ONNX graph as its translation sees it: terms in, attributes by name, and the way to put ops into the
program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.expr import Expr
from ...ir.types import DType
from ...kit.diag import Refused, refuse
from ...kit.phrase import Phrase
from ..program.ops import Ops
from ..program.program import Program
from ..program.terms import Term
from .elements import element_of


class Node(Ops):
    """One node. `inputs` are terms, tuples of terms (sequences), or None where an optional one is absent."""

    def __init__(
        self,
        proto: Any,
        inputs: Sequence[Any],
        name: str,
        opset: int,
        attrs: dict[str, Any],
        program: Program,
        translator: Any,
        scope: Any,
    ):
        super().__init__(name, program)
        self.proto = proto
        self.inputs = list(inputs)
        self.outputs = list(proto.output)
        self.opset = opset
        self.attrs = attrs
        self.translator = translator
        self.scope = scope

    # --- what the node says

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute: int, float, str, a tuple of them, or a proto; `default` when it is not stated."""
        return self.attrs.get(name, default)

    def has(self, position: int) -> bool:
        """Whether the input is there."""
        return position < len(self.inputs) and self.inputs[position] is not None

    def input(self, position: int) -> Term:
        """The input, which must be there (E0124)."""
        if not self.has(position):
            raise self.fault(Phrase("its input {position} is missing", position=position + 1))
        if not isinstance(self.inputs[position], Term):
            raise self.fault(Phrase("its input {position} is a sequence", position=position + 1))
        return self.inputs[position]

    def optional(self, position: int) -> Term | None:
        """The input, or None when it is absent."""
        return self.input(position) if self.has(position) else None

    def wants(self, position: int) -> bool:
        """Whether the node names that output."""
        return position < len(self.outputs) and self.outputs[position] != ""

    def value(self, position: int) -> np.ndarray:
        """The value of an input that must be known beforehand (E0125)."""
        term = self.input(position)
        found = self.translator.value_of(term)
        if found is None:
            raise refuse(
                "E0125", self.name, op=self.proto.op_type, position=position + 1, tensor=self.proto.input[position]
            )
        return found

    def ints(self, position: int | None, key: str = "", default: Any = None) -> Any:
        """Integers or sizes: the attribute `key` of older opsets, or else the value of an input; `default` when neither
        is there."""
        if key and key in self.attrs:
            found = self.attrs[key]
            return list(found) if isinstance(found, tuple) else [found]
        if position is None or not self.has(position):
            return default
        items = (
            v.constant if isinstance(v, Expr) and v.constant is not None else v
            for v in self.value(position).reshape(-1)
        )
        return [v if isinstance(v, Expr) else int(v) for v in items]

    def scalar(self, position: int, key: str = "", default: Any = None) -> Any:
        """A number: the attribute `key` of older opsets, or else the value of an input of one element."""
        if key and key in self.attrs:
            return self.attrs[key]
        if not self.has(position):
            return default
        found = self.value(position)
        if found.size != 1:
            raise self.fault(
                Phrase("its input {position} must have one element, not {size}", position=position + 1, size=found.size)
            )
        item = found.reshape(-1)[0]
        return item if isinstance(item, Expr) else item.item()

    def axis(self, rank: int, default: int = 0, key: str = "axis") -> int:
        """The axis that an attribute names, counted from 0 (E1006)."""
        axis = self.attr(key, default)
        if not -rank <= axis < max(rank, 1):
            raise refuse("E1006", self.name, axis=axis, rank=rank)
        return axis % max(rank, 1)

    def element(self, number: int) -> tuple[DType, str]:
        """The dtype and form of an ONNX element type (E0126)."""
        return element_of(number, self.name)

    def fault(self, fault: str) -> Refused:
        """The exception that says in which form this op is not supported."""
        return refuse("E0124", self.name, op=self.proto.op_type, fault=fault)
