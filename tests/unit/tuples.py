"""Random contractions: shape, layout, dtype and epilogue; what each should give, exactly."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tinyir.ir import manifest, region
from tinyir.ir.evaluate import convert
from tinyir.ir.types import DTYPES
from tinyir.lower import cu as to_cu
from tinyir.lower import gpu as to_gpu
from tinyir.lower import plan as to_plan

from .test_warp_specialized import product

LAYOUTS = ("NN", "NT", "TN", "TT")
DTYPES_DRAWN = (
    "fp16",
    "bf16",
    "fp32",
    "tf32",
    "fp8e4m3",
    "fp8e5m2",
    "fp8e4m3 fp8e5m2",
    "fp8e5m2 fp8e4m3",
)  # tf32: fp32 that may be rounded; two: of A and B
EPILOGUES = {
    "none": {},
    "fp32 out": {"out": "fp32"},
    "bias, relu": {
        "extra": "in bias : fp16[N]",
        "epilogue": "%biased = add(%gemm, broadcast_in_dim(cast(bias[i1]) : fp32, dims=[1])); %act = relu(%biased)",
        "value": "act",
    },
    "row scale": {
        "extra": "in s : fp32[M]",
        "epilogue": "%scaled = mul(%gemm, broadcast_in_dim(s[i0], dims=[0]))",
        "value": "scaled",
    },
    "row and column scale": {
        "extra": "in s : fp32[M]; in t : fp32[N]",
        "epilogue": "%scaled = mul(%gemm, broadcast_in_dim(s[i0], dims=[0])); %both = mul(%scaled, broadcast_in_dim(t[i1], "  # noqa: E501
        "dims=[1]))",
        "value": "both",
    },
    "fp8 out": {"out": "fp8e4m3"},
    "bf16 out": {"out": "bf16"},
    "residual, second output": {
        "extra": "in R : fp16[M, N]; out P : {dtype}[M, N]",
        "epilogue": "%added = add(%gemm, cast(R[i0, i1]) : fp32)",
        "value": "added",
    },
}


@dataclass(frozen=True, slots=True)
class Tuple:
    """One random contraction. `sizes` are M, N and K."""

    layout: str
    dtype: str
    epilogue: str
    arch: str
    sizes: tuple[int, int, int]

    @property
    def names(self) -> dict[str, int]:
        """The symbols' values."""
        return dict(zip("MNK", self.sizes))

    def module(self) -> region.Module:
        """The region, planned for sizes near the tuple's: of the same alignment, so that copies are as wide as they can
        be."""
        aligned = 8 if all(s % 8 == 0 for s in self.sizes) else 2 if all(s % 2 == 0 for s in self.sizes) else 1
        return _module(
            self.layout, self.dtype, self.epilogue, 512 // aligned * aligned - (0 if aligned == 8 else aligned)
        )

    def text(self) -> str:
        """The CUDA."""
        return _text(self.module(), self.arch, "tf32" if self.dtype == "tf32" else "")

    def arrays(self, seed: int) -> dict[str, np.ndarray]:
        """Inputs whose products and sums are exact."""
        draw = np.random.default_rng(seed)
        shapes = {
            t.name: ([d.evaluate(self.names) for d in t.type.shape], DTYPES[t.type.dtype.name])
            for t in self.module().model.inputs
        }
        return {
            name: convert(draw.integers(-3, 4, shape).astype(np.float32), dtype)
            for name, (shape, dtype) in shapes.items()
        }


@functools.cache
def _module(layout: str, dtype: str, epilogue: str, size: int) -> region.Module:
    first, *second = ("fp32" if word == "tf32" else word for word in dtype.split())
    kind = {key: value.format(dtype=first) if key == "extra" else value for key, value in EPILOGUES[epilogue].items()}
    module = product(layout, first, **{"out": first, **kind}, sizes=", ".join(f"{s}={size}" for s in "MNK"))
    return mixed(module, *second) if second else module


def mixed(module: region.Module, second: str) -> region.Module:
    """The product with a right operand of another kind of byte: both are widened to what holds them exactly."""
    text = re.sub(r"(in  B +: )\w+", rf"\1{second}", region.show(module))
    return region.parse(re.sub(r"mul\((A\[[^]]*\]), (B\[[^]]*\])\)", r"mul(cast(\1) : fp16, cast(\2) : fp16)", text))


@functools.lru_cache(maxsize=512)
def _text(module: region.Module, arch: str, math: str) -> str:
    return manifest.show(to_cu.lower(to_gpu.lower(to_plan.lower(module, arch=arch, device="h100", fp32=math))))


def tuples(
    count: int, most: int, seed: int, archs: tuple[str, ...] = ("sm80", "sm90"), dtypes: tuple[str, ...] = DTYPES_DRAWN
) -> Iterator[Tuple]:
    """`count` of them, sizes 1..most, a third of them multiples of 16, a third of 2; bytes half of the time along the
    sum, where nothing is turned."""
    draw = np.random.default_rng(seed)
    for number in range(count):
        step = (16, 2, 1)[number % 3]
        sizes = tuple(step * int(draw.integers(1, most // step + 1)) for _ in "MNK")
        layout, dtype = str(draw.choice(LAYOUTS)), str(draw.choice(dtypes))
        layout = "NT" if dtype.startswith("fp8") and draw.random() < 0.5 else layout
        if dtype == "fp32":  # a sum that is long enough for three products
            sizes = (*sizes[:2], sizes[2] + 128)
        yield Tuple(layout, dtype, str(draw.choice(list(EPILOGUES))), str(draw.choice(archs)), sizes)
