"""A plan with what it speaks of, as the verifier of plan text looks at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...ir.model import Model
from ...ir.region import Region
from ..problem import Kernel


@dataclass(frozen=True, slots=True)
class Case:
    """One plan with what it speaks of: its regions, the first of them (or both, when they stream) as a kernel of the
    plan's family, and the signature."""

    plan: Any
    regions: tuple[Region, ...]
    kernel: Kernel
    model: Model


__all__ = ["Case"]
