"""A warp-specialised kernel of sm90 in the simulation: right in any order, and every fault planted in it is named."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinyir.kit.diag import Refused
from tinyir.runtime.device import Scalar
from tinyir.sim.host import COMPILERS

from .simulated import fault_of, simulate

pytestmark = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")

CODE = (Path(__file__).parent / "kernels" / "gemm_sm90.cu").read_text(encoding="utf-8")
SHARED = 2 * (128 * 64 + 64 * 64) * 2 + 128 * 64 * 2 + 4 * 8


def arguments(m: int, n: int, k: int, seed: int = 0) -> tuple[tuple[Any, ...], dict[str, Any], np.ndarray]:
    """What `simulate` takes, and what C should be."""
    draw = np.random.default_rng(seed)
    a, b, bias = (draw.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (k, n), (n,)))
    maps = {"a": ("A", (128, 64), 128), "b": ("B", (32, 64), 128), "c": ("C", (64, 64), 128)}
    # the matrices are parameters by their maps alone
    how = {
        "maps": maps,
        "scalars": [Scalar(s, 4) for s in (m, n, k)],
        "block": (384,),
        "shared": SHARED,
        "kernel": "gemm",
        "hidden": ("A", "B", "C"),
    }
    wanted = np.maximum(a.astype(np.float64) @ b.astype(np.float64) + bias, 0)
    return ({"A": a, "B": b, "bias": bias}, {"C": np.empty((m, n), np.float16)}), how, wanted


@pytest.mark.parametrize(
    ("sizes", "grid"), [((256, 64, 64), 2), ((512, 192, 256), 4), ((264, 72, 200), 2), ((1000, 136, 72), 6)]
)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_is_right_with_tails_in_any_order(sizes: tuple[int, int, int], grid: int, seed: int) -> None:
    arrays, how, wanted = arguments(*sizes, seed)
    assert np.array_equal(simulate(CODE, *arrays, grid=(grid,), seed=seed, **how)["C"].astype(np.float64), wanted)


FAULTS = [
    ("        mbarrier_wait(&full[slot], phase);\n", "", "E1751"),
    ("          mbarrier_wait(&empty[slot], phase);\n", "", "E1757"),
    ("unsigned int phase = 0;", "unsigned int phase = 1;", "E1751"),
    ("unsigned int phase = 1;", "unsigned int phase = 0;", "E1724"),
    ("2 * kRows * kDepth + 2 * kDepth * kColumns", "2 * kRows * kDepth + kDepth * kColumns", "E1751"),
    ("2 * kRows * kDepth + 2 * kDepth * kColumns", "2 * kRows * kDepth + 4 * kDepth * kColumns", "E1724"),
    ("mbarrier_init(&empty[i], 4)", "mbarrier_init(&empty[i], 2)", "E1752"),
    ("mbarrier_init(&empty[i], 4)", "mbarrier_init(&empty[i], 5)", "E1724"),
    ("    fence_mbarrier_init();\n", "", "E1760"),
    ("  cluster_barrier();\n", "  __syncthreads();\n", "E1753"),
    ("        wgmma_wait<1>();\n", "", "E1752"),
    ("      wgmma_wait<0>();\n", "", "E1755"),
    ("      wgmma_wait<0>();\n", "      wgmma_wait<1>();\n", "E1755"),
    ("        wgmma_fence();\n", "", "E1765"),
    ("        wgmma_commit();\n", "", "E1752"),
    (
        "mbarrier_arrive_at(&empty[previous], own);\n        previous",
        "mbarrier_arrive_at(&empty[slot], own);\n        previous",
        "E1724",
    ),
    ("if (k > 0 && own < 2)", "if (own < 2)", "E1752"),
    ("slot = 0; phase ^= 1; }\n      }\n      wgmma_wait", "slot = 0; }\n      }\n      wgmma_wait", "E1752"),
    ("      fence_async_proxy();\n", "", "E1754"),
    ("      fence_async_proxy();\n      warpgroup_barrier(1 + part);\n", "      fence_async_proxy();\n", "E1753"),
    ("      if (own == 0) tma_store_wait<0>();\n      warpgroup_barrier", "      warpgroup_barrier", "E1752"),
    ("tma_store_wait<0>();\n      warpgroup_barrier(1 + part);\n", "tma_store_wait<0>();\n", "E1752"),
    ("    if (own == 0) tma_store_wait<0>();\n  }", "  }", "E1763"),
    ("for (int i = 0; i < kStages; ++i) {  //", "for (int i = 0; i < 0; ++i) {  //", "E1763"),
    ("take_registers<232>", "take_registers<240>", "E1724"),
    ("k * kDepth, m0)", "k * kDepth + 4, m0)", "E1761"),
    ("n0, k * kDepth + 32 * rank, 3)", "n0, k * kDepth + 32 * rank, 1)", "E1724"),
    ("right + 128 * step", "right + 1024 * step", "E1750"),
]


@pytest.mark.parametrize(("good", "bad", "code"), FAULTS)
def test_planted_faults_are_named(good: str, bad: str, code: str) -> None:
    assert CODE.count(good) == 1, "the fault is planted in one place"
    arrays, how, _ = arguments(512, 64, 320)
    assert fault_of(CODE.replace(good, bad), *arrays, grid=(2,), **how).code == code


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("k > 0 || step > 0", "true"),
        ("left + 2 * step", "left"),
        ("fmaxf(acc[8 * piece + e] +", "fmaxf(acc[8 * piece + (e ^ 1)] +"),
        ("n0, k * kDepth + 32 * rank, 3", "n0, k * kDepth, 3"),
    ],
)
def test_what_breaks_no_rule_shows_in_the_result(good: str, bad: str) -> None:
    assert CODE.count(good) == 1
    arrays, how, wanted = arguments(256, 64, 128)
    try:
        found = simulate(CODE.replace(good, bad), *arrays, grid=(2,), **how)["C"].astype(np.float64)
    except Refused:
        return
    assert not np.array_equal(found, wanted)


def test_a_barrier_that_two_warpgroups_share_shows_in_some_order() -> None:
    arrays, how, wanted = arguments(512, 64, 320)
    good = "warpgroup_barrier(1 + part);\n      if (own == 0) {"
    assert CODE.count(good) == 1
    code = CODE.replace(good, good.replace("1 + part", "1"))
    assert fault_of(code, *arrays, grid=(2,), seed=1, **how).code in ("E1750", "E1753")


def test_a_deadlock_names_barrier_phase_and_bytes() -> None:
    arrays, how, _ = arguments(256, 64, 64)
    good = "2 * kRows * kDepth + 2 * kDepth * kColumns"
    waits = fault_of(CODE.replace(good, good + " + 16"), *arrays, grid=(2,), **how).facts["waits"]
    assert "threads 128..383 of block 0 of the cluster waiting at line" in waits
    assert "for phase 0 of smem + 65536 B (1 of 1 came, 16 B to come)" in waits
