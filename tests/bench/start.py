"""From a network to its first answer: what compiling takes, by compiler and jobs, and what a program that was saved
takes to start.

    python tests/bench/start.py [--network resnet50] [--dtype fp16]

Caches begin empty, in a folder of their own, but for the tables of the grammars. Units are the time of
`for i in range(10**7): s += i*i` in Python here. Without a GPU only the texts and the compilers are timed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import tinyir  # noqa: E402
from tests.models.counts import WHOLE  # noqa: E402
from tinyir.front.json import read  # noqa: E402
from tinyir.ir import manifest  # noqa: E402
from tinyir.ir.pipeline import STAGES  # noqa: E402
from tinyir.lower import language_of, lower_to  # noqa: E402
from tinyir.runtime.compile import cores, cubins_of, find_nvcc, find_nvrtc  # noqa: E402
from tinyir.runtime.cuda import find_fault  # noqa: E402


def unit() -> float:
    """Seconds of the loop that other times are told in."""
    begun, s = time.perf_counter(), 0
    for i in range(10**7):
        s += i * i
    return time.perf_counter() - begun


def timed(what: str, work: Callable[[], Any]) -> Any:
    """What `work` gives, its seconds printed, of the wall and of this process."""
    wall, own = time.perf_counter(), time.process_time()
    found = work()
    print(f"{what:<44} {time.perf_counter() - wall:8.3f} s wall {time.process_time() - own:8.3f} s here", flush=True)
    return found


def empty_cache() -> None:
    """A new folder for what is built; grammars stay where they are."""
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="tinyir-start-")


def emitted(text: str) -> str:
    """The CUDA text of a model, all texts checked, each stage timed."""
    module: Any = timed("read", lambda: read(text))
    for stage in STAGES[1:]:
        module = timed(f"lower to {stage}", lambda s=stage, m=module: lower_to(s, m, "sm90"))
        faults = timed(f"check {stage}", lambda s=stage, m=module: [d for d in language_of(s).check(m) if d.is_error])
        assert not faults, faults
    return language_of("cu").show(module)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--network", default="resnet50", choices=WHOLE)
    parser.add_argument("--dtype", default="fp16")
    args = parser.parse_args()
    model = WHOLE[args.network](dtype=args.dtype)
    print(f"unit {unit():.3f} s, {cores()} cores, {args.network} {args.dtype}")
    text = emitted(model.text)
    launches = manifest.parse(text).launches
    functions = len({launch.entry for launch in launches})
    print(f"{len(launches)} launches of {functions} kernels, {text.count(chr(10))} lines")
    for compiler, several in ((find_nvrtc(), (1, cores())), (find_nvcc(), (cores(),))):
        for jobs in dict.fromkeys(several) if compiler is not None else ():
            empty_cache()
            what = f"{compiler.name}, {jobs} at a time"
            timed(what, lambda c=compiler, j=jobs: cubins_of(text, "sm_90a", compiler=c, jobs=j))
        if compiler is not None:
            timed(f"{compiler.name}, from the cache", lambda c=compiler: cubins_of(text, "sm_90a", compiler=c))
    if find_fault() is not None:
        print(f"no GPU: {find_fault()}")
        return
    arrays = model.arrays()
    weights = {name: arrays[name] for name in model.weights}
    given = {name: array for name, array in arrays.items() if name not in weights}
    place = Path(tempfile.mkdtemp(prefix="tinyir-start-")) / "program.tinyir"
    answers = []
    for state in ("empty", "warm"):
        if state == "empty":
            empty_cache()
        begun = time.perf_counter()
        program = timed(f"compile, caches {state}", lambda: tinyir.compile(model.text, device="cuda", params=weights))
        answers.append(timed("  first answer", lambda p=program: p(**given)))
        print(f"  model to answer {time.perf_counter() - begun:.3f} s")
        timed("  save", lambda p=program: p.save(place))
        program.close()
    print(f"saved: {place.stat().st_size >> 20} MiB, weights inside")
    for _ in range(3):
        program = timed("load", lambda: tinyir.load(place, device="cuda"))
        answers.append(timed("  first answer", lambda p=program: p(**given)))
        program.close()
    same = [all(np.array_equal(a[n], answers[0][n]) for n in a) for a in answers]
    print(f"answers equal: {same}")


if __name__ == "__main__":
    main()
