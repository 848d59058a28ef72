"""What the check of a sample's gpu text costs, in calls and in sets asked of isl, with nothing remembered from before:
a proof that branches shows here first."""

from __future__ import annotations

import functools
import gc
from pathlib import Path

import pytest

from tinyir.ir import gpu
from tinyir.ir.gpu import linear

from .checked import check_gpu
from .effort import counted

SAMPLES = Path(__file__).parents[2] / "samples"
LIMITS = {  # thousands of calls, sets asked of isl: a quarter more calls than were counted
    "attention_causal": (772, 2),
    "attention_scores": (3522, 25),
    "blur_of_blur": (76, 1),
    "conv3x3_silu": (360, 7),
    "cumsum": (28, 0),
    "embedding": (30, 2),
    "gemm_bias_relu": (1178, 7),
    "layernorm": (60, 0),
    "mlp": (504, 0),
    "resnet_block": (972, 7),
    "softmax": (120, 0),
}


def forget() -> None:
    """Empties every cache of tinyir."""
    for thing in gc.get_objects():
        if isinstance(thing, functools._lru_cache_wrapper) and thing.__module__.startswith("tinyir."):
            thing.cache_clear()


def spent(name: str) -> tuple[int, int]:
    """Calls of functions, and sets asked of isl, to check a sample's gpu text."""
    module = gpu.parse((SAMPLES / name / f"{name}.gpu").read_text(encoding="utf-8"))
    check_gpu(module)  # imports
    forget()
    calls, diags = counted(gpu.check, module)
    assert diags == []
    return calls, linear._is_empty.cache_info().misses


def test_every_sample_has_a_limit() -> None:
    assert LIMITS.keys() == {folder.name for folder in SAMPLES.iterdir() if folder.is_dir()}


@pytest.mark.parametrize("name", LIMITS)
def test_a_check_keeps_within_its_limit(name: str) -> None:
    calls, sets = spent(name)
    most_calls, most_sets = LIMITS[name]
    assert calls <= most_calls * 1000, "more calls: what is asked again that was asked before?"
    assert sets <= most_sets
