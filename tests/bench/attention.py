"""Attention as one kernel beside torch's scaled_dot_product_attention, on one card, in one run.

    python tests/bench/attention.py [--out results.json] [--texts DIR]     measure; needs a GPU, PyCUDA and torch
    python tests/bench/attention.py --emit DIR                             only write the CUDA texts, which needs none
      of them

Each model goes through the whole compiler, and the plan is the cost model's own choice for that shape. Operands are
random normal. Both are compared with fp64 on the first heads; ours may be at most as far as torch's or within two units
of the dtype's last place. Then both are timed in turns, each run from a cold L2 cache, so that both see the same
clocks. Medians in microseconds; a masked score counts no operation.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.card import versions_here  # noqa: E402

CASES = (  # dtype, batch, heads, heads of K and V, length, depth, causal
    ("fp16", 2, 16, 16, 1024, 64, True),
    ("fp16", 2, 16, 16, 1024, 64, False),
    ("bf16", 1, 16, 4, 2048, 128, True),
    ("fp16", 1, 12, 12, 1000, 64, True),
    ("fp32", 1, 12, 12, 1024, 64, True),
)
HEADS_CHECKED = 4
LAST_PLACE = {"fp16": 2.0**-10, "bf16": 2.0**-7, "fp32": 2.0**-18}  # of torch.float32's own rounding in long sums
Case = tuple[str, int, int, int, int, int, bool]


def name_of(case: Case) -> str:
    """A file's stem."""
    return "_".join(map(str, case)).lower()


def model_of(case: Case) -> str:
    """The model in front-end JSON: batch and length symbolic, planned for the case."""
    dtype, batch, heads, kv, length, depth, is_causal = case
    shapes = {
        "Q": ["B", heads, "S", depth],
        "K": ["B", kv, "S", depth],
        "V": ["B", kv, "S", depth],
        "O": ["B", heads, "S", depth],
    }
    model = {
        "name": "attention",
        "signature": {"inputs": [{"tensor": n} for n in "QKV"], "outputs": [{"tensor": "O"}]},
        "tensors": {name: {"dtype": dtype, "shape": shape} for name, shape in shapes.items()},
        "graph": [
            {
                "op": "Attention",
                "name": "attention",
                "inputs": ["Q", "K", "V"],
                "outputs": ["O"],
                "attrs": {"causal": is_causal},
            }
        ],
        "shape_sets": {"bench": {"B": batch, "S": length}},
    }
    return json.dumps(model)


def emitted(case: Case) -> str:
    """The CUDA text."""
    from tinyir.front import read
    from tinyir.ir import manifest
    from tinyir.ir.pipeline import STAGES
    from tinyir.lower import lower_to

    module: Any = read(model_of(case), "attention.json")
    for stage in STAGES[1:]:
        module = lower_to(stage, module, "sm90")
    return manifest.show(module)


def measure_case(device: Any, text: str, case: Case) -> dict[str, Any]:
    """One row: errors and times of ours and of torch's."""
    import torch

    from tests.bench.gemm import on_stream, timed
    from tinyir.ir import manifest
    from tinyir.runtime.device import Buffer
    from tinyir.runtime.program import Program

    dtype, batch, heads, kv, length, depth, is_causal = case
    torch.manual_seed(length + depth)
    kind = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}[dtype]
    q, k, v = (torch.randn(batch, h, length, depth, device="cuda").to(kind) for h in (heads, kv, kv))
    out = torch.full_like(q, math.nan)
    kept = {name: Buffer(name, t.data_ptr(), t.numel(), t.element_size(), 0) for name, t in zip("QKVO", (q, k, v, out))}
    program = Program(device, text, manifest.parse(text), {"B": batch, "S": length}, kept=kept)
    torch.cuda.synchronize()
    program.run()

    def rival() -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal, enable_gqa=heads != kv)

    theirs = rival()
    few, each = min(HEADS_CHECKED, heads), heads // kv
    left, right, values = q[0, :few].double(), *(t[0, [h // each for h in range(few)]].double() for t in (k, v))
    scores = left @ right.transpose(-1, -2) / math.sqrt(depth)
    if is_causal:
        scores = scores.masked_fill(torch.ones(length, length, device="cuda", dtype=torch.bool).triu(1), -math.inf)
    wanted = scores.softmax(-1) @ values
    errors = [float((x[0, :few].double() - wanted).norm() / wanted.norm()) for x in (out, theirs)]
    apart = float((out.float() - theirs.float()).norm() / theirs.float().norm())
    if not (errors[0] <= max(errors[1], 2 * LAST_PLACE[dtype]) and apart <= 4 * LAST_PLACE[dtype]):
        raise SystemExit(f"{case}: error {errors[0]:.3e}, torch's {errors[1]:.3e}, apart {apart:.3e}")
    flops = 4 * batch * heads * length * length * depth // (2 if is_causal else 1)
    ours, sdpa = timed(device, [program.enqueue, on_stream(device, rival)])
    plan = next(line for line in text.splitlines() if line.startswith("// plan "))
    return {
        "case": list(case),
        "plan": plan.removeprefix("// plan "),
        "kernels": len(program.chosen),
        "error": errors[0],
        "error_torch": errors[1],
        "ours_us": ours,
        "torch_us": sdpa,
        "ours_tflops": flops / ours / 1e6,
        "torch_tflops": flops / sdpa / 1e6,
        "ratio": sdpa / ours,
    }


def main() -> int:
    """Emit, or measure; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--emit", type=Path)
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--out", type=Path, default=Path("attention.json"))
    args = parser.parse_args()
    if args.emit:
        args.emit.mkdir(parents=True, exist_ok=True)
        for case in CASES:
            (args.emit / f"{name_of(case)}.cu").write_text(emitted(case), encoding="utf-8")
        return 0
    import torch

    from tinyir.runtime.cuda import CudaDevice

    torch.cuda.init()
    device = CudaDevice()
    found: list[dict[str, Any]] = []
    try:
        for case in CASES:
            text = (args.texts / f"{name_of(case)}.cu").read_text(encoding="utf-8") if args.texts else emitted(case)
            row = measure_case(device, text, case)
            found.append(row)
            print(
                f"| {name_of(case)} | {row['ours_us']:.1f} us, {row['ours_tflops']:.1f} | {row['torch_us']:.1f} us, "
                f"{row['torch_tflops']:.1f} | "
                f"{row['ratio']:.3f} | {row['error']:.2e} | {row['error_torch']:.2e} |",
                flush=True,
            )
            args.out.write_text(
                json.dumps({"card": device.description, "versions": versions_here(), "rows": found}, indent=1) + "\n",
                encoding="utf-8",
            )
    finally:
        device.release()
    return 0


if __name__ == "__main__":
    sys.exit(main())
