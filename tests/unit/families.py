"""The cases of every family of kernels (`kernels.family.Family.cases`) with inputs, and the samples: for what must be
tried on all kernels. A case of a new family is here as soon as its file is in the family's folder."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tinyir import kernels
from tinyir.ir import gpu, manifest, plan
from tinyir.ir.evaluate import convert
from tinyir.ir.types import DTYPES
from tinyir.lower import cu as to_cu
from tinyir.lower import gpu as to_gpu
from tinyir.play.arrays import bind_symbols
from tinyir.runtime.program import chosen_of
from tinyir.sim.launch import SimDevice

from .test_samples_run import SAMPLES
from .test_samples_run import arrays_of as sample_arrays

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


# --- inputs


def whole(module: plan.Module, sizes: Mapping[str, int], seed: int) -> Arrays:
    """Whole numbers, so that products and sums are exact; of a bool most are true."""
    draw, model = np.random.default_rng(seed), module.program.model
    shapes = {t.name: ([d.evaluate(sizes) for d in t.type.shape], DTYPES[t.type.dtype.name]) for t in model.inputs}
    return {
        name: draw.random(shape) < 0.6
        if dtype.kind == "b"
        else convert(draw.integers(-3, 4, shape).astype(np.float32), dtype)
        for name, (shape, dtype) in shapes.items()
    }


def spread(wide: float) -> Callable[[plan.Module, Mapping[str, int], int], Arrays]:
    """Normal numbers so far apart; those of the first row are all far below 0."""

    def drawn(module: plan.Module, sizes: Mapping[str, int], seed: int) -> Arrays:
        draw, made = np.random.default_rng(seed), {}
        for tensor in module.program.model.inputs:
            array = draw.standard_normal([d.evaluate(sizes) for d in tensor.type.shape]) * wide
            array[:1] -= 8 * wide
            made[tensor.name] = convert(array.astype(np.float32), DTYPES[tensor.type.dtype.name])
        return made

    return drawn


def of_rows(module: plan.Module, sizes: Mapping[str, int], seed: int) -> Arrays:
    """Normal numbers, near one another for the first sizes and far apart for the next, where a row's largest element is
    before its whole vectors or behind them."""
    made = spread(1 if seed == 0 else 300)(module, sizes, seed)
    length = made["X"].shape[1]
    for number, column in enumerate((0, -1, length // 2) if seed else (), 1):
        made["X"][number, column] = 5000
    return made


def with_infinity(module: plan.Module, sizes: Mapping[str, int], seed: int) -> Arrays:
    """Numbers that need both parts of a split word, one of them infinite."""
    made = spread(1)(module, sizes, seed)
    made["A"][0, 3] = np.inf
    return made


def of_scores(scale: float) -> Callable[[plan.Module, Mapping[str, int], int], Arrays]:
    """Normal numbers of this scale; the first row of a mask sees nothing, the next two only the last and the first few
    columns, and all scores of the last row are far below 0."""

    def drawn(module: plan.Module, sizes: Mapping[str, int], seed: int) -> Arrays:
        made = dict(whole(module, sizes, seed))
        draw = np.random.default_rng(seed)
        for name, array in made.items():
            if array.dtype != bool:
                made[name] = (draw.standard_normal(array.shape) * scale).astype(array.dtype)
        if "K" in made and "Q" in made:
            made["K"] -= 4
            made["Q"][..., -1, :] = 8
        if "mask" in made:
            hidden = False if made["mask"].dtype == bool else -np.inf
            for row, columns in enumerate((slice(None), slice(-9), slice(9, None))):
                made["mask"][..., row : row + 1, columns] = hidden
        return made

    return drawn


def updates(module: plan.Module, sizes: Mapping[str, int], seed: int) -> Arrays:
    """Whole numbers, at places some of which are outside."""
    n = sizes["N"]
    at = np.random.default_rng(seed).integers(-n - 2, n + 2, sizes["K"])
    return {**whole(module, sizes, seed), "at": at}


def rows_at(module: plan.Module, sizes: Mapping[str, int], seed: int) -> Arrays:
    """Whole numbers, some of whose rows go where no row is."""
    made, n = whole(module, sizes, seed), sizes["L"]
    return {**made, "at": np.random.default_rng(seed).integers(-n - 2, n + 2, made["at"].shape)}


def gathered(module: plan.Module, sizes: Mapping[str, int], seed: int) -> Arrays:
    """A table whose elements are all different, read at its ends, outside of it, and far outside."""
    table = np.arange(1, 5 * 77 + 1, dtype=np.float32).reshape(5, 77)
    return {"T": table, "I": np.array([0, 4, -1, -5, 5, -6, 1 << 40, 2, 3], np.int64)}


def with_ties(module: plan.Module, sizes: Mapping[str, int], seed: int) -> Arrays:
    """Rows whose largest element comes twice, or is behind NaNs."""
    x = np.random.default_rng(3).integers(-9, -1, (4, 600)).astype(np.float32)
    x[0, [90, 200]], x[1, 592], x[2, [16, 31, 560]], x[3, 598:] = -1, -1, -1, np.nan
    return {"X": x[: sizes["R"], : sizes["N"]].copy()}


def with_a_low_row(module: plan.Module, sizes: Mapping[str, int], seed: int) -> Arrays:
    """Whole numbers; of the first row and the first column all are the same, and less than what a fold might wrongly
    begin with."""
    made = dict(whole(module, sizes, seed))
    made["X"][0] = made["X"][..., :1] = -3
    return made


def with_largest_apart(module: plan.Module, sizes: Mapping[str, int], seed: int) -> Arrays:
    """The same, but each row after the first has one largest element, in a column of its own: of equal elements argmax
    finds the first, which is near the start of almost every row."""
    made = dict(with_a_low_row(module, sizes, seed))
    rows, columns = made["X"].shape
    for row in range(1, rows):
        if columns:
            made["X"][row, columns - 1 - 37 * row % columns] = 9
    return made


NEAR = 1e-3
OF_SCORES = (of_scores(8), of_scores(0.3))
INPUTS = {  # of the cases that take other numbers than whole ones: what draws them, how near outputs are
    "hopper words thrice": ((with_infinity,), 1e-4),
    "scatter": ((updates,), 0.0),
    "scatter by atomics": ((updates,), 0.0),
    "scatter by compare and swap": ((updates,), 0.0),
    "gather": ((gathered,), 0.0),
    "few columns": ((with_a_low_row,), 0.0),
    "rows of a cache": ((rows_at,), 0.0),
    "argmax": ((with_largest_apart,), 0.0),
    "plain of two folds": ((with_a_low_row,), 0.0),
    "argmax in steps": ((with_ties,), 0.0),
    "product": ((whole,), NEAR),
    **{f"softmax{of}": ((spread(300),), 4e-3 if of == " odd" else NEAR) for of in ("", " resident", " odd")},
    **{f"norm{of}": ((spread(1),), 4e-3) for of in ("", " resident")},
    **{f"softmax {of}": ((of_rows,), NEAR) for of in ("streamed", "of lanes", "of odd lanes", "of a cluster")},
    "sums of lanes": ((of_rows,), NEAR),
    "flash with a mask": (OF_SCORES, 2e-2),
}
OF_ALGO = dict.fromkeys(("streaming", "streaming_mma", "streaming_softmax"), (OF_SCORES, 0.004))


def _case(name: str, text: str) -> Family:
    module = plan.parse(text)
    kind = ((whole,), 0.0)
    draws, tolerance = INPUTS.get(name, OF_ALGO.get(module.plans[0].algo, kind))
    sizes = [dict(s.sizes) for s in module.program.model.shape_sets] or [{}]
    inputs = tuple(draw(module, s, number) for number, s in enumerate(sizes) for draw in draws)
    lowered = to_gpu.lower(module)
    return Family(gpu.show(lowered), manifest.show(to_cu.lower(lowered)), inputs, tolerance)


SAMPLE_SIZES = {
    "cumsum": {"C": 300},
    "softmax": {"C": 300},
    "layernorm": {"C": 300},
    "gemm_bias_relu": {"M": 72, "N": 136, "K": 600},
    "attention_causal": {"H": 1, "S": 520},
    "attention_scores": {"H": 2, "N": 75, "D": 531},
    "embedding": {},
}


def _sample(path: Path) -> Family:
    """Of the second inputs whole numbers are outside their tables, and a softmax overflows without any of its
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


CASES = {name: text for family in kernels.FAMILIES for name, text in family.cases().items()}
FAMILIES: dict[str, Callable[[], Family]] = {
    **{name: functools.partial(_case, name, text) for name, text in CASES.items()},
    **{f"sample {path.stem}": functools.partial(_sample, path) for path in SAMPLES},
}


@functools.cache
def family(name: str) -> Family:
    """One of FAMILIES."""
    return FAMILIES[name]()
