"""Faults of a GPU: each names its kernel and says whether the GPU can be used afterwards, and that is so."""

from __future__ import annotations

import json
from typing import Any

import pytest

import tinyir
from tinyir.kit.diag import Diag, Refused
from tinyir.runtime import cuda

from .fake_cuda import Machine, machine  # noqa: F401
from .test_api import LAYERS, arrays_of
from .test_bindings import Bindings, bindings  # noqa: F401

X = arrays_of(7)["x"]
WEIGHTS = {n: a for n, a in arrays_of(7).items() if n != "x"}


@pytest.fixture
def program(machine: Machine) -> Any:  # noqa: F811
    """A program of several launches on a card of paper."""
    with tinyir.compile(json.dumps(LAYERS), device="cuda", params=WEIGHTS) as made:
        yield made


def refusal(program: Any) -> Diag:
    with pytest.raises(Refused) as fault:
        program(X)
    (diag,) = fault.value.diags
    return diag


def first_kernel(program: Any) -> str:
    return program._session.module.launches[0].entry


def test_an_illegal_address_ends_all_use_of_the_gpu(machine: Machine, program: Any) -> None:  # noqa: F811
    machine.is_lost = True
    device = program._session._device
    with pytest.raises(Refused) as fault, device.refusing("k"):
        device.wait("k")
    (diag,) = fault.value.diags
    assert (diag.code, diag.facts["kernel"]) == ("E1730", "k") and "cannot use the GPU any more" in diag.why()
    later = refusal(program)
    assert (later.code, later.facts["kernel"]) == ("E1734", "k") and diag.facts["reason"] in later.why()
    with pytest.raises(Refused, match="E1734 at k"):
        tinyir.compile(json.dumps(LAYERS), device="cuda", params=WEIGHTS)


def test_the_kernel_of_the_first_run_is_named(machine: Machine, program: Any) -> None:  # noqa: F811
    launched = machine.launch

    def launch(*given: Any) -> None:
        launched(*given)
        machine.is_lost = True

    machine.launch = launch
    diag = refusal(program)
    assert (diag.code, diag.at) == ("E1730", first_kernel(program))


def test_other_faults_leave_the_gpu_as_it_was(machine: Machine, program: Any) -> None:  # noqa: F811
    program(X), program(X)
    machine.faults["cuGraphLaunch"] = 1
    diag = refusal(program)
    assert diag.code == "E1730" and "the GPU can be used as before" in diag.why()
    assert diag.facts["kernel"].startswith("one of ") and first_kernel(program) in diag.facts["kernel"]
    machine.faults.clear()
    assert program(X)["p"].shape == (7, 10)


def test_without_memory_the_gpu_can_be_used(machine: Machine, program: Any) -> None:  # noqa: F811
    machine.room = 1000
    diag = refusal(program)
    assert diag.code == "E1717" and diag.facts["size"] > 1000
    machine.room = 1 << 40
    assert program(X)["p"].shape == (7, 10)


def test_a_kernel_without_an_end_is_given_up(machine: Machine, program: Any) -> None:  # noqa: F811
    device = program._session._device
    device.limit, machine.is_stuck = 0.01, True
    diag = refusal(program)
    assert (diag.code, diag.at, diag.facts["limit"]) == ("E1735", first_kernel(program), 0.01)
    assert refusal(program).code == "E1734"
    living = set(machine.living)
    program.close()
    assert machine.living == living, "what frees memory would wait for the kernel"


def test_a_launch_with_a_limit_ends_as_any_other(machine: Machine, program: Any) -> None:  # noqa: F811
    program._session._device.limit = 60.0
    assert program(X)["p"].shape == (7, 10)
    assert "synchronize" not in machine.names()


def test_cuda_bindings_tell_what_has_not_ended(bindings: Bindings, machine: Machine) -> None:  # noqa: F811
    stream = cuda.driver_module().Stream()
    assert stream.is_done()
    bindings.fails["cuStreamQuery"] = 600
    assert not stream.is_done()
    bindings.fails["cuStreamQuery"] = 700
    with pytest.raises(cuda.driver_module().Error):
        stream.is_done()


@pytest.mark.parametrize("what", ["bench", "profile"])
def test_a_fault_while_a_program_is_timed_is_told(machine: Machine, program: Any, what: str) -> None:  # noqa: F811
    from tinyir.runtime.bench import measure
    from tinyir.runtime.profile import profile

    program(X)
    inner = program._session._programs[-1]
    machine.faults["cuGraphLaunch"], launched = 700, machine.launch

    def launch(*given: Any) -> None:
        launched(*given)
        machine.is_lost = True

    machine.launch = launch
    with pytest.raises(Refused) as fault:
        if what == "bench":
            measure(inner.device, len(inner.launches), inner.enqueue, None, None)
        else:
            profile(inner)
    assert [d.code for d in fault.value.diags] == ["E1730"]
