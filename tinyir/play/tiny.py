"""Playback of tiny text: every op by its NumPy function of the op table, on views where movement allows (ir.evaluate).

A product that is only summed is never formed (play.contraction); one that must be rounded first is formed in blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..ir.accumulate import neutral_of
from ..ir.evaluate import compute_dtype, convert, evaluate, shape_of, widened
from ..ir.tiny import Module, Value
from ..kit.groups import lists_of
from . import indirect
from .arrays import adopt, bind_symbols, check_arrays
from .contraction import fold_product

Watch = Callable[[str, np.ndarray], None]  # is told each value that is computed, by its name


def play(
    module: Module, arrays: Mapping[str, Any], symbols: Mapping[str, int] | None = None, watch: Watch | None = None
) -> dict[str, np.ndarray]:
    """The outputs by name, for input arrays by name. `symbols` gives sizes that no input's shape settles. The module
    must be checked. Raises Refused (E1701 to E1711)."""
    check_arrays(module.model, arrays, symbols)
    sizes = bind_symbols(module.model, arrays, symbols)
    return Player(module, sizes, watch).run({t.name: adopt(arrays[t.name], t.type.dtype) for t in module.model.inputs})


class Player:
    """One run. An array is dropped after its last use. `value` gives each value in turn."""

    def __init__(self, module: Module, symbols: Mapping[str, int], watch: Watch | None = None):
        self.module = module
        self.watch = watch
        self.symbols = symbols
        self.values = module.value_of()
        self.found: dict[str, np.ndarray] = {}
        self.users = lists_of((operand, value.name) for value in module.values for operand in value.operands)
        for result in module.results:
            self.users.setdefault(result.value, []).append("")

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs by name, for input arrays that have the dtypes of the model. Raises Refused (E1701 to E1711)."""
        self.found.update(inputs)
        left = {name: len(users) for name, users in self.users.items()}
        with np.errstate(all="ignore"):
            for value in self.module.values:
                if value.name in left and not self.is_folded(value):
                    self.found[value.name] = self.value(value)
                    if self.watch:
                        self.watch(value.name, self.found[value.name])
                self.release(value, left)
        return {r.output: np.array(self.found[r.value], order="C") for r in self.module.results}

    def release(self, value: Value, left: dict[str, int]) -> None:
        """Drop what `value` was the last to use; `left` counts the uses to come of each array."""
        if self.is_folded(value):
            return
        for operand in value.operands:
            inner = self.values.get(operand)
            left[operand] -= 1
            if left[operand] == 0:
                self.found.pop(operand, None)
                if inner is not None and self.is_folded(inner):
                    for factor in inner.operands:
                        left[factor] -= 1
                        if left[factor] == 0:
                            self.found.pop(factor, None)

    def is_folded(self, value: Value) -> bool:
        """Whether `value` is a product whose only users are sums, which take its factors instead."""
        if value.op != "MUL" or value.name not in self.users:
            return False
        return all(
            user and self.values[user].op == "REDUCE" and self.values[user].attr("op") == "SUM"
            for user in self.users[value.name]
        )

    def value(self, value: Value) -> np.ndarray:
        """One value, from the arrays that were found."""
        operands = [self.found.get(o) for o in value.operands]
        if value.op == "REDUCE" and operands[0] is None:
            return self._reduce_product(value, self.values[value.operands[0]])
        if value.op in PLAYED:
            return PLAYED[value.op](value, shape_of(value, self.symbols), *operands)
        return evaluate(value, operands, self.symbols)

    def _reduce_product(self, value: Value, product: Value) -> np.ndarray:
        x, y = (self.found[o] for o in product.operands)
        return fold_product(
            x, y, tuple(a % x.ndim for a in value.attr("axes")), product.type.dtype, value.attr("dtype")
        )


# --- beyond the affine core


def _gather(value: Value, shape: tuple[int, ...], source: np.ndarray, index: np.ndarray) -> np.ndarray:
    return indirect.gather(source, index, value.attr("axis"))


def _scatter(
    value: Value, shape: tuple[int, ...], source: np.ndarray, index: np.ndarray, update: np.ndarray
) -> np.ndarray:
    found = indirect.scatter(widened(source), index, widened(update), value.attr("axis"), value.attr("op"))
    return convert(found, value.type.dtype)


def _scan(value: Value, shape: tuple[int, ...], source: np.ndarray) -> np.ndarray:
    op, dtype = value.attr("op"), value.attr("dtype")
    wide = convert(source, dtype).astype(compute_dtype(dtype), copy=False)
    found = indirect.scan(
        wide,
        op,
        value.attr("axis"),
        neutral_of(op, dtype).value,
        bool(value.attr("reverse")),
        bool(value.attr("exclusive")),
    )
    return convert(found, dtype)


def _random(value: Value, shape: tuple[int, ...]) -> np.ndarray:
    return convert(
        indirect.random(value.attr("seed"), value.attr("offset") or 0, shape, value.type.dtype), value.type.dtype
    )


PLAYED: dict[str, Callable[..., np.ndarray]] = {
    "GATHER": _gather,
    "SCATTER": _scatter,
    "SCAN": _scan,
    "RANDOM": _random,
}
