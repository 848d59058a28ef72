"""ONNX models whose values no one kernel holds, as exporters write them: what is beside a product, between folds, and
along steps. Each compiles, and its kernels give playback's numbers in the simulation."""

from __future__ import annotations

import math
import shutil
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto  # noqa: E402

from tinyir import front  # noqa: E402
from tinyir.ir import gpu, manifest  # noqa: E402
from tinyir.ir.pipeline import STAGES, language_of  # noqa: E402
from tinyir.kernels.problem import Contraction, kernels_of  # noqa: E402
from tinyir.lower import lower_to  # noqa: E402
from tinyir.lower import region as to_region  # noqa: E402
from tinyir.play.tiny import play  # noqa: E402
from tinyir.runtime.run import run  # noqa: E402
from tinyir.sim.host import COMPILERS  # noqa: E402

from .emitted import complaints_of, lowered, planned, region_text  # noqa: E402
from .test_front_onnx import model, node  # noqa: E402

needs_host_compiler = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")
INT64 = TensorProto.INT64


def stages_of(m: Any) -> dict[str, Any]:
    """The module at each stage, each faultless."""
    found = {"tiny": front.read(front.onnx_to_json(m.SerializeToString(), "m.onnx", {}, {}))}
    for before, stage in zip(STAGES, STAGES[1:]):
        found[stage] = lower_to(stage, found[before], "sm90")
        assert [(d.code, d.at, dict(d.facts)) for d in language_of(stage).check(found[stage]) if d.is_error] == [], (
            stage
        )
    return found


def agrees(m: Any, seed: int = 0, **given: np.ndarray) -> dict[str, Any]:
    """The stages of a model, whose kernels give what tiny text does: sums of fp32 in another order are within 1e-4."""
    found, draw = stages_of(m), np.random.default_rng(seed)
    arrays = {
        t.name: draw.standard_normal([d.evaluate({}) for d in t.type.shape]).astype(np.float32)
        for t in found["tiny"].model.inputs
    } | given
    outputs, _ = run(manifest.show(found["cu"]), arrays, device="sim", seed=seed, limit=60)
    for name, array in play(found["tiny"], arrays).items():
        np.testing.assert_allclose(outputs[name], array, rtol=1e-4, atol=1e-4, err_msg=name)
    return found


def numbers(*shape: int, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32) / 4


BESIDE = {
    "added": model(
        [node("MatMul", ["x", "w"], ["m"]), node("Gather", ["t", "i"], ["g"]), node("Add", ["g", "m"], ["y"])],
        {"x": [16, 32], "t": [7, 24], "i": (INT64, [16])},
        ["y"],
        {"w": numbers(32, 24)},
    ),
    "relative positions": model(
        [
            node("MatMul", ["q", "k"], ["s"]),
            node("Gather", ["table", "at"], ["g"]),
            node("Transpose", ["g"], ["b"], perm=[2, 0, 1]),
            node("Add", ["s", "b"], ["y"]),
        ],
        {"q": [1, 4, 16, 8], "k": [1, 4, 8, 16]},
        ["y"],
        {"table": numbers(31, 4), "at": np.abs(np.arange(16)[:, None] - np.arange(16))},
    ),
    "embedded time": model(
        [
            node("Conv", ["x", "k"], ["c"]),
            node("Gather", ["t", "i"], ["g"]),
            node("Reshape", ["g", "s"], ["r"]),
            node("Add", ["c", "r"], ["y"]),
        ],
        {"x": [1, 4, 8, 8], "t": [7, 8], "i": (INT64, [1])},
        ["y"],
        {"k": numbers(8, 4, 3, 3), "s": np.int64([1, 8, 1, 1])},
    ),
}


@needs_host_compiler
@pytest.mark.parametrize("name", BESIDE)
def test_a_gather_beside_a_product_has_a_kernel_of_its_own(name: str) -> None:
    given = {
        t.name: np.arange(math.prod(d.dim_value for d in t.type.tensor_type.shape.dim)) % 7
        for t in BESIDE[name].graph.input
        if t.type.tensor_type.elem_type == INT64
    }
    found = agrees(BESIDE[name], **given)
    products = [r for r in found["region"].program.regions if any(isinstance(k, Contraction) for k in kernels_of(r))]
    assert len(products) == 1 and len(found["region"].program.regions) == 2
    assert "plain" not in {p.algo for p in found["plan"].plans}


def test_the_edge_that_is_cut_is_told() -> None:
    verdicts = to_region.verdicts(stages_of(BESIDE["added"])["poly"])
    assert [
        (d.facts["source"], d.facts["reader"]) for d in verdicts if d.code == "R3402" and d.facts["rule"] == "family"
    ] == [("g", "y")]


@needs_host_compiler
@pytest.mark.parametrize("is_op", [True, False])
@pytest.mark.parametrize("groups", [4, 8])
def test_a_group_norm_before_a_convolution(groups: int, is_op: bool) -> None:
    scale = {"g": 1 + numbers(16, seed=1), "b": numbers(16, seed=2), "k": numbers(4, 16, 3, 3)}
    conv = node("Conv", ["r", "k"], ["y"], pads=[1, 1, 1, 1])
    if is_op:
        m = model(
            [node("GroupNormalization", ["x", "g", "b"], ["n"], num_groups=groups), node("Relu", ["n"], ["r"]), conv],
            {"x": [1, 16, 8, 8]},
            ["y"],
            scale,
            opset=21,
        )
    else:
        nodes = [
            node("Reshape", ["x", "s1"], ["a"]),
            node("InstanceNormalization", ["a", "one", "zero"], ["n"]),
            node("Reshape", ["n", "s2"], ["w"]),
            node("Mul", ["w", "g"], ["m"]),
            node("Add", ["m", "b"], ["r"]),
            conv,
        ]
        scale |= {"g": scale["g"].reshape(16, 1, 1), "b": scale["b"].reshape(16, 1, 1)}
        scale |= {
            "one": np.ones(groups, np.float32),
            "zero": np.zeros(groups, np.float32),
            "s1": np.int64([0, groups, -1]),
            "s2": np.int64([1, 16, 8, 8]),
        }
        m = model(nodes, {"x": [1, 16, 8, 8]}, ["y"], scale, opset=18)
    agrees(m)


@needs_host_compiler
@pytest.mark.parametrize(
    ("kind", "steps", "hidden", "directions", "state", "attrs"),
    [
        ("LSTM", 2, 64, 1, True, {}),
        ("GRU", 3, 16, 2, True, {"linear_before_reset": 0}),
        ("GRU", 4, 64, 2, False, {"linear_before_reset": 1}),
        ("LSTM", 2, 40, 2, False, {}),
    ],
)
def test_recurrent_steps(
    kind: str, steps: int, hidden: int, directions: int, state: bool, attrs: dict[str, int]
) -> None:
    gates = {"GRU": 3, "LSTM": 4}[kind]
    weights = {
        "W": numbers(directions, gates * hidden, 8),
        "R": numbers(directions, gates * hidden, hidden),
        "b": numbers(directions, 2 * gates * hidden),
    }
    states = {f"{name}0": [directions, 1, hidden] for name in ("h", "c")[: 2 if kind == "LSTM" else 1]} if state else {}
    given = ["x", "W", "R", "b", *(["", *states] if state else [])]
    direction = "bidirectional" if directions == 2 else "forward"
    agrees(
        model(
            [node(kind, given, ["y"], hidden_size=hidden, direction=direction, **attrs)],
            {"x": [steps, 1, 8], **states},
            ["y"],
            weights,
        )
    )


def test_many_steps_hold_in_registers_and_wait_for_no_circle() -> None:
    """Both directions of a GRU share what they read; the folds of one kernel are no more than a thread has registers
    for."""
    weights = {"W": numbers(2, 3 * 128, 8), "R": numbers(2, 3 * 128, 128)}
    stages_of(
        model(
            [node("GRU", ["x", "W", "R"], ["y"], hidden_size=128, direction="bidirectional", linear_before_reset=1)],
            {"x": [4, 1, 8]},
            ["y"],
            weights,
        )
    )
    weights = {"W": numbers(2, 4 * 256, 8), "R": numbers(2, 4 * 256, 256)}
    stages_of(
        model(
            [node("LSTM", ["x", "W", "R"], ["y"], hidden_size=256, direction="bidirectional")],
            {"x": [2, 1, 8]},
            ["y"],
            weights,
        )
    )


def points_of(module: gpu.Module) -> list[int]:
    """The threads of each kernel's launch."""
    return [math.prod(e.evaluate({}) for e in k.grid) * k.threads for k in module.kernels]


@needs_host_compiler
@pytest.mark.parametrize("padding", ["zeros", "reflection"])
def test_no_kernel_visits_more_points_than_its_results_need(padding: str) -> None:
    """A cubic GridSample has 16 taps for each of 18 elements, whatever it broadcasts on the way."""
    m = model(
        [node("GridSample", ["x", "g"], ["y"], mode="cubic", padding_mode=padding)],
        {"x": [1, 2, 4, 5], "g": [1, 3, 3, 2]},
        ["y"],
        opset=20,
    )
    found = agrees(m)
    for kernel, points in zip(found["gpu"].kernels, points_of(found["gpu"])):
        assert points <= -(-16 * 18 // kernel.threads) * kernel.threads


def test_vectors_of_many_tensors_leave_registers() -> None:
    """A Concat of 60 tensors in vectors of eight would keep 480 numbers in registers."""
    names = [f"x{i}" for i in range(60)]
    found = stages_of(
        model([node("Concat", names, ["c"], axis=0), node("Relu", ["c"], ["y"])], {n: [1, 4, 64] for n in names}, ["y"])
    )
    assert [p.widest for p in found["plan"].plans] == [4]


@needs_host_compiler
@pytest.mark.parametrize("names", [("k0", "k1"), ("i0", "i1"), ("i1", "k0")])
def test_weights_may_be_called_as_axes_are(names: tuple[str, str]) -> None:
    w, b = names
    agrees(
        model(
            [node("Conv", ["x", w, b], ["c"]), node("Relu", ["c"], ["y"])],
            {"x": [1, 2, 6, 6]},
            ["y"],
            {w: numbers(3, 2, 3, 3), b: numbers(3)},
        )
    )
    stages_of(
        model(
            [node("Gemm", ["x", w, b], ["c"]), node("Softmax", ["c"], ["y"])],
            {"x": [8, 16]},
            ["y"],
            {w: numbers(16, 8), b: numbers(8)},
        )
    )


def test_sizes_that_leave_nothing_have_plans_and_kernels() -> None:
    """Rows that are none at the typical sizes, and an axis that is empty at all of them, by which the others are
    divided."""
    stages_of(
        model(
            [node("Slice", ["x", "from", "to"], ["s"]), node("MatMul", ["s", "w"], ["y"])],
            {"x": ["M", 8]},
            ["y"],
            {"w": numbers(8, 24), "from": np.int64([1024]), "to": np.int64([5000])},
        )
    )
    text = region_text(
        "in x : fp32[M, 8]\nout y : fp32[3, floor(M/8), 17]",
        "for i0: 3, i1: floor(M/8), i2: 17\n  %y = 0.0 : fp32\nyield y[i0, i1, i2] = %y",
    )
    text = text.replace("\n\nprogram", "\n  sym M in 3..4\nshapes default {M=4}\n\nprogram", 1)
    code = manifest.show(lowered(planned(text))[1])
    assert complaints_of(code, "sm_90a") == []
