"""Attention by warps (sm80's form) beside torch's FlashAttention 2 on one card, in one run:
`python tests/bench/attention.py --arch sm80 [--plans N] [--only WORD...] [--out results.json]
[--limit S]`.

The plans are those of family `streaming_mma`, the N that the cost model puts first for this card; the first is
what a card without a copy engine of its size would get. Each is compared with fp64 before it is timed: its error may be
1.1 times FA2's at most. A line a case: FA2's time, the first plan's, the fastest plan's, with registers and spills.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.bench import measured
from tests.bench.attention import MOST_ERROR, Case, graph_of, model_of, only, operands_of, rivals_of, wanted_of
from tests.bench.card import card_here
from tests.bench.measured import mean

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
    from tinyir.runtime.compile import cubins_of, usage_of

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
        (cubin,) = cubins_of(text, "sm_90a", jobs=1).values()  # as the program will ask for it
        (use,) = usage_of(cubin).values()
        name = f"{one.tile[0]}x{one.tile[1]} warp {one.warp_tile[0]} stages {one.stages}"
        name += f" ({candidate.cost.microseconds:.0f})"
        texts.append(Made(name, text, use.registers, use.spill_stores + use.spill_loads))
    return texts


def measure_case(device: Any, plans: list[Made], case: Case) -> dict[str, Any]:
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


def line(case: Case, row: dict[str, Any]) -> str:
    """What is printed of a case, and of each of its plans."""
    us, *_ = (us for name, us in row["us"].items() if name in row["held"])
    lines = [f"{row['ratio']:.3f} of fa2, best {row['best']:.3f}, {case.flops / us / 1e6:.0f} TFLOP/s, "
             f"fa2 {row['us']['rival fa2']:.1f} us"]  # fmt: skip
    for name, (registers, spills) in row["held"].items():
        lines.append(f"    {name}: {row['us'][name]:.1f} us, {registers} registers, {spills} B of spills")
    return "\n".join(lines)


def table(rows: list[dict[str, Any]]) -> str:
    """The means of each depth."""
    found = []
    for depth in DEPTHS:
        of = [row for row in rows if row["case"]["depth"] == depth]
        if of:
            found.append(f"D {depth}: {mean([row['ratio'] for row in of]):.3f} of fa2 by the first plan, "
                         f"{mean([row['best'] for row in of]):.3f} by the fastest")  # fmt: skip
    return "\n".join(found)


def measure(out: Path, limit: float, count: int, words: Sequence[str]) -> int:
    """Every case, or those whose names have one of the words, as many as are begun before the limit in seconds; the
    exit code."""
    texts = measured.made_of(only(cases(), words), functools.partial(made, count=count))
    return measured.measure(texts, out, limit, measure_case, line, table)


if __name__ == "__main__":
    sys.exit("run tests/bench/attention.py --arch sm80")
