"""A step of a decoder with its cache as a state, beside torch: two rows are put into the cache at a place that is data,
then one query attends to all rows.

    python tests/bench/states.py [--out states.json]      measure; needs a GPU, PyCUDA and torch
    python tests/bench/states.py --table states.json      print the table of docs

`in place` is the program as it is compiled; `copied` is the same without `updates`, whose new caches are outputs. The
rival is `index_copy_` and attention by cuDNN or FlashAttention 2, the faster of the two. All are CUDA graphs, timed in
turns, each run from a cold L2 cache; medians in microseconds. Ours are compared with torch's first.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.attention import graph_of  # noqa: E402
from tests.bench.card import card_here, versions_here  # noqa: E402
from tests.bench.decode import DEPTH, rivals_of  # noqa: E402
from tests.bench.decode import Case as Attention  # noqa: E402

RUNS = 15
NEAR = 4e-3


@dataclass(frozen=True, slots=True)
class Case:
    """Caches [batch, kv, room, DEPTH] in fp16, of which the row `room - 1` is new; `heads` queries."""

    batch: int
    heads: int
    kv: int
    room: int

    @property
    def name(self) -> str:
        """What the table calls it."""
        return f"{self.batch}x{self.heads}-{self.kv}x{self.room}"


CASES = [Case(batch, 32, 8, room) for batch in (1, 8) for room in (2048, 8192, 32768)]


def model_of(case: Case, in_place: bool) -> str:
    """The model in front-end JSON: rows are put as `index_copy` of torch puts them."""
    row = {"q": case.heads, "k": case.kv, "v": case.kv}
    types: dict[str, Any] = {n: {"dtype": "fp16", "shape": ["B", heads, 1, DEPTH]} for n, heads in row.items()}
    types |= {n: {"dtype": "fp16", "shape": ["B", case.kv, "R", DEPTH]} for n in ("K", "V", "K.new", "V.new")}
    types |= {"o": types["q"], "at": {"dtype": "i64", "shape": [1]}}
    graph: list[dict[str, Any]] = [
        {"op": "Reshape", "inputs": ["at"], "outputs": ["place"], "attrs": {"shape": [1, 1]}}
    ]
    for name, rows in (("K", "k"), ("V", "v")):
        first = {"perm": [2, 0, 1, 3]}
        graph += [
            {"op": "Transpose", "inputs": [name], "outputs": [f"{name}.t"], "attrs": first},
            {"op": "Transpose", "inputs": [rows], "outputs": [f"{rows}.t"], "attrs": first},
            {"op": "ScatterND", "inputs": [f"{name}.t", "place", f"{rows}.t"], "outputs": [f"{name}.s"]},
            {"op": "Transpose", "inputs": [f"{name}.s"], "outputs": [f"{name}.new"], "attrs": {"perm": [1, 2, 0, 3]}},
        ]
    graph.append({"op": "Attention", "inputs": ["q", "K.new", "V.new"], "outputs": ["o"]})
    news = [{"tensor": f"{n}.new", **({"updates": n} if in_place else {})} for n in "KV"]
    return json.dumps(
        {
            "name": "step",
            "signature": {
                "inputs": [{"tensor": n} for n in ("q", "k", "v", "at", "K", "V")],
                "outputs": [{"tensor": "o"}, *news],
            },
            "tensors": types,
            "graph": graph,
            "shape_sets": {"bench": {"B": case.batch, "R": case.room}},
            "symbols": {"B": [1, 64], "R": [1, 1 << 20]},
        }
    )


def emitted(case: Case, in_place: bool) -> Any:
    """The module of the CUDA text."""
    from tinyir.front import read
    from tinyir.ir.pipeline import STAGES
    from tinyir.lower import lower_to

    module: Any = read(model_of(case, in_place))
    for stage in STAGES[1:]:
        module = lower_to(stage, module, "sm90", card_here())
    return module


def operands_of(case: Case) -> dict[str, Any]:
    """Random numbers on the card; what is written holds NaN."""
    import torch

    torch.manual_seed(case.room + case.batch)
    row = {"q": case.heads, "k": case.kv, "v": case.kv}
    x = {n: torch.randn(case.batch, h, 1, DEPTH, device="cuda", dtype=torch.float16) for n, h in row.items()}
    x |= {n: torch.randn(case.batch, case.kv, case.room, DEPTH, device="cuda", dtype=torch.float16) for n in "KV"}
    x["at"] = torch.tensor([case.room - 1], device="cuda")
    return x | {"o": torch.full_like(x["q"], math.nan)} | {f"{n}.new": torch.empty_like(x[n]) for n in "KV"}


def compiled(cases: list[Case]) -> dict[tuple[Case, bool], Any]:
    """The modules of all programs, whose kernels are compiled side by side into the cache."""
    from tinyir.ir import manifest
    from tinyir.runtime.compile import cubins_of

    made = {(case, in_place): emitted(case, in_place) for case in cases for in_place in (False, True)}
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda module: cubins_of(manifest.show(module), "sm_90a", jobs=2), made.values()))
    return made


def measure_case(device: Any, case: Case, modules: Mapping[tuple[Case, bool], Any]) -> dict[str, Any]:
    """Errors and times of both of ours and of the rivals."""
    import torch

    from tests.bench.gemm import timed
    from tinyir.ir import manifest
    from tinyir.runtime.device import Buffer
    from tinyir.runtime.graph import Graph
    from tinyir.runtime.program import Program

    x = operands_of(case)
    theirs = {"Q": x["q"], "K": x["K"].clone(), "V": x["V"].clone()}

    def stepped(attend: Any) -> Any:
        def run() -> Any:
            theirs["K"].index_copy_(2, x["at"], x["k"])
            theirs["V"].index_copy_(2, x["at"], x["v"])
            return attend()

        return run

    shape = Attention(case.batch, case.heads, case.kv, case.room)
    rivals = {name: stepped(run) for name, run in rivals_of(shape, theirs).items()}
    wanted = rivals["fa2"]().float()
    kept = {n: Buffer(n, t.data_ptr(), t.numel(), t.element_size(), 0) for n, t in x.items()}
    sizes, programs, errors = {"B": case.batch, "R": case.room}, {}, {}
    for name in ("copied", "in place"):  # the second changes the caches
        module = modules[case, name == "in place"]
        own = kept if name == "copied" else {n: b for n, b in kept.items() if not n.endswith(".new")}
        programs[name] = Program(device, manifest.show(module), module, sizes, kept=own)
        x["o"].fill_(math.nan)
        torch.cuda.synchronize()
        programs[name].run()
        device.stream.synchronize()
        errors[name] = float((x["o"].float() - wanted).norm() / wanted.norm())
        caches = (x["K.new"], x["V.new"]) if name == "copied" else (x["K"], x["V"])
        is_put = all(torch.equal(a, theirs[n]) for n, a in zip("KV", caches))
        errors[name] = errors[name] if is_put else math.nan
    replays = {name: graph_of(device, run) for name, run in rivals.items()}
    graphs = {name: Graph(device.stream.handle, program.enqueue) for name, program in programs.items()}
    ways = {**{name: graph.run for name, graph in graphs.items()}, **replays}
    us = dict(zip(ways, timed(device, list(ways.values()), RUNS)))
    for graph in graphs.values():
        graph.release()
    launches = {name: [launch.name for launch in program.made] for name, program in programs.items()}
    for program in programs.values():
        program.release()
    is_near = all(error < NEAR for error in errors.values())
    return {"case": asdict(case), "us": us, "errors": errors, "is_near": is_near, "launches": launches}


def table(rows: list[dict[str, Any]]) -> str:
    """A line for each case."""
    found = ["| case | in place, us | copied | torch | torch over in place |", "| --- |" + " --- |" * 4]
    for row in rows:
        us = row["us"]
        best = min(us["cudnn"], us["fa2"])
        numbers = (us["in place"], us["copied"], best)
        cells = " | ".join(f"{n:.1f}" for n in numbers)
        found.append(f"| {Case(**row['case']).name} | {cells} | {best / us['in place']:.2f} |")
    return "\n".join(found)


def main() -> int:
    """Print the table, or measure; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--table", type=Path)
    parser.add_argument("--out", type=Path, default=Path("states.json"))
    args = parser.parse_args()
    if args.table:
        print(table(json.loads(args.table.read_text(encoding="utf-8"))["rows"]))
        return 0
    import torch

    from tinyir.runtime.cuda import CudaDevice

    torch.cuda.init()
    modules = compiled(CASES)
    device = CudaDevice()
    rows: list[dict[str, Any]] = []
    try:
        for case in CASES:
            rows.append(measure_case(device, case, modules))
            torch.cuda.empty_cache()
            print(case.name, rows[-1]["us"], rows[-1]["errors"], rows[-1]["launches"], flush=True)
            head = {"card": device.description, "versions": versions_here()}
            args.out.write_text(json.dumps({**head, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    finally:
        device.release()
    print(table(rows))
    return 0 if all(row["is_near"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
