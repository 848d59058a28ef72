"""A message on how a function of the graph DSL is called shows how it is written, and is about the function."""

from __future__ import annotations

import re

import pytest

from tinyir import front
from tinyir.front.dslcalls import FUNCTIONS, ROWS, SNAKE, own_functions
from tinyir.front.dslforms import form_of
from tinyir.front.ops import ELEMENTWISE
from tinyir.front.uops import UOPS
from tinyir.kit.diag import Diag, Refused

NAMES = sorted({*own_functions(), *ROWS, *SNAKE, *ELEMENTWISE, *FUNCTIONS, *UOPS})


def fault(body: str, x: str = "f32[4, 4]") -> Diag:
    with pytest.raises(Refused) as caught:
        front.read(f"graph main(x: {x}, z: f32[4, 4], i: i64[4]) -> (y: f32[4, 4]) {{ a = {body} return a }}")
    return caught.value.diags[0]


@pytest.mark.parametrize("name", NAMES)
def test_a_call_with_too_few_operands_shows_the_form(name: str) -> None:
    form = form_of(name)
    assert form.startswith(f"{name}(") and form.endswith(")")
    operands = re.findall(r"(?<=[(\s])[xyzuv]\b", form)  # those of `[x, y]` are one
    found = fault(f"{name}({', '.join('x' for _ in operands[1:])})")
    assert found.code in ("E0102", "E0103", "E0104", "E0204")
    assert [str(label.note) for label in found.labels] == [f"it is written {form}"]


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ("concat(x, z, axis=1)", "E0103", {"key": "parts"}),
        ("concat([x, z])", "E0104", {"key": "axis"}),
        ("x.slice(starts=[0], ends=[2], axes=[1])", "E0102", {"at": "slice", "key": "starts"}),
        ("random(shape=[4, 4], seed=3)", "E0104", {"key": "type"}),
        ('random(type="fp32[4, 4]", seed=3)', "E0103", {"key": "type"}),
    ],
)
def test_a_call_in_another_form_is_told_of_the_function(body: str, code: str, said: dict[str, str]) -> None:
    found = fault(body)
    assert found.code == code and {**found.facts, **said} == found.facts
    assert form_of(re.search(r"\w+(?=\()", body)[0]) in str(found.labels[0].note)


def test_an_inner_call_is_told_of_its_own_form() -> None:
    found = fault("relu(matmul(x))")
    assert [str(label.note) for label in found.labels] == ["it is written matmul(x, y)"]


def test_an_operand_without_a_name_is_an_operand() -> None:
    found = fault("embedding(x + x, i)", "f32[4]")
    assert found.code == "E1012" and found.facts["tensor"] == "an operand"
