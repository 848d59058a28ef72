"""The twins of what threads wait at: barriers by number, mbarriers, the cluster's barrier, words and flags of other
CTAs, the launch before it. Each but the last passes values on, which are in disorder where a barrier does not hold."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest

from tinyir.kit.diag import Refused
from tinyir.sim.host import COMPILERS
from tinyir.sim.launch import SimDevice

from .simulated import Trial

pytestmark = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")

NUMBERED = """extern "C" __global__ void k(const int *A, int *B) {
  __shared__ int held[64];
  const int t = threadIdx.x, own = t % 64;
  for (int round = 0; round < 3; ++round) {
    if (t < 64) {
      if (round > 0) named_barrier(2, 128);
      held[own] = A[64 * round + own];
      named_barrier_arrive(1, 128);
    } else {
      named_barrier(1, 128);
      B[64 * round + own] = held[63 - own];
      if (round < 2) named_barrier_arrive(2, 128);
    }
  }
}"""
OF_WARPGROUPS = """extern "C" __global__ void k(const int *A, int *B) {
  __shared__ int held[2][128];
  const int own = threadIdx.x % 128, part = threadIdx.x / 128;
  for (int round = 0; round < 2 + part; ++round) {
    held[part][own] = A[128 * part + own] + round;
    warpgroup_barrier(1 + part);
    B[128 * part + own] = held[part][127 - own];
    warpgroup_barrier(1 + part);
  }
}"""
MBARRIERS = """extern "C" __global__ void k(const int *A, int *B) {
  __shared__ int held[64];
  __shared__ unsigned long long full, empty;
  const int t = threadIdx.x;
  if (t == 0) { mbarrier_init(&full, 64); mbarrier_init(&empty, 32); fence_mbarrier_init(); }
  __syncthreads();
  for (int round = 0; round < 3; ++round) {
    if (t < 64) {
      if (round > 0) mbarrier_wait(&empty, (round - 1) % 2);
      held[t] = A[64 * round + t];
      mbarrier_arrive(&full);
    } else {
      mbarrier_wait(&full, round % 2);
      B[32 * round + t - 64] = held[t - 64] - 2 * held[127 - t];
      mbarrier_arrive(&empty);
    }
  }
}"""
OF_ANOTHER_CTA = """extern "C" __global__ void __cluster_dims__(2, 1, 1) k(int *B) {
  __shared__ unsigned long long come;
  const int rank = (int)cluster_rank();
  mbarrier_init_if(threadIdx.x == 0, &come, 32);
  fence_mbarrier_init();
  cluster_barrier();
  if (rank == 1) mbarrier_arrive_at(&come, 0);
  else mbarrier_wait(&come, 0);
  B[32 * blockIdx.x + threadIdx.x] = rank;
  cluster_barrier();
}"""
OF_CLUSTERS = """extern "C" __global__ void __cluster_dims__(4, 1, 1) k(const float *A, float *B) {
  __shared__ __align__(16) float held[32];
  const int t = threadIdx.x, rank = (int)cluster_rank();
  const float own = A[32 * blockIdx.x + t];
  held[t] = own;
  cluster_arrive();
  const float square = own * own;
  cluster_wait();
  for (int n = 0; n < 4; ++n) B[128 * blockIdx.x + 32 * n + t] = load_of_cta(&held[31 - t], (rank + n) % 4) + square;
  cluster_arrive();
  cluster_wait();
}"""
SENT = """extern "C" __global__ void __cluster_dims__(4, 1, 1) k(const float *A, float *B) {
  __shared__ __align__(16) float held[4][12], come[3][12];
  __shared__ unsigned long long joined;
  const int t = threadIdx.x, rank = (int)cluster_rank();
  if (t == 0) { mbarrier_init(&joined, 1); fence_mbarrier_init(); }
  cluster_arrive_relaxed();
  if (t < 32) held[t / 8][t % 8] = A[32 * blockIdx.x + t];
  fence_async_proxy();
  __syncthreads();
  cluster_wait();
  if (t == 0) {
    mbarrier_expect(&joined, 3 * 48);
    for (int i = 0; i < 3; ++i) send_to_cta(&come[2 - i][0], &held[(rank + 1 + i) % 4][0], 48, &joined, (rank + 1 + i) % 4);
  }
  mbarrier_wait(&joined, 0);
  cluster_arrive_relaxed();
  if (t < 8) {
    float sum = held[rank][t];
    for (int i = 0; i < 3; ++i) sum = 3.0f * sum + come[i][t];
    B[8 * blockIdx.x + t] = sum;
  }
  cluster_wait();
}"""  # noqa: E501
SENT_WORDS = """extern "C" __global__ void __cluster_dims__(4, 1, 1) k(const float *A, float *B) {
  __shared__ __align__(16) float come[3][64][4];
  __shared__ unsigned long long joined;
  const int t = threadIdx.x, rank = (int)cluster_rank();
  if (t == 0) { mbarrier_init(&joined, 1); fence_mbarrier_init(); }
  cluster_arrive_relaxed();
  __syncthreads();
  const float *own = A + (64 * blockIdx.x + t) * 8;
  cluster_wait();
  if (t == 0) mbarrier_expect(&joined, 3 * 64 * 16);
  for (int i = 0; i < 3; ++i) {
    const int cta = (rank + 1 + i) % 4;
    send_words(address_in_cta(come[2 - i][t], cta), one_of(cta % 2 == 0, own[0], own[4]), one_of(cta % 2 == 0, own[1], own[5]),
               one_of(cta % 2 == 0, own[2], own[6]), one_of(cta % 2 == 0, own[3], own[7]), address_in_cta(&joined, cta));
  }
  mbarrier_wait(&joined, 0);
  for (int e = 0; e < 4; ++e) {
    float sum = own[e];
    for (int i = 0; i < 3; ++i) sum = 3.0f * sum + come[i][t][e];
    B[(64 * blockIdx.x + t) * 4 + e] = sum;
  }
}"""  # noqa: E501
WORDS = """extern "C" __global__ void k(const unsigned int *A, unsigned long long *words, unsigned int *B) {
  const int cta = blockIdx.x;
  if (threadIdx.x == 0) {
    const unsigned int before = cta > 0 ? await_word(&words[cta - 1]) : 0u;
    publish_word(&words[cta], before + A[cta]);
    B[cta] = before;
  }
}"""
FLAGS = """extern "C" __global__ void k(const double *A, unsigned int *flags, double *held, double *B) {
  const int cta = blockIdx.x;
  if (threadIdx.x == 0) {
    double before = 0.0;
    if (cta > 0) {
      await_flag(&flags[cta - 1]);
      before = __ldcg(&held[cta - 1]);
    }
    held[cta] = before + A[cta];
    publish_flag(&flags[cta]);
    B[cta] = before;
  }
}"""

OF_LAUNCHES = """extern "C" __global__ void k(const int *A, int *B) {
  const int own = 128 * blockIdx.x + threadIdx.x;
  wait_previous();
  launch_next();
  B[own] = A[own ^ 1] + own;
}"""


def of_numbers() -> Trial:
    """Half of the threads fill, and the other half empties, three times."""
    a = np.arange(3 * 64).astype(np.int32).reshape(3, 64)
    return Trial(NUMBERED, {"A": a}, {"B": a[:, ::-1].copy()})


def of_warpgroups() -> Trial:
    """Each warpgroup exchanges its own, one of them once more than the other."""
    a = np.arange(2 * 128).astype(np.int32).reshape(2, 128)
    return Trial(OF_WARPGROUPS, {"A": a}, {"B": a[:, ::-1] + np.array([[1], [2]], np.int32)}, {"block": (256,)})


def of_mbarriers() -> Trial:
    """Two warps fill, and a third empties, three times."""
    a = np.random.default_rng(1).integers(-99, 99, (3, 64)).astype(np.int32)
    return Trial(MBARRIERS, {"A": a}, {"B": a[:, :32] - 2 * a[:, :31:-1]}, {"block": (96,)})


def of_another_cta() -> Trial:
    """A CTA waits until the other has come; who is who is the result."""
    return Trial(
        OF_ANOTHER_CTA, {}, {"B": np.repeat(np.array([0, 1, 0, 1], np.int32), 32)}, {"grid": (4,), "block": (32,)}
    )


def of_clusters() -> Trial:
    """Each of four CTAs reads what all of them hold."""
    a = np.random.default_rng(2).integers(-99, 99, (2, 4, 32)).astype(np.float32)
    wanted = np.stack([np.roll(a, -rank, axis=1)[:, :, ::-1] + a[:, rank, None] ** 2 for rank in range(4)], axis=1)
    return Trial(OF_CLUSTERS, {"A": a}, {"B": wanted}, {"grid": (8,), "block": (32,)})


def of_sent() -> Trial:
    """Each of four CTAs sends the others their rows; the last words of a row nobody has written."""
    a = np.random.default_rng(4).integers(-9, 9, (2, 4, 4, 8)).astype(np.float32)  # cluster, sender, row, column
    wanted = np.zeros((2, 4, 8), np.float32)
    for rank in range(4):
        wanted[:, rank] = a[:, rank, rank]
        for i in range(3):
            wanted[:, rank] = 3 * wanted[:, rank] + a[:, (rank + 1 + i) % 4, rank]
    return Trial(SENT, {"A": a}, {"B": wanted}, {"grid": (8,), "block": (64,)})


def of_sent_words() -> Trial:
    """Each thread of four CTAs sends those of its number its first four numbers, or its last."""
    # cluster, sender, thread, which, number
    a = np.random.default_rng(5).integers(-9, 9, (2, 4, 64, 2, 4)).astype(np.float32)
    wanted = a[:, :, :, 0].copy()
    for rank in range(4):
        for i in range(3):
            wanted[:, rank] = 3 * wanted[:, rank] + a[:, (rank + 1 + i) % 4, :, rank % 2]
    return Trial(SENT_WORDS, {"A": a}, {"B": wanted}, {"grid": (8,), "block": (64,)})


def of_words() -> Trial:
    """Each of four CTAs adds its own to what the one before it has found."""
    a = np.array([0xFFFFFFFF, 5, 0x80000000, 7], np.uint32)
    sums = np.cumsum(a, dtype=np.uint32)
    words = sums.astype(np.uint64) << np.uint64(32) | np.uint64(1)
    return Trial(
        WORDS, {"A": a}, {"words": words, "B": sums - a}, {"grid": (4,), "block": (32,), "cleared": ("words",)}
    )


def of_flags() -> Trial:
    """The same with values that are elsewhere."""
    a = np.array([0.5, -3, 1e300, 7])
    sums = np.cumsum(a)
    wanted = {"flags": np.ones(4, np.uint32), "held": sums, "B": np.insert(sums[:-1], 0, 0.0)}
    return Trial(FLAGS, {"A": a}, wanted, {"grid": (4,), "block": (32,), "cleared": ("flags",)})


def of_launches() -> Trial:
    """With nothing before and nothing after, no thread waits; `tests/gpu/test_early` has launches that follow one
    another."""
    a = np.random.default_rng(3).integers(-99, 99, 512).astype(np.int32)
    return Trial(
        OF_LAUNCHES,
        {"A": a},
        {"B": a.reshape(-1, 2)[:, ::-1].reshape(-1) + np.arange(512, dtype=np.int32)},
        {"grid": (4,)},
    )


TRIALS = {
    trial.__name__: trial
    for trial in (
        of_numbers,
        of_warpgroups,
        of_mbarriers,
        of_another_cta,
        of_clusters,
        of_sent,
        of_sent_words,
        of_words,
        of_flags,
        of_launches,
    )
}


@pytest.mark.parametrize("name", TRIALS)
@pytest.mark.parametrize("seed", range(1, 5))
def test_it_holds_in_any_order(name: str, seed: int) -> None:
    trial = TRIALS[name]()
    assert trial.differing(trial.on(SimDevice(seed)), trial.wanted) == []


@pytest.mark.parametrize(
    ("name", "good", "bad", "codes"),
    [
        ("of_numbers", "      named_barrier(1, 128);\n", "", {"E1753", "E1750"}),
        ("of_numbers", "      if (round > 0) named_barrier(2, 128);\n", "", {"E1750", "E1753"}),
        ("of_numbers", "named_barrier_arrive(1, 128)", "named_barrier_arrive(3, 128)", {"E1724"}),
        ("of_warpgroups", "1 + part", "1", {"E1753", "E1724", "E1750"}),
        ("of_mbarriers", "      mbarrier_wait(&full, round % 2);\n", "", {"E1753", "E1750"}),
        ("of_mbarriers", "mbarrier_init(&full, 64)", "mbarrier_init(&full, 65)", {"E1724"}),
        ("of_another_cta", "mbarrier_arrive_at(&come, 0)", "mbarrier_arrive_at(&come, 1)", {"E1724"}),
        ("of_clusters", "  cluster_arrive();\n  cluster_wait();\n}", "}", {"E1763"}),
        ("of_clusters", "  cluster_wait();\n  for", "  for", {"E1750", "E1753"}),
        ("of_clusters", "  cluster_arrive();\n  const", "  cluster_arrive();\n  held[t] += 1.0f;\n  const", {"E1753"}),
        ("of_sent", "  cluster_wait();\n  if", "  if", {"E1756", "E1753"}),
        ("of_sent", "  fence_async_proxy();\n", "", {"E1754"}),
        ("of_sent", "  __syncthreads();\n", "", {"E1753"}),
        ("of_sent", "mbarrier_expect(&joined, 3 * 48)", "mbarrier_expect(&joined, 2 * 48)", {"E1751", "E1750"}),
        ("of_sent", "mbarrier_expect(&joined, 3 * 48)", "mbarrier_expect(&joined, 4 * 48)", {"E1724"}),
        ("of_sent", "  mbarrier_wait(&joined, 0);\n", "", {"E1750", "E1751"}),
        ("of_sent", "  }\n  cluster_wait();\n}", "  }\n}", {"E1763"}),
        ("of_sent_words", "  cluster_wait();\n  if", "  if", {"E1756", "E1753"}),
        ("of_sent_words", "3 * 64 * 16", "2 * 64 * 16", {"E1751", "E1750"}),
        ("of_sent_words", "3 * 64 * 16", "4 * 64 * 16", {"E1724"}),
        ("of_sent_words", "  mbarrier_wait(&joined, 0);\n", "", {"E1750", "E1751", "E1763"}),
        ("of_sent_words", "address_in_cta(&joined, cta)", "address_in_cta(&joined, rank)", {"E1761"}),
        ("of_sent_words", "come[2 - i][t], cta", "come[2 - i][t] + 1, cta", {"E1761"}),
        ("of_sent", "come[i][t];", "come[i][t + 4];", {"E1750"}),
        ("of_sent", "sum = held[rank][t];", "sum = held[rank][t] + (held[(rank + 1) % 4][t] = 0.0f);", {"E1752"}),
    ],
)
def test_planted_faults_are_named(name: str, good: str, bad: str, codes: set[str]) -> None:
    trial = TRIALS[name]()
    assert good in trial.code
    found = set()
    for seed in range(4):
        try:
            replace(trial, code=trial.code.replace(good, bad)).on(SimDevice(seed, limit=20.0))
        except Refused as fault:
            found |= {d.code for d in fault.diags}
    assert found and found <= codes
