"""A text that a filter has checked and printed is not checked again by the next; any other is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tinyir.ir import gpu, plan
from tinyir.kit import held, work
from tinyir.kit.kept import place_of
from tinyir.lower import CONFIRMED

from ..commands import ROOT, run_in_shell
from .effort import counted

SAMPLE = ROOT / "samples" / "mlp" / "mlp"
PIPE = "tiny-front {0}.json | tiny-index | tiny-poly | tiny-region | tiny-plan | tiny-gpu | tiny-cu"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_a_text_is_known_by_every_character() -> None:
    held.mark("a text\n")
    assert held.is_marked("a text\n")
    assert not held.is_marked("a text") and not held.is_marked("a text \n")


def test_other_code_checks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    held.mark("a text")
    monkeypatch.setattr(held, "code", lambda: "other")
    assert not held.is_marked("a text")


def test_the_marks_stay_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "MOST_BYTES", 1000)
    for n in range(100):
        held.mark(str(n))
    assert held.is_marked("99") and not held.is_marked("0")
    assert place_of("held").stat().st_size < 1200


def test_what_is_no_mark_is_none() -> None:
    assert not held.is_marked("a text")
    place_of("held").write_bytes(b"\xff\x00 damaged")
    assert not held.is_marked("a text")
    held.mark("a text")
    held.mark("other")
    assert held.is_marked("other")


def steps(said: bytes, command: str) -> list[str]:
    """The steps that `--time` names for a command, those inside of others left out."""
    lines = [line.decode() for line in said.splitlines() if line.startswith(command.encode() + b"  ")]
    return [line[len(command) + 2 :].split("  ")[0].strip() for line in lines if line[len(command) + 2] != " "]


def test_the_pipe_checks_each_text_once() -> None:
    timed = PIPE.format(SAMPLE).replace(" |", " --time |") + " --time"
    done = run_in_shell(timed)
    assert done.out == (SAMPLE.parent / "mlp.cu").read_bytes()
    for command in ("tiny-index", "tiny-poly", "tiny-region", "tiny-plan", "tiny-gpu", "tiny-cu"):
        stage = command.removeprefix("tiny-")
        wanted = ["parse", "held", "lower", f"check {stage}", "show"]
        found = steps(done.err, command)
        assert found[:5] == wanted and found[5:] in ([], ["confirm"][: stage in CONFIRMED]), done.err.decode()
    again = run_in_shell(f"tiny-front {SAMPLE}.json | tiny-index --time")
    assert "confirm" not in steps(again.err, "tiny-index")  # this book was asked of isl before


def test_an_edited_text_is_checked() -> None:
    run_in_shell(f"tiny-gpu {SAMPLE}.plan -o /dev/null")
    text = (SAMPLE.parent / "mlp.gpu").read_text(encoding="utf-8")
    edited = text.replace("\n  barrier cta\n", "\n", 1)
    edited = edited if edited != text else text.replace("let m0 = ", "let m0 = 1 + ", 1)
    assert edited != text
    done = run_in_shell("tiny-cu --time", edited.encode())
    assert b"E16" in done.err or steps(done.err, "tiny-cu")[:4] == ["parse", "held", "check gpu", "validate gpu"]


def test_a_module_is_checked_once_in_one_process() -> None:
    module = gpu.parse((SAMPLE.parent / "mlp.gpu").read_text(encoding="utf-8"))
    first, found = counted(plan.check, module.plans)
    again, nothing = counted(plan.check, module.plans)
    assert found == nothing == [] and again < 20 < first
    other = plan.Module(module.plans.program, module.plans.plans)  # equal, and another object
    assert counted(plan.check, other)[0] > 20


def test_a_fault_is_told_each_time() -> None:
    module = plan.parse((SAMPLE.parent / "mlp.plan").read_text(encoding="utf-8"))
    wrong = plan.Module(module.program, module.plans[:1])
    assert [d.code for d in plan.check(wrong)] == [d.code for d in plan.check(wrong)] != []


def test_nothing_is_said_where_nobody_asks() -> None:
    before = dict(work.counts)
    assert run_in_shell(f"tiny-cu {SAMPLE}.gpu").err == b""
    assert before == dict(work.counts)
