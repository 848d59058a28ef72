"""The table of launches: each launch between its own events, rates and shares from its own counts."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tinyir
from tinyir.ir import manifest
from tinyir.kit.diag import Refused
from tinyir.runtime.profile import LaunchTime, profile, table_of
from tinyir.runtime.run import run
from tinyir.runtime.timeline import trace_of

from .fake_cuda import Machine, machine  # noqa: F401
from .test_api import LAYERS, arrays_of

TIMES = (
    LaunchTime("pad", 1e-6, 0, 0),
    LaunchTime("gemm", 8e-6, 8 * 10**9, 3 * 10**6),
    LaunchTime("l1", 1e-6, 0, 10**6),
)
TABLE = """\
launch       us  share  TFLOP/s    GB/s    op/B  limit  by
gemm       8.00  80.0%  1000.00     375  2666.7  50.0%  compute
pad        1.00  10.0%
l1         1.00  10.0%     0.00    1000     0.0  50.0%  memory
all       10.00
limit: 2000 GB/s below 1000 operations a byte (op/B), 2000 TFLOP/s above
"""


def test_the_table_shows_the_slowest_first() -> None:
    assert table_of(TIMES, 2000, 2000) == TABLE
    plain = table_of(TIMES).splitlines()
    assert plain == [line[: len("launch       us  share  TFLOP/s    GB/s")] for line in TABLE.splitlines()[:-1]]


def test_every_launch_has_its_own_time(machine: Machine) -> None:  # noqa: F811
    text = tinyir.compile(json.dumps(LAYERS, indent=1), device="cpu").text
    _, report = run(text, arrays_of(5), device="cuda", is_profiled=True)
    launches = manifest.parse(text).launches
    assert [t.name for t in report.launches] == [launch.name for launch in launches]
    assert [round(t.seconds * 1e6) for t in report.launches] == [len(launch.entry) for launch in launches]
    assert report.launches[0].flops == launches[0].flops.evaluate({"M": 5}) > 0
    assert report.launches[0].bytes == launches[0].bytes.evaluate({"M": 5}) > 0


def test_a_round_is_queued_behind_a_write_that_outlasts_the_queueing(machine: Machine) -> None:  # noqa: F811
    with tinyir.compile(
        json.dumps(LAYERS, indent=1), device="cuda", params={n: a for n, a in arrays_of(5).items() if n != "x"}
    ) as program:
        program(np.zeros((5, 20), np.float32))
        machine.calls.clear()
        held = program._session._programs[-1]
        profile(held)
        first = machine.names()[: machine.calls.count("synchronize") or 40]
        assert first[0] == "memset" and "synchronize" not in first[: first.index("launch")]


def test_what_has_no_gpu_refuses() -> None:
    text = tinyir.compile(json.dumps(LAYERS, indent=1), device="cpu").text
    for device in ("cpu", "sim"):
        with pytest.raises(Refused, match="--profile times a GPU"):
            run(text, arrays_of(5), device=device, is_profiled=True)


def test_a_timeline_has_copies_launches_and_waits(machine: Machine) -> None:  # noqa: F811
    text = tinyir.compile(json.dumps(LAYERS, indent=1), device="cpu").text
    _, report = run(text, arrays_of(5), device="cuda", is_traced=True)
    launches = manifest.parse(text).launches
    kinds = [(m.kind, m.track) for m in report.moments]
    assert kinds.count(("launch", "GPU")) == len(launches) and kinds.count(("wait", "host")) == 1
    assert kinds.count(("copy", "host")) == len(arrays_of(5)) + 1
    found = [m for m in report.moments if m.kind == "launch"]
    assert [round(m.microseconds) for m in found] == [len(launch.entry) for launch in launches]
    assert all(a.start + a.microseconds <= b.start + 1e-6 for a, b in zip(found, found[1:]))
    events = json.loads(trace_of(report.moments))["traceEvents"]
    assert {e["name"]: e["dur"] for e in events if e.get("cat") == "launch"} == {
        launch.name: len(launch.entry) for launch in launches
    }
    with pytest.raises(Refused, match="--timeline times a GPU"):
        run(text, arrays_of(5), device="cpu", is_traced=True)
