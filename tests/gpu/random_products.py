"""Random (shape, layout, dtype, epilogue) contractions of sm80 and sm90 plans, each equal to playback to the bit.

    python tests/gpu/random_products.py [--device cuda|sim] [--count 500] [--most 700] [--seed 1]

Inputs are small whole numbers, so that every sum is exact and rounds once. Prints what differs, then the count; exit
code 1 when one does.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.unit.tuples import Tuple, tuples  # noqa: E402
from tinyir.kit.diag import Refused  # noqa: E402


def is_right(one: Tuple, device: str, seed: int) -> bool:
    """Whether the tuple's text gives what playback gives; prints what differs."""
    from tinyir.runtime.run import run

    try:
        _, report = run(one.text(), one.arrays(seed), device=device, check=True, rtol=0, atol=0)
    except Refused as fault:
        print(one, [(d.code, dict(d.facts)) for d in fault.diags], flush=True)
        return False
    wrong = {d.wrong for d in report.differences}
    if wrong != {0}:
        print(one, report.differences, flush=True)
    return wrong == {0}


def main() -> int:
    """Run all; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--most", type=int, default=700)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    every = list(tuples(args.count, args.most, args.seed))
    with ProcessPoolExecutor(
        mp_context=multiprocessing.get_context("spawn")
    ) as pool:  # each worker has a device of its own
        failed = len(every) - sum(pool.map(is_right, every, [args.device] * len(every), range(len(every)), chunksize=4))
    print(f"{len(every) - failed} right, {failed} wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
