"""A program in the schema of archives whose weights are elsewhere: in memory, where whoever runs it has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..program.text import show
from .archive import Stored, following, is_small
from .model import program_of


class Held:
    """In the place of an archive: the JSON of a program and its weights by name. Those whose values become part of the
    text are in `arrays`."""

    def __init__(self, model: dict[str, Any], tensors: Mapping[str, Stored], arrays: Mapping[str, np.ndarray]):
        self.model, self.tensors, self._arrays = model, dict(tensors), arrays
        self.root, self.placed = "main/", list[str]()

    def is_written(self, tensor: Stored) -> bool:
        """Whether a weight is written into the text itself: a small one whose values stay as they are."""
        return tensor.name in self._arrays and is_small(tensor)

    def place(self, tensor: Stored) -> dict[str, Any]:
        """The attributes of a weight that is an input of the program; none for one whose elements are in the text."""
        if tensor.name in self._arrays:
            return {}
        self.placed.append(tensor.name)
        return {"role": "param", "storage": "const_pool"}

    def array(self, tensor: Stored) -> np.ndarray:
        """The elements of a small one."""
        return self._arrays[tensor.name].reshape(-1).reshape(tensor.shape)


def held_to_json(
    model: dict[str, Any], tensors: Mapping[str, Stored], arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int]
) -> tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The front-end JSON of a program, the names of its inputs and outputs, and of the weights among its inputs. Plans
    are for these `sizes` of symbols, where all of the program's are among them. Raises Refused with every fault found
    (E0143 to E0146 and what lowering finds)."""
    from . import ops  # noqa: F401  (each file puts its rows into the table)

    held = Held(model, tensors, arrays)
    name, program, inputs, outputs = program_of(held, {}, {})  # pyright: ignore[reportArgumentType]
    with following(name):
        is_known = program.symbols and sizes.keys() >= program.symbols.keys()
        sets = {"traced": {symbol: sizes[symbol] for symbol in program.symbols}} if is_known else {}
        text = show(name, program, [*inputs, *held.placed], outputs, sets)
    return text, tuple(inputs), tuple(outputs), tuple(held.placed)
