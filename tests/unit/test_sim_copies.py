"""The twins of the copy engine and of cp.async against NumPy, byte by byte."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest

from tinyir.runtime.device import Scalar
from tinyir.sim.host import COMPILERS
from tinyir.sim.launch import SimDevice

from .simulated import Trial, fault_of, simulate, swizzled

pytestmark = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")

AXES = "xyzuv"
# (shape, box, corner), outermost first: inside, over each edge, wholly outside
BOXES = [
    ((40,), (16,), (32,)),
    ((40,), (16,), (-8,)),
    ((9, 64), (8, 64), (3, 0)),
    ((20, 72), (4, 64), (-2, 16)),
    ((5, 6, 32), (2, 3, 16), (4, -1, 24)),
    ((5, 6, 32), (2, 3, 16), (4, 2, 24)),
    ((3, 4, 5, 16), (2, 1, 3, 16), (2, 1, 3, 0)),
    ((2, 3, 2, 4, 16), (1, 2, 2, 2, 8), (1, 2, 0, -1, 8)),
    ((2, 3, 2, 4, 16), (1, 2, 2, 2, 8), (1, 2, 0, 3, 8)),
    ((4, 64), (4, 64), (4, 0)),
]
STORED_BOXES = [b for b in BOXES if min(b[2]) >= 0]


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
}}"""  # noqa: E501


def store_kernel(rank: int) -> str:
    names = AXES[:rank]
    at = ", ".join(names)
    return f"""extern "C" __global__ void k(const __grid_constant__ tensor_map map, const unsigned short *raw, fp16 *T, int bytes, {", ".join(f"int {n}" for n in names)}) {{
  extern __shared__ __align__(1024) unsigned char smem[];
  for (int i = threadIdx.x; i < bytes / 2; i += 32) ((unsigned short *)smem)[i] = raw[i];
  fence_async_proxy();
  __syncthreads();
  if (threadIdx.x == 0) {{ tma_store_{rank}d(&map, {at}, smem); tma_store_commit(); tma_store_wait<0>(); }}
}}"""  # noqa: E501


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
    """The box as it is in shared memory."""
    found = np.zeros(box.size, box.dtype)
    found[swizzled(2 * np.arange(box.size), span) // 2] = box.reshape(-1)
    return found


def span_for(box: tuple[int, ...]) -> int:
    return {128: 128, 64: 64, 32: 32}.get(2 * box[-1], 0)


def tensor_load(shape: tuple[int, ...], box: tuple[int, ...], corner: tuple[int, ...], is_swizzled: bool) -> Trial:
    """The box with zeros outside the tensor, as it is in shared memory."""
    tensor, span = numbers(shape), span_for(box) if is_swizzled else 0
    wanted = laid(box_of(tensor, box, corner), span)
    how = {
        "maps": {"m": ("T", box, span)},
        "scalars": [Scalar(c, 4) for c in (wanted.nbytes, *corner[::-1])],
        "block": (32,),
        "shared": wanted.nbytes,
    }
    return Trial(load_kernel(len(shape)), {"T": tensor}, {"raw": wanted}, how)


def load_through_a_fetched_map() -> Trial:
    """A box inside the tensor; the map was fetched before."""
    trial = tensor_load(*BOXES[2], True)
    return replace(trial, code=trial.code.replace("{ mbarrier_init", "{ prefetch_map(&map); mbarrier_init"))


def streamed_load(shape: tuple[int, ...], box: tuple[int, ...], corner: tuple[int, ...]) -> Trial:
    """The same where L2 gives up first what is loaded."""
    trial = tensor_load(shape, box, corner, True)
    return replace(trial, code=trial.code.replace("tma_load_", "tma_streamed_"))


def tensor_store(shape: tuple[int, ...], box: tuple[int, ...], corner: tuple[int, ...], is_swizzled: bool) -> Trial:
    """What of the box is inside the tensor is there, and nothing else."""
    moved, span = numbers(box), span_for(box) if is_swizzled else 0
    wanted = np.full(shape, 0xFFFF, np.uint16)
    for place in np.ndindex(*box):
        at = tuple(p + c for p, c in zip(place, corner))
        if all(i < n for i, n in zip(at, shape)):
            wanted[at] = moved[place]
    how = {
        "maps": {"m": ("T", box, span)},
        "scalars": [Scalar(c, 4) for c in (moved.nbytes, *corner[::-1])],
        "block": (32,),
        "shared": moved.nbytes,
    }
    return Trial(store_kernel(len(shape)), {"raw": laid(moved, span)}, {"T": wanted}, how)


def store_that_is_read() -> Trial:
    """The thread that waits until a store is written reads what it wrote."""
    trial = tensor_store((8, 64), (4, 64), (3, 0), False)
    code = trial.code.replace("fp16 *T, int bytes", "fp16 *T, unsigned short *seen, int bytes")
    code = code.replace(
        "tma_store_wait<0>();",
        "tma_store_wait_written<0>(); for (int i = 0; i < 256; ++i) seen[i] = T[64 * y + i].bits;",
    )
    return replace(trial, code=code, wanted={**trial.wanted, "seen": numbers((256,))})


# (shape, box, corner of the first block's box), outermost first: the box of the second follows along the outermost axis
MULTICASTS = [
    ((160,), (64,), (8,)),
    ((8, 64), (4, 64), (0, 0)),
    ((6, 5, 32), (2, 4, 16), (1, 1, 8)),
    ((5, 3, 4, 16), (2, 2, 2, 16), (1, 1, 1, 0)),
    ((5, 2, 3, 4, 16), (2, 1, 2, 2, 16), (1, 1, 0, 1, 0)),
]


def multicast(shape: tuple[int, ...], box: tuple[int, ...], corner: tuple[int, ...]) -> Trial:
    """Each of two blocks loads a box for both."""
    rank, size, tensor = len(shape), int(np.prod(box)), numbers(shape)
    at = ", ".join([*(str(c) for c in corner[:0:-1]), f"{corner[0]} + {box[0]} * rank"])
    code = f"""extern "C" __global__ void __cluster_dims__(2, 1, 1) k(const __grid_constant__ tensor_map map, const fp16 *T, unsigned short *raw) {{
  __shared__ __align__(1024) unsigned short tile[2][{size}];
  __shared__ unsigned long long full;
  const int rank = (int)cluster_rank();
  if (threadIdx.x == 0) {{ mbarrier_init(&full, 1); fence_mbarrier_init(); }}
  cluster_barrier();
  if (threadIdx.x == 0) {{
    mbarrier_expect(&full, {4 * size});
    tma_multicast_{rank}d(tile[rank], &map, &full, {at}, 3);
  }}
  mbarrier_wait(&full, 0);
  for (int i = threadIdx.x; i < {2 * size}; i += 32) raw[{2 * size} * rank + i] = (&tile[0][0])[i];
  cluster_barrier();
}}"""  # noqa: E501
    both = np.stack([box_of(tensor, box, (corner[0] + box[0] * block, *corner[1:])) for block in range(2)])
    return Trial(
        code,
        {"T": tensor},
        {"raw": np.stack([both, both])},
        {"maps": {"m": ("T", box, 0)}, "grid": (2,), "block": (32,)},
    )


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_multicast_lands_at_the_same_place_in_every_block(seed: int) -> None:
    trial = multicast(*MULTICASTS[1])
    assert trial.differing(trial.on(SimDevice(seed)), trial.wanted) == []


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


def cp_async() -> Trial:
    """Of this number of bytes, the rest filled up with zeros."""
    rows = (np.arange(2048) % 251 + 1).astype(np.uint8).reshape(128, 16)
    place, t = np.arange(16), np.arange(128)[:, None]
    parts = np.concatenate(
        [rows[:, :8], np.where(place[:4] < t % 5, rows[:, 4:8], 0), np.zeros((128, 4), np.uint8)], axis=1
    )
    wanted = np.stack([np.where(place < t % 17, rows, 0), parts])[:, ::-1].astype(np.uint8)
    return Trial(CP_ASYNC, {"A": rows}, {"B": wanted})


def test_cp_async_is_right_in_another_order() -> None:
    trial = cp_async()
    assert trial.differing(trial.on(SimDevice(seed=5)), trial.wanted) == []


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
    assert (
        fault_of(CP_ASYNC.replace(good, bad), {"A": np.ones(2048, np.uint8)}, {"B": np.empty(4096, np.uint8)}).code
        == code
    )


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
    assert (
        fault_of(kernel.replace(good, bad), {"T": numbers((8, 64))}, {"raw": np.empty(256, np.uint16)}, **how).code
        == code
    )


TWO_LOADS = """extern "C" __global__ void k(const __grid_constant__ tensor_map map, const fp16 *T,
                             unsigned short *raw) {
  __shared__ __align__(1024) unsigned char smem[2][512];
  __shared__ unsigned long long full[2];
  if (threadIdx.x == 0) { mbarrier_init(&full[0], 1); mbarrier_init(&full[1], 1); fence_mbarrier_init(); }
  __syncthreads();
  if (threadIdx.x == 0)
    for (int n = 0; n < 2; ++n) { mbarrier_expect(&full[n], 512); tma_load_2d(smem[n], &map, &full[n], 0, 4 * n); }
  mbarrier_wait(&full[0], 0);
  mbarrier_wait(&full[1], 0);
  for (int i = threadIdx.x; i < 256; i += 32) raw[i] = ((unsigned short *)smem[i % 2])[i / 2];
}"""


@pytest.mark.parametrize("waited", [0, 1])
def test_a_load_that_nobody_waits_for_lands_after_those_that_are_waited_for(waited: int) -> None:
    """Also behind one that was issued later."""
    dropped = TWO_LOADS.replace(f"  mbarrier_wait(&full[{1 - waited}], 0);\n", "")
    how = {"maps": {"m": ("T", (4, 64), 0)}, "block": (32,)}
    arrays = {"T": numbers((8, 64))}, {"raw": np.empty(256, np.uint16)}
    simulate(TWO_LOADS, *arrays, **how)
    assert fault_of(dropped, *arrays, **how).code == "E1751"


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
    how = {
        "maps": {"m": ("T", (4, 64), 0)},
        "scalars": [Scalar(c, 4) for c in (512, 0, 0)],
        "block": (32,),
        "shared": 1024,
    }
    assert (
        fault_of(kernel.replace(good, bad), {"raw": numbers((256,))}, {"T": np.empty((8, 64), np.uint16)}, **how).code
        == code
    )


@pytest.mark.parametrize(
    ("good", "bad", "code"),
    [
        ("  mbarrier_wait(&full, 0);\n", "", "E1750"),
        ("mbarrier_expect(&full, 1024);", "mbarrier_expect(&full, 512);", "E1751"),
        ("fence_mbarrier_init(); }\n  cluster_barrier();", "fence_mbarrier_init(); }\n  __syncthreads();", "E1753"),
        ("4 * rank, 3)", "4 * rank, 7)", "E1761"),
        ("  cluster_barrier();\n}", "}", None),
        ("mbarrier_wait(&full, 0);\n  for", "if (rank) return; mbarrier_wait(&full, 0);\n  for", "E1763"),
    ],
)
def test_faults_of_a_multicast_are_caught(good: str, bad: str, code: str | None) -> None:
    trial = multicast(*MULTICASTS[1])
    assert trial.code.count(good) == 1
    trial = replace(trial, code=trial.code.replace(good, bad))
    if code is None:  # every block has waited for all that lands in it: leaving is allowed
        assert trial.differing(trial.on(SimDevice()), trial.wanted) == []
    else:
        assert fault_of(trial.code, trial.inputs, trial.wanted, **trial.how).code == code
