"""A misspelt word of any language gets the edit that corrects it; a name is only corrected by a person's choice."""

from __future__ import annotations

import json

import pytest

from tinyir.kit.diag import Diag, Edit
from tinyir.kit.span import span_of
from tinyir.kit.spelling import edit_of, with_edits

from ..commands import ROOT, run_line

SAMPLE = ROOT / "samples" / "gemm_bias_relu" / "gemm_bias_relu"


def read(stage: str) -> str:
    """The sample at a stage."""
    return SAMPLE.with_suffix(f".{stage}").read_text(encoding="utf-8")


@pytest.mark.parametrize(("command", "stage", "right", "wrong"), [
    ("tiny-front", "json", '"GEMM"', '"GEM"'),
    ("tiny-front", "json", '"acc_dtype"', '"acc_dtyp"'),
    ("tiny-front", "json", '"fn":"relu"', '"fn":"rleu"'),
    ("tiny-front", "json", '"graph"', '"grpah"'),
    ("tiny-front", "json", '"dtype":"fp16"', '"dtype":"fp166"'),
    ("tiny-index", "tiny", "RESHAPE", "RESHPAE"),
    ("tiny-index", "tiny", "outputs", "outptus"),
    ("tiny-index", "tiny", "MUL(%gemm.ax", "MUL(%gem.ax"),
    ("tiny-poly", "index", "reads", "raeds"),
    ("tiny-region", "poly", "domain", "domian"),
    ("tiny-plan", "region", "yield", "yeild"),
    ("tiny-plan", "region", "relu(", "rleu("),
    ("tiny-gpu", "plan", "stages", "stagse"),
    ("tiny-gpu", "plan", "warp_specialized", "warp_specialised"),
    ("tiny-gpu", "plan", "prefetch", "prefech"),
    ("tiny-cu", "gpu", "advance", "advnce"),
    ("tiny-cu", "gpu", "tma_load", "tma_laod"),
    ("tiny-cu", "gpu", "wait_group", "wait_gruop"),
])  # fmt: skip
def test_the_edit_of_a_message_corrects_the_text(command: str, stage: str, right: str, wrong: str) -> None:
    text = read(stage)
    broken = text.replace(right, wrong, 1)
    assert broken != text
    done = run_line(f"{command} --diag=json", broken.encode())
    assert done.code == 1
    edits = [d["edit"] for d in json.loads(done.err)["diagnostics"] if "edit" in d]
    assert edits, done.err.decode()
    span = edits[0]["span"]
    assert broken[: span["start"]] + edits[0]["text"] + broken[span["end"] :] == text


def fault(text: str, word: str, **facts: str) -> Diag:
    """A diagnostic about a word of a text."""
    start = text.index(word)
    return Diag("E0105", "x", facts, span_of(text, start, start + len(word)))


def test_a_name_of_the_text_is_only_corrected_when_asked_for() -> None:
    text = "read bias1 here"
    d = fault(text, "bias1", tensor="bias1", near="bias2, X")
    assert edit_of(d, text) == Edit(span_of(text, 5, 10), "bias2")
    assert with_edits([d], text, has_names=False) == [d]


@pytest.mark.parametrize(("text", "facts"), [
    ("MULL(x) MULL(y)", {"op": "MULL", "near": "MUL"}),
    ("QQQQ(x)", {"op": "QQQQ", "near": "MUL"}),
    ("MUL(x)", {"op": "MUL", "near": "MUL"}),
    ("MULL(x)", {"op": "MULL"}),
])  # fmt: skip
def test_what_is_not_clear_is_left_alone(text: str, facts: dict) -> None:
    whole = Diag("E0105", "x", facts, span_of(text, 0, len(text)))
    assert edit_of(whole, text) is None
