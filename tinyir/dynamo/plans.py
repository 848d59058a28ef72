"""Which plans a call runs: those that were made for sizes like its own, made when the first such call comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..kit.diag import Refused
from ..kit.records import dataclass
from ..runtime.sets import is_far, order_of

Sizes = Mapping[str, int]


@dataclass(slots=True)
class Planned:
    """A program as it was planned for some sizes: its CUDA text, its module, and what a device loaded of it."""

    sizes: Sizes
    text: str
    module: Any
    code: Any


class Plans:
    """The plans of one graph. `make` plans for sizes: text and module; `load` loads a text; `allows` raises Refused
    where the launches of a module do not take some sizes. At most `most` sets of sizes are planned for; a graph without
    known sizes has one plan."""

    def __init__(
        self,
        first: Planned,
        most: int,
        make: Callable[[Sizes], tuple[str, Any]],
        load: Callable[[str, Any], Any],
        allows: Callable[[Any, Sizes], Any],
    ):
        self.every = [first]
        self._most, self._make, self._load, self._allows = most, make, load, allows

    def of(self, sizes: Sizes) -> Planned:
        """The plans to run at these sizes. Where all others are for sizes that are far from them, new ones are made.
        Raises Refused where the launches of none take these sizes."""
        ordered = self._ordered(sizes)
        if ordered[0].sizes and is_far(ordered[0].sizes, sizes) and len(self.every) < self._most:
            ordered = [self._made(sizes), *ordered]
        faults: list[Refused] = []
        for one in ordered:
            try:
                self._allows(one.module, sizes)
            except Refused as fault:
                faults.append(fault)
            else:
                return one
        raise faults[0]

    def _ordered(self, sizes: Sizes) -> list[Planned]:
        return [self.every[n] for n in order_of([p.sizes for p in self.every], sizes)]

    def _made(self, sizes: Sizes) -> Planned:
        text, module = self._make(sizes)
        same = next((p for p in self.every if p.text == text), None)
        code = self._load(text, module) if same is None else same.code
        self.every.append(Planned(dict(sizes), text, module, code))
        return self.every[-1]
