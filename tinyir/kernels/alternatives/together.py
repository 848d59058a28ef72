"""What becomes of several regions that one product takes in."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.region import Module, Region
from ...kit.records import dataclass
from .parts import Names


@dataclass(frozen=True, slots=True)
class Together:
    """A module in which one region does what several did before: its name, the names of these, and the regions that are
    other than before, what lays constants out for it among them."""

    module: Module
    name: str
    parts: tuple[str, ...]
    changed: tuple[Region, ...]


Way = Callable[[Module, Names], "Together | None"]  # of a module in which other regions may be other by now

__all__ = ["Together", "Way"]
