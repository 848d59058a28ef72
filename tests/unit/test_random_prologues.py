"""Random work on what random contractions multiply: chains, movements, pads, scales, several readers. What the regions
compute is what the model says, with the prologues inside and apart."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tinyir.front.json import read
from tinyir.ir import region
from tinyir.ir.body import Binary, Unary, walk
from tinyir.kernels.alternatives.materialize_prologues import materialize_prologues
from tinyir.kernels.problem import Contraction, kernels_of
from tinyir.lower import lower_to
from tinyir.play.region import play
from tinyir.play.tiny import play as play_tiny
from tinyir.runtime.arrays import random_arrays

from .stages import graph

FNS = ("relu", "neg", "abs", "exp", "tanh")


class Draw:
    """One model in the making: tensors by name with their shapes, and ops."""

    def __init__(self, seed: int):
        self.draw = random.Random(seed)
        self.inputs: dict[str, tuple[str, list[Any]]] = {}
        self.ops: list[tuple[str, list[Any], str, dict[str, Any]]] = []
        self.shape: dict[str, list[int]] = {}

    def name(self, shape: list[int]) -> str:
        found = f"t{len(self.shape)}"
        self.shape[found] = shape
        return found

    def input(self, shape: list[int]) -> str:
        found = self.name(shape)
        self.inputs[found] = ("fp32", list(shape))
        return found

    def op(self, kind: str, given: list[Any], size: list[int], /, **attrs: Any) -> str:
        found = self.name(size)
        self.ops.append((kind, given, found, attrs))
        return found

    def worked(self, x: str) -> str:
        """The tensor after a few random steps, which keep all of its axes but the last as long as they are."""
        for _ in range(self.draw.randint(0, 4)):
            shape = self.shape[x]
            kind = self.draw.choice(("fn", "fn", "scale", "row", "full", "turn", "pad", "slice", "block"))
            if kind == "fn":
                x = self.op("Elementwise", [x], shape, fn=self.draw.choice(FNS))
            elif kind == "scale":
                x = self.op("Elementwise", [x, 0.5], shape, fn=self.draw.choice(("mul", "add")))
            elif kind == "row":
                x = self.op("Elementwise", [x, self.input(shape[-1:])], shape, fn=self.draw.choice(("mul", "sub")))
            elif kind == "full":
                x = self.op("Elementwise", [x, self.input(shape)], shape, fn="mul")
            elif kind == "turn":
                perm = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
                turned = self.op("Transpose", [x], [shape[p] for p in perm], perm=perm)
                turned = self.op("Elementwise", [turned], self.shape[turned], fn=self.draw.choice(FNS))
                x = self.op("Transpose", [turned], shape, perm=perm)
            elif kind == "pad":
                aside = [0] * (len(shape) - 1)
                wide = [*shape[:-1], shape[-1] + 2]
                padded = self.op("Pad", [x], wide, pads=[*aside, 1, *aside, 1], value=self.draw.choice((0.0, 1.5)))
                x = self.op("Elementwise", [padded], wide, fn=self.draw.choice(FNS))
            elif kind == "slice" and shape[-1] > 3:
                x = self.op(
                    "Slice", [x], [*shape[:-1], shape[-1] - 1], starts=[1], ends=[shape[-1]], axes=[len(shape) - 1]
                )
            elif kind == "block" and shape[-1] % 2 == 0:
                scale = self.input([shape[-1] // 2, 1])
                wide = self.op("Expand", [scale], [shape[-1] // 2, 2], shape=[shape[-1] // 2, 2])
                x = self.op(
                    "Elementwise", [x, self.op("Reshape", [wide], shape[-1:], shape=shape[-1:])], shape, fn="mul"
                )
        return x

    def model(self) -> str:
        batch = self.draw.choice(([], [], [2]))
        m, k, n = (self.draw.randint(2, 7) for _ in range(3))
        left = self.worked(self.input([*batch, m, k]))
        outputs = {}
        for _ in range(self.draw.randint(1, 2)):
            inner = self.shape[left][-1]
            right = self.worked(self.input([*batch, n, inner]))
            if self.shape[right][-1] != inner:  # the steps have changed the axis that is summed
                right = self.input([*batch, n, inner])
            turned = self.op(
                "Transpose", [right], [*batch, inner, n], perm=[*range(len(batch)), len(batch) + 1, len(batch)]
            )
            y = self.op("MatMul", [left, turned], [*batch, self.shape[left][-2], n])
            outputs[y] = ("fp32", self.shape[y])
        if self.draw.random() < 0.3:
            z = self.op("Elementwise", [left], self.shape[left], fn="neg")
            outputs[z] = ("fp32", self.shape[z])
        return graph(self.inputs, outputs, *self.ops)


def works(one: region.Region) -> bool:
    """Whether a contraction computes what it multiplies."""
    kernel = next(iter(kernels_of(one)), None)
    return isinstance(kernel, Contraction) and any(
        isinstance(n, (Unary, Binary)) for f in kernel.factors for n in walk(f)
    )


def check(seed: int) -> int:
    """How many prologues a random model has, all of whose texts are right."""
    module: Any = read(Draw(seed).model())
    arrays = random_arrays(module.model, {}, seed)
    wanted = play_tiny(module, arrays)
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    apart, done = materialize_prologues(module, lambda _, one: float(works(one)))
    for text in (module, apart):
        assert [d for d in region.check(text) if d.is_error] == [] and region.parse(region.show(text)) == text
        found = play(text, arrays)
        for name, array in wanted.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-4, err_msg=f"model {seed}, {name}")
    return sum(map(works, module.program.regions))


def test_random_prologues() -> None:
    assert sum(map(check, range(60))) > 30


@pytest.mark.slow
def test_many_random_prologues() -> None:
    assert sum(map(check, range(1000))) > 400
