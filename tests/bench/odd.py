"""GEMM + bias + ReLU at sizes that libraries treat as an afterthought: odd ones, few rows, few tiles under a long sum, rows off the lines.

    python tests/bench/odd.py [--out results.json] [--only odd,skinny,...] [--compile]     needs a GPU, PyCUDA, cuda-bindings and torch

fp16, sizes of a case as M x N x K, the plan chosen by the cost model for each. Rivals, in the same run and in turns with ours: cublasLt with
the same epilogue (torch's `_addmm_activation`), cuBLAS with nothing fused (`torch.matmul`), and with `--compile` what torch.compile makes of
`relu(a @ b + bias)` with max-autotune. Operands are random normal; the error against fp64 must be no larger than cublasLt's.

Everything runs as a CUDA graph. Before every run a buffer of four times the L2 cache is written and another one read, so that the cache holds
neither operands nor lines that it would first have to write back. Medians in microseconds.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import platform
import random
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Callable

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.gemm import emitted, on_stream  # noqa: E402

Shape = tuple[int, int, int]
RUNS = 15
ROWS_CHECKED = 512
SEED = 7


def odd_shapes() -> list[Shape]:
    """Two fixed shapes, and twenty random ones in 100..5000, each side odd."""
    draw = random.Random(SEED)
    return [(4093, 4099, 4111), (1000, 3000, 777), *((2 * draw.randint(50, 2499) + 1, 2 * draw.randint(50, 2499) + 1, 2 * draw.randint(50, 2499) + 1) for _ in range(20))]


FAMILIES: dict[str, list[Shape]] = {
    "odd": odd_shapes(),
    "skinny": [(rows, 4096, 4096) for rows in (1, 16, 64, 128)],
    "few_tiles": [(144, 888, 6472), (512, 512, 8192), (256, 1024, 4096)],
    "off_lines": [(1704, 2800, 3496), (6448, 2776, 5928)],
}


def text_of(shape: Shape) -> str:
    """The CUDA text of a case, compiled into the cache."""
    from tinyir.runtime.compile import cubin_of

    text = emitted("fp16", "NN", shape)
    cubin_of(text, "sm_90a")
    return text


class Clock:
    """Times graphs of what is queued on a device's stream, in turns."""

    def __init__(self, device: Any):
        import torch

        self.device = device
        self.stream = torch.cuda.ExternalStream(device.stream.handle)
        self.written = torch.empty(4 * device.l2_bytes, device="cuda", dtype=torch.uint8)
        self.read = torch.randn(2 * device.l2_bytes, device="cuda", dtype=torch.float16)

    def medians(self, runs: list[Callable[[], None]]) -> list[float]:
        """Microseconds of each."""
        import pycuda.driver as driver
        import torch
        from tinyir.runtime.bench import graph_of

        graphs = [graph_of(self.device, run) for run in runs]
        events: list[list[tuple[Any, Any]]] = [[] for _ in runs]
        for turn in range(RUNS + 3):
            for graph, found in zip(graphs, events):
                start, end = driver.Event(), driver.Event()
                with torch.cuda.stream(self.stream):
                    self.written.zero_()
                    torch.amax(self.read)
                start.record(self.device.stream)
                graph.run()
                end.record(self.device.stream)
                if turn >= 3:
                    found.append((start, end))
        self.device.stream.synchronize()
        for graph in graphs:
            graph.__exit__()
        return [statistics.median(start.time_till(end) for start, end in found) * 1e3 for found in events]


def measure_case(device: Any, clock: Clock, text: str, shape: Shape, with_compiler: bool) -> dict[str, Any]:
    """One row: errors and times of ours and of the rivals."""
    import torch
    from tinyir.ir import manifest
    from tinyir.runtime.device import Buffer
    from tinyir.runtime.program import Program

    rows, columns, depth = shape
    torch.manual_seed(rows + columns + depth)
    a, b, bias = (torch.randn(*dims, device="cuda").half() for dims in ((rows, depth), (depth, columns), (columns,)))
    c = torch.full((rows, columns), math.nan, device="cuda", dtype=torch.float16)
    kept = {name: Buffer(name, t.data_ptr(), t.numel(), t.element_size(), 0) for name, t in zip(("A", "B", "bias", "C"), (a, b, bias, c))}
    program = Program(device, text, manifest.parse(text), dict(zip("MNK", shape)), kept=kept)
    torch.cuda.synchronize()
    program.run()
    rivals: dict[str, Callable[[], Any]] = {"cublaslt": lambda: torch._addmm_activation(bias, a, b), "cublas": lambda: torch.matmul(a, b)}
    if with_compiler:
        torch._dynamo.reset()
        made = torch.compile(lambda x, y, z: torch.relu(x @ y + z), mode="max-autotune-no-cudagraphs", dynamic=False)
        rivals["compiled"] = lambda: made(a, b, bias)
    theirs = [run() for run in rivals.values()][0]
    queued = [on_stream(device, run) for run in rivals.values()]
    for run in queued:
        run()
    torch.cuda.synchronize()
    checked = torch.linspace(0, rows - 1, min(rows, ROWS_CHECKED), device="cuda").long()
    wanted = torch.relu(a[checked].double() @ b.double() + bias.double())
    errors = [float((x[checked].double() - wanted).norm() / wanted.norm()) for x in (c, theirs)]
    apart = float((c.float() - theirs.float()).norm() / theirs.float().norm())
    if not (errors[0] <= 1.01 * errors[1] and apart <= 4 * errors[1]):
        raise SystemExit(f"{shape}: error {errors[0]:.3e}, cublasLt's {errors[1]:.3e}, apart {apart:.3e}")
    ours, *others = clock.medians([program.enqueue, *queued])
    moved = 2 * (rows * depth + depth * columns + rows * columns)
    program.release()
    return {
        "shape": list(shape), "kernels": [launch.name for launch in program.chosen], "plan": plan_in(text), "error": errors[0], "error_cublaslt": errors[1],
        "ours_us": ours, **{f"{name}_us": us for name, us in zip(rivals, others)}, "tflops": 2 * rows * columns * depth / ours / 1e6, "gbs": moved / ours / 1e3,
    }  # fmt: skip


def plan_in(text: str) -> str:
    """The comment above the kernel that these sizes run: the first of the file that is no copy."""
    return next(line for line in text.splitlines() if line.startswith("// plan ")).removeprefix("// plan ")


def main() -> int:
    """Measure; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=Path("odd.json"))
    parser.add_argument("--only", default=",".join(FAMILIES))
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    cases = [(family, shape) for family in args.only.split(",") for shape in FAMILIES[family]]
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork")) as pool:
        texts = list(pool.map(text_of, [shape for _, shape in cases]))
    import torch
    from tinyir.runtime.compile import find_compiler
    from tinyir.runtime.cuda import CudaDevice

    torch.cuda.init()
    device = CudaDevice()
    versions = {"python": platform.python_version(), "compiler": find_compiler().name, "torch": torch.__version__, "cuda_of_torch": torch.version.cuda}
    found: list[dict[str, Any]] = []
    try:
        clock = Clock(device)
        for (family, shape), text in zip(cases, texts):
            found.append({"family": family, **measure_case(device, clock, text, shape, args.compile)})
            _print_row(found[-1])
            args.out.write_text(json.dumps({"card": device.description, "versions": versions, "rows": found}, indent=1) + "\n", encoding="utf-8")
    finally:
        device.release()
    for family in dict.fromkeys(row["family"] for row in found):
        own = [row for row in found if row["family"] == family]
        for rival in ("cublaslt", "cublas", "compiled"):
            ratios = [row[f"{rival}_us"] / row["ours_us"] for row in own if f"{rival}_us" in row]
            if ratios:
                print(f"{family}: over {rival} {math.exp(statistics.fmean(map(math.log, ratios))):.3f} in geometric mean, least {min(ratios):.3f}")
    return 0


def _print_row(row: dict[str, Any]) -> None:
    rivals = [f"{name} {row[f'{name}_us']:.1f} us, {row[f'{name}_us'] / row['ours_us']:.2f}x" for name in ("cublaslt", "cublas", "compiled") if f"{name}_us" in row]
    shape = "x".join(map(str, row["shape"]))
    print(f"| {row['family']} | {shape} | {row['ours_us']:.1f} us, {row['tflops']:.0f} TFLOP/s, {row['gbs']:.0f} GB/s | {' | '.join(rivals)} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
