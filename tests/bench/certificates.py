"""How long it takes to check a certificate: `python tests/bench/certificates.py`.

Prints for each sample and network its obligations by status, the facts that are added up, the lines of the certificate,
and the CPU seconds to make it and to check it. Needs no GPU.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.models import bert, gpt2, resnet50, vit  # noqa: E402
from tinyir.certificate import Draft  # noqa: E402
from tinyir.front.json import read  # noqa: E402
from tinyir.ir import gpu  # noqa: E402
from tinyir.lower import lower_to  # noqa: E402
from tinyir.verifier import Verdict, Verifier  # noqa: E402


def texts() -> Iterator[tuple[str, gpu.Module]]:
    """The gpu text of each sample, and of each network in fp16 at batch 1."""
    for file in sorted((ROOT / "samples").glob("*/*.gpu")):
        yield file.stem, gpu.parse(file.read_text(encoding="utf-8"))
    for build in (bert, gpt2, resnet50, vit):
        module: Any = read(build(dtype="fp16").text)
        for stage in ("index", "poly", "region", "plan", "gpu"):
            module = lower_to(stage, module, "sm90")
        yield build.__name__, module


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds, and what the work gives."""
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def check(source: str) -> tuple[Verifier, list[Verdict]]:
    """A certificate read and checked."""
    checker = Verifier(source)
    return checker, list(checker.verdicts())


def main() -> None:
    """Print the table."""
    print(f"{'text':<20}{'proven':>8}{'guarded':>8}{'listed':>8}{'facts':>8}{'lines':>8}{'make, s':>9}{'check, s':>9}")
    for name, module in texts():
        made, draft = seconds(lambda: Draft(module))  # noqa: B023
        first = Verifier(draft.show(""), is_draft=True)
        list(first.verdicts())
        source = draft.show("", first.unconfirmed)
        checked, (checker, verdicts) = seconds(lambda: check(source))  # noqa: B023
        counts = sum((verdict.counts for verdict in verdicts), Counter[str]())
        figures = (*(counts[s] for s in ("proven", "guarded", "listed")), checker.facts, source.count("\n"))
        print(f"{name:<20}" + "".join(f"{n:>8}" for n in figures) + f"{made:>9.2f}{checked:>9.2f}", flush=True)


if __name__ == "__main__":
    main()
