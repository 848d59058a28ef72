"""Whole networks on one device beside torch: `python tests/bench/models.py [--dtype fp32] [--profile] [--out
models.json] [NAME ...]`.

ResNet-50, BERT-base, GPT-2 and ViT, batch 1, with random weights. Each is compiled with `tinyir.compile`, run, and
compared with the same graph and weights in torch in fp32 (TF32 off); the time of a call with arrays that lie on the GPU
stands beside that of the graph in torch of the same dtype: eager, torch.compile, and its mode reduce-overhead.
`--device sim --small` runs shrunken networks in the simulation and compares them with playback. A network that fails is
printed with its reason and the next one goes on. Exit code 1 when one fails or differs by more than its dtype allows.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import tinyir  # noqa: E402
from tests.models import RandomModel, bert, gpt2, resnet50, vit  # noqa: E402
from tests.models.torch_source import torch_network, variables_of  # noqa: E402
from tinyir.kit.diag import Refused  # noqa: E402

NETWORKS: dict[str, Callable[..., RandomModel]] = {
    "resnet50": resnet50,
    "bert": bert,
    "gpt2": gpt2,
    "vit": lambda **how: vit(**{"layers": 12, **how}),
}
SMALL: dict[str, dict[str, Any]] = {
    "resnet50": {"layers": (1, 1), "width": 4, "size": 32, "classes": 5},
    "bert": {"layers": 1, "tokens": 8, "hidden": 32, "heads": 2, "words": 50, "positions": 16},
    "gpt2": {"layers": 1, "tokens": 8, "hidden": 32, "heads": 2, "words": 50, "positions": 16},
    "vit": {"layers": 1, "size": 32, "hidden": 32, "heads": 2, "classes": 5},
}
MOST = {"fp32": 1e-3, "fp16": 2e-2}  # of an output's greatest number
RIVALS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda network: network,
    "compile": lambda network: _compiled(network),
    "reduce_overhead": lambda network: _compiled(network, mode="reduce-overhead"),
}
Arrays = Mapping[str, np.ndarray]


def run_network(name: str, dtype: str, args: argparse.Namespace) -> dict[str, Any]:
    """One row: kernels, the greatest difference against the greatest number of its output, seconds to compile and
    microseconds a call."""
    model = NETWORKS[name](**SMALL[name] if args.small else {}, dtype=dtype)
    arrays = model.arrays()
    given = {n: a for n, a in arrays.items() if n not in model.weights}
    say(f"{name} {dtype}: compiling")
    start = time.perf_counter()
    with tinyir.compile(model.text, device=args.device, params={n: arrays[n] for n in model.weights}) as program:
        row: dict[str, Any] = {
            "network": name,
            "dtype": dtype,
            "kernels": len(program._session.module.launches),
            "compile_s": round(time.perf_counter() - start, 2),
        }
        say(f"{name} {dtype}: {row['kernels']} kernels after {row['compile_s']} s; running")
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
        row |= times(program, model, arrays, given, dtype, args.rivals)
        if args.profile:
            from tinyir.runtime.profile import profile, table_of

            print(table_of(profile(next(iter(program._session._programs.values())))), file=sys.stderr, flush=True)
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


def times(
    program: Any, model: RandomModel, arrays: Arrays, given: Arrays, dtype: str, rivals: list[str]
) -> dict[str, Any]:
    """Microseconds of a call, inputs on the GPU: ours, and torch's; a rival that fails has its reason instead."""
    import torch

    ours = {n: torch.from_numpy(a).cuda() for n, a in given.items()}
    row: dict[str, Any] = {"us": median_us(lambda: program(**ours))}
    say(f"{model.name} {dtype}: {row['us']} us")
    network, inputs = torch_network(model, arrays, _torch_dtype(dtype)), torch_inputs(model, arrays, dtype)
    with torch.no_grad():
        for word in rivals:
            try:
                made = RIVALS[word](network)
                row[f"torch_{word}_us"] = median_us(lambda: made(**inputs))
            except Exception as fault:  # torch's own affair: the other rivals still count
                row[f"torch_{word}_us"] = f"{type(fault).__name__}: {str(fault)[:200]}"
            say(f"{model.name} {dtype}: torch {word} {row[f'torch_{word}_us']} us")
    return row


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
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NETWORKS)}; all of them without one")
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
    parser.add_argument("--profile", action="store_true", help="print the time of each launch")
    parser.add_argument("--out", type=Path, help="write the rows as JSON after each network")
    args = parser.parse_args()
    rows = []
    for name in args.names or NETWORKS:
        for dtype in args.dtype or MOST:
            try:
                rows.append(run_network(name, dtype, args))
            except Exception as fault:
                rows.append(failed(name, dtype, fault))
            print(json.dumps(rows[-1]), flush=True)
            if args.out:
                args.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return int(not all(map(is_good, rows)))


if __name__ == "__main__":
    sys.exit(main())
