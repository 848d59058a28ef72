"""Convolutions with bias and ReLU beside cuDNN: the layers of ResNet-50, at several batches.

    python tests/bench/conv.py [--out results.json] [--batches 1,8,32] [--dtype fp16]     needs a GPU, PyCUDA and torch
    python tests/bench/conv.py --list                                                     the kernels of each case and
      what the model expects, which needs none of them

Images lie channels first, as the models say. Rivals, in the same run and in turns with ours: torch's conv2d with its
bias, and relu behind it (cuDNN with the algorithm that it finds fastest, `cudnn.benchmark`), on images that lie so, and
on images that lie channels last already. Operands are random normal; the largest error, in units of the result's
largest number, must be no more than twice torch's against fp64, or 2^-11 in fp16 and 2^-20 in fp32. Both sides run as
CUDA graphs from a cold L2 cache. Medians in microseconds.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.card import card_here, versions_here  # noqa: E402
from tests.bench.gemm import on_stream  # noqa: E402
from tests.bench.odd import Clock  # noqa: E402
from tests.unit.stages import graph  # noqa: E402

TOLERATED = {"fp16": 2.0**-11, "fp32": 2.0**-20}


@dataclass(frozen=True, slots=True)
class Case:
    """`channels` of images of size x size to `made`, by windows of window x window, padded so that they stay inside."""

    batch: int
    channels: int
    size: int
    made: int
    window: int
    stride: int = 1

    @property
    def out(self) -> int:
        """Rows and columns of the result."""
        return (self.size + 2 * (self.window // 2) - self.window) // self.stride + 1

    @property
    def flops(self) -> int:
        """Of the products and sums."""
        return 2 * self.batch * self.made * self.out**2 * self.channels * self.window**2

    def __str__(self) -> str:
        return f"{self.batch}x{self.channels}x{self.size}² to {self.made}, {self.window}x{self.window}" + (
            f" by {self.stride}" if self.stride > 1 else ""
        )


def cases(batches: list[int]) -> list[Case]:
    """The stem, each block's 3x3 layer, one that halves the image, and a layer by points."""
    layers = (
        (3, 224, 64, 7, 2),
        (64, 56, 64, 3),
        (128, 28, 128, 3),
        (256, 14, 256, 3),
        (512, 7, 512, 3),
        (256, 28, 256, 3, 2),
        (256, 14, 1024, 1),
    )
    return [Case(batch, *layer) for batch in batches for layer in layers]


def planned(case: Case, dtype: str) -> Any:
    """The plan text's module."""
    from tinyir.front import read
    from tinyir.lower import lower_to

    pad = {"pad": [case.window // 2] * 2, "stride": [case.stride] * 2}
    given = {
        "x": (dtype, [case.batch, case.channels, case.size, case.size]),
        "w": (dtype, [case.made, case.channels, case.window, case.window]),
        "b": (dtype, [case.made]),
    }
    ops = [("Conv", ["x", "w", "b"], "c", pad), ("Elementwise", ["c"], "y", {"fn": "relu"})]
    module: Any = read(graph(given, {"y": (dtype, [case.batch, case.made, case.out, case.out])}, *ops, name="conv"))
    for stage in ("index", "poly", "region", "plan"):
        module = lower_to(stage, module, "sm90", card_here())
    return module


def emitted(case: Case, dtype: str) -> str:
    """The CUDA text, compiled into the cache."""
    from tinyir.ir import manifest
    from tinyir.lower import cu, gpu
    from tinyir.runtime.compile import cubins_of

    text = manifest.show(cu.lower(gpu.lower(planned(case, dtype))))
    cubins_of(text, "sm_90a", jobs=1)
    return text


def measure(device: Any, clock: Clock, case: Case, text: str, dtype: str) -> dict[str, Any]:
    """One row: errors and times."""
    import torch

    from tinyir.ir import manifest
    from tinyir.runtime.device import Buffer
    from tinyir.runtime.program import Program

    conv2d, kind = torch.nn.functional.conv2d, {"fp16": torch.float16, "fp32": torch.float32}[dtype]
    how = {"stride": case.stride, "padding": case.window // 2}
    torch.manual_seed(case.flops % 2**31)
    x = torch.randn(case.batch, case.channels, case.size, case.size, device="cuda").to(kind)
    w = (
        torch.randn(case.made, case.channels, case.window, case.window, device="cuda")
        / math.sqrt(case.channels * case.window**2)
    ).to(kind)
    b = torch.randn(case.made, device="cuda").to(kind)
    y = torch.full((case.batch, case.made, case.out, case.out), math.nan, device="cuda", dtype=kind)
    last = [t.to(memory_format=torch.channels_last) for t in (x, w)]
    rivals = {
        "cudnn": lambda: torch.relu_(conv2d(x, w, b, **how)),
        "cudnn_channels_last": lambda: torch.relu_(conv2d(*last, b, **how)),
    }
    kept = {name: Buffer(name, t.data_ptr(), t.numel(), t.element_size(), 0) for name, t in zip("xwby", (x, w, b, y))}
    program = Program(device, text, manifest.parse(text), {}, kept=kept)
    torch.cuda.synchronize()
    program.run()
    device.stream.synchronize()
    wanted = torch.relu(conv2d(x.double(), w.double(), b.double(), **how))
    mine, theirs = (
        float((found.double() - wanted).abs().max() / wanted.abs().max()) for found in (y, rivals["cudnn"]())
    )
    if not mine <= max(2 * theirs, TOLERATED[dtype]):
        raise SystemExit(f"{case}: error {mine:.3e}, torch's {theirs:.3e}")
    queued = [on_stream(device, run) for run in rivals.values()]
    for run in queued:
        run()
    ours, *others = clock.medians([program.enqueue, *queued])
    kernels = len(program.chosen)
    program.release()
    return {
        "case": str(case),
        "dtype": dtype,
        "kernels": kernels,
        "ours_us": ours,
        **{f"{name}_us": us for name, us in zip(rivals, others)},
        "tflops": case.flops / ours / 1e6,
        "error": mine,
        "error_cudnn": theirs,
    }


def main() -> int:
    """List, or measure; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("conv.json"))
    parser.add_argument("--batches", default="1,8,32")
    parser.add_argument("--dtype", choices=tuple(TOLERATED), default="fp16")
    args = parser.parse_args()
    every = cases([int(batch) for batch in args.batches.split(",")])
    if args.list:
        for case in every:
            plans = planned(case, args.dtype).plans
            print(f"{case}: {', '.join(f'{p.name} {p.algo} {p.estimate.microseconds} us' for p in plans)}", flush=True)
        return 0
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork")) as pool:
        texts = list(pool.map(emitted, every, [args.dtype] * len(every)))
    import torch

    from tinyir.runtime.cuda import CudaDevice

    torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32 = True, False
    torch.cuda.init()
    device = CudaDevice()
    found: list[dict[str, Any]] = []
    try:
        clock = Clock(device)
        for case, text in zip(every, texts):
            found.append(measure(device, clock, case, text, args.dtype))
            row = found[-1]
            print(
                f"| {case} | {row['kernels']} | {row['ours_us']:.1f} us, {row['tflops']:.0f} | "
                f"{row['cudnn_us']:.1f} us, {row['cudnn_us'] / row['ours_us']:.2f}x | "
                f"{row['cudnn_channels_last_us']:.1f} us, {row['cudnn_channels_last_us'] / row['ours_us']:.2f}x |",
                flush=True,
            )
            args.out.write_text(
                json.dumps({"card": device.description, "versions": versions_here(), "rows": found}, indent=1) + "\n",
                encoding="utf-8",
            )
    finally:
        device.release()
    for name in ("cudnn", "cudnn_channels_last"):
        ratios = [row[f"{name}_us"] / row["ours_us"] for row in found]
        print(
            f"over {name}: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f} in geometric mean, least "
            f"{min(ratios):.3f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
