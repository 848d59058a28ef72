"""The table of faults: what the cache is put through, how often, and what became of each question.

    python tests/bench/faults.py [--kills 200] [--processes 16]

Prints a Markdown table. Faults of a GPU are in tests/gpu/test_faults.py, which needs one.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.faults import plant, uses  # noqa: E402
from tests.faults.plant import Outcome  # noqa: E402


def outcomes(folder: Path, kills: int, processes: int) -> Iterator[tuple[str, Outcome]]:
    """Each fault with its outcome, every kind with an empty cache and a log of its own."""
    yield (
        f"{processes} processes begin with an empty cache",
        plant.beside_each_other(processes, fresh(folder, "beside")),
    )
    yield "a process is killed with SIGKILL at a random time", plant.killed(kills, fresh(folder, "killed"))
    fresh(folder, "damaged")
    yield from ((f"files are damaged: {how}", found) for how, found in plant.damaged().items())
    log = fresh(folder, "full")
    yield from ((f"no file can have more than {most}", found) for most, found in plant.full_disk(log).items())
    (folder / "a file").write_text("where a folder would be")
    homes = plant.without_a_home(plant.homes(folder))
    yield from ((f"the user's cache is {place}", found) for place, found in homes.items())


def fresh(folder: Path, name: str) -> Path:
    """An empty cache from now on, and the place of a log."""
    os.environ["XDG_CACHE_HOME"] = str(folder / name)
    return folder / f"{name}.csv"


def main() -> None:
    """Plant all faults and print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kills", type=int, default=200)
    options.add_argument("--processes", type=int, default=16)
    args = options.parse_args()
    uses.warm_up()
    print("| fault | planted | right answers | E0009 | wrong | crashed |\n| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for name, o in outcomes(Path(folder), args.kills, args.processes):
            print(f"| {name} | {o.planted} | {o.right} | {o.refused} | {o.wrong} | {o.crashed} |", flush=True)


if __name__ == "__main__":
    main()
