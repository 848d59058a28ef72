"""What a CTA of a direct kernel takes: the registers of a thread's block, an image's row, a walk's factors."""

from __future__ import annotations

import math

from ...ir.neighbours import ACCESS_BYTES
from ...ir.plan.fields import Plan
from ...kit.records import dataclass
from ..family import Array, Needs, Problem
from ..resources import allotted
from ..windowed import Fold, Windowed
from .block import Block, beside_of, is_ahead, names_of

ADDRESSING = 16  # registers beside what a thread holds
OF_GROUP = 24  # and where a group's channels are innermost, of 16 bits, each of which is there as fp32 too


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
    block = Block.of(plan, problem.kernel)
    sums = accumulators(block)
    ahead = rows_of(plan, problem.kernel)
    beside = max(_beside(block, fold, ahead is not None) for fold in problem.kernel.folds)
    registers = allotted(plan, sums + beside + ADDRESSING)
    return Needs((ahead.array,) if ahead else (), registers=registers, accumulators=sums)


def _beside(block: Block, fold: Fold, is_ahead: bool) -> int:
    """Registers of a thread beside its results: a row of the images, what such a row folds to, factors, guards."""
    image, wide = fold.images[0], block.wide
    words = sum(map(block.words, fold.images))
    folded = block.columns * wide if fold.is_of_elements and block.slots > 1 else 0
    if is_ahead:
        return words + kept(block) + folded
    if block.walk > 1:  # two rows as they come; a factor that is used is there as fp32 too
        return 2 * words + 3 * kept(block) // 2 + folded
    found = sum(block.held(i) * max(1, i.read.dtype.bytes // 4) for i in fold.images)
    if fold.is_of_elements:
        return found
    if fold.beside and block.kernel.is_across and image.read.dtype.bytes >= 4:
        return found + 2 * wide  # of the plans chosen one spills 8 B; fewer CTAs take up to 16 % more
    if not block.is_written or image.rows is None:
        return found + 2 * wide + (block.loads(image) if fold.beside else 0)
    taps = image.columns.taps
    # the factors of a tap, or of a row of them, and guards of columns and rows, which are found before the loop
    found += block.loads(image) + (taps + image.rows.taps if fold.beside else 2 * wide)
    if fold.beside and block.kernel.is_across:
        found += OF_GROUP + (block.columns // 2 if block.rows > 1 else 0)
    if block.rows > 1:  # factors that rows of results after the next take
        later = min(image.rows.taps, (block.rows - 1) * image.rows.step // image.rows.spread + 1)
        each = max(1, wide // 2)
        found += sum(later * taps * (each if block.along in names_of(read) else 1) for read in beside_of(fold))
        found += image.rows.taps if block.kernel.is_across else 0
    return found


def is_held(block: Block) -> bool:
    """Whether the compiler is held to these registers. Neighbours along the planes that neither walk nor have a loop
    take what the compiler finds: told a limit it fetches further ahead, up to the limit and beyond."""
    kernel, fold = block.kernel, block.kernel.folds[0]
    is_loop = block.walk > 1 or bool(fold.beside)
    return is_loop or not kernel.is_across or fold.is_of_elements or not fold.images[0].has(kernel.planes[-1])


def accumulators(block: Block) -> int:
    """32-bit registers of the results of all folds."""
    results = block.results // block.rows * block.slots
    return sum(results * max(1, f.reduce.dtype.bytes // 4) for f in block.kernel.folds)


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
