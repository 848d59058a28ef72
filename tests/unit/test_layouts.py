"""The layout of the signature is the ABI: whatever it says, kernels compute what playback does."""

from __future__ import annotations

import itertools
import json
import shutil

import numpy as np
import pytest

from tinyir import front
from tinyir.ir import manifest
from tinyir.ir.pipeline import STAGES
from tinyir.kit.diag import Refused
from tinyir.lower import lower_to
from tinyir.runtime.arrays import random_arrays
from tinyir.runtime.run import run
from tinyir.sim.host import COMPILERS

pytestmark = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler on PATH")


def emitted(model: dict) -> str:
    module = front.read(json.dumps(model))
    for stage in STAGES[1:]:
        module = lower_to(stage, module, "sm90")
    return manifest.show(module)


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
        if name == "flat" and layouts["A"] == "col_major":  # the same memory in another shape: only rows are that
            with pytest.raises(Refused) as fault:
                emitted(model_of(graph, shapes, ["C"], layouts, sizes))
            assert [d.code for d in fault.value.diags] == ["E1402"]
            continue
        text = emitted(model_of(graph, shapes, ["C"], layouts, sizes))
        arrays = random_arrays(manifest.parse(text).region.model, sizes, 1)
        outputs, report = run(text, arrays, device="sim", check=True)
        assert [d.wrong for d in report.differences] == [0], layouts
        assert np.isfinite(outputs["C"].astype(np.float64)).all()
