"""The cards that plans are made for: `devices/*.toml`, read once. What an SM holds is the architecture's
(`target.arch`)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..kit.diag import refuse
from ..kit.numbers import Number, power
from ..kit.phrase import Phrase
from ..kit.records import dataclass, field
from .arch import ARCHS, Arch


@dataclass(frozen=True, slots=True)
class Device:
    """A card. Times in ns or us as named, bandwidths in GB/s (1e9 bytes), `peak` in TFLOP/s by unit, `reached` the
    share of it that a well-made kernel reaches by the instruction that drives it, `simt` the cost model's constants for
    kernels without tensor cores, `padding` those of copies before a contraction (its `us` are those of any short
    launch before another), `mma` those of multistage contractions, `gemv` those of ones with next to no rows, `tensor`
    those of warp-specialised ones, on a card that has them. The files say where each figure comes from. `fp32`,
    `atomics` and `is_invariant` are not figures: what plans may make of fp32 factors ("tf32": round them to 11 bits)
    and of the order of folds ("unordered": that of the threads), and whether they fold in one order for every size of a
    batch."""

    name: str
    title: str
    arch: Arch
    sms: int
    clock_ghz: float
    l2_bytes: int
    l2_useful_bytes: int
    dram_gbs: float
    dram_reached: float
    l2_gbs: float
    dram_latency_ns: float
    l2_latency_ns: float
    start_us: float
    peak: Mapping[str, float]
    reached: Mapping[str, float]
    simt: Mapping[str, float]
    padding: Mapping[str, float]
    mma: Mapping[str, float]
    gemv: Mapping[str, float]
    tensor: Mapping[str, Any] = field(default_factory=dict)
    fp32: str = ""
    atomics: str = ""
    is_invariant: bool = False

    @property
    def dram_bytes_per_us(self) -> float:
        """Bytes a microsecond that memory delivers in practice."""
        return self.dram_gbs * self.dram_reached * 1e3

    @property
    def l2_bytes_per_us(self) -> float:
        """Bytes a microsecond from the L2 cache, all SMs together."""
        return self.l2_gbs * 1e3


def longer_of(first: Number, second: Number, sharpness: float) -> Number:
    """The longer of two times that overlap, more where they are near one another: the sharper, the less. Of columns a
    column."""
    return power(power(first, sharpness) + power(second, sharpness), 1 / sharpness)


def device_names() -> tuple[str, ...]:
    """Every card there is a file for, sorted."""
    return tuple(sorted(f.name.removesuffix(".toml") for f in _folder().iterdir() if f.name.endswith(".toml")))


@functools.cache
def get_device(name: str) -> Device:
    """The card called `name`. Raises Refused (E1503) when there is no file for it."""
    if name not in device_names():
        raise refuse("E1503", name, what=Phrase("device"), given=name, known=", ".join(device_names()))
    figures = _figures(name)
    return Device(**{**figures, "arch": ARCHS[figures["arch"]]})


def device_titled(title: str) -> str | None:
    """The name of the card that the driver calls `title`, or None when there is no file for it."""
    return next((name for name in device_names() if get_device(name).title == title), None)


def _figures(name: str) -> dict[str, Any]:
    """A file's figures; one that is `like` another says only what is other, in tables too."""
    import tomllib

    own = tomllib.loads(_folder().joinpath(f"{name}.toml").read_text(encoding="utf-8"))
    base = _figures(own.pop("like")) if "like" in own else {}
    return {
        **base,
        **{key: {**base.get(key, {}), **value} if isinstance(value, dict) else value for key, value in own.items()},
    }


def _folder() -> Path:
    return Path(__file__).resolve().parent / "devices"
