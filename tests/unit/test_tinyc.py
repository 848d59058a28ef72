"""tinyc prints what the filters print, byte for byte, and dumps any stage."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tinyir.cmd import tinyc
from tinyir.ir.pipeline import STAGES

ROOT = Path(__file__).resolve().parents[2]
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
