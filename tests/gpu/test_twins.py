"""Each wrapper on a GPU of compute capability 9.0 against its twin: the same kernels, the same bits."""

from __future__ import annotations

import pytest

from tests.unit import test_tf32_wgmma as tf32_wgmma
from tests.unit.simulated import launched, simulate
from tests.unit.twins import TRIALS
from tinyir.runtime.cuda import CudaDevice, find_fault
from tinyir.sim.launch import SimDevice


def _why_not() -> str | None:
    fault = find_fault()
    if fault is not None:
        return fault
    device = CudaDevice()
    try:
        return (
            None if device.capability == (9, 0) and device.takes_maps() else f"{device.description} has no such units"
        )
    finally:
        device.release()


REASON = _why_not()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(REASON is not None, reason=f"no GPU: {REASON}")]


def agree(code: str, inputs: dict, outputs: dict, **how) -> None:
    """The same kernel on both."""
    given = launched(CudaDevice(), code, inputs, outputs, **how)
    wanted = simulate(code, inputs, outputs, **how)
    for name in outputs:
        assert given[name].tobytes() == wanted[name].tobytes()


@pytest.mark.parametrize("name", TRIALS)
def test_both_give_the_same(name: str) -> None:
    trial = TRIALS[name]()
    assert trial.differing(trial.on(CudaDevice()), trial.on(SimDevice(limit=20.0))) == []


def test_the_copy_engine_rounds() -> None:
    arrays, how = tf32_wgmma.rounded()
    agree(tf32_wgmma.ROUNDED, *arrays, **how)
