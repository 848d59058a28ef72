"""`tinyir.compile`: a callable from a model, a text or a module, in playback and in the simulation."""

from __future__ import annotations

import ctypes
import doctest
import json
import shutil
import subprocess
import sys
import typing
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tinyir
from tinyir import api
from tinyir.ir import manifest, region
from tinyir.ir.pipeline import STAGES
from tinyir.kit.diag import Refused
from tinyir.lower import language_of
from tinyir.runtime import external
from tinyir.runtime.arrays import write_arrays
from tinyir.runtime.cuda import find_fault
from tinyir.runtime.program import Program
from tinyir.sim.host import COMPILERS
from tinyir.sim.launch import SimDevice

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "samples" / "gemm_bias_relu" / "gemm_bias_relu.json"
DEVICES = [
    "cpu",
    pytest.param(
        "sim", marks=pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
    ),
]

SHAPES = {"x": ["M", 20], "w1": [20, 48], "b1": [48], "w2": [48, 10], "b2": [10]}
LAYERS = {
    "signature": {
        "inputs": [{"tensor": "x"}, *({"tensor": t, "role": "param"} for t in ("w1", "b1", "w2", "b2"))],
        "outputs": [{"tensor": "p"}],
    },
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
    return {
        name: draw.standard_normal([rows if s == "M" else s for s in shape]).astype(np.float32)
        for name, shape in SHAPES.items()
    }


def expected(a: dict[str, np.ndarray]) -> np.ndarray:
    scores = np.maximum(a["x"].astype(np.float64) @ a["w1"] + a["b1"], 0) @ a["w2"] + a["b2"]
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("device", DEVICES)
def test_a_program_of_several_kernels_for_one_size_after_another(device: str) -> None:
    weights = {n: a for n, a in arrays_of(7).items() if n != "x"}
    with tinyir.compile(json.dumps(LAYERS, indent=1), device=device, params=weights) as program:
        assert (
            program.inputs == {"x": "fp32[M, 20]"}
            and program.outputs == {"p": "fp32[M, 10]"}
            and program.device == device
        )
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


NODEID = {
    "uops": [
        {"id": "n0", "uop": "INPUT", "arg": {"tensor_id": "X", "dtype": "fp32", "shape": ["N"]}},
        {"id": "Y", "uop": "ADD", "src": ["n0", "n0"]},
    ]
}
DOUBLE = {
    "signature": {"inputs": [{"tensor": "X"}], "outputs": [{"tensor": "Y"}]},
    "tensors": {"X": {"dtype": "fp32", "shape": ["N"]}, "Y": {"dtype": "fp32", "shape": ["N"]}},
    "graph": [{"op": "Elementwise", "fn": "add", "inputs": ["X", "X"], "outputs": ["Y"]}],
}
SOURCES = {
    "json": json.dumps(DOUBLE),  # on one line: no path
    "json.lines": json.dumps(DOUBLE, indent=1),
    "dict": DOUBLE,
    "nodeid": json.dumps(NODEID),
    "nodeid.dict": NODEID,
    "dsl": "graph<N=1> main(X: f32[N]) -> (Y: f32[N]) { return X + X }",
    "coreir": '%0 = Input() {name="X"} : f32[4]\n%1 = BinOp(%0, %0) {op="Add"} : f32[4]\noutputs: Y=%1\n',
    "tiny": "tinyir 1.0 tiny\n\nmodel main\n  in  X           : fp32[N]\n  out Y           : fp32[N]\n\n  %y             "  # noqa: E501
    " = ADD(X, X) : fp32[N]\n\noutputs: Y = %y\n",
}


@pytest.mark.parametrize("kind", SOURCES)
def test_a_text_or_a_dict_of_each_language_is_a_model(kind: str, tmp_path: Path) -> None:
    x = np.arange(4, dtype=np.float32)
    source = SOURCES[kind]
    assert tinyir.compile(source, device="cpu")(x)["Y"].tolist() == [0, 2, 4, 6]
    file = tmp_path / "a model"
    file.write_text(source if isinstance(source, str) else json.dumps(source), encoding="utf-8")
    for path in (file, str(file)):
        assert tinyir.compile(path, device="cpu")(X=x)["Y"].tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize("stage", STAGES)
def test_a_text_a_path_and_a_module_of_each_stage_is_a_model(stage: str) -> None:
    file = ROOT / "samples" / "softmax" / f"softmax.{stage}"
    text = file.read_text(encoding="utf-8")
    x = np.zeros((2, 4), np.float16)
    for source in (file, str(file), text, language_of(stage).parse(text)):
        assert tinyir.compile(source, device="cpu")(x)["Y"].tolist() == [[0.25] * 4] * 2


def onnx_model() -> object:
    """y = x @ w + b, the batch open, w in a file beside the model."""
    from onnx import TensorProto, helper, numpy_helper
    from onnx.external_data_helper import set_external_data

    constants = [
        numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(2, 3), "w"),
        numpy_helper.from_array(np.ones(3, np.float32), "b"),
    ]
    set_external_data(constants[0], "w.bin", 0, 24)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["y"])],
        "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["B", 3])],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_an_onnx_file_is_a_model(tmp_path: Path) -> None:
    model = onnx_model()
    raw = model.graph.initializer[0].raw_data
    model.graph.initializer[0].ClearField("raw_data")
    (tmp_path / "w.bin").write_bytes(raw)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    for path in (tmp_path / "m.onnx", str(tmp_path / "m.onnx")):
        program = tinyir.compile(path, device="cpu")
        assert program.inputs == {"x": "fp32[B, 2]"} and program.outputs == {"y": "fp32[B, 3]"}
        assert program(np.float32([[1, 1], [0, 2]]))["y"].tolist() == [[4, 6, 8], [7, 9, 11]]
    fixed = tinyir.compile(tmp_path / "m.onnx", device="cpu", shapes={"x": [5, 2]})
    assert fixed.inputs == {"x": "fp32[5, 2]"}
    given = tinyir.compile(tmp_path / "m.onnx", device="cpu", params={"w": np.zeros((2, 3), np.float32)})
    assert given(np.ones((1, 2), np.float32))["y"].tolist() == [[1, 1, 1]]
    (tmp_path / "w.bin").write_bytes(raw[:-1])
    with pytest.raises(Refused, match="E1741 at w"):
        tinyir.compile(tmp_path / "m.onnx", device="cpu")


class ByDLPack:
    """An array that speaks DLPack and nothing else."""

    def __init__(self, array: np.ndarray):
        self._array = array

    def __dlpack__(self, **how: object) -> object:
        return self._array.__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


@pytest.mark.parametrize("device", DEVICES)
def test_arrays_on_the_host_come_by_numpy_or_by_dlpack(device: str) -> None:
    program = tinyir.compile(SOURCES["dsl"], device=device)
    wide = np.arange(8, dtype=np.float32)
    for given in (
        wide[::2],
        ByDLPack(wide[::2]),
        ByDLPack(np.float32([0, 2, 4, 6])),
        [np.float32(n) for n in (0, 2, 4, 6)],
    ):
        assert program(given)["Y"].tolist() == [0, 4, 8, 12]
    bound = tinyir.compile(SOURCES["dsl"], device=device, params={"X": ByDLPack(np.ones(2, np.float32))})
    assert bound.inputs == {} and bound()["Y"].tolist() == [2, 2]


def test_bf16_comes_by_dlpack_although_numpy_has_it_not() -> None:
    array = np.array([1, 2, 3], ml_dtypes.bfloat16)
    sizes = (ctypes.c_int64 * 1)(3)
    managed = external._Managed(
        external._Tensor(array.ctypes.data, external.CPU, 0, 1, external.NARROW_CODES["bf16"], 16, 1, sizes, None, 0)
    )

    class OnHost:
        def __dlpack__(self, stream: object = None) -> object:
            return external._capsule_of(ctypes.addressof(managed), b"dltensor", external._drop)

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    program = tinyir.compile("graph<N=1> main(X: bf16[N]) -> (Y: bf16[N]) { return X + X }", device="cpu")
    assert program(OnHost())["Y"].astype(float).tolist() == [2, 4, 6]


def test_a_refusal_says_place_code_reason_and_help(tmp_path: Path) -> None:
    file = tmp_path / "wrong.json"
    file.write_text(json.dumps(DOUBLE, indent=1).replace('"add"', '"ad"'), encoding="utf-8")
    with pytest.raises(tinyir.Refused) as fault:
        tinyir.compile(file, device="cpu")
    code, place, *rest = str(fault.value).split("\n")
    (diag,) = fault.value.diags
    assert code == f"E0105 at {diag.at}: {diag.why()}" and "ad" in code
    assert place == f"  --> {file}:{diag.span.line}:{diag.span.column}"
    assert rest == [f"  help: {diag.suggestion()}"]
    for source, wanted in (
        (tmp_path / "none.json", "E0008"),
        ("none.json", "E0008"),
        (tmp_path, "E0008"),
        ("a\0b", "E0008"),
    ):
        with pytest.raises(Refused, match=wanted):
            tinyir.compile(source, device="cpu")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "latin").write_bytes(b"\xe9t\xe9")
    for name, wanted in (("empty", "E0001"), ("latin", "E0007")):
        with pytest.raises(Refused, match=wanted):
            tinyir.compile(tmp_path / name, device="cpu")
    with pytest.raises(Refused, match="E0006"):
        tinyir.compile(f"graph main(X: f32[{'-' * 3000}1]) -> (Y: f32[1]) {{ return X }}\n", device="cpu")


def test_choices_are_named() -> None:
    with pytest.raises(ValueError, match="device 'gpu' is none of auto, cuda, cpu, sim"):
        tinyir.compile(SAMPLE, device="gpu")
    with pytest.raises(ValueError, match="arch 'sm70' is none of sm80, sm90"):
        tinyir.compile(SAMPLE, arch="sm70")


def test_what_the_package_says_of_itself_is_precise_and_shipped() -> None:
    assert (ROOT / "tinyir" / "py.typed").is_file() and set(tinyir.__all__) <= set(dir(tinyir))
    hints = typing.get_type_hints(tinyir.compile)
    assert hints["return"] is tinyir.Compiled and typing.get_args(hints["device"]) == ("auto", "cuda", "cpu", "sim")
    for function in (tinyir.compile, tinyir.Compiled.__call__, tinyir.Compiled.__init__):
        assert all(hint is not typing.Any for hint in typing.get_type_hints(function).values())
    with pytest.raises(AttributeError, match="no attribute 'compiel'"):
        tinyir.compiel


def test_the_examples_of_the_docstrings_hold() -> None:
    done = doctest.testmod(api)
    assert done.attempted > 4 and done.failed == 0


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
    held = program._session._programs[-1]
    assert held._passing and all(held._spans[name][1] > held._spans[name][0] for name in held._passing)
    later = held.launches[held._spans[held._passing[0]][1] :][-1]
    with pytest.raises(Refused, match="E1750"):
        held.device.launch(later.code, later.kernel, later.grid, later.block, later.shared, later.arguments)
