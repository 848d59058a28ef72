"""The simulation runs CUDA text as a GPU would, and names what a GPU would hide."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tinyir.kit.diag import Diag, Refused
from tinyir.runtime.device import Scalar
from tinyir.sim.host import COMPILERS
from tinyir.sim.launch import SimDevice

pytestmark = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")

KERNELS = Path(__file__).parent / "kernels"


def run(
    body: str,
    n: int = 64,
    block: tuple[int, ...] = (64,),
    grid: int = 1,
    shared: int = 0,
    seed: int = 0,
    limit: float = 0.0,
) -> np.ndarray:
    """B after `k(A, B, N)` with A = 0, 1, 2, ...; the body starts at line 2."""
    device = SimDevice(seed, limit)
    try:
        code = device.load(
            f'extern "C" __global__ void k(const float* A, float* B, int N) {{\n{body}\n}}\n', {"k": shared}
        )
        a, b = np.arange(n, dtype=np.float32), np.empty(n, np.float32)
        buffers = [device.allocate("A", n, 4), device.allocate("B", n, 4)]
        device.upload(buffers[0], a)
        device.launch(code, "k", (grid,), block, shared, [*buffers, Scalar(n, 4)])
        device.download(buffers[1], b)
        return b
    finally:
        device.release()


def fault_of(body: str, **how: object) -> Diag:
    with pytest.raises(Refused) as fault:
        run(body, **how)
    assert len(fault.value.diags) == 1
    return fault.value.diags[0]


def gemm(sizes: tuple[int, int, int], seed: int) -> tuple[np.ndarray, np.ndarray]:
    m, n, k = sizes
    draw = np.random.default_rng(seed)
    inputs = [draw.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n), (n,))]
    device = SimDevice(seed)
    try:
        code = device.load((KERNELS / "gemm.cu").read_text(encoding="utf-8"), {"gemm": 0})
        buffers = [device.allocate(name, a.size, 2) for name, a in zip("ABb", inputs)] + [
            device.allocate("C", m * n, 2)
        ]
        for buffer, array in zip(buffers, inputs):
            device.upload(buffer, array)
        device.launch(
            code, "gemm", (-(-n // 128), -(-m // 128)), (16, 16), 0, [*buffers, *(Scalar(s, 4) for s in sizes)]
        )
        out = np.empty((m, n), np.float16)
        device.download(buffers[3], out)
    finally:
        device.release()
    a, b, bias = (x.astype(np.float64) for x in inputs)
    return out, np.maximum(a @ b + bias, 0)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (128, 128, 16), (130, 7, 33), (3, 200, 50)])
@pytest.mark.parametrize("seed", [0, 3])
def test_tiled_gemm_with_tails_is_right_in_any_order_of_threads(sizes: tuple[int, int, int], seed: int) -> None:
    out, wanted = gemm(sizes, seed)
    np.testing.assert_allclose(out.astype(np.float64), wanted, rtol=1e-3, atol=1e-3)


def test_a_dropped_barrier_shows() -> None:
    """In the threads' order thread 0 reads what nobody has written; where the writer came first, nothing orders the
    two."""
    kept = run(
        "__shared__ float s[64]; s[threadIdx.x] = A[threadIdx.x]; __syncthreads(); B[threadIdx.x] = s[63 - "
        "threadIdx.x];"
    )
    assert kept.tolist() == list(range(63, -1, -1))
    assert (
        fault_of("__shared__ float s[64]; s[threadIdx.x] = A[threadIdx.x];\nB[threadIdx.x] = s[63 - threadIdx.x];").code
        == "E1750"
    )
    diag = fault_of("__shared__ float s[64];\ns[threadIdx.x] = A[threadIdx.x];\nB[threadIdx.x] = s[threadIdx.x / 2];")
    assert diag.code == "E1753" and diag.span.line == 4
    assert (diag.facts["thread"], diag.facts["other"]) == (
        "thread (1, 0, 0) of block (0, 0, 0)",
        "thread (0, 0, 0) of block (0, 0, 0) (line 3)",
    )
    assert [label.span.line for label in diag.labels] == [3] and diag.facts["place"] == "s + 0 B"


def test_a_tile_that_is_refilled_before_all_have_read_it_shows() -> None:
    loop = (
        "__shared__ float s[64];\nfor (int i = 0; i < 2; ++i) {\ns[threadIdx.x] = A[i]; __syncthreads();\n"
        "B[threadIdx.x] = s[63 - threadIdx.x]; %s }"
    )
    assert run(loop % "__syncthreads();").tolist() == [1.0] * 64
    assert fault_of(loop % "").code == "E1753"


def test_blocks_that_store_to_the_same_element_are_a_race() -> None:
    diag = fault_of("B[threadIdx.x] = blockIdx.x;", grid=2)
    assert (diag.code, diag.facts["place"]) == ("E1753", "B[0]")
    assert (
        run("if (blockIdx.x == 0) B[threadIdx.x] = 0; else atomicAdd(B + 63 - threadIdx.x, 0.0f);", grid=1).tolist()
        == [0.0] * 64
    )


def test_a_read_of_an_output_that_nobody_wrote_is_named() -> None:
    diag = fault_of("B[threadIdx.x] += 1;")
    assert (diag.code, diag.facts["place"]) == ("E1750", "B[0]")


def test_a_warp_is_ordered_by_syncwarp_alone() -> None:
    body = "__shared__ float s[64]; s[threadIdx.x] = A[threadIdx.x]; %s B[threadIdx.x] = s[threadIdx.x ^ 1];"
    assert run(body % "__syncwarp();", seed=3).tolist() == [float(i ^ 1) for i in range(64)]
    assert fault_of(body % "__shfl_xor_sync(~0u, 1, 1);", seed=3).code == "E1753"


def test_beyond_the_dynamic_shared_memory_of_the_launch() -> None:
    device = SimDevice()
    try:
        text = 'extern "C" __global__ void k(int at) { extern __shared__ float s[]; s[at] = 1; }\n'
        code = device.load(text, {"k": 1024})
        device.launch(code, "k", (1,), (1,), 512, [Scalar(127, 4)])
        with pytest.raises(Refused) as fault:
            device.launch(code, "k", (1,), (1,), 512, [Scalar(128, 4)])
        assert [d.code for d in fault.value.diags] == ["E1764"]
    finally:
        device.release()


def test_the_bare_mode_finds_what_needs_no_trace() -> None:
    """It is faster; races and unwritten reads are then the result's affair."""
    device = SimDevice(mode="bare")
    try:
        code = device.load(
            'extern "C" __global__ void k(float* B) { __shared__ float s[64]; if (threadIdx.x == 99) s[0] = 1; '
            "B[threadIdx.x] = s[threadIdx.x]; }",
            {"k": 0},
        )
        b = device.allocate("B", 64, 4)
        device.launch(code, "k", (1,), (64,), 0, [b])
        out = np.zeros(64, np.float32)
        device.download(b, out)
        assert np.isnan(out).all()
    finally:
        device.release()


def test_outputs_are_nan_until_written() -> None:
    assert np.isnan(run("if (threadIdx.x < 3) B[threadIdx.x] = 1.0f;")[3:]).all()


def test_dynamic_shared_memory_and_three_dims() -> None:
    body = (
        "extern __shared__ float s[]; int i = (threadIdx.z * 2 + threadIdx.y) * 8 + threadIdx.x; s[i] = i; "
        "__syncthreads(); B[i] = s[63 - i];"
    )
    assert run(body, block=(8, 2, 4), shared=256).tolist() == list(range(63, -1, -1))


def test_large_aligned_dynamic_shared_memory() -> None:
    """What a warp-specialised kernel asks for: over 200 KiB, at a multiple of 1024."""
    body = """extern __shared__ __align__(1024) unsigned char smem[];
float* s = (float*)(smem + 200 * 1024); s[threadIdx.x] = A[threadIdx.x]; __syncthreads();
B[threadIdx.x] = s[63 - threadIdx.x] + (float)((unsigned long long)smem % 1024);"""
    assert run(body, shared=227 * 1024).tolist() == list(range(63, -1, -1))


WARP = {
    "__shfl_xor_sync(~0u, i, 5)": lambda i: i ^ 5,
    "__shfl_sync(~0u, i, 3)": lambda i: i // 32 * 32 + 3,
    "__shfl_sync(~0u, i, 9, 8)": lambda i: i // 8 * 8 + 1,
    "__shfl_up_sync(~0u, i, 2)": lambda i: i if i % 32 < 2 else i - 2,
    "__shfl_down_sync(~0u, i, 2, 16)": lambda i: i if i % 16 > 13 else i + 2,
    "__popc(__ballot_sync(~0u, i % 3 == 0))": lambda i: sum(j % 3 == 0 for j in range(i // 32 * 32, i // 32 * 32 + 32)),
    "__any_sync(~0u, i == 40)": lambda i: i // 32,
    "__all_sync(~0u, i < 40)": lambda i: 1 - i // 32,
    "__reduce_add_sync(~0u, i)": lambda i: 496 if i < 32 else 496 + 32 * 32,
    "__reduce_max_sync(~0u, -i)": lambda i: -(i // 32 * 32),
    "__syncthreads_count(i > 30)": lambda i: 33,
    "__popc(__match_any_sync(~0u, i & 3))": lambda i: 8,
}


@pytest.mark.parametrize("expression", WARP)
@pytest.mark.parametrize("seed", [0, 1])
def test_collectives_mean_what_cuda_says(expression: str, seed: int) -> None:
    out = run(f"int i = threadIdx.x;\nB[i] = {expression};", seed=seed)
    assert out.tolist() == [WARP[expression](i) for i in range(64)]


SCALAR = {
    "__byte_perm(0x33221100, 0x77665544, 0x7250) == 0x77225500": 1,
    "__float2int_rz(3e9f) == 2147483647": 1,
    "__float2int_rn(2.5f)": 2,
    "__float2uint_rz(-1.0f)": 0,
    "__float2int_rz(__int_as_float(0x7fc00000))": 0,
    "__umulhi(0x80000000u, 6u)": 3,
    "__brev(1u) == 0x80000000u": 1,
    "__funnelshift_l(0x80000000u, 1u, 1)": 3,
    "__clz(1)": 31,
    "__ffs(8)": 4,
    "__double2float_rz(1.9999999999) < 2.0f && __double2float_rz(-1e300) == -3.4028235e38f": 1,
    "min(3u, 2u) + max(2.5f, 1.0f)": 4.5,
    "make_float4(1, 2, 3, 4).w + sizeof(uint4) + alignof(float2)": 28,
}


def test_intrinsics_mean_what_cuda_says() -> None:
    body = "\n".join(f"B[{i}] = {expression};" for i, expression in enumerate(SCALAR))
    assert run(body, block=(1,), grid=1)[: len(SCALAR)].tolist() == list(SCALAR.values())


OUTSIDE = {
    "B[threadIdx.x] = A[threadIdx.x + 1];": ("a load", "A", "element 64, past"),
    "B[threadIdx.x + N] = 1;": ("a store", "B", "element 64, past"),
    "((float*)A)[threadIdx.x] = 1;": ("a store", "A", "element 0, an input"),
    "B[threadIdx.x] = A[-5000];": ("a load", "A", "element -5000, before"),
    "B[threadIdx.x] = A[100000000 + threadIdx.x];": ("a load", "A", "element 100000000, past"),
}


@pytest.mark.parametrize("body", OUTSIDE)
def test_an_access_outside_names_buffer_element_thread_and_line(body: str) -> None:
    diag = fault_of(f"\n{body}")
    access, buffer, place = OUTSIDE[body]
    assert (diag.code, diag.facts["access"], diag.facts["buffer"]) == ("E1722", access, buffer)
    assert diag.facts["place"].startswith(place)
    assert diag.facts["thread"] == f"thread ({63 if '+ 1]' in body else 0}, 0, 0) of block (0, 0, 0)"
    assert diag.span is not None and diag.span.line == 3


def test_a_stray_store_just_before_a_buffer_is_found() -> None:
    diag = fault_of("B[-1] = 1;", n=61)
    assert (diag.code, diag.facts["buffer"]) == ("E1722", "B") and diag.facts["place"].startswith("element -1, before")


@pytest.mark.parametrize(
    "body",
    [
        "__shared__ float s[64];\ns[threadIdx.x + N - 60] = A[0]; __syncthreads(); B[0] = s[0];",
        "float r[4] = {};\nfor (int i = 0; i < N; ++i) r[i % 5] += A[i]; B[0] = r[0] + r[1];",
        "\nB[threadIdx.x] = ((float4*)(A + threadIdx.x))->x;",
        "\n__trap();",
    ],
)
def test_bad_indices_into_shared_and_register_arrays_and_misaligned_vectors_stop(body: str) -> None:
    diag = fault_of(body)
    assert diag.code == "E1723" and diag.span is not None and diag.span.line == 3


def test_a_frame_beyond_the_stack_stops() -> None:
    diag = fault_of("volatile char big[1 << 20];\nfor (int i = 0; i < (1 << 20); ++i) big[i] = N;\nB[0] = big[N];")
    assert diag.code == "E1729"


def test_integer_division_by_zero_stops() -> None:
    diag = fault_of("B[threadIdx.x] = N / (int(threadIdx.x) - 3);")
    assert diag.code == "E1726" and diag.facts["thread"].startswith("thread (3, 0, 0)")


def test_a_deadlock_says_who_waits_for_what() -> None:
    diag = fault_of("if (threadIdx.x % 2)\n__syncwarp();\nelse\n__syncthreads();\nB[threadIdx.x] = 1;")
    assert diag.code == "E1724"
    assert "threads 0, 2, 4, ... (32) waiting at line 5 for barrier 0 (32 of 64 came)" in diag.facts["waits"]
    assert "threads 1, 3, 5, ... (32) waiting at line 3 for the lanes 0xffffffff (16 of 32 came)" in diag.facts["waits"]
    assert {diag.span.line, *(label.span.line for label in diag.labels)} == {3, 5}


def test_a_barrier_in_both_branches_is_divergence() -> None:
    diag = fault_of("if (threadIdx.x < 32)\n__syncthreads();\nelse\n__syncthreads();")
    assert diag.code == "E1725" and "line 3" in diag.facts["waits"] and "line 5" in diag.facts["waits"]


def test_threads_that_returned_are_not_waited_for() -> None:
    assert (
        run("if (threadIdx.x >= 40) return;\n__syncthreads();\nB[threadIdx.x] = __shfl_xor_sync(~0u, 1, 1);")[
            :40
        ].tolist()
        == [1.0] * 40
    )


def test_lanes_that_name_different_masks_are_refused() -> None:
    assert fault_of("B[threadIdx.x] = __shfl_xor_sync(threadIdx.x % 2 ? ~0u : 0x55555555u, 1, 2);").code == "E1728"


def test_an_endless_loop_is_stopped_at_its_line() -> None:
    diag = fault_of("volatile int q = 0;\nwhile (!q) {}", limit=0.2)
    assert diag.code == "E1727" and diag.span.line == 3


def test_errors_of_the_host_compiler_stand_at_their_line() -> None:
    diag = fault_of("\n  B[0] = unknown_name;")
    assert diag.code == "E1721" and diag.span.line == 3 and "unknown_name" in diag.facts["fault"]


def test_a_function_without_a_twin_is_named() -> None:
    device = SimDevice()
    with pytest.raises(Refused, match="no_such_twin") as fault:
        device.load(
            '__device__ void no_such_twin(int);\nextern "C" __global__ void k(int n) { no_such_twin(n); }\n', {"k": 0}
        )
    assert [d.code for d in fault.value.diags] == ["E1721"]


def test_a_launch_after_a_fault_runs() -> None:
    fault_of("B[N] = 1;")
    assert run("B[threadIdx.x] = A[threadIdx.x];").tolist() == list(range(64))


def test_half_conversions_are_exact_and_round_to_even() -> None:
    """All 65536 halves up, and floats around every rounding boundary down, against NumPy."""
    device = SimDevice()
    text = """
extern "C" __global__ void up(const unsigned short* h, float* f) { int i = blockIdx.x * 256 + threadIdx.x; f[i] = tinyir_sim::half_to_float(h[i]); }
extern "C" __global__ void down(const float* f, unsigned short* h) { int i = blockIdx.x * 256 + threadIdx.x; h[i] = tinyir_sim::float_to_half(f[i]); }
"""  # noqa: E501
    try:
        code = device.load(text, {"up": 0, "down": 0})
        halves = np.arange(65536, dtype=np.uint16)
        exact = halves.view(np.float16).astype(np.float32)
        with np.errstate(all="ignore"):
            middle = (exact + np.roll(exact, 1)) / 2
            between = np.concatenate([middle, np.nextafter(middle, np.float32(0))]).astype(np.float32)
            wanted = between.astype(np.float16)
        h, f = device.allocate("h", halves.size, 2), device.allocate("f", halves.size, 4)
        device.upload(h, halves)
        device.launch(code, "up", (256,), (256,), 0, [h, f])
        got = np.empty_like(exact)
        device.download(f, got)
        assert np.array_equal(got, exact, equal_nan=True)
        f, h = device.allocate("f", between.size, 4), device.allocate("h", between.size, 2)
        device.upload(f, between)
        device.launch(code, "down", (512,), (256,), 0, [f, h])
        got = np.empty_like(wanted)
        device.download(h, got)
        assert np.array_equal(got, wanted, equal_nan=True)
    finally:
        device.release()
