"""ONNX models as front-end JSON: names, weights by reference, sizes that are symbols, what is folded, what is
refused."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from tinyir import front  # noqa: E402
from tinyir.front.onnx import to_json  # noqa: E402
from tinyir.ir import tiny  # noqa: E402
from tinyir.kit.diag import Refused  # noqa: E402
from tinyir.play.tiny import play  # noqa: E402
from tinyir.runtime.weights import read_weights  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
W = np.random.default_rng(0).standard_normal((8, 3, 3, 3)).astype(np.float32)


def model(
    nodes: Sequence[Any],
    inputs: dict[str, Any],
    outputs: Sequence[str],
    weights: dict[str, np.ndarray] | None = None,
    opset: int = 17,
    **more: Any,
) -> Any:
    """A ModelProto; an input is a shape, or (type, shape); outputs have no shape."""
    typed = {k: v if isinstance(v, tuple) else (FLOAT, v) for k, v in inputs.items()}
    graph = helper.make_graph(
        list(nodes),
        "net",
        [helper.make_tensor_value_info(n, t, s) for n, (t, s) in typed.items()],
        [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in (weights or {}).items()],
    )
    for value in graph.output:
        value.type.tensor_type.elem_type = more.get("gives", FLOAT)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], functions=more.get("functions", []))


node = helper.make_node


def constant(name: str, value: Any) -> Any:
    return node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(value), name))


def text(m: Any, **shapes: Sequence[str]) -> str:
    return to_json(m.SerializeToString(), shapes=shapes)


def run(m: Any, **arrays: np.ndarray) -> dict[str, np.ndarray]:
    module = front.read(text(m))
    assert [d for d in tiny.check(module) if d.is_error] == []
    return play(module, arrays)


def refused(m: Any, **shapes: Sequence[str]) -> list[Any]:
    with pytest.raises(Refused) as caught:
        text(m, **shapes)
    assert all(d.why() and d.why("ja") for d in caught.value.diags)
    return list(caught.value.diags)


def test_names_of_inputs_and_outputs_stay_and_others_become_bare() -> None:
    found = json.loads(
        text(
            model(
                [node("Relu", ["in:0"], ["/a/b"], name="/a/Relu"), node("Exp", ["/a/b"], ["out/0"])],
                {"in:0": [2, "N"]},
                ["out/0"],
            )
        )
    )
    assert found["signature"] == {"inputs": [{"tensor": "in:0"}], "outputs": [{"tensor": "out/0"}]}
    assert [(op["name"], op["outputs"]) for op in found["graph"]] == [("a.Relu", ["a.b"]), ("out.0", ["out/0"])]
    assert found["tensors"]["out/0"] == {"dtype": "fp32", "shape": [2, "N"]}


def test_an_output_may_be_an_input_a_constant_or_twice_the_same() -> None:
    m = model(
        [
            node("Identity", ["x"], ["y"]),
            constant("c", np.float32([1, 2])),
            node("Abs", ["x"], ["a"]),
            node("Identity", ["a"], ["b"]),
        ],
        {"x": [2]},
        ["y", "c", "a", "b"],
    )
    x = np.float32([-1, 3])
    found = run(m, x=x)
    for name, wanted in (("y", x), ("c", [1, 2]), ("a", [1, 3]), ("b", [1, 3])):
        np.testing.assert_array_equal(found[name], np.float32(wanted))


def test_weights_stay_in_the_file(tmp_path: Path) -> None:
    m = model([node("Conv", ["x", "conv.weight"], ["y"])], {"x": [1, 3, 8, 8]}, ["y"], {"conv.weight": W})
    (tmp_path / "net.onnx").write_bytes(m.SerializeToString())
    module = front.read(to_json((tmp_path / "net.onnx").read_bytes(), "net.onnx"))
    tensor = module.model.input("conv.weight")
    assert tensor.attr("role") == "param" and tensor.attr("file") == "net.onnx" and tensor.attr("bytes") == W.nbytes
    np.testing.assert_array_equal(read_weights(module.model, tmp_path)["conv.weight"], W)
    (tmp_path / "net.onnx").write_bytes(b"\0" * 2000)
    with pytest.raises(Refused) as caught:
        read_weights(module.model, tmp_path)
    assert [d.code for d in caught.value.diags] == ["E1741"]


def test_weights_in_files_beside_the_model(tmp_path: Path) -> None:
    m = model([node("Conv", ["x", "w"], ["y"])], {"x": [1, 3, 8, 8]}, ["y"], {"w": W})
    onnx.save(m, tmp_path / "net.onnx", save_as_external_data=True, location="net.bin", size_threshold=0)
    module = front.read(to_json((tmp_path / "net.onnx").read_bytes(), "sub/net.onnx"))
    assert module.model.input("w").attr("file") == "sub/net.bin"
    (tmp_path / "sub").mkdir()
    (tmp_path / "net.bin").rename(tmp_path / "sub" / "net.bin")
    np.testing.assert_array_equal(read_weights(module.model, tmp_path)["w"], W)
    outside = onnx.load(tmp_path / "net.onnx", load_external_data=False)
    outside.graph.initializer[0].external_data[0].value = "../net.bin"
    with pytest.raises(Refused) as caught:
        to_json(outside.SerializeToString(), "net.onnx")
    assert {d.code for d in caught.value.diags} <= {"E0127", "E0121"}


def test_from_a_pipe_small_weights_are_copied_and_large_ones_refused() -> None:
    small = model([node("Conv", ["x", "w"], ["y"])], {"x": [1, 3, 8, 8]}, ["y"], {"w": W})
    assert "value" in json.loads(text(small))["tensors"]["w"]
    large = model([node("MatMul", ["x", "w"], ["y"])], {"x": [1, 300]}, ["y"], {"w": np.ones((300, 300), np.float32)})
    assert [d.code for d in refused(large)] == ["E0127"]


def test_chains_of_shapes_are_folded_with_symbols() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        constant("zero", np.int64(0)),
        node("Gather", ["s", "zero"], ["n"]),
        constant("two", np.int64(2)),
        node("Mul", ["n", "two"], ["n2"]),
        constant("axes", np.int64([0])),
        node("Unsqueeze", ["n2", "axes"], ["u"]),
        constant("rest", np.int64([-1])),
        node("Concat", ["u", "rest"], ["shape"], axis=0),
        node("Reshape", ["x", "shape"], ["y"]),
        node("Range", ["zero", "n", "one"], ["line"]),
        constant("one", np.int64(1)),
    ]
    nodes.insert(0, nodes.pop())
    m = model(nodes, {"x": ["N", 6]}, ["y", "shape"])
    m.graph.output[1].type.tensor_type.elem_type = INT64
    found = json.loads(text(m))
    assert found["tensors"]["y"]["shape"] == ["2*N", 3]
    assert [op["op"] for op in found["graph"]] == ["Concat", "Reshape"]
    played = run(m, x=np.ones((5, 6), np.float32))
    assert played["y"].shape == (10, 3)
    np.testing.assert_array_equal(played["shape"], [10, -1])


def test_shapes_given_on_the_command_line() -> None:
    m = model([node("Relu", ["x"], ["y"])], {"x": ["N", 3, None]}, ["y"])
    assert json.loads(text(m))["tensors"]["y"]["shape"] == ["N", 3, "x_2"]
    assert json.loads(text(m, x=["1", "3", "M"]))["tensors"]["y"]["shape"] == [1, 3, "M"]
    for shapes in ({"x": ["1", "4", "2"]}, {"x": ["1"]}, {"q": ["1"]}, {"x": ["1", "3", "-2"]}):
        assert [d.code for d in refused(m, **shapes)] == ["E0128"]
    assert refused(m, x=["1", "4", "2"])[0].suggestion().endswith("--shape x=1,3,2")
    assert refused(m, X=["1", "3", "2"])[0].suggestion() == "near it: x"
    open_rank = model([node("Relu", ["x"], ["y"])], {"x": None}, ["y"])
    assert [d.code for d in refused(open_rank)] == ["E0128"]
    assert json.loads(text(open_rank, x=["2"]))["tensors"]["y"]["shape"] == [2]


def test_a_size_whose_name_says_nothing_is_a_symbol_of_its_own() -> None:
    """Exporters write `?` for each size that they do not know; two of them need not be equal."""
    module = front.read(text(model([node("Transpose", ["x"], ["y"])], {"x": ["?", "?", "N", "_"]}, ["y"])))
    assert str(module.model.inputs[0].type) == "fp32[x_0, x_1, N, x_3]"


def test_what_an_open_size_stands_in_the_way_of_says_how_to_fix_it() -> None:
    resize = model(
        [node("Resize", ["x", "", "s"], ["y"], mode="linear")],
        {"x": [1, 3, "H", 8], "z": ["K"]},
        ["y"],
        {"s": np.array([1, 1, 2, 2], np.float32)},
    )
    with pytest.raises(Refused) as fault:
        text(resize)
    *_, hint = fault.value.diags
    assert [d.code for d in fault.value.diags] == ["E1015", "R3004"]
    assert hint.facts == {"inputs": "x [1, 3, H, 8]; z [K]", "name": "x", "sizes": "1,3,H,8"}
    assert front.read(text(resize, x=["1", "3", "6", "8"])).model.outputs[0].type.shape[2].constant == 12


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_repeats_that_an_exporter_counts_by_a_one_hot_tensor_are_folded(axis: int) -> None:
    """As of torch's repeat_interleave; an index that is nowhere hits nothing, and one below 0 counts from the end."""
    index = np.array([3, -2, 9])
    nodes = [
        node("OneHot", ["i", "d", "v"], ["hot"], axis=axis),
        node("ReduceSum", ["hot", "a"], ["repeats"], keepdims=0),
        node("Tile", ["x", "repeats"], ["y"]),
    ]
    known = {"i": index, "d": np.array(4), "v": np.array([1, 2]), "a": np.array([0 if axis else 1])}
    m = model([*(constant(n, v) for n, v in known.items()), *nodes], {"x": [2, 2, 2, 2]}, ["y"])
    hot = np.where((index % 4)[:, None] == np.arange(4), 2, 1)
    hot[2] = 1
    x = np.arange(16.0).reshape(2, 2, 2, 2).astype("f4")
    assert np.array_equal(run(m, x=x)["y"], np.tile(x, hot.sum(0)))


def test_values_given_on_the_command_line() -> None:
    m = model([node("Reshape", ["x", "shape"], ["y"])], {"x": [6], "shape": (INT64, ["n"])}, ["y"])
    found = json.loads(to_json(m.SerializeToString(), values={"shape": ["2", "-1"]}))
    assert found["signature"]["inputs"] == [{"tensor": "x"}] and found["tensors"]["y"]["shape"] == [2, 3]
    for values in ({"shape": ["a"]}, {"q": ["1"]}, {"x": ["1.0"]}):
        with pytest.raises(Refused) as caught:
            to_json(m.SerializeToString(), values=values)
        assert caught.value.diags[0].code == "E0128"


def test_all_unsupported_ops_are_named_at_once() -> None:
    nodes = [
        node("NonZero", ["x"], ["a"], name="first"),
        node("Unique", ["x"], ["b"]),
        node("NonZero", ["x"], ["c"]),
        node("Odd", ["x"], ["d"], domain="mine"),
    ]
    m = model(nodes, {"x": ["N"]}, ["a"], gives=INT64)
    m.opset_import.append(helper.make_opsetid("mine", 1))
    (diag,) = refused(m)
    assert diag.code == "E0123"
    assert diag.facts["ops"] == "Unique (b); mine::Odd (d); NonZero (first, c)"
    assert "tiny-explain ONNX" in diag.suggestion()


def test_every_fault_is_found_and_none_twice() -> None:
    nodes = [
        node("Transpose", ["x"], ["a"], perm=[0, 0]),
        node("Exp", ["a"], ["b"]),
        node("Reshape", ["x", "t"], ["c"]),
        node("Add", ["x", "z"], ["d"]),
    ]
    m = model(nodes, {"x": [2, 3], "t": (INT64, [1]), "z": [5]}, ["b", "c", "d"])
    assert [(d.code, d.at) for d in refused(m)] == [("E1004", "a"), ("E0125", "c"), ("E1001", "d")]


def test_functions_of_the_model_are_inlined() -> None:
    body = helper.make_function(
        "mine",
        "Scaled",
        ["a"],
        ["r"],
        [node("Constant", [], ["k"]), node("Mul", ["a", "k"], ["r"])],
        [helper.make_opsetid("", 17)],
        ["factor"],
    )
    body.node[0].attribute.append(
        onnx.AttributeProto(name="value_float", ref_attr_name="factor", type=onnx.AttributeProto.FLOAT)
    )
    m = model(
        [
            node("Scaled", ["x"], ["y"], domain="mine", factor=3.0, name="f"),
            node("Scaled", ["y"], ["z"], domain="mine", factor=2.0),
        ],
        {"x": [2]},
        ["z"],
        functions=[body],
    )
    m.opset_import.append(helper.make_opsetid("mine", 1))
    np.testing.assert_array_equal(run(m, x=np.float32([1, 2]))["z"], [6, 12])


def branch(name: str, op: str) -> Any:
    return helper.make_graph([node(op, ["x"], [name])], name, [], [helper.make_tensor_value_info(name, FLOAT, None)])


def test_a_branch_is_chosen_where_the_condition_is_known_and_both_are_computed_where_not() -> None:
    chosen = node("If", ["c"], ["y"], then_branch=branch("t", "Exp"), else_branch=branch("e", "Neg"))
    known = json.loads(text(model([constant("c", np.array(False)), chosen], {"x": [2]}, ["y"])))
    assert [op["fn"] for op in known["graph"]] == ["neg"]
    x = np.float32([1, 2])
    both = model([chosen], {"x": [2], "c": (BOOL, [])}, ["y"])
    np.testing.assert_array_equal(run(both, x=x, c=np.array(False))["y"], -x)
    np.testing.assert_allclose(run(both, x=x, c=np.array(True))["y"], np.exp(x), rtol=1e-6)


def test_a_loop_of_known_length_is_unrolled() -> None:
    body = helper.make_graph(
        [node("Add", ["v", "x"], ["w"]), node("Identity", ["w"], ["row"]), node("Identity", ["on"], ["go"])],
        "body",
        [
            helper.make_tensor_value_info("i", INT64, []),
            helper.make_tensor_value_info("on", BOOL, []),
            helper.make_tensor_value_info("v", FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("go", BOOL, []),
            helper.make_tensor_value_info("w", FLOAT, None),
            helper.make_tensor_value_info("row", FLOAT, None),
        ],
    )
    m = model(
        [constant("n", np.int64(3)), node("Loop", ["n", "", "x"], ["last", "rows"], body=body)],
        {"x": [2]},
        ["last", "rows"],
    )
    found = run(m, x=np.float32([1, 2]))
    np.testing.assert_array_equal(found["last"], [4, 8])
    np.testing.assert_array_equal(found["rows"], [[2, 4], [3, 6], [4, 8]])
    m.graph.node[0].attribute[0].t.CopyFrom(numpy_helper.from_array(np.int64(10_000)))
    assert [d.code for d in refused(m)] == ["E0124"]


def test_an_older_model_is_read_as_its_opset_says() -> None:
    m = model(
        [node("Squeeze", ["x"], ["y"], axes=[0]), node("Dropout", ["y"], ["z"], ratio=0.5)],
        {"x": [1, 3]},
        ["z"],
        opset=9,
    )
    x = np.float32([[1, 2, 3]])
    np.testing.assert_array_equal(run(m, x=x)["z"], x[0])
    m.opset_import[0].version = 1000
    assert [d.code for d in refused(m)] == ["E0122"]


@pytest.mark.parametrize("length", [0, 1, 3, 10, 40, 90, 200])
def test_a_file_cut_short_is_refused(length: int) -> None:
    raw = model(
        [node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3])], {"x": [1, 3, 8, 8]}, ["y"], {"w": W}
    ).SerializeToString()
    with pytest.raises(Refused) as caught:
        to_json(raw[:length])
    assert {d.code for d in caught.value.diags} == {"E0121"}


def test_the_commands_agree(tmp_path: Path) -> None:
    m = model(
        [node("Conv", ["x", "w"], ["c"], name="/conv/Conv"), node("Relu", ["c"], ["y"])],
        {"x": ["N", 3, 8, 8]},
        ["y"],
        {"w": W},
    )
    (tmp_path / "net.onnx").write_bytes(m.SerializeToString())
    x = np.random.default_rng(1).standard_normal((2, 3, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "in.npz", x=x)
    environment = {**os.environ, "PATH": f"{ROOT / 'bin'}:{os.environ['PATH']}"}

    def shell(line: str) -> str:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    piped = shell("tiny-import net.onnx | tiny-front")
    assert (
        piped
        == shell("tiny-front net.onnx")
        == shell(f"cd / && tiny-import {tmp_path}/net.onnx -o {tmp_path}/m.json && tiny-front {tmp_path}/m.json")
    )
    shell("tiny-import net.onnx | tiny-front | tiny-play --inputs in.npz --out out.npz")
    with np.load(tmp_path / "out.npz") as found:
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
        np.testing.assert_allclose(
            found["y"], np.maximum(np.einsum("nchwij,ocij->nohw", windows, W), 0), rtol=1e-4, atol=1e-4
        )
