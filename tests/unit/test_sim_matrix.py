"""The twins of ldmatrix, stmatrix, mma and wgmma against NumPy: small integers, so that every sum is exact in any
order."""

from __future__ import annotations

import shutil

import ml_dtypes
import numpy as np
import pytest

from tinyir.runtime.device import Scalar
from tinyir.sim.host import COMPILERS
from tinyir.sim.launch import SimDevice

from .simulated import Trial, fault_of, swizzled, with_one_nan

pytestmark = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")

NUMPY = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16}


def small(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(NUMPY[dtype])


def with_specials(matrix: np.ndarray) -> np.ndarray:
    """With an infinity, a NaN, and two infinities of either sign in rows of it."""
    marked = matrix.copy()
    marked[3, 5], marked[9, 2], marked[12, 1], marked[12, 4] = np.inf, np.nan, np.inf, -np.inf
    return marked


def summed(a: np.ndarray, b: np.ndarray, start: np.ndarray | float = 0.0) -> np.ndarray:
    """a b + start in fp32, with a unit's NaN."""
    with np.errstate(invalid="ignore"):
        return with_one_nan((a.astype(np.float32) @ b.astype(np.float32) + start).astype(np.float32))


# --- tiles of a warp


def tile_kernel(count: int, transposed: str, is_store: bool) -> str:
    words = [f"r[{i}]" for i in range(count)]
    if not is_store:
        move = (
            f"ldmatrix_x{count}{transposed}({', '.join(words)}, tile[lane % {8 * count}]);\n  for (int i = 0; i < "
            f"{count}; ++i) out[lane][i] = r[i];"
        )
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
  stmatrix_x{count}{transposed}(tile[lane % {8 * count}], {", ".join(words)});
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


def tiles_of(count: int, transposed: str, is_store: bool) -> Trial:
    """Tiles from shared memory to registers, or back."""
    tiles = (np.arange(64 * count) + 1).astype(np.uint16).reshape(count, 8, 8)
    held = np.ascontiguousarray(fragments(tiles, bool(transposed))).view(np.uint32)[..., 0]
    source, wanted = (held, tiles.reshape(-1)) if is_store else (tiles.reshape(-1), held)
    return Trial(tile_kernel(count, transposed, is_store), {"in": source}, {"out": wanted}, {"block": (32,)})


TILES = [
    (count, transposed, is_store) for count in (1, 2, 4) for transposed in ("", "_trans") for is_store in (False, True)
]


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


def warp_product(dtype: str, is_special: bool = False) -> Trial:
    """16 x 8 sums of sixteen products, which begin at small numbers."""
    a, b = small((16, 16), dtype, 1), small((16, 8), dtype, 2)
    a = with_specials(a) if is_special else a
    start = np.array([[1, 2], [3, 4]], np.float32).repeat(8, axis=0)[:, None, :].repeat(4, axis=1).reshape(16, 8)
    return Trial(MMA.replace("DTYPE", dtype), {"A": a, "B": b}, {"C": summed(a, b, start)}, {"block": (32,)})


# --- products of a warpgroup: a kernel that takes shared memory as bytes, and descriptors, of addresses within `smem`, as numbers  # noqa: E501


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
}}"""  # noqa: E501


def operand(rows: int, depth: int, major: int, span: int, start: int) -> tuple[np.ndarray, int, int]:
    """Where the 2-byte elements of a [rows, k] matrix are in one of wgmma's layouts, in bytes; the descriptor, to which
    the kernel adds where shared memory begins; what 16 further along k adds to it.

    K-major: rows of `span` bytes (64 elements of k and more side by side), or cores of 8 rows by 16 bytes. MN-major:
    rows of `span` bytes along the matrix's rows, one for each k.
    """
    r, k = np.ogrid[:rows, :depth]
    width = span // 2
    if major == 0 and span:
        at = k // width * (rows * span) + r * span + k % width * 2
    elif major == 0:
        at = k // 8 * (rows * 16) + r * 16 + k % 8 * 2
    elif span:
        at = r // width * (depth * span) + k * span + r % width * 2
    else:
        at = r // 8 * (depth * 16) + k * 16 + r % 8 * 2
    leading, stride, step = {
        (0, True): (16, 8 * span, 32),
        (0, False): (rows * 16, 128, 2 * rows * 16),
        (1, True): (depth * span, 8 * span, 16 * span),
        (1, False): (128, depth * 16, 256),
    }[major, bool(span)]
    mode = {128: 1, 64: 2, 32: 3, 0: 0}[span]
    signed = mode - 4 if mode >= 2 else mode  # a scalar is a signed number
    return swizzled(start + at, span), start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | signed << 62, step >> 4


def product(
    n: int, dtype: str, majors: tuple[int, int], spans: tuple[int, int], depth: int, is_special: bool = False
) -> Trial:
    """Both operands from shared memory, in these layouts."""
    a, b, c = (
        small((64, depth), dtype, 1),
        small((n, depth), dtype, 2),
        np.random.default_rng(3).integers(-9, 9, (64, n)).astype(np.float32),
    )
    a = with_specials(a) if is_special else a
    a_places, a_descriptor, a_step = operand(64, depth, majors[0], spans[0], 0)
    b_places, b_descriptor, b_step = operand(n, depth, majors[1], spans[1], (int(a_places.max()) // 1024 + 1) * 1024)
    raw = np.zeros((b_places.max() // 1024 + 1) * 512, np.uint16)
    raw[a_places // 2], raw[b_places // 2] = a.view(np.uint16), b.view(np.uint16)
    numbers = [
        Scalar(raw.nbytes // 4, 4),
        Scalar(a_descriptor, 8),
        Scalar(b_descriptor, 8),
        Scalar(depth // 16, 4),
        Scalar(a_step, 8),
        Scalar(b_step, 8),
    ]
    return Trial(
        wgmma_kernel(n, dtype, *majors),
        {"raw": raw, "C": c},
        {"D": summed(a, b.T, c)},
        {"scalars": numbers, "shared": raw.nbytes},
    )


def widest(n: int) -> int:
    """The bytes of the widest swizzle whose rows divide n elements of 2 bytes; 0, none, where there are eight more than
    whole ones."""
    return next((span for span in (128, 64, 32) if n % (span // 2) == 0), 0)


def product_of_shared(n: int, dtype: str, is_special: bool = False) -> Trial:
    """The right operand across the sum for fp16, along it for bf16."""
    major, span = (1, widest(n)) if dtype == "fp16" else (0, 128)
    return product(n, dtype, (0, major), (128, span), 64, is_special)


LAYOUTS = [
    (majors, spans)
    for majors in ((0, 0), (0, 1), (1, 0), (1, 1))
    for spans in ((128, 128), (64, 32), (0, 128), (32, 0), (0, 0), (128, 64))
]


def depth_of(majors: tuple[int, int], spans: tuple[int, int]) -> int:
    """As many steps along k as a row of the swizzle holds."""
    return min([64, *(span // 2 for major, span in zip(majors, spans) if major == 0 and span)])


def product_in_layout(majors: tuple[int, int], spans: tuple[int, int]) -> Trial:
    """64 columns in one of LAYOUTS."""
    return product(64, "fp16", majors, spans, depth_of(majors, spans))


@pytest.mark.parametrize(("n", "dtype"), [(64, "bf16"), (128, "fp16"), (192, "bf16"), (256, "fp16"), (256, "bf16")])
@pytest.mark.parametrize("majors", [(0, 0), (0, 1)])
def test_wgmma_is_right_in_any_order(n: int, dtype: str, majors: tuple[int, int]) -> None:
    trial = product(n, dtype, majors, (128, 128), 64)
    assert trial.differing(trial.on(SimDevice(seed=n)), trial.wanted) == []


def product_of_registers(n: int, dtype: str) -> Trial:
    """The left operand from registers, the right one along the sum for fp16, across it for bf16."""
    major, span = (0, 32) if dtype == "fp16" else (1, widest(n))
    code = f"""extern "C" __global__ void k(const unsigned int *raw, const {dtype} *A, float *D, unsigned long long b) {{
  extern __shared__ __align__(1024) unsigned char smem[];
  const int t = threadIdx.x;
  for (int i = t; i < {8 * n}; i += 128) ((unsigned int *)smem)[i] = raw[i];
  fence_async_proxy();
  __syncthreads();
  float d[{n // 2}];
  unsigned int a[4];
  #pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = *(const unsigned int *)(A + (16 * (t / 32) + t % 32 / 4 + 8 * (i % 2)) * 16 + 8 * (i / 2) + 2 * (t % 4));
  wgmma_fence();
  wgmma_m64n{n}k16_{dtype}_of_registers<{major}>(d, a, (shared_address(smem) >> 4) + b, false);
  wgmma_commit();
  wgmma_wait<0>();
  #pragma unroll
  for (int i = 0; i < {n // 2}; ++i) D[(16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2)) * {n} + 8 * (i / 4) + 2 * (t % 4) + i % 2] = d[i];
}}"""  # noqa: E501
    a, b = small((64, 16), dtype, 1), small((n, 16), dtype, 2)
    places, descriptor, _ = operand(n, 16, major, span, 0)
    raw = np.zeros(16 * n, np.uint16)
    raw[places // 2] = b.view(np.uint16)
    return Trial(
        code, {"raw": raw, "A": a}, {"D": summed(a, b.T)}, {"scalars": [Scalar(descriptor, 8)], "shared": raw.nbytes}
    )


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
        ("  wgmma_commit();\n", "  wgmma_commit(); a[t / 100] ^= 1u << 15;\n", "E1755"),
        (
            "wgmma_wait<0>();\n",
            "wgmma_wait<0>(); if (t < 64) return;\n  wgmma_fence(); wgmma_m64n64k16_fp16_of_registers<0>(d, a, "
            "b, true); wgmma_commit(); wgmma_wait<0>();\n",
            "E1724",
        ),
        ("  wgmma_commit();\n  wgmma_wait<0>();\n", "  wgmma_commit(); return;\n", "E1763"),
    ],
)
def test_faults_of_wgmma_are_caught(good: str, bad: str, code: str) -> None:
    trial = product_of_registers(64, "fp16")
    assert trial.code.count(good) == 1
    assert fault_of(trial.code.replace(good, bad), trial.inputs, trial.wanted, **trial.how).code == code


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
    trial = warp_product("fp16")
    assert trial.code.count(good) == 1
    assert fault_of(trial.code.replace(good, bad), trial.inputs, trial.wanted, **trial.how).code == code
