"""`tinyir.compile`: a callable from a model, a text or a module, in playback and in the simulation."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tinyir
from tinyir.ir import manifest, region
from tinyir.kit.diag import Refused
from tinyir.runtime.arrays import write_arrays
from tinyir.runtime.cuda import find_fault
from tinyir.runtime.program import Program
from tinyir.sim.host import COMPILERS
from tinyir.sim.launch import SimDevice

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "samples" / "gemm_bias_relu" / "gemm_bias_relu.json"
DEVICES = ["cpu", pytest.param("sim", marks=pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH"))]

SHAPES = {"x": ["M", 20], "w1": [20, 48], "b1": [48], "w2": [48, 10], "b2": [10]}
LAYERS = {
    "signature": {"inputs": [{"tensor": "x"}, *({"tensor": t, "role": "param"} for t in ("w1", "b1", "w2", "b2"))], "outputs": [{"tensor": "p"}]},
    "tensors": {name: {"dtype": "fp32", "shape": shape} for name, shape in {**SHAPES, "p": ["M", 10]}.items()},
    "graph": [
        {"op": "GEMM", "name": "l1", "inputs": ["x", "w1"], "outputs": ["h1"]},
        {"op": "Elementwise", "fn": "add", "inputs": ["h1", "b1"], "outputs": ["h2"]},
        {"op": "Elementwise", "fn": "relu", "inputs": ["h2"], "outputs": ["h3"]},
        {"op": "GEMM", "name": "l2", "inputs": ["h3", "w2"], "outputs": ["h4"]},
        {"op": "Elementwise", "fn": "add", "inputs": ["h4", "b2"], "outputs": ["h5"]},
        {"op": "Softmax", "inputs": ["h5"], "outputs": ["p"], "attrs": {"axis": -1}},
    ],
}


def arrays_of(rows: int) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(rows)
    return {name: draw.standard_normal([rows if s == "M" else s for s in shape]).astype(np.float32) for name, shape in SHAPES.items()}


def expected(a: dict[str, np.ndarray]) -> np.ndarray:
    scores = np.maximum(a["x"].astype(np.float64) @ a["w1"] + a["b1"], 0) @ a["w2"] + a["b2"]
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("device", DEVICES)
def test_a_program_of_several_kernels_for_one_size_after_another(device: str) -> None:
    weights = {n: a for n, a in arrays_of(7).items() if n != "x"}
    with tinyir.compile(json.dumps(LAYERS, indent=1), device=device, params=weights) as program:
        assert program.inputs == {"x": "fp32[M, 20]"} and program.outputs == {"p": "fp32[M, 10]"} and program.device == device
        assert len(program._session.module.launches) > 1
        for rows in (7, 3, 7, 64):
            given = {"x": arrays_of(rows)["x"], **weights}
            np.testing.assert_allclose(program(given["x"])["p"], expected(given), rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(program(x=given["x"])["p"], expected(given), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_weights_lie_in_a_file_beside_the_model(device: str, tmp_path: Path) -> None:
    given = arrays_of(5)
    write_arrays(str(tmp_path / "weights.npz"), {n: a for n, a in given.items() if n != "x"})
    model = json.loads(json.dumps(LAYERS))
    for name in ("w1", "b1", "w2", "b2"):
        model["tensors"][name]["file"] = "weights.npz"
    (tmp_path / "layers.json").write_text(json.dumps(model), encoding="utf-8")
    program = tinyir.compile(tmp_path / "layers.json", device=device)
    assert list(program.inputs) == ["x"]
    np.testing.assert_allclose(program(given["x"])["p"], expected(given), rtol=1e-4, atol=1e-5)
    with pytest.raises(Refused) as fault:
        program(given["x"], w1=given["w1"])
    assert [d.code for d in fault.value.diags] == ["E1704"]
    (tmp_path / "weights.npz").unlink()
    with pytest.raises(Refused):
        tinyir.compile(tmp_path / "layers.json", device=device)


def test_a_path_a_text_and_a_module_of_any_stage_are_one_program() -> None:
    whole = tinyir.compile(SAMPLE, device="cpu")
    text = SAMPLE.with_suffix(".region").read_text(encoding="utf-8")
    for model in (str(SAMPLE.with_suffix(".plan")), text, region.parse(text)):
        assert tinyir.compile(model, device="cpu").text == whole.text
    cuda = SAMPLE.with_suffix(".cu").read_text(encoding="utf-8")
    assert tinyir.compile(cuda, device="cpu").text == cuda
    assert repr(whole) == "<main(A: fp16[M, K], B: fp16[K, N], bias: fp16[N]) -> C2: fp16[M, N] on cpu>"


def test_faults_are_those_of_the_filters() -> None:
    with pytest.raises(Refused, match="E0014|E0110|E0011"):
        tinyir.compile("no model\nat all\n")
    with pytest.raises(TypeError, match="not int"):
        tinyir.compile(3)
    program = tinyir.compile(SAMPLE, device="cpu")
    a, b, bias = np.ones((4, 3), np.float16), np.ones((3, 5), np.float16), np.ones(5, np.float16)
    assert program(a, b, bias=bias)["C2"].shape == (4, 5)
    with pytest.raises(TypeError, match="given twice: A"):
        program(a, b, bias, A=a)
    with pytest.raises(TypeError, match="the inputs are A, B, bias"):
        program(a, b, bias, a)
    with pytest.raises(Refused, match="E1701 at bias"):
        program(a, b)
    with pytest.raises(Refused, match="E1702 at A"):
        program(a.astype(np.float32), b, bias)


@pytest.mark.skipif(find_fault() is None, reason="there is a GPU")
def test_without_a_gpu_auto_plays_and_cuda_refuses() -> None:
    assert tinyir.compile(SAMPLE).device == "cpu"
    with pytest.raises(Refused, match="E1718"):
        tinyir.compile(SAMPLE, device="cuda")

    class OnGpu:
        __cuda_array_interface__ = {"shape": (4, 3), "typestr": "<f2", "data": (1 << 20, False), "version": 3}

    with pytest.raises(Refused, match="E1732 at A"):
        tinyir.compile(SAMPLE)(OnGpu(), np.ones((3, 5), np.float16), np.ones(5, np.float16))


def test_a_filter_does_not_load_what_the_callable_needs() -> None:
    script = "import sys, tinyir; print(sorted(m for m in sys.modules if m.startswith(('tinyir.', 'numpy', 'lark'))))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "[]\n"


class Packed(SimDevice):
    """The simulation with what passes between launches in one arena, as on a GPU."""

    is_packed = True


@pytest.mark.parametrize("device", DEVICES[1:])
def test_buffers_of_a_packed_device_share_an_arena(device: str) -> None:
    text = tinyir.compile(json.dumps(LAYERS, indent=1), device="cpu").text
    module = manifest.parse(text)
    given = arrays_of(40)
    packed = Packed()
    program = Program(packed, text, module, {"M": 40})
    program.upload({name: np.ascontiguousarray(a) for name, a in given.items()})
    for _ in range(2):
        program.run()
        np.testing.assert_allclose(program.outputs()["p"], expected(given), rtol=1e-4, atol=1e-5)
    places = {program.buffers[name].number for name in program._passing}
    assert len(program._passing) > 1 and len(places) == 1
    program.release()
    assert not packed._buffers
    packed.release()


@pytest.mark.parametrize("device", DEVICES[1:])
def test_a_buffer_is_forgotten_when_its_place_may_be_anothers(device: str) -> None:
    """In the simulation each buffer has its own memory, and a read after its last launch is a fault."""
    program = tinyir.compile(json.dumps(LAYERS, indent=1), device=device)
    given = arrays_of(6)
    program(**given)
    held = next(iter(program._session._programs.values()))
    assert held._passing and all(held._spans[name][1] > held._spans[name][0] for name in held._passing)
    later = held.launches[held._spans[held._passing[0]][1] :][-1]
    with pytest.raises(Refused, match="E1750"):
        held.device.launch(later.kernel, later.grid, later.block, later.shared, later.arguments)
