"""Attention of one query beside torch's by cuDNN and by FlashAttention 2, and beside a copy of as many bytes as keys
and values have, on one card, in one run.

    python tests/bench/decode.py [--out decode.json] [--limit S] [--variants]   measure; needs a GPU, PyCUDA and torch
    python tests/bench/decode.py --emit DIR                                     only write the CUDA texts
    python tests/bench/decode.py --table decode.json                            print the table of docs

Each model goes through the whole compiler, with batch and length symbolic, and the plan is the cost model's own choice
for that shape. Operands are random normal. Ours and the rivals are compared with fp64 on the first and the last head;
our error may be 1.1 times that of the nearest rival at most. Then all are timed in turns as CUDA graphs, each run from
a cold L2 cache. Medians in microseconds. A copy moves half of the bytes from one place to another, which reads and
writes as much as attention reads. `--variants` times other numbers of chunks and blocks of a few cases beside the
choice.
"""

from __future__ import annotations

import functools
import json
import math
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.attention import MOST_ERROR, NEAR, graph_of  # noqa: E402
from tests.bench.card import card_here  # noqa: E402
from tests.bench.measured import is_done_without_a_card, mean, measure, options, text_and_remarks, texts_of  # noqa: E402

LENGTHS = (1024, 4096, 16384, 65536)
BATCHES = (1, 8, 32)
HEADS = ((32, 8), (32, 32))
DEPTH = 128
RUNS = 15
MB = 1e6


@dataclass(frozen=True, slots=True)
class Case:
    """Q [batch, heads, queries, DEPTH], K and V with `kv` heads of `length` rows. With `room` the cache has this number
    of rows, and the length of each sequence is an input; with `page` it is in pages with this number of rows as well,
    in an order drawn by lot. `parts` and `columns` are those of the plan, 0 what the cost model chooses."""

    batch: int
    heads: int
    kv: int
    length: int
    dtype: str = "fp16"
    queries: int = 1
    room: int = 0
    page: int = 0
    parts: int = 0
    columns: int = 0

    @property
    def name(self) -> str:
        """A file's stem."""
        forced = f"_{self.parts}parts_{self.columns}columns" if self.parts else ""
        forced += f"_room{self.room}" * bool(self.room) + f"_pages{self.page}" * bool(self.page)
        return f"{self.dtype}_{self.batch}x{self.heads}-{self.kv}x{self.queries}x{self.length}{forced}"

    @property
    def sizes(self) -> dict[str, int]:
        """The symbols: `S` rows of the cache, or pages of a sequence, and `P` pages in all."""
        rows = self.room or self.length
        found = {"B": self.batch, "S": rows // (self.page or 1)}
        return found | ({"P": self.batch * rows // self.page} if self.page else {})

    @property
    def bytes(self) -> int:
        """Of keys and values."""
        return 2 * self.batch * self.kv * self.length * DEPTH * 2


def cases() -> list[Case]:
    """What is measured, the smaller first."""
    found = [Case(batch, *heads, length) for heads in HEADS for batch in BATCHES for length in LENGTHS]
    found += [Case(8, 32, 8, 4093), Case(8, 32, 8, 4096, "bf16"), Case(8, 32, 8, 4096, queries=4)]
    found += [Case(8, 32, 8, 4096, room=8192, page=page) for page in (0, 64, 128)]
    return sorted(found, key=lambda case: case.bytes)


def variants() -> list[Case]:
    """Other plans of a few cases."""
    found = []
    for case, counts in (
        (Case(1, 32, 8, 1024), (1, 4, 8, 16)),
        (Case(1, 32, 8, 16384), (8, 16, 32)),
        (Case(8, 32, 8, 4096), (1, 2, 4)),
        (Case(32, 32, 8, 4096), (1, 2)),
        (Case(8, 32, 32, 4096), (1, 2)),
    ):
        found += [replace(case, parts=parts, columns=columns) for parts in counts for columns in (64, 128, 192)]
    return found


def model_of(case: Case) -> str:
    """The model in front-end JSON: batch and length symbolic, planned for the case."""
    shapes = {name: ["B", heads, rows, DEPTH] for name, heads, rows in (
        ("Q", case.heads, case.queries), ("K", case.kv, "S"), ("V", case.kv, "S"), ("O", case.heads, case.queries)
    )}  # fmt: skip
    graph: list[dict[str, Any]] = []
    operands, inputs, total = ["Q", "K", "V"], ["Q", "K", "V"], f"{case.page}*S" if case.page else "S"
    for name in "KV" if case.page else "":
        shapes[f"{name}p"] = ["P", case.kv, case.page, DEPTH]
        whole = shapes.pop(name)
        graph += [
            {"op": "Gather", "inputs": [f"{name}p", "table"], "outputs": [f"{name}1"], "attrs": {"axis": 0}},
            {"op": "Transpose", "inputs": [f"{name}1"], "outputs": [f"{name}2"], "attrs": {"perm": [0, 2, 1, 3, 4]}},
            {
                "op": "Reshape",
                "inputs": [f"{name}2"],
                "outputs": [name],
                "attrs": {"shape": [*whole[:2], total, DEPTH]},
            },
        ]
    types = {name: {"dtype": case.dtype, "shape": shape} for name, shape in shapes.items()}
    if case.page:
        inputs = ["Q", "Kp", "Vp", "table"]
        types["table"] = {"dtype": "i32", "shape": ["B", "S"]}
    if case.room:
        inputs, operands = [*inputs, "lengths"], [*operands, "mask"]
        types["lengths"] = {"dtype": "i32", "shape": ["B"]}
        keys = {"shape": [1, 1, 1, total], "axis": 3, "dtype": "i32"}
        graph += [
            {"op": "Iota", "inputs": [], "outputs": ["keys"], "attrs": keys},
            {"op": "Reshape", "inputs": ["lengths"], "outputs": ["each"], "attrs": {"shape": ["B", 1, 1, 1]}},
            {"op": "Elementwise", "inputs": ["keys", "each"], "outputs": ["mask"], "attrs": {"fn": "less"}},
        ]
    graph.append({"op": "Attention", "name": "attention", "inputs": operands, "outputs": ["O"]})
    sizes = case.sizes
    model = {
        "name": "decode",
        "signature": {"inputs": [{"tensor": n} for n in inputs], "outputs": [{"tensor": "O"}]},
        "tensors": types,
        "graph": graph,
        "shape_sets": {"bench": sizes},
        "symbols": {name: [1, 1 << 20] for name in sizes},
    }
    return json.dumps(model)


def emitted(case: Case) -> str | None:
    """The CUDA text; None where there is no such plan."""
    from tinyir.front import read
    from tinyir.ir import manifest
    from tinyir.ir.pipeline import STAGES
    from tinyir.lower import cu, gpu, lower_to

    module: Any = read(model_of(case), "decode.json")
    for stage in STAGES[1 : STAGES.index("plan")]:
        module = lower_to(stage, module, "sm90", card_here())
    planned = lower_to("plan", module, "sm90", card_here()) if not case.parts else _forced(case, module)
    return planned and manifest.show(cu.lower(gpu.lower(planned)))


def _forced(case: Case, module: Any) -> Any:
    """The module planned with this number of chunks, and blocks of this width; None where no such plan fits."""
    from tinyir.ir import plan
    from tinyir.kernels.alternatives.parts import Names
    from tinyir.kernels.alternatives.split_columns import split_columns
    from tinyir.lower import plan as to_plan
    from tinyir.lower.plan.kernels_for import in_two_steps

    if case.parts > 1:
        pair = module.program.regions[0], module.program.regions[1]
        way = split_columns(pair, case.parts, 128 if case.columns % 128 == 0 else case.columns, Names.of(module))
        module = in_two_steps(module, pair, way)
    found = to_plan.candidates(module, module.program.regions[0], "sm90", card_here())
    fitting = [c.plan for c in found if c.cost and c.rejected in ("", to_plan.CROWDED)]
    first = next((p for p in fitting if p.algo == "streaming_softmax" and p.tile[1] == case.columns), None)
    if first is None:
        return None
    others = to_plan.candidates(module, module.program.regions[-1], "sm90", card_here()) if case.parts > 1 else ()
    return plan.Module(module, (first, *(c.plan for c in others[:1])))


def operands_of(case: Case) -> dict[str, Any]:
    """Random numbers on the card; O holds NaN."""
    import torch

    torch.manual_seed(case.length + case.batch)
    kind = {"fp16": torch.float16, "bf16": torch.bfloat16}[case.dtype]
    shapes = {"Q": (case.heads, case.queries), "K": (case.kv, case.length), "V": (case.kv, case.length)}
    x = {n: torch.randn(case.batch, *shape, DEPTH, device="cuda", dtype=kind) for n, shape in shapes.items()}
    x["O"] = torch.full_like(x["Q"], math.nan)
    if case.room:
        x["lengths"] = torch.full((case.batch,), case.length, dtype=torch.int32, device="cuda")
    if case.page:
        pages = case.room // case.page
        order = torch.randperm(case.batch * pages, device="cuda")
        for name in "KV":  # page number n of the pool holds page order[n] of the cache
            rows = torch.nn.functional.pad(x[name], (0, 0, 0, case.room - case.length))
            cut = rows.view(case.batch, case.kv, pages, case.page, DEPTH).transpose(1, 2).flatten(0, 1)
            x[f"{name}p"] = cut[order].contiguous()
        x["table"] = torch.argsort(order).to(torch.int32).view(case.batch, pages)
    elif case.room:
        for name in "KV":
            x[f"{name}r"] = torch.nn.functional.pad(x[name], (0, 0, 0, case.room - case.length))
    return x


def given(case: Case, x: dict[str, Any]) -> dict[str, Any]:
    """The tensors that the program gets, by its names."""
    names = {"K": "Kr", "V": "Vr"} if case.room and not case.page else {}
    own = ("Q", "Kp", "Vp", "table", "lengths", "O") if case.page else ("Q", "K", "V", "lengths", "O")
    return {name: x[names.get(name, name)] for name in own if names.get(name, name) in x}


def rivals_of(case: Case, x: dict[str, Any]) -> dict[str, Any]:
    """Torch's ways that compute the case, by name."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def by(backend: Any) -> Any:
        def run() -> Any:
            with sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(
                    x["Q"], x["K"], x["V"], enable_gqa=case.heads != case.kv
                )

        return run

    return {"cudnn": by(SDPBackend.CUDNN_ATTENTION), "fa2": by(SDPBackend.FLASH_ATTENTION)}


def wanted_of(case: Case, x: dict[str, Any]) -> tuple[Any, Any]:
    """The first and the last head in fp64, and which these are: functions of an output."""
    import torch

    places = ((0, 0), (case.batch - 1, case.heads - 1))
    each, found = case.heads // case.kv, []
    for batch, head in places:
        key, value = (x[name][batch, head // each].double() for name in "KV")
        scores = x["Q"][batch, head].double() @ key.t() / math.sqrt(DEPTH)
        found.append(scores.softmax(-1) @ value)
    return torch.stack(found), lambda output: torch.stack([output[b, h].double() for b, h in places])


def measure_case(device: Any, text: str, case: Case) -> dict[str, Any]:
    """One row: errors and times of ours and of each rival, or why a rival has none."""
    import torch

    from tests.bench.gemm import timed
    from tinyir.ir import manifest
    from tinyir.runtime.device import Buffer
    from tinyir.runtime.graph import Graph
    from tinyir.runtime.program import Program

    x = operands_of(case)
    own = given(case, x)
    kept = {name: Buffer(name, t.data_ptr(), t.numel(), t.element_size(), 0) for name, t in own.items()}
    program = Program(device, text, manifest.parse(text), case.sizes, kept=kept)
    torch.cuda.synchronize()
    program.run()
    device.stream.synchronize()
    wanted, heads_of = wanted_of(case, x)

    def error_of(output: Any) -> float:
        return float((heads_of(output) - wanted).norm() / wanted.norm())

    errors, replays, refused = {"ours": error_of(x["O"])}, {}, {}
    is_near = bool(torch.isfinite(x["O"]).all())
    for name, run in ({} if case.parts else rivals_of(case, x)).items():
        try:
            output = run()
            errors[name] = error_of(output)
            apart = float((x["O"].float() - output.float()).norm() / output.float().norm())
            is_near &= apart <= 2 * NEAR[case.dtype]
            del output
            replays[name] = graph_of(device, run)
        except Exception as fault:  # a rival that does not take the case is said so, and the others are measured
            refused[name] = f"{type(fault).__name__}: {str(fault).splitlines()[0][:120]}"
    half = x["K"].flatten()
    other = torch.empty_like(half)
    replays["copy"] = graph_of(device, lambda: other.copy_(half))
    nearest = min((error for name, error in errors.items() if name != "ours"), default=NEAR[case.dtype])
    is_near &= errors["ours"] <= MOST_ERROR * max(nearest, NEAR[case.dtype] / 10)
    with Graph(device.stream.handle, program.enqueue) as ours:
        mine, *theirs = timed(device, [ours.run, *replays.values()], RUNS if case.bytes < 1e9 else 5)
    us = {"ours": mine, **dict(zip(replays, theirs))}
    plan = next(line for line in text.splitlines() if line.startswith("// plan "))
    program.release()
    return {
        "case": asdict(case),
        "plan": plan.removeprefix("// plan "),
        "kernels": len(program.chosen),
        "errors": errors,
        "is_near": is_near,
        "us": us,
        "gbs": case.bytes / mine / 1e3,
        "share": us["copy"] / mine,
        "ratio": {name: one / mine for name, one in us.items() if name not in ("ours", "copy")},
        "refused": refused,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """A line for each case: our time, the share of a copy's speed, and the rivals' times over ours."""
    found = ["| case | MB | ours, us | GB/s | of a copy | cuDNN | FA2 |", "| --- |" + " --- |" * 6]
    for row in rows:
        case = Case(**row["case"])
        cells = [f"{row['us'][n]:.1f} us, {row['ratio'][n]:.2f}" if n in row["us"] else "" for n in ("cudnn", "fa2")]
        sizes = f"{case.name} {row['plan'].split('tile ')[-1].split(',')[1].strip(' ]') if case.parts else ''}"
        numbers = f"{case.bytes / MB:.0f} | {row['us']['ours']:.1f} | {row['gbs']:.0f} | {row['share']:.2f}"
        found.append(f"| {sizes} | {numbers} | {' | '.join(cells)} |")
    least = [min(row["ratio"].values()) for row in rows if row["ratio"]]
    if least:
        found += ["", f"over the faster rival: mean {mean(least):.3f}, least {min(least):.3f}"]
    return "\n".join(found)


def line(case: Case, row: dict[str, Any]) -> str:
    """What is printed of a case."""
    theirs = " ".join(f"{name} {ratio:.3f}" for name, ratio in row["ratio"].items())
    return f"{row['us']['ours']:.1f} us, {row['share']:.2f} of a copy, {theirs} [{row['plan']}]"


def main() -> int:
    """Emit, print the table, or measure; the exit code."""
    parser = options(__doc__, "decode.json")
    parser.add_argument("--variants", action="store_true")
    args = parser.parse_args()
    wanted = cases() + (variants() if args.variants else [])
    if is_done_without_a_card(args, wanted, emitted, table):
        return 0
    texts = texts_of(wanted, functools.partial(text_and_remarks, folder=args.texts, emitted=emitted))
    return measure(texts, args.out, args.limit, measure_case, line, table)


if __name__ == "__main__":
    sys.exit(main())
