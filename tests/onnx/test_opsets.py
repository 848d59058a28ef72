"""Every version of every ONNX op means what its standard says: a row for each change between versions, a test for each
side of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from tinyir import front  # noqa: E402
from tinyir.front.onnx import to_json  # noqa: E402
from tinyir.play.tiny import play  # noqa: E402

from .opsets import NODES, Versioned, changes  # noqa: E402
from .suite import _coded  # noqa: E402


def standard(case: Versioned) -> list[Any]:
    """What the standard gives: as it is written down, by onnxruntime (which reads opset 7 and later), or by onnx's own
    evaluator."""
    if isinstance(case.wanted, Versioned):
        return standard(case.wanted)
    if case.wanted is not None:
        return list(case.wanted)
    import onnxruntime
    from onnx.reference import ReferenceEvaluator

    model = case.model()
    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(
            None, case.feeds()
        )
    except Exception:  # noqa: BLE001 - it does not have every version of every op
        return ReferenceEvaluator(model).run(None, case.feeds())


def test_each_side_of_each_change_has_a_node() -> None:
    covered = {case.version for case in NODES}
    rows = changes()
    assert len(rows) > 80
    assert sorted((op, version) for op, *versions in rows for version in versions if (op, version) not in covered) == []


@pytest.mark.parametrize("case", [pytest.param(c, id=f"{i}-{c.name}") for i, c in enumerate(NODES)])
def test_a_version_means_what_the_standard_says(case: Versioned) -> None:
    module = front.read(to_json(case.model().SerializeToString()))
    found = play(module, {name: _coded(array) for name, array in case.feeds().items()})
    for given, wanted in zip(found.values(), standard(case)):
        wanted = _coded(np.asarray(wanted))
        # onnxruntime gives narrow floats as their bits
        given = given.view(np.uint8) if given.dtype.itemsize == 1 and wanted.dtype == np.uint8 else given
        assert given.shape == wanted.shape and given.dtype == wanted.dtype
        np.testing.assert_allclose(given.astype(np.float64), wanted.astype(np.float64), rtol=1e-5, atol=1e-6)
