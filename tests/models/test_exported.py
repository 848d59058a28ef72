"""The structures of exported models: small ones equal onnxruntime in fp32, and become checked CUDA in fp16."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from tinyir import front  # noqa: E402
from tinyir.front.onnx import to_json  # noqa: E402
from tinyir.ir.pipeline import language_of  # noqa: E402
from tinyir.lower import lower_to  # noqa: E402
from tinyir.play.tiny import play  # noqa: E402

from .exported import EXPORTED, Graph  # noqa: E402


def tiny_of(graph: Graph) -> Any:
    return front.read(to_json(graph.model().SerializeToString()))


@pytest.mark.parametrize("name", EXPORTED)
def test_a_structure_gives_what_onnxruntime_gives(name: str) -> None:
    graph = EXPORTED[name]("fp32")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    wanted = onnxruntime.InferenceSession(
        graph.model().SerializeToString(), options, providers=["CPUExecutionProvider"]
    ).run(None, graph.arrays())
    found = play(tiny_of(graph), graph.arrays())
    for given, want in zip(found.values(), wanted, strict=True):
        scale = np.abs(want).max()
        assert given.shape == want.shape and 0.01 < scale < 1e3 and np.abs(want).std() > 1e-3
        np.testing.assert_allclose(given, want, rtol=1e-3, atol=1e-4 * scale)


@pytest.mark.parametrize("name", EXPORTED)
def test_a_structure_becomes_checked_cuda(name: str) -> None:
    module = tiny_of(EXPORTED[name]("fp16"))
    for stage in ("index", "poly", "region", "plan", "gpu", "cu"):
        module = lower_to(stage, module, "sm90")
        assert [f"{d.code} {d.at}: {d.why()}" for d in language_of(stage).check(module) if d.is_error] == [], stage
