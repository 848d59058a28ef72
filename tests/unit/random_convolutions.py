"""Random convolutions as models: of one to three axes, with groups, steps, spread windows, padding of its own on each
side, odd channels, transposed, in both orders of dims, and with what may follow. Their operands are small whole
numbers, so that every sum is exact."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .stages import graph

EPILOGUES = ("", "bias", "bias relu", "bias residual relu", "residual")
LEAST_SUM = 128  # products
KINDS = {"fp16": np.float16, "fp32": np.float32}


@dataclass(frozen=True, slots=True)
class Convolution:
    """`channels` of images of `sizes` to `made`, by windows; of a transposed one these are of what it makes."""

    dtype: str
    batch: int
    channels: int
    made: int
    groups: int
    sizes: tuple[int, ...]
    window: tuple[int, ...]
    steps: tuple[int, ...]
    spread: tuple[int, ...]
    before: tuple[int, ...]
    behind: tuple[int, ...]
    is_transposed: bool
    is_last: bool
    epilogue: str

    @property
    def out(self) -> tuple[int, ...]:
        """The sizes of what is made."""
        reach = [d * (w - 1) + 1 for d, w in zip(self.spread, self.window)]
        sides = [a + z for a, z in zip(self.before, self.behind)]
        if self.is_transposed:
            return tuple((n - 1) * s + r - p for n, s, r, p in zip(self.sizes, self.steps, reach, sides))
        return tuple((n + p - r) // s + 1 for n, s, r, p in zip(self.sizes, self.steps, reach, sides))

    @property
    def is_tensor_work(self) -> bool:
        """Whether tensor cores take it without a matrix of its windows: of 16 bits, whole accesses of channels read and
        made, a sum that is worth a step, and no groups."""
        is_whole = self.channels % 8 == 0 and self.made % 8 == 0
        steps = self.steps if self.is_transposed else (1,) * len(self.steps)  # a result has every step-th tap
        products = self.channels * math.prod(-(-w // s) for w, s in zip(self.window, steps))
        return self.dtype == "fp16" and self.groups == 1 and is_whole and products >= LEAST_SUM

    @property
    def image_elements(self) -> int:
        """Of the image, and of what windows slide over in the place of that of a transposed one."""
        slid = [o + d * (w - 1) for o, d, w in zip(self.out, self.spread, self.window)]
        return self.batch * self.channels * max(math.prod(self.sizes), math.prod(slid) if self.is_transposed else 0)

    def image(self, channels: int, sizes: tuple[int, ...]) -> list[int]:
        """The shape of images in memory."""
        return [self.batch, *sizes, channels] if self.is_last else [self.batch, channels, *sizes]

    def shapes(self) -> dict[str, list[int]]:
        """Of the operands."""
        sides = (
            (self.channels, self.made // self.groups)
            if self.is_transposed
            else (self.made, self.channels // self.groups)
        )
        found = {"x": self.image(self.channels, self.sizes), "w": [*sides, *self.window]}
        if "bias" in self.epilogue:
            found["b"] = [self.made]
        if "residual" in self.epilogue:
            found["r"] = self.image(self.made, self.out)
        return found

    def model(self) -> str:
        """Front-end JSON, whose weights are constants."""
        import json

        shapes = self.shapes()
        how: dict[str, Any] = {"pad": [*self.before, *self.behind], "stride": list(self.steps)}
        how |= {"dilation": list(self.spread), "groups": self.groups, "layout": "NHWC" if self.is_last else "NCHW"}
        ops: list[Any] = [
            ("ConvTranspose" if self.is_transposed else "Conv", [n for n in "xwb" if n in shapes], "c", how)
        ]
        if "residual" in self.epilogue:
            ops.append(("Elementwise", ["c", "r"], "d", {"fn": "add"}))
        if "relu" in self.epilogue:
            ops.append(("Elementwise", [ops[-1][2]], "e", {"fn": "relu"}))
        ops[-1] = (*ops[-1][:2], "y", ops[-1][3])
        given = {name: (self.dtype, shape) for name, shape in shapes.items()}
        text = json.loads(graph(given, {"y": (self.dtype, self.image(self.made, self.out))}, *ops, name="convolution"))
        for item in text["signature"]["inputs"]:
            if item["tensor"] in "wb":
                item |= {"role": "param", "storage": "const_pool"}
        return json.dumps(text)

    def arrays(self, seed: int) -> dict[str, np.ndarray]:
        """Operands."""
        draw = np.random.default_rng(seed)
        return {n: draw.integers(-2, 3, shape).astype(KINDS[self.dtype]) for n, shape in self.shapes().items()}


def drawn(seed: int, is_small: bool = False) -> Convolution:
    """One that is worth a card, or a simulation."""
    draw = random.Random(seed)
    axes = draw.choice([1, 2, 2, 2, 3])
    window = tuple(draw.choice([1, 2, 3, 3, 3, 5] if axes < 3 else [1, 2, 3]) for _ in range(axes))
    spread = tuple(draw.choice([1, 1, 1, 2]) for _ in range(axes))
    reach = [d * (w - 1) + 1 for d, w in zip(spread, window)]
    is_transposed = draw.random() < 0.2
    before, behind = (tuple(draw.randint(0, (r - 1) // 2 + (r > 1)) for r in reach) for _ in range(2))
    before, behind = (tuple(min(p, r - 1) for p, r in zip(side, reach)) for side in (before, behind))
    sides = {True: [4, 5, 7, 8, 11], False: {1: [64, 200, 333], 2: [7, 14, 28, 29, 56], 3: [6, 8, 13]}[axes]}[is_small]
    sizes = tuple(max(r, draw.choice(sides)) for r in reach)
    each = [1, 2, 3, 8, 16, 24] if is_small else [3, 8, 24, 32, 64, 72, 128, 160]
    groups = draw.choice([1, 1, 1, 1, 1, 1, 2, 3, 8])
    channels, made = (groups * draw.choice(each) for _ in range(2))
    if draw.random() < 0.15:  # a group for each channel
        groups = channels = draw.choice([8, 16, 24] if is_small else [32, 48, 96, 129, 256])
        made = channels * draw.choice([1, 1, 2])
    if groups > 3:
        channels, made = (groups * max(1, n // groups // (2 if is_small else 4)) for n in (channels, made))
    found = Convolution(
        draw.choice(["fp16"] * 5 + ["fp32"]),
        draw.choice([1, 2, 3] if is_small else [1, 2, 8]),
        channels,
        made,
        groups,
        sizes,
        window,
        tuple(draw.choice([1, 1, 2, 3]) for _ in range(axes)),
        spread,
        before,
        behind,
        is_transposed,
        draw.random() < 0.5,
        draw.choice(EPILOGUES),
    )
    if found.is_transposed and found.groups == 1 and draw.random() < 0.4:  # as decoders have them: half a step is cut
        half = (1,) * axes
        return replace(found, window=(4,) * axes, steps=(2,) * axes, spread=half, before=half, behind=half)
    if not found.is_transposed and found.groups not in (1, found.channels) and draw.random() < 0.5:
        each = draw.choice([4, 8])
        return replace(found, channels=each * found.groups, made=draw.choice([4, 8, 16]) * found.groups)
    return found


TENSOR_CORES = ("warp_specialized", "multistage", "haloed")


def misses(module: Any, case: Convolution) -> str:
    """What is wrong with the plans of tensor work: that none takes tensor cores, or that windows are laid out as a
    matrix; empty where neither is, and of other work."""
    if not case.is_tensor_work:
        return ""
    if not any(one.algo in TENSOR_CORES for one in module.plans):
        return "no tensor cores"
    of_image, matrices = {"x"}, []
    for one in module.program.program.regions:
        if not one.lets and one.inputs[0].name in of_image:  # it moves elements alone
            of_image |= {t.name for t in one.outputs}
            written = math.prod(e.constant for e in one.outputs[0].type.shape)
            matrices += [one.name] if written > case.image_elements else []
    return f"a matrix of windows: {', '.join(matrices)}" if matrices else ""
