"""Mistakes that newcomers make, and what they read: each message says what is wrong in words that help."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyir
from tinyir.kit.diag import Refused

from ..commands import ROOT, run_line

X = {"dtype": "fp32", "shape": [4]}


def written(graph: list[dict[str, Any]], **tensors: Any) -> bytes:
    """Front-end JSON with inputs x and y and an output z."""
    signature = {"inputs": [{"tensor": n} for n in tensors if n != "z"], "outputs": [{"tensor": "z"}]}
    return json.dumps({"signature": signature, "tensors": tensors, "graph": graph}).encode()


ADDED = written([{"op": "Elementwise", "fn": "add", "inputs": ["x", "y"], "outputs": ["z"]}], x=X, y=X, z=X)


def cast_to(dtype: str) -> bytes:
    return written([{"op": "Cast", "to": dtype, "inputs": ["x"], "outputs": ["z"]}], x=X, z=X)


def einsum(equation: str) -> bytes:
    square = {"dtype": "fp32", "shape": [4, 4]}
    node = {"op": "Einsum", "equation": equation, "inputs": ["x", "y"], "outputs": ["z"]}
    return written([node], x=square, y=square, z=square)


HALF, FIVE = {"dtype": "fp16", "shape": [4, 4]}, {"dtype": "fp16", "shape": [4, 5]}

SAID = {
    "a dtype as NumPy calls it": ("tiny-front", cast_to("float16"), "did you mean fp16?"),
    "a dtype as C calls it": ("tiny-front", cast_to("double"), "did you mean fp64?"),
    "a dtype as torch calls it": ("tiny-front", cast_to("half"), "did you mean fp16?"),
    "a dtype of a tensor": ("tiny-front", ADDED.replace(b"fp32", b"bfloat16", 1), "did you mean bf16?\n"),
    "a dtype of tiny text": (
        "tiny-check",
        b"tinyir 1.0 tiny\n\nmodel m\n  in  x : float32[M]\n  out y : fp32[M]\n\noutputs: x\n",
        "did you mean fp32?",
    ),
    "a device as others call it": ("tiny-run --device=gpu", b"", "did you mean cuda?"),
    "arrays in another format": ("tiny-run --out=o.csv", b"", "arrays are written as FILE.npz"),
    "a letter that no operand has": ("tiny-front", einsum("ij,jk->iq"), "no operand has q"),
    "a letter twice in the result": ("tiny-front", einsum("ij,jk->ii"), "the result has i twice"),
    "operands that are not there": ("tiny-front", einsum("ij->i"), "it is of 1 operands, and 2 are given"),
    "another shape than the op gives": (
        "tiny-front",
        written(
            [{"op": "Elementwise", "fn": "neg", "inputs": ["x"], "outputs": ["z"]}],
            x=X,
            z={"dtype": "fp32", "shape": [5]},
        ),
        "z is declared fp32[5], but Elementwise gives fp32[4]",
    ),
    "an option's value apart from it": ("tinyc --paranoid sim", ADDED, "did you mean --paranoid=sim?"),
    "the form of remarks apart from them": ("tiny-front --remarks json", ADDED, "did you mean --remarks=json?"),
    "a shape that is not that of the op, of a dtype that may stay": (
        "tiny-front",
        written([{"op": "MatMul", "inputs": ["x", "y"], "outputs": ["z"]}], x=HALF, y=HALF, z=FIVE),
        "help: declare it as fp16[4, 4], or correct the op\n",
    ),
    "a size that is null": ("tiny-front", ADDED.replace(b"[4]", b"[null]", 1), "null is not a size"),
    "a size of a shape set that is a string": (
        "tiny-front",
        ADDED.replace(b"[4]", b'["N"]').replace(b'"graph"', b'"shape_sets": {"s": {"N": "4"}}, "graph"'),
        "N of shape set s must be an integer, not a string",
    ),
    "JSON with a string as Python writes it": (
        "tiny-front",
        ADDED.replace(b'"add"', b"'add'"),
        "found ', expected a string in double quotes",
    ),
    "JSON with a comment inside": ("tiny-front", ADDED.replace(b"[4]", b"[4] # four"), "JSON, which has no comments"),
    "JSON with a word of Python": ("tiny-front", ADDED.replace(b"[4]", b"None", 1), "found None, expected `null`"),
    "a dtype of the graph DSL": (
        "tiny-front",
        b"graph<N=1> main(x: float32[N]) -> (y: f32[N]) { return x }",
        "      |                    ^^^^^^^\n  help: did you mean f32?\n",
    ),
    "a type that the graph DSL does not return": (
        "tiny-front",
        b"graph<N=1> main(x: f32[N]) -> (y: f32[N]) { return x @ x }",
        "y is declared f32[N], but main gives f32[]",
    ),
    "a size that the graph DSL does not declare": (
        "tiny-front",
        b"graph<M=1> main(x: f32[N]) -> (y: f32[N]) { return x }",
        "help: declare it in the header with a default, N=1, or write one of M\n",
    ),
    "a name of a tiny text": (
        "tiny-index",
        run_line("tiny-front", ADDED).out.replace(b"(x, y)", b"(x, zebra)"),
        "zebra is not defined",
    ),
    "a header taken away": ("tiny-index", b"\nmodel main\n", "the first line is not a tinyir header: an empty line"),
    "states of a model that has none": (
        "tiny-run --random 1 --states no_states.npz",
        run_line("tinyc", ADDED).out,
        "--states can only be said of models with states",
    ),
    "a file of arrays that is not there": (
        "tiny-play --inputs no_such.npz",
        run_line("tiny-front", ADDED).out,
        "no_such.npz cannot be read: No such file or directory",
    ),
    "no arrays": ("tiny-play", run_line("tiny-front", ADDED).out, "make them by `--random SEED`"),
    "persistent taken away": (
        "tiny-gpu",
        (ROOT / "samples" / "gemm_bias_relu" / "gemm_bias_relu.plan").read_bytes().replace(b"persistent 132", b"", 1),
        "where persistent is 0",
    ),
}


@pytest.mark.parametrize("mistake", SAID)
def test_a_mistake_is_answered_with_what_helps(mistake: str) -> None:
    line, given, words = SAID[mistake]
    done = run_line(f"{line} --lang en --diag plain", given)
    assert done.code in (1, 2) and done.out == b"" and words in done.err.decode(), done.err.decode()


def test_inputs_that_are_no_list_are_not_counted() -> None:
    """What follows from a fault is not told as another."""
    for given in (b'"inputs": "x"', b'"operands": ["x", "y"]'):
        done = run_line("tiny-front --lang en", ADDED.replace(b'"inputs": ["x", "y"]', given))
        assert done.code == 1 and b"E0204" not in done.err, done.err.decode()


def test_a_phase_that_nothing_completes_is_told_so() -> None:
    text = (ROOT / "samples" / "gemm_bias_relu" / "gemm_bias_relu.gpu").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if "arrive full" in line)
    done = run_line("tiny-cu --lang en", text.replace(f"{line}\n", "", 1).encode())
    assert b"full is completed by nothing, and role consumer waits for it" in done.err, done.err.decode()


@pytest.mark.parametrize("filters", ["tiny-front", "tiny-front | tiny-index", "tinyc"])
def test_a_byte_order_mark_is_no_character_of_a_text(filters: str) -> None:
    marked, plain = (run_line(filters, mark + ADDED) for mark in (b"\xef\xbb\xbf", b""))
    assert marked.code == 0 and marked.out == plain.out
    text = run_line("tiny-front", ADDED).out
    assert run_line("tiny-index", b"\xef\xbb\xbf" + text).out == run_line("tiny-index", text).out != b""


def test_the_folder_of_dumps_is_made(tmp_path: Path) -> None:
    done = run_line(f"tinyc --dump tiny --dump-dir {tmp_path}/new/folder", ADDED)
    assert done.code == 0 and [p.suffix for p in (tmp_path / "new" / "folder").iterdir()] == [".tiny"]


def test_an_array_of_the_other_byte_order_is_told_from_its_dtype() -> None:
    program = tinyir.compile(ADDED.decode(), device="cpu")
    with pytest.raises(Refused) as caught:
        program(np.arange(4, dtype=">f4"), np.arange(4, dtype="f4"))
    assert caught.value.diags[0].why() == "x must be fp32, not fp32 of the other byte order"


def test_a_name_that_is_no_state_is_answered_with_those_that_are() -> None:
    program = tinyir.compile(ADDED.decode(), device="cpu")
    with pytest.raises(KeyError, match="q is not a state of the program; its states: "):
        program.states["q"]
    with pytest.raises(KeyError, match="q is not a state"):
        program.states["q"] = np.zeros(4)


def test_outputs_are_written_though_the_check_fails(tmp_path: Path) -> None:
    """What is wrong is looked at in the file that was asked for."""
    cuda = run_line("tinyc", ADDED).out.decode()
    head, body = cuda.split("__global__", 1)
    wrong = f"{head}__global__{body.replace('] + y', '] - y')}"
    assert wrong != cuda
    (tmp_path / "k.cu").write_text(wrong, encoding="utf-8")
    done = run_line(f"tiny-run {tmp_path}/k.cu --device sim --random 1 --check --out {tmp_path}/z.npz")
    assert done.code == 1 and b"E1731" in done.err
    with np.load(tmp_path / "z.npz") as found:
        assert found["z"].shape == (4,)


def test_a_dtype_that_others_call_so_has_its_edit() -> None:
    for text in (ADDED.replace(b"fp32", b"float32", 1), cast_to("float16")):
        fixed = run_line("tiny-front --fix", text)
        assert b"float" not in fixed.out and fixed.out
