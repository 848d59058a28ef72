"""One piece of memory for what a program keeps between its launches: buffers that never live at the same time may share
a place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..ir import manifest
from ..ir.in_place import owner_of
from ..kit.records import dataclass

ALIGNMENT = 256  # bytes; what cudaMalloc gives, and more than any kernel asks for


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A buffer of `bytes` that launches number `first` to `last` touch, both included."""

    name: str
    bytes: int
    first: int
    last: int

    def meets(self, other: Lifetime) -> bool:
        """Whether both live during some launch."""
        return self.first <= other.last and other.first <= self.last


def touched(module: manifest.Module, launches: Sequence[manifest.Launch]) -> dict[str, tuple[int, int]]:
    """For each tensor that owns memory, the numbers of the first and the last launch that touch it, itself or by an
    alias or a map."""
    mapped = {m.name: m.tensor for m in module.maps}
    spans: dict[str, tuple[int, int]] = {}
    for number, launch in enumerate(launches):
        for name in (*launch.tensors, *(mapped[m] for m in launch.maps)):
            owner = owner_of(module.region, name)
            spans[owner] = (spans.get(owner, (number, number))[0], number)
    return spans


def line_up(sizes: Iterable[tuple[str, int]]) -> tuple[dict[str, int], int]:
    """Offsets one after the other, and the bytes of all: for what lives as long as the program."""
    offsets, end = {}, 0
    for name, size in sizes:
        offsets[name] = end
        end += rounded(size)
    return offsets, end


def pack(lifetimes: Iterable[Lifetime]) -> tuple[dict[str, int], int]:
    """An offset for each buffer such that those that meet do not overlap, and the bytes of all. The largest are placed
    first, each in the lowest gap that holds it."""
    placed: list[tuple[int, Lifetime]] = []
    for item in sorted(lifetimes, key=lambda item: (-item.bytes, item.first, item.name)):
        at = 0
        for offset, other in sorted((p for p in placed if p[1].meets(item)), key=lambda p: p[0]):
            if at + item.bytes <= offset:
                break
            at = max(at, offset + rounded(other.bytes))
        placed.append((at, item))
    return {item.name: offset for offset, item in placed}, max(
        (offset + rounded(item.bytes) for offset, item in placed), default=0
    )


def rounded(size: int) -> int:
    """Bytes with what follows up to where the next may begin."""
    return -(-size // ALIGNMENT) * ALIGNMENT
