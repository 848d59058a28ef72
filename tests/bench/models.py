"""Whole networks on one device beside torch: `python tests/bench/models.py [--dtype fp32] [--batch 8] [--tokens 1024]
[--profile] [--out models.json] [NAME ...]`.

ResNet-50, BERT-base, GPT-2, ViT, CLIP's image encoder, Llama (4 layers), Whisper's encoder (base), ConvNeXt-T,
EfficientNet-B0, MobileNetV3-L, DenseNet-121 and a UNet, with random weights; a name may say its own sizes,
`gpt2:tokens=1024:batch=8`. Each is compiled with `tinyir.compile` in a process of its own, `--jobs` of them side by
side, loaded, run, and compared with the same graph and weights in torch in fp32 (TF32 off). Then it is timed beside the
graph in torch of the same dtype. `us`: a call with arrays that are on the GPU, ours, torch eager, torch.compile and its
mode reduce-overhead. `graph_us`: one CUDA graph of the whole network between two events, from a cold L2 cache, so that
the host costs nothing: ours, eager and torch.compile. `attention` is its share of the sum of the launches: ours as
`tiny-run --profile` has it, torch.compile's as torch's profiler has it; `--profile` keeps the launches (`launches`).
`--device sim --small` runs shrunken networks in the simulation and compares them with playback. A network that fails is
printed with its reason and the next one goes on. Exit code 1 when one fails or differs by more than its dtype allows.
"""

from __future__ import annotations

import argparse
import inspect
import json
import multiprocessing
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import tinyir  # noqa: E402
from tests import models  # noqa: E402
from tests.models import RandomModel  # noqa: E402
from tests.models.torch_source import torch_network, variables_of  # noqa: E402
from tinyir.kit.diag import Refused  # noqa: E402

NETWORKS: dict[str, Callable[..., RandomModel]] = {
    "resnet50": models.resnet50,
    "bert": models.bert,
    "gpt2": models.gpt2,
    "vit": lambda **how: models.vit(**{"layers": 12, **how}),
    "clip": models.clip,
    "llama": models.llama,
    "whisper": models.whisper,
    "convnext": models.convnext,
    "efficientnet": models.efficientnet,
    "mobilenet": models.mobilenet,
    "densenet": models.densenet,
    "unet": models.unet,
}
TAKES = {name: set(inspect.signature(make).parameters) for name, make in NETWORKS.items()} | {"vit": {"batch", "size"}}
SMALL: dict[str, dict[str, Any]] = {
    "resnet50": {"layers": (1, 1), "width": 4, "size": 32, "classes": 5},
    "bert": {"layers": 1, "tokens": 8, "hidden": 32, "heads": 2, "words": 50, "positions": 16},
    "gpt2": {"layers": 1, "tokens": 8, "hidden": 32, "heads": 2, "words": 50, "positions": 16},
    "vit": {"layers": 1, "size": 32, "hidden": 32, "heads": 2, "classes": 5},
    "clip": {"layers": 1, "size": 32, "patch": 8, "hidden": 32, "heads": 2, "shared": 8},
    "llama": {"layers": 1, "tokens": 8, "hidden": 32, "heads": 4, "shared": 2, "inner": 48, "words": 50},
    "whisper": {"layers": 1, "tokens": 6, "hidden": 32, "heads": 2, "bands": 5},
    "convnext": {"layers": (1, 1), "width": 8, "size": 32, "classes": 5},
    "efficientnet": {"size": 32, "depth": 3},
    "mobilenet": {"size": 32, "depth": 5},
    "densenet": {"layers": (2, 2), "grown": 4, "size": 32, "classes": 5},
    "unet": {"size": 8, "width": 16, "groups": 4, "heads": 2},
}
MOST = {"fp32": 1e-3, "fp16": 2e-2}  # of an output's greatest number
RIVALS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda network: network,
    "compile": lambda network: _compiled(network),
    "reduce_overhead": lambda network: _compiled(network, mode="reduce-overhead"),
}
Arrays = Mapping[str, np.ndarray]


class Network:
    """A network of a size and a dtype: `gpt2:tokens=1024`."""

    def __init__(self, word: str, dtype: str, options: Mapping[str, int], is_small: bool):
        self.name, *sizes = word.split(":")
        own = {key: int(number) for key, number in (size.split("=") for size in sizes)}
        fitting = {key: number for key, number in {**options, **own}.items() if key in TAKES[self.name]}
        self.label = ":".join([self.name, *(f"{key}={number}" for key, number in fitting.items())])
        self.dtype = dtype
        self.model = NETWORKS[self.name](**{**(SMALL[self.name] if is_small else {}), **fitting}, dtype=dtype)

    def __str__(self) -> str:
        return f"{self.label} {self.dtype}"


def compiled(network: Network, device: str, place: Path) -> float:
    """Compile it and keep the program in a file; seconds to compile."""
    arrays = network.model.arrays()
    start = time.perf_counter()
    with tinyir.compile(
        network.model.text, device=device, params={n: arrays[n] for n in network.model.weights}
    ) as program:
        seconds = time.perf_counter() - start
        program.save(place)
    return round(seconds, 2)


def run_network(network: Network, made: Future[float], place: Path, args: argparse.Namespace) -> dict[str, Any]:
    """One row: kernels, the greatest difference against the greatest number of its output, seconds to compile and
    microseconds a call."""
    model, dtype = network.model, network.dtype
    arrays = model.arrays()
    given = {n: a for n, a in arrays.items() if n not in model.weights}
    compile_s = made.result()
    start = time.perf_counter()
    with tinyir.load(place, device=args.device) as program:
        row: dict[str, Any] = {
            "network": network.label,
            "dtype": dtype,
            "kernels": len(program._session.module.launches),
            "compile_s": compile_s,
            "load_s": round(time.perf_counter() - start, 2),
        }
        say(f"{network}: {row['kernels']} kernels after {compile_s} s; running")
        found = program(**given)
        if args.device == "sim":
            from tinyir.front.json import read
            from tinyir.play import tiny as play_tiny

            return row | {
                "differs": greatest_difference(found, play_tiny.play(read(model.text), arrays)),
                "from": "playback",
            }
        row |= {"differs": greatest_difference(found, torch_outputs(model, arrays, "fp32")), "from": "torch fp32"}
        row["torch_differs"] = greatest_difference(
            torch_outputs(model, arrays, dtype), torch_outputs(model, arrays, "fp32")
        )
        row |= times(program, network, arrays, given, args.rivals)
        row |= graph_times(program, network, arrays, args.rivals)
        if args.profile:
            row["launches"] = launches_of(program)
        return row


def greatest_difference(found: Arrays, wanted: Arrays) -> float:
    """Over all outputs, in units of the greatest number of each; infinite where one is not a number."""
    worst = 0.0
    for name, array in wanted.items():
        exact = np.asarray(array, np.float64)
        apart = np.abs(np.asarray(found[name], np.float64) - exact).max() / np.abs(exact).max()
        worst = max(worst, float(apart) if np.isfinite(apart) else float("inf"))
    return worst


# --- torch


def torch_outputs(model: RandomModel, arrays: Arrays, dtype: str) -> dict[str, np.ndarray]:
    """What torch computes of the same graph, weights and inputs in this dtype."""
    import torch

    with torch.no_grad():
        results = torch_network(model, arrays, _torch_dtype(dtype))(**torch_inputs(model, arrays, dtype))
    return {e["tensor"]: r.float().cpu().numpy() for e, r in zip(model.graph["signature"]["outputs"], results)}


def torch_inputs(model: RandomModel, arrays: Arrays, dtype: str) -> dict[str, Any]:
    """The inputs that are no weights, by their names in the torch text; floats in this dtype."""
    import torch

    names = variables_of(model)
    moved = {names[n]: torch.from_numpy(a).cuda() for n, a in arrays.items() if n not in model.weights}
    return {n: t.to(_torch_dtype(dtype)) if t.is_floating_point() else t for n, t in moved.items()}


def times(program: Any, network: Network, arrays: Arrays, given: Arrays, rivals: list[str]) -> dict[str, Any]:
    """Microseconds of a call, inputs on the GPU: ours, and torch's; a rival that fails has its reason instead."""
    import torch

    model, dtype = network.model, network.dtype
    ours = {n: torch.from_numpy(a).cuda() for n, a in given.items()}
    row: dict[str, Any] = {"us": median_us(lambda: program(**ours))}
    say(f"{network}: {row['us']} us")
    module, inputs = torch_network(model, arrays, _torch_dtype(dtype)), torch_inputs(model, arrays, dtype)
    with torch.no_grad():
        for word in rivals:
            try:
                made = RIVALS[word](module)
                row[f"torch_{word}_us"] = median_us(lambda: made(**inputs))
            except Exception as fault:  # torch's own affair: the other rivals still count
                row[f"torch_{word}_us"] = f"{type(fault).__name__}: {str(fault)[:200]}"
            say(f"{network}: torch {word} {row[f'torch_{word}_us']} us")
    return row


def graph_times(program: Any, network: Network, arrays: Arrays, rivals: list[str]) -> dict[str, Any]:
    """Microseconds of one CUDA graph of the whole network, ours and torch's (eager and compiled, of `rivals`), in
    turns; and attention's share of the launches of each."""
    import torch

    from tests.bench.attention import graph_of
    from tests.bench.gemm import timed
    from tinyir.runtime.graph import Graph

    ours = program._session._programs[-1]
    module = torch_network(network.model, arrays, _torch_dtype(network.dtype))
    inputs, row, replays = torch_inputs(network.model, arrays, network.dtype), {}, {}
    with torch.no_grad():
        for word in (word for word in ("eager", "compile") if word in rivals):
            try:
                made = RIVALS[word](module)
                replays[word] = graph_of(ours.device, lambda made=made: made(**inputs))
                row[f"torch_{word}_attention"] = attention_share(lambda made=made: made(**inputs))
            except Exception as fault:  # as above
                row[f"torch_{word}_graph_us"] = f"{type(fault).__name__}: {str(fault)[:200]}"
    with Graph(ours.device.stream.handle, ours.enqueue) as mine:
        found = timed(ours.device, [mine.run, *replays.values()], 30)
    launches = profiled(program)
    names = [step["name"] for step in network.model.graph["graph"] if step["op"] == "Attention"]
    spent = sum(each.seconds for each in launches if any(name in each.name for name in names))
    row |= {f"torch_{word}_graph_us": round(us, 1) for word, us in zip(replays, found[1:])}
    row |= {"graph_us": round(found[0], 1), "attention": round(spent / sum(each.seconds for each in launches), 3)}
    say(f"{network}: one graph {row['graph_us']} us, torch.compile's {row.get('torch_compile_graph_us')} us")
    return row


def profiled(program: Any) -> Any:
    """Each launch of a loaded program and its seconds."""
    from tinyir.runtime.profile import profile

    return profile(program._session._programs[-1])


def launches_of(program: Any) -> list[dict[str, Any]]:
    """The launches of a run, those of one kernel and one size together: the first one's name, how many they are, the
    microseconds of all, and what each computes and moves at least."""
    made = program._session._programs[-1].made
    found: dict[tuple[str, int, int], dict[str, Any]] = {}
    for launch, one in zip(made, profiled(program), strict=True):
        first = {"name": one.name, "count": 0, "us": 0.0, "flops": one.flops, "bytes": one.bytes}
        row = found.setdefault((launch.entry, one.flops, one.bytes), first)
        row["count"] += 1
        row["us"] = round(row["us"] + one.seconds * 1e6, 2)
    return sorted(found.values(), key=lambda row: -row["us"])


def attention_share(run: Callable[[], Any]) -> float:
    """Of the time of torch's kernels, that of its attention."""
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as watched:
        for _ in range(3):
            run()
        torch.cuda.synchronize()
    spent = {event.key: event.self_device_time_total for event in watched.key_averages()}
    ways = ("flash", "fmha", "cudnn_generated", "sdpa", "attention")
    return round(sum(us for name, us in spent.items() if any(w in name for w in ways)) / sum(spent.values()), 3)


def median_us(call: Callable[[], Any], rounds: int = 50, warm: int = 5) -> float:
    """Wall time of a call until the GPU is done."""
    import torch

    seconds = []
    for _ in range(warm + rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return round(sorted(seconds[warm:])[rounds // 2] * 1e6, 1)


def _compiled(network: Any, **how: Any) -> Any:
    import torch

    torch._dynamo.reset()
    return torch.compile(network, **how)


def _torch_dtype(dtype: str) -> Any:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    return {"fp32": torch.float32, "fp16": torch.float16}[dtype]


# --- the command


def say(line: str) -> None:
    """Progress, on stderr."""
    print(f"[{time.strftime('%H:%M:%S')}] {line}", file=sys.stderr, flush=True)


def failed(name: str, dtype: str, fault: Exception) -> dict[str, Any]:
    """The row of a network that cannot be run, and why."""
    if isinstance(fault, Refused):
        reason = "; ".join(f"{d.code}{f' at {d.at}' if d.at else ''}: {d.why()}" for d in fault.diags[:5])
    else:
        reason = "".join(traceback.format_exception_only(fault)).strip()
        traceback.print_exception(fault)
    say(f"{name} {dtype}: FAILED, {reason}")
    return {"network": name, "dtype": dtype, "failed": reason}


def is_good(row: Mapping[str, Any]) -> bool:
    """Whether a network ran and gave what it should."""
    return "failed" not in row and row["differs"] <= MOST[row["dtype"]]


def main() -> int:
    """Print a row a network; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"of {', '.join(NETWORKS)}, with sizes of its own (gpt2:tokens=1024); all of them without one",
    )
    parser.add_argument(
        "--dtype", action="append", choices=tuple(MOST), help="may be repeated; all of them without one"
    )
    parser.add_argument("--device", choices=("cuda", "sim"), default="cuda")
    parser.add_argument("--small", action="store_true", help="shrunken networks")
    parser.add_argument(
        "--rivals",
        nargs="*",
        choices=tuple(RIVALS),
        default=list(RIVALS),
        help="which of torch's ways to time; all of them without it",
    )
    parser.add_argument("--batch", type=int, help="of each network that does not say its own")
    parser.add_argument("--tokens", type=int, help="of each network with tokens that does not say its own")
    parser.add_argument("--jobs", type=int, default=1, help="networks that are compiled side by side")
    parser.add_argument("--profile", action="store_true", help="keep the time of each launch in its row")
    parser.add_argument("--out", type=Path, help="write the rows as JSON after each network")
    args = parser.parse_args()
    given = {key: number for key in ("batch", "tokens") if (number := getattr(args, key)) is not None}
    networks = [
        Network(word, dtype, given, args.small) for word in args.names or NETWORKS for dtype in args.dtype or MOST
    ]
    rows = []
    fresh = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(args.jobs, mp_context=fresh) as processes:
        places = [Path(folder, f"{number}.tinyir") for number in range(len(networks))]
        made = [processes.submit(compiled, n, args.device, place) for n, place in zip(networks, places)]
        for network, future, place in zip(networks, made, places):
            try:
                rows.append(run_network(network, future, place, args))
            except Exception as fault:
                rows.append(failed(network.label, network.dtype, fault))
            place.unlink(missing_ok=True)
            print(json.dumps(rows[-1]), flush=True)
            if args.out:
                args.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return int(not all(map(is_good, rows)))


if __name__ == "__main__":
    sys.exit(main())
