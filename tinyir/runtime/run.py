"""Run an emitted text on arrays: on a GPU, as CPU playback of the program it carries, or as simulation of its CUDA
text."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..ir import manifest
from ..kit.diag import Diag, refuse, refuse_all
from ..kit.phrase import Phrase
from ..kit.records import dataclass, replace
from .abi import admit
from .bench import Timing, measure
from .check import ATOL, RTOL, Difference, compare
from .cuda import CudaDevice, find_fault
from .device import Device
from .profile import LaunchTime, profile
from .program import Program
from .timeline import Moment, timeline


@dataclass(frozen=True, slots=True)
class Report:
    """How a run went. `device` is where it ran (cuda, cpu, sim) and `description` says so in words; `seconds` is its
    wall time without compiling; `differences` are those from playback, `timing` of the whole, `launches` of each launch
    and `moments` of one run where they were asked for; `notes` are remarks for the user."""

    device: str
    description: str
    sizes: Mapping[str, int]
    seconds: float
    differences: tuple[Difference, ...] = ()
    timing: Timing | None = None
    launches: tuple[LaunchTime, ...] = ()
    moments: tuple[Moment, ...] = ()
    notes: tuple[Diag, ...] = ()


def run(
    text: str,
    arrays: Mapping[str, Any],
    device: str = "auto",
    check: bool = False,
    bench: bool = False,
    is_profiled: bool = False,
    is_traced: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
    limit: float = 0.0,
    module: manifest.Module | None = None,
    symbols: Mapping[str, int] | None = None,
    see: Callable[[Mapping[str, np.ndarray]], None] | None = None,
) -> tuple[dict[str, np.ndarray], Report]:
    """The outputs by name, and the report. `auto` takes a GPU where one can be used, else playback, with remark R3701.

    `check` compares with playback: within a tolerance that is stated, else within RTOL, ATOL and what roundings on the
    way do. `bench` times the program on a GPU, `is_profiled` each of its launches, and `is_traced` tells one run moment
    by moment; `seed` shuffles the simulation's threads (0: in order); a launch is given up after `limit` seconds (0:
    never). `module` saves parsing where the caller has it, checked; `symbols` are sizes that no array settles; `see`
    gets the outputs before they are compared. Raises Refused with every fault: E17xx, and E1731 where `check` finds a
    difference.
    """
    module = module or _checked(text)
    reason = find_fault() if device in ("auto", "cuda") else None
    asked = [
        word
        for word, is_asked in (("--bench", bench), ("--profile", is_profiled), ("--timeline", is_traced))
        if is_asked
    ]
    if reason is not None and (device == "cuda" or asked):
        raise refuse("E1718", reason=reason)
    if asked and device in ("cpu", "sim"):
        raise refuse(
            "E1718",
            reason=Phrase(
                "{bench} times a GPU, and the device asked for is {device}",
                bench=asked[0],
                device=device,
            ),
        )
    notes: tuple[Diag, ...] = ()
    chosen = device
    if device == "auto":
        chosen = "cpu" if reason else "cuda"
        notes = (Diag("R3701", facts={"reason": reason}),) if reason else ()
    sizes, inputs = admit(module.region.model, arrays, symbols)
    if chosen == "cpu":
        outputs, report = _play(module, arrays, sizes)
    else:
        outputs, report = _launch(chosen, text, module, sizes, inputs, (bench, is_profiled, is_traced), seed, limit)
    if see is not None:
        see(outputs)
    differences: tuple[Difference, ...] = ()
    if check and chosen == "cpu":
        notes += (Diag("R3702"),)
    elif check:
        is_stated = rtol is not None or atol is not None
        differences = compare(
            outputs,
            _play(module, arrays, sizes)[0],
            RTOL if rtol is None else rtol,
            ATOL if atol is None else atol,
            None if is_stated else lambda: _spread(module, arrays, sizes),
        )
        wrong = [d for difference in differences if (d := difference.diag()) is not None]
        refuse_all(wrong)
    return outputs, replace(report, differences=differences, notes=notes)


def _checked(text: str) -> manifest.Module:
    module = manifest.parse(text)
    faults = [d for d in manifest.check(module) if d.is_error]
    refuse_all(faults)
    return module


def _play(
    module: manifest.Module, arrays: Mapping[str, Any], sizes: Mapping[str, int]
) -> tuple[dict[str, np.ndarray], Report]:
    from ..play.region import play

    start = time.perf_counter()
    outputs = play(module.region, arrays, sizes)
    return outputs, Report("cpu", Phrase("CPU playback with NumPy"), sizes, time.perf_counter() - start)


def _spread(module: manifest.Module, arrays: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    from ..play.roundings import spread_of

    return spread_of(module.region, arrays, sizes)


def _launch(
    chosen: str,
    text: str,
    module: manifest.Module,
    sizes: Mapping[str, int],
    inputs: Mapping[str, np.ndarray],
    asked: tuple[bool, bool, bool],
    seed: int,
    limit: float,
) -> tuple[dict[str, np.ndarray], Report]:
    is_timed, is_profiled, is_traced = asked
    if chosen == "sim":
        from ..sim.launch import SimDevice

        device: Device = SimDevice(seed, limit)
    else:
        device = CudaDevice(limit=limit)
    try:
        program = Program(device, text, module, sizes)
        start = time.perf_counter()
        program.upload(inputs)
        program.run()
        outputs = program.outputs()
        seconds = time.perf_counter() - start
        timing = (
            measure(device, len(program.launches), program.enqueue, program.flops(), program.bytes())
            if is_timed
            else None
        )
        launches = profile(program) if is_profiled else ()
        moments = timeline(program, inputs) if is_traced else ()
        return outputs, Report(chosen, device.description, sizes, seconds, (), timing, launches, moments)
    finally:
        device.release()
