"""Convolutions with bias and ReLU beside cuDNN and torch.compile: the layers of ResNet-50 and a few others, at several
batches, channels first and last.

    python tests/bench/conv.py [--out results.json] [--batches 1,8,32] [--dtype fp16] [--layouts last,first]
      [--compile SECONDS] [--whole] [--only TEXT]      needs a GPU, PyCUDA and torch
    python tests/bench/conv.py --list     the kernels of each case and what the model expects, which needs none of them

`last`: images in and out have their channels innermost; `first`: they are called, and returned, as models say. Weights
are constants of the model. Rivals, in the same run and in turns with ours: torch's conv2d with its bias, the residual
where there is one, and relu behind it, with the algorithm that cuDNN finds fastest (`cudnn.benchmark`), on images that
are laid out as ours; for `first` also on images that are channels last already, whose result stays so, and with
`--compile 120` what torch.compile makes of the same call, until that many seconds have passed (it is made side by side,
before anything is timed), of depthwise ones for `last` too; `copy_us` is a copy of as many bytes. `--whole`: every
layer of it and some of EfficientNet-B0, ConvNeXt-T and a UNet; `--only 1x1`: those with this text in their name.
Operands are random normal; the largest error, in units of the result's largest number, must be no more than twice
torch's against fp64, or 2^-11 in fp16 and 2^-20 in fp32. Both sides run as CUDA graphs from a cold L2 cache. Medians in
microseconds. A case that fails is told, and the others are measured all the same.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor, wait
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

TOLERATED = {"fp16": 2.0**-11, "fp32": 2.0**-20}
LAST, FIRST = "last", "first"
# channels, rows and columns, channels made, window, stride, whether a residual is added
LAYERS = (
    (3, 224, 64, 7, 2, False),
    (64, 56, 64, 3, 1, False),
    (128, 28, 128, 3, 1, False),
    (256, 14, 256, 3, 1, False),
    (512, 7, 512, 3, 1, False),
    (256, 28, 256, 3, 2, False),
    (256, 14, 1024, 1, 1, True),
    (256, 56, 512, 1, 2, False),
)
REST = (
    (64, 56, 64, 1, 1, False),
    (64, 56, 256, 1, 1, True),
    (256, 56, 64, 1, 1, False),
    (128, 56, 128, 3, 2, False),
    (128, 28, 512, 1, 1, True),
    (512, 28, 128, 1, 1, False),
    (512, 28, 1024, 1, 2, False),
    (1024, 14, 256, 1, 1, False),
    (512, 14, 512, 3, 2, False),
    (1024, 14, 2048, 1, 2, False),
    (512, 7, 2048, 1, 1, True),
    (2048, 7, 512, 1, 1, False),
)
OTHERS = (  # of EfficientNet-B0, ConvNeXt-T and a UNet
    (3, 224, 32, 3, 2, False),
    (16, 112, 96, 1, 1, False),
    (144, 56, 24, 1, 1, True),
    (240, 28, 40, 1, 1, True),
    (112, 14, 672, 1, 1, False),
    (320, 7, 1280, 1, 1, False),
    (3, 224, 96, 4, 4, False),
    (96, 56, 192, 2, 2, False),
    (384, 14, 768, 2, 2, False),
    (96, 56, 384, 1, 1, False),
    (768, 7, 3072, 1, 1, False),
    (640, 32, 640, 3, 1, False),
    (1280, 16, 1280, 3, 1, False),
    (1280, 8, 1280, 3, 1, False),
)
DEPTHWISE = ((192, 56, 192, 3, 1, False), (384, 28, 384, 7, 1, False), (240, 28, 240, 5, 2, False))  # a group each
OTHER_DEPTHWISE = (
    (96, 112, 96, 3, 2, False),
    (144, 56, 144, 5, 2, False),
    (672, 14, 672, 5, 1, False),
    (96, 56, 96, 7, 1, False),
    (192, 28, 192, 7, 1, False),
    (768, 7, 768, 7, 1, False),
)
LARGE = (8, 320, 64, 320, 3, 1, False), (128, 256, 28, 256, 3, 1, False)  # by their batches


@dataclass(frozen=True, slots=True)
class Case:
    """`channels` of images of size x size to `made`, by windows of window x window, padded by half a window where it is
    odd."""

    batch: int
    channels: int
    size: int
    made: int
    window: int
    stride: int = 1
    has_residual: bool = False
    is_depthwise: bool = False
    layout: str = FIRST

    @property
    def groups(self) -> int:
        """Channels are independent where each is a group."""
        return self.channels if self.is_depthwise else 1

    @property
    def pad(self) -> int:
        """On each side."""
        return self.window // 2 if self.window % 2 else 0

    @property
    def out(self) -> int:
        """Rows and columns of the result."""
        return (self.size + 2 * self.pad - self.window) // self.stride + 1

    @property
    def flops(self) -> int:
        """Of the products and sums."""
        return 2 * self.batch * self.made * self.out**2 * self.channels // self.groups * self.window**2

    def image(self, channels: int, size: int) -> list[int]:
        """The shape of a batch of images in its layout."""
        return [self.batch, size, size, channels] if self.layout == LAST else [self.batch, channels, size, size]

    def __str__(self) -> str:
        by = f" by {self.stride}" if self.stride > 1 else ""
        beside = " + residual" if self.has_residual else " depthwise" if self.is_depthwise else ""
        return (
            f"{self.batch}x{self.channels}x{self.size}² to {self.made}, {self.window}x{self.window}{by}{beside}, "
            f"{self.layout}"
        )


def cases(batches: list[int], layouts: list[str], is_whole: bool) -> list[Case]:
    """The stem, each block's 3x3 layer, one that halves the image, and layers by points, with `is_whole` all and those
    of other networks; two large ones, and depthwise ones."""
    layers = (*LAYERS, *((*REST, *OTHERS) if is_whole else ()))
    depthwise = (*DEPTHWISE, *(OTHER_DEPTHWISE if is_whole else ()))
    found = [Case(batch, *layer) for batch in batches for layer in layers] + [Case(*layer) for layer in LARGE]
    found += [Case(batch, *layer, True) for batch in batches for layer in depthwise]
    return [Case(*(getattr(c, n) for n in Case.__slots__[:-1]), layout) for layout in layouts for c in found]


def planned(case: Case, dtype: str) -> Any:
    """The plan text's module."""
    from tinyir.front import read
    from tinyir.lower import lower_to

    how = {"pad": [case.pad] * 2, "stride": [case.stride] * 2, "groups": case.groups}
    given = {
        "x": (dtype, case.image(case.channels, case.size)),
        "w": (dtype, [case.made, case.channels // case.groups, case.window, case.window]),
        "b": (dtype, [case.made]),
    }
    if case.has_residual:
        given["r"] = (dtype, case.image(case.made, case.out))

    def turned(name: str, perm: list[int]) -> str:
        if case.layout == LAST:
            ops.append(("Transpose", [name], f"{name}.turned", {"perm": perm}))
        return f"{name}.turned" if case.layout == LAST else name

    ops: list[Any] = []
    ops.append(("Conv", [turned("x", [0, 3, 1, 2]), "w", "b"], "c", how))
    if case.has_residual:
        ops.append(("Elementwise", ["c", turned("r", [0, 3, 1, 2])], "s", {"fn": "add"}))
    ops.append(
        ("Elementwise", ["s" if case.has_residual else "c"], "a" if case.layout == LAST else "y", {"fn": "relu"})
    )
    if case.layout == LAST:
        ops.append(("Transpose", ["a"], "y", {"perm": [0, 2, 3, 1]}))
    text = json.loads(graph(given, {"y": (dtype, case.image(case.made, case.out))}, *ops, name="conv"))
    for item in text["signature"]["inputs"]:
        if item["tensor"] in "wb":
            item |= {"role": "param", "storage": "const_pool"}
    module: Any = read(json.dumps(text))
    for stage in ("index", "poly", "region", "plan"):
        module = lower_to(stage, module, "sm90", card_here())
    return module


def emitted(case: Case, dtype: str) -> str:
    """The CUDA text, compiled into the cache; where that fails, why, after a question mark."""
    from tinyir.ir import manifest
    from tinyir.lower import cu, gpu
    from tinyir.runtime.compile import cubins_of

    try:
        text = manifest.show(cu.lower(gpu.lower(planned(case, dtype))))
        cubins_of(text, "sm_90a", jobs=1)
    except Exception as fault:  # noqa: BLE001 - it is told, and the other cases are measured
        return f"?{type(fault).__name__}: {fault}"
    return text


def rivals_of(case: Case, given: dict[str, Any], is_compiled: bool) -> dict[str, Any]:
    """The calls of torch, by name; the first gives the result in our layout."""
    import torch

    how = {"stride": case.stride, "padding": case.pad, "groups": case.groups}

    def call(x: Any, w: Any, b: Any, *residual: Any) -> Any:
        made = torch.nn.functional.conv2d(x, w, b, **how)
        return torch.relu_(made.add_(residual[0]) if residual else made)

    def plain(x: Any, w: Any, b: Any, *residual: Any) -> Any:
        made = torch.nn.functional.conv2d(x, w, b, **how)
        return torch.relu(made + residual[0] if residual else made)

    lie = torch.channels_last if case.layout == LAST else torch.contiguous_format
    mine = [t.contiguous(memory_format=lie) if t.ndim == 4 else t for t in given.values()]
    last = [t.contiguous(memory_format=torch.channels_last) if t.ndim == 4 else t for t in given.values()]
    found = {"cudnn": lambda: call(*mine)}
    if case.layout == FIRST:
        found["cudnn_last"] = lambda: call(*last)
    if is_compiled:
        torch.compiler.reset()  # else the ninth is run as it is
        made = torch.compile(plain, dynamic=False)
        made(*mine)
        found["compiled"] = lambda: made(*mine)
    return found


def operands(case: Case, dtype: str) -> dict[str, Any]:
    """Random normal numbers on the card."""
    import torch

    kind = {"fp16": torch.float16, "fp32": torch.float32}[dtype]
    torch.manual_seed(case.flops % 2**31)
    side = case.channels // case.groups
    size = side * case.window**2
    given = {
        "x": torch.randn(case.batch, case.channels, case.size, case.size, device="cuda").to(kind),
        "w": (torch.randn(case.made, side, case.window, case.window, device="cuda") / math.sqrt(size)).to(kind),
        "b": torch.randn(case.made, device="cuda").to(kind),
    }
    if case.has_residual:
        given["r"] = torch.randn(case.batch, case.made, case.out, case.out, device="cuda").to(kind)
    return given


def warm(case: Case, dtype: str) -> None:
    """Has torch.compile make what it makes of a case, which its cache keeps."""
    import torch

    torch.set_num_threads(1)
    torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32 = True, False
    rivals_of(case, operands(case, dtype), True)


def measure(device: Any, clock: Clock, case: Case, text: str, dtype: str, is_compiled: bool) -> dict[str, Any]:
    """One row: errors and times. Raises ArithmeticError for a result that is further off than torch's."""
    import torch

    from tinyir.ir import manifest
    from tinyir.runtime.device import Buffer
    from tinyir.runtime.program import Program

    given = operands(case, dtype)
    order = (0, 2, 3, 1) if case.layout == LAST else (0, 1, 2, 3)
    ours = {n: t.permute(order).contiguous() if n in "xr" else t for n, t in given.items()}
    ours["y"] = torch.full(case.image(case.made, case.out), math.nan, device="cuda", dtype=given["x"].dtype)
    kept = {name: Buffer(name, t.data_ptr(), t.numel(), t.element_size(), 0) for name, t in ours.items()}
    program = Program(device, text, manifest.parse(text), {}, kept=kept)
    try:
        torch.cuda.synchronize()
        program.run()
        device.stream.synchronize()
        x, w, b, *residual = (t.double() for t in given.values())
        wanted = torch.nn.functional.conv2d(x, w, b, stride=case.stride, padding=case.pad, groups=case.groups)
        wanted = torch.relu(wanted + residual[0] if residual else wanted)
        rivals = rivals_of(case, given, is_compiled)
        mine = ours["y"].permute(0, 3, 1, 2) if case.layout == LAST else ours["y"]
        errors = [
            float((found.double() - wanted).abs().max() / wanted.abs().max()) for found in (mine, rivals["cudnn"]())
        ]
        if not errors[0] <= max(2 * errors[1], TOLERATED[dtype]):
            raise ArithmeticError(f"error {errors[0]:.3e}, torch's {errors[1]:.3e}")
        del x, w, b, residual, wanted
        source = torch.empty(sum(t.numel() for t in ours.values()) // 2, device="cuda", dtype=ours["y"].dtype)
        target = torch.empty_like(source)
        rivals["copy"] = lambda: target.copy_(source)
        queued = [on_stream(device, run) for run in rivals.values()]
        for run in queued:
            run()
        us, *others = clock.medians([program.enqueue, *queued])
        return {
            "case": str(case),
            "dtype": dtype,
            "layout": case.layout,
            "kind": "residual" if case.has_residual else "depthwise" if case.is_depthwise else "dense",
            "bytes": 2 * source.numel() * source.element_size(),
            "kernels": len(program.made),
            "ours_us": us,
            **{f"{name}_us": found for name, found in zip(rivals, others)},
            "tflops": case.flops / us / 1e6,
            "error": errors[0],
            "error_cudnn": errors[1],
        }
    finally:
        program.release()


def told(row: dict[str, Any]) -> str:
    """A row of the table."""
    names = [n.removesuffix("_us") for n in row if n.endswith("_us") and n != "ours_us"]
    beside = (f"{n} {row[f'{n}_us']:.1f} us, {row[f'{n}_us'] / row['ours_us']:.2f}x" for n in names)
    return f"| {row['case']} | {row['kernels']} | {row['ours_us']:.1f} us, {row['tflops']:.0f} | {' | '.join(beside)} |"


def main() -> int:
    """List, or measure; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("conv.json"))
    parser.add_argument("--batches", default="1,8,32")
    parser.add_argument("--layouts", default=f"{LAST},{FIRST}")
    parser.add_argument("--dtype", choices=tuple(TOLERATED), default="fp16")
    parser.add_argument("--compile", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--only", default="", metavar="TEXT")
    args = parser.parse_args()
    batches = [int(batch) for batch in args.batches.split(",")]
    every = [c for c in cases(batches, args.layouts.split(","), args.whole) if args.only in str(c)]
    if args.list:
        for case in every:
            plans = planned(case, args.dtype).plans
            print(f"{case}: {', '.join(f'{p.name} {p.algo} {p.estimate.microseconds} us' for p in plans)}", flush=True)
        return 0
    compiled = {case for case in every if args.compile and (case.layout == FIRST or case.is_depthwise)}
    with (
        ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork")) as pool,
        ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as others,
    ):
        found = pool.map(emitted, every, [args.dtype] * len(every))
        waited = [others.submit(warm, case, args.dtype) for case in compiled]
        texts = list(found)
        wait(waited)
    import torch

    torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32 = True, False
    until = time.monotonic() + args.compile

    def measured(device: Any, clock: Clock, case: Case, text: str) -> dict[str, Any]:
        if text.startswith("?"):
            raise RuntimeError(text[1:])
        return measure(device, clock, case, text, args.dtype, case in compiled and time.monotonic() < until)

    found, failed = measure_all(every, texts, args.out, measured, told)
    for layout in args.layouts.split(","):
        for name in ("cudnn", "cudnn_last", "compiled"):
            rows = [row for row in found if row["layout"] == layout and f"{name}_us" in row]
            tell_ratios(f"{layout}: over {name}", [row[f"{name}_us"] / row["ours_us"] for row in rows])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
