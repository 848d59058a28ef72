"""The ONNX backend suite: nothing wrong, nothing broken; a part of it in every run, the whole behind `slow`."""

from __future__ import annotations

import collections
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from tinyir.front import json as front_json  # noqa: E402
from tinyir.front.onnx import to_json  # noqa: E402
from tinyir.play.tiny import play  # noqa: E402

from . import suite  # noqa: E402
from .suite import CRASHED, FAILED, NEAR, PASSED, REFUSED  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
# What a refusal may say: ops, forms and types that are not supported, operands that are not known beforehand.
CODES = {"E0123", "E0124", "E0125", "E0126", "E0121"}
PARTS = 32  # the slow tests take a part each, so that several processes share them


def _outcomes(cases: list[suite.Case]) -> tuple[collections.Counter[tuple[str, str]], list[str]]:
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    faults = []
    for case in cases:
        outcome, why = suite.run(case)
        counts[case.scope, outcome] += 1
        if outcome in (FAILED, CRASHED) or outcome == REFUSED and not set(why.split("  ")[0].split()) <= CODES:
            faults.append(f"{outcome} {case.name}: {why}")
    return counts, faults


def _part(count: int) -> list[suite.Case]:
    """The first cases of every op."""
    by_op: dict[tuple[str, str, bool], list[suite.Case]] = collections.defaultdict(list)
    for case in suite.all_cases():
        by_op[case.scope, case.op, "expanded" in case.name].append(case)
    return [c for group in by_op.values() for c in group[:count]]


def _otherwise_as_regions(cases: list[suite.Case]) -> list[str]:
    """The cases that do not end as regions as they end as tiny text. Sums in another order may be another unit in the
    last place away."""
    ends = ((c.name, suite.run(c)[0], suite.run(c, "region")[0]) for c in cases)
    return [
        f"{name}: {end} as tiny, {region} as regions"
        for name, end, region in ends
        if end != region and {end, region} != {PASSED, NEAR}
    ]


def test_a_part_of_every_op() -> None:
    counts, faults = _outcomes(_part(2))
    assert faults == []
    assert counts["in", REFUSED] == 0
    assert counts["in", PASSED] > 300


def test_regions_end_as_tiny_text_does() -> None:
    assert _otherwise_as_regions([c for c in _part(1) if "expanded" not in c.name]) == []


def test_some_through_the_pipe(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{ROOT / 'bin'}:{os.environ['PATH']}"}
    cases = {c.name: c for c in suite.all_cases()}
    for name in ("test_basic_conv_with_padding", "test_softmax_axis_1", "test_attention_4d_causal"):
        case = cases[name].frozen()
        (tmp_path / "m.onnx").write_bytes(case.model.SerializeToString())
        np.savez(tmp_path / "in.npz", **case.inputs)
        line = "tiny-import m.onnx | tiny-front | tiny-play --inputs in.npz --out out.npz"
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        with np.load(tmp_path / "out.npz") as found:
            assert suite.compare([found[o.name] for o in case.model.graph.output], case) == ""


@pytest.mark.slow
def test_what_is_near_is_nearer_the_exact_numbers_than_the_suite() -> None:
    """Attention in 16 bits: the suite rounds after every op and adds bf16 numbers in bf16, playback rounds what the
    hardware rounds. Both are held against the same formula in double precision."""
    from onnx.reference.ops.op_attention import _compute_attention

    names = ("Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen")
    seen = 0
    for case in (c.frozen() for c in suite.node_cases() if c.op == "Attention" and "expanded" not in c.name):
        if suite.run(case)[0] != NEAR:
            continue
        (node,) = case.model.graph.node
        operands = {n: case.inputs[i] for n, i in zip(names, node.input) if i}
        operands = {n: a if a.dtype.kind in "biu" else a.astype(np.float64) for n, a in operands.items()}
        exact = _compute_attention(**operands, **{a.name: onnx.helper.get_attribute_value(a) for a in node.attribute})[
            0
        ]
        found = play(front_json.read(to_json(case.model.SerializeToString())), case.inputs)[node.output[0]]
        assert np.abs(found - exact).max() < np.abs(case.outputs[0] - exact).max(), case.name
        seen += 1
    assert seen == 6


@pytest.mark.slow
def test_the_whole_suite() -> None:
    counts, faults = _outcomes(suite.all_cases())
    assert faults == []
    assert counts["in", PASSED] >= 1637
    assert counts["in", PASSED] + counts["in", NEAR] == 1650
    assert counts["stretch", PASSED] >= 213


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_the_whole_suite_as_regions(part: int) -> None:
    assert _otherwise_as_regions(suite.all_cases()[part::PARTS]) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_the_whole_suite_as_kernels_on_the_cpu(part: int) -> None:
    """Every test in scope runs as emitted CUDA in the simulation; none is refused."""
    ends = {c.name: suite.run(c, "cu", "sim") for c in suite.all_cases()[part::PARTS] if c.scope == "in"}
    assert {name: end for name, end in ends.items() if end[0] not in (PASSED, NEAR)} == {}
