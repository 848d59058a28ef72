"""Writes through views, in programs as torch traced them: the whole has what was written, or the write is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinyir import front
from tinyir.front.pt2 import to_json
from tinyir.front.pt2.nodes import word_of
from tinyir.front.pt2.views import NEVER, sharing

from .by_hand import FLOAT, PAIR, archive, meta, model, node
from .test_by_hand import codes, played

INT = 4
X = np.arange(24, dtype="f4").reshape(2, 3, 4)


def diagonals(x: np.ndarray, offset: int, rows: int, columns: int) -> np.ndarray:
    view = np.diagonal(x, offset, rows, columns)
    view.flags.writeable = True
    return view


VIEWS: dict[str, tuple[Callable[[np.ndarray], Any], dict[str, Any]]] = {
    "diagonal.default": (lambda y: diagonals(y, 1, 1, 2), {"offset": 1, "dim1": 1, "dim2": 2}),
    "linalg_diagonal.default": (lambda y: diagonals(y, -1, 1, 2), {"offset": -1}),
    "view_as.default": (lambda y: y.reshape(4, 6), {"other": "o"}),
    "reshape_as.default": (lambda y: y.reshape(4, 6), {"other": "o"}),
    "atleast_1d.default": (lambda y: y, {}),
    "atleast_2d.default": (lambda y: y, {}),
    "atleast_3d.default": (lambda y: y, {}),
    "real.default": (lambda y: y, {}),
    "conj.default": (lambda y: y, {}),
    "adjoint.default": (lambda y: y.swapaxes(1, 2), {}),
    "dropout.default": (lambda y: y, {"p": 0.5, "train": False}),
    "hsplit.int": (lambda y: y[:, :1], {"sections": 3}),
    "vsplit.array": (lambda y: y[:1], {"indices": [1]}),
    "dsplit.int": (lambda y: y[..., :2], {"sections": 2}),
    "tensor_split.indices": (lambda y: y[..., :-1], {"indices": [-1, 1], "dim": 2}),
}


@pytest.mark.parametrize("op", VIEWS)
def test_what_is_written_to_a_view_is_in_its_whole(op: str, tmp_path: Path) -> None:
    of, stated = VIEWS[op]
    wanted = X.copy()
    view = of(wanted)
    view[...] = 7
    is_split = "split" in op
    nodes = [
        node("clone.default", ["y"], self="x"),
        node(op, ["v"], **{"A" if op.startswith("linalg") else "self": "y"}, **stated),
        node("fill_.Scalar", ["w"], self="v", value=7.0),
        node("mul.Scalar", ["z"], self="y", other=1.0),
    ]
    if is_split:
        nodes[1]["outputs"] = [{"as_tensors": [{"name": "v"}]}]
    types = {"y": (FLOAT, X.shape), "v": (FLOAT, view.shape), "w": (FLOAT, view.shape)}
    program = model({"x": (FLOAT, X.shape), "o": (FLOAT, [4, 6])}, nodes, {"z": (FLOAT, X.shape)}, types)
    (found,) = played(archive(program, {}), tmp_path, X, np.zeros((4, 6), "f4"))
    assert found.tolist() == wanted.tolist()


def test_bits_that_are_written_are_in_the_whole(tmp_path: Path) -> None:
    nodes = [
        node("clone.default", ["y"], self="x"),
        node("view.dtype", ["v"], self="y", dtype={"as_scalar_type": INT}),
        node("select.int", ["s"], self="v", dim=0, index=1),
        node("fill_.Scalar", ["w"], self="s", value=1),
        node("mul.Scalar", ["z"], self="y", other=1.0),
    ]
    types = {"y": (FLOAT, [3]), "v": (INT, [3]), "s": (INT, []), "w": (INT, [])}
    program = model({"x": (FLOAT, [3])}, nodes, {"z": (FLOAT, [3])}, types)
    x = np.array([1, 2, 3], "f4")
    (found,) = played(archive(program, {}), tmp_path, x)
    x.view("i4")[1] = 1
    assert found.view("i4").tolist() == x.view("i4").tolist()


@pytest.mark.parametrize("op", ["real", "imag", "view_as_real", "conj", "adjoint"])
def test_what_is_written_to_a_part_of_a_complex_tensor(op: str, tmp_path: Path) -> None:
    """And what is written to the tensor of its parts."""
    x = np.arange(8, dtype="f4").reshape(2, 2, 2)
    wanted = x[..., 0] + 1j * x[..., 1]
    kind, shape, row = PAIR if op in ("conj", "adjoint") else FLOAT, [2, 2], [2]
    if op == "view_as_real":
        shape, row = [2, 2, 2], [2, 2]
        wanted[0] *= 3
    elif op in ("real", "imag"):
        getattr(wanted, op)[0] *= 3
    else:
        (wanted if op == "conj" else wanted.T)[0] *= 3
    nodes = [
        node("clone.default", ["y"], self="x"),
        node("view_as_complex.default", ["c"], self="y"),
        node(f"{op}.default", ["v"], self="c"),
        node("select.int", ["s"], self="v", dim=0, index=0),
        node("mul_.Scalar", ["w"], self="s", other=3.0),
        node("mul.Scalar", ["z"], self="y", other=1.0),
    ]
    types = {"y": (FLOAT, [2, 2, 2]), "c": (PAIR, [2, 2]), "v": (kind, shape), "s": (kind, row), "w": (kind, row)}
    program = model({"x": (FLOAT, [2, 2, 2])}, nodes, {"z": (FLOAT, [2, 2, 2])}, types)
    (found,) = played(archive(program, {}), tmp_path, x)
    assert found.tolist() == np.stack([wanted.real, wanted.imag], -1).tolist()


def test_a_conjugate_that_is_transposed(tmp_path: Path) -> None:
    x = np.arange(8, dtype="f4").reshape(2, 2, 2)
    nodes = [node("view_as_complex.default", ["c"], self="x")]
    names = ("adjoint", "mH", "matrix_H")
    nodes += [node(f"{op}.default", [f"v{n}"], self="c") for n, op in enumerate(names)]
    nodes += [node("view_as_real.default", [f"z{n}"], self=f"v{n}") for n in range(3)]
    types = {"c": (PAIR, [2, 2]), **{f"v{n}": (PAIR, [2, 2]) for n in range(3)}}
    outputs = {f"z{n}": (FLOAT, [2, 2, 2]) for n in range(3)}
    wanted = (x * [1, -1]).swapaxes(0, 1).tolist()
    found = played(archive(model({"x": (FLOAT, [2, 2, 2])}, nodes, outputs, types), {}), tmp_path, x)
    assert [f.tolist() for f in found] == [wanted] * 3


def test_what_may_share_memory_is_not_written_to() -> None:
    """Of several tensors each result may share that of its own operand."""
    lines = {"as_tensors": [{"name": "y"}, {"name": "x"}]}
    grid = node("meshgrid.default", ["v"], tensors=lines)
    grid["outputs"] = [{"as_tensors": [{"name": "v"}, {"name": "u"}]}]
    sum_ = node("einsum.default", ["v"], equation={"as_string": "i->i"}, tensors={"as_tensors": [{"name": "y"}]})
    for view, shape in ((grid, [3, 3]), (sum_, [3])):
        nodes = [
            node("clone.default", ["y"], self="x"),
            view,
            node("fill_.Scalar", ["w"], self="v", value=7.0),
            node("mul.Scalar", ["z"], self="y", other=1.0),
        ]
        types = {"y": (FLOAT, [3]), "v": (FLOAT, shape), "u": (FLOAT, shape), "w": (FLOAT, shape)}
        assert codes(archive(model({"x": (FLOAT, [3])}, nodes, {"z": (FLOAT, [3])}, types), {})) == ["E0144"]
        del nodes[2]
        front.read(to_json(archive(model({"x": (FLOAT, [3])}, nodes, {"z": (FLOAT, [3])}, types), {})))


def test_a_view_that_is_turned_in_place_is_no_write() -> None:
    types = {"y": (FLOAT, [3, 3]), "v": (FLOAT, [2, 3]), "w": (FLOAT, [3, 2])}
    nodes = [
        node("clone.default", ["y"], self="x"),
        node("slice.Tensor", ["v"], self="y", dim=0, start=0, end=2),
        node("t_.default", ["w"], self="v"),
        node("mul.Scalar", ["z"], self="y", other=1.0),
    ]
    program = model({"x": (FLOAT, [3, 3])}, nodes, {"z": (FLOAT, [3, 3])}, types)
    assert codes(archive(program, {})) == ["E0144"]


def test_a_copy_shares_no_memory() -> None:
    assert sharing(node("squeeze_copy.dim", ["v"], self="y"), word_of("squeeze_copy.dim"), {}) == NEVER


def test_all_ops_of_torch_that_give_views_are_known_to() -> None:
    torch = pytest.importorskip("torch")
    found = []
    for schema in torch._C._jit_get_all_schemas():
        name = f"{schema.name.removeprefix('aten::')}.{schema.overload_name or 'default'}"
        shared = [a for a in schema.arguments if a.alias_info is not None and "Tensor" in str(a.type)]
        is_view = any(r.alias_info is not None for r in schema.returns)
        if schema.name.startswith("aten::") and shared and is_view and not any(a.alias_info.is_write for a in shared):
            assert shared[0].name == schema.arguments[0].name, name
            word = word_of(f"torch.ops.aten.{name}")
            call = node(name, ["v"], **{shared[0].name: "y"})
            found.append((name, sharing(call, word, dict.fromkeys("yv", meta(FLOAT, [1])))))
    assert len(found) > 80
    assert [name for name, how in found if how == NEVER] == []
