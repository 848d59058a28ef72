"""Random attentions (sizes, depth and width, masks, work on scores, spelling, layout, dropout, log-sum-exp) by sm80's
form and by sm90's, each near playback of the model.

    python tests/gpu/random_attention.py [--device cuda|sim] [--count 500] [--longest 600] [--first 1000] [--jobs N]
      [--limit S]

Prints what differs by more than roundings explain (`tests/unit/random_attention`) and how many plans each family had;
exit code 1 when one does. After `--limit` seconds no further one is begun.
"""

from __future__ import annotations

import argparse
import functools
import math
import multiprocessing
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.unit.random_attention import (  # noqa: E402
    TENSOR_CORES,
    attention_of,
    drawn,
    is_near,
    model_and_arrays,
    wanted_of,
    with_warps,
)
from tinyir.kit.diag import Refused  # noqa: E402


def device_of(name: str) -> Any:
    """A device for one trial."""
    if name == "sim":
        from tinyir.sim.launch import SimDevice

        return SimDevice(0, 60)
    from tinyir.runtime.cuda import CudaDevice

    return CudaDevice()


def trial(number: int, device: str, longest: int, end: float) -> tuple[str, str]:
    """The family of one attention, and what is wrong with it, empty where nothing is; no family after `end`."""
    if time.time() > end:
        return "", ""
    from tinyir.ir import manifest
    from tinyir.lower import cu, gpu, lower_to
    from tinyir.lower import plan as to_plan
    from tinyir.play.arrays import bind_symbols
    from tinyir.runtime.program import Program

    how = drawn(number, longest)
    model, arrays = model_and_arrays(how, number)
    module: Any = model
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    planned = to_plan.lower(module, "sm90")
    if number % 2:
        planned = with_warps(planned, number // 2)
    one = attention_of(planned)
    try:
        code = cu.lower(gpu.lower(planned))
        wanted = wanted_of(how, arrays)
        card = device_of(device)
        program = Program(card, manifest.show(code), code, bind_symbols(code.region.model, arrays))
        program.upload(arrays)
        program.run()
        fault = is_near(program.outputs(), wanted, how, arrays)
        card.release()
    except Refused as refused:
        fault = str([(d.code, dict(d.facts)) for d in refused.diags])[:400]
    if one.algo not in TENSOR_CORES:
        fault = fault or f"is computed by {one.algo}"
    return one.algo, f"{number} {how}, {one.algo} {one.tile}: {fault}" if fault else ""


def main() -> int:
    """Run all; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--longest", type=int, default=600)
    parser.add_argument("--first", type=int, default=1000)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--limit", type=float, default=math.inf)
    args = parser.parse_args()
    run = functools.partial(trial, device=args.device, longest=args.longest, end=time.time() + args.limit)
    numbers = range(args.first, args.first + args.count)
    taken, failed = Counter[str](), 0
    with ProcessPoolExecutor(args.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for algo, fault in pool.map(run, numbers):
            taken[algo] += 1
            if fault:
                failed += 1
                print(fault, flush=True)
    left = taken.pop("", 0)
    print(f"{args.count - left - failed} right, {failed} wrong, {left} not begun; {dict(taken)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
