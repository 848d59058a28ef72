"""A batch of any size through `torch.compile(backend="tinyir")`: compiled once, then run at 1, 7 and 32.

    python tests/bench/torch_dynamic.py [--device cuda] [--out results.json] [NAME ...]

Networks of `torch_compile.py`, shallow ones. Prints how many programs were compiled for all sizes, the seconds of the
first call at a size (that at 7 compiles; at a size far from it plans are made), the largest difference from torch's own
run as a part of the output's largest number, and microseconds of a call beside Inductor's reduce-overhead, the first
axis of the input marked as dynamic for both. Dynamo is told to treat a size of 1 as any other; by itself it traces that
anew. Needs torch, and a GPU unless `--device cpu`, where nothing is timed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.torch_compile import NETWORKS, differs, host, per_call, with_numbers  # noqa: E402

BATCHES = (7, 1, 32)


def measured(name: str, device: str) -> list[dict[str, Any]]:
    """A row for each size of the batch."""
    import torch
    import torch.fx.experimental._config as shapes

    from tinyir.dynamo import backend, compiler

    programs: list[Any] = []
    called = compiler.called
    compiler.called = lambda piece, how: programs.append(piece) or called(piece, how)
    try:
        shapes.backed_size_oblivious = True  # pyright: ignore[reportAttributeAccessIssue]
        torch.manual_seed(0)
        made = {batch: NETWORKS[name](batch, True) for batch in BATCHES}
        model = with_numbers(made[BATCHES[0]][0]).eval().to(device)
        inputs = {batch: tuple(x.to(device) for x in given) for batch, (_, given) in made.items()}
        for given in inputs.values():
            torch._dynamo.maybe_mark_dynamic(given[0], 0)
        ours = torch.compile(model, backend=backend)
        rows = []
        for batch, given in inputs.items():
            start = time.perf_counter()
            found = ours(*given)
            row = {"network": name, "batch": batch, "first_s": round(time.perf_counter() - start, 2)}
            row["differs"] = differs(found, model(*given))
            rows.append(row | {"programs": len(programs)})
        if device == "cuda":
            for row in rows:
                row |= _times(lambda given=inputs[row["batch"]]: ours(*given), "tinyir")
            torch._dynamo.reset()
            rival = torch.compile(model, mode="reduce-overhead")
            for row in rows:
                row |= _times(lambda given=inputs[row["batch"]]: rival(*given), "inductor")
        return rows
    finally:
        compiler.called = called


def _times(run: Any, word: str) -> dict[str, float]:
    for _ in range(4):
        run()
    return {f"{word}_us": per_call(run), f"{word}_host_us": host(run)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", default=["layers", "distilbert", "resnet18"])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--out")
    options = parser.parse_args()
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = []
    for name in options.names:
        try:
            with torch.no_grad():
                rows += measured(name, options.device)
        except Exception as fault:  # noqa: BLE001 (another network is another matter)
            rows.append({"network": name, "fault": f"{type(fault).__name__}: {fault}"[:500]})
            traceback.print_exc()
        for row in (r for r in rows if r["network"] == name):
            print(json.dumps(row), flush=True)
    if options.out:
        Path(options.out).write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
