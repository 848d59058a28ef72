"""Archives of torch.export on the GPU: imported without torch, and compared with torch's own run of the same archive.

    python tests/bench/pt2.py MODEL.pt2 ... [--jobs 4] [--out results.json]     needs a GPU, PyCUDA and torch

Weights of zeros are filled with random numbers of a seed first, in a copy of the archive. Inputs are drawn anew: normal
numbers, and integers below 16. torch runs the archive in fp32 without TF32. Prints per model how many ops it has, the
seconds that import and compilation took, and the largest difference as a part of the output's largest number.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import sys
import tempfile
import time
import traceback
import zipfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

NEAR = 1e-3


def filled(source: Path, target: Path) -> None:
    """A copy of an archive whose weights of zeros are random numbers: matrices scaled by their rows, variances
    positive."""
    import torch

    draw = np.random.default_rng(0)
    with zipfile.ZipFile(source) as given, zipfile.ZipFile(target, "w") as made:
        config = next(n for n in given.namelist() if n.endswith("model_weights_config.json"))
        entries = {e["path_name"]: (name, e) for name, e in json.loads(given.read(config))["config"].items()}
        for info in given.infolist():
            body = given.read(info)
            name, entry = entries.get(info.filename.rpartition("/")[2], ("", None))
            if entry is not None and entry["tensor_meta"]["dtype"] == 7 and not any(body[:4096]):
                shape = [s["as_int"] for s in entry["tensor_meta"]["sizes"]]
                array = draw.standard_normal(len(body) // 4, np.float32)
                array *= max(1, math.prod(shape[1:])) ** -0.5 if len(shape) > 1 else 0.1
                array += 1 if len(shape) == 1 and "weight" in name else 0
                body = (np.abs(array) + 0.5 if "running_var" in name else array).astype(np.float32).tobytes()
            made.writestr(zipfile.ZipInfo(info.filename), body)
        root = config.removesuffix("data/weights/model_weights_config.json")
        if not any(n.endswith("sample_inputs/model.pt") for n in given.namelist()):  # which torch asks for
            samples = io.BytesIO()
            torch.save(((), {}), samples)
            made.writestr(f"{root}data/sample_inputs/model.pt", samples.getvalue())


def measured(path: Path) -> dict[str, Any]:
    """One model: what it took, and how far it is from torch."""
    try:
        return _measured(path)
    except BaseException as fault:  # noqa: BLE001 (another model is another matter)
        return {"model": path.stem, "fault": f"{type(fault).__name__}: {fault}"[:600], "trace": traceback.format_exc()}


def _measured(path: Path) -> dict[str, Any]:
    import torch

    import tinyir

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    draw = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / path.name
        filled(path, file)
        program = torch.export.load(file)
        start = time.perf_counter()
        with tinyir.compile(file, device="cuda") as own:
            compiled = time.perf_counter() - start
            arrays = []
            for kind in own.inputs.values():
                dtype, _, sizes = kind.rstrip("]").partition("[")
                shape = [int(s) for s in sizes.split(",") if s]
                is_float = dtype == "fp32"
                numbers = draw.standard_normal(shape) if is_float else draw.integers(0, 16, shape)
                arrays.append(numbers.astype(np.float32 if is_float else np.int64))
            with torch.no_grad():
                truth = program.graph_module(*_held(program), *(torch.from_numpy(a) for a in arrays))
            wanted = [t.numpy() for t in (truth if isinstance(truth, (tuple, list)) else [truth])]
            found = list(own(*arrays).values())
    differ = [float(np.abs(f.astype(np.float64) - w).max() / max(1e-6, np.abs(w).max())) for f, w in zip(found, wanted)]
    shapes = [f.shape == w.shape for f, w in zip(found, wanted)]
    return {
        "model": path.stem,
        "ops": len(program.graph.nodes),
        "seconds": round(compiled, 2),
        "difference": max(differ),
        "agrees": len(found) == len(wanted) and all(shapes) and max(differ) <= NEAR,
    }


def _held(program: Any) -> list[Any]:
    """The tensors that the graph takes before a caller's: parameters, buffers and constants."""
    held = {**program.state_dict, **program.constants}
    return [held[spec.target] for spec in program.graph_signature.input_specs if spec.target is not None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--out", default="")
    options = parser.parse_args()
    rows = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for row in pool.map(measured, options.models):
            rows.append(row)
            print(row.get("fault") or "", {k: v for k, v in row.items() if k not in ("fault", "trace")}, flush=True)
    if options.out:
        Path(options.out).write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
