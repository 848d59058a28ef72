"""GEMM + bias + ReLU at sizes that libraries treat as an afterthought: odd ones, few rows, few tiles under a long sum,
rows off the lines.

    python tests/bench/odd.py [--out results.json] [--only odd,skinny,...] [--plans N] [--compile SECONDS]
      [--allocations N] [--plain]     needs a GPU, PyCUDA and torch

fp16, sizes of a case as M x N x K. The plan is the one that the cost model chooses; the others that it thinks near are
timed too, so that its choice can be judged. Rivals, in the same run and in turns with ours: cublasLt with the same
epilogue (torch's `_addmm_activation`), cuBLAS with nothing fused (`torch.matmul`), and with `--compile 300` what
torch.compile makes of `relu(a @ b + bias)` with max-autotune. Operands are random normal; the error against fp64 must
be no larger than cublasLt's.

`--allocations 7`: medians over several places in memory, which matter where an operand is fetched once. `--plain`: the
chosen plan of the product alone too, beside cuBLAS with nothing fused on either side.

Everything runs as a CUDA graph. Before every run a buffer of four times the L2 cache is written and another one read,
so that the cache holds neither operands nor lines that it would first have to write back. Medians in microseconds.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import random
import re
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.card import card_here, versions_here  # noqa: E402
from tests.bench.gemm import model_of, on_stream  # noqa: E402

Shape = tuple[int, int, int]
RUNS = 15
MOST_PLANS = {"odd": 14}
LONGEST = 1.7  # times the chosen plan's estimate
ROWS_CHECKED = 512
SEED = 7


def odd_shapes() -> list[Shape]:
    """Two fixed shapes, and twenty random ones in 100..5000, each side odd."""
    draw = random.Random(SEED)
    return [
        (4093, 4099, 4111),
        (1000, 3000, 777),
        *(
            (2 * draw.randint(50, 2499) + 1, 2 * draw.randint(50, 2499) + 1, 2 * draw.randint(50, 2499) + 1)
            for _ in range(20)
        ),
    ]


FAMILIES: dict[str, list[Shape]] = {
    "odd": odd_shapes(),
    "skinny": [(rows, 4096, 4096) for rows in (1, 16, 64, 128)],
    "few_tiles": [(144, 888, 6472), (512, 512, 8192), (256, 1024, 4096)],
    "off_lines": [(1704, 2800, 3496), (6448, 2776, 5928)],
}


def plans_for(case: tuple[str, Shape], most: int, is_fused: bool = True) -> list[tuple[str, str, float]]:
    """Plans worth measuring in a case, at most this number, each as its line in the table of candidates, its CUDA text,
    compiled into the cache, and the model's microseconds; the chosen one first."""
    from tinyir.front import read
    from tinyir.ir import manifest, plan
    from tinyir.lower import cu, gpu, lower_to
    from tinyir.lower.plan import CROWDED, candidates
    from tinyir.runtime.compile import cubins_of

    family, shape = case
    module: Any = read(model_of("fp16", "NN", shape, is_fused), "gemm.json")
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    allowed = [
        c for c in candidates(module, module.program.regions[0], device=card_here()) if c.rejected in ("", CROWDED)
    ]
    found: dict[str, tuple[str, str, float]] = {}
    for c in sorted(allowed, key=lambda c: c.cost.microseconds):
        label = label_of(c)
        if (
            label not in found
            and len(found) < min(most, MOST_PLANS.get(family, 30))
            and c.cost.microseconds < LONGEST * allowed[0].cost.microseconds
        ):
            text = manifest.show(cu.lower(gpu.lower(plan.Module(module, (c.plan,)))))
            cubins_of(text, "sm_90a", jobs=1)
            found[label] = (label, text, c.cost.microseconds)
    return list(found.values())


def label_of(candidate: Any) -> str:
    """`128x256x64 4 stages, 2 consumers, 2x1, A and B padded`: a candidate without the order of its tiles, which makes
    no difference here."""
    from tinyir.lower.plan.table import rows_of

    _, algo, tile, made, *_ = rows_of([candidate])[0]
    return f"{algo} {tile} {re.sub(r', group [0-9]+', '', made)}"


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

        from tinyir.runtime.graph import Graph

        graphs = [Graph(self.device.stream.handle, run) for run in runs]
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
            graph.release()
        return [statistics.median(start.time_till(end) for start, end in found) * 1e3 for found in events]


def measure_over(
    device: Any,
    clock: Clock,
    plans: list[tuple[str, str, float]],
    plain: str,
    shape: Shape,
    with_compiler: bool,
    allocations: int,
) -> dict[str, Any]:
    """The row of a case whose operands are put at several places, of each time the median: the place is worth several
    per cent to all who fetch them once."""
    import torch

    kept, rows = [], []
    for number in range(allocations):
        kept.append(torch.empty((37 * number + 1) << 20, device="cuda", dtype=torch.uint8))
        rows.append(measure_case(device, clock, plans, plain, shape, with_compiler and number == 0))
        torch.cuda.empty_cache()
    first = rows[0]
    for name in [key for key in first if key.endswith("_us") or key in ("tflops", "gbs")]:
        first[name] = statistics.median(row[name] for row in rows if name in row)
    for at, item in enumerate(first["plans"]):
        item["us"] = statistics.median(row["plans"][at]["us"] for row in rows)
    return (
        {**first, "allocations": [{key: us for key, us in row.items() if key.endswith("_us")} for row in rows]}
        if allocations > 1
        else first
    )


def measure_case(
    device: Any, clock: Clock, plans: list[tuple[str, str, float]], plain: str, shape: Shape, with_compiler: bool
) -> dict[str, Any]:
    """One row: errors and times of every plan and of the rivals, and of the product alone (`plain`, its text, where
    there is one)."""
    import torch

    rows, columns, depth = shape
    torch.manual_seed(rows + columns + depth)
    a, b, bias = (torch.randn(*dims, device="cuda").half() for dims in ((rows, depth), (depth, columns), (columns,)))
    checked = torch.linspace(0, rows - 1, min(rows, ROWS_CHECKED), device="cuda").long()
    wanted = torch.relu(a[checked].double() @ b.double() + bias.double())
    rivals: dict[str, Callable[[], Any]] = {
        "cublaslt": lambda: torch._addmm_activation(bias, a, b),
        "cublas": lambda: torch.matmul(a, b),
    }
    if with_compiler:
        torch._dynamo.reset()
        made = torch.compile(lambda x, y, z: torch.relu(x @ y + z), mode="max-autotune-no-cudagraphs", dynamic=False)
        rivals["compiled"] = lambda: made(a, b, bias)
    theirs = rivals["cublaslt"]()
    error = _error_of(theirs[checked], wanted)
    queued = [on_stream(device, run) for run in rivals.values()]
    for run in queued:
        run()
    c = torch.empty((rows, columns), device="cuda", dtype=torch.float16)
    times: list[float] = []
    measured = []
    for label, text, model in plans:
        program = _program(device, text, shape, a, b, bias, c)
        c.fill_(math.nan)
        torch.cuda.synchronize()
        program.run()
        mine, apart = _error_of(c[checked], wanted), _error_of(c, theirs.float())
        if not (mine <= 1.01 * error and apart <= 4 * error):
            raise SystemExit(f"{shape} {label}: error {mine:.3e}, cublasLt's {error:.3e}, apart {apart:.3e}")
        times = times or clock.medians([program.enqueue, *queued])  # the chosen plan in turns with the rivals
        us = times[0] if not measured else clock.medians([program.enqueue])[0]
        measured.append({"plan": label, "model_us": model, "us": us})
        program.release()
    moved = 2 * (rows * depth + depth * columns + rows * columns)
    ours, *others = times
    alone = {}
    if plain:
        program = _program(device, plain, shape, a, b, None, c)
        c.fill_(math.nan)
        torch.cuda.synchronize()
        program.run()
        product = a[checked].double() @ b.double()
        mine, theirs_alone = _error_of(c[checked], product), _error_of(torch.matmul(a, b)[checked], product)
        if not mine <= 1.01 * theirs_alone:
            raise SystemExit(f"{shape}, nothing fused: error {mine:.3e}, cuBLAS's {theirs_alone:.3e}")
        alone = dict(
            zip(("plain_us", "plain_cublas_us"), clock.medians([program.enqueue, on_stream(device, rivals["cublas"])]))
        )
        program.release()
    return {
        "shape": list(shape),
        "ours_us": ours,
        **{f"{name}_us": us for name, us in zip(rivals, others)},
        "tflops": 2 * rows * columns * depth / ours / 1e6,
        "gbs": moved / ours / 1e3,
        **alone,
        "plans": measured,
    }


def _program(device: Any, text: str, shape: Shape, a: Any, b: Any, bias: Any, c: Any) -> Any:
    from tinyir.ir import manifest
    from tinyir.runtime.device import Buffer
    from tinyir.runtime.program import Program

    kept = {
        name: Buffer(name, t.data_ptr(), t.numel(), t.element_size(), 0)
        for name, t in zip(("A", "B", "bias", "C"), (a, b, bias, c))
        if t is not None
    }
    return Program(device, text, manifest.parse(text), dict(zip("MNK", shape)), kept=kept)


def _error_of(found: Any, wanted: Any) -> float:
    return float((found.to(wanted.dtype) - wanted).norm() / wanted.norm())


def main() -> int:
    """Measure; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=Path("odd.json"))
    parser.add_argument("--only", default=",".join(FAMILIES))
    parser.add_argument(
        "--plans",
        type=int,
        default=30,
        metavar="N",
        help="time at most so many plans of a shape; 1: the chosen one alone",
    )
    parser.add_argument(
        "--allocations", type=int, default=1, metavar="N", help="the median of so many places in memory"
    )
    parser.add_argument("--plain", action="store_true", help="time the product alone too, beside cuBLAS")
    parser.add_argument(
        "--compile",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="also time torch.compile, until so many have passed",
    )
    args = parser.parse_args()
    cases = [(family, shape) for family in args.only.split(",") for shape in FAMILIES[family]]
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork")) as pool:
        plans = list(pool.map(plans_for, cases, [args.plans] * len(cases)))
        alone = (
            [found[0][1] for found in pool.map(plans_for, cases, [1] * len(cases), [False] * len(cases))]
            if args.plain
            else [""] * len(cases)
        )
    import torch

    from tinyir.runtime.cuda import CudaDevice

    torch.cuda.init()
    device = CudaDevice()
    found: list[dict[str, Any]] = []
    try:
        clock = Clock(device)
        until = time.monotonic() + args.compile
        for (family, shape), own, plain in zip(cases, plans, alone):
            found.append(
                {
                    "family": family,
                    **measure_over(device, clock, own, plain, shape, time.monotonic() < until, args.allocations),
                }
            )
            _print_row(found[-1])
            args.out.write_text(
                json.dumps({"card": device.description, "versions": versions_here(), "rows": found}, indent=1) + "\n",
                encoding="utf-8",
            )
    finally:
        device.release()
    for family in dict.fromkeys(row["family"] for row in found):
        own = [row for row in found if row["family"] == family]
        for rival in ("cublaslt", "cublas", "compiled"):
            ratios = [row[f"{rival}_us"] / row["ours_us"] for row in own if f"{rival}_us" in row]
            if ratios:
                print(
                    f"{family}: over {rival} {math.exp(statistics.fmean(map(math.log, ratios))):.3f} in "
                    f"geometric mean, least {min(ratios):.3f}"
                )
        ratios = [row["plain_cublas_us"] / row["plain_us"] for row in own if "plain_us" in row]
        if ratios:
            print(
                f"{family}: over cublas, nothing fused on either side, "
                f"{math.exp(statistics.fmean(map(math.log, ratios))):.3f} in geometric mean, least "
                f"{min(ratios):.3f}"
            )
    behind = [row["ours_us"] / min(p["us"] for p in row["plans"]) for row in found]
    print(
        f"the chosen plan takes {math.exp(statistics.fmean(map(math.log, behind))):.3f} of the fastest's time in "
        f"geometric mean, {max(behind):.3f} at most"
    )
    return 0


def _print_row(row: dict[str, Any]) -> None:
    rivals = [
        f"{name} {row[f'{name}_us']:.1f} us, {row[f'{name}_us'] / row['ours_us']:.2f}x"
        for name in ("cublaslt", "cublas", "compiled")
        if f"{name}_us" in row
    ]
    shape = "x".join(map(str, row["shape"]))
    if "plain_us" in row:
        rivals.append(
            f"alone {row['plain_us']:.1f} us, cublas {row['plain_cublas_us']:.1f} us, "
            f"{row['plain_cublas_us'] / row['plain_us']:.2f}x"
        )
    print(
        f"| {row['family']} | {shape} | {row['ours_us']:.1f} us, {row['tflops']:.0f} TFLOP/s, {row['gbs']:.0f} "
        f"GB/s | {' | '.join(rivals)} |",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
