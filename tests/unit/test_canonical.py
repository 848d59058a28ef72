"""The rewrites of tiny: each does what the example in its file says, keeps what is computed, and the canonical form is
one."""

from __future__ import annotations

import inspect
import random
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyir.ir import tiny
from tinyir.ir.model import Model
from tinyir.ir.ops import OPS
from tinyir.lower.tiny import CANONICAL, PASSES, canonical, transition_of
from tinyir.play.tiny import play

from .graphs import random_graph


def examples_of(rewrite: object) -> tuple[str, str]:
    """The text before and after, as the docstring of the pass's file shows them."""
    lines = inspect.getdoc(inspect.getmodule(rewrite)).split("\n")
    arrow = lines.index("->")
    before = [line for line in lines[:arrow] if line.startswith("    ")]
    after = [line for line in lines[arrow + 1 :] if line.startswith("    ")]
    return whole("\n".join(before)), whole("\n".join(after))


def whole(body: str) -> str:
    """A text around values: its last value is the output y."""
    last = re.findall(r"^ *%(\S+) = .* : (\S.*)$", body, re.M)[-1]
    inputs = "\n".join(line for line in body.split("\n") if line.startswith("    in "))
    values = "\n".join(line for line in body.split("\n") if not line.startswith("    in "))
    return f"tinyir 1.0 tiny\n\nmodel m\n{inputs}\n  out y : {last[1]}\n\n{values}\noutputs: y=%{last[0]}\n"


@pytest.mark.parametrize("rewrite", PASSES, ids=lambda p: p.__name__)
def test_a_pass_does_what_its_file_shows(rewrite: object) -> None:
    before, after = (tiny.parse(t) for t in examples_of(rewrite))
    assert [d for m in (before, after) for d in tiny.check(m) if d.is_error] == []
    given = tiny.show(rewrite(before))
    wanted = tiny.show(after)
    assert re.sub(r"outputs:.*", "", given) == re.sub(r"outputs:.*", "", wanted)
    assert tiny.show(before) != tiny.show(after)


@pytest.mark.parametrize("rewrite", PASSES, ids=lambda p: p.__name__)
def test_a_pass_says_in_one_line_what_it_does(rewrite: object) -> None:
    line = transition_of(rewrite)
    assert line.endswith(".") and len(line) < 130
    assert inspect.getmodule(rewrite).__name__.endswith(f".{rewrite.__name__}")


def shuffled(module: tiny.Module, seed: int) -> tiny.Module:
    """The same graph written otherwise: values in another order, operands of commutative ops swapped, other names for
    values."""
    draw = random.Random(seed)
    names = {v.name: f"v{i + 100}" for i, v in enumerate(draw.sample(module.values, len(module.values)))}
    left, ready, values = {v.name: v for v in module.values}, [], []
    while left:
        ready = [v for v in left.values() if not any(o in left for o in v.operands)]
        values.append(left.pop(draw.choice(ready).name))
    swapped = [
        replace(v, operands=tuple(draw.sample(v.operands, len(v.operands)))) if OPS[v.op].is_commutative else v
        for v in values
    ]
    renamed = tuple(
        replace(v, name=names[v.name], operands=tuple(names.get(o, o) for o in v.operands)) for v in swapped
    )
    return tiny.Module(
        module.model, renamed, tuple(tiny.Result(r.output, names.get(r.value, r.value)) for r in module.results)
    )


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 10**9))
def test_canonical_text_does_not_depend_on_how_a_graph_is_written(seed: int) -> None:
    module, arrays = random_graph(seed)
    found = canonical(module)
    assert [d for d in tiny.check(found) if d.is_error] == []
    assert tiny.show(canonical(found)) == tiny.show(found)
    assert tiny.show(canonical(shuffled(module, seed))) == tiny.show(found)
    before, after = play(module, arrays), play(found, arrays)
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from(PASSES))
def test_each_pass_alone_keeps_the_meaning(seed: int, rewrite: object) -> None:
    module, arrays = random_graph(seed)
    found = rewrite(module)
    assert [d for d in tiny.check(found) if d.is_error] == []
    before, after = play(module, arrays), play(found, arrays)
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)


def folded(body: str) -> str:
    return tiny.show(canonical(tiny.parse(whole(body))))


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (
            "    in x : fp32[]\n%a = CONST() {value=-0.0} : fp32[]\n%b = CONST() {value=0.0} : fp32[]\n%y = SUB(%a, "
            "%b) : fp32[]",
            "CONST() {value=-0.0}",
        ),
        (
            "    in x : i32[]\n%a = CONST() {value=7} : i32[]\n%b = CONST() {value=0} : i32[]\n%y = IDIV(%a, %b) : "
            "i32[]",
            "IDIV(%a, %b)",
        ),
        ("    in x : i8[]\n%a = CONST() {value=100} : i8[]\n%y = ADD(%a, %a) : i8[]", "CONST() {value=-56}"),
        (
            "    in x : fp16[]\n%a = CONST() {value=0.1} : fp16[N]\n%y = MUL(%a, %a) : fp16[N]",
            "CONST() {value=0.009995}",
        ),
        ("    in x : i64[]\n%a = CONST() {value=3*N + 1} : i64[]\n%y = EXPAND(%a) : i64[4]", "CONST() {value=3*N + 1}"),
        (
            "    in x : i64[]\n%a = CONST() {value=[[1, 2], [3, 4]]} : i64[2, 2]\n%y = REDUCE(%a) {op=SUM, axes=[0], "
            "dtype=i64} : i64[2]",
            "CONST() {value=[4, 6]}",
        ),
        (
            "    in x : i64[N]\n%c = CONST() {value=true} : bool[N]\n%a = NEG(x) : i64[N]\n%b = ABS(x) : i64[N]\n%y "
            "= WHERE(%c, %a, %b) : i64[N]",
            "NEG(x)",
        ),
        (
            "    in x : fp32[9]\n%a = CONST() {value=[1, 2]} : fp32[2]\n%b = RESHAPE(%a) : fp32[2, 1]\n%y = "
            "EXPAND(%b) : fp32[2, 100]",
            "EXPAND",
        ),
        ("    in x : fp32[9]\n%a = CONST() {value=nan} : fp32[3]\n%y = MAX(%a, %a) : fp32[3]", "CONST() {value=nan}"),
    ],
)
def test_folding_keeps_the_convention_of_playback(body: str, kept: str) -> None:
    body = "\n".join(line if line.startswith("    ") else "    " + line for line in body.split("\n"))
    assert kept in folded(body)


def test_five_thousand_values_deep_is_no_matter() -> None:
    model = Model("m", (tiny.parse(whole("    in x : fp32[16]\n    %y = NEG(x) : fp32[16]")).model.inputs[0],), ())
    type = model.inputs[0].type
    values = [tiny.Value("p0", "NEG", ("x",), (), type)]
    values += [tiny.Value(f"p{i}", "ADD", (f"p{i - 1}", f"p{i - 1}"), (), type) for i in range(1, 5000)]
    out = replace(model.inputs[0], name="y")
    found = canonical(tiny.Module(replace(model, outputs=(out,)), tuple(values), (tiny.Result("y", "p4999"),)))
    assert len(found.values) == 5000


def test_the_canonical_pipeline_is_in_the_list() -> None:
    assert set(CANONICAL) < set(PASSES)
