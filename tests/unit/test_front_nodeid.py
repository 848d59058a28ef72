"""NodeId JSON: the seeds' programs against NumPy, the rules of its own, and every fault with its code."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinyir import front
from tinyir.front.corrections import corrected
from tinyir.front.jsontext import without_comments
from tinyir.ir import tiny
from tinyir.kit.diag import Diag, Refused
from tinyir.play.tiny import play

from ..golden.cases import GOLDEN, split_case


def seed(name: str) -> str:
    return split_case(GOLDEN / "front" / f"nodeid_{name}.case")[1]


def arg(uop: str, id: str, *src: Any, **args: Any) -> dict[str, Any]:
    return {"id": id, "uop": uop, **({"src": list(src)} if src else {}), **({"arg": args} if args else {})}


def tensor(id: str, dtype: str, *shape: Any) -> dict[str, Any]:
    return arg("INPUT", id, tensor_id=id.upper(), dtype=dtype, shape=list(shape))


def read(*nodes: dict[str, Any], **top: Any) -> tiny.Module:
    module = front.read(json.dumps({"uops": list(nodes), **top}))
    assert [d for d in tiny.check(module) if d.is_error] == []
    assert tiny.parse(tiny.show(module)) == module
    return module


def codes(*nodes: dict[str, Any], **top: Any) -> list[str]:
    with pytest.raises(Refused) as caught:
        read(*nodes, **top)
    assert all(d.span for d in caught.value.diags)
    return [d.code for d in caught.value.diags]


SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "attention_scores"
RNG = np.random.default_rng(4)


def half(*shape: int) -> np.ndarray:
    """Odd sixteenths within 3/2 of zero: their sums of products are exact in fp32, in any order."""
    return ((RNG.integers(-12, 12, shape) * 2 + 1) / 16).astype(np.float16)


def test_gemm_of_seed_000() -> None:
    a, b = half(5, 7), half(7, 3)
    given = play(front.read(seed("gemm")), {"A": a, "B": b})["n9"]
    np.testing.assert_array_equal(given, (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16))


@pytest.mark.parametrize("name", ["conv", "conv3x3"])
def test_conv_of_seed_000(name: str) -> None:
    x, w, bias = half(2, 4, 9, 8), half(6, 2 if name == "conv" else 4, 3, 3), half(6)
    sizes = {"Kh": 3, "Kw": 3, "Sh": 2, "Sw": 2, "Dh": 1, "Dw": 1, "pt": 1, "pb": 1, "pl": 1, "pr": 1}
    given = play(front.read(seed(name)), {"X": x, "W": w, "bias": bias}, sizes if name == "conv" else None)["y"]
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    groups = x.shape[1] // w.shape[1]
    wanted = np.zeros((2, 6, 5, 4))
    for m in range(6):
        group = m // (6 // groups)
        part = padded[:, group * w.shape[1] : (group + 1) * w.shape[1]]
        for i in range(5):
            for j in range(4):
                wanted[:, m, i, j] = (part[:, :, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3] * w[m]).sum((1, 2, 3)) + bias[m]
    np.testing.assert_allclose(given, wanted, rtol=2e-3, atol=2e-3)


def row_softmax(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2)
    raised = np.exp(scores - scores.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


@pytest.mark.parametrize(
    ("name", "faults"), [("attention", ["E1001", "E1001", "W2102"]), ("dump_attention", ["E1001", "E1001"])]
)
def test_attention_is_refused_corrected_and_right(name: str, faults: list[str]) -> None:
    notes: list[Diag] = []
    with pytest.raises(Refused) as caught:
        front.read(seed(name), notes=notes)
    assert [d.code for d in (*caught.value.diags, *notes)] == faults
    text, done = corrected(seed(name))
    assert [d.code for d in done] == faults and corrected(text) == (text, [])
    q, k = half(1, 2, 4, 8), half(1, 2, 5, 8)
    (given,) = play(front.read(text), {"Q": q, "K": k}).values()
    np.testing.assert_allclose(given, row_softmax(q, k), rtol=2e-3, atol=2e-3)


def test_the_corrected_attention_is_a_sample() -> None:
    text = SAMPLE.joinpath("attention_scores.json").read_text(encoding="utf-8")
    assert (
        json.loads(without_comments(text))["uops"]
        == json.loads(without_comments(corrected(seed("attention"))[0]))["uops"]
    )
    q, k = half(2, 3, 4, 8), half(2, 3, 5, 8)
    for module in (front.read(text), tiny.parse(SAMPLE.joinpath("attention_scores.tiny").read_text(encoding="utf-8"))):
        np.testing.assert_allclose(play(module, {"Q": q, "K": k})["n15"], row_softmax(q, k), rtol=2e-3, atol=2e-3)


ORDERED = [
    arg("INPUT", "k", tensor_id="K", dtype="fp16", shape=["N", "D"]),
    arg("PERMUTE", "t", "k", perm=[1, 0]),
    arg("RESHAPE", "y", "t", result_shape=[1, "N", "D"]),
]


@pytest.mark.parametrize(
    ("more", "top", "left"),
    [
        ([], {}, ["k", "y"]),  # nobody else reads the PERMUTE: it goes
        ([arg("NEG", "z", "t")], {}, ["k", "t", "y", "z"]),
        ([], {"outputs": ["y", "t"]}, ["k", "t", "y"]),
    ],
)
def test_a_reshape_that_transposes_nothing_is_warned_of_and_corrected(
    more: list[Any], top: dict[str, Any], left: list[str]
) -> None:
    k = np.arange(6, dtype=np.float16).reshape(2, 3)
    for nodes in ([*ORDERED, *more], [*more, *ORDERED[::-1]], [*more, ORDERED[2], ORDERED[0], ORDERED[1]]):
        for indent in (None, 1):
            notes: list[Diag] = []
            text = json.dumps({"uops": nodes, **top}, indent=indent)
            front.read(text, notes=notes)
            assert [(d.code, d.at) for d in notes] == [("W2102", "y")] and notes[0].span is not None
            found, done = corrected(text)
            assert [d.code for d in done] == ["W2102"] and sorted(n["id"] for n in json.loads(found)["uops"]) == left
            np.testing.assert_array_equal(play(front.read(found), {"K": k})["y"], k[None])


@pytest.mark.parametrize(
    ("shape", "result", "is_warned"),
    [
        (["N", "D"], ["D", "N"], True),
        (["N", "D"], [1, "D", 1, "N"], True),
        (["B", "N", "D", 4], ["B", "D", "N", 4], True),
        (["N", "D"], ["N", 1, "D"], False),
        (["N", "N"], ["N", 1, "N"], False),
        (["N", 4], [4, "N"], False),  # 4 lines of N, as a split would have it
        (["N", "D"], ["N*D"], False),
    ],
)
def test_only_a_change_of_the_order_of_symbols_is_warned_of(
    shape: list[Any], result: list[Any], is_warned: bool
) -> None:
    module = read(tensor("x", "fp32", *shape), arg("RESHAPE", "y", "x", result_shape=result))
    assert [d.code for d in tiny.check(module)] == ["W2102"] * is_warned
    assert [d.code for d in tiny.check(tiny.parse(tiny.show(module)))] == ["W2102"] * is_warned


MAPPED = np.arange(24, dtype=np.float32).reshape(4, 6)


@pytest.mark.parametrize(
    ("index_map", "wanted"),
    [
        ({"i1": "i0", "i0": "i1"}, MAPPED[:, :3].T),
        ({"i0": "i1", "i1": "i0"}, MAPPED[:, :3].T),
        (["i1", "i0"], MAPPED[:, :3].T),
        ({"i1": "2*i0 + 1", "i0": "i1"}, MAPPED[:, 1::2].T),
        ({"i0": "floordiv(i0, 2)", "i1": "i1"}, MAPPED[[0, 0, 1]][:, :4]),
        ({"i0": "i0 // 2", "i1": "i1"}, MAPPED[[0, 0, 1]][:, :4]),
        ({"i0": "floor(i0/2)", "i1": "i1"}, MAPPED[[0, 0, 1]][:, :4]),
        ({"i0": "floordiv(i0 - 3, 2) + 2", "i1": "(i1 + 2) // 2 // 1"}, MAPPED[[0, 1, 1]][:, [1, 1, 2, 2]]),
        ({"i1": 2, "i0": "i1"}, MAPPED[:, [2, 2, 2]].T),
    ],
)
@pytest.mark.parametrize("uop", ["VIEW", "LOAD"])
def test_a_map_is_read_by_the_names_of_the_axes(uop: str, index_map: Any, wanted: np.ndarray) -> None:
    module = read(
        tensor("x", "fp32", 4, 6),
        arg(uop, "y", "x", **{"index_map" if uop == "VIEW" else "map": index_map}, result_shape=[3, 4]),
    )
    np.testing.assert_array_equal(play(module, {"X": MAPPED})["y"], wanted)


@pytest.mark.parametrize(
    ("index_map", "expected"),
    [
        ({"i0": "i1"}, ["E0104"]),
        ({"i0": "i1", "i1": "i0", "i2": "i0"}, ["E0102"]),
        ({"i0": "i1", "o1": "i0"}, ["E0102", "E0104"]),
        (["i0"], ["E1101"]),
        (["i0", "i1", "i0"], ["E1101"]),
        ({"i0": "i1", "i1": "i2"}, ["E1205"]),
        ({"i0": "i1", "i1": "i0 + Q"}, ["E1205"]),
        ({"i0": "i1", "i1": "floordiv(i0, 0)"}, ["E1105"]),
        ({"i0": "i1", "i1": "i0 // -2"}, ["E1105"]),
        ({"i0": "i1", "i1": "i0 +"}, ["E0103"]),
        ({"i0": "i1", "i1": None}, ["E0103"]),
        ("i0", ["E0103"]),
    ],
)
def test_a_map_with_a_fault_is_refused(index_map: Any, expected: list[str]) -> None:
    assert codes(tensor("x", "fp32", 4, 6), arg("VIEW", "y", "x", index_map=index_map, result_shape=[3, 4])) == expected


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("VIEW(x) {index_map=[i1]}", "E1205"),
        ('VALID(x) {guard="0 <= i1 < 2"}', "E1205"),
        ('VALID(x) {guard="0 <= i0 < Q"}', "E1304"),
        ("VIEW(x) {index_map=[i0 - Q]}", "E1304"),
        ("CONST() {value=Q}", "E1304"),
    ],
)
def test_tiny_text_names_no_axis_and_no_symbol_that_is_not_there(line: str, code: str) -> None:
    text = (
        f"tinyir 1.0 tiny\n\nmodel m\n  in x : fp32[4]\n  out y : fp32[4]\n\n  %y = {line} : fp32[4]\n\noutputs: %y\n"
    )
    assert [d.code for d in tiny.check(tiny.parse(text)) if d.is_error] == [code]


def test_a_cast_that_is_put_in_is_remarked_on() -> None:
    notes: list[Diag] = []
    nodes = [tensor("x", "fp32", "N"), tensor("h", "fp16", "N"), arg("ADD", "y", "x", "h")]
    front.read(json.dumps({"uops": nodes}), notes=notes)
    (note,) = notes
    assert (note.code, note.at) == ("R3005", "y") and "from fp16 to fp32" in note.why() and "H is CAST" in note.why()
    assert note.span is not None
    front.read(
        json.dumps({"uops": [*nodes[:2], arg("CAST", "w", "h", to="fp32"), arg("ADD", "y", "x", "w")]}),
        notes=(written := []),
    )
    assert written == []


def test_dump_of_seed_001_is_the_front_end_json_beside_it() -> None:
    a, b, bias = half(5, 7), half(7, 3), half(3)
    sample = Path(__file__).resolve().parents[2] / "samples" / "gemm_bias_relu" / "gemm_bias_relu.json"
    arrays = {"A": a, "B": b, "bias": bias}
    np.testing.assert_array_equal(
        play(front.read(seed("dump_gemm")), arrays)["C2"], play(front.read(sample.read_text()), arrays)["C2"]
    )


def test_literals_short_expressions_and_a_load() -> None:
    x = tensor("x", "fp32", "N")
    nodes = [
        x,
        arg("LOAD", "l", "x"),
        arg("ADD", "a", "l", 0.5),
        arg("WHERE", "w", {"gt": "a,0"}, "a", {"mul": ["l", -2]}),
        arg("STORE", "s", "w", tensor="Y"),
    ]
    given = np.array([-3, -0.5, 0, 1], np.float32)
    module = read(*nodes)
    assert [t.name for t in module.model.outputs] == ["Y"]
    np.testing.assert_array_equal(play(module, {"X": given})["Y"], np.where(given + 0.5 > 0, given + 0.5, given * -2))


def test_a_load_through_a_map_is_a_view() -> None:
    module = read(tensor("x", "fp32", 4, 6), arg("LOAD", "y", "x", map=["i1", "2*i0"], result_shape=[3, 4]))
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    np.testing.assert_array_equal(play(module, {"X": x})["y"], x[:, ::2].T)


@pytest.mark.parametrize(("axes", "wanted"), [([-1], (2,)), (["A"], (0,)), ([0, "C"], (0, 2)), ([1, 2], (1, 2))])
def test_axes_are_numbers_or_words(axes: list[Any], wanted: tuple[int, ...]) -> None:
    module = read(tensor("x", "fp32", "A", "B", "C"), arg("REDUCE", "y", "x", op="SUM", axes=axes, dtype="fp32"))
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    np.testing.assert_array_equal(play(module, {"X": x})["y"], x.sum(wanted))


def test_words_follow_their_axes() -> None:
    nodes = [
        tensor("x", "fp32", "N", "N"),
        arg("RESHAPE", "r", "x", result_shape=["N", "N", 1]),
        arg("PERMUTE", "p", "r", perm=[2, 0, 1]),
        arg("NEG", "m", "p"),
    ]
    assert codes(*nodes, arg("REDUCE", "y", "m", op="SUM", axes=["N"], dtype="fp32")) == ["E1022"]
    nodes[1] = arg("RESHAPE", "r", "x", result_shape=["A", "B", 1])
    module = read(*nodes, arg("REDUCE", "y", "m", op="SUM", axes=["B"], dtype="fp32"), symbols={"A": "N", "B": "N"})
    assert module.values[-1].attr("axes") == (2,)


def test_a_product_is_exact_only_where_one_wider_sum_alone_reads_it() -> None:
    x = tensor("x", "fp16", "N")
    product, total = arg("MUL", "p", "x", "x"), arg("REDUCE", "s", "p", op="SUM", axes=[0], dtype="fp32")
    dtype = lambda *nodes, **top: {v.name: v.type.dtype.name for v in read(*nodes, **top).values}["p"]  # noqa: E731
    assert dtype(x, product, total) == "fp32"
    assert dtype(x, product, total, arg("NEG", "n", "p")) == "fp16"
    assert dtype(x, product, arg("REDUCE", "s", "p", op="MAX", axes=[0], dtype="fp32")) == "fp16"
    assert dtype(x, product, arg("REDUCE", "s", "p", op="SUM", axes=[0], dtype="fp16")) == "fp16"


def test_init_is_folded_in() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for op, init, wanted in (("SUM", 10, x.sum(1) + 10), ("MAX", 4, np.maximum(x.max(1), 4)), ("SUM", 0, x.sum(1))):
        module = read(tensor("x", "fp32", 2, 3), arg("REDUCE", "y", "x", op=op, axes=[1], dtype="fp32", init=init))
        np.testing.assert_array_equal(play(module, {"X": x})["y"], wanted)
        assert len(module.values) == (1 if init == 0 else 3)


def test_outputs_by_id_by_name_and_by_default() -> None:
    nodes = [tensor("x", "fp32", "N"), arg("NEG", "a", "x"), arg("ABS", "b", "a"), arg("SIN", "c", "a")]
    names = lambda **top: {r.output: r.value for r in read(*nodes, **top).results}  # noqa: E731
    assert names() == {"b": "b", "c": "c"}
    assert names(outputs=["a"]) == {"a": "a"}
    assert names(outputs={"first": "c", "second": "x"}) == {"first": "c", "second": "X"}
    assert codes(*nodes, outputs=["d"]) == ["E1312"]


def test_nodes_in_any_order_and_circles() -> None:
    nodes = [arg("NEG", "b", "a"), arg("ABS", "a", "x"), tensor("x", "fp32", "N")]
    assert [v.name for v in read(*nodes).values] == ["a", "b"]
    assert codes(
        tensor("x", "fp32", "N"), arg("ADD", "a", "b", "x"), arg("NEG", "b", "a"), arg("NEG", "c", "b"), outputs=["c"]
    ) == ["E1310"]


X, H, I = tensor("x", "fp32", "M", "N"), tensor("h", "fp16", "M", "N"), tensor("i", "i32", "M", "N")


@pytest.mark.parametrize(
    ("expected", "nodes"),
    [
        (["E1002"], [H, tensor("y", "bf16", "M", "N"), arg("ADD", "z", "h", "y")]),
        (["E1002"], [X, I, arg("ADD", "z", "x", "i")]),
        (["E1002"], [X, tensor("b", "i8", "M", "N"), arg("ADD", "z", "x", "b")]),
        (["E1002"], [X, tensor("b", "bool", "M", "N"), arg("MUL", "z", "x", "b")]),
        (["E1001"], [X, tensor("y", "fp32", "N", "M"), arg("ADD", "z", "x", "y")]),
        (["E1001"], [X, tensor("y", "fp32", "K"), arg("ADD", "z", "x", "y")]),
        (["E1003"], [X, arg("RESHAPE", "z", "x", result_shape=["M", "M"])]),
        (["E1004"], [X, arg("PERMUTE", "z", "x", perm=[0, 0])]),
        (["E1005"], [X, arg("REDUCE", "z", "x", op="SUM", axes=[0])]),
        (["E1006"], [X, arg("REDUCE", "z", "x", op="SUM", axes=[2], dtype="fp32")]),
        (["E1022"], [X, arg("REDUCE", "z", "x", op="SUM", axes=["K"], dtype="fp32")]),
        (["E1023"], [X, arg("CONTRACT", "z", "x", "x", lhs_idx=["a", "b"], rhs_idx=["b", "a"], out_idx=["a", "c"])]),
        (
            ["E1023"],
            [
                X,
                arg("CONTRACT", "z", "x", "x", lhs_idx=["a", "b"], rhs_idx=["b", "a"], out_idx=["a"], reduce_idx=["a"]),
            ],
        ),
        (["E1023"], [X, arg("CONTRACT", "z", "x", "x", lhs_idx=["a"], rhs_idx=["b", "a"], out_idx=["a"])]),
        (["E1304"], [X, arg("CONTRACT", "z", "x", "x", lhs_idx=["a", "b"], rhs_idx=["b", "c"], out_idx=["a", "c"])]),
        (["E0105"], [X, arg("NEGATE", "z", "x")]),
        (["E0105"], [X, arg("NEG", "z", {"gtt": ["x", 0]})]),
        (["E0204"], [X, arg("ADD", "z", "x")]),
        (["E0202"], [X, arg("ADD", "z", "x", "q"), arg("NEG", "w", "z")]),
        (["E0201"], [X, arg("NEG", "z", "x"), arg("ABS", "z", "x")]),
        (["E0102"], [X, arg("NEG", "z", "x", to="fp16")]),
        (["E0103"], [X, arg("CAST", "z", "x", to="f16")]),
        (["E0104"], [X, arg("PAD", "z", "x")]),
        (["E0101"], [tensor("x", "f32", "N"), arg("NEG", "z", "x")]),
        (["E0110"], [X, {"id": "z", "uop": "NEG", "src": [None]}]),
        (["E0110"], [X, {"id": 3, "uop": "NEG", "src": ["x"]}]),
        (["E0104"], [X, {"id": "z", "src": ["x"]}]),
        (["E0104"], [X, {"uop": "NEG", "src": ["x"]}]),
        (["E0104"], [X, {"uop": "VIEW", "src": ["x"], "arg": {"result_shape": ["N", "M"], "index_map": ["i1", "i0"]}}]),
        (["E0104"], [{"id": "x", "uop": "INPUT", "arg": {"dtype": "fp32", "shape": ["M"]}}, arg("NEG", "z", "x")]),
        (["E0110"], []),
        (
            ["E1301"],
            [
                X,
                tensor("x2", "fp32", "N") | {"arg": {"tensor_id": "X", "dtype": "fp32", "shape": ["N"]}},
                arg("NEG", "z", "x"),
            ],
        ),
        (["E1002"], [X, arg("NEG", "z", "x") | {"dtype": "fp16"}]),
        (["E1101"], [X, arg("POOL", "z", "x", kernel=[2, 2], stride=[1, 1, 1])]),
        (["E1311"], [tensor("x", "fp32", "i0"), arg("NEG", "z", "x")]),
    ],
)
def test_a_fault_has_its_code(expected: list[str], nodes: list[dict[str, Any]]) -> None:
    assert codes(*nodes) == expected


def test_a_missing_accumulator_is_corrected() -> None:
    text = json.dumps({"uops": [H, arg("REDUCE", "y", "h", op="SUM", axes=[0])]})
    found, done = corrected(text)
    assert [d.code for d in done] == ["E1005"] and front.read(found).values[0].type.dtype.name == "fp32"


def test_what_has_no_correction_is_refused_as_it_stands() -> None:
    text = json.dumps(
        {
            "uops": [
                X,
                arg("REDUCE", "m", "x", op="MAX", axes=[1], dtype="fp32"),
                arg("SUB", "d", "x", "m"),
                arg("NEGATE", "z", "d"),
            ]
        }
    )
    with pytest.raises(Refused) as caught:
        corrected(text)
    assert [d.code for d in caught.value.diags] == ["E1001", "E0105"]


def test_symbols_stand_for_sizes_and_not_for_themselves() -> None:
    module = read(X, arg("RESHAPE", "z", "x", result_shape=["M", "P", 2]), symbols={"N": "2*P", "M": 4, "P": [1, 8]})
    assert str(module.model.inputs[0].type) == "fp32[4, 2*P]" and [r.symbol for r in module.model.ranges] == ["P"]
    assert "E0111" in codes(X, arg("NEG", "z", "x"), symbols={"M": "N + 1", "N": "M + 1"})


@pytest.mark.parametrize("divisor", [0, -2])
@pytest.mark.parametrize(
    "shape, symbols",
    [(["floor(N/S)"], {}), (["M"], {"M": "floor(N/S)"}), (["M"], {"M": "Q + 1", "Q": "floor(N/S)"})],
)
def test_a_symbol_that_divides_is_positive(shape: list[str], symbols: dict[str, str], divisor: int) -> None:
    reshaped = arg("RESHAPE", "z", "x", result_shape=shape)
    assert codes(X, reshaped, symbols={**symbols, "S": divisor})[:1] == ["E1105"]


def shaken(item: Any, draw: random.Random) -> Any:
    """The JSON with one thing in it changed, dropped or doubled."""
    item = copy.deepcopy(item)
    places = []

    def walk(node: Any) -> None:
        if isinstance(node, (dict, list)):
            for key in list(node) if isinstance(node, dict) else range(len(node)):
                places.append((node, key))
                walk(node[key])

    walk(item)
    node, key = draw.choice(places)
    kind = draw.randrange(4)
    if kind == 0:
        del node[key]
    elif kind == 1 and isinstance(node, list):
        node.insert(draw.randrange(len(node) + 1), copy.deepcopy(node[key]))
    else:
        node[key] = draw.choice(
            [None, 0, -1, 1.5, "", "N", "x", True, [], {}, [[1]], {"a": "b"}, "n8", "2*", "floor(N/0)"]
        )
    return item


def test_a_line_may_end_with_a_comment() -> None:
    """As those of the seed do. What looks like one within a string is none, and front-end JSON has none."""
    text = json.dumps({"uops": [tensor("a", "fp32", 2), {**arg("NEG", "y", "a"), "tag": 'a // "tag"'}]}, indent=1)
    commented = text.replace("[", '[ // "not a string', 1) + " // the end"
    assert json.loads(without_comments(commented)) == json.loads(without_comments(text)) == json.loads(text)
    assert front.read(commented) == front.read(text)
    assert front.language_of('{"graph": [] // no comments here\n}') == "json"


@pytest.mark.parametrize("name", ["gemm", "conv", "conv3x3", "attention_fix", "dump_gemm", "dump_conv"])
def test_no_damaged_program_ends_in_a_trace(name: str) -> None:
    draw = random.Random(name)
    whole = json.loads(without_comments(seed(name)))
    for _ in range(150):
        text = json.dumps(shaken(shaken(whole, draw), draw))
        try:
            module = front.read(text)
            if [d for d in tiny.check(module) if d.is_error]:
                continue
            assert tiny.parse(tiny.show(module)) == module
            corrected(text)
        except Refused as fault:
            assert fault.diags
