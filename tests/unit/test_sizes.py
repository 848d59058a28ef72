"""Sizes and ranges that the user states: --size of the players and tiny-run, --shape with ranges,
`compile(shapes=)`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyir
from tinyir import front
from tinyir.cmd import tiny_check, tiny_import, tiny_play, tiny_run, tinyc
from tinyir.ir import tiny
from tinyir.ir.pipeline import STAGES
from tinyir.kit.diag import Refused
from tinyir.lower import language_of, lower_to
from tinyir.play import book, region
from tinyir.play.tiny import play

from ..golden.cases import GOLDEN, split_case
from .stages import needs_host_compiler

# No array shows `before`: the output's size does.
TEXT = """tinyir 1.0 tiny

model m
  in  x : fp32[M]
  out y : fp32[M + before + 1]

  %y = PAD(x) {pad=[[before, 1]], value=5.0} : fp32[M + before + 1]

outputs: %y
"""
X = np.arange(1, 4, dtype=np.float32)
WANTED = np.array([5, 5, 1, 2, 3, 5], np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The program's text at every stage, and its input."""
    module: Any = tiny.parse(TEXT)
    for stage in STAGES:
        module = module if stage == "tiny" else lower_to(stage, module, "sm90")
        (tmp_path / f"m.{stage}").write_text(language_of(stage).show(module), encoding="utf-8")
    np.savez(tmp_path / "x.npz", x=X)
    return tmp_path


@pytest.mark.parametrize("stage", STAGES)
def test_size_binds_a_symbol_that_no_array_shows(folder: Path, stage: str) -> None:
    out = folder / "y.npz"
    assert (
        tiny_play.main(
            [str(folder / f"m.{stage}"), "--inputs", str(folder / "x.npz"), "--size", "before=2", "--out", str(out)]
        )
        == 0
    )
    np.testing.assert_array_equal(np.load(out)["y"], WANTED)


@pytest.mark.parametrize("device", ["cpu", pytest.param("sim", marks=needs_host_compiler)])
def test_size_binds_it_in_a_run_too(folder: Path, device: str) -> None:
    out = folder / "y.npz"
    assert (
        tiny_run.main(
            [
                str(folder / "m.cu"),
                "--device",
                device,
                "--inputs",
                str(folder / "x.npz"),
                "--size",
                "before=2",
                "--out",
                str(out),
            ]
        )
        == 0
    )
    np.testing.assert_array_equal(np.load(out)["y"], WANTED)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([], "E1705"),
        (["--size", "before=2", "--size", "M=4"], "E1703"),
        (["--size", "before=2", "--size", "Q=1"], "E1714"),
    ],
)
@pytest.mark.parametrize("stage", ["tiny", "index", "region", "cu"])
def test_a_size_that_is_missing_wrong_or_of_no_symbol_is_refused(
    folder: Path, stage: str, words: list[str], code: str, capsys: Any
) -> None:
    command = tiny_run if stage == "cu" else tiny_play
    device = ["--device", "cpu"] if stage == "cu" else []
    assert (
        command.main([str(folder / f"m.{stage}"), "--inputs", str(folder / "x.npz"), *words, *device, "--diag=json"])
        == 1
    )
    assert f'"code": "{code}"' in capsys.readouterr().err


def test_random_arrays_and_open_symbols_take_the_same_sizes(folder: Path, capsys: Any) -> None:
    assert tiny_play.main([str(folder / "m.region"), "--random", "1", "--size", "M=4", "--size", "before=3"]) == 0
    assert "float32[8]" in capsys.readouterr().out
    assert (
        tiny_check.main(
            [
                "--diff",
                str(folder / "m.tiny"),
                str(folder / "m.region"),
                "--random",
                "1",
                "--size",
                "M=4",
                "--size",
                "before=3",
            ]
        )
        == 0
    )


def test_the_convolution_of_seed_000_plays_as_printed() -> None:
    """Strides, dilations and pads are symbols that no array shows."""
    module = front.read(split_case(GOLDEN / "front" / "nodeid_conv.case")[1])
    sizes = {"Sh": 2, "Sw": 1, "Dh": 1, "Dw": 2, "pt": 1, "pb": 0, "pl": 2, "pr": 1, "G": 2}
    draw = np.random.default_rng(7)
    x, w, bias = (draw.integers(-3, 4, shape).astype(np.float16) for shape in ((2, 4, 6, 7), (6, 2, 3, 2), (6,)))
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 0), (2, 1)))
    rows, columns = (padded.shape[2] - 3) // 2 + 1, padded.shape[3] - 2
    wanted = np.zeros((2, 6, rows, columns))
    for m in range(6):
        part = padded[:, 2 * (m // 3) : 2 * (m // 3) + 2]
        for i in range(rows):
            for j in range(columns):
                wanted[:, m, i, j] = (part[:, :, 2 * i : 2 * i + 3, j : j + 3 : 2] * w[m]).sum((1, 2, 3)) + bias[m]
    arrays = {"X": x, "W": w, "bias": bias}
    index = lower_to("index", module, "sm90")
    program = lower_to("region", lower_to("poly", index, "sm90"), "sm90")
    for player, staged in ((play, module), (book.play, index), (region.play, program)):
        np.testing.assert_array_equal(player(staged, arrays, sizes)["y"], wanted.astype(np.float16))


# --- ranges of symbols


onnx = pytest.importorskip("onnx")


def relu_model(path: Path) -> Path:
    """y = relu(x), x of [batch, length]."""
    from onnx import TensorProto, helper

    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", "length"]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", sides[:1], sides[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


@pytest.mark.parametrize(("shape", "type", "ranges"), [
    ("x=B,L:1..512", "fp32[B, L]", ["sym L in 1..512"]),
    ("x=batch:1..8,length:16..16", "fp32[batch, length]", ["sym batch in 1..8", "sym length in 16..16"]),
    ("x=S:2..64,S:2..64", "fp32[S, S]", ["sym S in 2..64"]),
    ("x=4,L:0..0", "fp32[4, L]", ["sym L in 0..0"]),
])  # fmt: skip
@pytest.mark.parametrize("command", [tiny_import, tinyc])
def test_shape_gives_symbols_their_ranges(
    tmp_path: Path, command: Any, shape: str, type: str, ranges: list[str]
) -> None:
    out = tmp_path / "m.out"
    emit = ["--emit", "tiny"] if command is tinyc else []
    assert command.main([str(relu_model(tmp_path / "m.onnx")), "--shape", shape, *emit, "-o", str(out)]) == 0
    text = out.read_text(encoding="utf-8")
    module = tiny.parse(text) if command is tinyc else front.read(text)
    assert str(module.model.inputs[0].type) == type
    assert [f"sym {r.symbol} in {r.low}..{r.high}" for r in module.model.ranges] == ranges
    assert tiny.check(module) == []  # the default shape set keeps to them


@pytest.mark.parametrize(
    "shape",
    [
        "x=B,L:512..1",
        "x=B,L:1",
        "x=B,L:1..",
        "x=B,:1..2",
        "x=B,4:1..5",
        "x=B,L:-1..5",
        "x=B,L:1..2:3",
        "x=S:1..2,S:1..3",
        "x=B,L:1..9999999999",
    ],
)
def test_what_is_no_range_is_refused(tmp_path: Path, shape: str, capsys: Any) -> None:
    assert tiny_import.main([str(relu_model(tmp_path / "m.onnx")), "--shape", shape, "--diag=json"]) == 1
    assert '"code": "E0128"' in capsys.readouterr().err


@pytest.mark.parametrize("shapes", [{"x": ["B", "L:1..4"]}, {"x": "B,L:1..4"}])
def test_compile_takes_ranges_and_holds_calls_to_them(tmp_path: Path, shapes: Any) -> None:
    with tinyir.compile(relu_model(tmp_path / "m.onnx"), device="cpu", shapes=shapes) as compiled:
        assert compiled.inputs == {"x": "fp32[B, L]"}
        assert compiled(np.full((2, 4), -1, np.float32))["y"].tolist() == [[0] * 4] * 2
        with pytest.raises(Refused) as caught:
            compiled(np.zeros((2, 5), np.float32))
    assert [d.code for d in caught.value.diags] == ["E1706"]
