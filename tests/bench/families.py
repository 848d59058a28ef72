"""The kernel families beside torch's kernels for the same op: how much of the memory's bandwidth each reaches.

    python tests/bench/families.py [--out families.json] [--only copy,softmax,...]     needs a GPU, PyCUDA and torch
    python tests/bench/families.py --emit DIR                                          only write the CUDA texts, which
      needs none of them

Twelve ops at several sizes, in fp32 and fp16, a scatter in fp32 and i32: odd lengths, short rows and long ones too.
Each model goes through the whole compiler, and the plan is the cost model's own choice; sums of a scatter may come in
any order, as torch's do. What a kernel gives is compared with torch in fp64 before it is timed. Both sides are replayed
as CUDA graphs, in turns, each run behind a write of four times the L2 cache. Medians in microseconds; the share is that
of the bandwidth at which the card copies 1 GiB, counting what must be read and written once.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import platform
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

RUNS = 25
NEAR = {"fp32": 2e-5, "fp16": 2e-3, "i32": 0.0}  # of the largest number of the output
BYTES = {"fp32": 4, "fp16": 2, "i32": 4, "i64": 8}
KINDS = {"scatter": ("fp32", "i32")}  # of an op, where not fp32 and fp16
SIZES: dict[str, tuple[tuple[int, ...], ...]] = {
    "copy": ((1 << 20,), (1 << 24,), (1 << 26,), (16777213,)),
    "add": ((1 << 20,), (1 << 24,), (1 << 26,), (4097, 4095)),
    "transpose": ((1024, 1024), (4096, 4096), (8192, 6144)),
    "softmax": ((4096, 1024), (8192, 4096), (128, 1 << 17), (1 << 18, 64), (65536, 197), (8192, 4093)),
    "layernorm": ((4096, 768), (8192, 4096), (65536, 1024), (128, 768), (16384, 1023)),
    "row_sum": ((1 << 18, 64), (65536, 197), (8192, 4096), (64, 1 << 18)),
    "sum": ((1 << 20,), (1 << 24,), (1 << 26,)),
    "column_sum": ((1024, 1024), (4096, 4096), (65536, 1024)),
    "argmax": ((4096, 1024), (256, 50257), (1, 1 << 24)),
    "cumsum": ((4096, 1024), (64, 1 << 18), (1, 1 << 24), (4096, 1021)),
    "gather": ((4096, 768), (32768, 1024), (65536, 2048)),
    "scatter": ((4096, 768), (32768, 1024)),
}
TABLE = 50000  # rows that a gather picks from, and a scatter goes to


@dataclass(frozen=True)
class Case:
    """An op at a size in a dtype."""

    op: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def name(self) -> str:
        """A file's stem."""
        return f"{self.op}_{self.dtype}_{'x'.join(map(str, self.shape))}"

    @property
    def tensors(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Type and shape of each input, then of the output Y."""
        d, s = self.dtype, self.shape
        inputs = {
            "add": {"X": (d, s), "Z": (d, s)},
            "layernorm": {"X": (d, s), "g": (d, s[1:]), "b": (d, s[1:])},
            "gather": {"X": (d, (TABLE, *s[1:])), "at": ("i64", s[:1])},
            "scatter": {"X": (d, (TABLE, *s[1:])), "at": ("i64", (s[0], 1)), "U": (d, s)},
        }.get(self.op, {"X": (d, s)})
        output = {
            "transpose": (d, s[::-1]),
            "sum": ("fp32", ()),
            "column_sum": ("fp32", s[1:]),
            "row_sum": ("fp32", s[:1]),
            "argmax": ("i64", s[:1]),
            "scatter": (d, (TABLE, *s[1:])),
        }.get(self.op, (d, s))
        return {**inputs, "Y": output}

    @property
    def moved(self) -> int:
        """Bytes that cross memory at the least."""
        picked = {"X": self.shape} if self.op == "gather" else {}
        return sum(BYTES[d] * math.prod(picked.get(n, s)) for n, (d, s) in self.tensors.items())


def cases(only: str = "") -> list[Case]:
    """All, or those of some ops."""
    chosen = only.split(",") if only else SIZES
    return [Case(op, dtype, shape) for op in chosen for dtype in KINDS.get(op, ("fp32", "fp16")) for shape in SIZES[op]]


def model_of(case: Case) -> str:
    """The model in front-end JSON."""
    op, attrs = {
        "copy": ("Elementwise", {"fn": "identity"}),
        "add": ("Elementwise", {"fn": "add"}),
        "transpose": ("Transpose", {"perm": [1, 0]}),
        "softmax": ("Softmax", {"axis": 1}),
        "layernorm": ("LayerNorm", {"axis": 1}),
        "sum": ("Reduce", {"op": "sum"}),
        "column_sum": ("Reduce", {"op": "sum", "axes": [0]}),
        "row_sum": ("Reduce", {"op": "sum", "axes": [1]}),
        "argmax": ("Reduce", {"op": "argmax", "axes": [1]}),
        "cumsum": ("CumSum", {"axis": 1}),
        "gather": ("Gather", {"axis": 0}),
        "scatter": ("ScatterND", {"reduction": "add"}),
    }[case.op]
    inputs = [n for n in case.tensors if n != "Y"]
    tensors = {n: {"dtype": d, "shape": list(s)} for n, (d, s) in case.tensors.items()}
    graph = [{"op": op, "name": case.op, "inputs": inputs, "outputs": ["Y"], "attrs": attrs}]
    if case.op == "cumsum" and case.dtype == "fp16":  # summed in fp32, kept in fp16, as torch does
        tensors["wide"] = {"dtype": "fp32", "shape": list(case.shape)}
        graph = [
            {**graph[0], "outputs": ["wide"]},
            {"op": "Cast", "name": "cast", "inputs": ["wide"], "outputs": ["Y"], "attrs": {"to": "fp16"}},
        ]
    return json.dumps(
        {
            "name": case.op,
            "signature": {"inputs": [{"tensor": n} for n in inputs], "outputs": [{"tensor": "Y"}]},
            "tensors": tensors,
            "graph": graph,
        }
    )


def emitted(case: Case) -> str:
    """The CUDA text."""
    from tests.bench.card import card_here
    from tinyir.front import read
    from tinyir.ir import manifest
    from tinyir.ir.pipeline import STAGES
    from tinyir.lower import lower_to, lowering_of

    module: Any = read(model_of(case), "families.json")
    for stage in STAGES[1:]:
        module = (
            lowering_of("plan").lower(module, device=card_here(), atomics="unordered")
            if stage == "plan"
            else lower_to(stage, module, "sm90")
        )
    return manifest.show(module)


def prepared(case: Case) -> tuple[Case, str]:
    """The text of a case, compiled into the cache."""
    from tinyir.runtime.compile import cubins_of

    text = emitted(case)
    cubins_of(text, "sm_90a", jobs=1)
    return case, text


def rival_of(case: Case, x: dict[str, Any]) -> Any:
    """Torch's kernel, which writes Y where it can."""
    import torch

    functional, X, Y = torch.nn.functional, x["X"], x["Y"]
    return {
        "copy": lambda: Y.copy_(X),
        "add": lambda: torch.add(X, x["Z"], out=Y),
        "transpose": lambda: Y.copy_(X.t()),
        "softmax": lambda: torch.softmax(X, 1, out=Y),
        "layernorm": lambda: functional.layer_norm(X, X.shape[1:], x["g"], x["b"]),
        "sum": lambda: torch.sum(X, dtype=torch.float32),
        "column_sum": lambda: torch.sum(X, 0, dtype=torch.float32),
        "row_sum": lambda: torch.sum(X, 1, dtype=torch.float32),
        "argmax": lambda: torch.argmax(X, 1, out=Y),
        "cumsum": lambda: torch.cumsum(X, 1, out=Y),
        "gather": lambda: torch.index_select(X, 0, x["at"], out=Y),
        "scatter": lambda: torch.index_add(X, 0, x["at"][:, 0], x["U"], out=Y),
    }[case.op]


def wanted_of(case: Case, x: dict[str, Any]) -> Any:
    """The numbers in fp64, computed apart from both."""
    import torch

    if case.op == "gather":
        return x["X"][x["at"]].double()
    if case.op == "scatter":
        return x["X"].double().index_add(0, x["at"][:, 0], x["U"].double())
    if case.op == "argmax":  # the first of equal ones
        places = torch.arange(case.shape[1], device="cuda")
        return torch.where(x["X"] == x["X"].amax(1, keepdim=True), places, case.shape[1]).amin(1).double()
    exact = {n: t.double() for n, t in x.items() if t.is_floating_point()}
    if case.op == "layernorm":
        return torch.nn.functional.layer_norm(exact["X"], exact["X"].shape[1:], exact["g"], exact["b"])
    return {
        "copy": lambda: exact["X"],
        "add": lambda: exact["X"] + exact["Z"],
        "transpose": lambda: exact["X"].t(),
        "softmax": lambda: torch.softmax(exact["X"], 1),
        "sum": lambda: exact["X"].sum(),
        "column_sum": lambda: exact["X"].sum(0),
        "row_sum": lambda: exact["X"].sum(1),
        "cumsum": lambda: exact["X"].cumsum(1),
    }[case.op]()


def operands_of(case: Case) -> dict[str, Any]:
    """Random numbers on the card; Y holds NaN."""
    import torch

    torch.manual_seed(len(case.name))
    kinds = {"fp32": torch.float32, "fp16": torch.float16, "i32": torch.int32, "i64": torch.int64}
    found = {}
    for name, (dtype, shape) in case.tensors.items():
        if dtype.startswith("i"):
            found[name] = torch.randint(0, TABLE, shape, device="cuda").to(kinds[dtype])
        else:  # running sums of numbers around 0 stay in the range of fp16
            found[name] = (
                torch.full(shape, math.nan, device="cuda", dtype=kinds[dtype])
                if name == "Y"
                else torch.randn(shape, device="cuda").to(kinds[dtype])
            )
    return found


def measure_case(device: Any, case: Case, text: str, peak_gbs: float) -> dict[str, Any]:
    """One row: the error, and both times."""
    import torch

    from tests.bench.gemm import on_stream, timed
    from tinyir.ir import manifest
    from tinyir.runtime.device import Buffer
    from tinyir.runtime.graph import Graph
    from tinyir.runtime.program import Program

    x = operands_of(case)
    kept = {name: Buffer(name, t.data_ptr(), t.numel(), t.element_size(), 0) for name, t in x.items()}
    program = Program(device, text, manifest.parse(text), {}, kept=kept)
    torch.cuda.synchronize()
    program.run()
    device.stream.synchronize()
    wanted = wanted_of(case, x)
    scale = max(float(wanted.abs().max()), math.sqrt(math.prod(case.shape)) if case.op == "sum" else 0.0)
    error = float((x["Y"].double() - wanted).abs().max()) / scale
    if not error <= NEAR[case.dtype]:
        raise SystemExit(f"{case.name}: off by {error:.3e} of the largest number")
    del wanted
    rival = on_stream(device, rival_of(case, x))
    for _ in range(3):
        rival()
    device.stream.synchronize()
    with Graph(device.stream.handle, program.enqueue) as ours, Graph(device.stream.handle, rival) as theirs:
        mine, torchs = timed(device, [ours.run, theirs.run], RUNS)
    plans = [line.removeprefix("// plan ") for line in text.splitlines() if line.startswith("// plan ")]
    share = {name: case.moved / us / 1e3 / peak_gbs for name, us in (("ours", mine), ("torch", torchs))}
    return {
        "op": case.op,
        "dtype": case.dtype,
        "shape": list(case.shape),
        "plans": plans,
        "error": error,
        "bytes": case.moved,
        "ours_us": mine,
        "torch_us": torchs,
        "ratio": torchs / mine,
        "share": share["ours"],
        "share_torch": share["torch"],
    }


def copy_gbs(device: Any) -> float:
    """GB/s at which the card copies 1 GiB, read and written bytes together."""
    import torch

    from tests.bench.gemm import on_stream, timed

    x = torch.zeros(1 << 30, device="cuda", dtype=torch.uint8)
    y = torch.empty_like(x)
    return 2 * x.numel() / timed(device, [on_stream(device, lambda: y.copy_(x))], 5)[0] / 1e3


def main() -> int:
    """Emit, or measure; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--emit", type=Path)
    parser.add_argument("--only", default="", help="some ops, by commas")
    parser.add_argument("--out", type=Path, default=Path("families.json"))
    args = parser.parse_args()
    if args.emit:
        args.emit.mkdir(parents=True, exist_ok=True)
        for case in cases(args.only):
            (args.emit / f"{case.name}.cu").write_text(emitted(case), encoding="utf-8")
            print(case.name, flush=True)
        return 0
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        texts = []
        for case, text in pool.map(prepared, cases(args.only)):
            texts.append((case, text))
            print(f"compiled {len(texts)} of {len(cases(args.only))}: {case.name}", flush=True)
    import torch

    from tinyir.runtime.compile import find_compiler
    from tinyir.runtime.cuda import CudaDevice

    torch.cuda.init()
    device = CudaDevice()
    head = {
        "card": device.description,
        "python": platform.python_version(),
        "compiler": find_compiler().name,
        "torch": torch.__version__,
    }
    rows: list[dict[str, Any]] = []
    try:
        peak = copy_gbs(device)
        print(f"{device.description}: copies at {peak:.0f} GB/s", flush=True)
        for case, text in texts:
            row = measure_case(device, case, text, peak)
            rows.append(row)
            print(
                f"| {case.name} | {row['ours_us']:.1f} us, {row['share']:.0%} | {row['torch_us']:.1f} us, "
                f"{row['share_torch']:.0%} | {row['ratio']:.2f} |",
                flush=True,
            )
            args.out.write_text(json.dumps({**head, "copy_gbs": peak, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    finally:
        device.release()
    return 0


if __name__ == "__main__":
    sys.exit(main())
