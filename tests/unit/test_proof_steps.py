"""What the check of a gpu text costs, in calls and in counted work (`kit.work`), with nothing remembered from before: a
proof that branches, or a question that is asked again, shows here first."""

from __future__ import annotations

import functools
import gc
from pathlib import Path
from typing import Any

import pytest

from tinyir import front
from tinyir.ir import gpu
from tinyir.kit import work
from tinyir.kit.records import replace
from tinyir.lower import cu as to_cuda
from tinyir.lower import lower_to

from .checked import check_gpu
from .effort import counted
from .test_models import SMALL

SAMPLES = Path(__file__).parents[2] / "samples"
KINDS = ("proofs", "systems", "pivots", "isl sets", "points listed")
LIMITS = {  # thousands of calls, and the counts of each kind, as they were
    "attention_causal": (556, 148, 2, 2, 9, 0),
    "attention_scores": (1860, 166, 25, 163, 21, 0),
    "blur_of_blur": (51, 18, 1, 3, 2, 0),
    "conv3x3_silu": (193, 97, 7, 70, 4, 0),
    "cumsum": (46, 18, 0, 0, 4, 0),
    "embedding": (20, 10, 2, 6, 2, 0),
    "gemm_bias_relu": (696, 129, 7, 29, 18, 0),
    "layernorm": (39, 20, 0, 0, 4, 0),
    "mlp": (287, 38, 0, 0, 12, 0),
    "resnet_block": (369, 97, 4, 9, 8, 195),
    "softmax": (59, 19, 0, 0, 0, 0),
}
NETWORKS = {
    "resnet": (1567, 308, 7, 30, 4, 39085),
    "bert": (595, 177, 0, 0, 4, 5821),
    "gpt2": (620, 154, 0, 0, 4, 5758),
    "vit": (665, 230, 2, 3, 4, 10934),
}


def forget() -> None:
    """Empties every cache of tinyir."""
    for thing in gc.get_objects():
        if isinstance(thing, functools._lru_cache_wrapper) and thing.__module__.startswith("tinyir."):
            thing.cache_clear()


def spent(module: Any) -> tuple[int, ...]:
    """Thousands of calls of functions, and the counts of each kind, to check a gpu module."""
    check_gpu(module)  # imports
    forget()
    before = dict(work.counts)
    calls, diags = counted(gpu.check, gpu.Module(module.plans, module.launches, module.buffers))
    assert diags == []
    return -(-calls // 1000), *(work.counts[kind] - before.get(kind, 0) for kind in KINDS)


def excess(found: tuple[int, ...], limit: tuple[int, ...]) -> dict[str, tuple[int, int]]:
    """What was found and what is allowed, where it is more by a quarter and by ten."""
    kinds = ("thousand calls", *KINDS)
    return {kind: (n, most) for kind, n, most in zip(kinds, found, limit) if n > most * 5 // 4 + 10}


def test_every_sample_has_a_limit() -> None:
    assert LIMITS.keys() == {folder.name for folder in SAMPLES.iterdir() if folder.is_dir()}


@pytest.mark.parametrize("name", LIMITS)
def test_a_check_keeps_within_its_limit(name: str) -> None:
    module = gpu.parse((SAMPLES / name / f"{name}.gpu").read_text(encoding="utf-8"))
    assert excess(spent(module), LIMITS[name]) == {}


def test_an_emission_asks_little() -> None:
    """Of an integer that may be long only what may be its limit is asked: its axis, or the divisor of a remainder that
    it is. Where the divisors of parts of a sum were asked too, which nothing shows, it took 685, 49 and 551."""
    module = gpu.parse((SAMPLES / "gemm_bias_relu" / "gemm_bias_relu.gpu").read_text(encoding="utf-8"))
    to_cuda.lower(module)  # imports
    forget()
    module = replace(module)
    before = dict(work.counts)
    calls, _ = counted(to_cuda.lower, module)
    systems, pivots = (work.counts[kind] - before.get(kind, 0) for kind in ("systems", "pivots"))
    assert calls <= 300_000 and systems <= 14 and pivots <= 60


def lowered(name: str) -> gpu.Module:
    """The kernels of a small network in fp16."""
    module = front.read(SMALL[name](dtype="fp16").text)
    for stage in ("index", "poly", "region", "plan", "gpu"):
        module = lower_to(stage, module, "sm90")
    return module


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_keeps_within_its_limit(name: str) -> None:
    assert excess(spent(lowered(name)), NETWORKS[name]) == {}
