"""Memory-bound kernels beside torch.compile and eager, and beside a copy of as many bytes, on one card, in one run.

    python tests/bench/memory.py [--only softmax,cast] [--shapes 8192x8192] [--dtypes fp16] [--out memory.json]
    python tests/bench/memory.py --only cast --plans 12         time other plans of the longest launch too
    python tests/bench/memory.py --emit DIR                     only write the CUDA texts, which needs no GPU
    python tests/bench/memory.py --table memory.json            print the table of docs

Each model goes through the whole compiler, and the plan is the cost model's own choice. Its numbers are compared with
torch in fp64 first; an error may be that of the dtype, or twice that of torch.compile. Processes compile side by side,
ours and torch's; then one at a time measures, while the others wait. Ours, torch.compile, eager torch and a copy that
reads and writes as many bytes together are replayed as CUDA graphs, in turns, each behind a write of four times the L2
cache: ours and torch.compile's with each other alone, so that each follows one with the same operands; what follows a
copy of other memory takes longer. Medians in microseconds. An op that does not compile is listed with its reason, and
fails the run.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import math
import multiprocessing
import os
import queue
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.card import versions_here  # noqa: E402
from tests.bench.memory_ops import (  # noqa: E402
    OPS,
    Case,
    emitted,
    error_of,
    operands_of,
    plans_of,
    texts_of,
    wanted_of,
)

RUNS = 15
NEAR = {"fp32": 3e-5, "fp16": 2e-3, "fp8e4m3": 0.0, "i8": 0.0, "i64": 0.0}  # of the largest number of an output
SHAPES = (
    (4096, 1024),
    (8192, 8192),
    (32768, 1024),
    (2048, 32768),
    (16, 131072),
    (4093, 4093),
    (1, 1 << 24),
    (1 << 20, 16),
)
PAD_BYTES = 3 << 20  # between the operands of a case at one place and the next
LEAST = 0.97  # of torch.compile's speed, that every kernel should have
LARGE = 64e6  # bytes from which a kernel is judged by the bandwidth


def cases(args: argparse.Namespace) -> list[Case]:
    """Those asked for."""
    ops = args.only.split(",") if args.only else list(OPS)
    shapes = [tuple(map(int, s.split("x"))) for s in args.shapes.split(",")] if args.shapes else SHAPES
    dtypes = args.dtypes.split(",")
    found = [Case(op, d, s, args.odd) for op in ops for s in shapes for d in dtypes if OPS[op].is_for(s)]
    if args.behind:  # a table of earlier times
        rows = json.loads(args.behind.read_text(encoding="utf-8"))["rows"]
        slow = {(r["op"], r["dtype"], tuple(r["shape"])) for r in rows if r.get("ratio", 0) < LEAST and not r["odd"]}
        found = [case for case in found if (case.op, case.dtype, case.shape) in slow]
    return found


class Built:
    """A case on its way: our text, and torch's compiled function."""

    def __init__(self, case: Case, rival: Any, plans: int, places: int) -> None:
        import torch

        self.case, self.fault, self.text, self.plans, self.places = case, "", "", plans, places
        self.others: list[str] = []
        names, outputs = case.inputs, OPS[case.op].torch

        def compute(*given: Any) -> tuple[Any, ...]:
            return outputs(torch, dict(zip(names, given)))

        self.compute = compute
        self.compiled = rival(compute)

    def build(self) -> None:
        """Compile both."""
        import torch

        from tinyir.kit.diag import Refused
        from tinyir.runtime.compile import cubins_of

        try:
            self.text, *self.others = texts_of(self.case, self.plans)
            for text in (self.text, *self.others):
                cubins_of(text, "sm_90a", jobs=1)
        except Refused as refused:
            self.fault = "; ".join(f"{d.code} {d.at}" for d in refused.diags)
        except Exception as error:  # noqa: BLE001 (a fault of ours is a row of the table, and the run goes on)
            self.fault = f"{type(error).__name__}: {error}"[:300]
        x = operands_of(self.case)
        self.compiled(*(x[n] for n in self.case.inputs))
        torch.cuda.synchronize()
        del x
        torch.cuda.empty_cache()

    def measured(self, device: Any, copy: Callable[[int], Callable[[], None]]) -> dict[str, Any]:
        """One row: errors, then times, at each place in memory; the medians over the places."""
        import torch

        case, row = self.case, {"op": self.case.op, "dtype": self.case.dtype, "shape": list(self.case.shape)}
        row |= {"odd": case.odd, "bytes": case.moved, "plans": plans_of(self.text)}
        pads, found, others = [], [], []
        for place in range(self.places):
            pads.append(torch.empty(place * PAD_BYTES, device="cuda", dtype=torch.uint8))
            times, beside = self._at_place(device, copy, row, is_first=place == 0)
            found.append(times)
            others.append(beside)
        names = ("compile_us", "eager_us", "copy_us") if self.fault else ("us", "compile_us", "eager_us", "copy_us")
        row |= {name: statistics.median(times) for name, times in zip(names, zip(*found))}
        row["places"] = self.places
        if self.others:
            medians = map(statistics.median, zip(*others))
            row["others"] = [{"us": us, "plans": plans_of(text)} for us, text in zip(medians, self.others)]
        if not self.fault:
            row["ratio"], row["share"] = row["compile_us"] / row["us"], row["copy_us"] / row["us"]
        return row

    def _at_place(
        self, device: Any, copy: Callable[[int], Callable[[], None]], row: dict[str, Any], is_first: bool
    ) -> tuple[list[float], list[float]]:
        """Microseconds of ours, torch.compile, eager torch and a copy, then of our other plans, all in turns, with
        operands in memory of their own; the first time the errors too."""
        import torch

        from tests.bench.gemm import on_stream, timed
        from tinyir.ir import manifest
        from tinyir.runtime.device import Buffer
        from tinyir.runtime.graph import Graph
        from tinyir.runtime.program import Program

        case = self.case
        x = operands_of(case)
        given = [x[n] for n in case.inputs]
        wanted = wanted_of(case, x) if is_first else ()
        compiled = self.compiled(*given)
        if is_first:
            row["error_compile"] = error_of(case, compiled, wanted)
        torch.cuda.synchronize()
        stream = torch.cuda.ExternalStream(device.stream.handle)
        graphs = []
        for rival in (self.compiled, self.compute):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                kept = rival(*given)
            graphs.append((graph, kept))
        runs = [on_stream(device, graph.replay) for graph, _ in graphs] + [copy(case.moved)]
        if self.fault:
            row["fault"] = self.fault
            return timed(device, runs, RUNS), []
        buffers = {n: Buffer(n, t.data_ptr(), t.numel(), t.element_size(), 0) for n, t in x.items()}
        for name in case.inputs if case.odd else ():
            size = x[name].element_size()
            flat = Buffer(f"{name}.from", x[name].data_ptr() - size, x[name].numel() + 1, size, 0)
            buffers[flat.name] = flat
        programs = [Program(device, text, manifest.parse(text), {}, kept=buffers) for text in (self.text, *self.others)]
        torch.cuda.synchronize()
        errors = []
        for program in programs:
            program.run()
            device.stream.synchronize()
            errors += [error_of(case, [x[n] for n in case.outputs], wanted)] if is_first else []
        if is_first:
            del wanted
            torch.cuda.empty_cache()
            row["error"] = errors[0]
            near = max([NEAR[case.types[n][0]] for n in case.outputs] + [2 * row["error_compile"]])
            for error in errors:
                if not error <= near:
                    row["fault"] = f"off by {error:.3e} of the largest number, torch.compile {row['error_compile']:.3e}"
        with contextlib.ExitStack() as stack:
            ours, *others = [stack.enter_context(Graph(device.stream.handle, p.enqueue)).run for p in programs]
            times = timed(device, [ours, runs[0]], RUNS) + timed(device, runs[1:], RUNS)
            return times, timed(device, [ours, *others], RUNS)[1:] if others else []


def copier(device: Any, most: int) -> Callable[[int], Callable[[], None]]:
    """Copies that read and write a number of bytes together."""
    import torch

    from tests.bench.gemm import on_stream

    x = torch.zeros(most, device="cuda", dtype=torch.uint8)
    y = torch.empty_like(x)
    return lambda moved: on_stream(device, lambda: y[: moved // 2].copy_(x[: moved // 2]))


def worker(mine: list[Case], turn: Any, said: Any, number: int, args: argparse.Namespace) -> None:
    """Build cases, wait for this process's turn, then measure them."""
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    import torch

    from tinyir.runtime.cuda import CudaDevice

    torch.cuda.init()
    device = CudaDevice()
    try:
        rival = (lambda f: f) if args.no_rival else functools.partial(torch.compile, dynamic=False)
        torch._dynamo.config.cache_size_limit = torch._dynamo.config.recompile_limit = 1000
        built = []
        for case in mine:
            built.append(Built(case, rival, args.plans, args.places))
            try:
                built[-1].build()
            except Exception as error:  # noqa: BLE001 (torch's own fault, or memory)
                said.put(("fault", number, f"{case.name}: torch: {type(error).__name__}: {error}"[:300]))
                built.pop()
                continue
            said.put(("built", number, case.name))
        said.put(("ready", number, ""))
        turn.wait()
        copy = copier(device, max((b.case.moved for b in built), default=2) // 2)
        for one in built:
            try:
                said.put(("row", number, one.measured(device, copy)))
            except Exception as error:  # noqa: BLE001 (one case's fault leaves the others)
                said.put(("fault", number, f"{one.case.name}: {type(error).__name__}: {error}"[:300]))
            torch.cuda.empty_cache()
    finally:
        device.release()
        said.put(("end", number, ""))


def mean(ratios: Iterable[float]) -> float:
    """The geometric mean."""
    found = list(ratios)
    return math.exp(sum(map(math.log, found)) / len(found)) if found else math.nan


def show_table(rows: list[dict[str, Any]]) -> None:
    """A line for each op and shape: microseconds of ours, torch.compile's time over ours, share of a copy."""
    print("us of ours; torch.compile's and eager's time over it; share of a copy\n")
    print("| op | shape | fp32 | fp16 |\n| --- | --- | --- | --- |")
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        name = "x".join(map(str, row["shape"]))
        cell = (
            f"{row['us']:.1f}; {row['ratio']:.2f}, {row['eager_us'] / row['us']:.2f}; {row['share']:.0%}"
            if "us" in row
            else f"- ({row['fault']}); {row['compile_us']:.1f}"
        )
        cells.setdefault((row["op"], name), {})[row["dtype"]] = cell
    for (op, name), found in cells.items():
        print(f"| {op} | {name} | {found.get('fp32', '')} | {found.get('fp16', '')} |")
    good = [row for row in rows if "us" in row]
    print()
    for op in dict.fromkeys(row["op"] for row in good):
        mine = [row for row in good if row["op"] == op]
        large = [row["share"] for row in mine if row["bytes"] >= LARGE]
        least = min(mine, key=lambda row: row["ratio"])
        print(
            f"{op}: {mean(r['ratio'] for r in mine):.2f}x torch.compile, least {least['ratio']:.2f} "
            f"({least['dtype']} {'x'.join(map(str, least['shape']))})"
            + (f"; from 64 MB on {mean(large):.0%} of a copy, least {min(large):.0%}" if large else "")
        )
    print(f"all: {mean(r['ratio'] for r in good):.2f}x over {len(good)} cases, {len(rows) - len(good)} do not run")


def measure(args: argparse.Namespace) -> int:
    """Build in processes, then let one after another measure; the exit code. One that ends before it should, or that
    takes more than `--patience` seconds to build or to measure, is ended, and the others go on."""
    chosen = cases(args)
    spawn = multiprocessing.get_context("spawn")
    count = min(args.jobs, len(chosen))
    turns, said = [spawn.Event() for _ in range(count)], spawn.Queue()
    workers = [
        spawn.Process(target=worker, args=(chosen[n::count], turns[n], said, n, args), daemon=True)
        for n in range(count)
    ]
    begun = since = time.monotonic()
    for process in workers:
        process.start()
    building, waiting, now = set(range(count)), list[int](), -1
    built: set[str] = set()
    rows: list[dict[str, Any]] = []
    faults: list[str] = []
    head = versions_here()

    def store() -> None:
        rows.sort(key=lambda r: (list(OPS).index(r["op"]), place_of(r["shape"]), r["dtype"]))
        args.out.write_text(json.dumps({**head, "rows": rows, "faults": faults}, indent=1) + "\n", encoding="utf-8")

    while building or waiting or now >= 0:
        try:
            kind, number, what = said.get(timeout=1)
        except queue.Empty:
            kind, number, what = "", -1, ""
        is_over = time.monotonic() - since > args.patience
        lost = {n for n in {*building, now} - {-1} if is_over or not kind and not workers[n].is_alive()}
        if kind == "built":
            built.add(what)
        elif kind == "ready":
            waiting.append(number)
        elif kind == "row":
            rows.append(what)
            store()
        elif kind == "fault":
            faults.append(what)
            print(what, flush=True)
        for n in lost:
            workers[n].terminate()
            faults.append(f"ended: {', '.join(c.name for c in chosen[n::count] if n == now or c.name not in built)}")
            print(faults[-1], flush=True)
        building -= {*waiting, *lost}
        now = -1 if now in lost or (kind, number) == ("end", now) else now
        if not building and waiting and now < 0:
            if not rows:
                print(f"built {len(built)} of {len(chosen)} in {time.monotonic() - begun:.0f} s", flush=True)
            now, since = waiting.pop(0), time.monotonic()
            turns[now].set()
    store()
    show_table(rows)
    print(f"{time.monotonic() - begun:.0f} s")
    return 1 if faults or len(rows) < len(chosen) or any("fault" in row for row in rows) else 0


def place_of(shape: list[int]) -> int:
    """The number of a shape in the table."""
    return SHAPES.index(tuple(shape)) if tuple(shape) in SHAPES else len(SHAPES)


def main() -> int:
    """Emit, print a table, or measure; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--emit", type=Path)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--behind", type=Path, help="only what is slower than torch.compile in this table")
    parser.add_argument("--only", default="", help="some ops, by commas")
    parser.add_argument("--shapes", default="", help="some shapes, by commas: 8192x8192,16x131072")
    parser.add_argument("--dtypes", default="fp32,fp16")
    parser.add_argument("--plans", type=int, default=1, help="plans of the longest launch to time")
    parser.add_argument("--places", type=int, default=1, help="places in memory at which each case is timed")
    parser.add_argument("--patience", type=float, default=240.0, help="seconds that building may take")
    parser.add_argument("--odd", action="store_true", help="inputs that begin one element after an aligned address")
    parser.add_argument("--no-rival", action="store_true", help="eager torch in place of torch.compile")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 1), help="processes that compile")
    parser.add_argument("--out", type=Path, default=Path("memory.json"))
    args = parser.parse_args()
    if args.table:
        show_table(json.loads(args.table.read_text(encoding="utf-8"))["rows"])
        return 0
    if args.emit:
        args.emit.mkdir(parents=True, exist_ok=True)
        for case in cases(args):
            (args.emit / f"{case.name}.cu").write_text(emitted(case), encoding="utf-8")
            print(case.name, flush=True)
        return 0
    return measure(args)


if __name__ == "__main__":
    sys.exit(main())
