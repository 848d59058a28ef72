"""The cost model of maps, rows and scans held to what plans took: of each case the plan that it chooses beside the
fastest of those that were timed."""

from __future__ import annotations

import json
import math
from pathlib import Path

from tests.bench.memory_ops import Case, longest_of, word_of

TIMED = Path(__file__).parents[1] / "bench" / "results" / "memory_plans_h200.json"
MEAN, WORST = 1.02, 1.2  # times the fastest


def test_plans_chosen_are_near_the_fastest_that_were_timed() -> None:
    rows = json.loads(TIMED.read_text(encoding="utf-8"))["rows"]
    found = {}
    for row in rows:
        op, dtype, shape = row["case"].rsplit("_", 2)
        chosen, _ = longest_of(Case(op, dtype, tuple(map(int, shape.split("x")))), "h200")
        us = row["plans"].get(word_of(chosen))
        if us is not None:
            found[row["case"]] = us / min(row["plans"].values())
    assert len(found) > 0.9 * len(rows)
    worst = max(found, key=found.__getitem__)
    assert found[worst] < WORST, (worst, found[worst])
    assert math.exp(sum(map(math.log, found.values())) / len(found)) < MEAN
