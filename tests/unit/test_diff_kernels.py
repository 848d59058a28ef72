"""`tiny-check --diff` of texts that contain kernels: they are simulated, or the result says that none ran."""

from __future__ import annotations

from pathlib import Path

from tests.commands import run_line

from .stages import needs_host_compiler

ROOT = Path(__file__).resolve().parents[2]
GEMM = "samples/gemm_bias_relu/gemm_bias_relu"
DIFF = f"tiny-check --data tests/golden/check/integers.npz --diff {GEMM}.tiny {GEMM}.gpu"


@needs_host_compiler
def test_a_text_with_kernels_is_simulated_when_it_is_compared() -> None:
    done = run_line(DIFF, b"")
    assert done.code == 0 and b"gemm_bias_relu.gpu simulated" in done.out


@needs_host_compiler
def test_a_kernel_that_computes_something_else_is_told_apart(tmp_path: Path) -> None:
    text = (ROOT / f"{GEMM}.gpu").read_text(encoding="utf-8")
    changed = text.replace("%relu = relu(%bias_add)", "%relu = abs(%bias_add)")
    assert changed != text
    (tmp_path / "wrong.gpu").write_text(changed, encoding="utf-8")
    done = run_line(f"{DIFF.rsplit(' ', 1)[0]} {tmp_path}/wrong.gpu", b"")
    assert done.code == 1 and b"E1481" in done.err


def test_playback_says_that_no_kernel_ran() -> None:
    done = run_line(DIFF.replace("--diff", "--device cpu --diff"), b"")
    assert done.code == 0 and b"the kernels of gemm_bias_relu.gpu were not run" in done.out
