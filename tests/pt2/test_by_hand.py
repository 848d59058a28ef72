"""Archives written by hand: each way in which one can be wrong has its code, and no bytes do worse."""

from __future__ import annotations

import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyir
from tests.commands import run_line
from tinyir import front
from tinyir.front.pt2 import to_json
from tinyir.front.pt2.sizes import expression
from tinyir.ir import tiny
from tinyir.ir.expr import Expr
from tinyir.kit.diag import Refused
from tinyir.play.tiny import play
from tinyir.runtime.weights import read_weights

from .by_hand import BOOL, FLOAT, LONG, PAIR, archive, linear, meta, model, node, size, tensor

X = np.arange(12, dtype=np.float32).reshape(4, 3)
W = np.arange(6, dtype=np.float32).reshape(3, 2) - 2
B = np.array([-40, 1], np.float32)
WEIGHTS = {"w": W, "b": B}


def codes(raw: bytes, file: str = "net.pt2", **shapes: list[str]) -> list[str]:
    with pytest.raises(Refused) as fault:
        to_json(raw, file, shapes)
    return [d.code for d in fault.value.diags]


def played(raw: bytes, folder: Path, *arrays: np.ndarray) -> list[np.ndarray]:
    (folder / "net.pt2").write_bytes(raw)
    module = front.read(to_json(raw, "net.pt2"))
    assert [d for d in tiny.check(module) if d.is_error] == []
    weights = read_weights(module.model, folder)
    inputs = [t.name for t in module.model.inputs if t.name not in weights]
    return list(play(module, weights | dict(zip(inputs, arrays, strict=True))).values())


def unary(op: str, shape: list[Any], **arguments: Any) -> dict[str, Any]:
    return model({"x": (FLOAT, shape)}, [node(op, ["y"], self="x", **arguments)], {"y": (FLOAT, shape)})


def test_a_linear_layer(tmp_path: Path) -> None:
    (found,) = played(archive(linear(), WEIGHTS), tmp_path, X)
    assert np.array_equal(found, np.maximum(X @ W + B, 0))


def test_the_sign_of_what_is_no_number_is_zero(tmp_path: Path) -> None:
    (found,) = played(archive(unary("sign.default", [5]), {}), tmp_path, np.array([np.nan, -np.inf, -0.0, 2, 0], "f4"))
    assert found.tolist() == [0, -1, 0, 1, 0]


def test_what_is_infinite_has_an_angle_and_a_length(tmp_path: Path) -> None:
    (found,) = played(archive(unary("angle.default", [4]), {}), tmp_path, np.array([np.inf, -np.inf, -0.0, -2], "f4"))
    np.testing.assert_array_equal(found, np.array([0, np.pi, 0, np.pi], "f4"))
    parts = np.array([[np.inf, -np.inf], [3, np.inf], [0, 0], [3e30, 4e30], [-2, 2]], "f4")
    nodes = [node("view_as_complex.default", ["c"], self="x"), node("abs.default", ["y"], self="c")]
    net = model({"x": (FLOAT, [5, 2])}, nodes, {"y": (FLOAT, [5])}, {"c": (PAIR, [5])})
    (found,) = played(archive(net, {}), tmp_path, parts)
    np.testing.assert_allclose(found, np.hypot(*parts.T), rtol=1e-6)


def test_quotients_of_large_and_of_small_numbers(tmp_path: Path) -> None:
    parts = np.array([[3e30, -4e30], [3e-30, 4e-30], [0, 2], [-5, 0]], "f4")
    nodes = [
        node("view_as_complex.default", ["c"], self="x"),
        node("reciprocal.default", ["r"], self="c"),
        node("div.Tensor", ["q"], self="c", other="c"),
        node("view_as_real.default", ["y"], self="r"),
        node("view_as_real.default", ["z"], self="q"),
    ]
    made = {name: (FLOAT, [4, 2]) for name in "yz"}
    net = model({"x": (FLOAT, [4, 2])}, nodes, made, {name: (PAIR, [4]) for name in "crq"})
    inverse, one = played(archive(net, {}), tmp_path, parts)
    wanted = 1 / (parts[:, 0] + 1j * parts[:, 1].astype(np.complex128))
    np.testing.assert_allclose(inverse, np.stack([wanted.real, wanted.imag], 1), rtol=1e-6, atol=1e-45)
    np.testing.assert_allclose(one, [[1, 0]] * 4, atol=1e-6)


def test_truth_values_are_reduced_in_the_place_of_what_was_there(tmp_path: Path) -> None:
    how = {"dim": 0, "index": "i", "src": "s", "include_self": False}
    nodes = [
        node("scatter_reduce.two", [f"y{n}"], self="x", reduce={"as_string": f"a{n}"}, **how) for n in ("max", "min")
    ]
    inputs = {"x": (BOOL, [3]), "i": (LONG, [4]), "s": (BOOL, [4])}
    raw = archive(model(inputs, nodes, {f"y{n}": (BOOL, [3]) for n in ("max", "min")}), {})
    x, s = np.array([True, False, True]), np.array([True, False, False, False])
    found = played(raw, tmp_path, x, np.array([0, 0, 1, 1]), s)
    assert [y.tolist() for y in found] == [[True, False, True], [False, False, True]]


@pytest.mark.parametrize("size", [3, 4])
def test_a_place_is_mirrored_before_it_is_rounded(tmp_path: Path, size: int) -> None:
    """Halves, which are rounded to even: -1.5 is 0.5 behind the border of -0.5, and its nearest element the first."""
    places = np.arange(-2 * size, 3 * size, 0.5)
    grid = np.stack([(2 * places + 1) / size - 1, np.zeros_like(places)], 1).astype("f4").reshape(1, 1, -1, 2)
    how = {"interpolation_mode": 1, "padding_mode": 2, "align_corners": False}
    types = {"x": (FLOAT, [1, 1, 1, size]), "g": (FLOAT, list(grid.shape))}
    nodes = [node("grid_sampler_2d.default", ["y"], input="x", grid="g", **how)]
    net = model(types, nodes, {"y": (FLOAT, [1, 1, 1, places.size])})
    (found,) = played(archive(net, {}), tmp_path, np.arange(size, dtype="f4").reshape(1, 1, 1, size), grid)
    exact = ((grid[0, 0, :, 0] + 1) * size - 1) / 2
    turn = np.mod(exact + 0.5, 2 * size)
    wanted = np.rint(np.clip(np.minimum(turn, 2 * size - turn) - 0.5, 0, size - 1))
    assert found.ravel().tolist() == wanted.tolist()


def test_a_large_weight_is_a_place_in_the_archive() -> None:
    raw = archive(linear(), WEIGHTS)
    (entry,) = [t for n, t in json.loads(to_json(raw, "sub/net.pt2"))["tensors"].items() if n == "body.w"]
    assert entry["file"] == "sub/net.pt2" and entry["bytes"] == W.nbytes
    assert raw[entry["offset"] : entry["offset"] + entry["bytes"]] == W.tobytes()


def test_a_weight_in_another_order_of_axes(tmp_path: Path) -> None:
    """w.t() of a parameter that is stored as [2, 3]."""
    raw = archive(linear(), {"w": np.ascontiguousarray(W.T).reshape(3, 2), "b": B})
    plain, turned = json.dumps(meta(FLOAT, [3, 2])["strides"]), json.dumps(meta(FLOAT, [3, 2], [1, 3])["strides"])
    config = rezipped(raw, "model_weights_config.json", lambda text: text.replace(plain, turned, 1))
    (found,) = played(config, tmp_path, X)
    assert np.array_equal(found, np.maximum(X @ W + B, 0))


def rezipped(raw: bytes, member: str, change: Callable[[str], str]) -> bytes:
    """An archive with one text changed."""
    import io

    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(raw)) as given, zipfile.ZipFile(out, "w") as made:
        for info in given.infolist():
            body = given.read(info)
            made.writestr(info.filename, change(body.decode()) if info.filename.endswith(member) else body)
    return out.getvalue()


def test_open_sizes_are_symbols_with_ranges() -> None:
    symbol = "Symbol('s7', integer=True, positive=True)"
    program = unary("relu.default", [symbol, 3]) | {"range_constraints": {"s7": {"min_val": 2, "max_val": 64}}}
    module = front.read(to_json(archive(program)))
    assert "s7 in 2..64" in tiny.show(module)
    fixed = front.read(to_json(archive(program), "", {"x": ["5", "3"]}))
    assert str(fixed.model.inputs[0].type) == "fp32[5, 3]"
    named = front.read(to_json(archive(program), "", {"x": ["B:4..100", "3"]}))
    assert "B in 4..64" in tiny.show(named)
    assert codes(archive(program), x=["65", "3"]) == ["E0128"]
    assert codes(archive(program), x=["5", "4"]) == ["E0128"]
    assert codes(archive(program), z=["5", "4"]) == ["E0128"]


def test_sizes_that_nodes_compute() -> None:
    symbol = "Symbol('s7', integer=True, positive=True)"
    double = f"Mul(Integer(2), {symbol})"
    shape = {"as_sym_ints": [{"as_name": "twice"}, {"as_int": 3}]}
    program = model(
        {"x": (FLOAT, [symbol, 6])},
        [
            {**node("sym_size.int", [], self="x", dim=0), "outputs": [{"as_sym_int": {"as_name": "n"}}]},
            {
                **node("torch.mul", [], a={"as_sym_int": {"as_name": "n"}}, b=2),
                "outputs": [{"as_sym_int": {"as_name": "twice"}}],
            },
            node("view.default", ["y"], self="x", size=shape),
        ],
        {"y": (FLOAT, [double, 3])},
        sizes={"n": size(symbol), "twice": size(double)},
    )
    module = front.read(to_json(archive(program)))
    assert str(module.model.outputs[0].type) == "fp32[2*s7, 3]"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Symbol('s0', positive=True)", "s0"),
        ("Add(Integer(-1), FloorDiv(Symbol('s0'), Integer(2)))", "floor(s0/2) - 1"),
        ("Mul(Integer(3), Pow(Symbol('s1'), Integer(2)))", "3*s1*s1"),
        ("2*s0 + s1//4", "2*s0 + floor(s1/4)"),
        ("Mod(Symbol('s0'), Integer(8))", "s0 - 8*floor(s0/8)"),
    ],
)
def test_expressions(text: str, wanted: str) -> None:
    from tinyir.front.ops.table import read_dim

    assert expression(text) == Expr.of(read_dim(wanted))


@pytest.mark.parametrize(
    "text",
    ["", "__import__('os')", "Max(1, 2)", "Symbol('a b')", "(" * 500, "1.5", "s0/2", "9**9", "s0//0", "x" * 5000],
)
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError):
        expression(text)


def test_what_is_no_archive() -> None:
    whole = archive(linear(), WEIGHTS)
    assert codes(b"PK\x03\x04 and no more") == ["E0141"]
    assert codes(whole[:-30]) == ["E0141"]
    assert codes(whole.replace(b"models/model.json", b"models/other.json")) == ["E0141"]
    assert codes(archive("{")) == ["E0141"]
    assert codes(archive("[" * 100_000)) == ["E0141"]
    assert codes(archive("[]")) == ["E0141"]
    assert codes(archive({"schema_version": {"major": 8, "minor": 1}})) == ["E0141"]
    assert codes(archive(linear(), WEIGHTS).replace(b"little", b"biggie")) == ["E0141"]


def test_another_schema() -> None:
    assert codes(archive(linear(schema_version={"major": 9, "minor": 0}), WEIGHTS)) == ["E0142"]


def test_ops_without_a_translation_are_named_at_once() -> None:
    program = linear()
    nodes = program["graph_module"]["graph"]["nodes"]
    nodes[0]["target"], nodes[1]["target"] = "torch.ops.aten.bernoulli.p", "torch.ops.mine.own.default"
    with pytest.raises(Refused) as fault:
        to_json(archive(program, WEIGHTS))
    (found,) = fault.value.diags
    assert found.code == "E0143" and "in another way" in found.suggestion()  # decomposing may not help
    assert found.facts["ops"] == "bernoulli.p (sum_1 of body); mine.own.default (y of body)"


def test_forms_without_a_translation() -> None:
    program = model(
        {"x": (FLOAT, [4]), "m": (12, [4])},
        [node("index.Tensor", ["y"], self="x", indices={"as_optional_tensors": [tensor("m")]})],
        {"y": (FLOAT, [3])},
    )
    assert codes(archive(program)) == ["E0144"]
    assert codes(archive(unary("dropout.default", [4], p=0.5, train=True))) == ["E0144"]


def test_writes() -> None:
    """A tensor of its own may be written to, and in part what is read later."""
    inner = [node("neg.default", ["n"], self="x"), node("relu_.default", ["r"], self="n")]
    types = {"n": (FLOAT, [4]), "r": (FLOAT, [4]), "s": (FLOAT, [2])}
    both = node("add.Tensor", ["y"], self="n", other="r")
    out = {"y": (FLOAT, [4])}
    program = model({"x": (FLOAT, [4])}, [*inner, both], out, types)
    module = front.read(to_json(archive(program)))
    x = np.array([-2, 3, -4, 0], np.float32)
    assert play(module, {"x": x})["y"].tolist() == [4, 0, 8, 0]
    view = node("slice.Tensor", ["s"], self="n", dim=0, start=0, end=2)
    write = node("neg_.default", ["t"], self="s")
    part = model({"x": (FLOAT, [4])}, [inner[0], view, write, node("relu.default", ["y"], self="n")], out, {
        **types, "t": (FLOAT, [2]),
    })  # fmt: skip
    assert play(front.read(to_json(archive(part))), {"x": x})["y"].tolist() == [0, 3, 4, 0]
    strided = node("as_strided.default", ["s"], self="n", size=[2], stride=[2])
    odd = model({"x": (FLOAT, [4])}, [inner[0], strided, write, node("relu.default", ["y"], self="n")], out, {
        **types, "t": (FLOAT, [2]),
    })  # fmt: skip
    assert codes(archive(odd)) == ["E0144"]
    copied = [node("clone.default", ["n"], self="x"), inner[1], node("add.Tensor", ["y"], self="x", other="r")]
    module = front.read(to_json(archive(model({"x": (FLOAT, [4])}, copied, out, types))))
    assert play(module, {"x": x})["y"].tolist() == [-2, 6, -4, 0]


@pytest.mark.parametrize("again", ["n", "s"])
def test_a_value_that_is_given_twice_is_no_view_of_itself(again: str) -> None:
    """No archive of torch is like this one: it must not be followed for ever."""
    nodes = [node("neg.default", ["n"], self="x"), node("alias.default", ["s"], self="n")]
    nodes += [node("alias.default", [again], self="s"), node("neg_.default", ["t"], self="s")]
    nodes += [node("relu_.default", [again], self="t"), node("relu.default", ["y"], self="n")]
    types = {name: (FLOAT, [4]) for name in "nst"}
    module = front.read(to_json(archive(model({"x": (FLOAT, [4])}, nodes, {"y": (FLOAT, [4])}, types))))
    assert [t.name for t in module.model.outputs] == ["y"]


COUNT = ({"n": (LONG, []), "x": (FLOAT, [2])}, {"y": (FLOAT, [2])}, {"n1": (LONG, [])}, ("n",))


@pytest.mark.parametrize(("op", "new"), [("add.Tensor", "n1"), ("add_.Tensor", "")])
def test_a_buffer_that_is_changed_is_a_state(op: str, new: str, tmp_path: Path) -> None:
    """Decomposed, where the signature says so, and as torch traced it."""
    inputs, outputs, values, weights = COUNT
    nodes = [node(op, ["n1"], self="n", other=1), node("mul.Tensor", ["y"], self="x", other="n1")]
    file = tmp_path / "count.pt2"
    file.write_bytes(archive(model(inputs, nodes, outputs, values, weights, {"n": new}), {"n": np.array(4)}))
    module = front.read(to_json(file.read_bytes(), file.name))
    state = module.model.input("body.n")
    assert state is not None and (state.attr("role"), state.attr("mutability")) == ("state", "mutable")
    assert module.model.states() == {"body.n": "n1"} and [d for d in tiny.check(module) if d.is_error] == []
    with tinyir.compile(file, device="cpu") as program:
        assert program.inputs == {"x": "fp32[2]"} and program.states["body.n"] == 4
        for call in (5, 6, 7):
            assert program(np.float32([1, 2]))["y"].tolist() == [call, 2 * call]
        assert program.states["body.n"] == 7


@pytest.mark.parametrize("new", ["s1", ""])
def test_an_input_that_is_changed_is_a_state(new: str) -> None:
    inputs = {"x": (FLOAT, [2]), "s": (FLOAT, [2])}
    nodes = [
        node("add.Tensor" if new else "add_.Tensor", ["s1"], self="s", other="x"),
        node("neg.default", ["y"], self="s1"),
    ]
    text = to_json(archive(model(inputs, nodes, {"y": (FLOAT, [2])}, {"s1": (FLOAT, [2])}, (), {"s": new})))
    module = front.read(text)
    assert module.model.states() == {"s": "s1"}
    found = play(module, {"x": np.float32([1, 2]), "s": np.float32([3, 4])})
    assert found["s1"].tolist() == [4, 6] and found["y"].tolist() == [-4, -6]


def test_new_values_of_states_that_are_something_else_as_well() -> None:
    """An output, an input, the new value of another state, or the old one of itself."""
    inputs = {"x": (FLOAT, [2]), "s": (FLOAT, [2]), "t": (FLOAT, [2])}
    nodes = [node("neg.default", ["y"], self="x")]
    for s, t in (("y", "y"), ("x", "s"), ("s", "x")):
        program = model(inputs, nodes, {"y": (FLOAT, [2])}, {}, (), {"s": s, "t": t})
        module = front.read(to_json(archive(program)))
        assert [d for d in tiny.check(module) if d.is_error] == [] and module.model.states().keys() == {"s", "t"}
        arrays = {"x": np.float32([1, 2]), "s": np.float32([3, 4]), "t": np.float32([5, 6])}
        known = {**arrays, "y": -arrays["x"]}
        found = play(module, arrays)
        for state, value in (("s", s), ("t", t)):
            np.testing.assert_array_equal(found[module.model.states()[state]], known[value])


def test_a_norm_that_trains_changes_its_statistics(tmp_path: Path) -> None:
    """`batch_norm` does so without a word, and the decomposed op gives them."""
    types = {"m": (FLOAT, [3]), "v": (FLOAT, [3]), "x": (FLOAT, [2, 3, 4])}
    kept = {"m": np.float32([1, 2, 3]), "v": np.float32([4, 5, 6])}
    given = {
        "input": "x",
        "weight": {"as_none": True},
        "bias": {"as_none": True},
        "running_mean": "m",
        "running_var": "v",
    }
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    for decomposed in (True, False):
        if decomposed:
            op, more = "_native_batch_norm_legit_functional.default", ["a", "b", "m1", "v1"]
            changes, arg = {"m": "m1", "v": "v1"}, {"training": True, "momentum": 0.25, "eps": 1e-5}
        else:
            op, more, changes = "batch_norm.default", [], {"m": "", "v": ""}
            arg = {"training": True, "momentum": 0.25, "eps": 1e-5, "cudnn_enabled": True}
        values = {n: (FLOAT, [3]) for n in more}
        program = model(
            types, [node(op, ["y", *more], **given, **arg)], {"y": (FLOAT, [2, 3, 4])}, values, ("m", "v"), changes
        )
        file = tmp_path / "norm.pt2"
        file.write_bytes(archive(program, kept))
        with tinyir.compile(file, device="cpu") as compiled:
            found = compiled(x)["y"]
            mean, var = x.mean((0, 2)), x.var((0, 2))
            wanted = (x - mean[:, None]) / np.sqrt(var[:, None] + 1e-5)
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(compiled.states["body.m"], 0.75 * kept["m"] + 0.25 * mean, rtol=1e-5)
            unbiased = x.var((0, 2), ddof=1)
            np.testing.assert_allclose(compiled.states["body.v"], 0.75 * kept["v"] + 0.25 * unbiased, rtol=1e-5)


def test_what_no_state_can_be_made_of() -> None:
    view = node("as_strided.default", ["part"], self="x", size=[2], stride=[2])
    write = node("neg_.default", ["y"], self="part")
    program = model({"x": (FLOAT, [4])}, [view, write], {"y": (FLOAT, [2])}, {"part": (FLOAT, [2])})
    assert codes(archive(program)) == ["E0145"]
    inputs, outputs, values, weights = COUNT
    nodes = [node("add.Tensor", ["n1"], self="n", other=1), node("mul.Tensor", ["y"], self="x", other="n1")]
    piped = archive(model(inputs, nodes, outputs, values, weights, {"n": "n1"}), {"n": np.array(4)})
    assert codes(piped, "") == ["E0127"]  # its first value would be lost


def test_other_signatures() -> None:
    program = linear()
    program["graph_module"]["signature"]["input_specs"][2] = {"custom_obj": {"arg": {"name": "x"}}}
    assert codes(archive(program, WEIGHTS)) == ["E0126"]


def test_types_that_there_are_not_or_that_differ() -> None:
    assert codes(archive(model({"x": (10, [4])}, [node("relu.default", ["y"], self="x")], {"y": (10, [4])}))) == [
        "E0126"
    ]
    wrong = model({"x": (FLOAT, [4, 2])}, [node("relu.default", ["y"], self="x")], {"y": (FLOAT, [2, 4])})
    assert codes(archive(wrong)) == ["E0146"]


def test_weights_out_of_reach() -> None:
    assert codes(archive(linear(), WEIGHTS, use_pickle=True)) == ["E0127"]
    assert codes(archive(linear(), WEIGHTS, path_name="weight_7")) == ["E0127"]
    assert codes(archive(linear(), {"w": W})) == ["E0127"]
    strided, far = meta(FLOAT, [3, 2], [0, 1]), meta(FLOAT, [3, 2], None, 100)
    assert "E0127" in codes(archive(linear(), WEIGHTS, tensor_meta=strided))
    assert "E0127" in codes(archive(linear(), WEIGHTS, tensor_meta=far))
    wide = model(
        {"w": (FLOAT, [70_000]), "x": (FLOAT, [70_000])},
        [node("add.Tensor", ["y"], self="x", other="w")],
        {"y": (FLOAT, [70_000])},
        weights=("w",),
    )
    one = {"w": np.ones(70_000, np.float32)}
    assert codes(archive(wide, one), "") == ["E0127"]  # through a pipe
    assert codes(archive(wide, one, zipfile.ZIP_DEFLATED)) == ["E0127"]
    assert "body.w" in to_json(archive(wide, one), "net.pt2")


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "net.pt2").write_bytes(archive(linear(), WEIGHTS))
    done = run_line(f"tiny-import {tmp_path}/net.pt2")
    assert done.code == 0 and '"file"' in done.out.decode()
    done = run_line(f"tiny-import {tmp_path}/net.pt2 --value x=1")
    assert done.code == 1 and "E0018" in done.err.decode()
    assert "E0018" in run_line(f"tiny-import {tmp_path}/net.pt2 --room 64").err.decode()


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(p for key, inner in items for p in _places(inner, (*path, key)))]


STRANGE = (None, True, -1, 0, 1 << 40, 1.5, "", "x", "Infinity", [], {}, [1], {"as_int": 3}, {"as_none": True}, LONG)


@pytest.mark.parametrize("seed", range(12))
def test_changed_models_are_read_or_refused(seed: int) -> None:
    """50 changes a seed, each of one value of the model or of the weights' config."""
    draw = random.Random(seed)
    for _ in range(50):
        program = json.loads(json.dumps(linear()))
        path = draw.choice(_places(program)[1:])
        target: Any = program
        for key in path[:-1]:
            target = target[key]
        if draw.random() < 0.3 and isinstance(target, dict):
            del target[path[-1]]
        else:
            target[path[-1]] = draw.choice(STRANGE)
        try:
            front.read(to_json(archive(program, WEIGHTS), "net.pt2"))
        except Refused:
            pass


@pytest.mark.parametrize("seed", range(6))
def test_changed_bytes_are_read_or_refused(seed: int) -> None:
    draw, whole = random.Random(seed), archive(linear(), WEIGHTS)
    for _ in range(50):
        raw = bytearray(whole)
        for _ in range(draw.choice((1, 1, 3))):
            raw[draw.randrange(len(raw))] = draw.randrange(256)
        cut = bytes(raw[: draw.randrange(len(raw))]) if draw.random() < 0.2 else bytes(raw)
        try:
            front.read(to_json(cut, "net.pt2"))
        except Refused:
            pass


def test_a_size_that_no_expression_says_is_refused_where_it_is_read(tmp_path: Path) -> None:
    """Sizes that only assertions ask may be anything, as of parts of a resized image."""
    odd = {"s": {"as_expr": {"expr_str": "Piecewise((1, Eq(u3, 1)), (0, True))", "hint": None}}}
    nodes = [node("relu.default", ["y"], self="x")]
    net = model({"x": (FLOAT, [4])}, nodes, {"y": (FLOAT, [4])}, sizes=odd)
    (found,) = played(archive(net, {}), tmp_path, X.reshape(-1)[:4])
    assert found.tolist() == [0, 1, 2, 3]
    nodes = [node("expand.default", ["y"], self="x", size={"as_sym_ints": [{"as_name": "s"}]})]
    assert codes(archive(model({"x": (FLOAT, [1])}, nodes, {"y": (FLOAT, [1])}, sizes=odd), {})) == ["E0141"]


def test_as_many_groups_as_a_symbol_says_are_refused_by_name() -> None:
    """As of a convolution whose weights are those of each image of a batch."""
    nodes = [node("conv2d.default", ["y"], input="x", weight="w", groups={"as_sym_int": {"as_name": "s"}})]
    types = {"x": (FLOAT, [1, "s0", 4, 4]), "w": (FLOAT, ["s0", 1, 3, 3])}
    sizes = {"s": {"as_expr": {"expr_str": "s0", "hint": None}}}
    with pytest.raises(Refused) as fault:
        to_json(archive(model(types, nodes, {"y": (FLOAT, [1, "s0", 2, 2])}, sizes=sizes), {}), "net.pt2")
    (diag,) = fault.value.diags
    assert diag.code == "E0144" and "groups is a symbol" in diag.why()
