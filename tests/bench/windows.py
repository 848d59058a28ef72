"""Folds over windows beside cuDNN and torch.compile: depthwise, grouped and transposed convolutions, first layers of
few outputs, and pools.

    python tests/bench/windows.py [--out results.json] [--batches 1,8,32] [--layouts last,first] [--cases depthwise,...]
      [--compile SECONDS] [--plans N]     needs a GPU, PyCUDA and torch
    python tests/bench/windows.py --list  the kernels of each case and what the model expects, which needs none of them

`last`: images in and out have their channels innermost; `first`: as models say. Weights are constants of the model;
convolutions have a bias and relu behind it. Rivals, in the same run and in turns with ours: torch's conv2d and pools
with `cudnn.benchmark`, on images in our order of dims, and with `--compile 120` what torch.compile makes of the same
call until that many seconds have passed. `copy_us` is a copy of as many bytes, `ffma_us` the products at the card's
peak. With `--plans 12` that many other plans are measured too, drawn from all of `direct`, of a dense convolution and
of a first layer from `haloed`, which reads images as they are, and of groups from `haloed` where that is chosen.
Operands are random normal; the largest error, in units
of the result's largest number, must be no more than twice torch's against fp64, or 2^-11. Both sides run as CUDA graphs
from a cold L2 cache. Medians in microseconds.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.card import card_here  # noqa: E402
from tests.bench.gemm import on_stream  # noqa: E402
from tests.bench.measured import measure_all, tell_ratios  # noqa: E402
from tests.bench.odd import Clock  # noqa: E402
from tests.unit.stages import graph  # noqa: E402

TOLERATED = 2.0**-11
LAST, FIRST = "last", "first"
# kind, channels, rows and columns, channels made, window, stride, groups
LAYERS = (
    ("depthwise", 192, 56, 192, 3, 1, 192),
    ("depthwise", 96, 112, 96, 3, 2, 96),
    ("depthwise", 672, 14, 672, 5, 1, 672),
    ("depthwise", 240, 28, 240, 5, 2, 240),
    ("depthwise", 96, 56, 96, 7, 1, 96),
    ("depthwise", 384, 28, 384, 7, 1, 384),
    ("grouped", 128, 56, 128, 3, 1, 32),
    ("grouped", 256, 28, 256, 3, 1, 32),
    ("grouped", 512, 14, 512, 3, 1, 32),
    ("grouped", 1024, 7, 1024, 3, 1, 32),
    ("grouped", 192, 28, 192, 3, 1, 8),
    ("grouped", 384, 28, 384, 3, 1, 8),
    ("grouped", 320, 14, 320, 3, 1, 8),
    ("stem", 3, 224, 64, 7, 2, 1),
    ("stem", 3, 224, 32, 3, 2, 1),
    ("stem", 1, 112, 32, 3, 1, 1),
    ("max", 64, 112, 64, 3, 2, 1),
    ("max", 256, 28, 256, 5, 1, 1),
    ("average", 192, 28, 192, 3, 1, 1),
    ("average", 128, 56, 128, 2, 2, 1),
    ("dense", 64, 56, 64, 3, 1, 1),
    ("dense", 128, 28, 128, 3, 1, 1),
    ("transposed", 128, 28, 64, 4, 2, 1),
    ("transposed", 256, 16, 128, 4, 2, 1),
    ("transposed", 512, 8, 256, 4, 2, 1),
    ("transposed", 128, 28, 64, 2, 2, 1),
    ("transposed", 128, 28, 64, 3, 2, 1),
)


@dataclass(frozen=True, slots=True)
class Case:
    """`channels` of images of size x size to `made` by windows of window x window, padded by half a window where it is
    odd."""

    batch: int
    kind: str
    channels: int
    size: int
    made: int
    window: int
    stride: int
    groups: int
    layout: str

    @property
    def is_pool(self) -> bool:
        """Without weights."""
        return self.kind in ("max", "average")

    @property
    def is_transposed(self) -> bool:
        """Whether the image is what windows of the result read."""
        return self.kind == "transposed"

    @property
    def pad(self) -> int:
        """On each side."""
        if self.is_transposed:
            return (self.window - self.stride) // 2
        return self.window // 2 if self.window % 2 else 0

    @property
    def out(self) -> int:
        """Rows and columns of the result."""
        if self.is_transposed:
            return (self.size - 1) * self.stride + self.window - 2 * self.pad
        return (self.size + 2 * self.pad - self.window) // self.stride + 1

    @property
    def products(self) -> int:
        """Multiply-adds, or what a pool folds."""
        side = 1 if self.is_pool else self.channels // self.groups
        return self.batch * self.made * (self.size if self.is_transposed else self.out) ** 2 * side * self.window**2

    @property
    def weights(self) -> list[int]:
        """Their shape."""
        sides = [self.made, self.channels // self.groups]
        return [*(sides[::-1] if self.is_transposed else sides), self.window, self.window]

    @property
    def bytes(self) -> int:
        """Of images in and out, two for each element."""
        return 2 * self.batch * (self.channels * self.size**2 + self.made * self.out**2)

    def image(self, channels: int, size: int) -> list[int]:
        """The shape of a batch of images in memory."""
        return [self.batch, size, size, channels] if self.layout == LAST else [self.batch, channels, size, size]

    def __str__(self) -> str:
        return (
            f"{self.batch}x{self.channels}x{self.size}² to {self.made}, {self.kind} {self.window}x{self.window} by "
            f"{self.stride}, {self.layout}"
        )


def module_of(case: Case, arch: str = "sm90") -> Any:
    """The plan text's module."""
    from tinyir.front import read
    from tinyir.lower import lower_to

    how = {"pad": [case.pad] * 2, "stride": [case.stride] * 2}
    given = {"x": ("fp16", case.image(case.channels, case.size))}
    is_last, ops = case.layout == LAST, []
    if is_last:
        ops.append(("Transpose", ["x"], "x.turned", {"perm": [0, 3, 1, 2]}))
    source, made = ("x.turned", "a") if is_last else ("x", "y")
    if case.is_pool:
        ops.append(("Pool", [source], made, {**how, "mode": case.kind, "kernel": [case.window] * 2}))
    else:
        given["w"] = ("fp16", case.weights)
        given["b"] = ("fp16", [case.made])
        op = "ConvTranspose" if case.is_transposed else "Conv"
        ops.append((op, [source, "w", "b"], "c", {**how, "groups": case.groups}))
        ops.append(("Elementwise", ["c"], made, {"fn": "relu"}))
    if is_last:
        ops.append(("Transpose", ["a"], "y", {"perm": [0, 2, 3, 1]}))
    text = json.loads(graph(given, {"y": ("fp16", case.image(case.made, case.out))}, *ops, name="fold"))
    for item in text["signature"]["inputs"]:
        if item["tensor"] in "wb":
            item |= {"role": "param", "storage": "const_pool"}
    module: Any = read(json.dumps(text))
    for stage in ("index", "poly", "region", "plan"):
        module = lower_to(stage, module, arch, card_here() if arch == "sm90" else None)
    return module


def others_of(case: Case, module: Any, count: int) -> list[Any]:
    """The module with other plans for its last region, drawn from all of `direct`, of a dense convolution and of a
    first layer of `haloed`, which reads images as they are, and of groups of `haloed` where that is what was chosen."""
    from tinyir.kernels import direct, haloed
    from tinyir.kernels.family import Problem
    from tinyir.kernels.problem import kernel_of
    from tinyir.kernels.resources import taken_by
    from tinyir.kit.records import replace
    from tinyir.lower.plan import card_of

    is_read_whole = case.kind in ("dense", "stem")
    is_multiplied = is_read_whole or module.plans[-1].algo == "haloed"
    if is_read_whole:
        module = module_of(case, "sm80")
        module = replace(module, plans=tuple(replace(p, arch="sm90") for p in module.plans))
    family, kind = (haloed.FAMILY, "contraction") if is_multiplied else (direct.FAMILY, "window")
    one = module.program.program.regions[-1]
    kernel = kernel_of(one, kind)
    if kernel is None or not count:
        return []
    problem, card = Problem((one,), kernel, module.program.model), card_of("sm90", card_here())
    every = [p for p in family.space(problem, card) if family.declare(p.plan, problem).smem <= card.arch.smem_per_cta]
    proposed = [p for p in every if taken_by(p.plan, family.declare(p.plan, problem)).occupancy]
    plans = [p.plan for p in proposed if not p.stop and p.plan != module.plans[-1]]
    return [
        replace(module, plans=(*module.plans[:-1], plan))
        for plan in random.Random(1).sample(plans, min(count, len(plans)))
    ]


def emitted(case: Case, count: int) -> list[tuple[Any, str]]:
    """The plan of the last region and the CUDA text, compiled into the cache, of our plan and of others; where that
    fails, why, after a question mark."""
    from tinyir.ir import manifest
    from tinyir.lower import cu, gpu
    from tinyir.lower.plan import candidates
    from tinyir.runtime.compile import cubins_of

    found = []
    module = module_of(case)
    known = {
        c.plan.micro + c.plan.threads: c
        for c in candidates(module.program, module.program.program.regions[-1], "sm90", card_here())
    }
    for one in (module, *others_of(case, module, count)):
        plan = one.plans[-1]
        try:
            text = manifest.show(cu.lower(gpu.lower(one)))
            cubins_of(text, "sm_90a", jobs=1)
        except Exception as fault:  # noqa: BLE001 - it is told, and the other cases are measured
            text = f"?{type(fault).__name__}: {fault}"
        expected = plan.estimate or (c.plan.estimate if (c := known.get(plan.micro + plan.threads)) else None)
        told = {
            "algo": plan.algo,
            "tile": plan.tile,
            "micro": plan.micro or plan.warp_tile,
            "threads": plan.threads,
            "width": plan.widest,
            "cache": [c.where for c in plan.cache],
            "expected_us": expected.microseconds if expected else None,
            "bound": expected.bound if expected else None,
            "kernels": len(one.plans),
        }
        found.append((told, text))
    return found


def call_of(case: Case) -> Any:
    """What torch computes."""
    import torch.nn.functional as f

    if case.kind == "max":
        return lambda x: f.max_pool2d(x, case.window, case.stride, case.pad)
    if case.kind == "average":
        return lambda x: f.avg_pool2d(x, case.window, case.stride, case.pad, count_include_pad=False)
    if case.is_transposed:
        return lambda x, w, b: f.conv_transpose2d(x, w, b, case.stride, case.pad).relu_()
    return lambda x, w, b: f.conv2d(x, w, b, case.stride, case.pad, groups=case.groups).relu_()


def measure(device: Any, clock: Clock, case: Case, texts: list[tuple[Any, str]], is_compiled: bool) -> dict[str, Any]:
    """One row: errors and times. Raises ArithmeticError for a result that is further off than torch's."""
    import torch

    from tinyir.ir import manifest
    from tinyir.runtime.device import Buffer
    from tinyir.runtime.program import Program

    torch.manual_seed(case.products % 2**31)
    side = case.channels // case.groups
    given = {"x": torch.randn(case.batch, case.channels, case.size, case.size, device="cuda").half()}
    if not case.is_pool:
        scale = math.sqrt(side * case.window**2)
        given["w"] = (torch.randn(case.weights, device="cuda") / scale).half()
        given["b"] = torch.randn(case.made, device="cuda").half()
    order = (0, 2, 3, 1) if case.layout == LAST else (0, 1, 2, 3)
    ours = {n: t.permute(order).contiguous() if n == "x" else t for n, t in given.items()}
    ours["y"] = torch.empty(case.image(case.made, case.out), device="cuda", dtype=torch.float16)
    kept = {name: Buffer(name, t.data_ptr(), t.numel(), t.element_size(), 0) for name, t in ours.items()}
    call = call_of(case)
    wanted = call(*(t.double() for t in given.values()))
    order_ = torch.channels_last if case.layout == LAST else torch.contiguous_format
    mine = [t.contiguous(memory_format=order_) if t.ndim == 4 else t for t in given.values()]
    theirs = float((call(*mine).double() - wanted).abs().max() / wanted.abs().max())
    rivals = {"cudnn_us": on_stream(device, lambda: call(*mine))}
    if is_compiled:
        torch.compiler.reset()  # else the ninth is run as it is
        made = torch.compile(call, dynamic=False)
        made(*mine)
        rivals["compiled_us"] = on_stream(device, lambda: made(*mine))
    source = torch.empty(case.bytes // 4, device="cuda", dtype=torch.float16)
    target = torch.empty_like(source)
    rivals["copy_us"] = on_stream(device, lambda: target.copy_(source))
    for run in rivals.values():
        run()
    rows, row = [], {}
    for number, (told, text) in enumerate(texts):
        if text.startswith("?"):
            rows.append({**told, "fault": text[1:400]})
            continue
        program = Program(device, text, manifest.parse(text), {}, kept=kept)
        try:
            ours["y"].fill_(math.nan)
            torch.cuda.synchronize()
            program.run()
            device.stream.synchronize()
            found = ours["y"].permute(0, 3, 1, 2) if case.layout == LAST else ours["y"]
            error = float((found.double() - wanted).abs().max() / wanted.abs().max())
            if not error <= max(2 * theirs, TOLERATED):
                rows.append({**told, "fault": f"error {error:.3e}, torch's {theirs:.3e}"})
                continue
            us, *times = clock.medians([program.enqueue, *(() if number else rivals.values())])
            rows.append({**told, "us": us, "error": error})
            row |= dict(zip(rivals, times))
        finally:
            program.release()
    row = {"case": str(case), "kind": case.kind, "layout": case.layout, "batch": case.batch, "bytes": case.bytes, **row}
    row["ffma_us"] = case.products / (132 * 128 * 1.755e3)
    return {**row, "error_torch": theirs, "plans": rows}


def told(row: dict[str, Any]) -> str:
    """A row of the table."""
    ours, *others = row["plans"]
    if "us" not in ours:
        return f"| {row['case']} | {ours['algo']} failed: {ours['fault'][:200]} |"
    us, limit = ours["us"], max(row["copy_us"], row["ffma_us"])
    parts = [row["case"], f"{ours['algo']} {ours['micro']} {ours['threads']}", f"{us:.1f} us of {ours['expected_us']}"]
    parts += [
        f"{n} {row[f'{n}_us']:.1f}, {row[f'{n}_us'] / us:.2f}x" for n in ("cudnn", "compiled") if f"{n}_us" in row
    ]
    parts.append(f"limit {limit:.1f}, {limit / us:.2f}")
    best = min((p for p in others if "us" in p), key=lambda p: p["us"], default=None)
    parts += [f"best {best['us']:.1f} {best['micro']} {best['threads']} {best['width']}"] if best else []
    faults = sum("fault" in p for p in others)
    return f"| {' | '.join([*parts, *([f'{faults} failed'] if faults else [])])} |"


def main() -> int:
    """List, or measure; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("windows.json"))
    parser.add_argument("--batches", default="1,8,32")
    parser.add_argument("--layouts", default=f"{LAST},{FIRST}")
    parser.add_argument("--cases", default="depthwise,grouped,stem,max,average,dense,transposed")
    parser.add_argument("--compile", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--plans", type=int, default=0)
    args = parser.parse_args()
    wanted = args.cases.split(",")
    every = [
        Case(int(batch), *layer, layout)
        for layout in args.layouts.split(",")
        for batch in args.batches.split(",")
        for layer in LAYERS
        if layer[0] in wanted
    ]
    if args.list:
        for case in every:
            plans = module_of(case).plans
            told_ = (f"{p.name} {p.algo} {p.micro} {p.threads} {p.estimate.microseconds} us" for p in plans)
            print(f"{case}: {', '.join(told_)}", flush=True)
        return 0
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork")) as pool:
        texts = list(pool.map(emitted, every, [args.plans] * len(every)))
    import torch

    torch.backends.cudnn.benchmark = True
    until = time.monotonic() + args.compile

    def measured(device: Any, clock: Clock, case: Case, plans: list[tuple[Any, str]]) -> dict[str, Any]:
        return measure(device, clock, case, plans, time.monotonic() < until)

    found, failed = measure_all(every, texts, args.out, measured, told)
    failed += sum("fault" in plan for row in found for plan in row["plans"])
    for layout in args.layouts.split(","):
        for kind in wanted:
            for name in ("cudnn", "compiled"):
                rows = [r for r in found if r["layout"] == layout and r["kind"] == kind and f"{name}_us" in r]
                ratios = [r[f"{name}_us"] / r["plans"][0]["us"] for r in rows if "us" in r["plans"][0]]
                tell_ratios(f"{layout} {kind}: over {name}", ratios)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
