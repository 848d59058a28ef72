"""Every family of kernels at small sizes with tails, as emitted text and inputs: for what must be tried on all of
them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tinyir.ir import gpu, manifest, plan, region
from tinyir.ir.types import DTYPES
from tinyir.kernels.alternatives.fold_in_steps import fold_in_steps
from tinyir.kernels.warp_specialized.declare import ends_held
from tinyir.lower import cu as to_cu
from tinyir.lower import gpu as to_gpu
from tinyir.lower import plan as to_plan
from tinyir.lower.plan import CROWDED, candidates
from tinyir.play.arrays import bind_symbols, convert
from tinyir.runtime.program import chosen_of
from tinyir.sim.launch import SimDevice

from . import (
    test_any_shape,
    test_in_steps,
    test_look_back,
    test_multistage,
    test_scan_kernels,
    test_scatter_atomic,
    test_streaming,
    test_tf32_wgmma,
    test_warp_specialized,
)
from .emitted import planned, region_text
from .test_kernels_run import NORM, SOFTMAX
from .test_samples_run import SAMPLES
from .test_samples_run import arrays_of as sample_arrays
from .test_warp_specialized import BIAS, RESIDUAL, SCALED, product

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Family:
    """A gpu text and the CUDA that it becomes, sets of inputs, and how far outputs may be from playback's (relative and
    absolute)."""

    kernels: str
    text: str
    inputs: tuple[Arrays, ...]
    tolerance: float

    def launched(self) -> set[str]:
        """The entries of the kernels that some of the inputs run: of alternatives not all are."""
        module = manifest.parse(self.text)
        sizes = [bind_symbols(module.region.model, given) for given in self.inputs]
        return {launch.entry for s in sizes for launch in chosen_of(module, s, SimDevice())}


def _emitted(module: plan.Module, *inputs: Arrays, tolerance: float = 1e-3) -> Family:
    kernels = to_gpu.lower(module)
    return Family(gpu.show(kernels), manifest.show(to_cu.lower(kernels)), inputs, tolerance)


def _whole(module: region.Module, sizes: Mapping[str, int], seed: int = 3) -> Arrays:
    """Whole numbers, so that products and sums are exact."""
    return test_multistage.whole_numbers(module, dict(sizes), seed)


def _wild(module: region.Module, sizes: Mapping[str, int], seed: int = 3, spread: float = 1.0) -> Arrays:
    """Normal numbers of this spread; those of the first row are all far below 0."""
    draw = np.random.default_rng(seed)
    shapes = {
        t.name: ([d.evaluate(sizes) for d in t.type.shape], DTYPES[t.type.dtype.name]) for t in module.model.inputs
    }
    made = {name: draw.standard_normal(shape) * spread for name, (shape, _) in shapes.items()}
    for array in made.values():
        array[:1] -= 8 * spread
    return {name: convert(array.astype(np.float32), shapes[name][1]) for name, array in made.items()}


# --- tensor cores

MNK = (dict(zip("MNK", (200, 264, 328))), dict(zip("MNK", (72, 16, 24))))
ODD = (dict(zip("MNK", (131, 67, 99))), dict(zip("MNK", (5, 133, 11))))
ODD_LONG = (
    dict(zip("MNK", (150, 261, 203))),
    dict(zip("MNK", (5, 133, 203))),
)  # several tiles a CTA, rings of two that come round
LONG = (dict(zip("MNK", (136, 72, 336))), dict(zip("MNK", (8, 80, 144))))
Sizes = tuple[Mapping[str, int], ...]


def _hopper(
    layout: str,
    tile: tuple[int, int],
    sizes: Sizes,
    kind: Mapping[str, str],
    cluster: tuple[int, int] = (1, 1),
    padded: tuple[str, ...] = (),
    stages: int = 4,
    is_swapped: bool = False,
) -> Family:
    module = product(layout, **kind)
    return _emitted(
        _staged(test_warp_specialized.with_tile(module, *tile, cluster, padded, is_swapped), stages),
        *(_whole(module, s) for s in sizes),
        tolerance=0,
    )


def _staged(module: plan.Module, stages: int) -> plan.Module:
    """The plan with few stages, so that small sums come round the ring."""
    (one,) = module.plans
    return replace(module, plans=(replace(one, stages=stages, asynchrony=replace(one.asynchrony, prefetch=stages)),))


def _cut() -> Family:
    module = test_any_shape.cut("NN", (64, 128), 2, (64, 136, 512), **BIAS)
    return _emitted(
        _staged(module, 2),
        *(_whole(module.program, dict(zip("MNK", s))) for s in ((72, 136, 456), (8, 264, 128))),
        tolerance=0,
    )


def _unswapped(
    layout: str,
    tile: tuple[int, int],
    parts: int,
    sizes: tuple[int, int, int],
    padded: tuple[str, ...] = (),
    **kind: str,
) -> plan.Module:
    """A plan whose consumers end a cut sum in their registers."""
    module = test_any_shape.sized(layout, sizes, **kind)
    return plan.Module(
        module,
        (next(p for p in test_any_shape.proposed(module, padded, parts) if p.tile[:2] == tile and ends_held(p)),),
    )


def _cut_of(module: plan.Module, *sizes: tuple[int, int, int]) -> Family:
    """Whole numbers, at these M, N, K."""
    return _emitted(_staged(module, 2), *(_whole(module.program, dict(zip("MNK", s))) for s in sizes), tolerance=0)


def _words(layout: str, tile: tuple[int, int], math: str, sizes: Sizes, kind: Mapping[str, str]) -> Family:
    """Whole numbers; where words are split, numbers that need both parts, one of them infinite."""
    module = test_tf32_wgmma.of_words(layout, **kind)
    made = [(_whole if math == "tf32" else _wild)(module, s) for s in sizes]
    for given in made if math != "tf32" else ():
        given["A"][0, 3] = np.inf
    return _emitted(
        _staged(test_tf32_wgmma.with_tile(module, tile, math=math), 3), *made, tolerance=0 if math == "tf32" else 1e-4
    )


def _bytes(layout: str, partials: int, sizes: Sizes) -> Family:
    """Factors of a byte, turned where they must be."""
    module = product(layout, "fp8e4m3", "fp32", sizes="M=512, N=512, K=512")
    found = (
        c.plan
        for c in candidates(module, module.program.regions[0])
        if c.plan.persistent and c.plan.tile[:2] == (64, 64) and c.plan.partials == partials
    )
    one = replace(next(found), persistent=2)
    return _emitted(_staged(plan.Module(module, (one,)), 3), *(_whole(module, s) for s in sizes), tolerance=0)


def _ampere(
    layout: str, tile: tuple[int, int, int], sizes: Sizes, kind: Mapping[str, str], is_free: bool = False
) -> Family:
    module = product(layout, **kind)
    return _emitted(test_multistage.with_tile(module, tile, is_free), *(_whole(module, s) for s in sizes), tolerance=0)


# --- attention, scans, rows, maps


def _attention(number: int = 0, **how: Any) -> Family:
    return _of_scores(test_streaming.planned(test_streaming.attention(**how), number))


def _flash(tile: tuple[int, int], ctas: int, **how: Any) -> Family:
    """On tensor cores, with a tile of so many rows and columns and so few CTAs that each goes round all rings."""
    module = test_streaming.regions_of(test_streaming.attention(**{"dtype": "fp16", **how}))
    found = (c.plan for c in candidates(module, module.program.regions[0]) if c.plan.algo == "streaming_softmax")
    one = replace(next(p for p in found if p.tile[:2] == tile), persistent=ctas)
    return _of_scores(plan.Module(module, (one,)), 2e-2 if how.get("dtype") == "bf16" else 4e-3)


def _of_scores(module: plan.Module, tolerance: float = 4e-3) -> Family:
    """Scores that are far apart, and near one another; the first row of a mask sees nothing."""
    arrays = test_streaming.arrays_of(module.program, {}, 5)
    if "mask" in arrays:
        arrays["mask"][..., 0, :] = False
    scaled = [
        {n: a * np.asarray(scale, a.dtype) if a.dtype.kind == "f" else a for n, a in arrays.items()}
        for scale in (3, 0.3)
    ]
    return _emitted(module, *scaled, tolerance=tolerance)


def _scan(name: str, algo: str, threads: int, sizes: tuple[tuple[int, int], ...] = ((2, 1100), (70, 5))) -> Family:
    head, scan = test_scan_kernels.CASES[name]
    text = region_text("in X : fp32[R, C]\nout Y : fp32[R, C]", f"{head}\n%y = {scan}\nyield Y[i0, i1] = %y")
    whole = region.parse(text)
    chosen = next(
        c.plan
        for c in to_plan.candidates(whole, whole.program.regions[0])
        if (c.plan.algo, c.plan.threads) == (algo, (threads,))
    )
    module = plan.Module(whole, (chosen,))
    return _emitted(module, *(_whole(module.program, {"R": r, "C": c}, r) for r, c in sizes), tolerance=0)


def _look_back(name: str, threads: int, *sizes: Mapping[str, int]) -> Family:
    """Small tiles, so that there are over 32 of them in a row, and over 1024."""
    tensors, body, width, _ = test_look_back.CASES[name]
    module = test_look_back.module_of(tensors, body, width, threads)
    return _emitted(module, *(_whole(module.program, s, n) for n, s in enumerate(sizes)), tolerance=0)


def _region(
    tensors: str,
    body: str,
    *sizes: Mapping[str, int],
    number: int = 0,
    spread: float = 0.0,
    tolerance: float = 1e-3,
    **fields: Any,
) -> Family:
    """A region's kernel on whole numbers, or on normal ones of this spread."""
    module = planned(region_text(tensors, body), number, **fields)
    made = [
        _wild(module.program, s, n, spread) if spread else _whole(module.program, s, n) for n, s in enumerate(sizes)
    ]
    return _emitted(module, *made, tolerance=tolerance)


def _row_of(op: str, length: int, is_wanted: Callable[[plan.Plan], Any]) -> Family:
    """Rows of a length by the first plan that is wanted; the last team of threads has fewer rows than places for
    them."""
    body, outs = {
        "softmax": (
            SOFTMAX.replace("C", str(length)) + "\nyield S[i0] = %z",
            f"out Y : fp32[R, {length}]\nout S : fp32[R]",
        ),
        "sum": (FOLD.format(op="sum", dtype="fp32").replace("C", str(length)), "out Y : fp32[R]"),
    }[op]
    module = region.parse(region_text(f"in X : fp32[R, {length}]\n{outs}", body))
    chosen = next(
        c.plan
        for c in candidates(module, module.program.regions[0])
        if c.rejected in ("", CROWDED) and is_wanted(c.plan)
    )
    inputs = (_wild(module, {"R": 5}, 3, 1), _wild(module, {"R": 4}, 4, 300))
    for number, column in enumerate(
        (0, -1, length // 2), 1
    ):  # a row's largest element, in front of its whole vectors or behind them
        inputs[1]["X"][number, column] = 5000
    return _emitted(plan.Module(module, (chosen,)), *inputs)


def _scatter() -> Family:
    text = region_text("in base : fp32[N, 5]\nin add : fp32[K, 5]\nin at : i64[K]\nout Y : fp32[N, 5]",
                       "for i0: N, i1: 5\n%y = scatter sum i0 (k0: K) { add[k0, i1] at at[k0] } onto base[i0, "
"i1]\nyield Y[i0, i1] = %y")  # fmt: skip
    draw = np.random.default_rng(3)
    arrays = {
        "base": draw.integers(-9, 9, (60, 5)).astype(np.float32),
        "add": draw.integers(-9, 9, (33, 5)).astype(np.float32),
    }
    return _emitted(planned(text), {**arrays, "at": draw.integers(-62, 62, 33)}, tolerance=0)


def _atomics(dtype: str, op: str) -> Family:
    """Many updates of few places, then few of many: of a result whose last elements are no whole vector."""
    module = test_scatter_atomic.by_atomics(test_scatter_atomic.rows(dtype, op))
    draw = np.random.default_rng(3)
    made = [
        _whole(module.program, {"N": n, "K": k}, n) | {"at": draw.integers(-n - 2, n + 2, k)}
        for n, k in ((7, 300), (301, 9))
    ]
    return _emitted(module, *made, tolerance=0)


def _gather() -> Family:
    text = region_text(
        "in T : fp32[V, D]\nin I : i64[N]\nout Y : fp32[N, D]",
        "for i0: N, i1: D\n%y = gather (k0: V = I[i0]) { T[k0, i1] }\nyield Y[i0, i1] = %y",
    )
    table = np.arange(1, 5 * 77 + 1, dtype=np.float32).reshape(5, 77)
    return _emitted(
        planned(text), {"T": table, "I": np.array([0, 4, -1, -5, 5, -6, 1 << 40, 2, 3], np.int64)}, tolerance=0
    )


def _argmax_in_steps() -> Family:
    text = region_text(
        "in X : fp32[R, N]\nout Y : i64[R]",
        "for i0: R\n%y = reduce argmax (k0: N) : i64 { X[i0, k0] }\nyield Y[i0] = %y",
    )
    module = to_plan.lower(test_in_steps.in_steps(text, fold_in_steps))
    x = np.random.default_rng(3).integers(-9, -1, (4, 333)).astype(np.float32)
    x[0, [90, 200]], x[1, 332], x[2, [16, 31, 300]], x[3, 331:] = -1, -1, -1, np.nan
    return _emitted(module, {"X": x}, {"X": x[:2, :90].copy()}, tolerance=0)


FOLD = "for i0: R\n%y = reduce {op} (k0: C) : {dtype} {{ X[i0, k0] }}\nyield Y[i0] = %y"
FAMILIES: dict[str, Callable[[], Family]] = {
    "hopper": lambda: _hopper("NN", (64, 128), MNK, BIAS),
    "hopper cooperative": lambda: _hopper("NT", (128, 128), MNK, RESIDUAL),
    "hopper transposed": lambda: _hopper("TT", (128, 128), MNK, SCALED),
    "hopper cluster": lambda: _hopper("NN", (128, 128), MNK, BIAS, (2, 1)),
    "hopper padded": lambda: _hopper("NN", (64, 128), ODD, BIAS, padded=("A", "B"), stages=2),
    "hopper padded transposed": lambda: _hopper(
        "NT", (144, 256), ODD_LONG, BIAS, padded=("A", "B"), stages=2, is_swapped=True
    ),
    "hopper padded in pieces": lambda: _hopper("TN", (128, 144), ODD_LONG, SCALED, padded=("A", "B"), stages=2),
    "hopper cut": _cut,
    "hopper cut held": lambda: _cut_of(
        _unswapped("NN", (64, 128), 2, (64, 136, 512), **BIAS), (72, 136, 456), (8, 264, 128)
    ),
    "hopper cut by warpgroups": lambda: _cut_of(
        _unswapped("TN", (128, 64), 2, (128, 136, 512), **SCALED), (136, 136, 456), (72, 264, 200)
    ),
    "hopper cut in four": lambda: _cut_of(
        _unswapped("NT", (64, 128), 4, (64, 136, 512), ("A", "B"), **RESIDUAL), (41, 91, 333), (64, 136, 832)
    ),
    "hopper cut transposed": lambda: _cut_of(
        test_any_shape.of_few_rows("NN", (16, 64), 2, (16, 136, 512), **BIAS), (16, 136, 456), (3, 72, 200)
    ),
    "hopper few tiles": lambda: _cut_of(
        test_any_shape.of_few_rows("NN", (24, 64), 1, (45, 136, 512), shape=(2, 1), **BIAS),
        (45, 136, 456),
        (3, 72, 200),
    ),
    "hopper words": lambda: _words("NN", (64, 64), "tf32", MNK, SCALED),
    "hopper words thrice": lambda: _words("TT", (64, 64), "tf32x3", LONG, {}),
    "hopper bytes in turn": lambda: _bytes("NT", 2, LONG),
    "hopper bytes turned": lambda: _bytes("TN", 1, LONG),
    "ampere": lambda: _ampere("NN", (128, 128, 32), MNK, BIAS),
    "ampere transposed": lambda: _ampere("TT", (64, 64, 32), MNK, RESIDUAL),
    "ampere odd": lambda: _ampere("NT", (64, 64, 32), ODD, SCALED, is_free=True),
    "synchronous": lambda: _region(
        *_of_matmul("i0, k0", "k0, i1"),
        {"M": 70, "N": 67, "K": 75},
        {"M": 3, "N": 130, "K": 5},
        tolerance=0,
        micro=(4, 4),
    ),
    "attention": lambda: _attention(causal=True, s=70, t=70, d=64, dtype="fp16"),
    "attention masked": lambda: _attention(s=33, t=90, d=32, mask="bool", dtype="fp16"),
    "attention fp32": lambda: _attention(),
    "flash": lambda: _flash((128, 64), 2, heads=3, causal=True, s=150, t=150, d=64),
    "flash with a window": lambda: _flash((64, 48), 1, causal=True, window=220, s=130, t=400, offset=270, d=80, e=96),
    "flash with a mask": lambda: _flash((64, 32), 1, heads=3, mask="bool", s=70, t=90, d=40, dtype="bf16"),
    "scan": lambda: _scan("sum", "scan_block", 1024),
    "scan of odd rows": lambda: _region(
        "in X : fp32[R, 4101]\nout Y : fp32[R, 4101]",
        "for i0: R, i1: 4101\n%y = scan sum (i1) : fp32 { X[i0, i1] }\nyield Y[i0, i1] = %y",
        {"R": 2},
        tolerance=0,
    ),
    "scan of a warp": lambda: _scan("reverse exclusive", "scan_block", 32),
    "scan of columns": lambda: _scan("columns", "scan_block", 1024, ((1100, 2), (3, 40))),
    "scan of a thread": lambda: _scan("exclusive", "scan_thread", 32),
    "scan by look back": lambda: _look_back("rows", 32, {"R": 2, "C": 4500}, {"R": 1, "C": 66000}),
    "scan by look back at flags": lambda: _look_back("i64 in vectors", 64, {}),
    "scatter": _scatter,
    "scatter by atomics": lambda: _atomics("i32", "sum"),
    "scatter by compare and swap": lambda: _atomics("fp32", "max"),
    "gather": _gather,
    "random": lambda: _region(
        "in X : fp16[R, 72]\nout Y : fp16[R, 72]",
        "for i0: R, i1: 72\n%u = random(72*i0 + i1) {seed=7, offset=3} : fp16\nyield Y[i0, i1] = mul(%u, X[i0, i1])",
        {"R": 37},
        tolerance=0,
    ),
    "softmax": lambda: _region(
        "in X : fp32[R, C]\nout Y : fp32[R, C]", SOFTMAX, {"R": 3, "C": 333}, {"R": 5, "C": 2}, spread=300
    ),
    "softmax resident": lambda: _region(
        "in X : fp32[R, 300]\nout Y : fp32[R, 300]", SOFTMAX.replace("C", "300"), {"R": 3}, spread=300
    ),
    "softmax streamed": lambda: _row_of(
        "softmax", 1024, lambda p: p.algo == "row_streamed" and p.threads == (128,) and p.vectorize
    ),
    "softmax odd": lambda: _region(
        "in X : fp16[R, 333]\nout Y : fp16[R, 333]",
        SOFTMAX.replace("C", "333")
        .replace("X[i0, i1]", "cast(X[i0, i1]) : fp32")
        .replace(
            "Y[i0, i1] = fdiv(%e, broadcast_in_dim(%z, dims=[0]))",
            "Y[i0, i1] = cast(fdiv(%e, broadcast_in_dim(%z, dims=[0]))) : fp16",
        ),
        {"R": 5},
        spread=300,
        tolerance=4e-3,
    ),
    "softmax of lanes": lambda: _row_of("softmax", 60, lambda p: p.threads == (8, 16) and p.vectorize),
    "softmax of odd lanes": lambda: _row_of(
        "softmax", 333, lambda p: p.threads == (32, 4) and p.algo == "row_streamed" and p.vectorize
    ),
    "softmax of a cluster": lambda: _row_of(
        "softmax",
        4097,
        lambda p: p.cluster is not None and p.cluster.shape == (1, 2) and p.threads == (256,) and p.vectorize,
    ),
    "sums of lanes": lambda: _row_of("sum", 33, lambda p: p.threads == (4, 32) and not p.vectorize),
    "norm": lambda: _region(
        "in X : fp16[R, C]\nin g : fp16[C]\nout Y : fp16[R, C]\nout S : fp32[R]",
        NORM,
        {"R": 3, "C": 333},
        {"R": 5, "C": 3},
        spread=1,
        tolerance=4e-3,
    ),
    "norm resident": lambda: _region(
        "in X : fp16[R, 300]\nin g : fp16[300]\nout Y : fp16[R, 300]\nout S : fp32[R]",
        NORM.replace("C", "300"),
        {"R": 3},
        spread=1,
        tolerance=4e-3,
    ),
    "argmax": lambda: _region(
        "in X : fp32[R, C]\nout Y : i64[R]",
        FOLD.format(op="argmax", dtype="i64"),
        {"R": 5, "C": 257},
        {"R": 200, "C": 3},
        tolerance=0,
    ),
    "argmax in steps": _argmax_in_steps,
    "columns": lambda: _region(
        "in X : fp32[R, C]\nout Y : fp32[C]",
        "for i0: C\n%y = reduce sum (k0: R) : fp32 { X[k0, i0] }\nyield Y[i0] = %y",
        {"R": 257, "C": 70},
        tolerance=0,
    ),
    "columns in vectors": lambda: _region(
        "in X : fp16[R, 72]\nout Y : fp32[72]",
        "for i0: 72\n%y = reduce sum (k0: R) : fp32 { cast(X[k0, i0]) : fp32 }\nyield Y[i0] = %y",
        {"R": 57},
        tolerance=0,
    ),
    "full": lambda: _region(
        "in X : fp32[R, C]\nout Y : fp32[]",
        "for\n%y = reduce sum (k0: R, k1: C) : fp32 { X[k0, k1] }\nyield Y[] = %y",
        {"R": 133, "C": 70},
        tolerance=0,
    ),
    "product": lambda: _region(
        "in X : fp32[R, C]\nout Y : fp32[R]",
        FOLD.format(op="prod", dtype="fp32").replace("X[i0, k0] }", "add(mul(X[i0, k0], 0.01), 1.0) }"),
        {"R": 5, "C": 257},
    ),
    "map": lambda: _region(
        "in X : fp32[N]\nout Y : fp32[N]",
        "for i0: N\nyield Y[i0] = add(X[i0], 1.0)",
        {"N": 1000},
        {"N": 7},
        tolerance=0,
    ),
    "map in vectors": lambda: _region(
        "in X : fp32[N, 8]\nin b : fp32[8]\nout Y : fp32[N, 8]",
        "for i0: N, i1: 8\nyield Y[i0, i1] = mul(X[i0, i1], broadcast_in_dim(b[i1], dims=[1]))",
        {"N": 77},
        tolerance=0,
    ),
    "map of several tiles": lambda: _region(
        "in X : fp32[N]\nout Y : fp32[N]",
        "for i0: N\nyield Y[i0] = add(X[i0], 1.0)",
        {"N": 5131},
        {"N": 4096},
        tolerance=0,
        tile=(2048,),
        micro=(16,),
        threads=(128,),
    ),
    "map of odd rows": lambda: _region(
        "in X : fp16[M, N]\nin b : fp16[N]\nout Y : fp16[M, N]",
        "for i0: M, i1: N\nyield Y[i0, i1] = mul(X[i0, i1], broadcast_in_dim(b[i1], dims=[1]))",
        {"M": 31, "N": 45},
        {"M": 1, "N": 5},
        tolerance=0,
    ),
    "map with a border": lambda: _region(
        "in X : fp32[M, 32]\nout Y : fp32[M, 44]",
        "for i0: M, i1: 44\nyield Y[i0, i1] = neg(X[i0, i1 - 4] where 0 <= i1 - 4 < 32 else 0.5)",
        {"M": 37},
        tolerance=0,
    ),
    "map turned": lambda: _region(
        "in X : fp16[M, N]\nout Y : fp16[N, M]",
        "for i0: N, i1: M\nyield Y[i0, i1] = X[i1, i0]",
        {"M": 70, "N": 45},
        tolerance=0,
    ),
    "map with windows": lambda: _region(
        "in X : fp32[C, H, W]\nout Y : fp32[C, H, W]",
        "for i0: C, i1: H, i2: W\n%y = reduce sum (k0: 3, k1: 3) : fp32 { X[i0, i1 + k0 - 1, i2 + k1 - 1] where "
        "1 <= i1 + k0 < H + 1 and 1 <= i2 + k1 < W + 1 else 0.0 }\nyield Y[i0, i1, i2] = %y",
        {"C": 3, "H": 11, "W": 15},
        tolerance=0,
    ),
    **{f"sample {path.stem}": functools.partial(lambda path: _sample(path), path) for path in SAMPLES},
}


def _of_matmul(a: str, b: str) -> tuple[str, str]:
    """The tensors and the body of `matmul`'s region."""
    return (
        "in A : fp32[M, K]\nin B : fp32[K, N]\nout C : fp32[M, N]",
        f"for i0: M, i1: N\n%g = reduce sum (k0: K) : fp32 {{ mul(A[{a}], B[{b}]) }}\nyield C[i0, i1] = relu(%g)",
    )


SAMPLE_SIZES = {
    "cumsum": {"C": 300},
    "softmax": {"C": 300},
    "layernorm": {"C": 300},
    "gemm_bias_relu": {"M": 72, "N": 136, "K": 600},
    "embedding": {},
}


def _sample(path: Path) -> Family:
    """Of the second inputs whole numbers lie outside their tables, and a softmax overflows without any of its
    maxima."""
    text = path.read_text(encoding="utf-8")
    second = sample_arrays(text, SAMPLE_SIZES.get(path.stem, {}))
    wild = {n: a if a.dtype.kind == "f" else a * 3 - 7 for n, a in second.items()}
    if path.stem == "softmax":
        wild["X"][0], wild["X"][1:, 37] = -1000, 60000
        wild["X"][-1, 37], wild["X"][-1, -3] = 0, 60000
    return Family(
        path.with_suffix(".gpu").read_text(encoding="utf-8"),
        text,
        (sample_arrays(text), wild) if path.stem in SAMPLE_SIZES else (sample_arrays(text),),
        2e-3,
    )


@functools.cache
def family(name: str) -> Family:
    """One of FAMILIES."""
    return FAMILIES[name]()
