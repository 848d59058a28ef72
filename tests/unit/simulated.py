"""One kernel on a device, the simulated one or a GPU: arrays in by name, arrays out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinyir.kit.diag import Diag, Refused
from tinyir.runtime.device import Box, Scalar, Walk
from tinyir.sim.launch import SimDevice
from tinyir.target.intrinsics import intrinsics_of, show_intrinsics

DTYPES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "uint16": "fp16"}
NAN = np.uint32(0x7FFFFFFF)  # the one that a GPU's units give, as bits of fp32


def text_of(code: str) -> str:
    """The code behind the device functions that it calls."""
    return show_intrinsics(intrinsics_of(code)) + "\n\n" + code + "\n"


def simulate(*args: Any, seed: int = 0, mode: str = "traced", limit: float = 20.0, **how: Any) -> dict[str, np.ndarray]:
    """`launched` on the simulated device."""
    return launched(SimDevice(seed, limit, mode), *args, **how)


def launched(
    device: Any,
    code: str,
    inputs: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray],
    maps: Mapping[str, tuple] | None = None,
    scalars: Sequence[Scalar] = (),
    grid: tuple[int, ...] = (1,),
    block: tuple[int, ...] = (128,),
    shared: int = 0,
    kernel: str = "k",
    hidden: tuple[str, ...] = (),
    cleared: tuple[str, ...] = (),
) -> dict[str, np.ndarray]:
    """What the kernel leaves in `outputs`, whose arrays say shape and dtype. Its parameters are the maps (name ->
    tensor, box, swizzle, then tf32 where it rounds and a Walk where it is of windows), the inputs, the outputs and the
    scalars, in that order, without the tensors that are `hidden` behind their maps. Outputs that are `cleared` are zero
    at first. The device is given back."""
    try:
        loaded = device.load(text_of(code), {kernel: shared})
        tensors = {**inputs, **outputs}
        buffers = {name: device.allocate(name, a.size, a.itemsize) for name, a in tensors.items()}
        for name, array in inputs.items():
            device.upload(buffers[name], np.ascontiguousarray(array))
        for name in cleared:
            device.upload(buffers[name], np.zeros_like(outputs[name]), is_constant=False)
        boxes = [
            Box(
                buffers[t],
                "".join(m for m in more if isinstance(m, str)) or DTYPES[tensors[t].dtype.name],
                tensors[t].shape,
                box,
                swizzle,
                next((m for m in more if isinstance(m, Walk)), None),
            )
            for t, box, swizzle, *more in (maps or {}).values()
        ]
        tensors_given = [b for name, b in buffers.items() if name not in hidden]
        device.launch(loaded, kernel, grid, block, shared, [*boxes, *tensors_given, *scalars])
        found = {name: np.empty(a.shape, a.dtype) for name, a in outputs.items()}
        for name, array in found.items():
            device.download(buffers[name], array)
        return found
    finally:
        device.release()


@dataclass(frozen=True, slots=True)
class Trial:
    """A kernel, its inputs and what it should leave, by name; the rest of what `launched` takes. What is approximate
    may be `ulps` away, and its NaN is any."""

    code: str
    inputs: Mapping[str, np.ndarray]
    wanted: Mapping[str, np.ndarray]
    how: Mapping[str, Any] = field(default_factory=dict)
    ulps: int = 0

    def on(self, device: Any) -> dict[str, np.ndarray]:
        """What the kernel leaves on this device, which is given back."""
        return launched(device, self.code, self.inputs, self.wanted, **self.how)

    def differing(self, one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> list[str]:
        """The outputs that are not the same in both, each with its first element that differs."""
        found = []
        for name in self.wanted:
            x, y = one[name].reshape(-1), other[name].reshape(-1)
            is_same = _words(x) == _words(y)
            if self.ulps:
                is_same |= (np.abs(_words(x).astype(np.int64) - _words(y).astype(np.int64)) <= self.ulps) | (
                    np.isnan(x) & np.isnan(y)
                )
            places = np.flatnonzero(~is_same)
            found += [
                f"{name}[{at}]: {x[at]} and {y[at]}, {_words(x)[at]:#x} and {_words(y)[at]:#x}; {places.size} of "
                f"{x.size} differ"
                for at in places[:1]
            ]
        return found


def _words(array: np.ndarray) -> np.ndarray:
    """The elements' bits as numbers."""
    return array.view(f"u{array.itemsize}")


def with_one_nan(numbers: np.ndarray) -> np.ndarray:
    """The fp32 numbers with NAN for each NaN."""
    return np.where(np.isnan(numbers), NAN, numbers.view(np.uint32)).view(np.float32)


def fault_of(*args: Any, **how: Any) -> Diag:
    """The one diagnostic that the kernel stops with."""
    try:
        simulate(*args, **how)
    except Refused as fault:
        assert len(fault.diags) == 1
        return fault.diags[0]
    raise AssertionError("the kernel ran to its end")


def swizzled(offset: Any, span: int) -> Any:
    """Where the swizzle of `span` bytes puts a byte of shared memory (or each of an array of them): 16-byte pieces of
    128-byte lines are exchanged by the line's number."""
    pieces = {128: 8, 64: 4, 32: 2, 0: 1}[span]
    line, piece = offset // 128, offset // 16
    return (piece ^ (line % pieces if span != 0 else 0)) * 16 + offset % 16
