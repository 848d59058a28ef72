"""Constants are values of their dtype, by one rule in every language, and those without elements have a form."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinyir import front
from tinyir.ir import tiny
from tinyir.ir.pipeline import STAGES
from tinyir.ir.types import DTYPES, number_of, round_to, show_number
from tinyir.kit.diag import Refused
from tinyir.lower import language_of, lower_to
from tinyir.play import book, region
from tinyir.play.tiny import play


def json_text(data: Any, dtype: str, shape: list[int]) -> str:
    """Front-end JSON of a model that gives a constant."""
    plain = {"dtype": dtype, "shape": shape}
    nodes = [{"op": "Reshape", "name": "y", "inputs": ["c"], "outputs": ["y"], "attrs": {"shape": shape}}]
    return json.dumps(
        {
            "signature": {"inputs": [], "outputs": [{"tensor": "y"}]},
            "tensors": {"c": {**plain, "value": data}, "y": plain},
            "graph": nodes,
        }
    )


def nodeid_text(data: Any, dtype: str, shape: list[int]) -> str:
    """NodeId JSON of the same."""
    return json.dumps({"uops": [{"id": "y", "uop": "CONST", "arg": {"value": data, "dtype": dtype, "shape": shape}}]})


def coreir_text(data: Any, dtype: str, shape: list[int]) -> str:
    """Core IR of the same."""
    return (
        f"%0 = ConstTensor() {{data={spelled(data)}, dtype={dtype}, shape={shape}}} : {dtype}{shape}\noutputs: y=%0\n"
    )


def dsl_text(data: Any, dtype: str, shape: list[int]) -> str:
    """The graph DSL of the same."""
    return f"graph main() -> (y: {dtype}{shape}) {{\n    y = const({spelled(data)}, {dtype}{shape})\n    return y\n}}\n"


def tiny_text(data: Any, dtype: str, shape: list[int]) -> str:
    """Tiny text of the same."""
    return (
        f"tinyir 1.0 tiny\n\nmodel main\n  out y : {dtype}{shape}\n\n  %y = CONST() {{value={spelled(data)}}} : "
        f"{dtype}{shape}\n\noutputs: %y\n"
    )


def spelled(data: Any) -> str:
    """A literal as the texts that are not JSON write it."""
    return "[" + ", ".join(map(spelled, data)) + "]" if isinstance(data, list) else show_number(data)


LANGUAGES = [json_text, nodeid_text, coreir_text, dsl_text, tiny_text]
REFUSED = [
    ([0, 7], "bool"),
    ([True, 2.0], "bool"),
    ([1.0], "bool"),
    ([True, 2.0], "fp32"),
    ([True], "i32"),
    ([1e39], "fp32"),
    ([-1e39], "fp32"),
    ([70000.0], "fp16"),
    ([65520], "fp16"),
    ([3.4e38], "fp16"),
    ([1e39], "bf16"),
    ([449.0, 1e6], "fp8e4m3"),
    ([-1e5], "fp8e5m2"),
    ([128], "i8"),
    ([-1], "u8"),
    ([256], "u8"),
    ([2**31], "i32"),
    ([2**63], "i64"),
    ([2**64], "u64"),
    ([-1], "u64"),
    ([0.5], "i32"),
    ([1e10], "i32"),
]
TAKEN = [
    ([False, True], "bool"),
    ([0, 1], "bool"),
    ([0.1, 1], "fp16"),
    ([65519.0], "fp16"),
    ([16777217], "fp32"),
    ([1e-60], "fp32"),
    ([-0.0], "fp32"),
    ([3.3895313892515355e38], "bf16"),
    ([448.0, 460.0], "fp8e4m3"),
    ([57344.0], "fp8e5m2"),
    ([2.0, -128], "i8"),
    ([255], "u8"),
    ([-(2**63), 2**63 - 1], "i64"),
    ([2**64 - 1], "u64"),
    ([1.7976931348623157e308], "fp64"),
]


@pytest.mark.parametrize("text", LANGUAGES)
@pytest.mark.parametrize(("data", "dtype"), REFUSED)
def test_what_is_no_value_of_its_dtype_is_refused(text: Callable[..., str], data: list[Any], dtype: str) -> None:
    with pytest.raises(Refused) as caught:
        front.read(text(data, dtype, [len(data)]))
    assert {d.code for d in caught.value.diags} == {"E1026"}
    assert all(d.span is not None for d in caught.value.diags) and dtype in str(caught.value)


@pytest.mark.parametrize("text", LANGUAGES)
@pytest.mark.parametrize(("data", "dtype"), TAKEN)
def test_rounding_to_the_dtype_is_no_error(text: Callable[..., str], data: list[Any], dtype: str) -> None:
    module = front.read(text(data, dtype, [len(data)]))
    assert tiny.check(module) == [] and tiny.parse(tiny.show(module)) == module
    (constant,) = [v for v in module.values if v.op == "CONST"]
    assert constant.attr("value") == tuple(round_to(DTYPES[dtype], n) for n in data)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_ends_of_every_dtype_are_its_values_and_what_follows_is_none(dtype: str) -> None:
    found = DTYPES[dtype]
    for end in (found.lowest, found.highest):
        assert number_of(found, bool(end) if found.kind == "b" else end) == end
        if not found.is_float:
            with pytest.raises(Refused):
                number_of(found, end + (1 if end == found.highest else -1))
    if found.is_float:
        assert math.isnan(number_of(found, math.nan))
        with pytest.raises(Refused):
            number_of(found, 10**400)
    if found.name == "fp8e4m3":  # the one float without an infinity
        with pytest.raises(Refused):
            number_of(found, math.inf)


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("PAD(x) {pad=[[1, 1]], value=70000.0} : fp16[4]", "y"),
        ('VALID(x) {guard="0 <= i0 < 1", value=true} : fp16[2]', "y"),
    ],
)
def test_what_fills_is_a_value_of_the_dtype(line: str, place: str) -> None:
    shape = line.rsplit(":", 1)[1].strip()
    with pytest.raises(Refused) as caught:
        tiny.parse(f"tinyir 1.0 tiny\n\nmodel m\n  in x : fp16[2]\n  out y : {shape}\n\n  %y = {line}\n\noutputs: %y\n")
    assert [(d.code, d.at) for d in caught.value.diags] == [("E1026", place)]


@pytest.mark.parametrize("stage", ["index", "region"])
def test_texts_of_later_stages_hold_values_of_the_dtype_too(stage: str) -> None:
    text = (
        "tinyir 1.0 tiny\n\nmodel m\n  in x : fp16[2]\n  out y : fp16[4]\n\n  %p = PAD(x) {pad=[[1, 1]], value=5.0} "
        ": fp16[4]\n  %y = NEG(%p) : fp16[4]\n\noutputs: %y\n"
    )
    module = tiny.parse(text)
    for following in STAGES[1 : STAGES.index(stage) + 1]:
        module = lower_to(following, module, "sm90")
    printed = language_of(stage).show(module)
    head, sign, tail = printed.rpartition("5.0")
    assert sign
    with pytest.raises(Refused) as caught:
        language_of(stage).parse(f"{head}70000.0{tail}")
    assert "E1026" in {d.code for d in caught.value.diags}


EMPTY = [[0], [2, 0], [2, 0, 3], [0, 2, 3], [0, 0], [1, 0, 4, 0]]


@pytest.mark.parametrize("text", [t for t in LANGUAGES if t is not coreir_text])  # sizes of Core IR are positive
@pytest.mark.parametrize("shape", EMPTY)
@pytest.mark.parametrize("dtype", ["fp32", "i64", "bool"])
def test_a_constant_without_elements_is_written_and_read_at_every_stage(
    text: Callable[..., str], shape: list[int], dtype: str
) -> None:
    nested = np.zeros(shape, bool).tolist()
    for data in ([], nested):
        module = front.read(text(data, dtype, shape))
        printed = tiny.show(module)
        assert tiny.check(module) == [] and tiny.show(tiny.parse(printed)) == printed and tiny.parse(printed) == module
        assert play(module, {})["y"].shape == tuple(shape)
        index = lower_to("index", module, "sm90")
        program = lower_to("region", lower_to("poly", index, "sm90"), "sm90")
        for player, staged in ((book, index), (region, program)):
            assert player.play(staged, {})["y"].shape == tuple(shape)


@pytest.mark.parametrize(
    ("data", "shape"), [([], [2]), ([[]], [2, 0]), ([[], []], [0, 2]), ([[], []], [2, 1, 0]), ([[1]], [0])]
)
def test_lists_that_do_not_fill_a_shape_are_refused(data: list[Any], shape: list[int]) -> None:
    codes = []
    for text in LANGUAGES:
        try:
            codes += [d.code for d in tiny.check(front.read(text(data, "i32", shape)))]
        except Refused as fault:
            codes += [d.code for d in fault.diags]
    assert (
        set(codes) <= {"E1009", "E0111"} and codes.count("E1009") >= len(LANGUAGES) - 1
    )  # Core IR has no size 0 at all
