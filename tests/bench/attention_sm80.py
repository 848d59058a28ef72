"""Attention by warps (sm80's form) beside torch's FlashAttention 2 on one card, in one run:
`python tests/bench/attention.py --arch sm80 [--plans N] [--out results.json] [--limit S]`.

The plans are those of family `streaming_mma`, the N that the cost model puts first for this card; the first is
what a card without a copy engine of its size would get. Each is compared with fp64 before it is timed: its error may be
1.1 times FA2's at most. A line a case: FA2's time, the first plan's, the fastest plan's, with registers and spills.
"""

from __future__ import annotations

import functools
import json
import multiprocessing
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.bench.attention import MOST_ERROR, Case, graph_of, mean, model_of, operands_of, rivals_of, wanted_of
from tests.bench.card import card_here, versions_here

LENGTHS = (512, 1024, 2048, 4096, 16384)
DEPTHS = (64, 128, 256)
RUNS = 11


@dataclass(frozen=True, slots=True)
class Made:
    """The text of a plan, and what its compiler allotted."""

    plan: str
    text: str
    registers: int
    spills: int


def cases() -> list[Case]:
    """What is measured."""
    from tests.bench.attention import sweep

    return [
        *sweep("fp16", LENGTHS, DEPTHS),
        *sweep("bf16", (4096,), DEPTHS),
        *sweep("fp16", (197, 1000, 1500, 4093), (64, 128)),
        Case("fp16", 4, 32, 8, 4096, 128, is_causal=True),
        Case("fp16", 1, 16, 16, 16384, 128, is_causal=True, window=1024),
    ]


def made(case: Case, count: int) -> list[Made]:
    """The plans that the cost model puts first, the cheapest first, each tile once for one number of stages."""
    from tinyir.front import read
    from tinyir.ir import manifest, plan
    from tinyir.lower import cu, gpu, lower_to
    from tinyir.lower.plan import CROWDED, candidates
    from tinyir.runtime.compile import cubin_of, usage_of

    module: Any = read(model_of(case), "attention.json")
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    found = candidates(module, module.program.regions[0], "sm90", card_here())
    kept = sorted(
        (c for c in found if c.plan.algo == "streaming_mma" and c.rejected in ("", CROWDED)),
        key=lambda c: c.cost.microseconds,
    )
    texts = []
    for candidate in kept[:count]:
        one = candidate.plan
        text = manifest.show(cu.lower(gpu.lower(plan.Module(module, (one,)))))
        (use,) = usage_of(cubin_of(text, "sm_90a")).values()
        name = f"{one.tile[0]}x{one.tile[1]} warp {one.warp_tile[0]} stages {one.stages}"
        name += f" ({candidate.cost.microseconds:.0f})"
        texts.append(Made(name, text, use.registers, use.spill_stores + use.spill_loads))
    return texts


def measure_case(device: Any, case: Case, plans: list[Made]) -> dict[str, Any]:
    """One row: the time and the error of each plan, and those of FA2."""
    import torch

    from tests.bench.gemm import timed
    from tinyir.ir import manifest
    from tinyir.runtime.device import Buffer
    from tinyir.runtime.graph import Graph
    from tinyir.runtime.program import Program

    x = operands_of(case)
    kept = {name: Buffer(name, t.data_ptr(), t.numel(), t.element_size(), 0) for name, t in x.items()}
    wanted, rows_of = wanted_of(case, x)
    rivals = {n: r for n, r in rivals_of(case, x).items() if n in ("fa2", "cudnn")}

    def error_of(output: Any) -> float:
        return float((rows_of(output) - wanted).norm() / wanted.norm())

    errors = {f"rival {name}": error_of(run()) for name, run in rivals.items()}
    runs: dict[str, Callable[[], None]] = {f"rival {name}": graph_of(device, run) for name, run in rivals.items()}
    programs, graphs = [], []
    for one in plans:
        x["O"].fill_(float("nan"))
        torch.cuda.synchronize()
        program = Program(device, one.text, manifest.parse(one.text), {"B": case.batch, "S": case.length}, kept=kept)
        program.run()
        device.stream.synchronize()
        errors[one.plan] = error_of(x["O"])
        graph = Graph(device.stream.handle, program.enqueue)
        programs.append(program)
        graphs.append(graph)
        runs[one.plan] = graph.run
    us = dict(zip(runs, timed(device, list(runs.values()), RUNS)))
    for graph, program in zip(graphs, programs):
        graph.release()
        program.release()
    nearest = min(errors[n] for n in errors if n.startswith("rival"))
    return {
        "case": asdict(case),
        "us": us,
        "errors": errors,
        "is_near": all(error <= MOST_ERROR * nearest for error in errors.values()),
        "ratio": us["rival fa2"] / us[plans[0].plan],
        "best": max(us["rival fa2"] / us[one.plan] for one in plans),
        "held": {one.plan: [one.registers, one.spills] for one in plans},
    }


def measure(out: Path, limit: float, count: int) -> int:
    """Every case, or as many as are begun before the limit in seconds; the exit code."""
    import torch

    from tinyir.runtime.cuda import CudaDevice

    begun = time.monotonic()
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        texts = dict(zip(cases(), pool.map(functools.partial(made, count=count), cases())))
    print(f"compiled in {time.monotonic() - begun:.0f} s", flush=True)
    torch.cuda.init()
    device = CudaDevice()
    rows: list[dict[str, Any]] = []
    begun = time.monotonic()
    try:
        for case, plans in texts.items():
            if time.monotonic() - begun > limit:
                break
            row = measure_case(device, case, plans)
            rows.append(row)
            torch.cuda.empty_cache()
            print(f"{case.name}: {row['ratio']:.3f} of fa2, best {row['best']:.3f}, "
                  f"{case.flops / row['us'][plans[0].plan] / 1e6:.0f} TFLOP/s, fa2 {row['us']['rival fa2']:.1f} us"
                  f"{'' if row['is_near'] else ' NOT NEAR ' + str(row['errors'])}", flush=True)  # fmt: skip
            for one in plans:
                print(f"    {one.plan}: {row['us'][one.plan]:.1f} us, {one.registers} registers, "
                      f"{one.spills} B of spills", flush=True)  # fmt: skip
            out.write_text(
                json.dumps({"card": device.description, "versions": versions_here(), "rows": rows}, indent=1)
            )
    finally:
        device.release()
    for depth in DEPTHS:
        of = [row for row in rows if row["case"]["depth"] == depth]
        if of:
            print(f"D {depth}: {mean([row['ratio'] for row in of]):.3f} of fa2 by the first plan, "
                  f"{mean([row['best'] for row in of]):.3f} by the fastest")  # fmt: skip
    return 0 if all(row["is_near"] for row in rows) and len(rows) == len(texts) else 1


if __name__ == "__main__":
    sys.exit("run tests/bench/attention.py --arch sm80")
