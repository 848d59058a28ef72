"""A plan with what it speaks of, as the verifier of plan text looks at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..kit.diag import Diag
from .kernels import Kernel
from .model import Model
from .region import Region


@dataclass(frozen=True, slots=True)
class Case:
    """One plan with what it speaks of: its regions, the first of them (or both, when they stream) as a kernel of the
    plan's family, and the signature."""

    plan: Any
    regions: tuple[Region, ...]
    kernel: Kernel
    model: Model


def fault_of(plan: Any, code: str, word: str, **facts: Any) -> Diag:
    """A fault of a plan, where the field `word` stands."""
    return Diag(code, plan.name, facts, plan.span_of(word))


__all__ = ["Case", "fault_of"]
