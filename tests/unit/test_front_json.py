"""Front-end JSON: what is read, what is refused, and where the message points."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyir import front
from tinyir.front.jsontext import MAX_NESTING, Places, parse_json, without_comments
from tinyir.ir import tiny
from tinyir.kit.diag import Diag, Refused

SAMPLES = Path(__file__).resolve().parents[2] / "samples"


def model(inputs: dict[str, Any], outputs: dict[str, Any], graph: list[dict[str, Any]], **more: Any) -> str:
    """A front-end JSON text; inputs and outputs are {name: "fp32[M, 3]"}."""
    tensors = {}
    for name, kind in {**inputs, **outputs}.items():
        dtype, _, dims = kind.partition("[")
        tensors[name] = {
            "dtype": dtype,
            "shape": [int(d) if d.strip().isdigit() else d.strip() for d in dims[:-1].split(",") if d.strip()],
        }
    signature = {"inputs": [{"tensor": n} for n in inputs], "outputs": [{"tensor": n} for n in outputs]}
    return json.dumps({"signature": signature, "tensors": tensors, "graph": graph, **more}, indent=1)


def faults(text: str) -> tuple[Diag, ...]:
    with pytest.raises(Refused) as caught:
        front.read(text)
    return caught.value.diags


def at(text: str, diag: Diag) -> str:
    return text[diag.span.start : diag.span.end]


def relu(x: str = "fp32[M]", y: str = "fp32[M]", **more: Any) -> str:
    return model(
        {"X": x},
        {"Y": y},
        [{"op": "Elementwise", "name": "act", "fn": "relu", "inputs": ["X"], "outputs": ["Y"]}],
        **more,
    )


# --- JSON text


def test_every_value_and_key_keeps_its_place() -> None:
    text = '{"a": [1, {"b": "x\\n"}],\n "c": -2.5e1}'
    root = parse_json(text)
    assert root.plain == json.loads(text)
    inner = root.get("a").value[1]
    assert text[inner.start : inner.end] == '{"b": "x\\n"}'
    member = root.value["c"]
    assert text[member.start : member.end] == '"c"'
    span = Places(text).of(member.node)
    assert (span.line, span.column, text[span.start : span.end]) == (2, 7, "-2.5e1")


@pytest.mark.parametrize(
    ("text", "code", "line", "column"),
    [
        ('{"a": 1,\n "a": 2}', "E0012", 2, 2),
        ('{"a": 1,\n}', "E0011", 2, 1),
        ("[1, 2,]", "E0011", 1, 7),
        ("[1 2]", "E0011", 1, 4),
        ('{"a" 1}', "E0011", 1, 6),
        ('{"a": 1} x', "E0011", 1, 10),
        ('{"a": "b', "E0011", 1, 7),
        ('{"a": tru}', "E0011", 1, 7),
        ("[01]", "E0011", 1, 2),
        ("[1.]", "E0011", 1, 2),
        ("[NaN]", "E0013", 1, 2),
        ("[-Infinity]", "E0013", 1, 2),
        ("[1e999]", "E0013", 1, 2),
        ("[" + "1" * 400 + "]", "E0013", 1, 2),
        ('["\\ud800"]', "E0011", 1, 2),
        ('["\\q"]', "E0011", 1, 2),
        ("[" * (MAX_NESTING + 1), "E0006", 1, MAX_NESTING + 1),
        ("[[1]", "E0011", 1, 5),
        ("", "E0011", 1, 1),
        ("[1]]", "E0011", 1, 4),
        ("{]", "E0011", 1, 2),
    ],
)
def test_bad_json_is_placed(text: str, code: str, line: int, column: int) -> None:
    with pytest.raises(Refused) as caught:
        parse_json(text)
    (diag,) = caught.value.diags
    assert (diag.code, diag.span.line, diag.span.column) == (code, line, column)
    assert diag.why()


@pytest.mark.parametrize(
    "text", ["[]", "{}", " [ ] ", "null", '"\\u00e9\\ud83d\\ude00"', "[[[]], {}, true, false, -0.0, 1E3]"]
)
def test_good_json_reads_as_the_standard_reader_has_it(text: str) -> None:
    assert parse_json(text).plain == json.loads(text)


# --- models


def test_the_sample_reads_to_its_committed_text() -> None:
    folder = SAMPLES / "gemm_bias_relu"
    module = front.read(
        (folder / "gemm_bias_relu.json").read_text(encoding="utf-8"), str(folder / "gemm_bias_relu.json")
    )
    assert tiny.show(module) == (folder / "gemm_bias_relu.tiny").read_text(encoding="utf-8")
    assert tiny.check(module) == []


def test_symbols_and_shape_sets() -> None:
    module = front.read(relu(shape_sets={"s": {"M": 7}}, symbols={"M": [1, 9]}, name="named"), "x/y.json")
    assert tiny.show(module).splitlines()[2:7] == [
        "model named",
        "  in  X           : fp32[M]",
        "  out Y           : fp32[M]",
        "  sym M in 1..9",
        "shapes s {M=7}",
    ]
    assert front.read(relu(), "x/y.json").model.name == "main"
    assert front.read(relu("fp32[3]", "fp32[3]")).model.shape_sets == ()
    assert [d.code for d in faults(relu(shape_sets={"s": {"N": 7}}))] == ["E1303", "E1303"]


def test_an_axis_of_two_sizes_is_refused_with_both_places() -> None:
    text = model(
        {"A": "fp16[M, K]", "B": "fp16[K', N]"},
        {"C": "fp16[M, N]"},
        [{"op": "GEMM", "name": "g", "inputs": ["A", "B"], "outputs": ["C"]}],
    )
    (diag,) = faults(text)
    assert (diag.code, diag.at, at(text, diag)) == ("E1304", "g", '"K\'"')
    assert [text[label.span.start : label.span.end] for label in diag.labels] == ['"K"']


def test_a_bias_of_the_wrong_axis_is_refused_with_the_correction() -> None:
    graph = [{"op": "Elementwise", "name": "add", "fn": "add", "inputs": ["X", "b"], "outputs": ["Y"]}]
    text = model({"X": "fp32[M, N]", "b": "fp32[M]"}, {"Y": "fp32[M, N]"}, graph)
    (diag,) = faults(text)
    assert (diag.code, str(diag.facts["small"]), diag.facts["fits"]) == ("E1001", "fp32[M]", "[M, 1]")
    assert "[M, 1]" in diag.suggestion() and "[M, 1]" in diag.suggestion("ja")
    assert [label.note for label in diag.labels] == ["X is fp32[M, N]", "b is fp32[M]"]


def test_declared_shapes_must_follow_and_declared_dtypes_are_cast_to() -> None:
    text = relu("fp32[M, N]", "fp32[N, M]")
    (diag,) = faults(text)
    assert diag.code == "E1306" and str(diag.facts["inferred"]) == "fp32[M, N]" and len(diag.labels) == 1
    module = front.read(relu("fp32[M]", "bf16[M]"))
    assert [(v.name, v.op, str(v.type)) for v in module.values] == [
        ("act", "RELU", "fp32[M]"),
        ("Y", "CAST", "bf16[M]"),
    ]


def test_all_faults_in_one_run() -> None:
    graph = [
        {"op": "GEM", "name": "a", "inputs": ["X", "X"], "outputs": ["P"]},
        {"op": "Elementwise", "name": "b", "fn": "add", "inputs": ["P", "Q"], "outputs": ["R"]},
        {"op": "Elementwise", "name": "c", "fn": "elu", "inputs": ["X", "X"], "outputs": ["S"], "attrs": {"alpha": []}},
        {"op": "Elementwise", "name": "d", "fn": "tahn", "inputs": ["X"], "outputs": ["Y"]},
    ]
    assert [d.code for d in faults(model({"X": "fp32[M]"}, {"Y": "fp32[M]"}, graph))] == [
        "E0105",
        "E1308",
        "E0103",
        "E0204",
        "E0105",
    ]


def test_ops_may_stand_in_any_order_but_not_in_a_circle() -> None:
    ops = [
        {"op": "Elementwise", "name": n, "fn": "neg", "inputs": [x], "outputs": [y]}
        for n, x, y in (("c", "q", "Y"), ("b", "p", "q"), ("a", "X", "p"))
    ]
    assert [v.name for v in front.read(model({"X": "fp32[M]"}, {"Y": "fp32[M]"}, ops)).values] == ["a", "b", "c"]
    ops[2]["inputs"] = ["q"]
    (diag,) = faults(model({"X": "fp32[M]"}, {"Y": "fp32[M]"}, ops))
    assert diag.code == "E1310"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda m: m.pop("signature"), "E0104"),
        (lambda m: m.update(signature=[]), "E0110"),
        (lambda m: m["signature"]["inputs"].append({"tensor": "X"}), "E1301"),
        (lambda m: m["signature"]["inputs"].append({"tensor": "W"}), "E1307"),
        (lambda m: m["signature"]["outputs"].append({"tensor": "X2"}), "E1307"),
        (
            lambda m: (
                m["tensors"].update(Z={"dtype": "fp32", "shape": []})
                or m["signature"]["outputs"].append({"tensor": "Z"})
            ),
            "E1312",
        ),
        (lambda m: m["signature"]["inputs"][0].update(role="weight"), "E1302"),
        (lambda m: m["signature"]["inputs"][0].update(alignment="16"), "E0103"),
        (lambda m: m["signature"]["inputs"][0].update(colour="red"), "E0102"),
        (lambda m: m["tensors"]["X"].update(dtype="float"), "E0101"),
        (lambda m: m["tensors"]["X"].update(shape="M"), "E0110"),
        (lambda m: m["tensors"]["X"].update(shape=[1.5]), "E0111"),
        (lambda m: m["tensors"]["X"].update(shape=["M+"]), "E0111"),
        (lambda m: m["tensors"]["X"].update(shape=["k0"]) or m["tensors"]["Y"].update(shape=["k0"]), "E1311"),
        (lambda m: m["tensors"].update(W={"dtype": "fp32", "shape": [2], "value": [1, 2, 3]}), "E1009"),
        (lambda m: m["tensors"].update(W={"dtype": "i32", "shape": [], "value": 0.5}), "E1026"),
        (lambda m: m["graph"].append(3), "E0110"),
        (lambda m: m["graph"].append({"op": "Elementwise", "fn": "neg", "inputs": ["X"], "outputs": ["Y"]}), "E1309"),
        (lambda m: m["graph"].append({"op": "Elementwise", "fn": "neg", "inputs": ["X"], "outputs": ["X"]}), "E1309"),
        (
            lambda m: m["graph"].append({"op": "Elementwise", "fn": "neg", "inputs": ["X"], "outputs": ["P", "Q"]}),
            "E0205",
        ),
        (lambda m: m["graph"].append({"op": "GEMM", "inputs": ["X", 2], "outputs": ["P"]}), "E0109"),
        (lambda m: m["graph"].append({"op": "GEMM", "inputs": ["X", "X"], "outputs": ["P"]}), "E1012"),
        (
            lambda m: m["graph"].append(
                {"op": "MatMul", "inputs": ["X", "X"], "outputs": ["P"], "attrs": {"acc_dtype": "fp16"}}
            ),
            "E1011",
        ),
        (lambda m: m["graph"].append({"op": "Elementwise", "fn": "not", "inputs": ["X"], "outputs": ["P"]}), "E1002"),
        (lambda m: m["graph"].append({"op": "Where", "inputs": ["X", 1, 2], "outputs": ["P"]}), "E1002"),
        (
            lambda m: m["graph"].append({"op": "Clip", "inputs": ["X", 1], "outputs": ["P"], "attrs": {"min": 2}}),
            "E0108",
        ),
        (lambda m: m["graph"][0].update(attrs={"beta": 1}, beta=2), "E0108"),
        (lambda m: m.update(symbols={"M": [3, 1]}), "E0103"),
        (lambda m: m.update(shape_sets={"s": {"M": "3"}}), "E0110"),
        (lambda m: m.update(extra=1), "E0102"),
    ],
)
def test_each_fault_has_its_code_and_place(change: Any, code: str) -> None:
    tree = json.loads(relu())
    change(tree)
    found = faults(json.dumps(tree))
    assert code in [d.code for d in found]
    for diag in found:
        assert diag.span is not None and diag.why() and diag.why("ja")


def test_constants_inline_and_in_a_file() -> None:
    tree = json.loads(relu("fp32[2]", "fp32[2]"))
    tree["tensors"]["k"] = {"dtype": "fp32", "shape": [2], "value": [1, "inf"]}
    tree["tensors"]["w"] = {"dtype": "fp32", "shape": [2], "file": "w.npz", "key": "w"}
    tree["graph"] = [
        {"op": "Elementwise", "name": "s", "fn": "add", "inputs": ["X", "k"], "outputs": ["t"]},
        {"op": "Elementwise", "name": "m", "fn": "mul", "inputs": ["t", "w"], "outputs": ["Y"]},
    ]
    text = tiny.show(front.read(json.dumps(tree)))
    assert '  in  w           : fp32[2] {role=param, storage=const_pool, file="w.npz", key="w"}' in text
    assert "%k             = CONST() {value=[1.0, inf]}" in text
    assert tiny.show(tiny.parse(text)) == text


@pytest.mark.parametrize(("op", "attrs", "place"), [
    ("TopK", {"axis": 1, "k": 20}, "20"),
    ("TopK", {"axis": 7, "k": 1}, "7"),
    ("GroupNorm", {"groups": 3}, "3"),
])  # fmt: skip
def test_a_fault_of_an_attribute_is_placed_at_its_value(op: str, attrs: dict[str, Any], place: str) -> None:
    inputs = {"X": "fp32[M, 8]", **({"S": "fp32[8]", "B": "fp32[8]"} if op == "GroupNorm" else {})}
    text = model(inputs, {"Y": "fp32[M, 8]"}, [{"op": op, "inputs": [*inputs], "outputs": ["Y"], "attrs": attrs}])
    assert at(text, faults(text)[0]) == place


def test_axes_that_were_not_stated_are_named_where_a_list_has_too_few_entries() -> None:
    def resized(**attrs: Any) -> str:
        graph = [{"op": "Resize", "inputs": ["X"], "outputs": ["Y"], "attrs": attrs}]
        return model({"X": "fp32[1, 3, 8, 8]"}, {"Y": "fp32[1, 3, 16, 16]"}, graph)

    text = resized(sizes=[16, 16])
    (diag,) = faults(text)
    assert diag.code == "E1101" and at(text, diag).split() == ["[", "16,", "16", "]"]
    assert "`axes`" in str(diag.labels[-1].note)
    (diag,) = faults(resized(sizes=[16], axes=[2, 3]))
    assert diag.code == "E1101" and not any("`axes`" in str(label.note) for label in diag.labels)
    front.read(resized(sizes=[16, 16], axes=[2, 3]))


def test_types_in_the_signature_are_told_where_to_go_and_read_on_with() -> None:
    """As other formats have it: a fault for each key that is misplaced, and those that the model has beside."""
    entry = {"name": "X", "dtype": "fp32", "shape": ["M"]}
    signature = {"inputs": [entry], "outputs": [{"tensor": "Y", "dtype": "fp32", "shape": ["N"]}]}
    graph = [{"op": "Elementwise", "fn": "relu", "inputs": ["X"], "outputs": ["Y"]}]
    found = faults(json.dumps({"signature": signature, "tensors": {}, "graph": graph}))
    assert [(d.code, d.facts.get("key")) for d in found] == [
        ("E0102", "name"),
        ("E0102", "dtype"),
        ("E0102", "dtype"),
        ("E1306", None),
    ]
    assert "stated in tensors" in found[1].suggestion() and found[0].facts["known"] == "tensor"


def warned(text: str) -> list[Diag]:
    notes: list[Diag] = []
    front.read(text, notes=notes)
    return notes


@pytest.mark.parametrize("stated", [None, "bf16", "fp32"])
def test_factors_that_nobody_asked_to_widen_are_told(stated: str | None) -> None:
    graph = [
        {"op": "MatMul", "inputs": ["X", "W"], "outputs": ["H"]},
        {"op": "Elementwise", "fn": "relu", "inputs": ["H"], "outputs": ["R"]},
        {"op": "Einsum", "equation": "mn,np->mp", "inputs": ["R", "V"], "outputs": ["Y"]},
    ]
    text = model({"X": "bf16[M, K]", "W": "bf16[K, N]", "V": "bf16[N, P]"}, {"Y": "bf16[M, P]"}, graph)
    loaded = json.loads(text)
    if stated:
        loaded["tensors"]["R"] = {"dtype": stated, "shape": ["M", "N"]}
    text = json.dumps(loaded)
    notes = warned(text)
    assert [d.code for d in notes] == ([] if stated else ["W2107"])
    assert all(at(text, d) == '"R"' and "bf16" in d.why() and "fp32" in d.why() for d in notes)


def test_a_term_of_the_accumulators_dtype_is_not_told() -> None:
    graph = [
        {"op": "MatMul", "inputs": ["X", "X"], "outputs": ["H"]},
        {"op": "GEMM", "inputs": ["X", "X", "H"], "outputs": ["Y"]},
    ]
    assert warned(model({"X": "fp16[4, 4]"}, {"Y": "fp16[4, 4]"}, graph)) == []


def test_a_misspelt_list_of_operands_is_the_only_fault() -> None:
    op = {"op": "Elementwise", "name": "act", "fn": "relu", "input": ["X"], "outputs": ["Y"]}
    (fault,) = faults(model({"X": "fp32[M]"}, {"Y": "fp32[M]"}, [op]))
    assert (fault.code, fault.facts["key"], fault.facts["known"]) == ("E0102", "input", "inputs")


def test_a_symbol_of_a_faulty_tensor_is_one() -> None:
    assert {d.code for d in faults(relu("float32[M]", "float32[M]", shape_sets={"s": {"M": 7}}))} == {"E0101"}
    codes = [d.code for d in faults(relu("float32[M]", "fp32[M]", shape_sets={"s": {"M": 7, "Q": 1}}))]
    assert codes.count("E1303") == 1


def test_two_ops_of_one_name_are_told() -> None:
    graph = [
        {"op": "Elementwise", "name": name, "fn": "relu", "inputs": [x], "outputs": [y]}
        for name, x, y in (("a", "X", "H"), ("a", "H", "R"), ("b", "R", "Y"))
    ]
    text = model({"X": "fp32[M]"}, {"Y": "fp32[M]"}, graph)
    (diag,) = warned(text)
    assert diag.code == "W2108" and diag.span.start > text.index('"a"') + 3 and at(text, diag) == '"a"'


@pytest.mark.parametrize("fn", ["add", "mul", "max", "min", "mean"])
def test_what_joins_operands_takes_two_at_least(fn: str) -> None:
    graph = [{"op": "Elementwise", "fn": fn, "inputs": ["X"], "outputs": ["Y"]}]
    (diag,) = faults(model({"X": "fp32[M]"}, {"Y": "fp32[M]"}, graph))
    assert (diag.code, diag.facts["given"]) == ("E0204", 1)


def test_help_lists_what_there_is() -> None:
    def pool(**attrs: Any) -> str:
        node = {"op": "Pool", "inputs": ["X"], "outputs": ["Y"], "attrs": attrs}
        return model({"X": "fp32[N, 3, 8, 8]"}, {"Y": "fp32[N, 3, 4, 4]"}, [node])

    (found,) = [d for d in faults(pool(op="max", kernel=[2, 2], stride=[2, 2])) if d.code == "E0102"]
    assert "mode" in found.suggestion()
    assert faults(relu().replace('"relu"', '"swish"'))[0].suggestion() == "near it: silu"
    given = json.loads(relu())
    given["signature"]["inputs"] = ["X"]
    assert '{"tensor": "x"}' in faults(json.dumps(given))[0].why()


def test_names_are_unique_and_bounded() -> None:
    ops = [
        {"op": "Elementwise", "name": "X", "fn": "neg", "inputs": ["X"], "outputs": ["p"]},
        {"op": "Elementwise", "name": "X", "fn": "exp", "inputs": ["p"], "outputs": ["q"]},
        {"op": "Elementwise", "name": "/a b/" + "n" * 300, "fn": "exp", "inputs": ["q"], "outputs": ["Y"]},
    ]
    module = front.read(model({"X": "fp32[M]"}, {"Y": "fp32[M]"}, ops))
    names = [v.name for v in module.values]
    assert len(set(names) | {"X"}) == len(names) + 1 and max(map(len, names)) <= 80
    assert tiny.parse(tiny.show(module)) == module


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_damaged_model_is_refused_or_sound(data: st.DataObject) -> None:
    cases = [
        f.with_suffix(".case").read_text(encoding="utf-8")
        for f in sorted((SAMPLES.parent / "tests" / "golden" / "front").glob("*.out"))
    ]
    models = [
        body
        for command, _, body in (text.partition("\n") for text in cases)
        if command == "# $ tiny-front" and body.startswith("{")
    ]
    tree = json.loads(without_comments(data.draw(st.sampled_from(models))))
    for _ in range(data.draw(st.integers(1, 3))):
        parent, key, node = None, None, tree
        while isinstance(node, (dict, list)) and node and data.draw(st.integers(0, 9)):
            parent, key = node, data.draw(st.sampled_from(list(node) if isinstance(node, dict) else range(len(node))))
            node = parent[key]
        if parent is not None:
            parent[key] = data.draw(
                st.sampled_from(
                    [None, True, 0, -1, 3, 1.5, "M", "x", "2*N", "floor(N/0)", "", [], {}, [1, 2], ["M"], 10**30, "inf"]
                )
            )
    try:
        module = front.read(json.dumps(tree))
    except Refused as fault:
        assert all(d.code and d.why() and d.why("ja") and d.suggestion() is not None for d in fault.diags)
    else:
        assert {d.code for d in tiny.check(module) if d.is_error} <= {"E1303"}
        assert tiny.parse(tiny.show(module)) == module


def test_what_is_no_model_is_refused() -> None:
    (diag,) = faults("a model in no language that we know")
    assert diag.code == "E0014"
    assert [d.code for d in faults("{}")] == ["E0104"] * 3
    assert front.read("\ufeff" + relu()) == front.read(relu())
