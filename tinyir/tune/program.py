"""A whole program tuned, kernel by kernel; and a planned program with the winners of earlier tunings put in."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from ..ir import plan, region
from ..ir.model import Shapes
from .alone import alone
from .search import Found
from .store import is_outdated, load_winner

Names = tuple[str, ...]
Tried = Callable[[region.Module, Sequence[plan.Plan], Mapping[str, int], float], Found]


def at_sizes(module: region.Module, sizes: Mapping[str, int]) -> region.Module:
    """The module with `sizes` as its first shape set, which is the one that candidates are ranked at."""
    if not sizes:
        return module
    rest = tuple(s for s in module.model.shape_sets if dict(s.sizes) != dict(sizes))
    return replace(
        module,
        model=replace(
            module.model, shape_sets=(Shapes("tuned", tuple(sizes.items())), *(s for s in rest if s.name != "tuned"))
        ),
    )


def kernels_of(planned: plan.Module) -> dict[Names, list[plan.Plan]]:
    """The plans of each kernel, which are alternatives, by the names of its regions, in order."""
    found: dict[Names, list[plan.Plan]] = {}
    for one in planned.plans:
        found.setdefault(one.regions, []).append(one)
    return found


def tune(
    planned: plan.Module,
    listed: Mapping[Names, Sequence[plan.Plan]],
    sizes: Mapping[str, int],
    seconds: float,
    tried: Tried,
) -> plan.Module:
    """The program with the winners of `listed`, which has candidates for each kernel; `tried` measures those of one.
    The kernels share the time evenly. Raises Refused (E1591)."""
    until = time.monotonic() + seconds
    plans: list[plan.Plan] = []
    for left, (names, candidates) in zip(range(len(listed), 0, -1), listed.items()):
        program = alone(planned.program, names, dict(sizes))
        plans += tried(program, candidates, sizes_in(program), max(0.0, until - time.monotonic()) / left).plans
    return replace(planned, plans=tuple(plans))


def with_winners(
    planned: plan.Module, sizes: Mapping[str, int], device: str, compiler: str
) -> tuple[plan.Module, list[plan.Plan], list[plan.Plan]]:
    """The program with the plans that won before at these sizes; which those are (the first of each kernel); and the
    plans whose winners were kept by a version that took other fields."""
    winners: list[plan.Plan] = []
    outdated: list[plan.Plan] = []

    def chosen() -> Iterator[plan.Plan]:
        for names, plans in kernels_of(planned).items():
            place = alone(planned.program, names, dict(sizes)), device, compiler
            won = load_winner(*place)
            winners.extend(won[:1])
            outdated.extend(plans[:1] if not won and is_outdated(*place) else ())
            yield from won or plans

    return replace(planned, plans=tuple(chosen())), winners, outdated


def sizes_in(program: region.Module) -> dict[str, int]:
    """The sizes that a region alone was made for."""
    return dict(program.model.shape_sets[0].sizes) if program.model.shape_sets else {}
