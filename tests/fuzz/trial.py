"""One program at every stage: each text is right by its checker and its validator, and comes back from its text; index
and region text play the numbers of the tiny text, and so do the emitted kernels, simulated or on a GPU.

How near a number must be is found by playing the tiny text again with each inexact result moved by as much as a library
or another order of a sum may move it: what then changes little must agree, and what turns over (a number that falls on
the other side of a comparison or of a floor) is not asked.
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyir.ir import manifest, tiny
from tinyir.ir.evaluate import convert
from tinyir.ir.pipeline import STAGES
from tinyir.ir.types import DTYPES, DType, TensorType
from tinyir.kit.diag import Refused
from tinyir.kit.records import replace
from tinyir.lower import language_of, lower_to
from tinyir.play.arrays import adopt, bind_symbols
from tinyir.play.book import play as play_book
from tinyir.play.region import play as play_region
from tinyir.play.tiny import Player
from tinyir.runtime.run import run

Arrays = Mapping[str, np.ndarray]
SHAKES = 4  # how often a program is played with other roundings
ROOM = 8  # how many times as far as those a number may be; of 16 and 8 bits, which are moved by as much as they may be,
NARROW_ROOM = 3
LEAST = {"fp64": 1e-12, "fp32": 2e-6, "fp16": 2e-3, "bf16": 2e-2, "fp8e4m3": 0.13, "fp8e5m2": 0.26}  # relative
# of 16 and 8 bits, what may be rounded from another number: attention rounds its weights before it divides them
ROUGH = frozenset("CAST EXP2 LOG2 SIN TANH ERF SQRT RSQRT RECIP FDIV REDUCE SCAN SCATTER POW".split())


@dataclass(frozen=True, slots=True)
class Fault:
    """What a trial found: the stage, what is wrong in words that are alike for alike faults, and the outputs that are
    wrong, where numbers are."""

    stage: str
    kind: str
    said: str
    outputs: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.stage}: {self.kind}: {self.said}"


class _Shaken(Player):
    """Playback in which inexact results are moved by a few units in their last place. What has few digits before it is
    rounded is exact, and stays: 0, 1 and 0.5 are what libraries agree on, but not what only rounds to 1. Where NumPy
    leaves a sign or bits open, they are drawn: of a maximum of 0.0 and -0.0, and of a NaN whose bits are looked at."""

    def __init__(self, module: tiny.Module, symbols: Mapping[str, int], seed: int):
        super().__init__(module, symbols)
        self.draw = np.random.default_rng(seed)
        self.signs = ((1.0,), (-1.0,))[seed] if seed < 2 else (1.0, -1.0)  # each sign is tried everywhere

    def value(self, value: tiny.Value) -> np.ndarray:
        dtype = value.type.dtype
        if value.op == "BITCAST":
            self._turn_nans(value.operands[0])
        if not dtype.is_float or dtype.bits < 32 and value.op not in ROUGH:
            return self._with_signs(value, super().value(value))
        if dtype.bits >= 32:
            found = self._in_more_digits(value) if value.op in ROUGH else super().value(value)
            digits = np.frexp(found)[0] * 2**12
            is_exact = digits == np.trunc(digits)
            by = self.draw.uniform(-1, 1, found.shape) * 2.0 ** (-50 if dtype.bits == 64 else -21)
        else:
            found = super().value(_unrounded(value))
            is_exact = convert(found, dtype) == found
            by = self.draw.uniform(-1.5, 1.5, found.shape) * 2.0**-dtype.digits
        found = self._with_signs(value, found)
        with np.errstate(all="ignore"):
            moved = np.where(is_exact | ~np.isfinite(found), found, found * (1 + by)) + self._lost_by_order(value)
        return convert(moved.astype(found.dtype), dtype)

    def _lost_by_order(self, value: tiny.Value) -> np.ndarray | float:
        """By how much a sum may be another in another order: by a unit in the last place of its terms' sizes together,
        where one of them is too small to count beside the others."""
        dtype = value.attr("dtype")
        if value.op != "REDUCE" or value.attr("op") != "SUM" or not dtype.is_float:
            return 0.0
        term = next((v for v in self.module.values if v.name == value.operands[0]), None)
        if value.operands[0] in self.found:
            terms = np.abs(self.found[value.operands[0]].astype(np.float64))
        elif term is not None:  # a product that playback sums without making it
            terms = np.abs(np.multiply(*(self.found[o].astype(np.float64) for o in term.operands)))
        axes = tuple(a % terms.ndim for a in value.attr("axes"))
        together = terms.sum(axis=axes)
        least = np.where(terms > 0, terms, np.inf).min(axis=axes, initial=np.inf)
        unit = together * 2.0**-dtype.digits
        is_lost = np.isfinite(unit) & (least < unit)
        return np.where(is_lost, unit * self.draw.uniform(-1, 1, unit.shape), 0.0)

    def _in_more_digits(self, value: tiny.Value) -> np.ndarray:
        """A value in fp64, from its operands in fp64."""
        held = {o: self.found[o] for o in value.operands if o in self.found}
        self.found.update((o, a.astype(np.float64)) for o, a in held.items() if a.dtype.kind == "f")
        found = super().value(_unrounded(value))
        self.found.update(held)
        return found

    def _with_signs(self, value: tiny.Value, found: np.ndarray) -> np.ndarray:
        """The same numbers, with any sign of each 0 where one of several is chosen."""
        if not value.type.dtype.is_float or not {value.op, value.attr("op")} & {"MAX", "MIN", "RELU"}:
            return found
        with np.errstate(all="ignore"):
            return np.where(found == 0, self._any_sign(found), found)

    def _turn_nans(self, name: str) -> None:
        """Each NaN of a value gets any sign and all its other bits, where NumPy sets one of them."""
        found = self.found[name]
        if found.dtype.kind in "biu":
            return
        bits = np.array(found, order="C").view(f"u{found.dtype.itemsize}")
        is_negative = self.draw.choice(self.signs, found.shape) < 0
        ones = np.where(is_negative, ~bits.dtype.type(0), ~bits.dtype.type(0) >> 1)
        self.found[name] = np.where(np.isnan(found), ones, bits).astype(bits.dtype).view(found.dtype)

    def _any_sign(self, found: np.ndarray) -> np.ndarray:
        return np.copysign(found, self.draw.choice(self.signs, found.shape).astype(found.dtype))


class _Wide(Player):
    """Playback without the roundings to 16 and 8 bits that attention leaves out between its products; results are
    rounded."""

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        found = super().run(inputs)
        return {t.name: convert(found[t.name], t.type.dtype) for t in self.module.model.outputs}

    def value(self, value: tiny.Value) -> np.ndarray:
        if value.op == "CAST" and value.type.dtype.is_float and value.type.dtype.bits < 32:
            return super().value(_unrounded(value))
        for operand in value.operands if value.op == "BITCAST" else ():  # which looks at the bits
            self.found[operand] = convert(self.found[operand], self.types[operand].dtype)
        return super().value(value)

    @functools.cached_property
    def types(self) -> Mapping[str, TensorType]:
        """The type of every value and input."""
        return self.module.type_of()


def _unrounded(value: tiny.Value) -> tiny.Value:
    """A value as it is before it is rounded, to as many digits as arithmetic on it may have."""
    wide = DTYPES["fp32" if value.type.dtype.bits < 32 else "fp64"]
    attrs = tuple((key, wide if key == "dtype" else item) for key, item in value.attrs)
    return replace(value, type=TensorType(wide, value.type.shape), attrs=attrs)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an output should be, how far each element may be from that, and where it is not asked."""

    array: np.ndarray
    room: np.ndarray
    is_asked: np.ndarray

    def differs(self, found: np.ndarray) -> str:
        """The first element that is wrong, or nothing."""
        if found.dtype != self.array.dtype or found.shape != self.array.shape:
            return f"{found.dtype}{list(found.shape)}, not {self.array.dtype}{list(self.array.shape)}"
        is_same = found == self.array
        if found.dtype.kind not in "biu":
            with np.errstate(all="ignore"):
                one, other = found.astype(np.float64), self.array.astype(np.float64)
                is_same |= (np.isnan(one) & np.isnan(other)) | (np.abs(one - other) <= self.room)
        wrong = np.argwhere(~is_same & self.is_asked)
        if not len(wrong):
            return ""
        at = tuple(int(i) for i in wrong[0])
        return f"{list(at)} is {found[at]}, not {self.array[at]}; {len(wrong)} of {found.size} differ"


def wanted_of(module: tiny.Module, arrays: Arrays) -> dict[str, Wanted]:
    """What each output should be."""
    sizes = bind_symbols(module.model, arrays)
    inputs = {t.name: adopt(arrays[t.name], t.type.dtype) for t in module.model.inputs}
    right = Player(module, sizes).run(inputs)
    shaken = [_Wide(module, sizes).run(inputs), *(_Shaken(module, sizes, n).run(inputs) for n in range(SHAKES))]
    return {t.name: _wanted(right[t.name], [s[t.name] for s in shaken], t.type.dtype) for t in module.model.outputs}


def _wanted(right: np.ndarray, shaken: list[np.ndarray], dtype: DType) -> Wanted:
    if not dtype.is_float:
        stays = np.logical_and.reduce([s == right for s in shaken])
        return Wanted(right, np.zeros(right.shape), stays)
    wide, *others = (a.astype(np.float64) for a in (right, *shaken))
    with np.errstate(all="ignore"):
        is_finite = np.isfinite(wide)
        is_steady = np.logical_and.reduce([np.isfinite(o) == is_finite for o in others])
        is_steady &= np.logical_and.reduce([is_finite | (o == wide) | np.isnan(o) & np.isnan(wide) for o in others])
        spread = np.maximum.reduce([np.abs(o - wide) for o in others])
        spread = np.where(is_finite & is_steady, spread, 0)
        least = LEAST[dtype.name]
        is_near = spread <= 0.1 * np.maximum(np.abs(wide), 1) + 2 * least * np.abs(wide)
        factor = NARROW_ROOM if dtype.bits < 32 else ROOM
        room = factor * spread + least * np.abs(np.where(is_finite, wide, 0)) + LEAST["fp32"] * (dtype.bits < 64) / 100
    return Wanted(right, room, is_steady & is_near)


# --- the stages


def faults_of(
    module: tiny.Module, arrays: Arrays, arch: str = "sm90", device: str = "sim", seed: int = 0
) -> list[Fault]:
    """What is wrong with a program, at the first stage where something is; empty where nothing is."""
    return next(filter(None, _stages(module, arrays, arch, device, seed)), [])


def _stages(module: tiny.Module, arrays: Arrays, arch: str, device: str, seed: int) -> Iterator[list[Fault]]:
    found: dict[str, Any] = {}

    def attempt(stage: str, work: Callable[[], list[Fault]]) -> list[Fault]:
        try:
            return work()
        except Refused as fault:
            first = fault.diags[0]
            return [Fault(stage, f"refused {first.code}", f"{first.at} {dict(first.facts)}")]
        except Exception as fault:  # noqa: BLE001 - whatever it is, it is what we look for
            place = traceback.extract_tb(fault.__traceback__)[-1]
            where = f"{place.filename.rpartition('/tinyir/')[2]} {place.name}"
            return [Fault(stage, f"{type(fault).__name__} in {where}", str(fault)[:300])]

    def wanted() -> list[Fault]:
        found["wanted"] = wanted_of(module, arrays)
        found["text"] = module
        return _complaints("tiny", module)

    yield attempt("tiny", wanted)
    for stage in STAGES[1:]:

        def lowered(stage: str = stage) -> list[Fault]:
            before, found["text"] = found["text"], lower_to(stage, found["text"], arch)
            return _complaints(stage, found["text"], before)

        yield attempt(stage, lowered)
        if player := {"index": play_book, "region": play_region}.get(stage):
            yield attempt(
                f"{stage} played",
                lambda stage=stage, player=player: _compared(
                    f"{stage} played", found["wanted"], player(found["text"], arrays)
                ),
            )
    code = manifest.show(found["text"])
    yield attempt(
        device,
        lambda: _compared(device, found["wanted"], run(code, arrays, device=device, seed=seed, limit=120)[0]),
    )


def _complaints(stage: str, text: Any, before: Any = None) -> list[Fault]:
    """What the language says of a text that its own maker has made of the one before it, and of what comes back from
    it."""
    language = language_of(stage)
    wrong = [d for d in language.check(text) if d.is_error]
    if not wrong and language.parse(language.show(text)) != text:
        return [Fault(stage, "another text", "what is printed does not read as what was printed")]
    if not wrong and hasattr(language, "validate"):
        wrong = [d for d in (*language.validate(text), *language.confirm(text, before)) if d.is_error]
    return [Fault(stage, f"refused {d.code}", f"{d.at} {dict(d.facts)}") for d in wrong[:1]]


def _compared(stage: str, wanted: Mapping[str, Wanted], found: Arrays) -> list[Fault]:
    said = {name: said for name, one in wanted.items() if (said := one.differs(np.asarray(found[name])))}
    if not said:
        return []
    first = next(iter(said))
    return [Fault(stage, "wrong numbers", f"{first}{said[first]}", tuple(said))]
