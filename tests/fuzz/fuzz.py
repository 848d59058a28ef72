"""Mutated texts over all commands, and mutated ONNX models: every run must end with 0, 1 or 2, in time and within
memory.

    python -m tests.fuzz.fuzz --texts 10000 --models 2000 --keep /tmp/found

What ends otherwise is kept with its command, and listed by the place of the fault.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from . import models, sandbox
from .corpus import Seed, seeds
from .mutations import mutated_text

GOOD = (0, 1, 2)
Run = tuple[int, tuple[str, ...], bytes, sandbox.Ending]


def text_runs(numbers: range, limit: int = 20) -> Iterator[Run]:
    """The runs of these numbers, each of its own seed."""
    corpus = seeds()
    warmed: set[tuple[str, ...]] = set()
    for number in numbers:
        draw = random.Random(f"text {number}")
        seed: Seed = draw.choice(corpus)
        line, raw = draw.choice(seed.lines), mutated_text(seed.text, draw)
        if line not in warmed:
            warmed.add(line)
            sandbox.warm(line[0], line[1:], seed.text.encode())
        yield number, line, raw, sandbox.run(line[0], line[1:], raw, limit)


def model_runs(numbers: range, folder: Path, limit: int = 20) -> Iterator[Run]:
    """The same for ONNX models. `folder` is where the commands run: files that a model names are looked for there."""
    corpus = models.models()
    (folder / "model.onnx").write_bytes(corpus[0])
    sandbox.warm("tinyc", ("--emit=region", str(folder / "model.onnx")), b"")
    for number in numbers:
        draw = random.Random(f"model {number}")
        raw = models.mutated(draw.choice(corpus), draw)
        path = folder / "model.onnx"
        path.write_bytes(raw)
        line = draw.choice(
            (("tiny-import", str(path)), ("tiny-import", str(path)), ("tinyc", "--emit=region", str(path)))
        )
        yield number, line, raw, sandbox.run(line[0], line[1:], b"", limit, str(folder))


def place_of(ending: sandbox.Ending) -> str:
    """What went wrong, alike for alike faults."""
    found = re.search(r"not of the input: (\w+) at ([\w.]+:\d+)", ending.said)
    return (
        f"{found[1]} at {found[2]}"
        if found
        else f"code {ending.code} after {ending.seconds:.0f} s: {ending.said[-200:]}"
    )


def main() -> int:
    """The exit code: 1 when a run ended badly."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--texts", type=int, default=10_000)
    parser.add_argument("--models", type=int, default=2_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first run")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-found"))
    args = parser.parse_args()
    args.keep.mkdir(parents=True, exist_ok=True)
    codes: Counter[int] = Counter()
    faults: Counter[str] = Counter()
    slowest = (0.0, -1)
    for what, runs in (
        ("text", text_runs(range(args.first, args.first + args.texts))),
        ("model", model_runs(range(args.first, args.first + args.models), args.keep)),
    ):
        for number, line, raw, ending in runs:
            if number % 500 == 0:
                print(f"{what} {number} ...", file=sys.stderr, flush=True)
            codes[ending.code] += 1
            slowest = max(slowest, (ending.seconds, number))
            if ending.code not in GOOD:
                place = place_of(ending)
                faults[place] += 1
                (args.keep / f"{what}-{number}").write_bytes(raw)
                print(f"{what} {number}: {' '.join(line)}: {place}", flush=True)
    print(f"codes {dict(codes)}, slowest {slowest[0]:.1f} s (run {slowest[1]})")
    for place, count in faults.most_common():
        print(f"{count:6} {place}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
