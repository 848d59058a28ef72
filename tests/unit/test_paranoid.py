"""`tinyc --paranoid` prints what `tinyc` prints, and refuses a lowering that changes a value, naming the stage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tinyir.cmd import chain, paranoid, tinyc
from tinyir.ir.pipeline import STAGES
from tinyir.kit.records import replace
from tinyir.lower import language_of

from ..golden.journey import samples, source_of, text_of
from .stages import needs_host_compiler

QUICK = ("softmax", "mlp", "conv3x3_silu")
EACH = [s if s.name in QUICK else pytest.param(s, marks=pytest.mark.slow) for s in samples()]
SAMPLE = next(s for s in samples() if s.name == "mlp")


@pytest.mark.parametrize("sample", EACH, ids=lambda s: s.name)
def test_every_sample_passes_with_the_same_text(sample: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert tinyc.main([str(source_of(sample)), "--paranoid"]) == 0
    assert capsys.readouterr().out == text_of(sample, "cu").read_text(encoding="utf-8")


@needs_host_compiler
@pytest.mark.parametrize("sample", [s for s in samples() if s.name == "softmax"], ids=lambda s: s.name)
def test_the_kernels_are_simulated_where_that_is_asked(sample: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert tinyc.main([str(source_of(sample)), "--paranoid=sim", "--time", "-o", "/dev/null"]) == 0
    steps = [line.split()[1] for line in capsys.readouterr().err.splitlines() if not line.startswith("tinyc    ")]
    assert steps.count("play") == len(STAGES) and steps.count("simulate") == 1


def faulty(wanted: str, change: Callable[[str], str]) -> Callable[..., Any]:
    """The lowering to a stage, whose text a change makes another that holds too."""
    right = chain.lowered

    def lowered(stage: str, *given: Any) -> Any:
        module = right(stage, *given)
        if stage != wanted:
            return module
        text = language_of(stage).show(module)
        assert change(text) != text
        return language_of(stage).parse(change(text))

    return lowered


def other_op(text: str) -> str:
    """A text with another op in a region."""
    return text.replace(" add(", " sub(", 1)


def test_a_lowering_that_changes_a_value_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(chain, "lowered", faulty("plan", other_op))
    assert tinyc.main([str(source_of(SAMPLE)), "--paranoid"]) == 1
    told = capsys.readouterr().err
    assert "E1481" in told and " in tiny and " in told and " in plan;" in told


@pytest.mark.parametrize("arguments", [[], ["--paranoid"]])
def test_a_region_that_changes_a_value_is_a_fault_of_ours(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # where nobody has asked of this model before
    monkeypatch.setattr(chain, "lowered", faulty("region", other_op))
    small = next(s for s in samples() if s.name == "gemm_bias_relu")  # whose symbols are small, so that it is played
    assert tinyc.main([str(source_of(small)), *arguments]) == 70
    assert "E1414" in capsys.readouterr().err


def test_a_text_that_reads_back_otherwise_is_a_fault_of_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def language(stage: str) -> Any:
        right = language_of(stage)
        return replace(right, show=lambda module: right.show(module).replace("model mlp", "model mlq", 1))

    monkeypatch.setattr(paranoid, "language_of", language)
    assert tinyc.main([str(source_of(SAMPLE)), "--paranoid"]) == 70
    assert "the tiny text reads back as another module" in capsys.readouterr().err


def test_sizes_are_small_unless_they_are_stated(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [str(source_of(SAMPLE)), "--emit=tiny", "-o", "/dev/null", "--paranoid"]
    assert tinyc.main([*arguments, "--size=M=9"]) == 0
    assert tinyc.main([*arguments, "--size=Q=9"]) == 1
    assert "E1714" in capsys.readouterr().err
    with pytest.raises(SystemExit) as usage:
        tinyc.main([*arguments[:-1], "--size=M=9"])
    assert usage.value.code == 2 and "only --paranoid" in capsys.readouterr().err
