"""Diagnostics that seed 001 names come out of the pipe by these names, and tinyc prints what the pipe prints."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ..commands import ROOT, run_line
from .test_edited_texts import text_of

FILTERS = ("tiny-front", "tiny-index", "tiny-poly", "tiny-region", "tiny-plan", "tiny-gpu", "tiny-cu")
ASKED = "--remarks=json --diag=json"
PADS = "\n".join(
    f"  %p{n} = PAD({'x' if not n else f'%p{n - 1}'}) {{pad=[[1, 1]], value={n}.0}} : fp32[M + {2 * n + 2}]"
    for n in range(9)
)
TINY = {
    "AccDtypeMissing": "  in  x : fp32[M, N]\n  out y : fp32[M]\n\n  %y = REDUCE(x) {op=SUM, axes=[1]} : fp32[M]\n",
    "AxisAlignmentMismatch": "  in  x : fp32[M]\n  out y : fp32[M]\n\n"
    "  %w = EXPAND(x) {broadcast_dimensions=[1]} : fp32[Q, M]\n"
    "  %y = REDUCE(%w) {op=SUM, axes=[0], dtype=fp32} : fp32[M]\n",
    "ExcessivePiecewise": f"  in  x : fp32[M]\n  out y : fp32[M + 18]\n\n{PADS}\n  %y = NEG(%p8) : fp32[M + 18]\n",
    "NonAssociativeTransform": "  in  x : fp32[M, N]\n  in  s : fp32[M]\n  out y : fp32[M]\n\n"
    "  %w = EXPAND(s) {broadcast_dimensions=[0]} : fp32[M, N]\n  %d = MUL(x, %w) : fp32[M, N]\n"
    "  %y = REDUCE(%d) {op=SUM, axes=[1], dtype=fp32} : fp32[M]\n",
}


def said(err: bytes) -> list[dict[str, Any]]:
    """The diagnostics of all reports on stderr."""
    found, text = [], err.decode().strip()
    while text:
        report, end = json.JSONDecoder().raw_decode(text)
        found += report["diagnostics"]
        text = text[end:].strip()
    return found


@pytest.mark.parametrize("kind", TINY)
def test_the_pipe_says_it_by_its_name(kind: str) -> None:
    text = f"tinyir 1.0 tiny\n\nmodel m\n{TINY[kind]}\noutputs: %y\n"
    found = said(
        run_line(
            "tiny-index --diag=json | tiny-poly --diag=json | tiny-region --distribute --diag=json", text.encode()
        ).err
    )
    assert kind in {d["kind"] for d in found}


def test_a_region_without_an_accumulator_says_so_by_its_name() -> None:
    text = text_of("square", "region").replace("reduce sum (k0: N) : fp32", "reduce sum (k0: N)")
    assert [d["kind"] for d in said(run_line("tiny-plan --diag=json", text.encode()).err)] == ["AccDtypeMissing"]


def test_a_book_of_another_size_says_so_by_its_name() -> None:
    text = text_of("square", "index").replace("%old           [i0: N, i1: N]", "%old           [i0: N, i1: 3]")
    assert [d["kind"] for d in said(run_line("tiny-poly --diag=json", text.encode()).err)] == ["AxisAlignmentMismatch"]


@pytest.mark.parametrize(
    "name", ["softmax", *(pytest.param(n, marks=pytest.mark.slow) for n in ("gemm_bias_relu", "resnet_block"))]
)
def test_tinyc_prints_what_the_pipe_prints(name: str) -> None:
    model = (ROOT / "samples" / name / f"{name}.json").read_bytes()
    piped = run_line(" | ".join(f"{filter_} {ASKED}" for filter_ in FILTERS), model)
    whole = run_line(f"tinyc {ASKED}", model)
    assert whole.out == piped.out
    assert _facts(whole.err) == _facts(piped.err) != set()


def test_tinyc_warns_as_the_pipe_does() -> None:
    text = f"tinyir 1.0 tiny\n\nmodel m\n{TINY['ExcessivePiecewise']}\noutputs: %y\n".replace(
        "  out y", "  in  z : fp32[M]\n  out y"
    )
    piped = run_line(" | ".join(f"{filter_} --diag=json" for filter_ in FILTERS[1:]), text.encode())
    whole = run_line("tinyc --diag=json", text.encode())
    assert {d["code"] for d in said(whole.err)} == {"W2001", "W2101"}
    assert _facts(whole.err) == _facts(piped.err)


def _facts(err: bytes) -> set[str]:
    """The diagnostics without their places, which are of the text that each filter reads."""
    places = ("span", "start", "end", "labels")
    return {json.dumps({k: v for k, v in d.items() if k not in places}, sort_keys=True) for d in said(err)}
