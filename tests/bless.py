"""Rewrite every golden text from the code as it is: the reference, tables of results, the samples' journeys in order,
then the cases. `git diff` is the review."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.bench import tables  # noqa: E402
from tests.golden.cases import bless_case, cases  # noqa: E402
from tests.golden.journey import bless, samples  # noqa: E402
from tinyir.cmd.pages import PAGES  # noqa: E402
from tinyir.reference.written import written  # noqa: E402

if __name__ == "__main__":
    only = sys.argv[1:]
    for path, text in (written(PAGES) | tables.written()).items():
        if not only or any(word in path for word in only):
            print(f"bless {path}")
            place = Path(__file__).resolve().parents[1] / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
    for sample in samples():
        if not only or any(word in str(sample) for word in only):
            print(f"bless {sample.name}")
            bless(sample)
    for case in cases():
        if not only or any(word in str(case) for word in only):
            print(f"bless {case.name}")
            bless_case(case)
