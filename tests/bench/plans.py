"""The plan that the cost model chooses without measuring, beside the fastest of its candidates: GEMM + bias + ReLU in
fp16.

    python tests/bench/plans.py [--count 40] [--top 10] [--seconds 400] [--jobs 12] [--out results.json]   GPU, PyCUDA

Shapes are drawn anew from a seed, log-uniform in 128 to 4096: a quarter odd, a quarter with few rows, the rest
multiples of 64. For each the first `top` candidates of the model are checked against playback and timed from a cold L2
cache, as `tiny-tune` does it; what comes before, playback and compiling too, is done for several shapes at once by
`--jobs` processes. Prints a table; the JSON holds it with card and versions.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.card import card_here  # noqa: E402
from tinyir import front  # noqa: E402
from tinyir.ir import plan  # noqa: E402
from tinyir.lower import lower_to  # noqa: E402
from tinyir.lower import plan as lower_plan  # noqa: E402
from tinyir.play.region import play  # noqa: E402
from tinyir.runtime.arrays import random_arrays  # noqa: E402
from tinyir.runtime.compile import cubins_of, usage_of  # noqa: E402
from tinyir.tune.card import GpuCard  # noqa: E402
from tinyir.tune.program import alone, at_sizes, kernels_of  # noqa: E402
from tinyir.tune.trial import Emitted, Trial, check_candidate, emit  # noqa: E402

SECONDS = 0.03  # of timed runs a candidate
SAMPLE = ROOT / "samples" / "gemm_bias_relu" / "gemm_bias_relu.json"


def shapes(count: int, seed: int) -> list[dict[str, int]]:
    """Sizes of M, N and K."""
    draw = np.random.default_rng(seed)
    found = []
    for number in range(count):
        m, n, k = (int(2 ** draw.uniform(7, 12)) for _ in range(3))
        if number % 4 == 0:
            m, n, k = m | 1, n | 1, k | 1
        elif number % 4 == 1:
            m, n, k = int(2 ** draw.uniform(0, 7)), -(-n // 64) * 64, -(-k // 64) * 64
        else:
            m, n, k = (-(-size // 64) * 64 for size in (m, n, k))
        found.append({"M": m, "N": n, "K": k})
    return found


def planned(sizes: dict[str, int], top: int) -> tuple[plan.Module, list[plan.Plan]]:
    """The sample planned at these sizes, and the model's candidates in its order."""
    module: Any = front.read(SAMPLE.read_text(encoding="utf-8"))
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    chosen = lower_plan.lower(at_sizes(module, sizes), device=card_here())
    (names,) = kernels_of(chosen)
    found = lower_plan.candidates(chosen.program, chosen.program.program.region(names[0]), device=card_here())
    return chosen, [c.plan for c in found if not c.rejected][:top]


@dataclass(frozen=True)
class Prepared:
    """The candidates of a shape, each compiled into the cache, with what ptxas says of it; random inputs, and what
    playback makes of them."""

    sizes: dict[str, int]
    candidates: list[tuple[Emitted, dict[str, Any]]]
    arrays: dict[str, np.ndarray]
    wanted: dict[str, np.ndarray]


def prepared(case: tuple[dict[str, int], int]) -> Prepared:
    """All that needs no GPU."""
    sizes, top = case
    chosen, listed = planned(sizes, top)
    program = alone(chosen.program, listed[0].regions, sizes)
    arrays = random_arrays(program.model, sizes, 0)
    emitted = [emit(program, one, sizes) for one in listed]
    usages = [usage_of(*cubins_of(e.text, "sm_90a", jobs=1).values()) if e.module is not None else {} for e in emitted]
    return Prepared(sizes, list(zip(emitted, usages)), arrays, play(program, arrays))


def tried(card: GpuCard, case: Prepared) -> list[Trial]:
    """Each candidate, in the model's order."""
    return [
        check_candidate(card, one, case.sizes, case.arrays, case.wanted, usage)
        if one.module is not None
        else Trial(one.plan, None, one.reason)
        for one, usage in case.candidates
    ]


def main() -> int:
    """Measure and print; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--top", type=int, default=10)
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=400.0, help="stop after this long and report what there is")
    parser.add_argument("--jobs", type=int, default=12, help="processes that compile")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    until = time.monotonic() + args.seconds
    every = shapes(args.count, args.seed)
    os.environ.setdefault("OMP_NUM_THREADS", "2")  # of each process
    with ProcessPoolExecutor(args.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        work = list(pool.map(prepared, [(sizes, args.top) for sizes in every]))
    card = GpuCard(SECONDS)
    print(f"{card.name}, {card.compiler}; compiled with {until - time.monotonic():.0f} s left", flush=True)
    rows = []
    for case in work:
        if time.monotonic() > until:
            break
        sizes, trials = case.sizes, tried(card, case)
        first, timed = trials[0], [t for t in trials if t.microseconds is not None]
        best = min(timed, key=lambda t: t.microseconds)
        if first.microseconds is None:
            print(f"{sizes}: the model's choice was not timed: {first.reason}", flush=True)
            return 1
        ratio = first.microseconds / best.microseconds
        rows.append(
            {
                **sizes,
                "chosen_us": first.microseconds,
                "best_us": best.microseconds,
                "ratio": ratio,
                "model_us": first.plan.estimate.microseconds,
                "timed": len(timed),
                "refused": [str(t.reason) for t in trials if t.reason],
                "chosen": plan.show_plan(first.plan),
                "best": plan.show_plan(best.plan),
            }
        )
        print(
            f"{'x'.join(map(str, sizes.values())):<16} chosen {first.microseconds:9.2f} us  best "
            f"{best.microseconds:9.2f} us  {ratio:.3f}x  "
            f"model {first.plan.estimate.microseconds:g} us  {len(timed)} timed",
            flush=True,
        )
    card.close()
    ratios = [r["ratio"] for r in rows]
    mean, worst = math.exp(sum(map(math.log, ratios)) / len(ratios)), max(ratios)
    print(
        f"{len(rows)} of {args.count} shapes: the model's choice takes {mean:.3f}x the fastest of {args.top} in "
        f"geometric mean, {worst:.3f}x at worst"
    )
    if args.out:
        args.out.write_text(
            json.dumps(
                {
                    "card": card.name,
                    "compiler": card.compiler,
                    "python": sys.version.split()[0],
                    "seed": args.seed,
                    "top": args.top,
                    "geometric_mean": mean,
                    "worst": worst,
                    "shapes": rows,
                },
                indent=1,
            )
            + "\n",
            encoding="utf-8",
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
