"""What a CTA of a direct kernel takes: the registers of a thread's block, an image's row, a walk's factors."""

from __future__ import annotations

import math

from ...ir.neighbours import ACCESS_BYTES
from ...ir.plan.fields import Plan
from ...kit.records import dataclass
from ..family import Array, Needs, Problem
from ..resources import allotted
from ..windowed import Windowed
from .block import Block, beside_of, is_ahead, names_of

ADDRESSING = 16  # registers beside what a thread holds


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of an image in shared memory: an array, and how many there are at a time."""

    array: Array
    stages: int


def rows_of(plan: Plan, kernel: Windowed) -> Rows | None:
    """Those of a plan whose threads walk down rows that come ahead; None of any other. The places of a row
    are as many as make each thread copy as much as the others."""
    if not is_ahead(plan):
        return None
    (image,) = kernel.folds[0].images
    across = plan.tile[2] * image.read.dtype.bytes // ACCESS_BYTES
    even = math.lcm(math.prod(plan.threads), across) // across
    places = -(-image.columns.places(plan.tile[1]) // even) * even
    return Rows(Array("rows", image.read.dtype, (places, plan.tile[2]), plan.stages), plan.stages)


def declare(plan: Plan, problem: Problem) -> Needs:
    """What a CTA takes."""
    sums = accumulators(plan, problem)
    block = Block.of(plan, problem.kernel)
    beside = kept(block) if block.walk > 1 else 2 * block.wide
    ahead = rows_of(plan, problem.kernel)
    rows = held(block) * (2 if block.walk > 1 and ahead is None else 1)  # of a walk, also one that is on its way
    registers = allotted(plan, sums + rows + beside + ADDRESSING)
    return Needs((ahead.array,) if ahead else (), registers=registers, accumulators=sums)


def accumulators(plan: Plan, problem: Problem) -> int:
    """32-bit registers of the results of all folds."""
    block = Block.of(plan, problem.kernel)
    results = block.results // block.rows * block.slots
    return sum(results * max(1, f.reduce.dtype.bytes // 4) for f in problem.kernel.folds)


def held(block: Block) -> int:
    """Elements of the images that a thread holds at a time."""
    return max(sum(block.held(i) for i in f.images) for f in block.kernel.folds)


def kept(block: Block) -> int:
    """Registers of the factors of all taps, which a walk keeps."""
    (fold,) = block.kernel.folds
    return sum(
        math.prod(a.size.constant for a in fold.reduce.axes if a.name in names_of(read))
        * (block.wide if block.along in names_of(read) else 1)
        for read in beside_of(fold)
    )


__all__ = ["Rows", "accumulators", "declare", "held", "kept", "rows_of"]
