"""Exported networks on one device beside onnxruntime and torch: `python tests/bench/exported.py MODEL.onnx ... [--torch
FILE.py] [--out exported.json]`.

Each ONNX file is compiled by a process of its own, run on random inputs, and compared with onnxruntime on the CPU; an
fp16 network may differ by 2e-2 of an output's greatest number. onnxruntime leaves out roundings to fp16 that the model
asks for: where a network differs by more, playback, which makes each of them, decides. FILE.py has a function
`build(name)` that gives a torch module and its inputs; the time of a call is printed beside that of the module in torch
eager, called and captured in a CUDA graph. A row also says how many contractions of 2^24 products and more are
multiplied by a plain kernel: none should be. `--device sim` or `cpu` leaves the times out. Exit code 1 when a network
fails or differs.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.card import card_here  # noqa: E402
from tests.bench.models import failed, median_us, say  # noqa: E402
from tinyir import front  # noqa: E402
from tinyir.ir import plan  # noqa: E402
from tinyir.ir.body import Reduce, walk  # noqa: E402
from tinyir.ir.pipeline import STAGES, language_of  # noqa: E402
from tinyir.ir.traits import bodies_of, extent_of, is_product_of_sides, sizes_of  # noqa: E402
from tinyir.kit.diag import Refused  # noqa: E402
from tinyir.lower import lower_to  # noqa: E402
from tinyir.play import tiny as play_tiny  # noqa: E402
from tinyir.runtime.weights import read_weights  # noqa: E402

MOST = 2e-2  # of an output's greatest number
MANY = 1 << 24  # products of a contraction that no plain kernel may multiply
FAMILIES = ("", "timm:{name}:{batch}:{size}", "tv:{name}:{batch}:{size}")  # how `build` may call a network


def compiled(file: str, card: str | None) -> dict[str, Any]:
    """The CUDA text of a model, the CPU seconds that it took, its launches, and what plain kernels do."""
    start = time.process_time()
    path = Path(file)
    text = front.onnx_to_json(path.read_bytes(), path.name, {}, {}, path.parent)
    module = front.read(text, path.name)
    row: dict[str, Any] = {}
    for stage in STAGES[1:]:
        module = lower_to(stage, module, "sm90", card)
        faults = [d for d in language_of(stage).check(module) if d.is_error]
        if faults:
            raise Refused(faults)
        if stage == "plan":
            row = {
                "kernels": len(module.plans),
                "plain": sum(p.algo == "plain" for p in module.plans),
                "slow_products": slow_products(module),
            }
    return {"text": language_of("cu").show(module), "cpu_s": round(time.process_time() - start, 1), **row}


def slow_products(module: plan.Module) -> list[str]:
    """The contractions of many products whose plan is a plain one."""
    sizes, found = sizes_of(module.program.model), []
    for one in module.plans:
        for region in map(module.program.program.region, one.regions):
            folds = [
                n
                for body in bodies_of(region)
                for n in walk(body)
                if isinstance(n, Reduce) and is_product_of_sides(n, region.iters)
            ]
            points = extent_of(region.iters).evaluate(sizes)
            if one.algo == "plain" and any(points * extent_of(f.axes).evaluate(sizes) >= MANY for f in folds):
                found.append(region.name)
    return found


def inputs_of(file: str) -> dict[str, np.ndarray]:
    """Random arrays for a model's inputs: normal numbers, and whole ones below 100, which index any table."""
    import onnxruntime

    draw, found = np.random.default_rng(1), {}
    for given in onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"]).get_inputs():
        shape = [d if isinstance(d, int) else 2 for d in given.shape]
        is_float = "float" in given.type
        found[given.name] = (
            draw.standard_normal(shape).astype(np.float16 if "16" in given.type else np.float32)
            if is_float
            else draw.integers(0, 100, shape)
        )
    return found


def wanted_of(model: str | bytes, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """What onnxruntime gives, in the order of the outputs; `model` is a file or what is in one."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, dict(arrays))


def played(file: str, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """What playback of the tiny text gives, in the order of the outputs."""
    path = Path(file)
    module = front.read(front.onnx_to_json(path.read_bytes(), path.name, {}, {}, path.parent), path.name)
    weights = read_weights(module.model, path.parent, {})
    given = zip((t.name for t in module.model.inputs if t.name not in weights), arrays.values())
    return list(play_tiny.play(module, {**weights, **dict(given)}).values())


def greatest_difference(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float:
    """Over all outputs, in units of the greatest number of each; infinite where one is not a number. Two of the
    smallest numbers of its dtype are no difference."""
    worst = 0.0
    for ours, theirs in zip(found, wanted, strict=True):
        exact, apart = (
            np.asarray(theirs, np.float64),
            np.abs(np.asarray(ours, np.float64) - np.asarray(theirs, np.float64)),
        )
        least = 2 * float(np.finfo(theirs.dtype).smallest_subnormal) if theirs.dtype.kind == "f" else 0.0
        part = np.where(apart <= least, 0.0, apart).max(initial=0.0) / max(np.abs(exact).max(initial=0.0), 1e-300)
        worst = max(worst, float(part) if np.isfinite(part) else float("inf"))
    return worst


def run_model(file: str, made: dict[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    """One row."""
    import tinyir

    name = Path(file).stem
    arrays = inputs_of(file)
    row = {"network": name, **{k: v for k, v in made.items() if k != "text"}}
    with tinyir.compile(made["text"], device=args.device, weights=str(Path(file).parent)) as program:
        given = dict(zip(program.inputs, arrays.values()))
        found = list(program(**given).values())
        row["differs"] = greatest_difference(found, wanted_of(file, arrays))
        if row["differs"] > MOST:
            row["play_differs"] = greatest_difference(found, played(file, arrays))
        if args.device != "cuda":
            return row
        import torch

        ours = {n: torch.from_numpy(a).cuda() for n, a in given.items()}
        row["us"] = median_us(lambda: program(**ours))
    if args.torch:
        row |= torch_times(args.torch, name, next(iter(arrays.values())).shape)
        if isinstance(row.get("eager_us"), float):
            row["over_eager"] = round(row["eager_us"] / row["us"], 2)
    return row


def torch_times(source: Path, name: str, shape: tuple[int, ...]) -> dict[str, Any]:
    """Microseconds of the same module in torch: called, and as a CUDA graph; a way that fails has its reason
    instead."""
    import torch

    spec = importlib.util.spec_from_file_location("architectures", source)
    architectures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(architectures)
    network = None
    for family in FAMILIES:
        try:
            network, inputs = architectures.build(family.format(name=name, batch=shape[0], size=shape[-1]) or name)
            break
        except (SystemExit, Exception) as fault:
            reason = f"{type(fault).__name__}: {str(fault)[:100]}"
    if network is None:
        return {"eager_us": reason}
    network = network.half().cuda().eval()
    row: dict[str, Any] = {}
    with torch.no_grad():
        row["eager_us"] = median_us(lambda: network(*inputs))
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                network(*inputs)
            row["eager_graph_us"] = median_us(graph.replay)
        except Exception as fault:
            row["eager_graph_us"] = f"{type(fault).__name__}: {str(fault)[:100]}"
            torch.cuda.synchronize()
    return row


def is_good(row: Mapping[str, Any]) -> bool:
    """Whether a network ran, gave what it should, and has no large contraction in a plain kernel."""
    return "failed" not in row and not row["slow_products"] and row.get("play_differs", row["differs"]) <= MOST


def main() -> int:
    """Print a row a network; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("files", nargs="+", metavar="MODEL.onnx")
    parser.add_argument("--torch", type=Path, metavar="FILE.py", help="builds the same modules in torch: `build(name)`")
    parser.add_argument("--device", choices=("cuda", "sim", "cpu"), default="cuda")
    parser.add_argument("--jobs", type=int, default=1, help="how many are compiled side by side")
    parser.add_argument("--out", type=Path, help="write the rows as JSON after each network")
    args = parser.parse_args()
    card, rows = card_here() if args.device == "cuda" else None, []
    with ProcessPoolExecutor(args.jobs) as pool:
        pending = [(file, pool.submit(compiled, file, card)) for file in args.files]
        for file, made in pending:
            try:
                rows.append(run_model(file, made.result(), args))
            except Exception as fault:
                rows.append(failed(Path(file).stem, "fp16", fault))
            say(json.dumps(rows[-1]))
            if args.out:
                args.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return int(not all(map(is_good, rows)))


if __name__ == "__main__":
    sys.exit(main())
