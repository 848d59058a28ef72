"""Playback of gpu text: whether kernels compute what their regions say.

A kernel is run on random numbers at small sizes, or at the model's own where they are numbers: the first CTAs of its
grid and the last, all of them where CTAs wait for one another, for a number of steps. What they have stored by then is
compared with what playback of the regions gives there.

A text that was just lowered costs little: of kernels that are the same statements with other numbers and names one is
played, once in a process, and all within `TOGETHER` steps. Of a text that somebody may have edited every kernel is
played. What the data would have to decide, and what stores nothing within `MOST_STEPS`, is not looked at; the work is
counted as `kernels unplayed`.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.body import Unary, walk
from ...ir.evaluate import numpy_dtype
from ...ir.gpu import nodes
from ...ir.gpu.across import ACROSS
from ...ir.gpu.dry.memory import Found
from ...ir.gpu.dry.sizes import sizes_to_run
from ...ir.gpu.dry.steps import every_step, steps_of
from ...ir.gpu.dry.threads import Unknown
from ...ir.gpu.nodes import Kernel
from ...ir.gpu.walk import reads_in, statements, tensors_of
from ...ir.model import Model
from ...ir.region import Region
from ...ir.types import DType
from ...kit.diag import Diag, Refused
from ...kit.records import dataclass
from ...kit.work import count
from .reference import Reference, boxes_of
from .run import Playing

MOST_STEPS = 2500  # of a kernel with those that are launched for it
TOGETHER = 1000, 40  # steps for a text, and for each of its kernels
LONG = 4096  # of an axis whose neighbours are near one another in the pool of numbers
MOST_ELEMENTS, MOST_READ = 1 << 27, 1 << 40  # of tensors that are stored to, and of one that is read
MOST_DIGITS = 11  # that a result is held to, those of fp16
SLACK = 2  # digits less of a text that was just lowered, so that a rounding never refuses a model
MOST_CTAS = 64  # of which all are run where they wait for one another
SIZES = (  # to try for a symbol: the first that a kernel takes, of which one is one more than whole steps
    (65, 72, 80, 96, 128, 192, 256, 384, 512, 1024),
    (3, 8, 16, 32, 64, 128, 256, 512, 1024),  # where these take too long
    (273, 280, 288, 320, 384, 512, 768, 1024),  # of an edited text these too: more than a tile
    (1039, 1040, 1152, 1536, 2048),  # and these, where a loop has had no second turn
    (7, 8, 16, 32, 64),  # and these: of few elements the first is the largest more often, which shows a fold without it
)
WHOLE = ACROSS + (nodes.Atomic,)  # of kernels with these all CTAs are run


@dataclass(frozen=True, slots=True)
class Launched:
    """A kernel with those that are launched for it, in their order, each with the tensors in the place of its own."""

    kernels: tuple[tuple[Kernel, tuple[tuple[str, str], ...]], ...]
    main: Kernel

    @property
    def weight(self) -> int:
        """How much text its kernels have, which says roughly how many steps they take."""
        return sum(1 for kernel, _ in self.kernels for _ in statements(kernel.body))

    @property
    def likeness(self) -> tuple[Any, ...]:
        """What it has in common with kernels that are the same statements with other numbers and names."""
        return tuple(_likeness(kernel.body) for kernel, _ in self.kernels)


def check_values(module: Any, is_edited: bool = True) -> Iterator[Diag]:
    """E1685 for each kernel that stores another number than its region says."""
    program, launched = module.plans.program, list(_launched(module))
    left = math.inf
    if not is_edited:
        alike = {one.likeness: one for one in sorted(launched, key=lambda one: -one.weight)}
        launched = [one for likeness, one in reversed(alike.items()) if likeness not in _PLAYED]
        left = TOGETHER[0] + TOGETHER[1] * len(module.kernels)
    for one in launched:
        if left <= 0:
            break
        regions = tuple(map(program.program.region, one.main.regions))
        tensors = tuple({t.name: t for k, _ in one.kernels for t in tensors_of(k, module).values()}.values())
        found, steps = _judged(one, regions, tensors, program.model, int(min(left, MOST_STEPS)), is_edited)
        left -= steps
        if found is not None:
            yield found
        elif not is_edited:
            _PLAYED[one.likeness] = None


_PLAYED: dict[Any, None] = {}  # kinds of kernels that this process has seen to be right, or could not play


def _likeness(body: Any) -> tuple[Any, ...]:
    """The statements and ops of a kernel without their numbers and names."""
    return tuple(
        (
            type(s).__name__,
            *(getattr(n, "op", "") for n in reads_in(s)),
            _likeness(getattr(s, "body", ())),
            _likeness(getattr(s, "otherwise", ())),
        )
        for s in body
    )


def _launched(module: Any) -> Iterator[Launched]:
    """Each kernel that computes regions, but those that are given tensors from another place on."""
    named = {k.name: k for k in module.kernels}
    for main in module.kernels:
        if main.serves or not main.regions:
            continue
        kernels = []
        for one in module.launches:
            if one is main or one.serves == main.name:
                passed = one.passed if isinstance(one, nodes.Launch) else ()
                kernels.append((named[nodes.kernel_named(one)], passed))
        if not any(isinstance(one, nodes.Launch) and one.moved for one in module.launches if one.serves == main.name):
            yield Launched(tuple(kernels), main)


@functools.lru_cache(maxsize=1024)
def _judged(
    one: Launched, regions: tuple[Region, ...], tensors: tuple[Any, ...], model: Model, most: int, is_edited: bool
) -> tuple[Diag | None, int]:
    """What is wrong with a kernel, and how many steps that took to find."""
    found, steps, is_played, is_short = None, 0, False, False
    few, fewer, many, large, least = (_sizes(one, model, tried) for tried in SIZES)
    tried: list[Mapping[str, int]] = []
    for sizes in (few, many, large, least, fewer) if is_edited else (few, fewer):
        if sizes is None or sizes in tried or is_played and sizes is fewer or sizes is large and not is_short:
            continue
        tried.append(sizes)
        play = _Play(one, regions, {t.name: t for t in tensors}, sizes, most, 0 if is_edited else SLACK)
        try:
            with np.errstate(all="ignore"):
                found = play.fault()
            is_played = True
        except (Unknown, Refused, Found, ZeroDivisionError, OverflowError, MemoryError):
            found = None
        steps, is_short = steps + play.steps, play.is_short
        if found is not None or is_played and not is_edited or not sizes:
            break
    count("kernels played" if is_played else "kernels unplayed")
    return found, steps


def _sizes(one: Launched, model: Model, wanted: Sequence[int]) -> dict[str, int] | None:
    """Sizes of all symbols that all kernels take, or None."""
    guards = [b for k, _ in one.kernels for s in statements(k.body) if isinstance(s, nodes.Assume) for b in s.guard]
    ranges = [model.range_of(symbol) for symbol in model.symbols()]
    sizes = {}
    for r in ranges:
        own = [b for b in guards if b.vocabulary == {r.symbol}]
        tried = [min(max(size, r.low), r.high) for size in wanted]
        sizes[r.symbol] = next((n for n in tried if all(b.holds({r.symbol: n}) for b in own)), tried[0])
    if all(b.holds(sizes) for b in guards):
        return sizes
    return next(iter(sizes_to_run(one.main, steps_of(one.main), ranges, model.shape_sets)), None)


class _Play:
    """A kernel, with those that are launched for it, on random numbers."""

    def __init__(
        self,
        one: Launched,
        regions: tuple[Region, ...],
        tensors: Mapping[str, Any],
        sizes: Mapping[str, int],
        most: int,
        slack: int,
    ):
        self.one, self.regions, self.tensors, self.sizes, self.most = one, regions, tensors, sizes, most
        self.turned: dict[int, int] = {}
        self.steps, self.digits = 0, min(MOST_DIGITS, *map(_digits_of, regions)) - slack
        self.shapes = {name: tuple(d.evaluate(sizes) for d in t.type.shape) for name, t in tensors.items()}

    @property
    def is_short(self) -> bool:
        """Whether some loop has had no second turn."""
        return min(self.turned.values(), default=2) < 2

    def fault(self) -> Diag | None:
        """The first element that is another one than its region says. Raises Unknown where that cannot be told."""
        given = {t.name for region in self.regions for t in region.inputs}
        results = dict.fromkeys(t.name for region in self.regions for t in region.outputs)
        sizes = {name: math.prod(shape) for name, shape in self.shapes.items()}
        made = sum(size for name, size in sizes.items() if name in results or name not in given)
        extents = [extent for shape in self.shapes.values() for extent in shape]
        if made > MOST_ELEMENTS or not all(0 <= n <= MOST_READ for n in (*extents, *sizes.values())):
            raise Unknown
        self.arrays = {
            name: numbers(self.shapes[name], t.type.dtype, at)
            if name in given and name not in results
            else np.zeros(self.shapes[name], numpy_dtype(t.type.dtype))
            for at, (name, t) in enumerate(self.tensors.items())
        }
        self.written = {
            name: np.zeros(self.shapes[name], bool) for name in self.tensors if name in results or name not in given
        }
        self.stored: dict[str, list[tuple[int, ...]]] = {name: [] for name in self.written}
        for kernel, passed in self.one.kernels:
            self._run(kernel, dict(passed))
        if not any(self.stored[name] for name in results):
            raise Unknown
        reference = Reference(self.regions, self.sizes, self.arrays)
        return next((fault for name in results if self.stored[name] for fault in self._wrong(name, reference)), None)

    def _wrong(self, name: str, reference: Reference) -> Iterator[Diag]:
        for box in boxes_of(self.shapes[name], self.stored[name]):
            part, dtype = tuple(slice(*span) for span in box), self.tensors[name].type.dtype
            right = reference.wanted(name, box)
            found, is_asked = self.arrays[name][part], self.written[name][part]
            wrong = differing(found, right, dtype, is_asked, self.digits)
            if len(wrong):  # by what roundings on the way do?
                from ..roundings import spread, turned

                others = [one.wanted(name, box) for one in self._moved]
                is_asked = is_asked & ~turned(right, others)
                wrong = differing(found, right, dtype, is_asked, self.digits, spread(right, others))
            if len(wrong):
                at = tuple(int(i) for i in wrong[0])
                facts = {
                    "tensor": name,
                    "at": [start + i for (start, _), i in zip(box, at)],
                    "found": found[at],
                    "wanted": right[at],
                    "sizes": ", ".join(f"{symbol} = {size}" for symbol, size in self.sizes.items()) or "-",
                }
                yield Diag("E1685", self.one.main.name, facts, self.one.main.span)

    @functools.cached_property
    def _moved(self) -> list[Reference]:
        """The regions as roundings may move their values."""
        from ..roundings import TIMES, Moves

        return [Reference(self.regions, self.sizes, self.arrays, Moves(seed)) for seed in range(TIMES)]

    def _run(self, kernel: Kernel, passed: Mapping[str, str]) -> None:
        """Runs some of a kernel's clusters, or all, until the steps are used up. Raises Unknown."""
        way, told = every_step(kernel.body), dict[Any, Any]()
        arrays, written, stored = (
            {**found, **{own: found[other] for own, other in passed.items() if other in found}}
            for found in (self.arrays, self.written, self.stored)
        )
        grid = [ctas.evaluate(self.sizes) // size for ctas, size in zip(kernel.grid, (*kernel.cluster, 1, 1, 1))]
        is_whole = kernel is not self.one.main or any(isinstance(s, WHOLE) for s in statements(kernel.body))
        if is_whole and math.prod(grid) > MOST_CTAS:
            raise Unknown
        if is_whole:
            clusters = [at[::-1] for at in itertools.product(*map(range, reversed(grid)))]
        else:
            clusters = list(dict.fromkeys([tuple(0 for _ in grid), tuple(max(n - 1, 0) for n in grid)]))
        for cluster in clusters if math.prod(grid) else ():
            run = Playing(kernel, way, self.sizes, cluster, steps=self.steps, most=self.most)
            run.tensors, run.written, run.stored, run.told, run.turned = arrays, written, stored, told, self.turned
            try:
                run.whole()
            except Unknown:
                if is_whole or run.steps <= run.most:
                    raise
            finally:
                self.steps = run.steps


# --- numbers


@functools.lru_cache(maxsize=64)
def _pool(dtype: DType, size: int) -> np.ndarray:
    draw = np.random.default_rng(7)
    if dtype.kind == "b":
        return draw.random(size) < 0.6
    if dtype.is_float:
        # odd sixteenths, and some zeros; few are large, so that a maximum is another number elsewhere
        found = np.clip(2 * np.floor(draw.normal(0, 2.5, size)) + 1, -15, 15)
        return (np.where(draw.random(size) < 0.05, 0, found) / 16).astype(numpy_dtype(dtype))
    low, high = (0, 4) if dtype.bits > 16 else (-60 if dtype.kind == "i" else 0, 60)
    return draw.integers(low, high, size).astype(numpy_dtype(dtype))


def numbers(shape: Sequence[int], dtype: DType, seed: int) -> np.ndarray:
    """Random numbers that all dtypes hold, so that sums of their products are exact; those of a large array come
    again, at distances that are odd."""
    if 0 in shape:
        return np.zeros(shape, numpy_dtype(dtype))
    steps = [
        1 if at == 0 else 3 if extent > LONG else (37, 61, 101, 139)[at % 4] for at, extent in enumerate(shape[::-1])
    ]
    size = 1 + seed + sum(step * (extent - 1) for step, extent in zip(steps[::-1], shape))
    pool = _pool(dtype, 1 << max(14, (size - 1).bit_length()))[seed:]
    words = pool.view(f"u{pool.itemsize}")  # as_strided knows no dtypes but NumPy's own
    strides = [step * pool.itemsize for step in steps[::-1]]
    return np.lib.stride_tricks.as_strided(words, shape, strides, writeable=False).view(pool.dtype)


def _digits_of(region: Region) -> int:
    """Binary digits of the coarsest float that a region rounds to: weights of an attention are rounded to 16 bits
    before they are divided by their sum, or after, whatever their products are added up in."""
    bodies = (n for item in (*region.lets, *region.yields) for n in walk(item.expr))
    rounded = [t.type.dtype for t in region.outputs]
    rounded += [n.dtype for n in bodies if isinstance(n, Unary) and n.op == "cast"]
    return min((dtype.digits for dtype in rounded if dtype.is_float), default=MOST_DIGITS)


def differing(
    found: np.ndarray,
    wanted: np.ndarray,
    dtype: DType,
    is_asked: np.ndarray,
    digits: int = MOST_DIGITS,
    moved: np.ndarray | float = 0,
) -> np.ndarray:
    """Where elements that are asked for differ by more than roundings to floats of these `digits` do, and by more than
    roundings on the way have `moved` them. Where infinity is wanted no number differs: whether it comes, and its sign,
    may hang on a rounding before it (1 / (a - b))."""
    if not dtype.is_float:
        return np.argwhere(is_asked & (found != wanted))
    one, other = (a.astype(np.float64) for a in (found, wanted))
    scale = np.abs(other[is_asked & np.isfinite(other)])
    with np.errstate(all="ignore"):  # inf - inf
        size = np.abs(other) + (scale.mean() if scale.size else 0)
        room = 2.0 ** (3 - min(dtype.digits, digits, MOST_DIGITS)) * size + moved
        is_alike = (one == other) | (np.isnan(one) & np.isnan(other)) | (np.abs(one - other) <= room)
    return np.argwhere(is_asked & ~is_alike)
