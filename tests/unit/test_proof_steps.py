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
from tinyir.lower import lower_to

from .checked import check_gpu
from .effort import counted
from .test_models import SMALL

SAMPLES = Path(__file__).parents[2] / "samples"
KINDS = ("proofs", "systems", "pivots", "isl sets", "points listed")
LIMITS = {  # thousands of calls, and the counts of each kind, as they were
    "attention_causal": (524, 146, 2, 2, 11, 0),
    "attention_scores": (1810, 162, 25, 163, 23, 0),
    "blur_of_blur": (52, 18, 1, 3, 2, 0),
    "conv3x3_silu": (194, 58, 7, 38, 13, 1_626_371),
    "cumsum": (49, 7, 0, 0, 3, 0),
    "embedding": (20, 10, 2, 6, 2, 0),
    "gemm_bias_relu": (565, 129, 7, 29, 23, 0),
    "layernorm": (33, 16, 0, 0, 3, 0),
    "mlp": (299, 38, 0, 0, 18, 0),
    "resnet_block": (411, 82, 7, 38, 15, 1_626_371),
    "softmax": (55, 15, 0, 0, 0, 0),
}
NETWORKS = {
    "resnet": (1694, 264, 7, 30, 23, 69237),
    "bert": (553, 170, 0, 0, 13, 7056),
    "gpt2": (715, 172, 0, 0, 11, 8793),
    "vit": (744, 234, 2, 3, 15, 15744),
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


def lowered(name: str) -> gpu.Module:
    """The kernels of a small network in fp16."""
    module = front.read(SMALL[name](dtype="fp16").text)
    for stage in ("index", "poly", "region", "plan", "gpu"):
        module = lower_to(stage, module, "sm90")
    return module


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_keeps_within_its_limit(name: str) -> None:
    assert excess(spent(lowered(name)), NETWORKS[name]) == {}
