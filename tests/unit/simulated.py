"""One kernel on the simulated device: arrays in by name, arrays out."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from tinyir.ir.intrinsics import intrinsics_of, show_intrinsics
from tinyir.kit.diag import Diag, Refused
from tinyir.runtime.device import Box, Scalar
from tinyir.sim.launch import SimDevice

DTYPES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "uint16": "fp16"}
MOST_SHARED = 227 * 1024


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
) -> dict[str, np.ndarray]:
    """What the kernel leaves in `outputs`, whose arrays say shape and dtype. Its parameters are the maps (name -> tensor, box, swizzle, and tf32 where it rounds), the
    inputs, the outputs and the scalars, in that order, without the tensors that are `hidden` behind their maps. The device is given back."""
    try:
        device.load(text_of(code), {kernel: shared})
        tensors = {**inputs, **outputs}
        buffers = {name: device.allocate(name, a.size, a.itemsize) for name, a in tensors.items()}
        for name, array in inputs.items():
            device.upload(buffers[name], np.ascontiguousarray(array))
        boxes = [Box(buffers[t], "".join(rounding) or DTYPES[tensors[t].dtype.name], tensors[t].shape, box, swizzle) for t, box, swizzle, *rounding in (maps or {}).values()]
        device.launch(kernel, grid, block, shared, [*boxes, *(b for name, b in buffers.items() if name not in hidden), *scalars])
        found = {name: np.empty_like(a) for name, a in outputs.items()}
        for name, array in found.items():
            device.download(buffers[name], array)
        return found
    finally:
        device.release()


def fault_of(*args: Any, **how: Any) -> Diag:
    """The one diagnostic that the kernel stops with."""
    try:
        simulate(*args, **how)
    except Refused as fault:
        assert len(fault.diags) == 1
        return fault.diags[0]
    raise AssertionError("the kernel ran to its end")


def swizzled(offset: int, span: int) -> int:
    """Where the swizzle of `span` bytes puts a byte of shared memory: 16-byte pieces of 128-byte lines are exchanged by the line's number."""
    pieces = {128: 8, 64: 4, 32: 2, 0: 1}[span]
    line, piece = offset // 128, offset // 16
    return (piece ^ (line % pieces if span != 0 else 0)) * 16 + offset % 16
