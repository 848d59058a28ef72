"""tinyc prints what the filters print, byte for byte, and dumps any stage."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tinyir.cmd import tinyc
from tinyir.ir.pipeline import STAGES

from ..commands import run_in_shell

ROOT = Path(__file__).resolve().parents[2]
FILTERS_TO_PLAN = ("tiny-index", "tiny-poly", "tiny-region", "tiny-plan")
SAMPLE = ROOT / "samples" / "gemm_bias_relu" / "gemm_bias_relu.json"


def committed(stage: str) -> str:
    return SAMPLE.with_suffix(f".{stage}").read_text(encoding="utf-8")


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_has_the_bytes_of_the_filters(stage: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert tinyc.main([str(SAMPLE), "--emit", stage]) == 0
    assert capsys.readouterr().out == committed(stage)


def test_the_pipe_has_the_bytes_of_tinyc() -> None:
    environment = {**os.environ, "PATH": f"{ROOT / 'bin'}:{os.environ['PATH']}"}
    line = (
        f"set -o pipefail; tiny-front < {SAMPLE} | tiny-index | tiny-poly | tiny-region | tiny-plan | tiny-gpu | "
        f"tiny-cu"
    )
    done = subprocess.run(["bash", "-c", line], capture_output=True, env=environment, check=True, timeout=60)
    assert done.stdout.decode() == committed("cu") and done.stderr == b""


def test_it_takes_up_at_any_stage(capsys: pytest.CaptureFixture[str]) -> None:
    assert tinyc.main([str(SAMPLE.with_suffix(".region")), "--emit", "gpu"]) == 0
    assert capsys.readouterr().out == committed("gpu")
    assert tinyc.main([str(SAMPLE.with_suffix(".plan")), "--emit", "tiny"]) == 1


def test_dumps_by_the_seed_s_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dumps = "frontend,tiny,indexbook,poly_view,region,plan,gpu,cu"
    assert tinyc.main([str(SAMPLE), f"--dump={dumps}", f"--dump-dir={tmp_path}", "-o", os.devnull]) == 0
    assert sorted(f.suffix[1:] for f in tmp_path.iterdir()) == sorted(["json", *STAGES])
    for stage in STAGES:
        assert (tmp_path / f"gemm_bias_relu.{stage}").read_text(encoding="utf-8") == committed(stage)
    with pytest.raises(SystemExit) as usage:
        tinyc.main(["--dump=everything"])
    assert usage.value.code == 2


FUSABLE = """tinyir 1.0 tiny

model m
  in  x : fp32[M, N]
  out y : fp32[M, N]

  %a = RELU(x) : fp32[M, N]
  %f = FLIP(%a) {axes=[0]} : fp32[M, N]
  %y = ADD(%a, %f) : fp32[M, N]

outputs: %y
"""
OPTIONS = {  # of tinyc, and the filter that has it too
    "--must-fuse a,y": "tiny-region",
    "--distribute": "tiny-region",
    "--device a100 --arch sm80": "tiny-plan",
    "--math tf32": "tiny-plan",
    "--atomics unordered": "tiny-plan",
}


@pytest.mark.parametrize("option", OPTIONS)
def test_it_takes_the_options_of_the_filters(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "m.tiny"
    source.write_text(FUSABLE, encoding="utf-8")
    code = tinyc.main([str(source), "--emit", "plan", *option.split()])
    given = capsys.readouterr()
    pipe = " | ".join(f"{name} {option if name == OPTIONS[option] else ''}" for name in FILTERS_TO_PLAN)
    done = run_in_shell(pipe, FUSABLE.encode())
    assert (given.out, code) == (done.out.decode(), 0 if done.out else 1)
    if code:
        assert "E1422" in given.err and b"E1422" in done.err
