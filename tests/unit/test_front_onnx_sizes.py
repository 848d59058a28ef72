"""Symbolic sizes of ONNX models: bounds that a slice clamps, sizes that must be equal, names, and what the signature
states of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from tinyir import front  # noqa: E402
from tinyir.front.limits import Limits  # noqa: E402
from tinyir.front.onnx import ops as _ops  # noqa: E402, F401
from tinyir.front.onnx.constants import Weights  # noqa: E402
from tinyir.front.onnx.model import load, program_of  # noqa: E402
from tinyir.ir import index, tiny  # noqa: E402
from tinyir.ir.expr import Expr  # noqa: E402
from tinyir.ir.read import read_expr  # noqa: E402
from tinyir.kit.diag import Refused  # noqa: E402
from tinyir.lower.index import lower as to_index  # noqa: E402
from tinyir.play.tiny import play  # noqa: E402

from .test_front_onnx import constant, model, node, text  # noqa: E402

FAR = (1 << 63) - 1


def sliced(
    shape: Sequence[Any], starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], steps: Sequence[int]
) -> Any:
    weights = {"s": np.int64(starts), "e": np.int64(ends), "a": np.int64(axes), "t": np.int64(steps)}
    return model([node("Slice", ["x", "s", "e", "a", "t"], ["y"])], {"x": list(shape)}, ["y"], weights)


@pytest.mark.parametrize(
    ("start", "end", "step", "least"),
    [
        (-1, FAR, 1, 1),
        (-3, FAR, 1, 3),
        (2, 5, 1, 5),
        (1, FAR, 2, 1),
        (FAR, -FAR, -2, 0),
        (-1, -FAR, -1, 0),
        (0, 1, 1, 1),
        (0, -1, 1, 1),
        (1, -1, 1, 2),
        (4, 2, 1, 0),
        (0, FAR, 3, 0),
        (-1, 0, -1, 1),
        (5, 1, -2, 6),
        (-2, -4, 1, 0),
        (0, -FAR, 1, 0),
        (FAR, FAR, 1, 0),
    ],
)
def test_a_slice_of_a_symbolic_axis_is_pythons_or_says_what_it_takes(
    start: int, end: int, step: int, least: int
) -> None:
    module = front.read(text(sliced(["n", 2], [start], [end], [0], [step])))
    book = to_index(module)
    assert [d for d in (*tiny.check(module), *index.check(book)) if d.is_error] == []
    assert module.model.range_of("n").low == least
    for n in range(8):
        x = np.arange(2.0 * n, dtype=np.float32).reshape(n, 2)
        if n < least:
            with pytest.raises(Refused) as caught:
                play(module, {"x": x})
            (fault,) = caught.value.diags
            assert fault.code == "E1706" and (fault.facts["symbol"], fault.facts["size"], fault.facts["low"]) == (
                "n",
                n,
                least,
            )
        else:
            np.testing.assert_array_equal(
                play(module, {"x": x})["y"], x[start:end:step] if step > 0 or end > -FAR else x[start::step]
            )


def position_table(rows: int = 512) -> Any:
    """x + table[:, :L], as a BERT is exported with a dynamic length."""
    table = np.arange(rows * 4, dtype=np.float32).reshape(1, rows, 4)
    nodes = [
        node("Shape", ["x"], ["shape"], start=1, end=2),
        node("Slice", ["table", "zero", "shape", "one"], ["p"]),
        node("Add", ["x", "p"], ["y"]),
    ]
    return model(nodes, {"x": ["B", "L", 4]}, ["y"], {"table": table, "zero": np.int64([0]), "one": np.int64([1])})


def test_a_table_of_positions_bounds_the_length() -> None:
    found = json.loads(text(position_table()))
    assert found["symbols"] == {"L": [0, 512]}
    module = front.read(text(position_table()))
    assert [d for d in index.check(to_index(module)) if d.is_error] == []
    table = np.arange(512 * 4, dtype=np.float32).reshape(1, 512, 4)
    for length in (1, 7, 512):
        x = np.ones((2, length, 4), np.float32)
        np.testing.assert_array_equal(play(module, {"x": x})["y"], x + table[:, :length])
    with pytest.raises(Refused) as caught:
        play(module, {"x": np.ones((1, 513, 4), np.float32)})
    assert (
        [d.code for d in caught.value.diags] == ["E1706"]
        and "L" in caught.value.diags[0].why()
        and "512" in caught.value.diags[0].why()
    )


def test_what_no_range_of_one_symbol_says_is_refused_by_name() -> None:
    nodes = [
        node("Shape", ["w"], ["shape"]),
        node("ReduceSum", ["shape"], ["total"]),
        node("Slice", ["x", "zero", "total"], ["y"]),
    ]
    m = model(nodes, {"x": [512], "w": ["P", "L"]}, ["y"], {"zero": np.int64([0])})
    with pytest.raises(Refused) as caught:
        text(m)
    assert [d.code for d in caught.value.diags] == ["E1106", "R3004"]
    assert "P + L" in caught.value.diags[0].why() or "L + P" in caught.value.diags[0].why()


def test_sizes_that_must_be_equal_are_one_symbol() -> None:
    """Exporters of TensorFlow give every unknown size a name of its own."""
    both = model(
        [node("Concat", ["a", "b"], ["y"], axis=1), node("MatMul", ["y", "w"], ["z"])],
        {"a": ["n", 2], "b": ["m", "k"], "w": [5, 3]},
        ["z"],
    )
    module = front.read(text(both))
    assert [str(t.type) for t in module.model.inputs] == ["fp32[n, 2]", "fp32[n, 3]", "fp32[5, 3]"]
    a, b, w = np.ones((4, 2), np.float32), np.ones((4, 3), np.float32), np.ones((5, 3), np.float32)
    np.testing.assert_array_equal(play(module, {"a": a, "b": b, "w": w})["z"], np.concatenate([a, b], 1) @ w)
    with pytest.raises(Refused):
        play(module, {"a": a, "b": b[:2], "w": w})
    added = front.read(text(model([node("Add", ["a", "b"], ["y"])], {"a": ["n", 2], "b": ["m", 2]}, ["y"])))
    assert [str(t.type) for t in added.model.inputs] == ["fp32[n, 2]", "fp32[n, 2]"]


def test_names_of_sizes_are_spelled_and_stay_apart() -> None:
    m = model([node("Abs", ["x"], ["y"])], {"x": ["Dyn.0", "Dyn_0", "p2o.Dyn.1", "i0", "2*n"]}, ["y"])
    assert str(front.read(text(m)).model.inputs[0].type) == "fp32[Dyn_0, Dyn_0_2, p2o_Dyn_1, i0_, 2*n]"


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize_keeps_a_symbolic_batch(mode: str) -> None:
    nodes = [
        node("Shape", ["x"], ["shape"], end=2),
        node("Concat", ["shape", "to"], ["sizes"], axis=0),
        node("Resize", ["x", "", "", "sizes"], ["y"], mode=mode),
    ]
    m = model(nodes, {"x": ["B", 3, 4, 5]}, ["y"], {"to": np.int64([7, 5])})
    module = front.read(text(m))
    assert str(module.model.outputs[0].type) == "fp32[B, 3, 7, 5]"
    from onnx.reference import ReferenceEvaluator

    for batch in (1, 3):
        x = np.random.default_rng(0).standard_normal((batch, 3, 4, 5)).astype(np.float32)
        np.testing.assert_allclose(
            play(module, {"x": x})["y"], ReferenceEvaluator(m).run(None, {"x": x})[0], rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize(
    ("op", "weights", "attrs", "least"),
    [
        ("TopK", {"k": np.int64([3])}, {"axis": 0}, 3),
        ("Pad", {"p": np.int64([2, 0, 1, 0])}, {"mode": "reflect"}, 3),
        ("Pad", {"p": np.int64([0, 0, 2, 0])}, {"mode": "wrap"}, 2),
        ("Pad", {"p": np.int64([1, 0, 0, 0])}, {"mode": "edge"}, 1),
        ("Pad", {"p": np.int64([-2, 0, -1, 0])}, {}, 3),
    ],
)
def test_what_needs_so_many_elements_of_a_symbolic_axis_says_so(
    op: str, weights: dict[str, np.ndarray], attrs: dict[str, Any], least: int
) -> None:
    m = model(
        [node(op, ["x", *weights], ["y", "i"] if op == "TopK" else ["y"], **attrs)],
        {"x": ["n", 2]},
        ["y"],
        weights,
        opset=19,
    )
    module = front.read(text(m))
    assert module.model.range_of("n").low == least
    assert [d for d in index.check(to_index(module)) if d.is_error] == []
    from onnx.reference import ReferenceEvaluator

    for n in (least, least + 2):
        x = np.random.default_rng(n).standard_normal((n, 2)).astype(np.float32)
        wanted = x[2:-1] if op == "Pad" and not attrs else ReferenceEvaluator(m).run(None, {"x": x})[0]
        np.testing.assert_array_equal(play(module, {"x": x})["y"], wanted)


@pytest.mark.parametrize(
    "attrs",
    [{"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, {}],
    ids=["asymmetric", "half_pixel"],
)
@pytest.mark.parametrize("scale", [2, 3])
def test_resize_repeats_elements_of_a_symbolic_image(attrs: dict[str, Any], scale: int) -> None:
    by_scales = model(
        [node("Resize", ["x", "", "s"], ["y"], mode="nearest", **attrs)],
        {"x": ["B", 1, "H", "W"]},
        ["y"],
        {"s": np.float32([1, 1, scale, scale])},
    )
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Mul", ["shape", "k"], ["sizes"]),
        node("Resize", ["x", "", "", "sizes"], ["y"], mode="nearest", **attrs),
    ]
    by_sizes = model(nodes, {"x": ["B", 1, "H", "W"]}, ["y"], {"k": np.int64([1, 1, scale, scale])})
    for m in (by_scales, by_sizes):
        module = front.read(text(m))
        for height in (1, 4):
            x = np.arange(2.0 * height * 3, dtype=np.float32).reshape(2, 1, height, 3)
            np.testing.assert_array_equal(play(module, {"x": x})["y"], x.repeat(scale, 2).repeat(scale, 3))


def test_nodes_stand_in_any_order() -> None:
    nodes = [
        node("Mul", ["b", "a"], ["y"]),
        node("Add", ["a", "x"], ["b"]),
        node("Exp", ["x"], ["a"]),
        constant("c", np.float32([1, 2])),
    ]
    x = np.float32([0, 1])
    found = play(front.read(text(model(nodes, {"x": [2]}, ["y"]))), {"x": x})["y"]
    np.testing.assert_allclose(found, (np.exp(x) + x) * np.exp(x), rtol=1e-6)
    with pytest.raises(Refused) as caught:
        text(model([node("Add", ["b", "x"], ["a"]), node("Neg", ["a"], ["b"])], {"x": [2]}, ["a"]))
    assert {d.code for d in caught.value.diags} == {"E0121"}


def test_ranges_that_are_stated_settle_what_is_clamped() -> None:
    nodes = [node("Slice", ["x", "zero", "most", "axis"], ["y"])]
    m = model(
        nodes, {"x": ["B", "L", 4]}, ["y"], {"zero": np.int64([0]), "most": np.int64([512]), "axis": np.int64([1])}
    )
    for ranges, size in (({}, "512"), ({"L": (1, 512)}, "L"), ({"L": (600, 900)}, "512")):
        _, program, _, _ = program_of(load(m.SerializeToString()), Weights(b"", ""), {}, {}, ranges)
        assert str(program.made["y"].shape[1] if "y" in program.made else program.builder.inputs[0].shape[1]) == size


# --- what is known of symbols


def limits(**ranges: tuple[int, int]) -> Limits:
    from tinyir.ir.model import Range

    found = Limits()
    found.state(Range(s, *r) for s, r in ranges.items())
    return found


@pytest.mark.parametrize(
    ("fact", "wanted"),
    [
        ("n - 5", {"n": (5, 2147483647)}),
        ("512 - L", {"L": (0, 512)}),
        ("floor((n - 1)/2) - 3", {"n": (7, 2147483647)}),
        ("10 - 3*n", {"n": (0, 3)}),
        ("M*N - 1", {"M": (1, 2147483647), "N": (1, 2147483647)}),
        ("n*n - 9", {"n": (3, 2147483647)}),
        ("n", {}),
        ("3 - M - N", None),
        ("n - floor(n/2) - 4", None),
    ],
)
def test_a_fact_narrows_the_range_of_one_symbol_to_just_where_it_holds(fact: str, wanted: Any) -> None:
    known = limits()
    assert known.suppose(read_expr(fact)) is (wanted is not None)
    assert {r.symbol: (r.low, r.high) for r in known.ranges()} == (wanted or {})
    if wanted:
        assert known.shows(read_expr(fact))


def test_a_fact_against_a_stated_range_is_not_supposed() -> None:
    known = limits(n=(1, 4))
    assert not known.suppose(Expr.of("n") - 5)
    assert known.suppose(Expr.of("n") - 2) and known.ranges()[0].low == 2
    assert known.shows(5 - Expr.of("n"))


def test_a_stated_range_settles_what_a_slice_clamps() -> None:
    def shape(low: int, high: int, size: Any) -> str:
        return str(
            front.read(
                json.dumps(
                    {
                        "signature": {"inputs": [{"tensor": "x"}], "outputs": [{"tensor": "y"}]},
                        "symbols": {"n": [low, high]},
                        "tensors": {"x": {"dtype": "fp32", "shape": ["n"]}, "y": {"dtype": "fp32", "shape": [size]}},
                        "graph": [
                            {"op": "Slice", "inputs": ["x"], "outputs": ["y"], "attrs": {"starts": [0], "ends": [5]}}
                        ],
                    }
                )
            )
            .model.range_of("n")
            .low
        )

    assert [shape(0, 5, "n"), shape(1, 4, "n"), shape(5, 9, 5), shape(0, 9, 5)] == ["0", "1", "5", "5"]


def test_the_graph_dsl_keeps_the_ranges_that_it_states() -> None:
    def found(stated: str) -> tuple[int, int]:
        text = (
            f"model m\n{stated}graph<n=4> main(x: f32[n]) -> (y: f32[1]) {{\nreturn slice(x, [(-1, 2147483647)])\n}}\n"
        )
        known = front.read(text).model.range_of("n")
        return known.low, known.high

    assert [found(""), found("sym n in 4..10\n"), found("sym n in 0..10\n")] == [(1, (1 << 31) - 1), (4, 10), (1, 10)]


def test_sizes_that_would_broadcast_are_told_to_be_taken_as_one() -> None:
    """ONNX lets either be 1: what is refused then is said at import, with what to type."""
    added = model([node("Add", ["a", "b"], ["y"])], {"a": ["n", 2], "b": ["m", 2]}, ["y"])
    notes: list[Any] = []
    front.onnx_to_json(added.SerializeToString(), "", {}, {}, notes=notes)
    assert [(d.code, d.facts["symbol"], str(d.facts["size"])) for d in notes] == [("W2106", "m", "n")]
    again: list[Any] = []
    stated = front.read(front.onnx_to_json(added.SerializeToString(), "", {"b": ["1", "2"]}, {}, notes=again))
    a, b = np.ones((4, 2), np.float32), np.full((1, 2), 3, np.float32)
    np.testing.assert_array_equal(play(stated, {"a": a, "b": b})["y"], a + b)
    joined = model([node("Concat", ["a", "b"], ["y"], axis=1)], {"a": ["n", 2], "b": ["m", 2]}, ["y"])
    front.onnx_to_json(joined.SerializeToString(), "", {}, {}, notes=again)
    assert again == []


@pytest.mark.parametrize("op", ["AveragePool", "MaxPool"])
@pytest.mark.parametrize(("kernel", "stride", "pads"), [(3, 2, (0, 0)), (3, 2, (1, 0)), (2, 2, (0, 0)), (5, 3, (2, 2))])
def test_a_last_window_of_a_symbolic_axis_counts_as_that_of_a_number(
    op: str, kernel: int, stride: int, pads: tuple[int, int]
) -> None:
    def pooled(size: Any) -> Any:
        attrs = {"kernel_shape": [kernel], "strides": [stride], "pads": list(pads), "ceil_mode": 1}
        return front.read(text(model([node(op, ["x"], ["y"], **attrs)], {"x": [1, 2, size]}, ["y"])))

    symbolic = pooled("n")
    for size in range(kernel, kernel + 8):
        x = np.random.default_rng(size).standard_normal((1, 2, size)).astype(np.float32)
        np.testing.assert_array_equal(play(symbolic, {"x": x})["y"], play(pooled(size), {"x": x})["y"])


def test_a_last_window_that_may_begin_in_the_padding_needs_a_number() -> None:
    attrs = {"kernel_shape": [2], "strides": [4], "pads": [0, 1], "ceil_mode": 1}
    with pytest.raises(Refused) as caught:
        front.read(text(model([node("MaxPool", ["x"], ["y"], **attrs)], {"x": [1, 2, "n"]}, ["y"])))
    fault, _ = caught.value.diags
    assert fault.code == "E1015" and fault.facts["mode"] == "ceil_mode" and "repeat" not in fault.why()
