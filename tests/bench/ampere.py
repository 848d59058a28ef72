"""Contractions on mma.sync (sm80's tensor cores) beside cuBLAS and beside the instruction's ceiling on the card, in one
run.

    python tests/bench/ampere.py [--out results.json] [--all]     measure; needs a GPU, PyCUDA and torch
    python tests/bench/ampere.py --list                           the plans and shapes, which needs none of them

The plans are those that an sm80 gets, each shape's first, compiled for this card. `--all` measures instead each
candidate of the same form for that card at each shape, one text for all sizes, to fit the cost model to. Operands are
random normal, outputs are as near to fp64 as torch.matmul's are, each run starts from a cold L2 cache. Microseconds are
medians; the ceiling is `reached.mma_sync` of the card's peak.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.card import card_here, versions_here  # noqa: E402
from tests.bench.gemm import model_of, timed  # noqa: E402
from tinyir.ir import plan as plan_text  # noqa: E402
from tinyir.ir.plan import Plan  # noqa: E402

SHAPES = (
    (512, 512, 512),
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (4096, 11008, 4096),
    (256, 4096, 4096),
    (640, 1536, 3072),
    (3072, 640, 768),
    (1280, 1280, 4096),
)
ODD = ((4093, 4099, 4111), (1000, 3000, 777), (2047, 2047, 2047), (511, 513, 1025))
EVEN = ((2046, 2050, 2044), (1000, 3002, 778))
FEW, MANY = 8, 30  # runs of a plan, of many and alone
LAYOUTS = ("NN", "NT", "TN", "TT")


def name_of(plan: Plan) -> str:
    """A plan in a word: tile, stages, elements of a copy along each axis, operands that are padded before."""
    widths = ",".join(f"{v.axis}:{v.width}" for v in plan.vectorize) or "1"
    padded = "".join(f" {item.tensor} padded" for item in plan.layout if plan.is_padded(item.tensor))
    return f"{'x'.join(map(str, plan.tile))} stages {plan.stages} widths {widths}{padded}"


def candidates_at(
    shape: tuple[int, int, int], layout: str = "NN", dtype: str = "fp16", *, arch: str
) -> list[tuple[str, Plan, Any]]:
    """The multistage candidates of an architecture, the cheapest first, with the region module."""
    from tinyir.front import read
    from tinyir.lower import lower_to
    from tinyir.lower.plan import CROWDED, candidates

    module: Any = read(model_of(dtype, layout, shape), "gemm.json")
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, arch)
    found = candidates(module, module.program.regions[0], arch)
    kept = sorted(
        (c for c in found if c.plan.algo == "multistage" and c.rejected in ("", CROWDED)),
        key=lambda c: c.cost.microseconds,
    )
    return [(name_of(c.plan), replace(c.plan, estimate=None), module) for c in kept]


def text_of(plan: Plan, module: Any) -> str:
    """The CUDA of a plan."""
    from tinyir.ir import manifest
    from tinyir.lower import cu, gpu

    return manifest.show(cu.lower(gpu.lower(plan_text.Module(module, (plan,)))))


def compiled(item: tuple[str, Plan, Any]) -> tuple[str, str, int, int]:
    """A plan's name and text, the most registers of its kernels and their spills; the cubin is left in the cache."""
    from tinyir.runtime.compile import cubins_of, usage_of

    text = text_of(item[1], item[2])
    uses = usage_of(*cubins_of(text, "sm_90a", jobs=1).values()).values()
    return item[0], text, max(use.registers for use in uses), sum(use.spill_stores + use.spill_loads for use in uses)


def measure_shape(
    device: Any, texts: dict[str, str], dtype: str, layout: str, shape: tuple[int, int, int]
) -> dict[str, Any]:
    """One row: each plan's time and error, and those of torch.matmul with bias and ReLU left out."""
    import torch

    from tests.bench.gemm import on_stream
    from tinyir.ir import manifest
    from tinyir.runtime.device import Buffer
    from tinyir.runtime.program import Program

    m, n, k = shape
    torch.manual_seed(m + n + k)
    kind = {"fp16": torch.float16, "bf16": torch.bfloat16}[dtype]
    a, b = (
        torch.randn(*dims, device="cuda").to(kind)
        for dims in ((k, m) if layout[0] == "T" else (m, k), (n, k) if layout[1] == "T" else (k, n))
    )
    bias = torch.randn(n, device="cuda").to(kind)
    c = torch.empty((m, n), device="cuda", dtype=kind)
    left, right = (a.t() if layout[0] == "T" else a), (b.t() if layout[1] == "T" else b)
    kept = {
        name: Buffer(name, t.data_ptr(), t.numel(), t.element_size(), 0)
        for name, t in zip(("A", "B", "bias", "C"), (a, b, bias, c))
    }
    checked = torch.linspace(0, m - 1, min(m, 512), device="cuda").long()
    wanted = torch.relu(left[checked].double() @ right.double() + bias.double())
    theirs = torch.relu(torch.addmm(bias, left, right)[checked].double())
    rival_error = float((theirs - wanted).norm() / wanted.norm())
    errors, times = {}, []
    for name, text in texts.items():
        c.fill_(math.nan)
        torch.cuda.synchronize()
        program = Program(device, text, manifest.parse(text), dict(zip("MNK", shape)), kept=kept)
        program.run()
        errors[name] = float((c[checked].double() - wanted).norm() / wanted.norm())
        if not errors[name] <= 1.02 * rival_error or bool(torch.isnan(c).any()):
            raise SystemExit(f"{name} at {shape} {layout} {dtype}: error {errors[name]:.3e}, torch's {rival_error:.3e}")
        found = timed(
            device,
            [program.enqueue, on_stream(device, lambda: torch.matmul(left, right))],
            FEW if len(texts) > 4 else MANY,
        )
        times.append(found)
    ours, rival = zip(*times)
    return {
        "shape": list(shape),
        "layout": layout,
        "dtype": dtype,
        "plans_us": dict(zip(texts, ours)),
        "matmul_us": statistics.median(rival),
        "error": max(errors.values()),
        "error_torch": rival_error,
    }


def cases(is_all: bool) -> list[tuple[str, str, tuple[int, int, int], list[tuple[str, Plan, Any]]]]:
    """dtype, layout, shape, and the plans to measure there."""
    found = []
    arch = "sm90" if is_all else "sm80"
    every = candidates_at((4096, 4096, 4096), arch=arch) if is_all else []
    for shape in (*SHAPES, *EVEN, *ODD):
        fits = (
            [c for c in every if all(b.holds(dict(zip("MNK", shape))) for b in c[1].assume)]
            if shape in SHAPES or shape in ODD
            else []
        )
        found.append(("fp16", "NN", shape, fits or candidates_at(shape, arch=arch)[:1]))
    for layout in LAYOUTS:
        for shape in ((4096, 4096, 4096), (1001, 999, 1003), (1002, 996, 1004)):
            for dtype in ("fp16", "bf16"):
                found.append((dtype, layout, shape, candidates_at(shape, layout, dtype, arch=arch)[:1]))
    return found


def main() -> int:
    """List, or measure; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("ampere.json"))
    args = parser.parse_args()
    plans = cases(args.all)
    if args.list:
        for dtype, layout, shape, some in plans:
            print(f"{dtype} {layout} {'x'.join(map(str, shape))}: {len(some)} plans, the first {some[0][0]}")
        return 0
    import torch

    from tinyir.runtime.cuda import CudaDevice
    from tinyir.target.device import get_device

    texts: dict[str, dict[str, str]] = {}
    with ProcessPoolExecutor() as pool:
        jobs = {f"{dtype} {layout} {item[0]}": item for dtype, layout, _, some in plans for item in some}
        for (key, _), (name, text, registers, spills) in zip(jobs.items(), pool.map(compiled, jobs.values())):
            texts[key] = {name: text}
            if spills:
                print(f"{key}: {registers} registers, {spills} B spilled", flush=True)
    torch.cuda.init()
    device, card = CudaDevice(), get_device(card_here() or "h100")
    ceiling = card.peak["mma_fp16"] * card.reached["mma_sync"]
    rows = []
    try:
        for dtype, layout, shape, some in plans:
            one = {name: text for item in some for name, text in texts[f"{dtype} {layout} {item[0]}"].items()}
            rows.append(measure_shape(device, one, dtype, layout, shape))
            first, best = some[0][0], min(rows[-1]["plans_us"], key=rows[-1]["plans_us"].__getitem__)
            rate = 2 * math.prod(shape) / rows[-1]["plans_us"][best] / 1e6
            print(
                f"| {dtype} {layout} | {'x'.join(map(str, shape))} | {best}: {rows[-1]['plans_us'][best]:.1f} "
                f"us, {rate:.0f} TFLOP/s, {rate / ceiling:.2f} of the ceiling | "
                f"first {rows[-1]['plans_us'].get(first, math.nan):.1f} us | matmul {rows[-1]['matmul_us']:.1f} us |",
                flush=True,
            )
            args.out.write_text(
                json.dumps(
                    {"card": device.description, "versions": versions_here(), "ceiling_tflops": ceiling, "rows": rows},
                    indent=1,
                )
                + "\n",
                encoding="utf-8",
            )
    finally:
        device.release()
    return 0


if __name__ == "__main__":
    sys.exit(main())
