"""The layout of the signature is the ABI: whatever it says, kernels compute what playback does."""

from __future__ import annotations

import itertools
import json
import shutil

import numpy as np
import pytest

from tinyir import front
from tinyir.ir import manifest, plan, region, tiny
from tinyir.ir.body import Read, walk
from tinyir.ir.pipeline import STAGES
from tinyir.kit.diag import Refused
from tinyir.lower import lower_to
from tinyir.play.region import play
from tinyir.play.tiny import play as play_tiny
from tinyir.runtime.arrays import random_arrays
from tinyir.runtime.run import run
from tinyir.sim.host import COMPILERS

pytestmark = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")


def emitted(model: dict) -> str:
    module = front.read(json.dumps(model))
    for stage in STAGES[1:]:
        module = lower_to(stage, module, "sm90")
    return manifest.show(module)


def planned(graph: list[dict], layouts: tuple[str, ...], arch: str) -> plan.Module:
    shapes = {"A": ["M", "K"], "B": ["K", "N"], "C": ["M", "N"]}
    model = model_of(graph, shapes, ["C"], dict(zip(shapes, layouts)), {"M": 4096, "N": 4096, "K": 4096})
    module = front.read(json.dumps(model))
    for stage in STAGES[1 : STAGES.index("plan") + 1]:
        module = lower_to(stage, module, arch)
    return module


def model_of(
    graph: list[dict], shapes: dict[str, list], outputs: list[str], layouts: dict[str, str], sizes: dict[str, int]
) -> dict:
    tensors = {name: {"dtype": "fp16", "shape": shape, "layout": layouts[name]} for name, shape in shapes.items()}
    inputs = [{"tensor": name} for name in shapes if name not in outputs]
    return {
        "signature": {"inputs": inputs, "outputs": [{"tensor": o} for o in outputs]},
        "tensors": tensors,
        "graph": graph,
        "shape_sets": {"default": sizes},
    }


LAYOUTS = ("row_major", "col_major")
GEMM = [{"op": "GEMM", "name": "gemm", "inputs": ["A", "B"], "outputs": ["C"]}]
ADD = [{"op": "Elementwise", "name": "add", "fn": "add", "inputs": ["A", "B"], "outputs": ["C"]}]
SOFTMAX = [{"op": "Softmax", "name": "softmax", "inputs": ["A"], "outputs": ["C"], "attrs": {"axis": 1}}]
FLAT = [
    {"op": "Reshape", "name": "flat", "inputs": ["A"], "outputs": ["F"], "attrs": {"shape": ["M*N"]}},
    {"op": "Elementwise", "name": "relu", "fn": "relu", "inputs": ["F"], "outputs": ["C"]},
]
CASES = {
    "gemm": (GEMM, {"A": ["M", "K"], "B": ["K", "N"], "C": ["M", "N"]}, {"M": 20, "N": 30, "K": 11}),
    "gemm_of_eights": (GEMM, {"A": ["M", "K"], "B": ["K", "N"], "C": ["M", "N"]}, {"M": 24, "N": 32, "K": 16}),
    "map": (ADD, {"A": ["M", "N"], "B": ["M", "N"], "C": ["M", "N"]}, {"M": 5, "N": 7}),
    "row": (SOFTMAX, {"A": ["M", "N"], "C": ["M", "N"]}, {"M": 5, "N": 7}),
    "flat": (FLAT, {"A": ["M", "N"], "C": ["M*N"]}, {"M": 5, "N": 7}),
}


@pytest.mark.parametrize("name", CASES)
def test_every_layout_of_every_tensor(name: str) -> None:
    graph, shapes, sizes = CASES[name]
    laid = [n for n, shape in shapes.items() if len(shape) > 1]
    for chosen in itertools.product(LAYOUTS, repeat=len(laid)):
        layouts = dict.fromkeys(shapes, "row_major") | dict(zip(laid, chosen))
        text = emitted(model_of(graph, shapes, ["C"], layouts, sizes))
        arrays = random_arrays(manifest.parse(text).region.model, sizes, 1)
        outputs, report = run(text, arrays, device="sim", check=True)
        assert [d.wrong for d in report.differences] == [0], layouts
        assert np.isfinite(outputs["C"].astype(np.float64)).all()


@pytest.mark.parametrize("layouts", list(itertools.product(LAYOUTS, repeat=3)))
def test_products_of_any_layout_are_one_kernel_that_copies_nothing(layouts: tuple[str, ...]) -> None:
    """The copy engine and ldmatrix read col_major operands where they are, and the engine writes a col_major output."""
    hopper = planned(GEMM, layouts, "sm90")
    first = hopper.plans[0]
    assert len(hopper.program.program.regions) == 1 and not first.layout
    assert first.algo == "warp_specialized" and {i.tensor: i.by for i in first.load} == {"A": "tma", "B": "tma"}
    assert [(i.tensor, i.by) for i in first.store] == [("C", "tma")]
    ampere = planned(GEMM, layouts, "sm80").plans[0]
    assert ampere.algo == "multistage" and not ampere.layout
    assert {i.tensor: i.by for i in ampere.load} == {"A": "cp_async", "B": "cp_async"}


def test_a_region_says_what_memory_is() -> None:
    module = planned(GEMM, ("row_major", "col_major", "col_major"), "sm90").program
    (one,) = module.program.regions
    assert {t.name: str(t.type) for t in one.inputs + one.outputs} == {
        "A": "fp16[M, K]",
        "B": "fp16[N, K]",
        "C": "fp16[N, M]",
    }
    text = region.show(module)
    assert "in  B           : fp16[N, K]" in text and "mul(A[i1, k0], B[i0, k0])" in text and "layout" in text
    assert [d.code for d in region.check(region.parse(text))] == []
    logical = region.parse(text.replace("in  B           : fp16[N, K]", "in  B           : fp16[K, N]"))
    (fault,) = [d for d in region.check(logical) if d.code == "E1402"]
    assert "fp16[N, K] in memory" in fault.facts["fault"]


@pytest.mark.parametrize("name", CASES)
def test_playback_of_regions_sees_the_callers_arrays(name: str) -> None:
    graph, shapes, sizes = CASES[name]
    module = front.read(json.dumps(model_of(graph, shapes, ["C"], dict.fromkeys(shapes, "col_major"), sizes)))
    lowered = module
    for stage in ("index", "poly", "region"):
        lowered = lower_to(stage, lowered, "sm90")
    arrays = random_arrays(module.model, sizes, 3)
    seen: dict[str, np.ndarray] = {}
    outputs = play(lowered, arrays, watch=lambda n, a: seen.__setitem__(n, a.copy()))
    np.testing.assert_allclose(outputs["C"], play_tiny(module, arrays)["C"], rtol=1e-2, atol=1e-2)
    assert np.array_equal(seen["C"], outputs["C"], equal_nan=True)


STATE = """tinyir 1.0 tiny

model m
  in  s : fp16[N, N] {role=state, mutability=mutable, layout=col_major}
  in  t : fp16[N, N] {role=state, mutability=mutable, layout=col_major}
  in  x : fp16[N, N]
  out s : fp16[N, N] {layout=col_major}
  out t : fp16[N, N] {layout=col_major}
  out y : fp16[N, N]
shapes default {N=9}

%y = MUL(s, x) : fp16[N, N]
%new = ADD(%y, t) : fp16[N, N]
outputs: s=%new, t=s, y=%y
"""


def test_states_of_another_order() -> None:
    """What is kept for them has their order, and no name of a value, whose elements are elsewhere."""
    module = tiny.parse(STATE)
    lowered = module
    for stage in STAGES[1:]:
        lowered = lower_to(stage, lowered, "sm90")
    program = lowered.region.program
    kept = {b.name for b in program.buffers}
    assert kept == {"s.kept", "t.kept"}
    for one in program.regions:  # no copy of theirs turns anything
        reads = {n.index for y in one.yields for n in walk(y.expr) if isinstance(n, Read)}
        assert one.name not in ("s", "t") or reads == {one.yields[0].index}
    arrays = random_arrays(module.model, {"N": 9}, 2)
    expected = play_tiny(module, arrays)
    seen: dict[str, np.ndarray] = {}
    play(lowered.region, arrays, watch=lambda n, a: seen.__setitem__(n, a.copy()))
    assert np.array_equal(seen["y"], expected["y"])
    outputs, report = run(manifest.show(lowered), arrays, device="sim", check=True)
    for name, array in expected.items():
        assert np.array_equal(outputs[name], array), name
    assert [d.wrong for d in report.differences] == [0, 0, 0]


def read_layout(layout: object, shape: list, **more: object) -> list:
    """The attributes of a tensor of this layout, or the codes of what is refused."""
    tensors = {"x": {"dtype": "fp16", "shape": shape, "layout": layout} | more, "y": {"dtype": "fp16", "shape": shape}}
    graph = [{"op": "Elementwise", "fn": "relu", "inputs": ["x"], "outputs": ["y"]}]
    signature = {"inputs": [{"tensor": "x"}], "outputs": [{"tensor": "y"}]}
    try:
        module = front.read(json.dumps({"signature": signature, "tensors": tensors, "graph": graph}))
    except Refused as fault:
        return [d.code for d in fault.diags]
    assert not module.model.input("y")
    return list(module.model.inputs[0].attrs)


COLUMNS = [("layout", "col_major")]


@pytest.mark.parametrize(
    ("layout", "found"),
    [
        ("col_major", COLUMNS),
        ("row_major", []),
        ({"kind": "row_major"}, []),
        ({"kind": "col_major"}, COLUMNS),
        ({"kind": "col_major", "params": {}}, COLUMNS),
        ({"kind": "col_major", "params": None}, COLUMNS),
        ({"kind": "col_major", "params": {"strides": ["M*N", 1, "M"]}}, COLUMNS),
        ({"kind": "row_major", "params": {"strides": ["M*N", "N", 1], "padding": 0, "swizzle": "none"}}, []),
        ({"kind": "row_major", "params": {"strides": ["M*N", 1, "M"]}}, ["E1313"]),
        ({"kind": "row_major", "params": {"strides": ["N", 1]}}, ["E1313"]),
        ({"kind": "row_major", "params": {"strides": [None, 1, {}]}}, ["E1313"]),
        ({"kind": "row_major", "params": {"padding": 8}}, ["E1313"]),
        ({"kind": "row_major", "params": {"swizzle": "xor32"}}, ["E1313"]),
        ({"kind": "swizzled", "params": {"swizzle": "xor32", "vec_bytes": 16}}, ["E1313"]),
        ({"kind": "swizzled"}, ["E1313"]),
        ("swizzled", ["E1313"]),
        ({"kind": "diagonal"}, ["E1302"]),
        ("diagonal", ["E1302"]),
        ({}, ["E0104"]),
        ({"kind": 1}, ["E0110"]),
        ({"kind": "row_major", "params": []}, ["E0110"]),
        ({"kind": "row_major", "params": {"padding": "8"}}, ["E0103"]),
        ({"kind": "row_major", "params": {"pitch": 8}}, ["E0102"]),
        ({"kind": "row_major", "swizzle": "none"}, ["E0102"]),
        (7, ["E0103"]),
    ],
)
def test_a_layout_is_read_and_obeyed_or_refused(layout: object, found: list) -> None:
    assert read_layout(layout, ["B", "M", "N"]) == found


@pytest.mark.parametrize("alignment", [0, 1, 2, 3, 16, 24, 128, 256, 512, -16])
def test_an_alignment_is_a_power_of_two(alignment: int) -> None:
    is_one = alignment in (1, 2, 4, 8, 16, 32, 64, 128, 256)
    assert read_layout("row_major", ["M"], alignment=alignment) == ([("alignment", alignment)] if is_one else ["E1314"])
