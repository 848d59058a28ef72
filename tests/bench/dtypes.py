"""Products of fp32 and of fp8 on tensor cores beside cuBLAS: errors against fp64 and times, on one card, in one run.

    python tests/bench/dtypes.py [--out results.json] [--random 60] [--seed 1] [--kinds fp32 tf32 ...]      needs a GPU,
      PyCUDA and torch

`fp32` is multiplied by three products of TF32, beside torch.matmul in plain fp32; `tf32` by one, beside torch.matmul
where TF32 is allowed; fp8 beside torch's scaled product without fast accumulation, which takes A in rows and B in
columns and gets copies where they are laid out otherwise, both rounded to bf16; fp16 and bf16 beside torch.matmul. Each
timed product is run in every form that has a plan, the best of each: `wgmma`, `wgmma, two sums` (fp8 whose sums are
held in turn) and `mma.sync`; the model's time is beside each, so that one run says which form is faster and how far the
model is off. Operands are random normal, times are medians in microseconds from a cold L2 cache, in turns. Then as many
random shapes, of which errors alone are compared. An error (root mean square over the result's) above 1.01 times
cuBLAS's is printed with `!`, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.card import card_here, versions_here  # noqa: E402
from tests.bench.gemm import on_stream, timed  # noqa: E402
from tests.unit.test_warp_specialized import product  # noqa: E402
from tests.unit.tuples import LAYOUTS, mixed  # noqa: E402
from tinyir.ir import manifest, plan, region  # noqa: E402
from tinyir.lower import cu as to_cu  # noqa: E402
from tinyir.lower import gpu as to_gpu  # noqa: E402
from tinyir.lower import plan as to_plan  # noqa: E402

# dtypes of the operands, of the result, the plan's math, the layouts, and what sizes of the rival are multiples of
KINDS = {
    "fp32": (("fp32",), "fp32", "", LAYOUTS, 1),
    "tf32": (("fp32",), "fp32", "tf32", LAYOUTS, 1),
    "fp8e4m3": (("fp8e4m3",), "bf16", "", LAYOUTS, 16),
    "fp8e4m3 fp8e5m2": (("fp8e4m3", "fp8e5m2"), "bf16", "", ("NT",), 16),
    "fp16": (("fp16",), "fp16", "", LAYOUTS, 1),
    "bf16": (("bf16",), "bf16", "", LAYOUTS, 1),
}
TIMED = ("fp32", "tf32", "fp8e4m3", "fp8e4m3 fp8e5m2")
SHAPES = (
    (512, 512, 512),
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (4096, 4096, 4096),
    (4096, 1024, 8192),
    (1000, 1500, 777),
)
TOLERATED = 1.01
FORMS = {"warp_specialized": "wgmma", "multistage": "mma.sync"}
TORCH = {"fp32": "float32", "fp8e4m3": "float8_e4m3fn", "fp8e5m2": "float8_e5m2", "fp16": "float16", "bf16": "bfloat16"}


def region_of(kind: str, layout: str, shape: tuple[int, int, int]) -> region.Module:
    """The product as a region, to be planned for this shape."""
    (first, *second), out, _, _, _ = KINDS[kind]
    module = product(layout, first, out, sizes=", ".join(f"{name}={size}" for name, size in zip("MNK", shape)))
    return mixed(module, *second) if second else module


def forms(kind: str, layout: str, shape: tuple[int, int, int]) -> dict[str, tuple[str, float]]:
    """The CUDA of the best plan of each form, with the microseconds that the model expects."""
    module = region_of(kind, layout, shape)
    found: dict[str, tuple[str, float]] = {}
    for c in to_plan.candidates(module, module.program.regions[0], device=card_here(), fp32=KINDS[kind][2]):
        if c.plan.algo in FORMS and c.rejected in ("", to_plan.CROWDED):
            form = FORMS[c.plan.algo] + (", two sums" if c.plan.partials > 1 else "")
            if form not in found:
                found[form] = (
                    manifest.show(to_cu.lower(to_gpu.lower(plan.Module(module, (c.plan,))))),
                    c.cost.microseconds,
                )
    return found


def emitted(kind: str, layout: str, shape: tuple[int, int, int]) -> str:
    """The CUDA text, planned for this shape."""
    return manifest.show(
        to_cu.lower(
            to_gpu.lower(to_plan.lower(region_of(kind, layout, shape), device=card_here(), fp32=KINDS[kind][2]))
        )
    )


def operands(kind: str, layout: str, shape: tuple[int, int, int]) -> tuple[Any, Any, Any, Any]:
    """A and B as they are in memory, and as [M, K] and [K, N]."""
    import torch

    rows, columns, depth = shape
    first, second = (getattr(torch, TORCH[name]) for name in (KINDS[kind][0] * 2)[:2])
    torch.manual_seed(rows + columns + depth)
    a = torch.randn(*((depth, rows) if layout[0] == "T" else (rows, depth)), device="cuda").to(first)
    b = torch.randn(*((columns, depth) if layout[1] == "T" else (depth, columns)), device="cuda").to(second)
    return a, b, a.t() if layout[0] == "T" else a, b.t() if layout[1] == "T" else b


def rival_of(kind: str, left: Any, right: Any) -> Callable[[], Any]:
    """cuBLAS's product."""
    import torch

    one = torch.ones((), device="cuda")

    def rival() -> Any:
        torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
        if kind.startswith("fp8"):
            return torch._scaled_mm(
                left.contiguous(),
                right.t().contiguous().t(),
                scale_a=one,
                scale_b=one,
                out_dtype=torch.bfloat16,
                use_fast_accum=False,
            )
        return left @ right

    return rival


def compared(device: Any, kind: str, layout: str, shape: tuple[int, int, int], is_timed: bool) -> list[dict[str, Any]]:
    """A row for each form, or for the plan that is taken: the plan, the errors, and where asked the times."""
    import torch

    from tinyir.runtime.device import Buffer
    from tinyir.runtime.program import Program

    a, b, left, right = operands(kind, layout, shape)
    rival = rival_of(kind, left, right)
    theirs, wanted = rival(), left.double() @ right.double()
    rows = []
    for form, (text, expected) in (
        forms(kind, layout, shape) if is_timed else {"taken": (emitted(kind, layout, shape), 0.0)}
    ).items():
        c = torch.full(shape[:2], math.nan, device="cuda", dtype=getattr(torch, TORCH[KINDS[kind][1]]))
        kept = {name: Buffer(name, t.data_ptr(), t.numel(), t.element_size(), 0) for name, t in zip("ABC", (a, b, c))}
        program = Program(device, text, manifest.parse(text), dict(zip("MNK", shape)), kept=kept)
        torch.cuda.synchronize()
        program.run()
        torch.cuda.synchronize()
        errors = [float((x.double() - wanted).norm() / wanted.norm()) for x in (c, theirs)]
        taken = next(line for line in text.splitlines() if line.startswith("// plan ")).removeprefix("// plan ")
        rows.append(
            {
                "kind": kind,
                "layout": layout,
                "shape": list(shape),
                "form": form,
                "plan": taken,
                "expected_us": expected,
                "error": errors[0],
                "error_cublas": errors[1],
            }
        )
        if is_timed:  # while the device holds this program
            ours, cublas = timed(device, [program.enqueue, on_stream(device, rival)])
            rows[-1] |= {
                "ours_us": ours,
                "cublas_us": cublas,
                "ours_tflops": 2 * math.prod(shape) / ours / 1e6,
                "ratio": cublas / ours,
            }
    return rows


def is_near(row: dict[str, Any]) -> bool:
    """Whether the error is cuBLAS's."""
    return row["error"] <= TOLERATED * row["error_cublas"]


def cases(count: int, seed: int, kinds: list[str]) -> list[tuple[str, str, tuple[int, int, int], bool]]:
    """The timed ones of these kinds, then `count` random ones."""
    import numpy as np

    draw = np.random.default_rng(seed)
    every = [
        (kind, layout, shape, True)
        for kind in TIMED
        if kind in kinds
        for layout in KINDS[kind][3]
        for shape in SHAPES
        if all(s % KINDS[kind][4] == 0 for s in shape)
    ]
    for _ in range(count):
        kind = str(draw.choice(kinds))
        step = max(KINDS[kind][4], int(draw.choice([1, 2, 8])))
        shape = tuple(step * int(draw.integers(max(1, 128 // step), 2000 // step)) for _ in "MNK")
        every.append((kind, str(draw.choice(KINDS[kind][3])), shape, False))
    return every


def main() -> int:
    """Measure; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=Path("dtypes.json"))
    parser.add_argument("--random", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    args = parser.parse_args()
    import torch

    from tinyir.runtime.cuda import CudaDevice

    torch.cuda.init()
    device = CudaDevice()
    found: list[dict[str, Any]] = []
    try:
        for case in cases(args.random, args.seed, args.kinds):
            rows = compared(device, *case)
            found += rows
            for row in rows:
                _print_row(row)
            args.out.write_text(
                json.dumps({"card": device.description, "versions": versions_here(), "rows": found}, indent=1) + "\n",
                encoding="utf-8",
            )
    finally:
        device.release()
    far = [row for row in found if not is_near(row)]
    print(f"{len(found) - len(far)} of {len(found)} as near to fp64 as cuBLAS")
    return 1 if far else 0


def _print_row(row: dict[str, Any]) -> None:
    times = (
        f"{row['ours_us']:.1f} us (model {row['expected_us']:.1f}), {row['ours_tflops']:.0f} | "
        f"{row['cublas_us']:.1f} us | {row['ratio']:.2f} |"
        if "ratio" in row
        else ""
    )
    mark = "" if is_near(row) else " !"
    print(
        f"| {row['kind']} {row['layout']}, {row['form']} | {'x'.join(map(str, row['shape']))} | "
        f"{row['error']:.2e}, {row['error_cublas']:.2e}{mark} | {times}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
