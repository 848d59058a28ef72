"""What one CTA of a plan takes of an SM, as its family declares it: the same for planner, checker and cost model."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..ir.body import Unary, walk
from ..ir.plan.fields import Plan
from ..ir.region import Region
from ..ir.traits import bodies_of
from ..kit.numbers import Number, least
from ..kit.records import dataclass, replace
from ..target.arch import ARCHS
from ..target.hopper import WARPGROUP
from .family import Needs

MAX_STAGES = 16
ADDRESSING = 36  # registers a thread beside accumulators and fragments: pointers, guards, loop counters
REGISTER_STEP = 8  # in which the compiler allots registers
ON_THEIR_WAY = 32  # elements of a fold of neighbours that a thread has on their way at once
WALK = 8  # elements of a long walk that a thread has on their way at once
SINE_STACK = (32, 40)  # bytes, as ptxas says: of fp32 and narrower, of fp64


@dataclass(frozen=True, slots=True)
class Taken:
    """Bytes of shared memory that a CTA takes, registers a thread, and CTAs that an SM holds at once; 0 when not one
    fits. Of a sheet's plans columns."""

    smem: Number
    regs: Number
    occupancy: Number


def taken_by(plan: Plan, needs: Needs) -> Taken:
    """What a CTA of a plan takes with these needs."""
    smem = needs.smem
    ctas = ARCHS[plan.arch].ctas_that_fit(smem, needs.registers, threads_of(plan))
    return Taken(smem, needs.registers, ctas)


def threads_of(plan: Plan) -> Number:
    """Threads of a CTA: as stated, or a producer, where words are split who does that, and the consumers, warpgroups of
    128 each."""
    return (
        math.prod(plan.threads)
        if plan.threads
        else WARPGROUP * (1 + plan.is_split + plan.consumers.count)
        if plan.consumers
        else 0
    )


def allotted(plan: Plan, wanted: Number) -> Number:
    """Registers a thread that the compiler allots where this number is wanted: a multiple of 8, at most the
    architecture's limit."""
    return least(ARCHS[plan.arch].registers_per_thread, -(-wanted // REGISTER_STEP) * REGISTER_STEP)


def filled(plan: Plan, needs: Needs) -> Needs:
    """The needs with as many registers a thread as leave as many CTAs on an SM as those that are wanted do: what an
    estimate is short of, the compiler would spill."""
    arch, registers = ARCHS[plan.arch], allotted(plan, needs.registers)
    ctas = max(taken_by(plan, replace(needs, registers=registers)).occupancy, 1)
    warps = -(-ctas * threads_of(plan) // (arch.warp * arch.schedulers)) * arch.schedulers  # each has as many
    whole = arch.registers_per_sm // (warps * arch.warp) // REGISTER_STEP * REGISTER_STEP
    return replace(needs, registers=max(registers, allotted(plan, whole)))


def stack_of(regions: Iterable[Region]) -> int:
    """Bytes of local memory of a thread: CUDA's own sines, of fp32 and of fp64, each keep the digits of a large angle
    there."""
    return sum(
        SINE_STACK[is_wide]
        for is_wide in {
            n.dtype.bytes > 4
            for r in regions
            for body in bodies_of(r)
            for n in walk(body)
            if isinstance(n, Unary) and n.op == "sin"
        }
    )
