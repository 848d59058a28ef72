"""The farm: trials of every stream in turn on all cores, until the time is over. What was tried is remembered, so that
the next run goes on from there.

    python -m tests.fuzz --time 600 --state build/fuzz
    python -m tests.fuzz --time 60 --stream programs --device cuda

A find of a new kind is made smaller and kept in the folder `finds` of the state, with its command; a case that is
repaired is moved to tests/fuzz/finds, which the tests repeat.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path

from . import runs

Slice = tuple[str, int, int]  # a stream, and the numbers of its trials


def tried(
    part: Slice, finds: Path, known: frozenset[str], device: str, trials: int
) -> tuple[Slice, list[tuple[str, str]]]:
    """(place, what was said) of each trial of a slice that ended badly; the first of a place that is not known is
    kept."""
    stream, first, last = part
    run, _ = runs.STREAMS[stream]
    if stream == "programs":
        run = functools.partial(runs.programs, device=device, trials=trials)
    found: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        for find in run(range(first, last), Path(folder)):
            if find is not None:
                place = f"{stream}: {find.place}"
                if place not in known and place not in {p for p, _ in found}:
                    find.keep(finds / f"{stream}-{find.number}")
                found.append((place, str(find)))
    return part, found


class State:
    """What was tried, in a file that the next run reads: the next number of each stream, and how often each fault was
    met."""

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.file = folder, folder / "state.json"
        kept = json.loads(self.file.read_text(encoding="utf-8")) if self.file.exists() else {}
        self.next: dict[str, int] = kept.get("next", {})
        self.faults: Counter[str] = Counter(kept.get("faults", {}))
        self.flying: set[Slice] = set()

    def slices(self, streams: list[str]) -> Iterator[Slice]:
        """One slice of each stream after another, for ever."""
        while True:
            for stream in streams:
                first = self.next.get(stream, 0)
                self.next[stream] = first + runs.STREAMS[stream][1]
                part = stream, first, self.next[stream]
                self.flying.add(part)
                yield part

    def save(self) -> None:
        """Write the file; what is still being tried will be tried again."""
        done = {s: min([n, *(first for stream, first, _ in self.flying if stream == s)]) for s, n in self.next.items()}
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps({"next": done, "faults": self.faults}, indent=1), encoding="utf-8")
        new.replace(self.file)


def farm(state: State, streams: list[str], seconds: float, jobs: int, device: str, trials: int) -> Counter[str]:
    """Try slices for this number of seconds; how many trials each stream had."""
    end, count = time.monotonic() + seconds, Counter[str]()
    parts = state.slices(streams)
    with ProcessPoolExecutor(jobs) as pool:
        running: set[Future[tuple[Slice, list[tuple[str, str]]]]] = set()
        while True:
            while len(running) < jobs and time.monotonic() < end:
                known = frozenset(state.faults)
                running.add(pool.submit(tried, next(parts), state.folder / "finds", known, device, trials))
            if not running:
                return count
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for part, found in (future.result() for future in done):
                state.flying.discard(part)
                count[part[0]] += part[2] - part[1]
                state.faults.update(place for place, _ in found)
                for _, said in found:
                    print(said, flush=True)
            state.save()


def main() -> int:
    """The exit code: 1 when a trial ended badly."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--time", type=float, default=600, help="seconds")
    parser.add_argument("--state", type=Path, default=Path("build/fuzz"), help="the folder of what is remembered")
    parser.add_argument("--stream", choices=tuple(runs.STREAMS), action="append", help="only this one; repeatable")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--device", choices=("sim", "cuda"), default="sim", help="where programs run")
    parser.add_argument("--trials", type=int, default=runs.TRIALS, help="at most, to make a program smaller")
    args = parser.parse_args()
    state = State(args.state)
    before = Counter(state.faults)
    streams = args.stream or list(runs.STREAMS)
    count = farm(state, streams, args.time, args.jobs, args.device, args.trials)
    print(", ".join(f"{number} {stream}" for stream, number in count.items()) + " tried")
    for place, number in (state.faults - before).most_common():
        print(f"{number:6} {place}")
    return 1 if state.faults - before else 0


if __name__ == "__main__":
    sys.exit(main())
