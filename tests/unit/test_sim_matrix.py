"""The twins of ldmatrix, stmatrix, mma and wgmma against NumPy: small integers, so that every sum is exact in any order."""

from __future__ import annotations

import shutil
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tinyir.runtime.device import Scalar
from tinyir.sim.host import COMPILERS

from .simulated import fault_of, simulate, swizzled

pytestmark = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")

NUMPY = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16}


def small(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(NUMPY[dtype])


# --- tiles of a warp


def tile_kernel(count: int, transposed: str, is_store: bool) -> str:
    words = [f"r[{i}]" for i in range(count)]
    if not is_store:
        move = f"ldmatrix_x{count}{transposed}({', '.join(words)}, tile[lane % {8 * count}]);\n  for (int i = 0; i < {count}; ++i) out[lane][i] = r[i];"
        copy = f"for (int i = lane; i < {64 * count}; i += 32) (&tile[0][0])[i] = in[i];"
        return f"""extern "C" __global__ void k(const unsigned short *in, unsigned int (*out)[{count}]) {{
  __shared__ __align__(16) unsigned short tile[{8 * count}][8];
  unsigned int r[{count}];
  const int lane = threadIdx.x;
  {copy}
  __syncthreads();
  {move}
}}"""
    return f"""extern "C" __global__ void k(const unsigned int (*in)[{count}], unsigned short *out) {{
  __shared__ __align__(16) unsigned short tile[{8 * count}][8];
  unsigned int r[{count}];
  const int lane = threadIdx.x;
  for (int i = 0; i < {count}; ++i) r[i] = in[lane][i];
  stmatrix_x{count}{transposed}(tile[lane % {8 * count}], {', '.join(words)});
  __syncthreads();
  for (int i = lane; i < {64 * count}; i += 32) out[i] = (&tile[0][0])[i];
}}"""


def fragments(tiles: np.ndarray, is_transposed: bool) -> np.ndarray:
    """[tiles, 8, 8] as each lane holds them: [lane, tile, 2]."""
    found = np.zeros((32, len(tiles), 2), np.uint16)
    for lane in range(32):
        for e in range(2):
            row, column = lane // 4, lane % 4 * 2 + e
            found[lane, :, e] = tiles[:, column, row] if is_transposed else tiles[:, row, column]
    return found


def tiles_of(count: int, transposed: str, is_store: bool) -> tuple[str, tuple[Any, ...], np.ndarray]:
    """The kernel, its arrays, and what `out` should be."""
    tiles = (np.arange(64 * count) + 1).astype(np.uint16).reshape(count, 8, 8)
    held = np.ascontiguousarray(fragments(tiles, bool(transposed))).view(np.uint32)[..., 0]
    source, wanted = (held, tiles.reshape(-1)) if is_store else (tiles.reshape(-1), held)
    return tile_kernel(count, transposed, is_store), ({"in": source}, {"out": np.empty_like(wanted)}), wanted


TILES = [(count, transposed, is_store) for count in (1, 2, 4) for transposed in ("", "_trans") for is_store in (False, True)]


@pytest.mark.parametrize(("count", "transposed", "is_store"), TILES)
def test_tiles_move_between_shared_memory_and_registers(count: int, transposed: str, is_store: bool) -> None:
    code, arrays, wanted = tiles_of(count, transposed, is_store)
    assert np.array_equal(simulate(code, *arrays, block=(32,))["out"], wanted)


MMA = """extern "C" __global__ void k(const DTYPE *A, const DTYPE *B, float *C) {
  __shared__ __align__(16) DTYPE a[16][16], b[16][8];
  unsigned int x[4], y[2];
  const int lane = threadIdx.x, g = lane / 4, q = lane % 4;
  for (int i = lane; i < 256; i += 32) (&a[0][0])[i] = A[i];
  for (int i = lane; i < 128; i += 32) (&b[0][0])[i] = B[i];
  __syncthreads();
  ldmatrix_x4(x[0], x[1], x[2], x[3], &a[lane % 16][8 * (lane / 16)]);
  ldmatrix_x2_trans(y[0], y[1], &b[lane % 16][0]);
  float d[4] = {1, 2, 3, 4};
  mma_m16n8k16_DTYPE(d, x, y[0], y[1]);
  for (int e = 0; e < 4; ++e) C[8 * (g + 8 * (e / 2)) + 2 * q + e % 2] = d[e];
}"""


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_mma_with_fragments_from_ldmatrix(dtype: str) -> None:
    a, b = small((16, 16), dtype, 1), small((16, 8), dtype, 2)
    out = simulate(MMA.replace("DTYPE", dtype), {"A": a, "B": b}, {"C": np.empty((16, 8), np.float32)}, block=(32,))["C"]
    start = np.array([[1, 2], [3, 4]], np.float32).repeat(8, axis=0)[:, None, :].repeat(4, axis=1).reshape(16, 8)
    assert np.array_equal(out, a.astype(np.float32) @ b.astype(np.float32) + start)


# --- products of a warpgroup: a kernel that takes shared memory as bytes, and descriptors, of addresses within `smem`, as numbers


def wgmma_kernel(n: int, dtype: str, a_major: int, b_major: int) -> str:
    return f"""extern "C" __global__ void k(const unsigned int *raw, const float *C, float *D, int words, unsigned long long a, unsigned long long b, int steps, unsigned long long a_step, unsigned long long b_step) {{
  extern __shared__ __align__(1024) unsigned char smem[];
  const int t = threadIdx.x;
  for (int i = t; i < words; i += 128) ((unsigned int *)smem)[i] = raw[i];
  fence_async_proxy();
  __syncthreads();
  float d[{n // 2}];
  #pragma unroll
  for (int i = 0; i < {n // 2}; ++i) d[i] = C[(16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2)) * {n} + 8 * (i / 4) + 2 * (t % 4) + i % 2];
  const unsigned long long base = shared_address(smem) >> 4;
  wgmma_fence();
  for (int s = 0; s < steps; ++s) wgmma_m64n{n}k16_{dtype}<{a_major}, {b_major}>(d, base + a + s * a_step, base + b + s * b_step, true);
  wgmma_commit();
  wgmma_wait<0>();
  #pragma unroll
  for (int i = 0; i < {n // 2}; ++i) D[(16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2)) * {n} + 8 * (i / 4) + 2 * (t % 4) + i % 2] = d[i];
}}"""


def operand(matrix: np.ndarray, major: int, span: int, start: int) -> tuple[dict[int, int], int, int]:
    """The bytes of a [rows, k] matrix in one of wgmma's layouts, 16-bit words by place; the descriptor, to which the kernel adds where shared
    memory begins; what 16 further along k adds to it.

    K-major: rows of `span` bytes (64 elements of k and more side by side), or cores of 8 rows by 16 bytes. MN-major: rows of `span` bytes
    along the matrix's rows, one for each k.
    """
    rows, depth = matrix.shape
    words: dict[int, int] = {}
    bits = matrix.view(np.uint16)
    width = span // 2
    for r in range(rows):
        for k in range(depth):
            if major == 0 and span:
                at = start + k // width * (rows * span) + r * span + k % width * 2
            elif major == 0:
                at = start + k // 8 * (rows * 16) + r * 16 + k % 8 * 2
            elif span:
                at = start + r // width * (depth * span) + k * span + r % width * 2
            else:
                at = start + r // 8 * (depth * 16) + k * 16 + r % 8 * 2
            words[swizzled(at, span)] = int(bits[r, k])
    leading, stride, step = {
        (0, True): (16, 8 * span, 32),
        (0, False): (rows * 16, 128, 2 * rows * 16),
        (1, True): (depth * span, 8 * span, 16 * span),
        (1, False): (128, depth * 16, 256),
    }[major, bool(span)]
    mode = {128: 1, 64: 2, 32: 3, 0: 0}[span]
    signed = mode - 4 if mode >= 2 else mode  # a scalar is a signed number
    return words, start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | signed << 62, step >> 4


def product(n: int, dtype: str, majors: tuple[int, int], spans: tuple[int, int], depth: int) -> tuple[str, tuple[Any, ...], dict[str, Any], np.ndarray]:
    """The kernel, the arrays and options that `launched` takes, and what D should be."""
    a, b, c = small((64, depth), dtype, 1), small((n, depth), dtype, 2), np.random.default_rng(3).integers(-9, 9, (64, n)).astype(np.float32)
    a_words, a_descriptor, a_step = operand(a, majors[0], spans[0], 0)
    b_start = (max(a_words) // 1024 + 1) * 1024
    b_words, b_descriptor, b_step = operand(b, majors[1], spans[1], b_start)
    raw = np.zeros((max(b_words) // 1024 + 1) * 512, np.uint16)
    for at, word in (a_words | b_words).items():
        raw[at // 2] = word
    numbers = [Scalar(raw.nbytes // 4, 4), Scalar(a_descriptor, 8), Scalar(b_descriptor, 8), Scalar(depth // 16, 4), Scalar(a_step, 8), Scalar(b_step, 8)]
    arrays = {"raw": raw, "C": c}, {"D": np.empty_like(c)}
    return wgmma_kernel(n, dtype, *majors), arrays, {"scalars": numbers, "shared": raw.nbytes}, a.astype(np.float32) @ b.astype(np.float32).T + c


LAYOUTS = [(majors, spans) for majors in ((0, 0), (0, 1), (1, 0), (1, 1)) for spans in ((128, 128), (64, 32), (0, 128), (32, 0), (0, 0), (128, 64))]


def depth_of(majors: tuple[int, int], spans: tuple[int, int]) -> int:
    """As many steps along k as a row of the swizzle holds."""
    return min([64, *(span // 2 for major, span in zip(majors, spans) if major == 0 and span)])


@pytest.mark.parametrize(("majors", "spans"), LAYOUTS)
def test_wgmma_reads_every_layout(majors: tuple[int, int], spans: tuple[int, int]) -> None:
    code, arrays, how, wanted = product(64, "fp16", majors, spans, depth_of(majors, spans))
    assert np.array_equal(simulate(code, *arrays, **how)["D"], wanted)


WIDTHS = [(64, "bf16"), (128, "fp16"), (192, "bf16"), (256, "fp16"), (256, "bf16")]


@pytest.mark.parametrize(("n", "dtype"), WIDTHS)
@pytest.mark.parametrize("majors", [(0, 0), (0, 1)])
def test_wgmma_of_every_width(n: int, dtype: str, majors: tuple[int, int]) -> None:
    code, arrays, how, wanted = product(n, dtype, majors, (128, 128), 64)
    assert np.array_equal(simulate(code, *arrays, seed=n, **how)["D"], wanted)


OF_REGISTERS = """extern "C" __global__ void k(const unsigned int *raw, const fp16 *A, float *D, unsigned long long b) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const int t = threadIdx.x;
  for (int i = t; i < 512; i += 128) ((unsigned int *)smem)[i] = raw[i];
  fence_async_proxy();
  __syncthreads();
  float d[32];
  unsigned int a[4];
  #pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = *(const unsigned int *)(A + (16 * (t / 32) + t % 32 / 4 + 8 * (i % 2)) * 16 + 8 * (i / 2) + 2 * (t % 4));
  wgmma_fence();
  wgmma_m64n64k16_fp16_of_registers<0>(d, a, (shared_address(smem) >> 4) + b, false);
  wgmma_commit();
  wgmma_wait<0>();
  #pragma unroll
  for (int i = 0; i < 32; ++i) D[(16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2)) * 64 + 8 * (i / 4) + 2 * (t % 4) + i % 2] = d[i];
}"""


def of_registers() -> tuple[tuple[Any, ...], dict[str, Any], np.ndarray]:
    """Arrays and options for OF_REGISTERS, and what D should be."""
    a, b = small((64, 16), "fp16", 1), small((64, 16), "fp16", 2)
    words, descriptor, _ = operand(b, 0, 32, 0)
    raw = np.zeros(1024, np.uint16)
    for at, word in words.items():
        raw[at // 2] = word
    arrays = {"raw": raw, "A": a}, {"D": np.empty((64, 64), np.float32)}
    return arrays, {"scalars": [Scalar(descriptor, 8)], "shared": 2048}, a.astype(np.float32) @ b.astype(np.float32).T


def test_wgmma_takes_a_from_registers() -> None:
    arrays, how, wanted = of_registers()
    assert np.array_equal(simulate(OF_REGISTERS, *arrays, **how)["D"], wanted)


@pytest.mark.parametrize(
    ("good", "bad", "code"),
    [
        ("  wgmma_wait<0>();\n", "", "E1755"),
        ("wgmma_wait<0>();", "wgmma_wait<1>();", "E1755"),
        ("  wgmma_commit();\n", "", "E1755"),
        ("  wgmma_fence();\n", "", "E1765"),
        ("  fence_async_proxy();\n", "", "E1754"),
        ("  __syncthreads();\n", "", "E1753"),
        ("+ b, false", "+ b + t / 64, false", "E1762"),
        ("+ b, false", "+ b, t > 5", "E1762"),
        ("+ b, false", "+ b + 4096, false", "E1764"),
        ("+ b, false", "+ b + 64, false", "E1764"),
        ("i < 512; i", "i < 500; i", "E1750"),
        ("  wgmma_commit();\n", "  wgmma_commit(); smem[t] = 0;\n", "E1753"),
        ("  wgmma_commit();\n", "  wgmma_commit(); __syncthreads(); smem[t] = 0;\n", "E1752"),
        ("  wgmma_commit();\n", "  wgmma_commit(); d[0] = 0;\n", "E1755"),
        ("wgmma_wait<0>();\n", "wgmma_wait<0>(); if (t < 64) return;\n  wgmma_fence(); wgmma_m64n64k16_fp16_of_registers<0>(d, a, b, true); wgmma_commit(); wgmma_wait<0>();\n", "E1724"),
        ("  wgmma_commit();\n  wgmma_wait<0>();\n", "  wgmma_commit(); return;\n", "E1763"),
    ],
)
def test_faults_of_wgmma_are_caught(good: str, bad: str, code: str) -> None:
    assert OF_REGISTERS.count(good) == 1
    arrays, how, _ = of_registers()
    assert fault_of(OF_REGISTERS.replace(good, bad), *arrays, **how).code == code


@pytest.mark.parametrize(
    ("good", "bad", "code"),
    [
        ("  __syncthreads();\n", "", "E1753"),
        ("&a[lane % 16][8 * (lane / 16)]", "&a[lane % 16][4]", "E1761"),
        ("mma_m16n8k16_fp16(d", "if (lane < 31) mma_m16n8k16_fp16(d", "E1761"),
        ("i < 256; i += 32", "i < 255; i += 32", "E1750"),
    ],
)
def test_faults_of_warp_instructions_are_caught(good: str, bad: str, code: str) -> None:
    kernel = MMA.replace("DTYPE", "fp16")
    assert kernel.count(good) == 1
    arrays = {"A": small((16, 16), "fp16", 1), "B": small((16, 8), "fp16", 2)}, {"C": np.empty((16, 8), np.float32)}
    assert fault_of(kernel.replace(good, bad), *arrays, block=(32,)).code == code
