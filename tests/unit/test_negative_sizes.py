"""No tensor has a size below 0, in no language."""

from __future__ import annotations

import json
from typing import Any

import pytest
from onnx import TensorProto, helper

from tinyir import front
from tinyir.front.pt2 import to_json
from tinyir.ir import tiny
from tinyir.ir.pipeline import STAGES
from tinyir.kit.diag import Refused
from tinyir.lower import language_of, lower_to

from ..pt2.by_hand import FLOAT, archive, model, node

DSL = "graph<N=none> main(x: f16[{0}, 4]) -> (y: f16[{0}, 4]) {{ a = x.relu() return a }}"
TINY = """tinyir 1.0 tiny

model m
  in  x : fp16[{0}, 4]
  out y : fp16[{0}, 4]

  %y = RELU(x) : fp16[{0}, 4]

outputs: %y
"""
COREIR = '%0 = Input() {{name="x"}} : f16[{0}, 4]\n%1 = Relu(%0) : f16[{0}, 4]\noutputs: %1\n'
TENSOR = '{{"dtype": "fp16", "shape": ["{0}", 4]}}'
JSON = (
    '{{"signature": {{"inputs": [{{"tensor": "x"}}], "outputs": [{{"tensor": "y"}}]}}, "tensors": {{"x": '
    + TENSOR
    + ', "y": '
    + TENSOR
    + '}}, "graph": [{{"op": "Elementwise", "fn": "relu", "inputs": ["x"], "outputs": ["y"]}}]}}'
)


def codes(text: str) -> set[str]:
    try:
        return {d.code for d in tiny.check(front.read(text)) if d.is_error}
    except Refused as fault:
        return {d.code for d in fault.diags}


@pytest.mark.parametrize("text", [DSL, TINY, COREIR, JSON], ids=["dsl", "tiny", "coreir", "json"])
@pytest.mark.parametrize("size", ["-4", "N - N - 4", "-N", "-2*N - 1"])
def test_a_size_below_0_is_refused(text: str, size: str) -> None:
    assert codes(text.format(size)) == {"E0111"}


@pytest.mark.parametrize("text", [DSL, TINY, JSON], ids=["dsl", "tiny", "json"])
@pytest.mark.parametrize("size", ["0", "N", "N - 4", "4 - N"])
def test_a_size_that_may_be_0_is_taken(text: str, size: str) -> None:
    assert codes(text.format(size)) == set()


@pytest.mark.parametrize("text", [DSL, TINY, JSON], ids=["dsl", "tiny", "json"])
def test_a_size_that_64_bits_do_not_count_is_refused(text: str) -> None:
    assert codes(text.format(1 << 63)) == {"E0006"}


@pytest.mark.parametrize("stage", ["index", "poly", "region", "plan", "gpu"])
def test_a_size_below_0_in_a_later_text_is_refused(stage: str) -> None:
    lowered: Any = front.read(DSL.format(4))
    for each in STAGES[1 : STAGES.index(stage) + 1]:
        lowered = lower_to(each, lowered, "sm90")
    language = language_of(stage)
    text = language.show(lowered)
    with pytest.raises(Refused) as fault:
        language.parse(text.replace("fp16[4, 4]", "fp16[-4, 4]"))
    assert {d.code for d in fault.value.diags} == {"E0111"}


def test_a_range_below_0_is_refused() -> None:
    text = TINY.format("N").replace("\n\n  %y", "\n  sym N in -5..-1\n\n  %y")
    assert codes(text) and codes(text.replace("-5..-1", "0..5")) == set()
    assert codes(JSON.format("N").replace('"graph"', '"symbols": {"N": [-5, -1]}, "graph"')) == {"E0103"}


@pytest.mark.parametrize(("symbols", "wanted"), [({"N": -4}, {"E0111"}), ({"N": 4}, set())])
def test_a_symbol_that_nodeid_says_is_below_0_is_refused(symbols: dict[str, int], wanted: set[str]) -> None:
    uops = [{"id": "x", "uop": "INPUT", "arg": {"tensor_id": "X", "dtype": "fp32", "shape": ["N"]}},
            {"id": "y", "uop": "ADD", "src": ["x", "x"]}]  # fmt: skip
    net = {"symbols": symbols, "uops": uops, "outputs": ["y"]}
    assert codes(json.dumps(net)) == wanted


@pytest.mark.parametrize(("size", "is_open"), [(-1, True), (-4, False)])
def test_onnx_leaves_a_size_open_by_minus_1_alone(size: int, is_open: bool) -> None:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [size, 4]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    raw = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    if is_open:
        assert str(front.read(front.onnx_to_json(raw, "", {}, {})).model.inputs[0].type) == "fp32[x_0, 4]"
    else:
        with pytest.raises(Refused) as fault:
            front.onnx_to_json(raw, "", {}, {})
        assert [d.code for d in fault.value.diags] == ["E0111"]


def test_an_archive_with_a_size_below_0_is_refused() -> None:
    net = model({"x": (FLOAT, [-4])}, [node("relu.default", ["y"], self="x")], {"y": (FLOAT, [-4])})
    with pytest.raises(Refused) as fault:
        to_json(archive(net, {}))
    assert {d.code for d in fault.value.diags} == {"E0111"}
