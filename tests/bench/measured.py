"""What the benches of many cases have in common: texts made and compiled side by side, and cases measured one after the
other, each result stored as soon as it is there."""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import time
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from tests.bench.card import versions_here

Rows = list[dict[str, Any]]


def mean(ratios: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def options(text: str, out: str) -> argparse.ArgumentParser:
    """The options of every bench whose cases have texts: `text` says what it measures, `out` where results go."""
    parser = argparse.ArgumentParser(description=text.split("\n", 1)[0])
    parser.add_argument("--emit", type=Path)
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--limit", type=float, default=math.inf)
    parser.add_argument("--out", type=Path, default=Path(out))
    return parser


def is_done_without_a_card(
    args: argparse.Namespace,
    cases: Iterable[Any],
    emitted: Callable[[Any], str | None],
    table: Callable[[Rows], str],
) -> bool:
    """Whether only a table of earlier results (`--table`) or the texts (`--emit`) were asked for, which are made."""
    if args.table:
        print(table(json.loads(args.table.read_text(encoding="utf-8"))["rows"]))
    elif args.emit:
        args.emit.mkdir(parents=True, exist_ok=True)
        for case in cases:
            if (text := emitted(case)) is not None:
                (args.emit / f"{case.name}.cu").write_text(text, encoding="utf-8")
    return bool(args.table or args.emit)


def made_of(cases: Iterable[Hashable], made: Callable[[Any], Any]) -> dict[Any, Any]:
    """What `made` makes of each case, in processes side by side."""
    cases, begun = list(cases), time.monotonic()
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        found = dict(zip(cases, pool.map(made, cases)))
    print(f"compiled {len(found)} texts in {time.monotonic() - begun:.0f} s", flush=True)
    return found


def texts_of(cases: Iterable[Hashable], prepared: Callable[[Any], tuple[Any, tuple[str, ...]]]) -> dict[Any, Any]:
    """The texts of all cases that have one; remarks of ptxas are printed."""
    found = made_of(cases, prepared)
    for _, said in found.values():
        for line in said[:2]:
            print(line[:200], flush=True)
    return {case: text for case, (text, _) in found.items() if text is not None}


def text_and_remarks(
    case: Any, folder: Path | None, emitted: Callable[[Any], str | None]
) -> tuple[str | None, tuple[str, ...]]:
    """The text of a case, which may be in a folder already, compiled into the cache, and what ptxas says of wgmma and
    of spills."""
    from tinyir.runtime.compile import cubins_of

    text = (folder / f"{case.name}.cu").read_text(encoding="utf-8") if folder else emitted(case)
    if text is None:
        return None, ()
    log = "\n".join(c.log for c in cubins_of(text, "sm_90a", jobs=1).values()).splitlines()
    said = (line for line in log if "C75" in line or "spill" in line and " 0 bytes spill stores" not in line)
    return text, tuple(f"{case.name}: {line.strip()}" for line in said)


def measure(
    texts: dict[Any, Any],
    out: Path,
    limit: float,
    measure_case: Callable[[Any, Any, Any], dict[str, Any]],
    line: Callable[[Any, dict[str, Any]], str],
    table: Callable[[Rows], str],
) -> int:
    """Measures every case, or as many as are begun before the limit in seconds; the exit code. `measure_case` takes the
    device, the text and the case, and gives a row that says whether it `is_near`; `line` is printed of each."""
    import torch

    from tinyir.runtime.cuda import CudaDevice

    begun, left = time.monotonic(), list(texts)
    torch.cuda.init()
    device = CudaDevice()
    rows: Rows = []
    try:
        while left and time.monotonic() - begun < limit:
            case = left.pop(0)
            row = measure_case(device, texts[case], case)
            rows.append(row)
            torch.cuda.empty_cache()
            far = "" if row["is_near"] else f" NOT NEAR {row['errors']}"
            refused = f" {row['refused']}" if row.get("refused") else ""
            print(f"{case.name}: {line(case, row)}{far}{refused}", flush=True)
            head = {"card": device.description, "versions": versions_here()}
            found = {**head, "rows": rows, "not_measured": [one.name for one in left]}
            out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    finally:
        device.release()
    print(table(rows))
    return 0 if all(row["is_near"] for row in rows) and not left else 1


def measure_all(
    cases: Iterable[Any],
    texts: Iterable[Any],
    out: Path,
    measure_case: Callable[[Any, Any, Any, Any], dict[str, Any]],
    told: Callable[[dict[str, Any]], str],
) -> tuple[Rows, int]:
    """The rows of all cases that could be measured, and how many could not. `measure_case` takes the device, its clock,
    the case and its text; `told` is printed of each."""
    import torch

    from tests.bench.odd import Clock
    from tinyir.runtime.cuda import CudaDevice

    torch.cuda.init()
    device = CudaDevice()
    rows: Rows = []
    failed = 0
    try:
        clock = Clock(device)
        for case, text in zip(cases, texts):
            try:
                rows.append(measure_case(device, clock, case, text))
            except Exception as fault:  # noqa: BLE001 - it is told, and the other cases are measured
                failed += 1
                print(f"| {case} | failed: {str(fault)[:300]} |", flush=True)
                continue
            print(told(rows[-1]), flush=True)
            found = {"card": device.description, "versions": versions_here(), "rows": rows}
            out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    finally:
        device.release()
    return rows, failed


def tell_ratios(what: str, ratios: list[float]) -> None:
    """Prints the mean and the least of what ours is faster by."""
    if ratios:
        print(f"{what} {mean(ratios):.3f} in geometric mean of {len(ratios)}, least {min(ratios):.3f}")
