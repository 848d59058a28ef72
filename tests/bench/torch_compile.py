"""Architectures of torchvision, timm and transformers through `torch.compile(backend="tinyir")`, with random weights.

    python tests/bench/torch_compile.py [--workers 8] [--times] [--dtype fp32] [--small] [--out results.json] [NAME ...]

Each is compared with torch's own run of it in fp32 (TF32 off), an architecture to a process, several side by side.
Prints how many graphs Dynamo made, what of them torch runs in our place, the largest difference as a part of the
output's largest number, and in the same units how far the output of another input is away (`depends`). `--times` times
them one after the other instead: ours, eager, and Inductor's reduce-overhead, each compiled in a process of its own, as
medians of calls with tensors on the GPU, cold for none. `--small` takes shallow networks. Needs torch, and a GPU unless
`--device cpu`.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.architectures import NETWORKS  # noqa: E402


def with_numbers(model: Any) -> Any:
    """The model with random numbers for weights such that values keep their size from layer to layer, and the output
    depends on the input: networks as they are made give next to nothing, some of them zeros."""
    import torch

    with torch.no_grad():
        for name, own in (*model.named_parameters(), *model.named_buffers()):
            if not own.is_floating_point():
                continue
            if name.endswith("running_var"):
                own.uniform_(0.5, 1.5)
            elif name.endswith("running_mean"):
                own.normal_(0, 0.1)
            elif isinstance(own, torch.nn.Parameter) and own.ndim > 1:
                own.normal_(0, ((2 if own.ndim > 2 else 1) / max(1, own[0].numel())) ** 0.5)
            elif isinstance(own, torch.nn.Parameter) and own.ndim:
                own.normal_(1.0 if name.endswith("weight") else 0.0, 0.1)
    return model


def differs(found: Any, wanted: Any) -> float:
    """The largest difference, in units of the largest number."""
    apart = (found.double() - wanted.double()).abs().max() / wanted.double().abs().max().clamp_min(1e-30)
    return float(apart) if bool(apart.isfinite()) else float("inf")


def checked(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """One architecture: right, and cut how often."""
    row: dict[str, Any] = {"network": name}
    start = time.perf_counter()
    try:
        import torch

        from tinyir.dynamo import reports

        torch.set_num_threads(1)
        torch.manual_seed(0)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        warnings.simplefilter("ignore")
        model, inputs = NETWORKS[name](args.batch, args.small)
        model = with_numbers(model).eval().to(args.device)
        inputs = tuple(x.to(args.device) for x in inputs)
        graphs: list[int] = []
        backend = counting(graphs, args.jobs)
        with torch.no_grad():
            wanted = model(*inputs)
            exact = wanted
            if args.dtype == "fp16":
                model = model.half()
                inputs = tuple(x.half() if x.is_floating_point() else x for x in inputs)
                row["torch_differs"] = differs(model(*inputs), exact)
            made = torch.compile(model, backend=backend)
            found = made(*inputs)
            row |= {"differs": differs(found, exact), "graphs": len(graphs), "nodes": sum(graphs)}
            row["depends"] = differs(model(*(x.flip(-1) for x in inputs)), model(*inputs))
            row["compile_s"] = round(time.perf_counter() - start, 1)
            row["again"] = max(differs(made(*inputs), exact) for _ in range(3))
        row["torch_runs"] = reports()
    except BaseException as fault:  # noqa: BLE001 (another network is another matter)
        row["fault"] = f"{type(fault).__name__}: {fault}"[:700]
        row["trace"] = traceback.format_exc()[-1500:]
    row["seconds"] = round(time.perf_counter() - start, 1)
    return row


def counting(graphs: list[int], jobs: int) -> Any:
    """The backend, which also notes the nodes of each graph that Dynamo gives it."""
    from tinyir.dynamo import backend

    def made(module: Any, inputs: Any) -> Any:
        graphs.append(len(module.graph.nodes))
        return backend(module, inputs, jobs=jobs)

    return made


def timed(name: str, way: str, args: argparse.Namespace, marks: str, count: int) -> dict[str, Any]:
    """Microseconds of a call of one rival, inputs on the GPU: of the host alone until it returns, and to the end of the
    last. All are compiled first, each in a process of its own; then one is timed after the other."""
    start = time.perf_counter()
    row: dict[str, Any] = {"network": name, "dtype": args.dtype, "batch": args.batch}
    run = None
    try:
        run = _compiled(name, way, args, row)
    except BaseException as fault:  # noqa: BLE001 (another network is another matter)
        row[f"{way}_us"] = f"{type(fault).__name__}: {fault}"[:500]
    row[f"{way}_compile_s"] = round(time.perf_counter() - start, 1)
    Path(marks, f"{name}.{way}").touch()
    while len(list(Path(marks).iterdir())) < count and time.perf_counter() - start < args.ready:
        time.sleep(0.1)
    import torch

    with open(f"{marks}.lock", "w") as held, torch.no_grad():
        fcntl.flock(held, fcntl.LOCK_EX)
        if run is not None:
            row |= {f"{way}_us": per_call(run), f"{way}_host_us": host(run)}
    return row


def _compiled(name: str, way: str, args: argparse.Namespace, row: dict[str, Any]) -> Callable[[], Any]:
    """A call of one rival, warm; how far its answer is from eager's goes into the row."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    warnings.simplefilter("ignore")
    model, inputs = NETWORKS[name](args.batch, args.small)
    model = with_numbers(model).eval().cuda()
    inputs = tuple(x.cuda() for x in inputs)
    if args.dtype == "fp16":
        model, inputs = model.half(), tuple(x.half() if x.is_floating_point() else x for x in inputs)
    eager = model
    if way == "tinyir":
        model = torch.compile(model, backend=counting([], args.jobs))
    elif way == "inductor":
        model = torch.compile(model, mode="reduce-overhead")
    with torch.no_grad():
        wanted = eager(*inputs)
        for _ in range(4):
            answer = model(*inputs)
        row[f"{way}_differs"] = differs(answer, wanted)
        torch.cuda.synchronize()
    return lambda: model(*inputs)


def per_call(run: Callable[[], Any], rounds: int = 20) -> float:
    """The median over rounds of ten calls back to back, by events."""
    import torch

    found = []
    for _ in range(rounds):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        first.record()
        for _ in range(10):
            run()
        last.record()
        torch.cuda.synchronize()
        found.append(first.elapsed_time(last) * 100)
    return round(statistics.median(found), 1)


def host(run: Callable[[], Any], rounds: int = 50) -> float:
    """The median time in which a call returns, the GPU idle before it."""
    import torch

    found = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        found.append((time.perf_counter() - start) * 1e6)
    torch.cuda.synchronize()
    return round(statistics.median(found), 1)


def main() -> int:
    """Check, then time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--dtype", choices=("fp32", "fp16"), default="fp32")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--rivals", default="inductor,eager", help="beside which ours is timed")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--seconds", type=float, default=1e6, help="leave out what is not done after this long")
    parser.add_argument("--ready", type=float, default=1e6, help="with --times: time what is compiled after this long")
    parser.add_argument("--out")
    args = parser.parse_args()
    names, rows = args.names or list(NETWORKS), []
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        marks = Path(folder, "ready")
        marks.mkdir()
        each = [(n, way) for n in names for way in ("tinyir", *args.rivals.split(","))]
        workers = len(each) if args.times else args.workers
        pool = ProcessPoolExecutor(workers, mp_context=context, max_tasks_per_child=1)
        asked = [(timed, *one, args, str(marks), len(each)) for one in each]
        asked = asked if args.times else [(checked, n, args) for n in names]
        waiting = {pool.submit(*one): " ".join(one[1 : 3 if args.times else 2]) for one in asked}
        try:
            for done in as_completed(waiting, timeout=args.seconds):
                rows.append(done.result())
                print(json.dumps(rows[-1]), flush=True)
        except TimeoutError:
            print("not done:", [n for f, n in waiting.items() if not f.done()], flush=True)
        for worker in list((pool._processes or {}).values()):
            worker.terminate()
    if args.times:
        rows = [{k: v for row in rows if row["network"] == n for k, v in row.items()} for n in names]
        rows = [row for row in rows if row]
    if args.out:
        Path(args.out).write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
