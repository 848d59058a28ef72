"""One candidate on trial: lowered to CUDA, compiled, checked against playback, timed. Whatever stops it is its
`reason`, and the next one follows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from ..ir import manifest, plan, region
from ..ir.pipeline import STAGES
from ..kit.diag import Refused, Said, refuse_all
from ..kit.phrase import Phrase
from ..kit.records import dataclass
from ..lower import language_of, lower_to
from ..play.roundings import spread_of
from ..runtime.check import compare
from ..runtime.compile import Usage


@dataclass(frozen=True, slots=True)
class Emitted:
    """A candidate as CUDA: its text and the text's module, or why there is none."""

    plan: plan.Plan
    text: str = ""
    module: manifest.Module | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of a candidate: microseconds of the median when it was timed, else the reason why it was not. `usage`
    is what ptxas says of its kernels, by entry; `flops` and `bytes` are those of one run."""

    plan: plan.Plan
    microseconds: float | None = None
    reason: str = ""
    usage: Mapping[str, Usage] | None = None
    flops: int = 0
    bytes: int = 0


class Card(Protocol):
    """Where candidates are tried: `card.GpuCard`, or what a test puts in its place."""

    name: str
    compiler: str

    def compile(self, text: str) -> Mapping[str, Usage]:
        """Compile a text (kept in the cache); called from several threads. Raises Refused."""

    def outputs(
        self, emitted: Emitted, sizes: Mapping[str, int], arrays: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Load the candidate and run it once. Raises Refused."""

    def time(self) -> float:
        """Microseconds of the median of what was run last, from a cold L2 cache. Raises Refused."""


def emit(program: region.Module, one: plan.Plan, sizes: Mapping[str, int]) -> Emitted:
    """The CUDA of a region alone under one plan."""
    module: Any = plan.Module(program, (one,))
    broken = [b for b in one.assume if not b.holds(dict(sizes))]
    if broken:
        return Emitted(one, reason=Phrase("it assumes what these sizes are not"))
    try:
        faults = [d for d in language_of("plan").check(module) if d.is_error]
        refuse_all(faults)
        for stage in STAGES[STAGES.index("plan") + 1 :]:
            module = lower_to(stage, module, one.arch)
    except Refused as fault:
        return Emitted(one, reason=reason_of(fault))
    return Emitted(one, manifest.show(module), module)


def check_candidate(
    card: Card,
    emitted: Emitted,
    sizes: Mapping[str, int],
    arrays: Mapping[str, Any],
    wanted: Mapping[str, np.ndarray],
    usage: Mapping[str, Usage],
) -> Trial:
    """Run a compiled candidate, and time it when its outputs are those of playback."""
    assert emitted.module is not None
    launches = emitted.module.launches
    flops, moved = (
        sum(getattr(launch, what).evaluate(dict(sizes)) for launch in launches) for what in ("flops", "bytes")
    )
    try:
        outputs, program = card.outputs(emitted, sizes, arrays), emitted.module.region
        found = compare(outputs, wanted, spread=lambda: spread_of(program, arrays, sizes))
        wrong = [d for d in found if d.wrong]
        if wrong:
            return Trial(emitted.plan, None, f"wrong: {wrong[0]}", usage, flops, moved)
        return Trial(emitted.plan, card.time(), "", usage, flops, moved)
    except Refused as fault:
        return Trial(emitted.plan, None, reason_of(fault), usage, flops, moved)


def reason_of(fault: Refused) -> str:
    """The first diagnostic: its code and what it says."""
    first = fault.diags[0]
    return Phrase("{code} {why}", code=first.code, why=Said(first))
