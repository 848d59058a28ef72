"""One launch alone: its text holds, it gives what it gives in the whole program, and its folder says how to run it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from tinyir.ir import manifest
from tinyir.kit.diag import Refused
from tinyir.play.region import play
from tinyir.play.roles import positive_inputs
from tinyir.runtime.arrays import random_arrays, sizes_for
from tinyir.runtime.extract import arrays_of, extracted
from tinyir.runtime.run import run
from tinyir.sim.host import COMPILERS

from ..commands import ROOT, run_in_shell, run_line

SAMPLES = sorted((ROOT / "samples").glob("*/*.cu"))
FEW = {"M": 40, "N": 24, "K": 16, "B": 1, "H": 2, "S": 40, "D": 64, "L": 40, "T": 24}


def case_of(file: Path) -> tuple[manifest.Module, dict, dict]:
    """A sample with small random arrays, and its sizes."""
    module = manifest.parse(file.read_text(encoding="utf-8"))
    model = module.region.model
    sizes = sizes_for(model, None, {s: n for s, n in FEW.items() if s in model.symbols()})
    return module, random_arrays(model, sizes, 7, positive_inputs(module.region)), sizes


@pytest.mark.parametrize(
    "file", [f for f in SAMPLES if f.stem not in ("resnet_block", "conv3x3_silu")], ids=lambda f: f.stem
)
def test_a_launch_alone_gives_what_it_gives_in_the_program(file: Path) -> None:
    module, arrays, sizes = case_of(file)
    made: dict[str, np.ndarray] = {}
    outputs = play(module.region, arrays, sizes, lambda name, array: made.__setitem__(name, np.array(array)))
    made |= outputs
    for launch in module.launches:
        case = manifest.parse(manifest.show(extracted(module, launch.name)))
        assert [d for d in manifest.check(case) if d.is_error] == []
        assert launch.name in {one.name for one in case.launches}
        given = arrays_of(module, case, arrays, sizes)
        own = {s: n for s, n in sizes.items() if s in case.region.model.symbols()}
        for name, array in play(case.region, given, own).items():
            np.testing.assert_array_equal(array, made[name], err_msg=f"{launch.name}: {name}")


@pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
def test_a_launch_alone_is_simulated() -> None:
    module, arrays, sizes = case_of(ROOT / "samples" / "softmax" / "softmax.cu")
    case = extracted(module, module.launches[0].name)
    outputs, _ = run(manifest.show(case), arrays_of(module, case, arrays, sizes), device="sim", check=True)
    assert outputs


def test_a_region_names_the_launch_that_computes_it() -> None:
    module, _, _ = case_of(ROOT / "samples" / "attention_causal" / "attention_causal.cu")
    launch = next(one for one in module.launches if len(one.regions) == 2)
    assert extracted(module, launch.regions[0]) == extracted(module, launch.name)
    with pytest.raises(Refused, match="E1746"):
        extracted(module, "no.such")


def test_the_folder_repeats_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "case"
    done = run_in_shell(f"tiny-run samples/mlp/mlp.cu --size M=8 --random 7 --extract down -o {folder}")
    assert done.code == 0, done.err.decode()
    assert sorted(f.name for f in folder.iterdir()) == ["inputs.npz", "launch.cu", "run.sh"]
    assert set(np.load(folder / "inputs.npz")) == {"H", "W2", "b2"}
    again = run_in_shell(f"sh {folder}/run.sh --device=cpu")
    assert again.code == 0 and re.match(r"Y +float16\[8, 768\]", again.out.decode())


def test_a_launch_that_writes_a_state_is_given_what_it_was_by_then() -> None:
    """The old value is an input of the case, and the new one its output."""
    graph = [
        {"op": "Reduce", "name": "sum", "inputs": ["X"], "outputs": ["s1"], "attrs": {"op": "sum", "axes": [1]}},
        {"op": "Elementwise", "fn": "add", "name": "next", "inputs": ["state", "s1"], "outputs": ["new"]},
        {"op": "MatMul", "name": "mm", "inputs": ["X", "W"], "outputs": ["Y"]},
    ]
    tensors = {
        "X": {"dtype": "fp32", "shape": [8, 16]},
        "W": {"dtype": "fp32", "shape": [16, 4]},
        "state": {"dtype": "fp32", "shape": [8]},
        "new": {"dtype": "fp32", "shape": [8]},
        "Y": {"dtype": "fp32", "shape": [8, 4]},
    }
    inputs = [{"tensor": "X"}, {"tensor": "W"}, {"tensor": "state", "role": "state", "mutability": "mutable"}]
    sides = {"inputs": inputs, "outputs": [{"tensor": "new", "updates": "state"}, {"tensor": "Y"}]}
    text = json.dumps({"signature": sides, "tensors": tensors, "graph": graph})
    done = run_line("tinyc", text.encode())
    assert done.code == 0, done.err.decode()
    module = manifest.parse(done.out.decode())
    arrays = random_arrays(module.region.model, {}, 7)
    whole = play(module.region, arrays)
    for launch in module.launches:
        case = manifest.parse(manifest.show(extracted(module, launch.name)))
        assert [d for d in manifest.check(case) if d.is_error] == []
        for name, array in play(case.region, arrays_of(module, case, arrays, {})).items():
            np.testing.assert_array_equal(array, whole[name])
