"""Every tile that the cost model thinks near, at a list of shapes: what the model of contractions is fitted to and
judged by.

    python tests/bench/tiles.py [--seconds 120] [--out results.json] [--only 1x4096x4096,...]     needs a GPU, PyCUDA
      and torch

fp16 GEMM + bias + ReLU, MxNxK, with a suffix NT where B is [N, K]. Every plan is checked against cublasLt before it is
timed, as CUDA graphs from a cold L2 cache (`odd.Clock`). A plan's text serves all shapes. Prints the fastest of each
shape; the JSON holds all, with card and versions.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.card import card_here, versions_here  # noqa: E402
from tests.bench.gemm import model_of, on_stream  # noqa: E402
from tests.bench.odd import Clock, _error_of, _program, label_of  # noqa: E402

SHAPES = (
    "1x4096x4096 2x4096x4096 4x4096x4096 8x4096x4096 16x4096x4096 32x4096x4096 64x4096x4096 100x4096x4096 "
    "128x4096x4096 1x11008x4096 16x1024x4096 16x4096x11008 "
    "64x11008x4096 1x4096x4096NT 4x4096x4096NT 16x4096x4096NT 128x4096x4096NT 144x888x6472 512x512x8192 "
    "256x1024x4096 832x512x4096 384x2048x2048 1704x2800x3496 1704x2816x3520 "
    "1536x1536x1536 2600x1800x2304 1200x5000x1024 768x3072x768 3072x3072x3072 1904x1904x1904 2200x3000x2048 "
    "6448x2776x5928 6400x2816x5952 512x512x512 1024x1024x1024 "
    "2048x2048x2048 4096x4096x4096 8192x1024x8192 408x5784x3096 4568x152x6536 6800x288x2968 560x1136x3224 7616x4816x424"
)
MOST_GEMV = 10  # plans of algo gemv at a shape
LONGEST = 1.9  # times the estimate of the model's first


def parsed(word: str) -> tuple[str, tuple[int, int, int]]:
    """Layout and sizes of `16x4096x4096NT`."""
    m, n, k = map(int, word.removesuffix("NT").split("x"))
    return "NT" if word.endswith("NT") else "NN", (m, n, k)


def plans_near(word: str) -> dict[str, tuple[Any, Any]]:
    """The plans near the model's first at a shape by their texts without estimates, each with its module; padded ones
    only where all are."""
    from tinyir.front import read
    from tinyir.ir import plan
    from tinyir.lower import lower_to
    from tinyir.lower.plan import CROWDED, candidates

    layout, shape = parsed(word)
    module: Any = read(model_of("fp16", layout, shape), "gemm.json")
    for stage in ("index", "poly", "region"):
        module = lower_to(stage, module, "sm90")
    allowed = [
        c
        for c in candidates(module, module.program.regions[0], device=card_here())
        if c.rejected in ("", CROWDED) and c.plan.algo in ("warp_specialized", "gemv")
    ]
    most = LONGEST * min(c.cost.microseconds for c in allowed)
    near = [
        c
        for c in allowed
        if c.cost.microseconds <= most and len(c.plan.layout) != 1 and not (c.plan.order and c.plan.order.width != 8)
    ]
    few = sorted((c for c in near if c.plan.algo == "gemv"), key=lambda c: c.cost.microseconds)[MOST_GEMV:]
    near = [c for c in near if c not in few]
    return {layout + plan.show_plan(replace(c.plan, estimate=None)): (module, c) for c in near}


def compiled(item: tuple[Any, Any]) -> str:
    """A plan's CUDA text, compiled into the cache."""
    from tinyir.ir import manifest, plan
    from tinyir.lower import cu, gpu
    from tinyir.runtime.compile import cubins_of

    module, candidate = item
    text = manifest.show(cu.lower(gpu.lower(plan.Module(module, (candidate.plan,)))))
    cubins_of(text, "sm_90a", jobs=1)
    return text


def main() -> int:
    """Measure; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--out", type=Path, default=Path("tiles.json"))
    parser.add_argument("--only", default=SHAPES)
    args = parser.parse_args()
    until = time.monotonic() + args.seconds
    words = args.only.replace(",", " ").split()
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork")) as pool:
        near = dict(zip(words, pool.map(plans_near, words)))
        unique = {key: item for found in near.values() for key, item in found.items()}
        texts = dict(zip(unique, pool.map(compiled, unique.values())))
    import torch

    from tinyir.runtime.cuda import CudaDevice

    torch.cuda.init()
    device = CudaDevice()
    clock = Clock(device)
    rows: list[dict[str, Any]] = []
    for word, found in near.items():
        if time.monotonic() > until:
            break
        rows.append(
            {"shape": word, **measured(device, clock, word, [(c, texts[key]) for key, (_, c) in found.items()])}
        )
        timed = rows[-1]["plans_us"]
        print(
            f"{word}: cublasLt {rows[-1]['cublaslt_us']:.1f} cuBLAS {rows[-1]['cublas_us']:.1f} | "
            + "; ".join(
                f"{timed[p]:.1f} {p.removeprefix('warp_specialized ')}" for p in sorted(timed, key=timed.get)[:5]
            ),
            flush=True,
        )
        args.out.write_text(
            json.dumps(
                {
                    "card": device.description,
                    "versions": versions_here(),
                    "timing": "CUDA graphs, cold L2 without dirty lines, medians",
                    "rows": rows,
                },
                indent=1,
            )
            + "\n",
            encoding="utf-8",
        )
    device.release()
    return 0


def measured(device: Any, clock: Clock, word: str, plans: list[tuple[Any, str]]) -> dict[str, Any]:
    """Times of the libraries and of every plan at a shape, in microseconds."""
    import torch

    layout, (m, n, k) = parsed(word)
    torch.manual_seed(m + n + k)
    a, bias = torch.randn(m, k, device="cuda").half(), torch.randn(n, device="cuda").half()
    b = torch.randn(*((n, k) if layout == "NT" else (k, n)), device="cuda").half()
    right = b.t() if layout == "NT" else b
    wanted = torch._addmm_activation(bias, a, right).float()
    rivals = [
        on_stream(device, lambda: torch._addmm_activation(bias, a, right)),
        on_stream(device, lambda: torch.matmul(a, right)),
    ]
    for run in rivals:
        run()
    torch.cuda.synchronize()
    lt, blas = clock.medians(rivals)
    c = torch.empty((m, n), device="cuda", dtype=torch.float16)
    found: dict[str, float] = {}
    for candidate, text in plans:
        program = _program(device, text, (m, n, k), a, b, bias, c)
        c.fill_(math.nan)
        torch.cuda.synchronize()
        program.run()
        error = _error_of(c, wanted)
        if not error < 2e-3:
            raise SystemExit(f"{word} {label_of(candidate)}: {error:.3e} apart from cublasLt")
        found[label_of(candidate)] = round(clock.medians([program.enqueue])[0], 2)
        program.release()
    return {"cublaslt_us": round(lt, 2), "cublas_us": round(blas, 2), "plans_us": found}


if __name__ == "__main__":
    sys.exit(main())
