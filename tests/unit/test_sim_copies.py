"""The twins of the copy engine and of cp.async against NumPy, byte by byte."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tinyir.runtime.device import Scalar
from tinyir.sim.host import COMPILERS

from .simulated import fault_of, simulate, swizzled

pytestmark = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")

AXES = "xyzuv"
# (shape, box, corner), outermost first: inside, over each edge, wholly outside
BOXES = [
    ((40,), (16,), (32,)),
    ((40,), (16,), (-8,)),
    ((9, 64), (8, 64), (3, 0)),
    ((20, 72), (4, 64), (-2, 16)),
    ((5, 6, 32), (2, 3, 16), (4, -1, 24)),
    ((3, 4, 5, 16), (2, 1, 3, 16), (2, 1, 3, 0)),
    ((2, 3, 2, 4, 16), (1, 2, 2, 2, 8), (1, 2, 0, -1, 8)),
    ((4, 64), (4, 64), (4, 0)),
]


def load_kernel(rank: int) -> str:
    names = AXES[:rank]
    at = ", ".join(names)
    return f"""extern "C" __global__ void k(const __grid_constant__ tensor_map map, const fp16 *T, unsigned short *raw, int bytes, {", ".join(f"int {n}" for n in names)}) {{
  extern __shared__ __align__(1024) unsigned char smem[];
  __shared__ unsigned long long full;
  if (threadIdx.x == 0) {{ mbarrier_init(&full, 1); fence_mbarrier_init(); }}
  __syncthreads();
  if (threadIdx.x == 0) {{ mbarrier_expect(&full, bytes); tma_load_{rank}d(smem, &map, &full, {at}); }}
  mbarrier_wait(&full, 0);
  for (int i = threadIdx.x; i < bytes / 2; i += 32) raw[i] = ((unsigned short *)smem)[i];
}}"""


def store_kernel(rank: int) -> str:
    names = AXES[:rank]
    at = ", ".join(names)
    return f"""extern "C" __global__ void k(const __grid_constant__ tensor_map map, const unsigned short *raw, fp16 *T, int bytes, {", ".join(f"int {n}" for n in names)}) {{
  extern __shared__ __align__(1024) unsigned char smem[];
  for (int i = threadIdx.x; i < bytes / 2; i += 32) ((unsigned short *)smem)[i] = raw[i];
  fence_async_proxy();
  __syncthreads();
  if (threadIdx.x == 0) {{ tma_store_{rank}d(&map, {at}, smem); tma_store_commit(); tma_store_wait<0>(); }}
}}"""


def numbers(shape: tuple[int, ...]) -> np.ndarray:
    return (np.arange(np.prod(shape)) + 1).astype(np.uint16).reshape(shape)


def box_of(tensor: np.ndarray, box: tuple[int, ...], corner: tuple[int, ...]) -> np.ndarray:
    """The box with zeros outside the tensor."""
    found = np.zeros(box, tensor.dtype)
    for place in np.ndindex(*box):
        at = tuple(p + c for p, c in zip(place, corner))
        if all(0 <= i < n for i, n in zip(at, tensor.shape)):
            found[place] = tensor[at]
    return found


def laid(box: np.ndarray, span: int) -> np.ndarray:
    """The box as it lies in shared memory."""
    flat, found = box.reshape(-1), np.zeros(box.size, box.dtype)
    for i, value in enumerate(flat):
        found[swizzled(2 * i, span) // 2] = value
    return found


def span_for(box: tuple[int, ...]) -> int:
    return {128: 128, 64: 64, 32: 32}.get(2 * box[-1], 0)


@pytest.mark.parametrize(("shape", "box", "corner"), BOXES)
@pytest.mark.parametrize("is_swizzled", [False, True])
def test_a_tensor_load_brings_the_box_with_zeros_outside(shape: tuple[int, ...], box: tuple[int, ...], corner: tuple[int, ...], is_swizzled: bool) -> None:
    tensor, span = numbers(shape), span_for(box) if is_swizzled else 0
    size = 2 * int(np.prod(box))
    places = [Scalar(c, 4) for c in (size, *corner[::-1])]
    out = simulate(load_kernel(len(shape)), {"T": tensor}, {"raw": np.empty(size // 2, np.uint16)}, {"m": ("T", box, span)}, places, block=(32,), shared=size)
    assert out["raw"].tolist() == laid(box_of(tensor, box, corner), span).tolist()


@pytest.mark.parametrize(("shape", "box", "corner"), [b for b in BOXES if min(b[2]) >= 0])
@pytest.mark.parametrize("is_swizzled", [False, True])
def test_a_tensor_store_writes_the_box_and_nothing_outside(shape: tuple[int, ...], box: tuple[int, ...], corner: tuple[int, ...], is_swizzled: bool) -> None:
    span, moved = span_for(box) if is_swizzled else 0, numbers(box)
    size = moved.nbytes
    places = [Scalar(c, 4) for c in (size, *corner[::-1])]
    inputs = {"raw": laid(moved, span)}
    out = simulate(store_kernel(len(shape)), inputs, {"T": np.empty(shape, np.uint16)}, {"m": ("T", box, span)}, places, block=(32,), shared=size)["T"]
    wanted = np.full(shape, 0xFFFF, np.uint16)
    for place in np.ndindex(*box):
        at = tuple(p + c for p, c in zip(place, corner))
        if all(i < n for i, n in zip(at, shape)):
            wanted[at] = moved[place]
    assert np.array_equal(out, wanted)


MULTICAST = """extern "C" __global__ void __cluster_dims__(2, 1, 1) k(const __grid_constant__ tensor_map map, const fp16 *T, unsigned short *raw) {
  __shared__ __align__(1024) unsigned short tile[2][4][64];
  __shared__ unsigned long long full;
  const int rank = (int)cluster_rank();
  if (threadIdx.x == 0) { mbarrier_init(&full, 1); fence_mbarrier_init(); }
  cluster_barrier();
  if (threadIdx.x == 0) {
    mbarrier_expect(&full, 1024);
    tma_multicast_2d(&tile[rank][0][0], &map, &full, 0, 4 * rank, 3);
  }
  mbarrier_wait(&full, 0);
  for (int i = threadIdx.x; i < 512; i += 32) raw[512 * rank + i] = (&tile[0][0][0])[i];
  cluster_barrier();
}"""


@pytest.mark.parametrize("seed", range(4))
def test_a_multicast_lands_at_the_same_place_in_every_block(seed: int) -> None:
    tensor = numbers((8, 64))
    out = simulate(MULTICAST, {"T": tensor}, {"raw": np.empty((2, 8, 64), np.uint16)}, {"m": ("T", (4, 64), 0)}, grid=(2,), block=(32,), seed=seed)["raw"]
    assert np.array_equal(out, np.stack([tensor, tensor]))


CP_ASYNC = """extern "C" __global__ void k(const unsigned char *A, unsigned char *B) {
  __shared__ __align__(16) unsigned char tile[2][128][16];
  const int t = threadIdx.x;
  cp_async_16(tile[0][t], A + 16 * t, t % 17);
  cp_async_commit();
  cp_async_8(tile[1][t], A + 16 * t, 8);
  cp_async_4(tile[1][t] + 8, A + 16 * t + 4, t % 5);
  cp_async_4(tile[1][t] + 12, A, 0);
  cp_async_commit();
  cp_async_wait<1>();
  __syncthreads();
  for (int i = 0; i < 16; ++i) B[16 * t + i] = tile[0][127 - t][i];
  cp_async_wait<0>();
  __syncthreads();
  for (int i = 0; i < 16; ++i) B[2048 + 16 * t + i] = tile[1][127 - t][i];
}"""


@pytest.mark.parametrize("seed", [0, 5])
def test_cp_async_copies_its_bytes_and_fills_up_with_zeros(seed: int) -> None:
    a = (np.arange(2048) % 251 + 1).astype(np.uint8)
    out = simulate(CP_ASYNC, {"A": a}, {"B": np.empty(4096, np.uint8)}, seed=seed)["B"].reshape(2, 128, 16)[:, ::-1]
    rows = a.reshape(128, 16)
    for t in range(128):
        assert out[0, t].tolist() == [*rows[t, : t % 17], *[0] * (16 - t % 17)]
        assert out[1, t].tolist() == [*rows[t, :8], *rows[t, 4 : 4 + t % 5], *[0] * (8 - t % 5)]


@pytest.mark.parametrize(
    ("good", "bad", "code"),
    [
        ("  cp_async_wait<1>();\n", "", "E1751"),
        ("cp_async_wait<1>();\n  __syncthreads();", "cp_async_wait<1>();", "E1750"),
        ("cp_async_wait<0>", "cp_async_wait<1>", "E1751"),
        ("cp_async_16(tile[0][t], A + 16 * t, t % 17)", "cp_async_16(tile[0][t] + 4, A + 16 * t, t % 17)", "E1761"),
        ("cp_async_8(tile[1][t], A + 16 * t, 8)", "cp_async_8(tile[1][t], A + 16 * t + 2048, 8)", "E1722"),
        ("cp_async_4(tile[1][t] + 8,", "cp_async_4(tile[1][t] + 4,", "E1751"),
    ],
)
def test_faults_of_cp_async_are_caught(good: str, bad: str, code: str) -> None:
    assert CP_ASYNC.count(good) == 1
    assert fault_of(CP_ASYNC.replace(good, bad), {"A": np.ones(2048, np.uint8)}, {"B": np.empty(4096, np.uint8)}).code == code


@pytest.mark.parametrize(
    ("good", "bad", "code"),
    [
        ("mbarrier_wait(&full, 0);", "", "E1750"),
        ("mbarrier_wait(&full, 0);", "mbarrier_wait(&full, 1);", "E1750"),
        ("mbarrier_wait(&full, 0);", "__syncthreads();", "E1751"),
        ("mbarrier_expect(&full, bytes)", "mbarrier_expect(&full, bytes - 2)", "E1724"),
        ("mbarrier_expect(&full, bytes)", "mbarrier_arrive(&full)", "E1751"),
        ("fence_mbarrier_init();", "", "E1760"),
        ("  __syncthreads();\n", "", "E1753"),
        ("smem, &map", "smem + 64, &map", "E1761"),
        ("&full, x, y);", "&full, x + 4, y);", "E1761"),
        ("&full, x, y);", "&full, x, y); mbarrier_arrive(&full);", "E1757"),
    ],
)
def test_faults_of_a_tensor_load_are_caught(good: str, bad: str, code: str) -> None:
    kernel = load_kernel(2)
    assert kernel.count(good) == 1
    places = [Scalar(c, 4) for c in (512, 0, 0)]
    how = {"maps": {"m": ("T", (4, 64), 128)}, "scalars": places, "block": (32,), "shared": 1024}
    assert fault_of(kernel.replace(good, bad), {"T": numbers((8, 64))}, {"raw": np.empty(256, np.uint16)}, **how).code == code


@pytest.mark.parametrize(
    ("good", "bad", "code"),
    [
        ("  fence_async_proxy();\n", "", "E1754"),
        ("  __syncthreads();\n", "", "E1750"),
        ("tma_store_wait<0>();", "", "E1763"),
        ("tma_store_wait<0>(); }", "((unsigned short *)smem)[0] = 0; }", "E1752"),
        ("tma_store_commit();", "", "E1763"),
    ],
)
def test_faults_of_a_tensor_store_are_caught(good: str, bad: str, code: str) -> None:
    kernel = store_kernel(2)
    assert kernel.count(good) == 1
    how = {"maps": {"m": ("T", (4, 64), 0)}, "scalars": [Scalar(c, 4) for c in (512, 0, 0)], "block": (32,), "shared": 1024}
    assert fault_of(kernel.replace(good, bad), {"raw": numbers((256,))}, {"T": np.empty((8, 64), np.uint16)}, **how).code == code


@pytest.mark.parametrize(
    ("good", "bad", "code"),
    [
        ("  mbarrier_wait(&full, 0);\n", "", "E1750"),
        ("mbarrier_expect(&full, 1024);", "mbarrier_expect(&full, 512);", "E1751"),
        ("fence_mbarrier_init(); }\n  cluster_barrier();", "fence_mbarrier_init(); }\n  __syncthreads();", "E1753"),
        ("0, 4 * rank, 3)", "0, 4 * rank, 7)", "E1761"),
        ("  cluster_barrier();\n}", "}", None),
        ("mbarrier_wait(&full, 0);\n  for", "if (rank) return; mbarrier_wait(&full, 0);\n  for", "E1763"),
    ],
)
def test_faults_of_a_multicast_are_caught(good: str, bad: str, code: str | None) -> None:
    assert MULTICAST.count(good) == 1
    kernel, how = MULTICAST.replace(good, bad), {"maps": {"m": ("T", (4, 64), 0)}, "grid": (2,), "block": (32,)}
    arrays = {"T": numbers((8, 64))}, {"raw": np.empty((2, 8, 64), np.uint16)}
    if code is None:  # every block has waited for all that lands in it: leaving is allowed
        assert simulate(kernel, *arrays, **how)
    else:
        assert fault_of(kernel, *arrays, **how).code == code
