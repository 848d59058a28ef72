"""Activations behind a product with a bias, beside a ReLU behind the same product, in fp16 on one card, in one run.

    python tests/bench/activations.py [--out activations.json]     needs a GPU, PyCUDA and torch

Each model goes through the whole compiler, and the plan is the cost model's own choice. The result is compared with
torch in fp32 first. All of a shape are timed in turns as CUDA graphs, each run behind a write of four times the L2
cache; medians in microseconds.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.card import card_here, versions_here  # noqa: E402

RUNS = 41
SHAPES = ((4096, 3072, 768), (8192, 3072, 768), (4096, 4096, 1024), (4096, 11008, 4096), (512, 3072, 768))  # M, N, K
FUNCTIONS = ("relu", "gelu", "silu", "tanh")
NEAR = 2e-3  # of the largest number of the output
Case = tuple[tuple[int, int, int], str]


def model_of(shape: tuple[int, int, int], function: str) -> str:
    """Y = f(X W' + b) in front-end JSON."""
    m, n, k = shape
    shapes = {"X": [m, k], "W": [n, k], "b": [n], "Y": [m, n]}
    product = {"op": "GEMM", "name": "h", "inputs": ["X", "W", "b"], "outputs": ["h"], "attrs": {"transB": True}}
    return json.dumps(
        {
            "name": function,
            "signature": {"inputs": [{"tensor": name} for name in "XWb"], "outputs": [{"tensor": "Y"}]},
            "tensors": {name: {"dtype": "fp16", "shape": dims} for name, dims in shapes.items()},
            "graph": [product, {"op": "Elementwise", "fn": function, "name": "Y", "inputs": ["h"], "outputs": ["Y"]}],
        }
    )


def prepared(case: Case) -> tuple[str, str]:
    """The plan and the CUDA text of a case, compiled into the cache."""
    from tinyir.front import read
    from tinyir.ir import manifest
    from tinyir.ir.pipeline import STAGES
    from tinyir.lower import lower_to
    from tinyir.runtime.compile import cubins_of

    module: Any = read(model_of(*case), "activation.json")
    for stage in STAGES[1 : STAGES.index("plan") + 1]:
        module = lower_to(stage, module, "sm90", card_here())
    named = "; ".join(f"{p.algo} {list(p.tile)}, {p.stages} stages" for p in module.plans)
    for stage in ("gpu", "cu"):
        module = lower_to(stage, module, "sm90", card_here())
    text = manifest.show(module)
    cubins_of(text, "sm_90a", jobs=1)
    return named, text


def measure_shape(device: Any, shape: tuple[int, int, int], texts: dict[str, tuple[str, str]]) -> list[dict[str, Any]]:
    """A row for each function, with its time over the first one's."""
    import torch

    from tests.bench.gemm import timed
    from tinyir.ir import manifest
    from tinyir.runtime.device import Buffer
    from tinyir.runtime.graph import Graph
    from tinyir.runtime.program import Program

    torch.manual_seed(shape[0])
    m, n, k = shape
    half = {"device": "cuda", "dtype": torch.float16}
    x = {"X": torch.randn(m, k, **half), "W": torch.randn(n, k, **half) / k**0.5, "b": torch.randn(n, **half)}
    x["Y"] = torch.empty(m, n, **half)
    kept = {name: Buffer(name, t.data_ptr(), t.numel(), t.element_size(), 0) for name, t in x.items()}
    sums = torch.addmm(x["b"].float(), x["X"].float(), x["W"].float().t())
    programs = [Program(device, text, manifest.parse(text), {}, kept=kept) for _, text in texts.values()]
    errors = []
    for function, program in zip(texts, programs):
        of = torch.tanh if function == "tanh" else getattr(torch.nn.functional, function)
        x["Y"].fill_(torch.nan)
        torch.cuda.synchronize()
        program.run()
        device.stream.synchronize()
        wanted = of(sums)
        errors.append(float((x["Y"].float() - wanted).abs().max() / wanted.abs().max()))
    graphs = [Graph(device.stream.handle, program.enqueue) for program in programs]
    times = timed(device, [graph.run for graph in graphs], RUNS)
    for graph in graphs:
        graph.__exit__(None, None, None)
    return [
        {
            "shape": shape,
            "function": function,
            "plan": plan,
            "us": us,
            "over_relu": us / times[0],
            "error": error,
            "fault": "" if error <= NEAR else f"off by {error:.3e} of the largest number",
        }
        for (function, (plan, _)), us, error in zip(texts.items(), times, errors)
    ]


def main() -> int:
    """Measure and print; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=Path("activations.json"))
    args = parser.parse_args()
    cases: list[Case] = [(shape, function) for shape in SHAPES for function in FUNCTIONS]
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        texts = dict(zip(cases, pool.map(prepared, cases)))
    import torch

    from tinyir.runtime.cuda import CudaDevice

    torch.cuda.init()
    device = CudaDevice()
    rows: list[dict[str, Any]] = []
    try:
        for shape in SHAPES:
            rows += (found := measure_shape(device, shape, {f: texts[shape, f] for f in FUNCTIONS}))
            said = ", ".join(f"{r['function']} {r['us']:.1f} us {r['over_relu']:.3f}x {r['fault']}" for r in found)
            print(f"{'x'.join(map(str, shape)):<16} {said}", flush=True)
            args.out.write_text(json.dumps({**versions_here(), "rows": rows}, indent=1) + "\n", encoding="utf-8")
    finally:
        device.release()
    return 1 if any(row["fault"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
