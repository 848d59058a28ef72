"""How fast the texts are: parse, check, show and lower rates on a synthetic tiny text, start-up of every filter, the pipe's wall time.

    python tests/bench/text.py [--ops 20000]

Rates are printed at half the size and at the full size, so that growth shows: linear growth keeps the rate. Medians of three runs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tinyir.cmd.tinyc import lower_to  # noqa: E402
from tinyir.ir import tiny  # noqa: E402
from tinyir.ir.pipeline import FILTERS, STAGES, language_of  # noqa: E402

SAMPLE = ROOT / "samples" / "gemm_bias_relu"


def synthetic(ops: int) -> str:
    """A tiny text of `ops` values: a chain of elementwise ops, with a movement now and then and a reduction at the end of each row."""
    lines = ["tinyir 1.0 tiny", "", "model synthetic", "  in  x           : fp32[M, N]", "  out y           : fp32[M, N]", ""]
    last = "x"
    for i in range(ops):
        step = i % 5
        if step == 3:
            right = f"PERMUTE({last}) {{perm=[1, 0]}}"
        elif step == 2:
            right = f"RELU({last})"
        else:
            right = f"ADD({last}, {last})"
        turned = (i + 2) // 5 % 2
        lines.append(f"  %v{i} = {right} : fp32[{'N, M' if turned else 'M, N'}]")
        last = f"%v{i}"
    if (ops + 1) // 5 % 2:
        lines.append(f"  %back = PERMUTE({last}) {{perm=[1, 0]}} : fp32[M, N]")
        last = "%back"
    return "\n".join([*lines, "", f"outputs: y={last}", ""])


def seconds(work: Callable[[], Any], runs: int = 3) -> float:
    """Median wall time of `work`, in seconds."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def rates(ops: int) -> dict[str, float]:
    """Ops a second of each verb on tiny text, and of lowering it stage by stage as far as poly."""
    text = synthetic(ops)
    module = tiny.parse(text)
    assert [d for d in tiny.check(module) if d.is_error] == []
    found = {
        "tiny parse": ops / seconds(lambda: tiny.parse(text)),
        "tiny check": ops / seconds(lambda: tiny.check(module)),
        "tiny show": ops / seconds(lambda: tiny.show(module)),
    }
    for stage in STAGES[1:3]:
        start = time.perf_counter()
        module = lower_to(stage, module, "sm90")
        found[f"{stage} lower"] = ops / (time.perf_counter() - start)
        found[f"{stage} show"] = ops / seconds(lambda: language_of(stage).show(module), 1)
    return found


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", type=int, default=20000)
    ops = parser.parse_args().ops
    half, whole = rates(ops // 2), rates(ops)
    print(f"{'ops a second':<14} {ops // 2:>10} ops {ops:>10} ops   time for twice the ops")
    for verb in whole:
        print(f"{verb:<14} {half[verb]:>14,.0f} {whole[verb]:>14,.0f}   x{2 * half[verb] / whole[verb]:.2f}")

    environment = {**os.environ, "PATH": f"{ROOT / 'bin'}:{os.environ['PATH']}"}
    print(f"\n{'filter':<14} {'on the sample':>14}")
    for name, reads, _ in FILTERS[:-1]:
        source = SAMPLE / f"{SAMPLE.name}.{reads}"
        wall = seconds(lambda: subprocess.run([name, str(source)], env=environment, stdout=subprocess.DEVNULL, check=True), 5)
        print(f"{name:<14} {wall * 1e3:>11.0f} ms")
    pipe = " | ".join(name for name, _, _ in FILTERS[:-1])
    wall = seconds(lambda: subprocess.run(["sh", "-c", f"{pipe} < {SAMPLE}/{SAMPLE.name}.json"], env=environment, stdout=subprocess.DEVNULL, check=True), 5)
    print(f"{'the pipe':<14} {wall * 1e3:>11.0f} ms")


if __name__ == "__main__":
    main()
