"""The nine networks of the onnx wheel against onnxruntime. `make models` compares those that ship in other wheels
too."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from .models import TOLERANCE, compare, light_networks, with_weights  # noqa: E402

FAST = ("squeezenet", "shufflenet")


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(f, marks=[] if any(w in f.name for w in FAST) else pytest.mark.slow, id=f.stem)
        for f in light_networks()
    ],
)
def test_a_network_gives_what_onnxruntime_gives(file: Path, tmp_path: Path) -> None:
    assert compare(with_weights(file, tmp_path)).difference <= TOLERANCE
