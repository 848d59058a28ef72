"""What a program, its tensors and its symbols are called in C: by their own names where C allows it."""

from __future__ import annotations

import re
from pathlib import Path

from ..ir.model import Tensor
from ..lower.cu.names import Names
from .outline import Outline

SUPPORT = Path(__file__).with_name("support.c")
# What the generated functions call their own.
_OWN = """program workspace stream bytes layout layout_of settle known known_sizes is_known queue arguments maps
    compute_once touches touch made place items item call fault popped whole CUstream_st CUstream CUcontext
    CUdeviceptr NULL""".split()


def name_of(program: str) -> str:
    """What a program of this name is called in C."""
    return Names().of("program", program)


class Spelt:
    """The words of one program."""

    def __init__(self, outline: Outline):
        support = SUPPORT.read_text(encoding="utf-8")
        self._names = Names({*_OWN, *re.findall(r"\w+", support)})
        self.name = name_of(outline.name)
        for word in ("program", "create", "run", "reset", "destroy", "error", "workspace_bytes"):
            self._names.of("function", f"{self.name}_{word}")
        for tensor in outline.parameters:
            self.tensor(tensor.name)
        for symbol in outline.symbols:
            self.size(symbol)

    def tensor(self, name: str) -> str:
        """A tensor that is a parameter."""
        return self._names.of("tensor", name)

    def size(self, symbol: str) -> str:
        """A symbol."""
        return self._names.of("size", symbol)

    def narrow(self, symbol: str) -> str:
        """A symbol as kernels take it."""
        return self._names.of("int", f"int_{symbol}")

    def address(self, name: str) -> str:
        """Where a tensor is."""
        return self._names.of("address", f"at_{name}")

    def extent(self, name: str) -> str:
        """The bytes of a tensor."""
        return self._names.of("extent", f"bytes_{name}")

    def sizes(self, outline: Outline) -> list[str]:
        """The parameters for the sizes."""
        return [f"int64_t {self.size(s)}" for s in outline.symbols]

    def is_state(self, outline: Outline, tensor: Tensor) -> bool:
        """Whether a run reads what it is given and leaves another value there."""
        return tensor.name in outline.outputs and tensor.name in outline.inputs

    def parameter(self, outline: Outline, tensor: Tensor) -> str:
        """A tensor as a parameter of a run."""
        return f"{'' if tensor.name in outline.outputs else 'const '}void *{self.tensor(tensor.name)}"

    def names_of_run(self, outline: Outline) -> list[str]:
        """What a run is given, behind the program."""
        return [
            *(self.tensor(t.name) for t in outline.parameters),
            *(self.size(s) for s in outline.symbols),
            "workspace",
            "stream",
        ]
