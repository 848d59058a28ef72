"""Products one behind another, as a network runs them: few rows through layers of 4096 x 4096, bias and ReLU fused, or
nothing.

    python tests/bench/chain.py [--out results.json] [--rows 1,16,64,128] [--layers 8]     needs a GPU, PyCUDA and torch

fp16. One CUDA graph on either side: a program of ours whose layers are planned by the cost model for the shape, and as
many calls of cublasLt with the same epilogue (torch's `_addmm_activation`) or of cuBLAS with nothing fused
(`torch.matmul`). The layers' weights are several times the L2 cache, so that each is cold when its turn comes. A
launch's share of the time is what is printed: one launch alone between two events measures the events too (3.7 us of
nothing on an H200).

Each layer's result goes into the next. Weights are scaled so that the results keep their size; the last result's error
against fp64 must be no more than 5 % larger than the library's. Medians in microseconds over several places in memory
(`--allocations`), in turns.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.card import card_here, versions_here  # noqa: E402
from tests.bench.gemm import on_stream  # noqa: E402
from tests.bench.odd import Clock  # noqa: E402

WIDTH = 4096


def model_of(rows: int, layers: int, is_fused: bool) -> str:
    """The layers in front-end JSON, of one number of rows."""
    tensors: dict[str, list[Any]] = {"X0": ["M", WIDTH]}
    inputs, graph = ["X0"], []
    for n in range(1, layers + 1):
        tensors |= {f"W{n}": [WIDTH, WIDTH], f"X{n}": ["M", WIDTH]}
        product = f"P{n}" if is_fused else f"X{n}"
        graph.append(
            {
                "op": "GEMM",
                "name": f"layer{n}",
                "inputs": [f"X{n - 1}", f"W{n}"],
                "outputs": [product],
                "attrs": {"acc_dtype": "fp32"},
            }
        )
        inputs.append(f"W{n}")
        if is_fused:
            tensors[f"b{n}"] = [WIDTH]
            inputs.append(f"b{n}")
            graph.append(
                {
                    "op": "Elementwise",
                    "name": f"bias{n}",
                    "fn": "add",
                    "inputs": [product, f"b{n}"],
                    "outputs": [f"S{n}"],
                }
            )
            graph.append(
                {"op": "Elementwise", "name": f"relu{n}", "fn": "relu", "inputs": [f"S{n}"], "outputs": [f"X{n}"]}
            )
    model = {
        "name": "chain",
        "signature": {
            "inputs": [{"tensor": t, "role": "data", "mutability": "immutable"} for t in inputs],
            "outputs": [{"tensor": f"X{layers}"}],
        },
        "tensors": {name: {"dtype": "fp16", "shape": dims} for name, dims in tensors.items()},
        "graph": graph,
        "shape_sets": {"bench": {"M": rows}},
    }
    return json.dumps(model)


def emitted(rows: int, layers: int, is_fused: bool) -> str:
    """The CUDA text, compiled into the cache."""
    from tinyir.front import read
    from tinyir.ir import manifest
    from tinyir.ir.pipeline import STAGES
    from tinyir.lower import lower_to
    from tinyir.runtime.compile import cubins_of

    module: Any = read(model_of(rows, layers, is_fused), "chain.json")
    for stage in STAGES[1:]:
        module = lower_to(stage, module, "sm90", card_here())
    text = manifest.show(module)
    cubins_of(text, "sm_90a", jobs=1)
    return text


def measure(device: Any, clock: Clock, text: str, rows: int, layers: int, is_fused: bool) -> dict[str, Any]:
    """One row: errors and times of ours and of the library's, at one place in memory."""
    import torch

    from tinyir.ir import manifest
    from tinyir.runtime.device import Buffer
    from tinyir.runtime.program import Program

    torch.manual_seed(rows + layers)
    tensors = {
        "X0": torch.randn(rows, WIDTH, device="cuda").half(),
        f"X{layers}": torch.full((rows, WIDTH), math.nan, device="cuda", dtype=torch.float16),
    }
    for n in range(1, layers + 1):
        tensors[f"W{n}"] = (
            torch.randn(WIDTH, WIDTH, device="cuda") * (math.sqrt(2) if is_fused else 1) / math.sqrt(WIDTH)
        ).half()
        if is_fused:
            tensors[f"b{n}"] = (torch.randn(WIDTH, device="cuda") / 8).half()

    def theirs() -> Any:
        x = tensors["X0"]
        for n in range(1, layers + 1):
            x = (
                torch._addmm_activation(tensors[f"b{n}"], x, tensors[f"W{n}"])
                if is_fused
                else torch.matmul(x, tensors[f"W{n}"])
            )
        return x

    wanted = tensors["X0"].double()
    for n in range(1, layers + 1):
        wanted = wanted @ tensors[f"W{n}"].double()
        wanted = torch.relu(wanted + tensors[f"b{n}"].double()) if is_fused else wanted
    kept = {name: Buffer(name, t.data_ptr(), t.numel(), t.element_size(), 0) for name, t in tensors.items()}
    program = Program(device, text, manifest.parse(text), {"M": rows}, kept=kept)
    torch.cuda.synchronize()
    program.run()
    mine, library = (
        float((found.double() - wanted).norm() / wanted.norm()) for found in (tensors[f"X{layers}"], theirs())
    )
    if not mine <= 1.05 * library:
        raise SystemExit(f"{rows} rows, {layers} layers: error {mine:.3e}, the library's {library:.3e}")
    queued = on_stream(device, theirs)
    queued()
    ours_us, library_us = clock.medians([program.enqueue, queued])
    program.release()
    return {"ours_us": ours_us / layers, "library_us": library_us / layers, "error": mine, "library_error": library}


def main() -> int:
    """Measure; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=Path("chain.json"))
    parser.add_argument("--rows", default="1,16,64,128")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--allocations", type=int, default=5, metavar="N")
    args = parser.parse_args()
    cases = [(int(rows), args.layers, is_fused) for rows in args.rows.split(",") for is_fused in (True, False)]
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork")) as pool:
        texts = list(pool.map(emitted, *zip(*cases)))
    import torch

    from tinyir.runtime.cuda import CudaDevice

    torch.cuda.init()
    device = CudaDevice()
    found: list[dict[str, Any]] = []
    try:
        clock = Clock(device)
        for case, text in zip(cases, texts):
            moved_apart, places = [], []
            for number in range(args.allocations):
                moved_apart.append(torch.empty((37 * number + 1) << 20, device="cuda", dtype=torch.uint8))
                places.append(measure(device, clock, text, *case))
                torch.cuda.empty_cache()
            rows, layers, is_fused = case
            middle = {key: statistics.median(place[key] for place in places) for key in places[0]}
            gbs = 2 * WIDTH * (WIDTH + 2 * rows) / middle["ours_us"] / 1e3
            found.append({"rows": rows, "layers": layers, "is_fused": is_fused, **middle, "gbs": gbs, "places": places})
            rival = "cublasLt, same epilogue" if is_fused else "cuBLAS, nothing fused on either side"
            print(
                f"| {rows}x{WIDTH}x{WIDTH}, {layers} layers | {middle['ours_us']:.2f} us a layer, {gbs:.0f} GB/s "
                f"| {rival} {middle['library_us']:.2f} us, "
                f"{middle['library_us'] / middle['ours_us']:.2f}x | error {middle['error']:.2e}, "
                f"{middle['library_error']:.2e} |",
                flush=True,
            )
            args.out.write_text(
                json.dumps({"card": device.description, "versions": versions_here(), "rows": found}, indent=1) + "\n",
                encoding="utf-8",
            )
    finally:
        device.release()
    return 0


if __name__ == "__main__":
    sys.exit(main())
