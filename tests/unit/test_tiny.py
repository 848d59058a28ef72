"""ir.tiny: the text, and a fault in each row for the verifier."""

from __future__ import annotations

import pytest

from tinyir.ir import tiny
from tinyir.kit.diag import Refused

SAMPLE = """tinyir 1.0 tiny

model m
  in  x           : fp32[M, N]
  out y           : fp32[M]

  %a             = RELU(x)                                              : fp32[M, N]
  %y             = REDUCE(%a) {op=SUM, axes=[1], dtype=fp32}            : fp32[M]

outputs: %y
"""


def codes(text: str) -> list[str]:
    try:
        return [d.code for d in tiny.check(tiny.parse(text))]
    except Refused as fault:
        return [d.code for d in fault.diags]


def test_the_sample_holds() -> None:
    assert tiny.show(tiny.parse(SAMPLE)) == SAMPLE
    assert codes(SAMPLE) == []


@pytest.mark.parametrize(
    "old, new, code",
    [
        ("axes=[1]", "axes=[2]", "E1006"),
        ("axes=[1]", "axes=[1, 1]", "E1007"),
        (", dtype=fp32", "", "E1005"),
        ("op=SUM", "op=SUMM", "E0106"),
        ("RELU(x)", "RELU(z)", "E0202"),
        ("RELU(x)", "RELU(%y)", "E0203"),
        ("RELU(x)", "ADD(x)", "E0204"),
        ("RELU(x)", "NOT(x)", "E1002"),
        ("%a  ", "%x  ", "E0202"),
        ("outputs: %y", "outputs: y=x", "E1305"),
        ("outputs: %y", "outputs: z=%y", "E1305"),
        ("outputs: %y", "outputs:", "E1305"),
        ("{op=SUM", "{oops=1, op=SUM", "E0102"),
        ("axes=[1]", "axes=1", "E0103"),
        ("fp32[M, N]\n  out", "fp31[M, N]\n  out", "E0101"),
        ("  out y           : fp32[M]", "  out y           : fp32[M]\n  out y           : fp32[M]", "E1301"),
        ("model m", "model m\nshapes s {M=1}", "E0002"),
    ],
)
def test_a_planted_fault_is_named(old: str, new: str, code: str) -> None:
    assert old in SAMPLE
    assert code in codes(SAMPLE.replace(old, new, 1))


def test_all_faults_in_one_run_in_source_order() -> None:
    text = SAMPLE.replace("RELU(x)", "RELU(z)").replace("outputs: %y", "outputs: y=%q")
    assert codes(text) == ["E0202", "E0202", "W2001"]


def test_both_places_of_a_disagreement() -> None:
    text = SAMPLE.replace("RELU(x)", "ADD(x, b)").replace("  out y", "  in  b           : fp32[N]\n  out y")
    (fault,) = tiny.check(tiny.parse(text))[:1]
    assert fault.code == "E1001" and [label.span.line for label in fault.labels] == [4, 5]


def test_names_of_any_spelling() -> None:
    text = SAMPLE.replace("%a ", '%"/layer:0/a b" ').replace("REDUCE(%a)", 'REDUCE(%"/layer:0/a b")')
    module = tiny.parse(text)
    assert module.values[0].name == "/layer:0/a b"
    assert tiny.parse(tiny.show(module)) == module


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "-0.0", "5e-324", "true", "[1.0, 2.5]", "3*N + 1"])
def test_constants_survive(value: str) -> None:
    dtype = "bool" if value == "true" else "fp64"
    text = (
        f"tinyir 1.0 tiny\n\nmodel m\n  in  x           : {dtype}[N]\n  out y           : {dtype}[2]\n\n  %y         "
        f"    = CONST() {{value={value}}}"
    )
    text = f"{text:<0}"
    line = text.split("\n")[-1]
    text = text[: -len(line)] + f"{line:<71} : {dtype}[2]\n\noutputs: %y\n"
    assert tiny.show(tiny.parse(text)) == text
