"""Random attentions (sizes, depth and width, masks, work on scores, spelling, layout, dropout, log-sum-exp) by sm80's
form and by sm90's, each near playback of the model.

    python tests/gpu/random_attention.py [--device cuda|sim] [--count 500] [--longest 600] [--first 1000] [--jobs N]
      [--limit S] [--alike 4]

With `--alike 4` four attentions that differ in their number of rows and in their numbers share a text, in which that
number is a symbol: each has its own count of rows, NaN and infinities of its own (`plant`).

Models are compiled, played back and run side by side, one a processor. Prints what differs by more than roundings
explain (`tests/unit/random_attention`) and how many plans each family had, and how many were several kernels; exit code
1 when one differs. After `--limit` seconds no further text is begun.
"""

from __future__ import annotations

import argparse
import functools
import math
import multiprocessing
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.unit.random_attention import (  # noqa: E402
    TENSOR_CORES,
    attention_of,
    bounds_of,
    drawn,
    is_near,
    model_and_arrays,
    of_rows,
    plant,
    wanted_of,
    with_draws,
    with_warps,
)
from tinyir.kit.diag import Refused  # noqa: E402


@dataclass(frozen=True, slots=True)
class Made:
    """One attention that was run, and what is wrong with it. `algo` is empty where the time was over."""

    algo: str = ""
    told: str = ""
    fault: str = ""


def made(number: int, device: str, longest: int, end: float, alike: int, count: int) -> list[Made]:
    """The attentions of a text, `count` of the `alike` that share one, each run on the device."""
    if time.time() > end:
        return [Made()] * count
    from tinyir.ir import manifest
    from tinyir.lower import cu, gpu, lower_to
    from tinyir.lower import plan as to_plan
    from tinyir.runtime.compile import cubins_of

    how = drawn(number, longest)
    how = of_rows(how, number, longest) if alike > 1 else how
    module: Any = model_and_arrays(how, number)[0]
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    planned = to_plan.lower(module, "sm90")
    if number % 2:
        planned = with_warps(planned, number // 2)
    elif number % 4:
        planned = with_draws(planned, number // 4)
    one = attention_of(planned)
    algo = "several kernels" if one is None else one.algo
    found = []
    try:
        text = manifest.show(cu.lower(gpu.lower(planned)))
        if device == "cuda":
            cubins_of(text, "sm_90a", jobs=1)
        for seed in range(number * alike, number * alike + count):
            own = of_rows(how, seed, longest) if alike > 1 else how
            told = f"{number} {own}, {algo}{'' if one is None else f' {one.tile}'}"
            arrays = model_and_arrays(own, seed)[1]
            if alike > 1:
                plant(own, arrays, seed)
            wanted = wanted_of(own, arrays)
            bounds = bounds_of(own, arrays, wanted, one is None)
            found.append(Made(algo, told, fault_of(text, arrays, wanted, bounds, device)))
        return found
    except Refused as refused:
        return [Made(algo, f"{number} {how}", words_of(refused))] * count


def words_of(refused: Refused) -> str:
    """What is said of a text that is not taken."""
    return str([(d.code, dict(d.facts)) for d in refused.diags])[:400]


def fault_of(text: str, arrays: Any, wanted: Any, bounds: Any, device: str) -> str:
    """What is wrong with what a device computes, empty where nothing is."""
    from tinyir.ir import manifest
    from tinyir.play.arrays import bind_symbols
    from tinyir.runtime.program import Program

    try:
        code = manifest.parse(text)
        program = Program(card_of(device), text, code, bind_symbols(code.region.model, arrays))
        program.upload(arrays)
        program.run()
        fault = is_near(program.outputs(), wanted, bounds)
        program.release()
    except Refused as refused:
        fault = words_of(refused)
    return fault


@functools.cache
def card_of(device: str) -> Any:
    """The device of this process."""
    from tinyir.runtime.cuda import CudaDevice
    from tinyir.sim.launch import SimDevice

    return CudaDevice() if device == "cuda" else SimDevice(0, 60)


def main() -> int:
    """Run all; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--longest", type=int, default=600)
    parser.add_argument("--first", type=int, default=1000)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--limit", type=float, default=math.inf)
    parser.add_argument("--alike", type=int, default=1)
    args = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of playback: a process a processor is enough
    end = time.time() + args.limit
    make = functools.partial(made, device=args.device, longest=args.longest, end=end, alike=args.alike)
    texts = {args.first + n: min(args.alike, args.count - n * args.alike) for n in range(-(-args.count // args.alike))}
    taken, failed = Counter[str](), 0
    with ProcessPoolExecutor(args.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting = {pool.submit(make, number, count=count): number for number, count in texts.items()}
        for future in as_completed(list(waiting)):
            number, broken = waiting.pop(future), future.exception()
            for one in [Made("none", str(number), repr(broken))] * texts[number] if broken else future.result():
                taken[one.algo] += 1
                is_missed = one.algo not in (*TENSOR_CORES, "several kernels", "", "none")
                if fault := one.fault or "is not on tensor cores" * is_missed:
                    failed += 1
                    print(f"{one.told}: {fault}", flush=True)
    left = taken.pop("", 0)
    print(f"{args.count - left - failed} right, {failed} wrong, {left} not begun; {dict(taken)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
