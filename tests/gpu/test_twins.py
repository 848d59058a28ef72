"""Each wrapper on a GPU of compute capability 9.0 against its twin: the same kernels, the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit import test_fp8 as fp8
from tests.unit import test_sim_copies as copies
from tests.unit import test_sim_gemm as gemm
from tests.unit import test_sim_matrix as matrix
from tests.unit import test_tf32 as tf32
from tests.unit import test_tf32_wgmma as tf32_wgmma
from tests.unit.simulated import launched, simulate
from tinyir.runtime.cuda import CudaDevice, find_fault
from tinyir.runtime.device import Scalar


def _why_not() -> str | None:
    fault = find_fault()
    if fault is not None:
        return fault
    device = CudaDevice()
    try:
        return None if device.capability == (9, 0) and device.takes_maps() else f"{device.description} has no such units"
    finally:
        device.release()


REASON = _why_not()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(REASON is not None, reason=f"no GPU: {REASON}")]


def agree(code: str, inputs: dict, outputs: dict, **how) -> None:
    """The same kernel on both."""
    given = launched(CudaDevice(), code, inputs, outputs, **how)
    wanted = simulate(code, inputs, outputs, **how)
    for name in outputs:
        assert given[name].tobytes() == wanted[name].tobytes()


@pytest.mark.parametrize(("shape", "box", "corner"), copies.BOXES)
@pytest.mark.parametrize("is_swizzled", [False, True])
def test_tensor_loads(shape: tuple[int, ...], box: tuple[int, ...], corner: tuple[int, ...], is_swizzled: bool) -> None:
    span, size = copies.span_for(box) if is_swizzled else 0, 2 * int(np.prod(box))
    how = {"maps": {"m": ("T", box, span)}, "scalars": [Scalar(c, 4) for c in (size, *corner[::-1])], "block": (32,), "shared": size}
    agree(copies.load_kernel(len(shape)), {"T": copies.numbers(shape)}, {"raw": np.empty(size // 2, np.uint16)}, **how)


@pytest.mark.parametrize(("shape", "box", "corner"), [b for b in copies.BOXES if min(b[2]) >= 0])
@pytest.mark.parametrize("is_swizzled", [False, True])
def test_tensor_stores(shape: tuple[int, ...], box: tuple[int, ...], corner: tuple[int, ...], is_swizzled: bool) -> None:
    moved, span = copies.numbers(box), copies.span_for(box) if is_swizzled else 0
    how = {"maps": {"m": ("T", box, span)}, "scalars": [Scalar(c, 4) for c in (moved.nbytes, *corner[::-1])], "block": (32,), "shared": moved.nbytes}
    agree(copies.store_kernel(len(shape)), {"raw": copies.laid(moved, span)}, {"T": np.empty(shape, np.uint16)}, **how)


def test_multicast_and_cp_async() -> None:
    how = {"maps": {"m": ("T", (4, 64), 0)}, "grid": (2,), "block": (32,)}
    agree(copies.MULTICAST, {"T": copies.numbers((8, 64))}, {"raw": np.empty((2, 8, 64), np.uint16)}, **how)
    agree(copies.CP_ASYNC, {"A": (np.arange(2048) % 251 + 1).astype(np.uint8)}, {"B": np.empty(4096, np.uint8)})


@pytest.mark.parametrize(("count", "transposed", "is_store"), matrix.TILES)
def test_tiles(count: int, transposed: str, is_store: bool) -> None:
    code, arrays, _ = matrix.tiles_of(count, transposed, is_store)
    agree(code, *arrays, block=(32,))


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_products_of_a_warp(dtype: str) -> None:
    arrays = {"A": matrix.small((16, 16), dtype, 1), "B": matrix.small((16, 8), dtype, 2)}
    agree(matrix.MMA.replace("DTYPE", dtype), arrays, {"C": np.empty((16, 8), np.float32)}, block=(32,))


def test_products_of_tf32() -> None:
    arrays, wanted = tf32.of_mma()
    agree(tf32.MMA, arrays, {"C": np.empty_like(wanted)}, block=(32,))
    agree(tf32.ROUNDED, tf32.to_round(), {"Y": np.empty(64, np.uint32)}, block=(32,))


@pytest.mark.parametrize(("majors", "spans"), matrix.LAYOUTS)
def test_layouts_of_wgmma(majors: tuple[int, int], spans: tuple[int, int]) -> None:
    code, arrays, how, _ = matrix.product(64, "fp16", majors, spans, matrix.depth_of(majors, spans))
    agree(code, *arrays, **how)


@pytest.mark.parametrize(("n", "dtype"), matrix.WIDTHS)
def test_widths_of_wgmma(n: int, dtype: str) -> None:
    code, arrays, how, _ = matrix.product(n, dtype, (0, 1), (128, 128), 64)
    agree(code, *arrays, **how)


@pytest.mark.parametrize(("n", "dtype"), [(64, "fp8e4m3"), (128, "fp8e5m2"), (192, "fp8e4m3"), (256, "fp8e5m2")])
def test_products_of_bytes(n: int, dtype: str) -> None:
    code, arrays, how, _ = fp8.product_of_bytes(n, dtype)
    agree(code, *arrays, **how)


@pytest.mark.parametrize("kinds", [("fp8e4m3", "fp8e5m2"), ("fp8e5m2", "fp8e4m3")])
def test_products_of_bytes_of_two_kinds(kinds: tuple[str, str]) -> None:
    code, arrays, how, _ = fp8.product_of_bytes(128, *kinds)
    agree(code, *arrays, **how)


def test_wgmma_of_registers() -> None:
    arrays, how, _ = matrix.of_registers()
    agree(matrix.OF_REGISTERS, *arrays, **how)


@pytest.mark.parametrize("way", tf32_wgmma.WAYS)
def test_products_of_words(way: str) -> None:
    code, arrays, how, _ = tf32_wgmma.product_of_words(way, 128)
    agree(code, *arrays, **how)


def test_the_copy_engine_rounds() -> None:
    arrays, how = tf32_wgmma.rounded()
    agree(tf32_wgmma.ROUNDED, *arrays, **how)


@pytest.mark.parametrize(("sizes", "grid"), [((256, 64, 64), 2), ((1000, 136, 72), 6)])
def test_a_whole_kernel(sizes: tuple[int, int, int], grid: int) -> None:
    arrays, how, _ = gemm.arguments(*sizes)
    agree(gemm.CODE, *arrays, grid=(grid,), **how)
