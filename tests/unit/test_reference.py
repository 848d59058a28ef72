"""The reference: what is committed is what the tables give, and every example runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tinyir import front
from tinyir.cmd.pages import PAGES
from tinyir.front.ops import ELEMENTWISE, FRONT_OPS
from tinyir.front.ops.table import MANY
from tinyir.ir import tiny
from tinyir.ir.ops import OPS
from tinyir.play.tiny import play
from tinyir.reference import json_file, json_ops, schema, tiny_ops
from tinyir.reference.written import written
from tinyir.runtime.arrays import random_arrays, sizes_for

from ..commands import ROOT, run_line
from .json_schema import faults_of

JSON_OPS = [*((name, op) for name, op in FRONT_OPS.items()), *((f"fn {n}", op) for n, op in ELEMENTWISE.items())]
SCHEMA = schema.schema()
WRITTEN = written(PAGES)
MODELS = sorted(
    f for f in (ROOT / "samples").glob("*/*.json") if front.language_of(f.read_text(encoding="utf-8")) == "json"
)


@pytest.mark.parametrize("path", sorted(WRITTEN))
def test_what_is_committed_is_what_the_tables_give(path: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == WRITTEN[path], "python tests/bless.py docs/"


def test_nothing_else_is_committed_there() -> None:
    listed = {str(f.relative_to(ROOT)) for f in (ROOT / "docs" / "reference").rglob("*.md")}
    assert listed == {path for path in WRITTEN if path.startswith("docs/reference")}


@pytest.mark.parametrize(("name", "op"), JSON_OPS, ids=[name for name, _ in JSON_OPS])
def test_an_example_of_front_end_json_runs(name: str, op: object) -> None:
    text, types = json_ops.example(op, name.removeprefix("fn "))
    module = front.read(text)
    assert tiny.check(module) == [] or all(not d.is_error for d in tiny.check(module))
    assert {t.name: str(t.type) for t in module.model.outputs}.items() <= types.items()
    assert list(faults_of(json.loads(text), SCHEMA, SCHEMA)) == []
    model = module.model
    sizes = dict.fromkeys(sizes_for(model), 8)
    arrays = random_arrays(model, sizes, 0)
    for tensor in model.inputs:  # places in a table, within it
        if tensor.type.dtype.name == "i64":
            arrays[tensor.name] = arrays[tensor.name] % 4
    outputs = play(module, arrays)
    assert {n: list(a.shape) for n, a in outputs.items()} == {
        t.name: [d.evaluate(sizes) for d in t.type.shape] for t in model.outputs
    }


@pytest.mark.parametrize(("name", "op"), JSON_OPS, ids=[name for name, _ in JSON_OPS])
def test_an_example_of_the_graph_dsl_is_read_and_gives_the_same(name: str, op: object) -> None:
    own = name.removeprefix("fn ")
    text, wanted = json_ops.dsl_example(op, own), front.read(json_ops.example(op, own)[0])
    assert bool(text) == (name != "fn mean"), "mean of the graph DSL is a reduction"
    if not text:
        return
    module = front.read(text)
    assert [d for d in tiny.check(module) if d.is_error] == []
    assert [t.type for t in module.model.outputs] == [t.type for t in wanted.model.outputs]


@pytest.mark.parametrize("op", OPS.values(), ids=list(OPS))
def test_an_example_of_tiny_text_holds_and_runs(op: object) -> None:
    text = tiny_ops.example(op)
    module = tiny.parse(text)
    assert [d for d in tiny.check(module) if d.is_error] == []
    assert [v.op for v in module.values] == [op.name]
    arrays = random_arrays(module.model, sizes_for(module.model), 0)
    (output,) = play(module, {n: a % 4 if a.dtype == np.int64 else a for n, a in arrays.items()}).values()
    assert output.size


def test_the_model_of_the_page_is_read_and_has_every_key() -> None:
    text = json_file.laid_out(json_file.MODEL)
    assert json.loads(text) == json_file.MODEL
    assert set(json_file.MODEL) == set(json_file.KEYS["top"])
    assert [d for d in tiny.check(front.read(text)) if d.is_error] == []


@pytest.mark.parametrize("model", MODELS, ids=lambda f: f.stem)
def test_the_schema_takes_the_samples(model: Path) -> None:
    assert list(faults_of(json.loads(model.read_text(encoding="utf-8")), SCHEMA, SCHEMA)) == []


def test_a_function_may_be_named_among_the_attributes() -> None:
    node = {"op": "Elementwise", "inputs": ["X"], "outputs": ["Y"], "attrs": {"fn": "relu"}}
    tensors = {n: {"dtype": "fp32", "shape": [4]} for n in "XY"}
    sides = {"inputs": [{"tensor": "X"}], "outputs": [{"tensor": "Y"}]}
    model = {"signature": sides, "tensors": tensors, "graph": [node]}
    assert list(faults_of(model, SCHEMA, SCHEMA)) == [] and front.read(json.dumps(model)).values


@pytest.mark.parametrize("change", [
    {"op": "MatMull"},
    {"op": "MatMul", "attrs": {"acc_dtyp": "fp32"}},
    {"op": "MatMul", "inputs": ["X"]},
    {"op": "Elementwise", "fn": "reluu"},
    {"op": "Transpose", "inputs": ["X"], "attrs": {"perm": "1, 0"}},
    {"op": "Cast", "inputs": ["X"]},
    {"op": "Softmax", "inputs": ["X"], "axes": 1},
])  # fmt: skip
def test_the_schema_refuses_what_the_reader_refuses(change: dict) -> None:
    node = {"op": "MatMul", "inputs": ["X", "W"], "outputs": ["Y"]} | change
    tensors = {n: {"dtype": "fp32", "shape": [4, 4]} for n in "XWY"}
    sides = {"inputs": [{"tensor": "X"}, {"tensor": "W"}], "outputs": [{"tensor": "Y"}]}
    model = {"signature": sides, "tensors": tensors, "graph": [node]}
    assert list(faults_of(model, SCHEMA, SCHEMA)) != []
    with pytest.raises(front.Refused if hasattr(front, "Refused") else Exception):
        front.read(json.dumps(model))


CORE = '%0 = Input() {{name="x"}} : {type}\n%1 = {line}\noutputs: y=%1\n'


@pytest.mark.parametrize(("point", "line", "given", "wanted"), [
    ("negative_index", "Index(%0) {indices=[-1]} : i32[]", [1, 2, 3], 3),
    ("slice_beyond_the_end", "Slice(%0) {starts=[-1], ends=[-4], steps=[-1]} : i32[3]", [1, 2, 3], [3, 2, 1]),
    ("integer_mean", "Mean(%0) {axes=[0], keepdims=false} : i32[]", [-1, -2, -2], -1),
    ("log_of_zero", "Log(%0) : f32[3]", [0.0, 1.0, -1.0], [-np.inf, 0.0, np.nan]),
    ("integer_overflow", "BinOp(%0, %0) {op=Add} : i32[3]", [2**31 - 1, 0, 1], [-2, 0, 2]),
    ("nan", "Relu(%0) : f32[3]", [np.nan, -1.0, 2.0], [np.nan, 0.0, 2.0]),
])  # fmt: skip
def test_core_ir_behaves_as_the_page_says(point: str, line: str, given: list, wanted: object) -> None:
    assert point in json.dumps(list(json_points()))
    kind = "f32" if "f32" in line else "i32"
    module = front.read(CORE.format(type=f"{kind}[3]", line=line))
    (found,) = play(module, {"x": np.array(given, np.float32 if kind == "f32" else np.int32)}).values()
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("line", "code"), [
    ("Index(%0) {indices=[3]} : i32[]", "E1020"),
    ("Slice(%0) {starts=[0], ends=[4], steps=[1]} : i32[3]", "E1102"),
])  # fmt: skip
def test_core_ir_refuses_as_the_page_says(line: str, code: str) -> None:
    from tinyir.kit.diag import Refused

    with pytest.raises(Refused, match=code):
        front.read(CORE.format(type="i32[3]", line=line))


def json_points() -> dict:
    """The points that Core IR's standard leaves open."""
    from tinyir.reference.page import words

    return words("coverage")["defined"]


@pytest.mark.parametrize(("topic", "begins"), [
    ("BroadcastMismatch", b"# E1001 BroadcastMismatch"),
    ("e1001", b"# E1001 BroadcastMismatch"),
    ("MatMul", b"# Front-end JSON\n\n### MatMul"),
    ("split_k", b"# Fields of plans\n\n### split_k"),
    ("tma_load", b"# Statements of gpu text\n\n### tma_load"),
    ("gelu", b"# Front-end JSON\n\n### gelu"),
    ("yield", b"# The languages\n\n### yield"),
    ("must_fuse:", b"# The languages\n\n### must_fuse"),
])  # fmt: skip
def test_a_topic_is_found_by_code_or_name(topic: str, begins: bytes) -> None:
    done = run_line(f"tiny-explain {topic}")
    assert (done.code, done.out.startswith(begins)) == (0, True), done


def test_a_word_of_a_text_is_told_by_its_rules_and_diagnostics() -> None:
    found = run_line("tiny-explain must_fuse").out.decode()
    assert "// tiny\n" in found and "// region\n" in found and "E1425 FusedApart" in found and "E1001" not in found


def test_a_line_of_a_text_is_told_by_its_words() -> None:
    found = run_line("tiny-explain 'fence wgmma nothing'").out.decode()
    assert found.count("# Statements of gpu text") == 2 and "### fence" in found and "### wgmma" in found
    assert run_line("tiny-explain 'nobody knows this'").code == 1


def test_a_name_of_several_kinds_gives_each() -> None:
    found = run_line("tiny-explain relu").out.decode()
    assert "# Front-end JSON" in found and "# Ops of tiny text" in found


def test_counts_are_told_in_words() -> None:
    assert MANY == ELEMENTWISE["add"].inputs[1]
    assert "Operands: 2 or more" in run_line("tiny-explain add").out.decode()


def test_what_is_said_to_be_refused_of_onnx_is_not_read() -> None:
    """By its own name, or as a function of the standard."""
    import onnx

    from tinyir.reference.coverage import onnx_ops
    from tinyir.reference.page import words

    refused = set(words("coverage")["refused"])
    assert refused & {op for ops in onnx_ops().values() for op in ops} == set()
    assert refused <= {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""}


def test_every_row_of_words_is_there_in_both_languages() -> None:
    """The reference falls back where one is missing; here none is, and none is left over."""
    from tinyir.front.ops import ELEMENTWISE, FRONT_OPS
    from tinyir.ir.plan.table import TABLE
    from tinyir.kernels import FAMILIES
    from tinyir.reference import gpu_statements, json_ops
    from tinyir.reference.page import words

    assert words("family").keys() == {f.name for f in FAMILIES}
    assert words("plan").keys() == {f.word for f in TABLE}
    assert words("gpu").keys() == gpu_statements.statements().keys()
    assert all(said.keys() == {"en", "ja"} for said in words("family").values())
    assert all("ja" in said for name in ("plan", "gpu") for said in words(name).values())
    for table in (FRONT_OPS, ELEMENTWISE):
        for name, op in table.items():
            assert "ja" in json_ops.said_of(op, name) and json_ops.meaning(op, name, "en"), name
