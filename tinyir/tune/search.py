"""The search: the candidates of one region, the fastest first by the cost model, tried until the time is spent."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from ..ir import plan, region
from ..kit.diag import Diag, Refused
from ..kit.phrase import Listing, Phrase
from ..kit.records import dataclass
from ..play.region import play
from ..runtime.arrays import random_arrays
from ..runtime.compile import Usage
from .trial import Card, Emitted, Trial, check_candidate, emit, reason_of

SPENT = Phrase("the time was spent")


@dataclass(frozen=True, slots=True)
class Found:
    """The trials of one region in the order in which they were made, and its plans: the fastest; after one that assumes
    something of the sizes the best that assumes nothing."""

    plans: tuple[plan.Plan, ...]
    trials: tuple[Trial, ...]


def search(
    program: region.Module,
    listed: Sequence[plan.Plan],
    sizes: Mapping[str, int],
    card: Card,
    seconds: float,
    seed: int = 0,
    on_trial: Callable[[Trial], None] = lambda _: None,
) -> Found:
    """Try the plans `listed` for a region alone (`alone.alone`). Compiling runs ahead on all cores; a candidate is
    timed only when its outputs are those of playback on random arrays. At least one is tried, whatever `seconds`.
    Raises Refused (E1591) when none runs."""
    until = time.monotonic() + seconds
    arrays = random_arrays(program.model, sizes, seed)
    wanted = play(program, arrays)
    trials: list[Trial] = []
    for emitted, compiled in _compiling(program, listed, sizes, card.compile):
        if time.monotonic() > until and any(t.microseconds is not None for t in trials):
            compiled.cancel()
            trials.append(Trial(emitted.plan, None, SPENT))
        else:
            found = compiled.result()
            trials.append(
                found if isinstance(found, Trial) else check_candidate(card, emitted, sizes, arrays, wanted, found)
            )
        on_trial(trials[-1])
    timed = sorted((t for t in trials if t.microseconds is not None), key=lambda t: t.microseconds)
    return Found(_chain(program, [t.plan for t in timed], listed, trials), tuple(trials))


def sift(
    program: region.Module,
    listed: Sequence[plan.Plan],
    sizes: Mapping[str, int],
    compile_text: Callable[[str], Mapping[str, Usage]],
    on_trial: Callable[[Trial], None] = lambda _: None,
) -> Found:
    """Without a GPU: the plans `listed`, cheapest first by the cost model, less those that do not compile or whose
    kernels spill registers or use a stack, as ptxas says. Raises Refused (E1591) when none is left."""
    trials: list[Trial] = []
    for emitted, compiled in _compiling(program, listed, sizes, compile_text):
        found = compiled.result()
        trials.append(found if isinstance(found, Trial) else _sifted(emitted, found))
        on_trial(trials[-1])
    return Found(_chain(program, [t.plan for t in trials if not t.reason], listed, trials), tuple(trials))


def _chain(
    program: region.Module, ordered: Sequence[plan.Plan], listed: Sequence[plan.Plan], trials: Sequence[Trial]
) -> tuple[plan.Plan, ...]:
    """The best plan, and after one that assumes something the best that assumes nothing: of those tried, else of those
    listed."""
    if not ordered:
        tried = [Phrase("{plan}: {reason}", plan=" ".join(t.plan.headline), reason=t.reason) for t in trials]
        listing = Listing(tried, "; ") if tried else Phrase("there is none")
        raise Refused([Diag("E1591", program.model.name, {"region": program.model.name, "reasons": listing})])
    general = next((p for p in (*ordered, *listed) if not p.assume), None)
    return (ordered[0], *((general,) if ordered[0].assume and general else ()))


def _compiling(
    program: region.Module,
    listed: Sequence[plan.Plan],
    sizes: Mapping[str, int],
    compile_text: Callable[[str], Mapping[str, Usage]],
) -> Iterator[tuple[Emitted, Future[Trial | Mapping[str, Usage]]]]:
    """Each candidate as CUDA, with its compilation, which runs ahead on all cores."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        yield from [
            (one, pool.submit(_compiled, compile_text, one)) for one in (emit(program, p, sizes) for p in listed)
        ]


def _compiled(compile_text: Callable[[str], Mapping[str, Usage]], emitted: Emitted) -> Trial | Mapping[str, Usage]:
    """What ptxas says of a candidate, or the trial that ends here."""
    if emitted.module is None:
        return Trial(emitted.plan, None, emitted.reason)
    try:
        return compile_text(emitted.text)
    except Refused as fault:
        return Trial(emitted.plan, None, reason_of(fault))


def _sifted(emitted: Emitted, usage: Mapping[str, Usage]) -> Trial:
    spilled = [
        Phrase(
            "{name}: {spill_stores} B spilled, {stack} B of stack",
            name=name,
            spill_stores=u.spill_stores + u.spill_loads,
            stack=u.stack,
        )
        for name, u in usage.items()
        if u.spill_stores or u.spill_loads or u.stack
    ]
    return Trial(emitted.plan, None, Listing(spilled, "; "), usage)
