"""One model with plans for decode and prefill beside programs made for each: `python tests/bench/shape_sets.py [--out
results.json]`, on a GPU.

Two layers of fp16, 2048 to 8192 and back. Each is timed at M = 1 and M = 4096 as the launches of its program in one
CUDA graph, cold L2, in turns; `share` is the time of the program with sets over that of the one made for the size.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import tinyir  # noqa: E402
from tinyir.runtime.bench import measure  # noqa: E402

SETS = {"decode": {"M": 1}, "prefill": {"M": 4096}}
TURNS = 5


def model() -> dict[str, Any]:
    """relu(x @ w1) @ w2."""
    shapes = {"x": ["M", 2048], "w1": [2048, 8192], "w2": [8192, 2048], "y": ["M", 2048]}
    inputs = [{"tensor": "x"}, *({"tensor": w, "role": "param", "storage": "const_pool"} for w in ("w1", "w2"))]
    return {
        "name": "layer",
        "signature": {"inputs": inputs, "outputs": [{"tensor": "y"}]},
        "tensors": {n: {"dtype": "fp16", "shape": s} for n, s in shapes.items()},
        "graph": [
            {"op": "MatMul", "inputs": ["x", "w1"], "outputs": ["h"]},
            {"op": "Elementwise", "fn": "relu", "inputs": ["h"], "outputs": ["r"]},
            {"op": "MatMul", "inputs": ["r", "w2"], "outputs": ["y"]},
        ],
    }


def microseconds(program: Any, rows: int) -> float:
    """The median of a run at this size."""
    session = program._session.owner_of({"M": rows})
    made = session._program_for({"M": rows})
    made._make_once({})
    return measure(made.device, len(made.launches), made.enqueue, None, None, 0.3, 0.1).median * 1e6


def main() -> int:
    """Compile, compare, time, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out")
    args = parser.parse_args()
    draw = np.random.default_rng(0)
    weights = {
        n: (draw.standard_normal(s) * 0.02).astype(np.float16) for n, s in (("w1", (2048, 8192)), ("w2", (8192, 2048)))
    }
    text = json.dumps(model())
    both = tinyir.compile(text, device="cuda", params=weights, sets=SETS)
    alone = {name: tinyir.compile(text, device="cuda", params=weights, sets={name: s}) for name, s in SETS.items()}
    rows = []
    for name, sizes in SETS.items():
        x = draw.standard_normal((sizes["M"], 2048)).astype(np.float16)
        same = both(x)["y"].tobytes() == alone[name](x)["y"].tobytes()
        taken = [(microseconds(both, sizes["M"]), microseconds(alone[name], sizes["M"])) for _ in range(TURNS)]
        ours, own = (statistics.median(t[n] for t in taken) for n in (0, 1))
        other = next(p for n, p in alone.items() if n != name)
        row = {"set": name, "us": round(ours, 2), "alone_us": round(own, 2), "share": round(ours / own, 4),
               "other_us": round(microseconds(other, sizes["M"]), 2), "same_bits": same}  # fmt: skip
        print(json.dumps(row), flush=True)
        rows.append(row)
    if args.out:
        Path(args.out).write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
