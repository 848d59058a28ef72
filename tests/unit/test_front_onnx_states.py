"""States of ONNX models: the output that is the next value of an input, and caches that grow in a room."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import tinyir  # noqa: E402
from tests.commands import run_line  # noqa: E402
from tinyir import front  # noqa: E402
from tinyir.front.onnx import to_json  # noqa: E402
from tinyir.ir import tiny  # noqa: E402
from tinyir.kit.diag import Refused  # noqa: E402

from .stages import needs_host_compiler  # noqa: E402

HEADS, DEPTH, ROOM = 2, 4, 16
PAST = [f"past_key_values.0.{name}" for name in ("key", "value")]
PRESENT = [name.replace("past_key_values", "present") for name in PAST]
node = helper.make_node


def made(nodes: list[Any], inputs: dict[str, list[Any]], outputs: dict[str, list[Any]], **weights: np.ndarray) -> bytes:
    typed = [
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in side.items()] for side in (inputs, outputs)
    ]
    held = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "net", *typed, held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


def decoder() -> bytes:
    """A step of attention with a cache of one row more, as exporters write it."""
    row, old, new = [1, HEADS, 1, DEPTH], [1, HEADS, "past", DEPTH], [1, HEADS, "past + 1", DEPTH]
    nodes = [
        node("Concat", [PAST[0], "k"], [PRESENT[0]], axis=2),
        node("Concat", [PAST[1], "v"], [PRESENT[1]], axis=2),
        node("Transpose", [PRESENT[0]], ["kt"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "kt"], ["s"]),
        node("Unsqueeze", ["mask", "axes"], ["wide"]),
        node("Add", ["s", "wide"], ["sm"]),
        node("Softmax", ["sm"], ["p"], axis=-1),
        node("MatMul", ["p", PRESENT[1]], ["y"]),
    ]
    inputs = {**dict.fromkeys("qkv", row), "mask": [1, "past + 1"], **dict.fromkeys(PAST, old)}
    return made(nodes, inputs, {"y": row, **dict.fromkeys(PRESENT, new)}, axes=np.array([1, 2]))


def step(k: np.ndarray, v: np.ndarray, q: np.ndarray, mask: np.ndarray) -> np.ndarray:
    scores = q @ k.transpose(0, 1, 3, 2) + mask[:, None, None]
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def test_without_room_a_cache_that_grows_is_no_state() -> None:
    module = front.read(to_json(decoder(), "net.onnx"))
    assert module.model.states() == {} and {t.name for t in module.model.outputs} == {"y", *PRESENT}


def test_with_room_it_is_one() -> None:
    module = front.read(to_json(decoder(), "net.onnx", room=ROOM))
    assert [d for d in tiny.check(module) if d.is_error] == []
    assert module.model.states() == {p: f"{p}.new" for p in PAST}
    assert [t.name for t in module.model.outputs] == ["y", *(f"{p}.new" for p in PAST)]
    for name in PAST:
        tensor = module.model.input(name)
        assert tensor is not None and str(tensor.type) == f"fp32[1, {HEADS}, {ROOM}, {DEPTH}]"
    bounds = module.model.range_of("past")
    assert (bounds.low, bounds.high) == (0, ROOM - 1)


@pytest.mark.parametrize("device", ["cpu", pytest.param("sim", marks=needs_host_compiler)])
def test_a_decoder_goes_on_from_token_to_token(device: Any, tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(decoder())
    draw = np.random.default_rng(0)
    empty = np.zeros((1, HEADS, ROOM, DEPTH), np.float32)
    with tinyir.compile(tmp_path / "net.onnx", device=device, room=ROOM, params=dict.fromkeys(PAST, empty)) as program:
        assert list(program.inputs) == [*"qkv", "mask"]
        k = v = np.zeros((1, HEADS, 0, DEPTH), np.float32)
        for token in range(4):
            q, new_k, new_v = (draw.standard_normal((1, HEADS, 1, DEPTH)).astype(np.float32) for _ in range(3))
            mask = draw.standard_normal((1, token + 1)).astype(np.float32)
            k, v = np.concatenate([k, new_k], 2), np.concatenate([v, new_v], 2)
            found = program(q, new_k, new_v, mask)
            np.testing.assert_allclose(found["y"], step(k, v, q, mask), rtol=1e-5, atol=1e-5)
        for name, wanted in zip(PAST, (k, v)):
            np.testing.assert_array_equal(program.states[name][:, :, :4], wanted)
        with pytest.raises(Refused, match="E1706"):  # no room
            program(q, new_k, new_v, np.zeros((1, ROOM + 1), np.float32))


def test_the_caches_are_read_where_they_are_and_their_new_rows_are_all_that_is_written() -> None:
    from tinyir.ir import region
    from tinyir.lower import lower_to

    module: Any = front.read(to_json(decoder(), "net.onnx", room=ROOM))
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    assert region.check(module) == []
    aliases = {b.name: b.attr("alias") for b in module.program.buffers if b.attr("alias")}
    assert sorted(aliases.values()) == sorted(PAST)
    for one in module.program.regions:
        for name in {t.name for t in one.outputs} & aliases.keys():
            assert [str(a.size) for a in one.iters] == [str(HEADS), str(DEPTH)], name
    held = [b for b in module.program.buffers if b.name not in aliases and b.attr("materialize") is None]
    assert held == []  # no copy of a cache


NORM = [node("Mul", ["running", "half"], ["a"]), node("Add", ["a", "x"], ["out"])]
HALF = np.float32([0.5])


def test_a_pair_that_is_named() -> None:
    raw = made(NORM, {"x": [3], "running": [3]}, {"out": [3]}, half=HALF)
    assert front.read(to_json(raw, "net.onnx")).model.states() == {}
    module = front.read(to_json(raw, "net.onnx", states={"running": "out"}))
    assert module.model.states() == {"running": "out"}
    tensor = module.model.input("running")
    assert tensor is not None and tensor.attr("role") == "state"


def test_names_of_equal_types_are_a_pair() -> None:
    nodes = [node("Mul", ["past_x", "half"], ["present_x"])]
    module = front.read(to_json(made(nodes, {"past_x": [3]}, {"present_x": [3]}, half=HALF), "net.onnx"))
    assert module.model.states() == {"past_x": "present_x"}


def test_an_output_that_is_its_own_input_or_two_states() -> None:
    nodes = [node("Identity", ["past_a"], ["present_a"]), node("Identity", ["present_a"], ["present_b"])]
    raw = made(nodes, {"past_a": [3], "past_b": [3]}, {"present_a": [3], "present_b": [3]})
    module = front.read(to_json(raw, "net.onnx"))
    assert [d for d in tiny.check(module) if d.is_error] == []
    assert module.model.states() == {"past_a": "present_a", "past_b": "present_b"}


@pytest.mark.parametrize(
    ("states", "word"),
    [({"y": "out"}, "not an input"), ({"running": "y"}, "not an output"), ({"x": "out"}, "--room")],
)
def test_pairs_that_there_are_not(states: dict[str, str], word: str) -> None:
    raw = made(NORM, {"x": [1], "running": [3]}, {"out": [3]}, half=HALF)
    with pytest.raises(Refused) as fault:
        to_json(raw, "net.onnx", states=states)
    assert [d.code for d in fault.value.diags] == ["E0128"] and word in str(fault.value.diags[0].facts["fault"])


def test_a_room_without_a_cache_is_refused() -> None:
    raw = made(NORM, {"x": [3], "running": [3]}, {"out": [3]}, half=HALF)
    with pytest.raises(Refused) as fault:
        to_json(raw, "net.onnx", states={"running": "out"}, room=64)
    assert [d.code for d in fault.value.diags] == ["E0018"] and "--state" in fault.value.diags[0].suggestion()


def test_the_command_keeps_states_in_a_file(tmp_path: Path) -> None:
    raw = made(NORM, {"x": [3], "running": [3]}, {"out": [3]}, half=HALF)
    done = run_line("tinyc --state running=out", raw)
    assert done.code == 0, done.err
    np.savez(tmp_path / "x.npz", x=np.ones(3, np.float32))
    kept = tmp_path / "kept.npz"
    np.savez(kept, running=np.zeros(3, np.float32))
    for wanted in (1, 1.5, 1.75):
        again = run_line(f"tiny-run --device=cpu --inputs {tmp_path / 'x.npz'} --states {kept}", done.out)
        assert again.code == 0, again.err
        with np.load(kept) as found:
            assert found.files == ["running"] and found["running"].tolist() == [wanted] * 3
    missing = run_line(
        f"tiny-run --device=cpu --inputs {tmp_path / 'x.npz'} --states {tmp_path / 'none.npz'}", done.out
    )
    assert b"E1701" in missing.err


def test_json_says_which(tmp_path: Path) -> None:
    found = json.load(io.StringIO(to_json(decoder(), "net.onnx", room=ROOM)))
    assert {"tensor": f"{PAST[0]}.new", "updates": PAST[0]} in found["signature"]["outputs"]
