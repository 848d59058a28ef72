"""GEMM + bias + ReLU on tensor cores beside cublasLt with the same epilogue, on one card, in one run.

    python tests/bench/gemm.py [--out results.json] [--texts DIR]     measure; needs a GPU, PyCUDA and torch
    python tests/bench/gemm.py --emit DIR                             only write the CUDA texts, which needs none of
      them

For each shape, dtype and layout (NN: B is [K, N]; NT: B is [N, K]) the model goes through the whole compiler, and the
plan is the cost model's own choice for that shape. Operands are random normal. The result must be as near to fp64 as
cublasLt's is. Then ours and torch's `_addmm_activation`, which calls cublasLt with a fused epilogue, are timed in
turns, each run from a cold L2 cache, so that both see the same clocks. Medians in microseconds. Prints a table; the
JSON holds it with card and versions.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.card import card_here, versions_here  # noqa: E402

SHAPES = (
    (512, 512, 512),
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (16384, 16384, 1024),
    (4096, 11008, 4096),
    (8192, 1024, 8192),
)
DTYPES = ("fp16", "bf16")
LAYOUTS = ("NN", "NT")
RUNS = 40
ROWS_CHECKED = 1024  # in fp64, spread over the result; the rest is compared with cublasLt


def cases() -> list[tuple[str, str, tuple[int, int, int]]]:
    """Every dtype, layout and shape (M, N, K)."""
    return [(dtype, layout, shape) for dtype in DTYPES for layout in LAYOUTS for shape in SHAPES]


def name_of(dtype: str, layout: str, shape: tuple[int, int, int]) -> str:
    """A file's stem."""
    return f"{dtype}_{layout.lower()}_{'x'.join(map(str, shape))}"


def model_of(dtype: str, layout: str, shape: tuple[int, int, int], is_fused: bool = True) -> str:
    """The model in front-end JSON: symbolic sizes, planned for this shape; a product alone where nothing is fused to
    it."""
    left, right = (layout[0] == "T", layout[1] == "T")
    tensors = {
        "A": ["K", "M"] if left else ["M", "K"],
        "B": ["N", "K"] if right else ["K", "N"],
        "bias": ["N"],
        "C": ["M", "N"],
    }
    if not is_fused:
        del tensors["bias"]
    inputs = [
        {"tensor": name, "role": "data", "mutability": "immutable"} for name in ("A", "B", "bias") if name in tensors
    ]
    graph = [
        {
            "op": "GEMM",
            "name": "gemm",
            "inputs": ["A", "B"],
            "outputs": ["product"],
            "attrs": {"acc_dtype": "fp32", "transA": left, "transB": right},
        },
        {"op": "Elementwise", "name": "bias_add", "fn": "add", "inputs": ["product", "bias"], "outputs": ["sum"]},
        {"op": "Elementwise", "name": "relu", "fn": "relu", "inputs": ["sum"], "outputs": ["C"]},
    ]
    graph = graph if is_fused else [{**graph[0], "outputs": ["C"]}]
    model = {
        "name": "gemm",
        "signature": {"inputs": inputs, "outputs": [{"tensor": "C"}]},
        "tensors": {name: {"dtype": dtype, "shape": dims} for name, dims in tensors.items()},
        "graph": graph,
        "shape_sets": {"bench": dict(zip("MNK", shape))},
    }
    return json.dumps(model)


def emitted(dtype: str, layout: str, shape: tuple[int, int, int]) -> str:
    """The CUDA text."""
    from tinyir.front import read
    from tinyir.ir import manifest
    from tinyir.ir.pipeline import STAGES
    from tinyir.lower import lower_to

    module: Any = read(model_of(dtype, layout, shape), "gemm.json")
    for stage in STAGES[1:]:
        module = lower_to(stage, module, "sm90", card_here())
    return manifest.show(module)


def measure_case(device: Any, text: str, dtype: str, layout: str, shape: tuple[int, int, int]) -> dict[str, Any]:
    """One row: errors and times of ours and of cublasLt."""
    import torch

    from tinyir.ir import manifest
    from tinyir.runtime.compile import cubins_of, usage_of
    from tinyir.runtime.device import Buffer
    from tinyir.runtime.program import Program

    rows, columns, depth = shape
    torch.manual_seed(rows + columns + depth)
    kind = {"fp16": torch.float16, "bf16": torch.bfloat16}[dtype]
    a = torch.randn(rows, depth, device="cuda").to(kind)
    b = torch.randn(*((columns, depth) if layout == "NT" else (depth, columns)), device="cuda").to(kind)
    bias = torch.randn(columns, device="cuda").to(kind)
    c = torch.full((rows, columns), math.nan, device="cuda", dtype=kind)
    right = b.t() if layout == "NT" else b
    kept = {
        name: Buffer(name, t.data_ptr(), t.numel(), t.element_size(), 0)
        for name, t in zip(("A", "B", "bias", "C"), (a, b, bias, c))
    }
    program = Program(device, text, manifest.parse(text), dict(zip("MNK", shape)), kept=kept)
    torch.cuda.synchronize()
    program.run()

    def rival() -> Any:
        return torch._addmm_activation(bias, a, right)

    theirs = rival()
    checked = torch.linspace(0, rows - 1, min(rows, ROWS_CHECKED), device="cuda").long()
    wanted = torch.relu(a[checked].double() @ right.double() + bias.double())
    errors = [float((x[checked].double() - wanted).norm() / wanted.norm()) for x in (c, theirs)]
    apart = float((c.float() - theirs.float()).norm() / theirs.float().norm())
    if not (errors[0] <= 1.01 * errors[1] and apart <= 4 * errors[1]):
        raise SystemExit(
            f"{dtype} {layout} {shape}: error {errors[0]:.3e}, cublasLt's {errors[1]:.3e}, apart {apart:.3e}"
        )
    ours, lt = timed(device, [program.enqueue, on_stream(device, rival)])
    flops = 2 * rows * columns * depth
    usage = usage_of(*cubins_of(text, device.arch).values())[program.chosen[0].entry]
    plan = next(line for line in text.splitlines() if line.startswith("// plan "))
    return {
        "dtype": dtype,
        "layout": layout,
        "shape": list(shape),
        "plan": plan.removeprefix("// plan "),
        "registers": usage.registers,
        "spills": usage.spill_stores + usage.spill_loads,
        "error": errors[0],
        "error_cublaslt": errors[1],
        "ours_us": ours,
        "cublaslt_us": lt,
        "ours_tflops": flops / ours / 1e6,
        "cublaslt_tflops": flops / lt / 1e6,
        "ratio": lt / ours,
    }


def on_stream(device: Any, run: Callable[[], Any]) -> Callable[[], None]:
    """Torch's work on the device's stream."""
    import torch

    stream = torch.cuda.ExternalStream(device.stream.handle)

    def enqueue() -> None:
        with torch.cuda.stream(stream):
            run()

    return enqueue


def timed(device: Any, runs: list[Callable[[], None]], count: int = RUNS) -> list[float]:
    """The median of each in microseconds. The cache is flushed before every run, which also keeps the host ahead of the
    device."""
    import pycuda.driver as driver

    flush_bytes = 4 * device.l2_bytes
    flush = driver.mem_alloc(flush_bytes)
    found: list[list[tuple[Any, Any]]] = [[] for _ in runs]
    for turn in range(count + 3):
        for run, events in zip(runs, found):
            start, end = driver.Event(), driver.Event()
            driver.memset_d8_async(flush, 0, flush_bytes, device.stream)
            start.record(device.stream)
            run()
            end.record(device.stream)
            if turn >= 3:
                events.append((start, end))
    device.stream.synchronize()
    flush.free()
    return [statistics.median(start.time_till(end) for start, end in events) * 1e3 for events in found]


def main() -> int:
    """Emit, or measure; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--emit", type=Path)
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--out", type=Path, default=Path("gemm.json"))
    args = parser.parse_args()
    if args.emit:
        args.emit.mkdir(parents=True, exist_ok=True)
        for case in cases():
            (args.emit / f"{name_of(*case)}.cu").write_text(emitted(*case), encoding="utf-8")
        return 0
    import torch

    from tinyir.runtime.cuda import CudaDevice

    torch.cuda.init()
    device = CudaDevice()
    found: list[dict[str, Any]] = []
    try:
        for case in cases():
            text = (args.texts / f"{name_of(*case)}.cu").read_text(encoding="utf-8") if args.texts else emitted(*case)
            found.append(measure_case(device, text, *case))
            _print_row(found[-1])
            args.out.write_text(
                json.dumps({"card": device.description, "versions": versions_here(), "rows": found}, indent=1) + "\n",
                encoding="utf-8",
            )
    finally:
        device.release()
    mean = math.exp(sum(math.log(row["ratio"]) for row in found) / len(found))
    print(f"geometric mean of the ratios {mean:.3f}, least {min(row['ratio'] for row in found):.3f}")
    return 0


def _print_row(row: dict[str, Any]) -> None:
    shape = "x".join(map(str, row["shape"]))
    print(
        f"| {row['dtype']} {row['layout']} | {shape} | {row['ours_us']:.1f} us, {row['ours_tflops']:.0f} | "
        f"{row['cublaslt_us']:.1f} us, "
        f"{row['cublaslt_tflops']:.0f} | {row['ratio']:.3f} |",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
