"""Which kernels a program becomes: regions that are several, prologues that are one, long sums that are two, siblings
that share a launch."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from ...analysis.regions import analyse
from ...analysis.traffic import fills_card
from ...analysis.work import work_of
from ...ir import region
from ...ir.body import Read
from ...ir.in_place import may_be_read_later
from ...ir.prove_region import check_proofs
from ...ir.traits import extent_of, needed_lets, nodes_of, sizes_of
from ...kernels.alternatives import bound_columns, widen_masks
from ...kernels.alternatives.fold_in_steps import fold_in_steps
from ...kernels.alternatives.halve_maps import halve_maps
from ...kernels.alternatives.join_products import joined
from ...kernels.alternatives.materialize_prologues import least_times, materialize_prologues
from ...kernels.alternatives.pair_products import gated
from ...kernels.alternatives.part_region import part_region
from ...kernels.alternatives.parts import Names, Surroundings, with_parts
from ...kernels.alternatives.read_pages import copies_of_pages, with_pages
from ...kernels.alternatives.scan_in_steps import scan_in_steps
from ...kernels.alternatives.split_columns import ways
from ...kernels.alternatives.split_siblings import split_siblings
from ...kernels.alternatives.sum_in_steps import sum_in_steps
from ...kernels.alternatives.together import Together
from ...kernels.alternatives.turn_buffers import Turned, turn_buffers
from ...kernels.alternatives.turn_columns import turned_columns
from ...kernels.alternatives.turn_constants import turn_constants
from ...kernels.alternatives.work_once import work_once
from ...kernels.attention import streaming_of
from ...kernels.candidate import Regions
from ...kernels.siblings import are_neighbours, siblings_in, siblings_of
from ...kit.phrase import Phrase
from ...kit.records import dataclass, replace
from .choose import card_of, readers_of
from .planner import Planner

MOST_SIBLINGS = 8  # of one launch: each has parameters of its own
WORTH = 0.9  # of the time of attention alone: a kernel before, whose rows begin anywhere, takes longer than priced
Rewrite = Callable[[region.Region, Surroundings], tuple[region.Region, ...]]
# of one region into several, each a kernel, in this order; by the remark that says so
REWRITES: dict[str, Rewrite] = {"R3482": work_once, "R3467": split_siblings, "R3468": part_region}
IN_STEPS: dict[str, Rewrite] = {"R3471": fold_in_steps, "R3472": scan_in_steps}  # the same, once the orders are known


@dataclass(frozen=True, slots=True)
class Step:
    """A rewrite of a whole program: the code of the remark that tells of it, the module before and after it, and what
    was done."""

    code: str
    before: region.Module
    after: region.Module
    done: Any


def steps(module: region.Module, planner: Planner, is_told: bool = False) -> Iterator[Step]:
    """The rewrites that give a program a region for each kernel, one after another; `is_told`: with the exact times of
    buffers in other orders."""
    module = needed_only(module)
    has_tma = planner.card.arch.has_tma
    ways: dict[str, Callable[[region.Module, Planner], tuple[region.Module, Any]]] = {
        **{code: _in_parts_by(rewrite) for code, rewrite in REWRITES.items()},
        "R3484": products_together,
        "R3477": partial(in_orders, is_told=is_told),
        **{code: _in_parts_by(rewrite) for code, rewrite in IN_STEPS.items()},
        "R3486": _in_parts_by(halve_maps),
        "R3481": pages_read,
        "R3483": columns_bounded,
        "R3485": masks_widened,
        "R3480": columns_split,
        "R3478": lambda module, planner: turn_constants(module, planner.us),
        "R3470": lambda module, planner: materialize_prologues(module, planner.us, has_tma, planner.least_us),
        "R3473": _sums_in_steps,
    }
    for code, way in ways.items():
        after, done = way(module, planner)
        yield Step(code, module, after, done)
        module = after


def kernels_for(module: region.Module, planner: Planner) -> region.Module:
    """The module with a region for each kernel."""
    *_, last = steps(module, planner)
    return last.after


def needed_only(module: region.Module) -> region.Module:
    """The module without values that no write needs: a kernel would compute them for nobody."""
    return with_parts(module, {one.name: (_needed_of(one),) for one in module.program.regions})


def _needed_of(one: region.Region) -> region.Region:
    kept = needed_lets(one)
    if len(kept) == len(one.lets):
        return one
    made = replace(one, lets=kept)
    gone = {n.tensor for n in nodes_of(one) if isinstance(n, Read)}
    gone -= {n.tensor for n in nodes_of(made) if isinstance(n, Read)}
    if any(t.name in gone and t.attr("materialize") == "deferred" for t in one.inputs):
        return one  # what is handed to it on the chip has no other reader
    made = replace(made, inputs=tuple(t for t in one.inputs if t.name not in gone))
    return replace(made, analysis=analyse(made))


def in_orders(
    module: region.Module, planner: Planner, is_told: bool = True
) -> tuple[region.Module, tuple[Turned, ...]]:
    """The module with buffers in the order of dims in which its kernels take least, and which were turned; unless that
    `is_told`, without their exact times."""
    times = _Times(planner)
    return turn_buffers(module, times.of, None if is_told else times.least_of)


class _Times:
    """The microseconds of kernels of regions of a few modules, of a fold in steps where it is faster so. What is the
    same for all regions of one is done once."""

    def __init__(self, planner: Planner):
        self.planner = planner
        self._turned: list[tuple[region.Module, region.Module]] = []

    def of(self, module: region.Module, wanted: Container[str]) -> dict[str, float]:
        """Those of some regions."""
        planner, (names, joined) = self.planner, self._launched(module, wanted)
        turned = self._with_constants_turned(module)
        _, apart = materialize_prologues(turned, planner.us, planner.card.arch.has_tma, planner.least_us, names)
        found = {one.region.name: one.apart for one in apart} | self._in_steps(turned, names)
        times = {n: found[n] if n in found else planner.us(turned, turned.program.region(n)) for n in names}
        return {**times, **joined}

    def least_of(self, module: region.Module, wanted: Container[str]) -> Iterator[Mapping[str, float]]:
        """Times below which those are not, nearer and nearer."""
        planner, (names, joined) = self.planner, self._launched(module, wanted)
        turned = self._with_constants_turned(module)
        stepped = self._in_steps(turned, names)
        for least in least_times(turned, names, planner.us, planner.least_us, planner.card.arch.has_tma):
            yield {**least, **stepped, **joined}

    def _in_steps(self, module: region.Module, wanted: Sequence[str]) -> dict[str, float]:
        """Those of the wanted regions that are faster in steps."""
        kept = {r.name for r in module.program.regions}.difference(wanted)
        found: dict[str, float] = {}
        for rewrite in IN_STEPS.values():
            parts = {
                n: several for n, several in parts_by(rewrite, module, self.planner, kept).items() if len(several) > 1
            }
            stepped = with_parts(module, {r.name: parts.get(r.name, (r,)) for r in module.program.regions})
            found |= {n: sum(self.planner.us(stepped, one) for one in several) for n, several in parts.items()}
        return found

    def _launched(self, module: region.Module, wanted: Container[str]) -> tuple[list[str], dict[str, float]]:
        """The wanted regions that launches begin with; and those that share the kernel of another, whose time is this
        kernel's unless the other is wanted too."""
        first = {reader: name for name, reader in readers_of(module).items()}
        names = [r.name for r in module.program.regions if r.name in wanted]
        joined = {
            n: 0.0 if first[n] in wanted else self.planner.us(module, module.program.region(first[n]))
            for n in names
            if n in first
        }
        return [n for n in names if n not in first], joined

    def _with_constants_turned(self, module: region.Module) -> region.Module:
        for known, turned in self._turned:
            if known is module:
                return turned
        turned, _ = turn_constants(module, self.planner.us)
        self._turned.append((module, turned))
        return turned


def in_parts(module: region.Module, planner: Planner | None = None) -> region.Module:
    """The module with each region that is several kernels as a region for each; without `planner` for an H100."""
    planner = planner or Planner(card_of("sm90", None))
    for rewrite in (*REWRITES.values(), *IN_STEPS.values()):
        module, _ = _in_parts_by(rewrite)(module, planner)
    return module


def _in_parts_by(rewrite: Rewrite) -> Callable[[region.Module, Planner], tuple[region.Module, dict[str, Regions]]]:
    """A rewrite of one region into several as one of modules, with the regions that each became."""

    def way(module: region.Module, planner: Planner) -> tuple[region.Module, dict[str, Regions]]:
        several = parts_by(rewrite, module, planner)
        return with_parts(module, several), several

    return way


def products_together(
    module: region.Module, planner: Planner
) -> tuple[region.Module, tuple[tuple[region.Module, Together], ...]]:
    """The module with products of the same rows as one, and with what turns their columns in their kernels, wherever
    that takes less; and what was done, each time with the module before it."""
    found: list[tuple[region.Module, Together]] = []
    if not planner.card.arch.has_tma:  # no family of others sums two products at once
        return module, ()
    names = Names.of(module)
    for ways_of in (gated, joined, turned_columns):
        for way in ways_of(module):
            made = way(module, names)
            if made is None or any(check_proofs(made.module, one) for one in made.changed):
                continue
            touched = {*made.parts, *(one.name for one in made.changed)}
            if _us_of(made.module, touched, planner) < _us_of(module, touched, planner):
                found.append((module, made))
                module = made.module
                names.taken_by(made.changed)
    return module, tuple(found)


def _us_of(module: region.Module, names: Container[str], planner: Planner) -> float:
    """Microseconds of the launches that have regions of these names. Only regions that may share a launch with one of
    them are looked at."""
    regions = module.program.regions
    places = [at for at, one in enumerate(regions) if one.name in names]
    near = tuple(one for at, one in enumerate(regions) if any(abs(at - place) < MOST_SIBLINGS for place in places))
    part = replace(module, program=replace(module.program, regions=near))
    return sum(planner.us(part, *group) for group in launches(part, planner) if any(r.name in names for r in group))


def columns_split(module: region.Module, planner: Planner) -> tuple[region.Module, dict[str, Regions]]:
    """The module with each two regions that share a kernel in two steps, where these take less; and the regions that
    each first of them became with its reader."""
    found: dict[str, Regions] = {}
    for name, reader in readers_of(module).items():
        pair = module.program.region(name), module.program.region(reader)
        if pair[0].must_fuse or pair[1].must_fuse:
            continue
        _, way = _least_of_pair(module, pair, planner)
        if way:
            module, found[name] = in_two_steps(module, pair, way), way
    return module, found


def _least_of_pair(module: region.Module, pair: Regions, planner: Planner) -> tuple[float, Regions]:
    """What two regions that share a kernel take at the least, and the two steps in which they do; none for one
    kernel."""
    best: Regions = ()
    least = planner.us(module, pair[0])
    for way in ways(pair, sizes_of(module.model), planner.card.sms, Names.of(module)):
        other = in_two_steps(module, pair, way)
        if any(check_proofs(other, one) for one in way):
            continue
        # the kernel that combines starts early (`lower.gpu.early`): its start costs nothing
        time = planner.us(other, way[0]) + planner.us(other, way[2]) - planner.card.start_us
        if time < least:
            best, least = way, time
    return least, best


def columns_bounded(module: region.Module, planner: Planner) -> tuple[region.Module, dict[str, Regions]]:
    """The module with kernels that find which columns the rows of a block may see, before each two regions that share a
    kernel, where that takes less; and these regions with the one that reads them, by the name of that."""
    return _prepared(module, planner, bound_columns.ways)


def masks_widened(module: region.Module, planner: Planner) -> tuple[region.Module, dict[str, Regions]]:
    """The module with kernels that write anew what scores meet, before each two regions that share a kernel, where that
    takes less; and these regions with the one that reads it, by the name of that."""
    return _prepared(module, planner, partial(widen_masks.ways, sizes=sizes_of(module.model)), WORTH)


def _prepared(
    module: region.Module,
    planner: Planner,
    ways_of: Callable[[tuple[region.Region, region.Region], Names], Iterator[Regions]],
    worth: float = 1.0,
) -> tuple[region.Module, dict[str, Regions]]:
    """The module with other regions before each two that share a kernel, in the way that takes least, and less than
    `worth` of what they take alone; and these with the first of the two, by its name."""
    found: dict[str, Regions] = {}
    for name, reader in readers_of(module).items():
        pair = module.program.region(name), module.program.region(reader)
        if pair[0].must_fuse or pair[1].must_fuse:
            continue
        best, least = module, math.inf
        for way in ways_of(pair, Names.of(module)):
            other = with_parts(module, {one.name: (one,) for one in module.program.regions} | {name: way})
            if any(check_proofs(other, one) for one in way):
                continue
            time = sum(planner.us(other, one) for one in way)
            if time < min(least, worth * planner.us(module, pair[0])):
                best, least, found[name] = other, time, way
        module = best
    return module, found


def pages_read(module: region.Module, planner: Planner) -> tuple[region.Module, dict[str, tuple[str, ...]]]:
    """The module with pages read in place by each two regions that share a kernel, where that takes less than
    their copies; and the copies that are not made, by the first of the two."""
    found: dict[str, tuple[str, ...]] = {}
    known = copies_of_pages(module.program.regions)
    for name, reader in readers_of(module).items() if known else ():
        pair = module.program.region(name), module.program.region(reader)
        inputs = {t.name for one in pair for t in one.inputs}
        others = {t.name for one in module.program.regions if one not in pair for t in one.inputs}
        kept = others | {t.name for t in module.model.outputs}
        copies = {t: one for t, one in known.items() if t in inputs - kept and may_be_read_later(module, one)}
        if not copies or any(one.must_fuse for one in pair):
            continue
        other = _without(module, copies, {one.name: with_pages(one, copies) for one in pair})
        changed = tuple(other.program.region(one.name) for one in pair)
        if isinstance(streaming_of(*changed), str) or any(check_proofs(other, one) for one in changed):
            continue
        before = _least_of_pair(module, pair, planner)[0] + sum(planner.us(module, one) for one in copies.values())
        takes_less = _least_of_pair(other, changed, planner)[0] < before
        # no family reads pages of a cache without any: where sizes may be 0 the copies are made
        if takes_less and not planner.plans(other, *changed)[-1].assume:
            module, found[name] = other, tuple(one.name for one in copies.values())
    return module, found


def _without(
    module: region.Module, copies: Mapping[str, region.Region], changed: Mapping[str, region.Region]
) -> region.Module:
    """The module without copies, and with other regions in the place of some."""
    gone = {one.name for one in copies.values()}
    regions = tuple(changed.get(r.name, r) for r in module.program.regions if r.name not in gone)
    buffers = tuple(b for b in module.program.buffers if b.name not in copies)
    return replace(module, program=replace(module.program, buffers=buffers, regions=regions))


def in_two_steps(module: region.Module, pair: Regions, way: Regions) -> region.Module:
    """The module with the regions of two steps in the place of two, and without what these handed on."""
    gone = {t.name for t in pair[0].outputs} & {t.name for t in pair[1].inputs}
    program = replace(module.program, buffers=tuple(b for b in module.program.buffers if b.name not in gone))
    parts = {one.name: (one,) for one in module.program.regions} | {pair[0].name: way[:1], pair[1].name: way[1:]}
    return with_parts(replace(module, program=program), parts)


def launches(module: region.Module, planner: Planner) -> tuple[Regions, ...]:
    """The regions of each kernel: those that a deferred buffer joins, siblings that must share a launch or of which one
    alone would leave much of the card idle, else one."""
    joined = readers_of(module)
    siblings = {one.name: group for group in (*_siblings(module, planner), *_demanded(module)) for one in group}
    found: dict[Regions, None] = {}
    for one in module.program.regions:
        if one.name in joined.values():
            continue  # planned with the region that hands it its rows
        reader = module.program.region(joined[one.name]) if one.name in joined else None
        found[siblings.get(one.name, (one,) if reader is None else (one, reader))] = None
    return tuple(found)


def _siblings(module: region.Module, planner: Planner) -> tuple[Regions, ...]:
    """Those that share a launch: it takes less than one launch for each."""
    sizes = sizes_of(module.model)

    def is_small(one: region.Region) -> bool:
        return not fills_card(extent_of(one.iters).evaluate(sizes))

    def pays(group: Regions) -> bool:
        return planner.us(module, *group) <= sum(planner.us(module, one) for one in group)

    groups = (
        group[at : at + MOST_SIBLINGS]
        for is_demanded, run in groupby(module.program.regions, lambda r: bool(r.must_fuse))
        if not is_demanded
        for group in siblings_in(run)
        if all(map(is_small, group))
        for at in range(0, len(group), MOST_SIBLINGS)
    )
    return tuple(group for group in groups if len(group) > 1 and pays(group))


def _demanded(module: region.Module) -> Iterator[Regions]:
    """The siblings that must share a launch, each group where none of it is planned otherwise."""
    for one in module.program.regions:
        group = tuple(r for r in module.program.regions if r.name in one.must_fuse)
        if len(group) > 1 and one is group[0] and not why_apart(group, module):
            yield group


def why_apart(group: Regions, module: region.Module) -> str:
    """Why regions are not siblings that one launch can compute, in words; empty where they are."""
    if len(group) > MOST_SIBLINGS:
        return f"{len(group)} regions > {MOST_SIBLINGS}"
    if not are_neighbours(group, module.program.regions):
        return Phrase("other regions come between them")
    found = siblings_of(group)
    return found if isinstance(found, str) else ""


def _sums_in_steps(module: region.Module, planner: Planner) -> tuple[region.Module, dict[str, Regions]]:
    """The module with long sums cut, and the regions that each region became; siblings fill the card together."""
    several = parts_by(
        sum_in_steps, module, planner, {one.name for group in _siblings(module, planner) for one in group}
    )
    return with_parts(module, several), several


def parts_by(
    rewrite: Rewrite, module: region.Module, planner: Planner, kept: Container[str] = ()
) -> dict[str, Regions]:
    """The regions that each region becomes, by its name; what shares a kernel with another, or is among the `kept`,
    stays as it is."""
    names, joined, found = Names.of(module), readers_of(module), {}
    card, sizes = planner.card, sizes_of(module.model)

    def least_of(one: region.Region, launches: int) -> float:
        return launches * card.start_us + work_of(one, sizes).bytes / card.dram_bytes_per_us

    def is_kept(one: region.Region) -> bool:
        must_stay = one.must_fuse and rewrite is not split_siblings  # which may be one launch all the same
        return bool(must_stay) or one.name in joined or one.name in joined.values() or one.name in kept

    constants = module.model.constants()
    surroundings = Surroundings(names, lambda one: planner.us(module, one), sizes, least_of, constants)
    for one in module.program.regions:
        found[one.name] = (one,) if is_kept(one) else planner.parts_of(module, one, rewrite, surroundings)
        names.taken_by(found[one.name])
    for one in module.program.regions:
        shared = tuple(part.name for name in one.must_fuse for part in found[name])
        if shared and shared != one.must_fuse:
            found[one.name] = tuple(replace(part, must_fuse=shared) for part in found[one.name])
    return found
