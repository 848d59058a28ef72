"""What a CTA of a direct kernel takes: the registers of a thread's block, and of an image's row."""

from __future__ import annotations

from ...ir.plan.fields import Plan
from ..family import Needs, Problem
from ..resources import allotted
from .block import Block

ADDRESSING = 16  # registers beside what a thread holds


def declare(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes."""
    held = accumulators(plan, problem)
    block = Block.of(plan, problem.kernel)
    rows = max(sum(block.held(i) for i in f.images) for f in problem.kernel.folds)
    return Needs(registers=allotted(plan, held + rows + 2 * block.wide + ADDRESSING), accumulators=held)


def accumulators(plan: Plan, problem: Problem) -> int:
    """32-bit registers of the results of all folds, and of an image's row."""
    block = Block.of(plan, problem.kernel)
    return sum(block.results * max(1, f.reduce.dtype.bytes // 4) for f in problem.kernel.folds)


__all__ = ["accumulators", "declare"]
