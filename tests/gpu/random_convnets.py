"""Random small networks of convolutions on the card, each beside torch's in fp64.

    python tests/gpu/random_convnets.py [--count 100] [--seed 0] [--seconds 0]        needs a GPU, PyCUDA and torch

All texts are compiled first, a model a processor. The largest error of an output, in units of its largest number, must
be no more than twice that of torch in the model's dtype, or 2^-9 in fp16 and 2^-18 in fp32. Prints what differs, then
the counts of right and wrong ones and of the kernels that made them; exit code 1 when one is wrong. With
`--seconds 100` no more are run after that time.
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
from tests.models.torch_source import torch_network  # noqa: E402
from tests.unit.random_convnets import drawn  # noqa: E402

TOLERATED = {"fp16": 2.0**-9, "fp32": 2.0**-18}


def emitted(seed: int, card: str | None) -> tuple[str, list[str]]:
    """The CUDA text, compiled into the cache, and the algos of its kernels; where that fails, why, after a question
    mark."""
    from tinyir.front import read
    from tinyir.ir import manifest
    from tinyir.lower import lower_to
    from tinyir.runtime.compile import cubins_of

    try:
        module: Any = read(drawn(seed).text)
        for stage in ("index", "poly", "region", "plan"):
            module = lower_to(stage, module, "sm90", card)
        algos = [plan.algo for plan in module.plans]
        for stage in ("gpu", "cu"):
            module = lower_to(stage, module, "sm90")
        text = manifest.show(module)
        cubins_of(text, "sm_90a", jobs=1)
    except Exception as fault:  # noqa: BLE001 - it is told, and the others are run
        return f"?{type(fault).__name__}: {fault}", []
    return text, algos


def difference(device: Any, seed: int, text: str) -> str:
    """What a text gives that torch does not, in words; empty where nothing is."""
    import torch

    from tinyir.ir import manifest
    from tinyir.runtime.device import Buffer
    from tinyir.runtime.program import Program

    model = drawn(seed)
    arrays = model.arrays(seed)
    given = {n: torch.from_numpy(a).cuda() for n, a in arrays.items()}
    kinds = {"fp16": torch.float16, "fp32": torch.float32}
    names = [e["tensor"] for e in model.graph["signature"]["outputs"]]
    dtype = model.graph["tensors"]["x"]["dtype"]
    ours = {
        n: torch.full(model.graph["tensors"][n]["shape"], float("nan"), device="cuda", dtype=kinds[dtype])
        for n in names
    }
    kept = {n: Buffer(n, t.data_ptr(), t.numel(), t.element_size(), 0) for n, t in {**given, **ours}.items()}
    program = Program(device, text, manifest.parse(text), {}, kept=kept)
    try:
        torch.cuda.synchronize()
        for _ in range(2):
            program.run()
        device.stream.synchronize()
        with torch.no_grad():
            wanted = torch_network(model, arrays, torch.float64)(given["x"].double())
            theirs = torch_network(model, arrays, kinds[dtype])(given["x"])
    finally:
        program.release()
    for name, right, near in zip(names, wanted, theirs):
        errors = [float((t.double() - right).abs().max() / right.abs().max()) for t in (ours[name], near)]
        if not errors[0] <= max(2 * errors[1], TOLERATED[dtype]):
            return f"error of {name} {errors[0]:.2e}, torch's {errors[1]:.2e}"
    return ""


def main() -> int:
    """Run all; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.0)
    args = parser.parse_args()
    seeds = range(args.seed, args.seed + args.count)
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork")) as pool:
        texts = list(pool.map(emitted, seeds, [card_here()] * len(seeds)))
    import torch

    from tinyir.runtime.cuda import CudaDevice

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    began, right, kernels = time.monotonic(), Counter(), Counter()
    device = CudaDevice()
    try:
        for seed, (text, algos) in zip(seeds, texts):
            if args.seconds and time.monotonic() - began > args.seconds:
                break
            said = text[1:400] if text.startswith("?") else difference(device, seed, text)
            if said:
                print(f"network {seed}: {said}", flush=True)
            right[not said] += 1
            kernels.update(algos)
    finally:
        device.release()
    print(f"{right[True]} right, {right[False]} wrong; {dict(kernels)}")
    return 1 if right[False] else 0


if __name__ == "__main__":
    sys.exit(main())
