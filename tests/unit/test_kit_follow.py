"""What follows from a fault is not told as another one."""

from __future__ import annotations

import pytest

from tinyir import front
from tinyir.front.corrections import corrected
from tinyir.ir import tiny
from tinyir.kit.diag import Refused
from tinyir.kit.spelling import with_edits

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
