"""tiny-check --proofs and --diff: what is said, and that it is true."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.models import bert
from tinyir.analysis.proofs import proofs_of
from tinyir.cmd.tiny_check import main
from tinyir.front.json import read
from tinyir.ir import region, tiny
from tinyir.ir.body import Binary, Literal
from tinyir.ir.present import axes_of_values
from tinyir.ir.prove_region import obligations_of
from tinyir.lower import lower_to

from .graphs import random_graph
from .stages import needs_host_compiler

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "samples" / "gemm_bias_relu" / "gemm_bias_relu"
SIZES = ["--size", "M=9", "--size", "N=33", "--size", "K=17"]


def lowered(seed: int) -> region.Module:
    module, _ = random_graph(seed)
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    return module


@pytest.mark.parametrize("seed", range(40))
def test_what_is_shown_isl_shows_too(seed: int) -> None:
    """Whatever short cut showed it, isl's own answer, which is what is printed, agrees."""
    module = lowered(seed)
    text = proofs_of(module)
    assert (
        "open" not in text
        and " holds " not in text.replace("holds every", "")
        and "not injective" not in text
        and "are not" not in text
        and "is not" not in text
    )
    reads = sum(o.bound is not None for r in module.program.regions for o in obligations_of(module, r))
    writes = sum(len(r.outputs) for r in module.program.regions)
    shown = int(re.search(r"(\d+) obligations, \1 shown", text)[1])
    assert shown >= reads + 2 * writes


def test_what_is_open_is_named_with_a_point_at_which_it_fails() -> None:
    text = SAMPLE.with_suffix(".region").read_text(encoding="utf-8")
    module = region.parse(
        text.replace("A[i0, k0]", "A[i0, k0 + 1]").replace(
            "reduce sum (k0: K) : fp32", "reduce sum (k0: K) from 1.0 : fp32"
        )
    )
    said = proofs_of(module)
    assert "    open   it starts at 1.0, the neutral element of sum; 0.0 is\n" in said
    point = dict(
        part.split("=")
        for part in re.search(r"    open   0 <= k0 \+ 1 < K\n.*is empty\n.* holds (.*)\n", said)[1].split(", ")
    )
    assert int(point["k0"]) + 1 >= int(point["K"])


@pytest.mark.parametrize("stage", ["tiny", "index", "poly", "region", "plan", "gpu", "cu"])
def test_a_journey_gives_the_same_at_each_stage(stage: str, capsys: pytest.CaptureFixture) -> None:
    assert main([*SIZES, "--diff", str(SAMPLE.with_suffix(".tiny")), str(SAMPLE.with_suffix(f".{stage}"))]) == 0
    assert capsys.readouterr().out.startswith("same  ")


@needs_host_compiler
def test_what_a_text_becomes_is_simulated(capsys: pytest.CaptureFixture) -> None:
    assert (
        main([*SIZES, "--device", "sim", "--diff", str(SAMPLE.with_suffix(".plan")), str(SAMPLE.with_suffix(".cu"))])
        == 0
    )
    assert capsys.readouterr().out.startswith("same  1 value  ")


CHAIN = """tinyir 1.0 tiny

model m
  in  x : fp32[3, N]
  out y : fp32[3]

  %a = TANH(x) : fp32[3, N]
  %b = EXP2(%a) : fp32[3, N]
  %y = REDUCE(%b) {op=SUM, axes=[1], dtype=fp32} : fp32[3]

outputs: %y
"""


def differing(tmp_path: Path, capsys: pytest.CaptureFixture, old: str, new: str, *options: str) -> tuple[int, str, str]:
    """The exit code, stdout and stderr of comparing CHAIN with a changed CHAIN."""
    files = [tmp_path / "a.tiny", tmp_path / "b.tiny"]
    for file, text in zip(files, (CHAIN, CHAIN.replace(old, new))):
        file.write_text(text, encoding="utf-8")
        assert [d for d in tiny.check(tiny.parse(text)) if d.is_error] == []
    code = main(["--diag", "plain", *options, "--diff", *map(str, files)])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_first_value_that_differs_is_named_with_its_point_and_size(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    x = np.zeros((3, 4), np.float32)
    x[1, 2] = 3
    np.savez(tmp_path / "in.npz", x=x)
    code, out, err = differing(tmp_path, capsys, "TANH(x)", "RELU(x)", "--data", str(tmp_path / "in.npz"))
    assert (code, out) == (1, "")
    assert (
        "a[1, 2] is 0.995" in err
        and "and 3.0 in b.tiny; 1 of its 12 elements differ, by 2.00495 at most" in err
        and "0 values before it agree" in err
    )
    code, out, err = differing(tmp_path, capsys, "op=SUM", "op=MAX", "--data", str(tmp_path / "in.npz"))
    assert (
        code == 1
        and "y[0] is 4.0 in a.tiny and 1.0 in b.tiny; 3 of its 3 elements differ, by 3 at most" in err
        and "2 values before it agree" in err
    )


def test_tolerance_is_as_stated(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    change = (
        "%b = EXP2(%a)",
        "%c = CONST() {value=1.0001} : fp32[]\n  %d = EXPAND(%c) : fp32[3, N]\n  %e = EXP2(%a) : fp32[3, N]\n  "
        "%b = MUL(%e, %d)",
    )
    assert differing(tmp_path, capsys, *change, "--size", "N=5")[0] == 0
    assert differing(tmp_path, capsys, *change, "--size", "N=5", "--rtol", "1e-5", "--atol", "0")[0] == 1
    assert differing(tmp_path, capsys, *change, "--size", "N=5", "--rtol", "2e-4", "--atol", "0")[0] == 0


def test_random_arrays_are_those_of_the_seed(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    first = differing(tmp_path, capsys, "TANH(x)", "RELU(x)", "--size", "N=5", "--random", "7")
    assert first == differing(tmp_path, capsys, "TANH(x)", "RELU(x)", "--size", "N=5", "--random", "7")
    assert first != differing(tmp_path, capsys, "TANH(x)", "RELU(x)", "--size", "N=5")


def test_texts_without_a_name_in_common_are_not_called_the_same(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    other = CHAIN.replace("%a", "%p").replace("%b", "%q").replace("%y", "%r").replace("out y", "out r")
    code, out, err = differing(tmp_path, capsys, CHAIN, other, "--size", "N=5")
    assert (code, out) == (1, "") and "E1482" in err


def test_a_fault_planted_in_a_network_is_the_first_value_named(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Ten values of a transformer's regions, each made wrong in turn: what is named is that value, however many follow
    from it."""
    model = bert("B", 4, 1, 16, 2, 10, 16)
    module = read(model.text)
    files = [tmp_path / "net.tiny", tmp_path / "net.region"]
    files[0].write_text(tiny.show(module), encoding="utf-8")
    shapes = {v.name: v.type.rank for v in module.values}
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    axes = {(r.name, name): len(found) for r in module.program.regions for name, found in axes_of_values(r).items()}
    lets = [
        (r, at)
        for r in module.program.regions
        for at, v in enumerate(r.lets)
        if v.expr.dtype.name == "fp32" and shapes.get(v.name) == axes[r.name, v.name]
    ]
    assert len(lets) >= 20
    for one, at in lets[:: len(lets) // 10]:
        let = one.lets[at]
        wrong = replace(let, expr=Binary("mul", let.expr, Literal(-3.0, let.expr.dtype), let.expr.dtype))
        changed = replace(one, lets=(*one.lets[:at], wrong, *one.lets[at + 1 :]))
        program = replace(module.program, regions=tuple(changed if r is one else r for r in module.program.regions))
        files[1].write_text(region.show(region.Module(module.model, program)), encoding="utf-8")
        assert main(["--diag", "plain", "--size", "B=2", "--diff", *map(str, files)]) == 1
        assert f"ValuesDiffer at {let.name}: " in capsys.readouterr().err
