"""The cost model: what a plan's kernel is expected to take on a card (seed 001 section 11).

    time = start + max(arithmetic and shared memory of the busiest SM, bytes from L2, bytes from memory)

It is the seed's max(FLOPs/peak, Bytes/bandwidth) with `occ` and `pipeline_eff` taken apart into what causes them: whole
tiles on whole SMs, instructions issued a step, and the latency of a load that too few resident CTAs can hide. It is
meant to rank. Each family says in its `clocks` how far it was off; the constants are the card's
(`target/devices/*.toml`) and the few named there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..analysis.work import Work
from ..ir.plan import Estimate, Plan
from ..ir.traits import extent_of
from ..kit.numbers import Number, at_row, most
from ..kit.records import dataclass
from ..target.device import Device
from .family import Conditions, Family, Problem
from .resources import Taken, taken_by


@dataclass(frozen=True, slots=True)
class Cost:
    """What the model found, times in microseconds. `parts` are the candidates for the bound; `useful` is the share of
    the card's peak for the plan's unit that the time amounts to."""

    microseconds: float
    bound: str
    smem: int
    regs: int
    occupancy: int
    parts: Mapping[str, float]
    flops: int
    bytes: int

    @property
    def tflops(self) -> float:
        """Arithmetic a second, in TFLOP/s."""
        return self.flops / self.microseconds / 1e6

    @property
    def gbs(self) -> float:
        """Compulsory bytes a second, in GB/s."""
        return self.bytes / self.microseconds / 1e3

    def estimate(self) -> Estimate:
        """The plan's `estimate` line: the time to three digits."""
        digits = 2 - math.floor(math.log10(self.microseconds))
        return Estimate(round(self.microseconds, digits), self.bound, self.smem, self.regs, self.occupancy)


@dataclass(frozen=True, slots=True)
class Costs:
    """What the model found of every row of a sheet: microseconds, and what a CTA takes, as columns."""

    parts: Mapping[str, Number]
    start_us: float
    taken: Taken
    work: Work

    @property
    def microseconds(self) -> Number:
        """By row."""
        return self.start_us + most(*self.parts.values())

    def row(self, number: int) -> Cost:
        """The cost of the plan of a row."""
        parts = {part: at_row(us, number) for part, us in self.parts.items()}
        smem, regs, ctas = (at_row(x, number) for x in (self.taken.smem, self.taken.regs, self.taken.occupancy))
        return _cost(parts, self.start_us, Taken(smem, regs, ctas), self.work)


def cost_of(
    family: Family,
    plan: Plan,
    problem: Problem,
    work: Work,
    sizes: Mapping[str, int],
    device: Device,
    taken: Taken | None = None,
) -> Cost:
    """The cost of one plan at the symbol values `sizes`, where the launch has the `work` and a CTA takes `taken`, if
    that is known. The plan must fit (`occupancy` of at least one CTA)."""
    taken = taken or taken_by(plan, family.declare(plan, problem))
    found = costs_of(family, plan, problem, work, sizes, device, taken)
    return _cost(found.parts, found.start_us, taken, work)


def costs_of(
    family: Family, plan: Plan, problem: Problem, work: Work, sizes: Mapping[str, int], device: Device, taken: Taken
) -> Costs:
    """The same of a plan of columns, for each row; what it says of one that does not fit means nothing."""
    if extent_of(problem.region.iters).evaluate(sizes) <= 0:  # there is no result: every plan is a start alone
        return Costs({"latency": 0.0}, device.start_us, taken, work)
    found = family.clocks(plan, problem, Conditions(sizes, device, most(1, taken.occupancy), work))
    return Costs(found.parts, device.start_us if found.start_us is None else found.start_us, taken, work)


def _cost(parts: Mapping[str, float], start: float, taken: Taken, work: Work) -> Cost:
    bound = max(parts, key=lambda part: parts[part])
    name = bound if parts[bound] > start else "latency"
    occupancy = max(1, taken.occupancy)
    return Cost(start + parts[bound], name, taken.smem, taken.regs, occupancy, parts, work.flops, work.bytes)
