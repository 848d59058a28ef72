"""What follows from a fault is not told as another one."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from tinyir import front
from tinyir.front.corrections import corrected
from tinyir.ir import tiny
from tinyir.kit.diag import Refused
from tinyir.kit.spelling import with_edits
from tinyir.runtime.abi import admit

JSON = """{"signature": {"inputs": [{"tensor": "x"}], "outputs": [{"tensor": "y"}]},
 "tensors": {"x": {"dtype": "fp32", "shape": [2, 3]}, "y": {"dtype": "fp32", "shape": [3, 2]}},
 "graph": [{"op": "Transpose", "inputs": ["x"], "outputs": ["y"], "attrs": {"perm": [1, 0]}}]}"""
TINY = """tinyir 1.0 tiny

model m
  in  x           : fp32[2, 3]
  out y           : fp32[3]


  %t             = PERMUTE(x) {perm=[1, 0]}                             : fp32[3, 2]
  %y             = REDUCE(%t) {op=SUM, axes=[1], dtype=fp32}            : fp32[3]

outputs: %y
"""


@pytest.mark.parametrize(
    "old,new",
    [('"x": {"dtype"', '"x": {"dype"'), ('"shape": [2, 3]', '"shpe": [2, 3]'), ('"inputs": ["x"]', '"inptus": ["x"]')],
)
def test_a_misspelt_key_of_json_is_one_fault_with_its_edit(old: str, new: str) -> None:
    assert old in JSON
    with pytest.raises(Refused) as refused:
        front.read(JSON.replace(old, new))
    assert [d.code for d in refused.value.diags] == ["E0102"]
    assert corrected(JSON.replace(old, new))[0] == JSON


@pytest.mark.parametrize(
    "old,new,op", [("perm=", "prem=", "PERMUTE"), ("op=", "opp=", "REDUCE"), ("dtype=", "dype=", "REDUCE")]
)
def test_a_misspelt_attribute_of_tiny_text_is_one_fault_of_its_op(old: str, new: str, op: str) -> None:
    text = TINY.replace(old, new)
    with pytest.raises(Refused) as refused:
        tiny.parse(text)
    (diag,) = with_edits(refused.value.diags, text)
    assert (diag.code, diag.why()) == ("E0102", f"{new[:-1]} is not an attribute of {op}")
    assert diag.edit is not None and diag.edit.text == old[:-1]


def test_what_is_missing_beside_a_key_of_another_meaning_is_told() -> None:
    with pytest.raises(Refused) as refused:
        tiny.parse(TINY.replace("perm=[1, 0]", "far=[1, 0]"))
    assert sorted(d.code for d in refused.value.diags) == ["E0102", "E0104"]


DSL = "graph main(x: f32[4, 8]) -> f32[4, 8] { return exp(x).cast(f32) }"


@pytest.mark.parametrize(
    "new",
    [DSL.replace("return exp(x)", "retrun (exp(x))"), DSL.replace("return", "rturn"), DSL.replace(".cast", ".casst")],
)
def test_a_misspelt_word_of_a_program_is_corrected_where_it_reads_on(new: str) -> None:
    kept = new.replace("retrun", "return").replace("rturn", "return").replace("casst", "cast")
    assert corrected(new)[0] == kept


def test_a_word_that_would_not_help_is_not_proposed() -> None:
    """`for` is like `floor`, which could not be there either."""
    with pytest.raises(Refused) as refused:
        front.read(DSL.replace("return exp(x).cast(f32)", "for i in x: return x"))
    (diag,) = refused.value.diags
    assert (diag.code, diag.edit, diag.suggestion()) == ("E0002", None, "")


@pytest.mark.parametrize(
    "op,meant",
    [
        ("GlobalAveragePool", "Pool with mode average and no kernel"),
        ("GlobalMaxPool", "Pool with mode max and no kernel"),
        ("AvgPool", "Pool with mode average"),
        ("Sum", "Reduce with op sum"),
        ("ReduceMean", "Reduce with op mean"),
        ("Maximum", "Elementwise with fn max"),
        ("Dot", "MatMul, GEMM"),
        ("Conv2d", "Conv"),
    ],
)
def test_other_names_of_ops_are_known(op: str, meant: str) -> None:
    text = JSON.replace("Transpose", op)
    with pytest.raises(Refused) as refused:
        front.read(text)
    (diag, *_) = with_edits(refused.value.diags, text)
    assert diag.code == "E0105" and diag.suggestion() == f"near it: {meant}"
    assert (diag.edit is None) == (meant != "Conv")


PRODUCT = """{"signature": {"inputs": [{"tensor": "x"}], "outputs": [{"tensor": "y"}]},
 "tensors": {"x": {"dtype": "fp32", "shape": [4, 8]}, "y": {"dtype": "fp32", "shape": [4, 4]}},
 "graph": [{"op": "MatMul", "inputs": ["x", "x"], "outputs": ["y"]}]}"""


@pytest.mark.parametrize(
    "text,place",
    [("graph main(x: f32[4, 8]) -> f32[4, 4] {\n  return x @ x\n}\n", "x @ x"), (PRODUCT, '["x", "x"]')],
    ids=["dsl", "json"],
)
def test_two_axes_of_one_tensor_are_told_where_it_is_read_twice(text: str, place: str) -> None:
    with pytest.raises(Refused) as refused:
        front.read(text)
    (diag,) = refused.value.diags
    assert (diag.code, text[diag.span.start : diag.span.end]) == ("E1304", place)
    assert [label.note for label in diag.labels] == ["x[1] = 8", "x[0] = 4"]


def test_tensors_that_nobody_reads_come_first_near_an_output_that_nobody_gives() -> None:
    names = ["x", *(f"h{n}" for n in range(12)), "last"]
    ops = [{"op": "Elementwise", "fn": "exp", "inputs": [a], "outputs": [b]} for a, b in itertools.pairwise(names)]
    tensors = {name: {"dtype": "fp32", "shape": [4]} for name in ("x", "y")}
    model = {"signature": {"inputs": [{"tensor": "x"}], "outputs": [{"tensor": "y"}]}, "tensors": tensors, "graph": ops}
    with pytest.raises(Refused) as refused:
        front.read(json.dumps(model))
    (diag,) = refused.value.diags
    assert diag.code == "E1312" and diag.facts["near"].startswith("last, ")


@pytest.mark.parametrize(
    "line,code,drawn",
    [("  sym M in 1..0\n", "E0103", "M in 1..0"), ("shapes default {N=1}\n", "E1303", "{N=1}")],
    ids=["range", "sizes"],
)
def test_a_wrong_line_of_a_signature_is_drawn(line: str, code: str, drawn: str) -> None:
    text = TINY.replace("2, 3", "M, 3").replace("fp32[3]", "fp32[3]").replace("\n\n  %t", "\n" + line + "\n  %t", 1)
    faults = [d for d in tiny.check(tiny.parse(text)) if d.code == code]
    assert [text[d.span.start : d.span.end] for d in faults][:1] == [drawn]


def test_an_array_that_does_not_fit_is_told_by_axis() -> None:
    module = front.read(JSON)
    for shape, told in (((2, 5), "axis 1 is 5, not 3"), ((2,), "the array is of rank 1, not 2")):
        with pytest.raises(Refused) as refused:
            admit(module.model, {"x": np.zeros(shape, np.float32)}, {})
        assert refused.value.diags[0].suggestion() == told
