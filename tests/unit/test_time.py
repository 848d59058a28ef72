"""`--time` names every step, with what was counted in it; on a terminal a command that takes long says what it does."""

from __future__ import annotations

import io
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tinyir.kit import progress, work

from ..commands import ROOT, run_in_shell, run_line

SAMPLE = ROOT / "samples" / "mlp" / "mlp"


def rows(said: bytes) -> dict[str, tuple[int, float, str]]:
    """Step -> how deep it is, its milliseconds, its counts; the first of a name."""
    found: dict[str, tuple[int, float, str]] = {}
    for line in said.decode().splitlines():
        command, _, rest = line.partition("  ")
        step, _, after = rest.strip().partition("  ")
        taken, _, counted = after.strip().partition(" ms")
        found.setdefault(step, ((len(rest) - len(rest.lstrip())) // 2, float(taken), counted.strip()))
    return found


def test_the_table_names_stages_checks_and_counts() -> None:
    done = run_in_shell(f"tinyc --time {SAMPLE}.json -o /dev/null")
    found = rows(done.err)
    stages = ["front", "index", "poly", "region", "plan", "gpu", "cu"]
    assert [step for step in found if step in stages] == stages
    assert {"check tiny", "check plan", "check gpu", "show", "guards", "bounds (2)", "writes"} <= found.keys()
    assert "kernels checked 2" in found["check gpu"][2] and "isl sets" in found["writes"][2]
    assert found["gpu"][0] < found["guards"][0] and found["check gpu"][0] < found["bounds (2)"][0]


def test_a_step_takes_as_long_as_what_is_in_it() -> None:
    found = rows(run_in_shell(f"tiny-gpu --time {SAMPLE}.plan -o /dev/null").err)
    inner = sum(taken for step, (depth, taken, _) in found.items() if step in ("kernel (2)", "writes", "plans"))
    assert inner <= found["check gpu"][1]


def test_the_trace_is_chromes(tmp_path: Path) -> None:
    target = tmp_path / "trace.json"
    for line in ("--time=trace {} {}", "{1} --time=trace {0}", "--time trace {} {}", "{1} --time trace {0}"):
        done = run_in_shell("tiny-gpu " + line.format(target, f"{SAMPLE}.plan"))
        assert done.out.startswith(b"tinyir") and done.err == b""
        events = json.loads(target.read_text(encoding="utf-8"))["traceEvents"]
        assert {e["ph"] for e in events} == {"X"} and all(e["ts"] >= 0 and e["dur"] >= 0 for e in events)
        assert {"parse", "lower", "kernel up", "kernel down", "bounds"} <= {e["name"] for e in events}
        whole = next(e for e in events if e["name"] == "check gpu")
        assert whole["args"]["kernels checked"] == 2
        target.unlink()


def test_a_file_called_trace_is_the_text(tmp_path: Path) -> None:
    shutil.copy(f"{SAMPLE}.plan", tmp_path / "trace")
    assert run_in_shell(f"cd {tmp_path} && tiny-opt --time trace").out.startswith(b"tinyir")


def test_what_time_does_not_take_is_a_fault_of_use() -> None:
    assert run_in_shell(f"tiny-gpu --time=chart {SAMPLE}.plan").code == 2
    for form in ("--time=trace", "--time trace", "--time trace --diag=json"):
        refused = run_in_shell(f"tiny-gpu {SAMPLE}.plan {form}")
        assert refused.code == 2 and b"trace FILE" in refused.err.splitlines()[-1]
    refused = run_in_shell(f"tiny-gpu {SAMPLE}.plan -o /dev/null --time=trace /no/such/folder/trace.json")
    assert refused.code == 1 and b"E0009" in refused.err


def test_the_file_behind_time_is_the_text() -> None:
    assert run_line(f"tiny-opt --time {SAMPLE}.plan").out == (SAMPLE.parent / "mlp.plan").read_bytes()


def test_spans_are_kept_only_for_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "_kept", None)
    with work.span("step", "thing"):
        assert work.now()[-1] == "step thing"
    assert work.table("command") == []
    work.keep_spans()
    for of in "ab":
        with work.span("outer"), work.span("step", of):
            work.count("things")
    assert [line.split("  ")[1:2] for line in work.table("command")] != []
    assert [s.grown for s in work._kept or ()] == [{"things": 1}] * 4
    work.counts.pop("things")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def watched(stream: Any, monkeypatch: pytest.MonkeyPatch, seconds: float) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "AFTER", 0.05)
    monkeypatch.setattr(progress, "EVERY", 0.02)
    with progress.watching("tiny-gpu"), work.span("check gpu"), work.span("kernel", "gemm"):
        end = time.monotonic() + seconds
        while time.monotonic() < end and "gemm" not in stream.getvalue():
            time.sleep(0.02)
    return stream.getvalue()


def test_a_terminal_is_told_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "tiny-gpu: check gpu, kernel gemm" in watched(Terminal(), monkeypatch, 20)


def test_a_pipe_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert watched(io.StringIO(), monkeypatch, 0.3) == ""


def test_what_is_quick_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress.watching("tiny-gpu"):
        pass
    assert stream.getvalue() == ""
