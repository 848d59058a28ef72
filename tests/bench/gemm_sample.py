"""The sample's kernel beside cuBLAS on one card: correctness against fp64, then times in the same run.

    python tests/bench/gemm_sample.py [--sizes 1024,2048,4096] [--out gemm_sample.json]

Needs a GPU, PyCUDA and torch. Random normal fp16 operands. Every timed run starts from a cold L2 cache; ours and
torch's are timed in turns, so that both see the same clocks. Medians, with p10 and p90, in microseconds. The JSON holds
the figures with card and versions.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tinyir.front import read  # noqa: E402
from tinyir.ir import manifest, tiny  # noqa: E402
from tinyir.ir.pipeline import STAGES  # noqa: E402
from tinyir.lower import lower_to  # noqa: E402
from tinyir.runtime import bench  # noqa: E402
from tinyir.runtime.abi import admit  # noqa: E402
from tinyir.runtime.arrays import random_arrays  # noqa: E402
from tinyir.runtime.compile import cubins_of, find_compiler, usage_of  # noqa: E402
from tinyir.runtime.cuda import CudaDevice  # noqa: E402
from tinyir.runtime.program import Program  # noqa: E402

SAMPLE = ROOT / "samples" / "gemm_bias_relu" / "gemm_bias_relu.json"
ROUNDS = 3


def emitted(size: int) -> str:
    """The sample's CUDA text, planned for M = N = K = size."""
    text = tiny.show(read(SAMPLE.read_text(encoding="utf-8"), SAMPLE.name))
    sizes = f"shapes default {{M={size}, N={size}, K={size}}}"
    text, changed = re.subn(r"^shapes default \{.*\}$", sizes, text, flags=re.MULTILINE)
    if not changed:
        text = re.sub(r"^(  out C2 .*)$", rf"\1\n{sizes}", text, count=1, flags=re.MULTILINE)
    module: Any = tiny.parse(text)
    for stage in STAGES[1:]:
        module = lower_to(stage, module, "sm90")
    return manifest.show(module)


def measure_size(device: CudaDevice, size: int) -> dict[str, Any]:
    """One row: our kernel and torch at M = N = K = size. Times in us."""
    import torch

    text = emitted(size)
    module = manifest.parse(text)
    sizes, inputs = admit(
        module.region.model, random_arrays(module.region.model, {"M": size, "N": size, "K": size}, seed=size)
    )
    program = Program(device, text, module, sizes)
    program.upload(inputs)
    program.run()
    a, b, bias = (torch.from_numpy(inputs[name]).cuda() for name in ("A", "B", "bias"))
    wanted = torch.relu(a.double() @ b.double() + bias.double())
    got = torch.from_numpy(program.outputs()["C2"]).cuda().double()
    error = (got - wanted).abs()
    if bool((error > 1e-3 + 1e-3 * wanted.abs()).any()) or bool(got.isnan().any()):
        raise SystemExit(f"{size}: wrong, largest error {float(error.max())}")
    out = torch.empty_like(got, dtype=torch.float16)
    rivals: dict[str, Callable[[], Any]] = {
        "matmul": lambda: torch.matmul(a, b, out=out),
        "addmm_relu": lambda: torch.relu_(torch.addmm(bias, a, b, out=out)),
    }
    times: dict[str, list[bench.Timing]] = {"ours": [], **{name: [] for name in rivals}}
    for _ in range(ROUNDS):
        times["ours"].append(
            bench.measure(device, len(program.launches), program.enqueue, program.flops(), program.bytes())
        )
        for name, run in rivals.items():
            times[name].append(_measure_torch(device, run))
    row: dict[str, Any] = {"size": size, "largest_error": float(error.max())}
    for name, found in times.items():
        median = statistics.median(t.median for t in found)
        row[name] = {
            "median_us": median * 1e6,
            "p10_us": min(t.p10 for t in found) * 1e6,
            "p90_us": max(t.p90 for t in found) * 1e6,
            "tflops": 2 * size**3 / median / 1e12,
        }
    row["share_of_matmul"] = row["matmul"]["median_us"] / row["ours"]["median_us"]
    row["resources"] = {
        k: {f: getattr(u, f) for f in u.__slots__} for k, u in usage_of(*cubins_of(text, device.arch).values()).items()
    }
    return row


def _measure_torch(device: CudaDevice, run: Callable[[], Any]) -> bench.Timing:
    """torch's call on our stream, timed as our kernels are."""
    import torch

    stream = torch.cuda.ExternalStream(device.stream.handle)

    def enqueue() -> None:
        with torch.cuda.stream(stream):
            run()

    return bench.measure(device, 1, enqueue, None, None)


def main() -> int:
    """Print a line a size, write the JSON."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--sizes", default="1024,2048,4096")
    parser.add_argument("--out", default="gemm_sample.json")
    args = parser.parse_args()
    torch.cuda.init()
    device = CudaDevice()
    try:
        rows = [_told(measure_size(device, size)) for size in map(int, args.sizes.split(","))]
    finally:
        device.release()
    versions = {"python": platform.python_version(), "numpy": np.__version__, "compiler": find_compiler().name}
    versions |= {"torch": torch.__version__, "cuda_of_torch": torch.version.cuda}
    Path(args.out).write_text(
        json.dumps({"card": device.description, "versions": versions, "rows": rows}, indent=1) + "\n", encoding="utf-8"
    )
    return 0


def _told(row: dict[str, Any]) -> dict[str, Any]:
    def told(name: str) -> str:
        return f"{name} {row[name]['median_us']:.1f} us {row[name]['tflops']:.1f} TFLOP/s"

    share, error = row["share_of_matmul"], row["largest_error"]
    print(
        f"{row['size']}: {told('ours')}, {told('matmul')}, {told('addmm_relu')}; share of matmul {share:.3f}, "
        f"largest error {error:.2e}"
    )
    return row


if __name__ == "__main__":
    sys.exit(main())
