"""Whole networks on one device beside torch: `python tests/bench/models.py [--device cuda|sim] [--small] [--out models.json] [NAME ...]`.

ResNet-50, BERT-base, GPT-2 and ViT with random weights in fp32, batch 1. Each is compiled with `tinyir.compile`, run, and compared with playback of
the tiny text; on a GPU the time of a call with arrays that lie
there is printed beside torch eager, torch.compile and its mode reduce-overhead. What a network cannot do yet is printed with its codes. `--small`
takes shrunken networks, which the simulation can run. Exit code 1 when a network differs by more than 1e-3 of its greatest number.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
import time
from pathlib import Path
from typing import Any, Callable

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import tinyir  # noqa: E402
from tests.models import RandomModel, bert, gpt2, resnet50, vit  # noqa: E402
from tinyir.front.json import read  # noqa: E402
from tinyir.kit.diag import Refused  # noqa: E402
from tinyir.play import tiny as play_tiny  # noqa: E402

NETWORKS: dict[str, Callable[..., RandomModel]] = {"resnet50": resnet50, "bert": bert, "gpt2": gpt2, "vit": lambda **how: vit(**{"layers": 12, **how})}
SMALL: dict[str, dict[str, Any]] = {
    "resnet50": {"layers": (1, 1), "width": 4, "size": 32, "classes": 5},
    "bert": {"layers": 1, "tokens": 8, "hidden": 32, "heads": 2, "words": 50, "positions": 16},
    "gpt2": {"layers": 1, "tokens": 8, "hidden": 32, "heads": 2, "words": 50, "positions": 16},
    "vit": {"layers": 1, "size": 32, "hidden": 32, "heads": 2, "classes": 5},
}
MOST = 1e-3  # of an output's greatest number


def run_network(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """One row: kernels, the greatest difference against the greatest number of its output, seconds to compile and microseconds a call."""
    model = NETWORKS[name](**SMALL[name] if args.small else {})
    arrays = model.arrays()
    weights = {n: arrays[n] for n in model.weights}
    given = {n: a for n, a in arrays.items() if n not in weights}
    start = time.perf_counter()
    try:
        program = tinyir.compile(model.text, device=args.device, params=weights)
    except Refused as fault:
        codes = collections.Counter(d.code for d in fault.diags)
        return {"network": name, "refused": dict(codes), "first": fault.diags[0].why()}
    with program:
        seconds = time.perf_counter() - start
        found = program(**given)
        wanted = play_tiny.play(read(model.text), arrays)
        differs = max(float(np.abs(found[n] - a).max() / np.abs(a).max()) for n, a in wanted.items())
        row: dict[str, Any] = {"network": name, "kernels": len(program._session.module.launches), "differs": differs, "compile_s": round(seconds, 2)}
        if args.device == "cuda":
            row |= _times(program, name, given)
        return row


def _times(program: Any, name: str, given: dict[str, np.ndarray]) -> dict[str, Any]:
    """Microseconds of a call, inputs on the GPU: ours, and torch's model of the same name where torchvision or transformers has it."""
    import torch

    inputs = {n: torch.from_numpy(a).cuda() for n, a in given.items()}
    row = {"us": _median(lambda: program(**inputs))}
    plain = _torch_network(name)
    if plain is None:
        return row | {"torch": "its network is not installed"}
    network, arguments = plain
    with torch.no_grad():
        for word, made in (("eager", lambda: network), ("compile", lambda: torch.compile(network)), ("reduce_overhead", lambda: torch.compile(network, mode="reduce-overhead"))):
            run = made()
            row[f"torch_{word}_us"] = _median(lambda run=run: run(**arguments) if isinstance(arguments, dict) else run(arguments))
            torch._dynamo.reset()
    return row


def _torch_network(name: str) -> tuple[Any, Any] | None:
    """torch's own network of this name and sizes, in fp32 with TF32 off, and its arguments; None where the library is missing."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    try:
        if name in ("resnet50", "vit"):
            import torchvision

            network = torchvision.models.resnet50() if name == "resnet50" else torchvision.models.vit_b_16()
            return network.cuda().eval(), torch.randn(1, 3, 224, 224, device="cuda")
        import transformers

        network = transformers.BertModel(transformers.BertConfig()) if name == "bert" else transformers.GPT2LMHeadModel(transformers.GPT2Config())
        return network.cuda().eval(), {"input_ids": torch.randint(0, 30000, (1, 128), device="cuda")}
    except ImportError:
        return None


def _median(call: Callable[[], Any], rounds: int = 30) -> float:
    import torch

    for _ in range(5):
        call()
    torch.cuda.synchronize()
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return round(sorted(seconds)[rounds // 2] * 1e6, 1)


def main() -> int:
    """Print a row a network; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NETWORKS)}; all of them without one")
    parser.add_argument("--device", choices=("cuda", "sim"), default="cuda")
    parser.add_argument("--small", action="store_true", help="shrunken networks")
    parser.add_argument("--out", type=Path, help="write the rows as JSON")
    args = parser.parse_args()
    rows = []
    for name in args.names or NETWORKS:
        rows.append(run_network(name, args))
        print(json.dumps(rows[-1]), flush=True)
        if args.out:
            args.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return int(any(row.get("differs", 0) > MOST for row in rows))


if __name__ == "__main__":
    sys.exit(main())
