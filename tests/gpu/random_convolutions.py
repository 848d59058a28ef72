"""Random convolutions (axes, groups, steps, spread, pads, odd channels, transposed, both orders, epilogues) on the
card, each equal to torch's in fp64 to the bit.

    python tests/gpu/random_convolutions.py [--count 500] [--seed 0] [--seconds 0]        needs a GPU, PyCUDA and torch

Operands are small whole numbers, so that every sum is exact and rounds once. All texts are compiled first, a model a
processor. Prints what differs, then the counts of right and wrong ones, of the kernels that made them, and of the
ungrouped ones of whole accesses that tensor cores multiply without a matrix of windows; exit code 1 when one is wrong,
or not so. With `--seconds 100` no more are run after that time.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.card import card_here  # noqa: E402
from tests.unit.random_convolutions import Convolution, drawn, misses  # noqa: E402


def emitted(case: Convolution, card: str | None) -> tuple[str, str, str]:
    """The CUDA text, compiled into the cache, the last kernel's algo and what is wrong with the plans; where that
    fails, why, after a question mark."""
    from tinyir.front import read
    from tinyir.ir import manifest
    from tinyir.lower import lower_to
    from tinyir.runtime.compile import cubins_of

    try:
        module: Any = read(case.model())
        for stage in ("index", "poly", "region", "plan"):
            module = lower_to(stage, module, "sm90", card)
        algo, missed = module.plans[-1].algo, misses(module, case)
        for stage in ("gpu", "cu"):
            module = lower_to(stage, module, "sm90")
        text = manifest.show(module)
        cubins_of(text, "sm_90a", jobs=1)
    except Exception as fault:  # noqa: BLE001 - it is told, and the others are run
        return f"?{type(fault).__name__}: {fault}", "none", ""
    return text, algo, missed


def wanted(case: Convolution, given: dict[str, Any]) -> Any:
    """What torch computes in fp64, in our order of dims."""
    import torch
    import torch.nn.functional as f

    axes = len(case.sizes)
    first = (0, axes + 1, *range(1, axes + 1))
    x, w = given["x"].double(), given["w"].double()
    x = x.permute(first) if case.is_last else x
    bias = given["b"].double() if "b" in given else None
    if case.is_transposed:
        # the whole of it, of which the padding takes away what is outside
        made = getattr(f, f"conv_transpose{axes}d")(
            x, w, bias, stride=case.steps, dilation=case.spread, groups=case.groups
        )
        for axis, (low, size) in enumerate(zip(case.before, case.out)):
            made = made.narrow(2 + axis, low, size)
    else:
        pads = [p for pair in reversed([*zip(case.before, case.behind)]) for p in pair]
        made = getattr(f, f"conv{axes}d")(
            f.pad(x, pads), w, bias, stride=case.steps, dilation=case.spread, groups=case.groups
        )
    made = made.permute(0, *range(2, axes + 2), 1) if case.is_last else made
    made = made.to(given["x"].dtype).double()
    if "r" in given:
        made = (made + given["r"].double()).to(given["x"].dtype).double()
    made = torch.relu(made) if "relu" in case.epilogue else made
    return made.to(given["x"].dtype)


def is_right(device: Any, case: Convolution, text: str, seed: int) -> bool:
    """Whether a text gives what torch gives; prints what differs."""
    import torch

    from tinyir.ir import manifest
    from tinyir.runtime.device import Buffer
    from tinyir.runtime.program import Program

    given = {n: torch.from_numpy(a).cuda() for n, a in case.arrays(seed).items()}
    ours = {
        **given,
        "y": torch.full(case.image(case.made, case.out), float("nan"), device="cuda", dtype=given["x"].dtype),
    }
    kept = {name: Buffer(name, t.data_ptr(), t.numel(), t.element_size(), 0) for name, t in ours.items()}
    program = Program(device, text, manifest.parse(text), {}, kept=kept)
    try:
        torch.cuda.synchronize()
        for _ in range(2):
            program.run()
        device.stream.synchronize()
        found = wanted(case, given)
        count = int((ours["y"] != found).sum())
        if count:
            print(f"{count} of {found.numel()} differ: {case}", flush=True)
        return not count
    finally:
        program.release()


def main() -> int:
    """Run all; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.0)
    args = parser.parse_args()
    began = time.monotonic()
    cases = [drawn(args.seed + number) for number in range(args.count)]
    right, algos, tensor_work = Counter(), Counter(), Counter()
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork")) as pool:
        texts = pool.map(emitted, cases, [card_here()] * len(cases))
        found = []
        for made in texts:
            found.append(made)
            if args.seconds and time.monotonic() - began > args.seconds:
                pool.shutdown(wait=False, cancel_futures=True)
                break
    from tinyir.runtime.cuda import CudaDevice

    device = CudaDevice()
    try:
        for number, (case, (text, algo, missed)) in enumerate(zip(cases, found)):
            tensor_work[case.is_tensor_work and not missed] += case.is_tensor_work
            if missed:
                print(f"{missed}: {case}", flush=True)
            if text.startswith("?"):
                print(f"{text[1:400]}: {case}", flush=True)
            is_one = not text.startswith("?") and is_right(device, case, text, number)
            right[is_one] += 1
            algos[algo] += 1
    finally:
        device.release()
    print(
        f"{right[True]} right, {right[False]} wrong; {dict(algos)}; ungrouped ones of whole accesses: "
        f"{tensor_work[True]} on tensor cores without a matrix of windows, {tensor_work[False]} not"
    )
    return 1 if right[False] or tensor_work[False] else 0


if __name__ == "__main__":
    sys.exit(main())
