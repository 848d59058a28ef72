"""The nine networks of the onnx wheel, with random weights in the place of its constants, against onnxruntime."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from onnx import numpy_helper  # noqa: E402

from tinyir import front  # noqa: E402
from tinyir.front.onnx import to_json  # noqa: E402
from tinyir.play.tiny import play  # noqa: E402
from tinyir.runtime.weights import read_weights  # noqa: E402

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
FAST = ("squeezenet", "shufflenet")


def with_weights(file: Path) -> onnx.ModelProto:
    """The wheel keeps its networks small by filling each weight with one number; here each gets numbers of its own."""
    model = onnx.load(file)
    draw = np.random.default_rng(0)
    shapes = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    nodes = []
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape":
            nodes.append(node)
            continue
        shape = tuple(int(n) for n in shapes[node.input[0]])
        fan = math.prod(shape[1:]) if len(shape) > 1 else 1
        array = draw.standard_normal(shape).astype(np.float32) * (2 / fan) ** 0.5 if len(shape) > 1 else np.abs(draw.standard_normal(shape)).astype(np.float32) * 0.1 + 0.1
        model.graph.initializer.append(numpy_helper.from_array(array, node.output[0]))
    model.ir_version = 8  # from 4 on weights need not be inputs too
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


@pytest.mark.parametrize("file", [pytest.param(f, marks=[] if any(w in f.name for w in FAST) else pytest.mark.slow, id=f.stem) for f in sorted(FOLDER.glob("*.onnx"))])
def test_a_network_gives_what_onnxruntime_gives(file: Path, tmp_path: Path) -> None:
    model = with_weights(file)
    path = tmp_path / "net.onnx"
    onnx.save(model, path)
    module = front.read(to_json(path.read_bytes(), "net.onnx"))
    weights = read_weights(module.model, tmp_path)
    draw = np.random.default_rng(1)
    arrays = {t.name: draw.standard_normal([d.constant for d in t.type.shape]).astype(np.float32) for t in module.model.inputs if t.name not in weights}
    found = play(module, arrays | weights)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for (name, array), wanted in zip(found.items(), session.run(None, arrays)):
        assert array.shape == wanted.shape, name
        assert np.abs(array - wanted).max() <= 1e-3 * max(np.abs(wanted).max(), 1e-6), name
