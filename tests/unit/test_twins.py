"""The kernels of `twins` in the simulation, and that there is one for every PTX wrapper."""

from __future__ import annotations

import re
import shutil

import pytest

from tinyir.runtime.compile import cubin_of, find_nvcc, find_nvrtc
from tinyir.sim.host import COMPILERS
from tinyir.sim.launch import SimDevice
from tinyir.target.intrinsics import GUARDED

from .simulated import text_of
from .twins import PRODUCTS, TRIALS

QUICK_WIDTHS = (48, 64, 256)
SLOW = {name for n, trials in PRODUCTS.items() if n not in QUICK_WIDTHS for name in trials}


def test_every_wrapper_is_called_by_a_kernel() -> None:
    called = {word for trial in TRIALS.values() for word in re.findall(r"\w+", trial().code)}
    assert [item.name for item in GUARDED if item.name not in called] == []


def test_a_product_is_called_by_the_kernel_of_its_name() -> None:
    assert [
        name
        for trials in PRODUCTS.values()
        for name, trial in trials.items()
        if re.findall(r"wgmma_m64\w+", trial().code) != [name]
    ] == []


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in TRIALS]
)
def test_a_kernel_leaves_what_numpy_says(name: str) -> None:
    trial = TRIALS[name]()
    assert trial.differing(trial.on(SimDevice(limit=20.0)), trial.wanted) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", TRIALS)
def test_a_kernel_is_compiled_without_a_warning(name: str) -> None:
    compiler = find_nvrtc() or find_nvcc()
    if compiler is None:
        pytest.skip("no CUDA compiler is installed")
    log = cubin_of(text_of(TRIALS[name]().code), "sm_90a", compiler).log.lower()
    assert not any(word in log for word in ("warning", "serialized", "ignored"))
