"""How fast the texts are: rates of each verb on a synthetic tiny text, networks stage by stage, start-up of every
filter, the pipe.

    python tests/bench/text.py [--ops 20000]

Rates are printed at half the size and at the full size, and networks once and twice as deep, so that growth shows:
linear growth keeps the rate. The fastest of three runs, in seconds of the processor; wall time for what starts
processes. As in the filters, no garbage is collected meanwhile.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.models import RandomModel, bert, resnet50  # noqa: E402
from tinyir.front.json import read  # noqa: E402
from tinyir.ir import tiny  # noqa: E402
from tinyir.ir.pipeline import FILTERS, STAGES, language_of  # noqa: E402
from tinyir.lower import lower_to  # noqa: E402

SAMPLE = ROOT / "samples" / "gemm_bias_relu"


def synthetic(ops: int) -> str:
    """A tiny text of `ops` values: a chain of elementwise ops, with a movement now and then and a reduction at the end
    of each row."""
    lines = [
        "tinyir 1.0 tiny",
        "",
        "model synthetic",
        "  in  x           : fp32[M, N]",
        "  out y           : fp32[M, N]",
        "",
    ]
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


def seconds(work: Callable[[], Any], runs: int = 3, clock: Callable[[], float] = time.process_time) -> float:
    """The least time of `work` by `clock`, in seconds."""
    times = []
    for _ in range(runs):
        start = clock()
        work()
        times.append(clock() - start)
    return min(times)


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
        start = time.process_time()
        module = lower_to(stage, module, "sm90")
        found[f"{stage} lower"] = ops / (time.process_time() - start)
        found[f"{stage} show"] = ops / seconds(lambda: language_of(stage).show(module), 1)
    return found


NETWORKS: dict[str, tuple[Callable[[], RandomModel], Callable[[], RandomModel]]] = {
    "resnet50": (resnet50, lambda: resnet50(layers=(6, 8, 12, 6))),
    "bert": (bert, lambda: bert(layers=24)),
    "chain of 1000": (lambda: chain(1000), lambda: chain(2000)),
}
COLUMNS = ("front", "index", "poly")


def chain(ops: int) -> RandomModel:
    """Elementwise ops and movements in a row, on one tensor."""
    steps = [
        {"op": "Elementwise", "attrs": {"fn": "relu"}},
        {"op": "Transpose", "attrs": {"perm": [1, 0]}},
        {"op": "Elementwise", "attrs": {"fn": "mul"}},
        {"op": "Flip", "attrs": {"axes": [0]}},
        {"op": "Pad", "attrs": {"pads": [1, 0, 0, 0]}},
        {"op": "Transpose", "attrs": {"perm": [1, 0]}},
        {"op": "Slice", "attrs": {"starts": [1], "ends": [1025], "axes": [1]}},
    ]
    graph = []
    for at in range(ops):
        step = steps[at % len(steps)]
        last = f"v{at - 1}" if at else "x"
        graph.append(
            {
                **step,
                "name": f"v{at}",
                "inputs": [last, last] if step["attrs"].get("fn") == "mul" else [last],
                "outputs": [f"v{at}"],
            }
        )
    # 7 steps come back to the shape that they began with, in rows of 1024
    end = ops - 1 - ops % len(steps)
    tensors = {"x": {"dtype": "fp32", "shape": [512, 1024]}, f"v{end}": {"dtype": "fp32", "shape": [512, 1024]}}
    signature = {"inputs": [{"tensor": "x"}], "outputs": [{"tensor": f"v{end}"}]}
    return RandomModel("chain", {"signature": signature, "tensors": tensors, "graph": graph[: end + 1]}, {})


def by_stage(model: RandomModel) -> tuple[int, dict[str, float]]:
    """The number of values, and the seconds of each stage, in one process; the fastest of three runs."""
    best: dict[str, float] = {}
    text = model.text
    for _ in range(3):
        start = time.process_time()
        module = read(text)
        count = len(module.values)
        best["front"] = min(best.get("front", 1e9), time.process_time() - start)
        for stage in COLUMNS[1:]:
            start = time.process_time()
            module = lower_to(stage, module, "sm90")
            best[stage] = min(best.get(stage, 1e9), time.process_time() - start)
    return count, best


def networks() -> None:
    """The table of networks by stage, and their growth when they are twice as deep."""
    print(f"\n{'network':<14} {'values':>7}" + "".join(f"{c:>10}" for c in COLUMNS) + f"{'together':>10}")
    total = 0.0
    for name, (once, twice) in NETWORKS.items():
        count, found = by_stage(once())
        deeper, more = by_stage(twice())
        once_all, twice_all = sum(found.values()), sum(more.values())
        print(
            f"{name:<14} {count:>7}"
            + "".join(f"{found[c] * 1e3:>7.0f} ms" for c in COLUMNS)
            + f"{once_all * 1e3:>7.0f} ms"
        )
        print(
            f"{'  growth':<14} {deeper / count:>6.2f}x"
            + "".join(f"{more[c] / found[c]:>9.2f}x" for c in COLUMNS)
            + f"{twice_all / once_all:>9.2f}x"
        )
        total += once_all if name in ("resnet50", "bert") else 0
    print(f"tiny to poly of ResNet-50 and BERT-base together, JSON included: {total:.2f} s")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", type=int, default=20000)
    ops = parser.parse_args().ops
    gc.disable()
    half, whole = rates(ops // 2), rates(ops)
    print(f"{'ops a second':<14} {ops // 2:>10} ops {ops:>10} ops   time for twice the ops")
    for verb in whole:
        print(f"{verb:<14} {half[verb]:>14,.0f} {whole[verb]:>14,.0f}   x{2 * half[verb] / whole[verb]:.2f}")
    networks()

    environment = {**os.environ, "PATH": f"{ROOT / 'bin'}:{os.environ['PATH']}"}
    print(f"\n{'filter':<14} {'on the sample':>14}")
    for name, reads, _ in FILTERS[:-1]:
        source = SAMPLE / f"{SAMPLE.name}.{reads}"
        wall = seconds(
            lambda: subprocess.run([name, str(source)], env=environment, stdout=subprocess.DEVNULL, check=True),
            5,
            time.perf_counter,
        )
        print(f"{name:<14} {wall * 1e3:>11.0f} ms")
    pipe = " | ".join(name for name, _, _ in FILTERS[:-1]).replace(" |", f" {SAMPLE}/{SAMPLE.name}.json |", 1)
    wall = seconds(
        lambda: subprocess.run(["sh", "-c", pipe], env=environment, stdout=subprocess.DEVNULL, check=True),
        5,
        time.perf_counter,
    )
    print(f"{'the pipe':<14} {wall * 1e3:>11.0f} ms")


if __name__ == "__main__":
    main()
